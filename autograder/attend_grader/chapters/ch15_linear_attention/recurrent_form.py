"""Exercise 15_linear_attention/recurrent_form: write and read the memory, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import linear_attention as answers
from attend_solutions.linear_attention import expect_pairs

from attend_grader.chapters.ch15_linear_attention.shared import blanked, past_sums, qkv
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, refuses, worked
from attend_grader.checks.properties import normal


def case(
    rng: np.random.Generator, t: int, d: int, d_v: int, lead: tuple[int, ...] = (), *rest: int
) -> Call:
    """A text, and more arguments behind it."""
    return Call((*qkv(rng, t, t, d, d_v, lead), *rest))


def going_on(
    rng: np.random.Generator, t: int, d: int, d_v: int, lead: tuple[int, ...] = (), *rest: int
) -> Call:
    """A text with a memory of what came before."""
    return Call((*qkv(rng, t, t, d, d_v, lead), *rest), {"state": normal(rng, *lead, d, d_v)})


def _unequal(
    what: str, q: int, k: int, v: int, width: int = 3, keys: int = 3
) -> tuple[str, tuple[Any, ...]]:
    return what, (np.ones((q, width)), np.ones((k, keys)), np.ones((v, 2)))


UNEQUAL = (
    _unequal("fewer keys than queries", 4, 3, 3),
    _unequal("more keys than queries", 4, 5, 5),
    _unequal("one query, four keys", 1, 4, 4),
    _unequal("four queries, one key", 4, 1, 1),
    _unequal("more values than keys", 4, 4, 8),
    _unequal("one value, four keys", 4, 4, 1),
    _unequal("queries of width 1", 4, 4, 4, 1),
    _unequal("keys of width 1", 4, 4, 4, 3, 1),
    _unequal("queries wider than keys", 4, 4, 4, 5),
    _unequal("keys wider than queries", 4, 4, 4, 3, 5),
    _unequal("one token, whose key has width 1", 1, 1, 1, 3, 1),
    _unequal("one token with two values", 1, 1, 2),
)
"""Texts that do not fit, in each argument, broadcasting or not."""


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3, 2), (4, 4, 4), (7, 2, 3), (1, 3, 2), (70, 3, 2)):
        yield f"{sizes[0]} tokens", case(rng, *sizes)
    for place in (2, -1):
        yield BLANK, Call(blanked(qkv(rng, 5, 5, 3, 2), place, (1, 2)))


BLANK = "a token whose key and value are all zeros, and which reads what there is"


def faint(rng: np.random.Generator, *rest: int) -> Iterator[tuple[str, Call]]:
    """Nothing is as good as 0: queries of 1e10 read keys and a memory of 1e-10."""
    q, k, v = qkv(rng, 4, 4, 3, 2)
    state = {"state": 1e-10 * normal(rng, 3, 2)}
    yield (
        "keys and a memory of 1e-10, queries of 1e10",
        Call((1e10 * q, 1e-10 * k, v, *rest), state),
    )
    nothing = np.zeros_like(k)
    yield "only a memory of 1e-10, queries of 1e10", Call((1e10 * q, nothing, v, *rest), state)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((4, 3, 2), (1, 3, 3)):
        yield "a memory is given", going_on(rng, *sizes)
    state = {"state": normal(rng, 3, 2)}
    yield f"a memory, and {BLANK}", Call(blanked(qkv(rng, 3, 3, 3, 2), 0, (1, 2)), state)
    yield from faint(rng)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, leading axes, one token, values of width 1, a memory given.

    Where the memory is square there are more tokens than its width, so no slip depends on the
    length of the text alone.
    """
    return [
        case(rng, 5, 3, 2),
        case(rng, 4, 4, 4),
        case(rng, 3, 4, 2, (2,)),
        case(rng, 1, 3, 2),
        case(rng, 4, 3, 1),
        going_on(rng, 4, 3, 2),
        going_on(rng, 5, 3, 3),
        going_on(rng, 3, 2, 3, (2,)),
    ]


def matrix_state(q, k, v, state=None):  # noqa: D103 (what a learner is told is its slip's)
    output, last = past_sums(q, k, v, state)
    weights = np.tril(q @ np.swapaxes(k, -1, -2)).sum(axis=-1, keepdims=True)
    return output / np.where(weights == 0, 1.0, weights), last


WRITE = "        state = state + k[..., t, :, None] * v[..., t, None, :]  # (..., D, D_v)\n"
TAKE = "        outputs.append((q[..., t, None, :] @ state)[..., 0, :])\n"
SLIPS = (
    Slip(
        "reads before it writes",
        (WRITE + TAKE, TAKE + WRITE),
        "Every token reads the memory of the token before, so none sees itself. Write first, "
        "then read.",
    ),
    Slip(
        "the memory is replaced",
        ("state + k[..., t, :, None]", "k[..., t, :, None]"),
        "Each token sees itself only: the memory is replaced in each step. Add to what is there.",
    ),
    Slip(
        "a memory that was given is not used",
        ("if state is None:", "if True:"),
        "The memory starts empty although one is given. Start from zeros only where it is None.",
    ),
    Slip(
        "changes the memory it was given",
        ("state = state + k[..., t, :, None]", "state += k[..., t, :, None]"),
        "The memory that was given is changed in place. `+=` does so, also behind np.asarray, "
        "which copies nothing that is an array of floats already. Make a new one: state = state + "
        "….",
    ),
    Slip(
        "normalised",
        matrix_state,
        "Each output is divided by its sum of weights. Here the sums themselves are wanted.",
    ),
    Slip(
        "every token sees the whole text",
        ("@ state)[..., 0, :]", "@ (np.swapaxes(k, -1, -2) @ v))[..., 0, :]"),
        "Every token reads what the whole text writes, later tokens too, and no memory that was "
        "given. Read the memory after each write, not after the last.",
    ),
    Slip(
        "reads with the key",
        ("(q[..., t, None, :] @", "(k[..., t, None, :] @"),
        "The memory is read with the key. Write with k and read with q.",
    ),
    Slip(
        "writes with the query",
        ("k[..., t, :, None] * v", "q[..., t, :, None] * v"),
        "The memory is written with the query. Write with k and read with q.",
    ),
    Slip(
        "outputs put together along axis 0",
        ("np.stack(outputs, axis=-2)", "np.stack(outputs)"),
        "With leading axes, the outputs are put together in front of them, along axis 0. Count "
        "from the end: axis=-2.",
    ),
    Slip(
        "every axis of length 1 taken out",
        ("outputs.append((q[..., t, None, :] @ state)[..., 0, :])",
         "outputs.append((q[..., t, None, :] @ state).squeeze())"),
        "Where a leading axis or the values' width is 1, that one is taken out too, as squeeze() "
        "does, which takes every axis of length 1. Take out only the one that you put in: x[..., "
        "0, :], or squeeze(axis=-2).",
    ),
)  # fmt: skip


def cumulative(q, k, v, state=None):
    """All memories at once, as a cumulative sum of outer products."""
    expect_pairs(q, k, v)
    memories = np.cumsum(k[..., :, None] * v[..., None, :], axis=-3)
    if state is not None:
        memories = memories + state[..., None, :, :]
    return np.einsum("...td,...tde->...te", q, memories), memories[..., -1, :, :]


def masked_matrix(q, k, v, state=None):
    """The parallel form, by its T × T matrix."""
    expect_pairs(q, k, v)
    return past_sums(q, k, v, state)


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="The recurrent form",
    goal="Read a text token by token with a memory that never grows.",
    reference=answers.recurrent_form,
    contract=Contract(
        numpy_only=True,
        leading_axes=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        says=("`q`, `k` and `v` that do not fit raise a ValueError; a `state` always fits.",),
    ),
    properties=(
        worked(
            "a hand-worked example: the memory is 2, then 32",
            np.array([[1.0], [0.5]]),
            np.array([[2.0], [3.0]]),
            np.array([[1.0], [10.0]]),
            want=(np.array([[2.0], [16.0]]), np.array([[32.0]])),
        ),
        agrees("the outputs", _values, part=0),
        agrees("the memory after the last token", _values, part=1),
        agrees("goes on from a memory that is given", _goes_on),
        refuses(
            UNEQUAL,
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"cumulative sum": cumulative, "masked matrix": masked_matrix},
    hints=(
        "What does one token do to the memory, and in which order do writing and reading come, if "
        "a token is to see itself?",
        "Start with np.zeros((*k.shape[:-2], D, D_v)) where state is None. For each t add the "
        "outer product of k_t and v_t, then multiply q_t by the result; np.stack the rows.",
        "outer: k[..., t, :, None] * v[..., t, None, :]; read: (q[..., t, None, :] @ state)"
        "[..., 0, :]; at the end np.stack(rows, axis=-2) and the memory.",
    ),
    minutes=12,
    difficulty=2,
    importance=5,
    results=("output", "state"),
)
