"""Exercise 15_linear_attention/chunked_form: matrices inside a chunk, the memory between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import linear_attention as answers
from attend_solutions.flash import tiles
from attend_solutions.linear_attention import expect_pairs

from attend_grader.chapters.ch15_linear_attention.recurrent_form import (
    BLANK,
    UNEQUAL,
    case,
    faint,
    going_on,
)
from attend_grader.chapters.ch15_linear_attention.shared import blanked, cost, past_sums, qkv
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for t, d, d_v, chunk in ((6, 3, 2, 2), (7, 4, 4, 3), (5, 2, 3, 1), (4, 3, 2, 9)):
        yield f"{t} tokens in chunks of {chunk}", case(rng, t, d, d_v, (), chunk)
    yield "no chunk given", case(rng, 5, 3, 2)
    for where, what in ((2, BLANK), (slice(2, 4), "a chunk whose keys and values are all zeros")):
        yield what, Call((*blanked(qkv(rng, 6, 6, 3, 2), where, (1, 2)), 2))
    q, k, v = blanked(qkv(rng, 4, 4, 3, 2), -1, (0,))
    k[-1], v[-1] = 1e6 * k[0], 1e6 * v[0]
    for chunk in (1, 2):
        yield "a last pair of 1e6 that no query reads", Call((q, k, v, chunk))


def _any_chunk(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = qkv(rng, 7, 7, 3, 2)
    for chunk in (1, 2, 3, 6, 7, 20):
        yield f"the same numbers in chunks of {chunk}", (q, k, v, chunk), past_sums(q, k, v)
    q, k, v = qkv(rng, 130, 130, 3, 2)
    yield "130 tokens, no chunk given: three chunks", (q, k, v), past_sums(q, k, v)
    q, k, v = qkv(rng, 1_200, 1_200, 2, 1)
    yield "1,200 tokens in chunks of 1", (q, k, v, 1), past_sums(q, k, v)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for t, d, d_v, chunk in ((5, 3, 2, 2), (3, 3, 3, 1), (4, 2, 3, 8)):
        yield "a memory is given", going_on(rng, t, d, d_v, (), chunk)
    state = {"state": normal(rng, 3, 2)}
    blank = blanked(qkv(rng, 4, 4, 3, 2), slice(0, 2), (1, 2))
    yield "a memory, and a chunk whose keys and values are all zeros", Call((*blank, 2), state)
    yield from faint(rng, 2)


def _memory(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    return *qkv(rng, length, length, 8, 8), 16


def _four_chunks(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    return *qkv(rng, length, length, 8, 8), length // 4


def _ragged(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    """Two chunks, the second of a token less."""
    return *qkv(rng, length, length, 8, 8), length // 2 + 1


def _unfilled(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    """One chunk, which is not full."""
    return *qkv(rng, length, length, 8, 8), 2 * length


def _small(rng: np.random.Generator) -> tuple[Any, ...]:
    return *qkv(rng, 7, 7, 3, 2), 3


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, square, leading axes, chunks of one, one chunk, a memory given, with axes too."""
    return [
        case(rng, 5, 3, 2, (), 2),
        case(rng, 6, 4, 4, (), 3),
        case(rng, 4, 4, 2, (2,), 3),
        case(rng, 4, 2, 3, (), 1),
        case(rng, 3, 3, 2, (), 64),
        going_on(rng, 5, 3, 2, (), 2),
        going_on(rng, 4, 4, 4, (), 3),
        going_on(rng, 2, 3, 3, (), 2),
        going_on(rng, 3, 2, 3, (2,), 2),
    ]


def one_matrix(q, k, v, chunk=64, state=None):  # noqa: D103 (what a learner is told is its slip's)
    expect_pairs(q, k, v)
    tiles(q.shape[-2], chunk)
    return past_sums(q, k, v, state)


def token_by_token(q, k, v, chunk=64, state=None):  # noqa: D103
    tiles(q.shape[-2], chunk)
    expect_pairs(q, k, v)
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state
    rows = []
    for t in range(q.shape[-2]):
        state = state + k[..., t, :, None] * v[..., t, None, :]
        rows.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(rows, axis=-2), state


ADD = "        state = state + turned @ values\n"
READ = "        outputs.append(asked @ state + inside)\n"
SLIPS = (
    Slip(
        "one matrix for the whole text",
        one_matrix,
        "Values are right, but a T × T matrix is made, whatever the chunk is.",
    ),
    Slip(
        "more steps for longer chunks",
        token_by_token,
        "Values are right, but four chunks take more steps the longer they are. Loop over `parts` "
        "alone: inside a chunk do all tokens at once, with a small masked matrix.",
    ),
    Slip(
        "the memory is never read",
        ("asked @ state + inside", "inside"),
        "Each chunk sees only itself: neither what earlier chunks wrote nor a memory that was "
        "given is read. Add q times the memory from before the chunk.",
    ),
    Slip(
        "only the memory is read",
        ("asked @ state + inside", "asked @ state"),
        "Each chunk sees only the memory from before it. Add what the chunk says about itself: "
        "tril(q kᵀ) v.",
    ),
    Slip(
        "no mask inside a chunk",
        ("np.tril(asked @ turned)", "(asked @ turned)"),
        "Inside a chunk a token sees later tokens. Keep the lower triangle of q kᵀ: np.tril.",
    ),
    Slip(
        "a token does not see itself",
        ("np.tril(asked @ turned)", "np.tril(asked @ turned, -1)"),
        "A token does not see its own value. Keep the diagonal of q kᵀ, as np.tril(x) does.",
    ),
    Slip(
        "the memory is updated first",
        (READ + ADD, ADD + READ),
        "The chunk is in the memory already when that is read: a token and its past in the chunk "
        "count twice, and later tokens of the chunk leak. Read first, then add the chunk.",
    ),
    Slip(
        "only the last chunk is remembered",
        ("state = state + turned @ values", "state = turned @ values"),
        "The memory holds the last chunk only. Add every chunk to it.",
    ),
    Slip(
        "a memory that was given is not used",
        ("if state is None:", "if True:"),
        "The memory starts empty although one is given. Start from zeros only where it is None.",
    ),
    Slip(
        "changes the memory it was given",
        ("state = state + turned", "state += turned"),
        "The memory that was given is changed in place. `+=` does so, also behind np.asarray, "
        "which copies nothing that is an array of floats already. Make a new one: state = state + "
        "….",
    ),
)


def chunks_first(q, k, v, chunk=64, state=None):
    """What each chunk writes, summed before any of them reads."""
    expect_pairs(q, k, v)
    parts = tiles(q.shape[-2], chunk)
    wrote = [np.einsum("...sd,...se->...de", k[..., p, :], v[..., p, :]) for p in parts]
    before = np.zeros_like(wrote[0], dtype=float) if state is None else state
    outputs = []
    for part, written in zip(parts, wrote, strict=True):
        weights = np.einsum("...td,...sd->...ts", q[..., part, :], k[..., part, :])
        past = np.tri(weights.shape[-1], dtype=bool)
        inside = np.where(past, weights, 0.0) @ v[..., part, :]
        outputs.append(inside + q[..., part, :] @ before)
        before = before + written
    return np.concatenate(outputs, axis=-2), before


def filled_in(q, k, v, chunk=64, state=None):
    """Into an array made before, by starts; through the parallel form of each chunk."""
    expect_pairs(q, k, v)
    if chunk < 1:
        raise ValueError("a chunk needs at least 1 token")
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    for start in range(0, q.shape[-2], chunk):
        rows = (..., slice(start, start + chunk), slice(None))
        output[rows], state = past_sums(q[rows], k[rows], v[rows], state)
    return output, state


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="The chunked form",
    goal="The same numbers in few large steps, without a T × T matrix.",
    reference=answers.chunked_form,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v", "state"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        says=(
            "No table of T × T numbers (but for a chunk of T), and no loop over the tokens of a "
            "chunk.",
            "`q`, `k` and `v` that do not fit, and a chunk of less than 1, raise a ValueError.",
        ),
        forbids=("recurrent_form",),
    ),
    properties=(
        worked(
            "a hand-worked example: two chunks of one key each",
            np.array([[1.0], [0.5]]),
            np.array([[2.0], [3.0]]),
            np.array([[1.0], [10.0]]),
            1,
            want=(np.array([[2.0], [16.0]]), np.array([[32.0]])),
        ),
        agrees("the outputs", _values, part=0),
        agrees("the memory after the last chunk", _values, part=1),
        known("any chunk gives the same", _any_chunk),
        agrees("goes on from a memory that is given", _goes_on),
        cost(
            "memory grows with T, not with T × T",
            "peak_bytes",
            _memory,
            (128, 1024),
            16,
            "Something of T × T numbers is stored. The masked matrix is made for one chunk.",
            _small,
        ),
        cost(
            "four chunks take as many steps, however long they are",
            "steps",
            _four_chunks,
            (16, 1024),
            2,
            "Loop over `parts` alone: inside a chunk a masked matrix does for all tokens at once, "
            "also in one that is not full.",
            _small,
            (_ragged, (7, 255), 2),
            (_unfilled, (4, 128), 2),
        ),
        refuses(
            (
                *UNEQUAL,
                *((f"a chunk of {n} tokens", (*np.ones((3, 4, 2)), n)) for n in (0, -1, -64)),
                *(
                    (f"a chunk of {n} tokens for one token", (*np.ones((3, 1, 2)), n), *memory)
                    for n in (0, -1)
                    for memory in ((), ({"state": np.ones((2, 2))},))
                ),
            ),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"all chunks written first": chunks_first, "filled in": filled_in},
    hints=(
        "A token's past has two parts: the chunks before its own, which are in the memory, and "
        "the tokens of its own chunk up to itself.",
        "For each slice in `parts`: q @ state is the first part, np.tril(q kᵀ) @ v of this chunk "
        "the second. Then add kᵀ v of this chunk to the memory.",
        "asked, keys, values = q[..., part, :], …; turned = np.swapaxes(keys, -1, -2); output "
        "asked @ state + np.tril(asked @ turned) @ values; state = state + turned @ values. "
        "np.concatenate along axis -2.",
    ),
    minutes=18,
    difficulty=3,
    importance=5,
    results=("output", "state"),
)
