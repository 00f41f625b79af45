"""Exercise 22_gated_recurrence/retention_recurrent: a memory that fades with every token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import gated_recurrence as answers
from attend_solutions.linear_attention import expect_pairs

from attend_grader.chapters.ch22_gated_recurrence.shared import (
    INT64,
    REFUSED,
    WHOLE,
    between,
    faint,
    long_texts,
    loop,
    many_decays,
    misfits,
    nearly_gone,
    one_product,
    qkv,
    shared_decays,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.sizes import AS_DRAWN


def case(
    rng: np.random.Generator, t: int, d: int, d_v: int, *rest: int, lead: tuple[int, ...] = ()
) -> Call:
    """A text and a decay for each leading index, and more arguments behind them."""
    return Call((*qkv(rng, t, d, d_v, lead), between(rng, 0.3, 0.95, *lead), *rest))


def going_on(
    rng: np.random.Generator, t: int, d: int, d_v: int, *rest: int, lead: tuple[int, ...] = ()
) -> Call:
    """A text with a memory of what came before."""
    args = case(rng, t, d, d_v, *rest, lead=lead).args
    return Call(args, {"state": normal(rng, *lead, d, d_v)})


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3, 2), (4, 4, 4), (7, 2, 3), (1, 3, 2)):
        yield f"{sizes[0]} tokens", case(rng, *sizes)
    yield "a decay as a plain number", Call((*qkv(rng, 4, 3, 2), 0.75))


def _heads(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "3 heads, one decay each", case(rng, 5, 3, 2, lead=(3,))
    yield from shared_decays(rng)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((4, 3, 2), (1, 3, 3)):
        yield "a memory is given", going_on(rng, *sizes)
    yield "as many texts as tokens, each with a memory", going_on(rng, 4, 3, 3, lead=(4,))


def _limits(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = qkv(rng, 6, 3, 2)
    summed = np.tril(q @ k.T) @ v, k.T @ v
    yield "decay 1: chapter 15's sum", (q, k, v, 1.0), summed
    one = np.eye(5)[:, :1]  # the first token writes, the others do not
    left = 0.5 ** np.arange(5.0)[:, None]
    yield "one token, half of it left a step", (one + 1 - one, one, one, 0.5), (left, left[-1:])
    q, k, v = qkv(rng, 400, 2, 2)
    yield "400 tokens, a decay of 1/8", (q, k, v, 0.125), loop(q, k, v, np.full_like(k, 0.125))
    for q, k, v, decay in (nearly_gone(rng, 300), faint(rng)):
        want = loop(q, k, v, np.full_like(k, decay))
        yield "1e-12 is left of a value of 1e12", (q, k, v, decay), want
    for q, k, v, decay in (one_product(5), one_product(300)):
        want = loop(q, k, v, np.full_like(k, decay))
        yield "1e-40 is left of a product of 1e36", (q, k, v, decay), want
    given, want = many_decays(rng)
    yield "300 tokens, decays from 1e-12 to 1, some nearly the same", given, want


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, two heads, one token, a memory given, also one that stays."""
    *kept, _ = case(rng, 4, 3, 2).args
    return [
        case(rng, 5, 3, 2),
        case(rng, 4, 4, 4),
        case(rng, 3, 4, 2, lead=(2,)),
        case(rng, 1, 3, 2),
        going_on(rng, 4, 3, 2),
        going_on(rng, 3, 3, 3),
        Call((*kept, np.array(1.0)), {"state": normal(rng, 3, 2)}),
    ]


WRITE = "        state = decay * state + k[..., t, :, None] * v[..., t, None, :]  # (..., D, D_v)\n"
READ = "        outputs.append((q[..., t, None, :] @ state)[..., 0, :])\n"
FADES = "decay * state + k"
SLIPS = (
    Slip(
        "nothing fades",
        (FADES, "state + k"),
        "The memory is a plain sum: nothing fades. Multiply what is there by the decay first.",
    ),
    Slip(
        "what is new fades at once",
        (
            "decay * state + k[..., t, :, None] * v[..., t, None, :]",
            "decay * (state + k[..., t, :, None] * v[..., t, None, :])",
        ),
        "A token's own pair has faded by one step when it is read. Only what was there before "
        "should fade: decay · S + k vᵀ.",
    ),
    Slip(
        "reads before it writes",
        (WRITE + READ, READ + WRITE),
        "Every token reads the memory as it was before that token, so none sees itself. Fade and "
        "write first, then read.",
    ),
    Slip(
        "fades by 1 - decay",
        (FADES, "(1 - decay) * state + k"),
        "The memory keeps 1 − decay of what was there. The decay should be what is left, not what "
        "goes.",
    ),
    Slip(
        "what is new is made smaller",
        (FADES, "decay * state + (1 - decay) * k"),
        "What is written is multiplied by 1 − decay, as in a running mean. Write a pair in full.",
    ),
    Slip(
        "fades more with every token",
        (FADES, "decay**t * state + k"),
        "The memory fades by decay^t at token t, counted from 0. Each step should fade it once, "
        "by the decay itself.",
    ),
    Slip(
        "a memory that was given is not used",
        ("if state is None:", "if True:"),
        "The memory starts empty although one is given. Start from zeros only where it is None.",
    ),
    Slip(
        "a given memory does not fade at the first token",
        (FADES, "(decay if t else 1) * state + k"),
        "A memory that is given has not faded when the first token reads it. It should fade at "
        "every token, the first of the text too: what was given came before.",
    ),
    Slip(
        "one decay for all heads",
        (FADES, "decay.ravel()[0] * state + k"),
        "All heads fade by the first decay. Each should fade by its own: after the given line "
        "`decay` fits a memory as it is.",
    ),
    Slip(
        "fades after it is read",
        ((FADES, "state + k"), (READ, READ + "        state = decay * state\n")),
        "The memory fades after it was read. So pairs have faded once too often in the memory "
        "that is returned, and a memory that was given once too little in the outputs. Fade "
        "first, then write, then read.",
    ),
)  # fmt: skip


def by_ages(q, k, v, decay, state=None):
    """All at once, by the age of each pair; what was given fades as well."""
    expect_pairs(q, k, v)
    rate = np.asarray(decay, dtype=float)[..., None, None]
    steps = np.arange(q.shape[-2])
    age = steps[:, None] - steps
    weights = np.where(age >= 0, rate ** abs(age), 0.0) * np.einsum("...td,...sd->...ts", q, k)
    left = rate ** (len(steps) - 1 - steps[:, None]) * k
    last = np.einsum("...sd,...se->...de", left, v)
    if state is None:
        return weights @ v, last
    older = rate ** (steps[:, None] + 1) * (q @ state)
    return weights @ v + older, last + rate ** len(steps) * state


def filled_in(q, k, v, decay, state=None):
    """Into an array made before; outer products as einsum."""
    expect_pairs(q, k, v)
    rate = np.asarray(decay)[..., np.newaxis, np.newaxis]
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    memory = 0.0 if state is None else state
    for t in range(q.shape[-2]):
        memory = rate * memory + np.einsum("...d,...e->...de", k[..., t, :], v[..., t, :])
        output[..., t, :] = np.einsum("...d,...de->...e", q[..., t, :], memory)
    return output, memory


EXERCISE = Exercise(
    chapter="22_gated_recurrence",
    title="Retention, token by token",
    goal="Let the memory fade a little with every token.",
    reference=answers.retention_recurrent,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v", "decay", "state"),
        shared=("decay",),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"decay": AS_DRAWN},
        whole=WHOLE,
        says=(
            INT64,
            "Texts may have thousands of tokens.",
            REFUSED,
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: 8, then 4, then 2 + 2",
            np.ones((3, 1)),
            np.ones((3, 1)),
            np.array([[8.0], [0.0], [2.0]]),
            0.5,
            want=(np.array([[8.0], [4.0], [4.0]]), np.array([[4.0]])),
        ),
        agrees("the outputs", _values, part=0),
        agrees("the memory after the last token", _values, part=1),
        agrees("each head has a decay of its own", _heads),
        agrees("goes on from a memory that is given", _goes_on),
        known("decay 1; one token alone; a long text", _limits),
        refuses(misfits(0.5)),
    ),
    draws=draws,
    wide=lambda rng: long_texts(rng, 3_200),
    slips=SLIPS,
    alternatives={"by ages": by_ages, "filled in": filled_in},
    hints=(
        "It is recurrent_form of chapter 15 with one factor more. Where does it stand, if a token "
        "is to see its own pair in full?",
        "Zeros (D, D_v) with the leading axes of k where state is None. For each t: multiply the "
        "memory by `decay`, add the outer product of k_t and v_t, then read with q_t.",
        "state = decay * state + k[..., t, :, None] * v[..., t, None, :], then (q[..., t, None, :] "
        "@ state)[..., 0, :]; np.stack(rows, axis=-2) and the memory at the end.",
    ),
    minutes=10,
    difficulty=1,
    importance=5,
    results=("output", "state"),
)
