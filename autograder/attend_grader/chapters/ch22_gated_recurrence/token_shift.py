"""Exercise 22_gated_recurrence/token_shift: mix each token with the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import gated_recurrence as answers

from attend_grader.chapters.ch22_gated_recurrence.shared import between
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import normal


def case(
    rng: np.random.Generator, t: int, c: int, lead: tuple[int, ...] = (), *, last: bool = False
) -> Call:
    """A text, a mix for each channel, and maybe the token before the text."""
    before = {"last": normal(rng, *lead, c)} if last else {}
    return Call((normal(rng, *lead, t, c), between(rng, 0.1, 0.9, c)), before)


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3), (4, 4), (1, 3), (7, 1)):
        yield f"{sizes[0]} tokens", case(rng, *sizes)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((4, 3), (1, 3), (3, 3)):
        yield "the token before is given", case(rng, *sizes, last=True)
    yield "as many texts as tokens, a token before each", case(rng, 3, 2, (3,), last=True)


def _limits(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    x = normal(rng, 5, 3)
    moved = np.vstack([np.zeros(3), x[:-1]])
    yield "a mix of 1: nothing changes", (x, np.ones(3)), (x, x[-1])
    yield "a mix of 0: every token is the one before", (x, np.zeros(3)), (moved, x[-1])
    half = np.array([1.0, 0.0, 0.5])
    want = np.stack([x[:, 0], moved[:, 1], (x[:, 2] + moved[:, 2]) / 2], axis=1)
    yield "each channel has its own mix", (x, half), (want, x[-1])


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, square, leading axes, one token, a token before."""
    return [
        case(rng, 5, 3),
        case(rng, 4, 4),
        case(rng, 3, 4, (2,)),
        case(rng, 1, 3),
        case(rng, 4, 3, last=True),
        case(rng, 3, 3, (2,), last=True),
    ]


def wide(rng: np.random.Generator) -> list[Call]:
    """A long text."""
    return [case(rng, 1_200, 2), case(rng, 1_200, 2, last=True)]


BEFORE = "np.concatenate([last[..., None, :], x[..., :-1, :]], axis=-2)"
MIXED = "mix * x + (1 - mix) * before"
SLIPS = (
    Slip(
        "the mix is of the token before",
        (MIXED, "(1 - mix) * x + mix * before"),
        "`mix` multiplies the token before. It should be the share of the token itself.",
    ),
    Slip(
        "shifted the wrong way",
        (BEFORE, "np.concatenate([x[..., 1:, :], last[..., None, :]], axis=-2)"),
        "Each token but the last is mixed with the one after it, so the model sees the future.",
    ),
    Slip(
        "the last token wraps round",
        (BEFORE, "np.roll(x, 1, axis=-2)"),
        "The first token is mixed with the last one of the text, as if by np.roll. Before the "
        "first token should stand `last`, or zeros.",
    ),
    Slip(
        "the first token is mixed with itself",
        (BEFORE, "np.concatenate([x[..., :1, :], x[..., :-1, :]], axis=-2)"),
        "The first token is mixed with itself. Before it should stand `last`, or zeros.",
    ),
    Slip(
        "the token before the text is not used",
        ("if last is None:", "if True:"),
        "The token before the text is taken for zeros although it is given.",
    ),
    Slip(
        "what is kept was mixed",
        ("before, x[..., -1, :]", "before, (mix * x + (1 - mix) * before)[..., -1, :]"),
        "The second result is the last mixed token. The next part of the text needs the token "
        "itself.",
    ),
    Slip(
        "the first token is kept",
        ("before, x[..., -1, :]", "before, x[..., 0, :]"),
        "The second result is the first token. It should be the last one, for the next part of "
        "the text.",
    ),
    Slip(
        "all tokens before",
        (MIXED, MIXED.replace("before", "np.cumsum(before, axis=-2)")),
        "Each token is mixed with the sum of all tokens before. Mix it with the one right before.",
    ),
    Slip(
        "the token before is mixed already",
        (
            BEFORE,
            "np.stack([last] + [last := mix * x[..., t, :] + (1 - mix) * last "
            "for t in range(x.shape[-2] - 1)], axis=-2)",
        ),
        "Each token is mixed with the result for the token before, so all that came earlier is in "
        "it. Mix it with the token before as it is in x.",
    ),
    Slip(
        "the token before is added in full",
        (MIXED, "mix * x + before"),
        "The token before is added in full: its share should be 1 − mix.",
    ),
)  # fmt: skip


def in_place(x, mix, last=None):
    """A copy that is moved, then mixed as a step from the token before."""
    before = np.zeros(x.shape, dtype=np.result_type(x, float))
    before[..., 1:, :] = x[..., :-1, :]
    if last is not None:
        before[..., 0, :] = last
    return before + mix * (x - before), x[..., -1, :].copy()


def by_steps(x, mix, last=None):
    """Token by token."""
    last = 0.0 * x[..., 0, :] if last is None else last
    rows = []
    for t in range(x.shape[-2]):
        rows.append(x[..., t, :] * mix + last - last * mix)
        last = x[..., t, :]
    return np.stack(rows, axis=-2), last


EXERCISE = Exercise(
    chapter="22_gated_recurrence",
    title="Token shift",
    goal="Mix every token with the one before it, and keep what the next part needs.",
    reference=answers.token_shift,
    contract=Contract(
        numpy_only=True,
        leading_axes=("x", "last"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"x": (-1e3, 1e3), "last": (-1e3, 1e3)},
    ),
    properties=(
        worked(
            "a hand-worked example: 6, then 3 + 2",
            np.array([[8.0], [4.0]]),
            np.array([0.75]),
            want=(np.array([[6.0], [5.0]]), np.array([4.0])),
        ),
        agrees("the mixed tokens", _values, part=0),
        agrees("what is kept for the next part", _values, part=1),
        agrees("goes on after a token that is given", _goes_on),
        known("mixes of 1, 0 and one a channel", _limits),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"in place": in_place, "by steps": by_steps},
    hints=(
        "Write the table of the tokens before first: which row stands at its top, and which row "
        "of x does it lack?",
        "np.concatenate puts `last` (with one axis more) in front of x[..., :-1, :]. It has the "
        "shape of x then.",
        "last = np.zeros_like(x[..., 0, :]) where it is None; before = np.concatenate([last[..., "
        "None, :], x[..., :-1, :]], axis=-2); return mix * x + (1 - mix) * before, x[..., -1, :].",
    ),
    minutes=6,
    difficulty=1,
    importance=3,
    results=("mixed", "last"),
)
