"""Exercise 22_gated_recurrence/gated_linear_attention: each token chooses what fades, in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import gated_recurrence as answers
from attend_solutions.flash import tiles
from attend_solutions.linear_attention import expect_pairs

from attend_grader.chapters.ch22_gated_recurrence.shared import (
    INT64,
    PLAIN,
    WHOLE,
    between,
    cheap,
    large_at_last,
    loop,
    misfits,
    no_chunks,
    one_product,
    qkv,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal


def case(
    rng: np.random.Generator, t: int, d: int, d_v: int, *rest: int, lead: tuple[int, ...] = ()
) -> Call:
    """A text with gates of every row and token; more arguments behind them."""
    return Call((*qkv(rng, t, d, d_v, lead), -between(rng, 0.0, 1.5, *lead, t, d), *rest))


def _going_on(
    rng: np.random.Generator, t: int, d: int, d_v: int, chunk: int, lead: tuple[int, ...] = ()
) -> Call:
    args = case(rng, t, d, d_v, chunk, lead=lead).args
    return Call(args, {"state": normal(rng, *lead, d, d_v)})


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((7, 3, 2, 2), (8, 4, 4, 3), (5, 2, 3, 1), (4, 3, 2, 9)):
        yield f"{sizes[0]} tokens in chunks of {sizes[3]}", case(rng, *sizes)
    yield "no chunk given", case(rng, 5, 3, 2)
    q, k, v, *rest = case(rng, 5, 3, 2).args
    for chunk in (1, 3):
        why = f"a last value of 1e12 that no query reads, chunks of {chunk}"
        yield why, Call((*large_at_last(q, k, v), *rest, chunk))


def _any_chunk(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v, gates = case(rng, 3_200, 2, 2).args
    want = loop(q, k, v, np.exp(gates))
    yield "3,200 tokens in chunks of 1", (q, k, v, gates, 1), want
    q, k, v, gates = case(rng, 9, 3, 2).args
    want = loop(q, k, v, np.exp(gates))
    for chunk in (1, 2, 4, 9, 20):
        yield f"the same numbers in chunks of {chunk}", (q, k, v, gates, chunk), want
    q, k, v, gates = case(rng, 150, 2, 2).args
    want = loop(q, k, v, np.exp(gates))
    yield "150 tokens in chunks of 120", (q, k, v, gates, 120), want
    q, k, v = qkv(rng, 300, 2, 2)
    gates = np.zeros_like(k) - [3e-7, 9e-7]
    want = loop(q, k, v, np.exp(gates))
    yield "300 tokens, gates of −3e-7 and −9e-7", (q, k, v, gates), want


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3, 2, 2), (3, 3, 3, 1), (4, 2, 3, 8)):
        yield "a memory is given", _going_on(rng, *sizes)
    yield "as many texts as tokens, each with a memory", _going_on(rng, 4, 3, 3, 2, (4,))


def _limits(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = qkv(rng, 6, 3, 2)
    yield "gates of 0: chapter 15's sum", (q, k, v, 0 * k, 4), (np.tril(q @ k.T) @ v, k.T @ v)
    closed = 0 * k
    closed[3] = -1000.0
    parted = np.tril(q @ k.T)
    parted[3:, :3] = 0.0
    want = parted @ v, k[3:].T @ v[3:]
    yield "a gate of −1000 at token 4 forgets all before it", (q, k, v, closed, 4), want
    strong = np.full_like(k, -1000.0)
    alone = (q * k).sum(axis=1, keepdims=True) * v
    want = alone, np.outer(k[-1], v[-1])
    yield "gates of −1000: each token sees itself only", (q, k, v, strong, 6), want
    first = np.arange(6)[:, None] < 3
    asked = np.where(first, 0.0, q)  # what these read would hide the rest
    large = np.where(first, 1e12 * v, v)
    want = np.tril(asked @ k.T)[:, 3:] @ v[3:], k[3:].T @ v[3:]
    for chunk in (2, 4, 6):
        yield "a gate of −1000 forgets values of 1e12", (asked, k, large, closed, chunk), want
    nearly, large = 0.027 * closed, np.where(first, np.exp(27.0) * v, v)
    want = loop(asked, k, large, np.exp(nearly))
    for chunk in (2, 4, 6):
        yield "a gate of −27, values of e^27", (asked, k, large, nearly, chunk), want
    large, strong = np.full((2, 1), 1e12), np.full((2, 1), -344.0)
    given = np.ones((2, 1)), large, np.ones((2, 1)), strong, 2
    yield "keys of 1e12, two gates of −344", given, (large, large[:1])
    numbers, gates = 1e12 * np.eye(2)[:, :1], np.array([[0.0], [-100.0]])
    faint = 1e36 * np.exp(-100.0)
    for chunk in (1, 2):
        given = 1e12 * np.ones((2, 1)) * [[0.0], [1.0]], numbers, numbers, gates, chunk
        why = "a gate of −100, and three numbers of 1e12 beside it"
        yield why, given, (np.array([[0.0], [faint]]), np.array([[faint / 1e12]]))
    for t, chunk in ((5, 2), (300, 64), (300, 300)):
        q, k, v, decay = one_product(t)
        gates = np.full_like(k, np.log(decay))
        want = loop(q, k, v, np.exp(gates))
        why = f"{t} gates leave 1e-40 of a product of 1e36, chunks of {chunk}"
        yield why, (q, k, v, gates, chunk), want


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, square, leading axes, chunks of one, one chunk, a memory given, a strong gate."""
    strong = case(rng, 5, 3, 3, 5)
    strong.args[3][2] = -900.0
    return [
        case(rng, 7, 3, 2, 2),
        case(rng, 8, 4, 4, 3),
        case(rng, 5, 4, 2, 2, lead=(2,)),
        case(rng, 4, 2, 3, 1),
        case(rng, 3, 3, 2, 64),
        _going_on(rng, 5, 3, 2, 2),
        strong,
    ]


def wide(rng: np.random.Generator) -> list[Call]:
    """Long texts in memories that hardly fade, or not at all: what is old counts."""
    return [
        Call((*qkv(rng, 1_200, 2, 2), -between(rng, 0.0, most, 1_200, 2))) for most in (0.0, 0.05)
    ]


SUMS = "np.cumsum(gates[..., part, :], axis=-2)"
FADE = (
    'weights = np.tril(np.einsum("...td,...sd,...tsd->...ts", asked, keys, fade))',
    "weights = np.tril((asked * np.exp(total)) @ np.swapaxes(keys * np.exp(-total), -1, -2))",
)
SLIPS = (
    Slip(
        "powers that overflow",
        FADE,
        "It comes out as if queries were multiplied by e^b and keys by e^(−b): the second "
        "overflows once a sum b is far below 0 (NaN or infinity). Take e to the difference, which "
        "is at most 0 for j ≤ i.",
        seen="the first form of the GLA paper",
    ),
    Slip(
        "sums of gates are clipped",
        (SUMS, f"np.maximum({SUMS}, -80.0)"),
        "It comes out as if sums of gates went no lower than some bound: once it is reached, "
        "nothing fades in the rest of the chunk. Take differences of sums, which need no bound "
        "below.",
    ),
    Slip(
        "the memory is lost between chunks",
        ("np.swapaxes(np.exp(last), -1, -2) * state + ", ""),
        "Each chunk replaces the memory: what was there is lost. Let that fade, and add the chunk.",
    ),
    Slip(
        "the memory does not fade",
        ("np.swapaxes(np.exp(last), -1, -2) * state", "state"),
        "The memory is carried on as it was. Its rows must fade by e to the sum of the chunk's "
        "gates.",
    ),
    Slip(
        "a chunk's pairs go into the memory in full",
        ("keys * np.exp(last - total)", "keys"),
        "All pairs of a chunk are written in full. By its end they should have faded by the gates "
        "that came after them: e^(b_n − b_j), with b the running sum and n the chunk's last "
        "token.",
    ),
    Slip(
        "the memory is read as it was",
        ("(asked * np.exp(total)) @ state", "asked @ state"),
        "All tokens of a chunk read the memory as it was before it. For each it should have faded "
        "by the gates up to its own: take q times e^b.",
    ),
    Slip(
        "a token's gate fades its own pair",
        (
            (
                "total[..., :, None, :] - total[..., None, :, :]",
                "total[..., :, None, :] - (total - gates[..., part, :])[..., None, :, :]",
            ),
            ("keys * np.exp(last - total)", "keys * np.exp(last - total + gates[..., part, :])"),
        ),
        "Every pair has faded by its own gate, too. A gate should fade what was there before its "
        "token; then write the token's pair in full.",
    ),
    Slip(
        "gates summed from the text's beginning",
        (SUMS, "np.cumsum(gates, axis=-2)[..., part, :]"),
        "Gates are summed from the beginning of the text, so the memory fades anew for all chunks "
        "before. Each chunk's sum should begin with its own first gate.",
    ),
    Slip(
        "no mask inside a chunk",
        ("np.tril(np.einsum", "(np.einsum"),
        "Inside a chunk a token sees later ones: keep the lower triangle of the weights.",
    ),
    Slip(
        "a token's own gate is left out",
        (SUMS, f"({SUMS} - gates[..., part, :])"),
        "A token's own gate is not in its sum. It should fade what was there before the token "
        "writes and reads: np.cumsum includes it.",
    ),
)


def by_rows(q, k, v, gates, chunk=64, state=None):
    """One row of the memory at a time; the chunk's factors as a masked power of e."""
    expect_pairs(q, k, v)
    if gates.shape != k.shape:
        raise ValueError("a gate for each number of a key")
    memory = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else 1.0 * state
    rows = []
    for part in tiles(q.shape[-2], chunk):
        run = np.cumsum(gates[..., part, :], axis=-2)
        out = (np.exp(run) * q[..., part, :]) @ memory
        hidden = ~np.tri(run.shape[-2], dtype=bool)
        new = np.empty_like(memory)
        for d in range(k.shape[-1]):
            gap = run[..., :, None, d] - run[..., None, :, d]
            factor = np.exp(np.where(hidden, -np.inf, gap))
            scores = q[..., part, d, None] * k[..., None, part, d] * factor
            out = out + scores @ v[..., part, :]
            left = np.exp(run[..., -1:, d] - run[..., :, d]) * k[..., part, d]
            new[..., d, :] = np.einsum("...s,...se->...e", left, v[..., part, :])
        memory = np.exp(run[..., -1, :])[..., None] * memory + new
        rows.append(out)
    return np.concatenate(rows, axis=-2), memory


def by_outer_products(q, k, v, gates, chunk=64, state=None):
    """All memories of a chunk as a sum over its outer products."""
    expect_pairs(q, k, v)
    if gates.shape[-2:] != k.shape[-2:]:
        raise ValueError("gates need the shape of k")
    rows = []
    for part in tiles(q.shape[-2], chunk):
        run = np.cumsum(gates[..., part, :] * 1.0, axis=-2)
        pairs = k[..., part, :, None] * v[..., part, None, :]
        place = np.arange(run.shape[-2])
        gap = np.minimum(run[..., :, None, :] - run[..., None, :, :], 0.0)
        factor = np.exp(gap) * (place[:, None] >= place)[..., None]
        memories = np.einsum("...tsd,...sde->...tde", factor, pairs)
        if state is not None:
            memories = memories + np.exp(run)[..., None] * state[..., None, :, :]
        rows.append(np.einsum("...td,...tde->...te", q[..., part, :], memories))
        state = memories[..., -1, :, :]
    return np.concatenate(rows, axis=-2), state


EXERCISE = Exercise(
    chapter="22_gated_recurrence",
    title="Gates, in chunks",
    goal="Let each token choose which rows of the memory fade, and how much.",
    reference=answers.gated_linear_attention,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v", "gates", "state"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"gates": (-1000, 0)},
        whole=WHOLE,
        says=(
            "No table of T × T numbers, and no loop or recursion over tokens.",
            "`q`, `k`, `v` and `gates` that do not fit and chunks of less than 1 raise a "
            "ValueError.",
            INT64,
            "Sums of float32 gates may be float32.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: one row kept, one halved",
            np.array([[1.0, 1.0], [1.0, 1.0]]),
            np.array([[1.0, 1.0], [0.0, 0.0]]),
            np.array([[8.0], [0.0]]),
            np.log([[1.0, 1.0], [1.0, 0.5]]),
            want=(np.array([[16.0], [12.0]]), np.array([[8.0], [4.0]])),
        ),
        agrees("the outputs", _values, part=0),
        agrees("the memory after the last chunk", _values, part=1),
        known("any chunk gives the same", _any_chunk),
        agrees("goes on from a memory that is given", _goes_on),
        known("gates of 0 and of −1000", _limits),
        *cheap(case),
        refuses(
            (
                *misfits(-PLAIN[1]),
                ("gates of the width of v", (*PLAIN, -PLAIN[2])),
                ("gates of one token for four", (*PLAIN, -PLAIN[1][:1])),
                ("one gate a token for keys of width 3", (*PLAIN, -PLAIN[1][:, :1])),
                *no_chunks(-PLAIN[1]),
            )
        ),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"by rows": by_rows, "by outer products": by_outer_products},
    hints=(
        "total = np.cumsum of the chunk's gates says how much has faded since the chunk began. "
        "Then retention's three factors are powers of e: for reading the memory, for pairs inside "
        "the chunk, and for what is written.",
        "Inside the chunk the factor has an axis more: e^(total_t − total_s) for each row d, so "
        "the weights are a sum over d of q · k · factor: np.einsum with three arrays, then "
        "np.tril. Clip the exponent at 0, as later tokens make it positive.",
        "weights = np.tril(np.einsum('...td,...sd,...tsd->...ts', asked, keys, fade)); output "
        "(asked * np.exp(total)) @ state + weights @ values; the memory's rows fade by the last "
        "row of np.exp(total), and keys * np.exp(last - total) are written.",
    ),
    minutes=20,
    difficulty=4,
    importance=5,
    results=("output", "state"),
)
