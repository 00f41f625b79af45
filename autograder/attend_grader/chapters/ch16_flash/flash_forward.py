"""Exercise 16_flash/flash_forward: attention tile by tile, in memory that does not grow with S."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import flash
from attend_solutions.flash import expect_shapes, merge_partials, online_softmax, tiles
from attend_solutions.types import Array

from attend_grader.chapters.ch16_flash.shared import (
    bad_attention_input,
    guises,
    qkv,
    small_tiles,
    whole,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import expect_growth
from attend_grader.checks.subject import Subject

SIZES = ((3, 5, 3, 2, 2, 2), (4, 4, 4, 4, 1, 3), (5, 7, 2, 3, 3, 64), (1, 6, 8, 1, 64, 1))
"""T, S, D, D_v, tile_q, tile_k: ragged, square, tiles of one, tiles larger than all."""


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for t, s, d, d_v, tile_q, tile_k in SIZES:
        why = f"{t} queries in tiles of {tile_q}, {s} keys in tiles of {tile_k}"
        yield why, Call((*qkv(rng, t, s, d, d_v), tile_q, tile_k))


def _default(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "no tile sizes given", Call(qkv(rng, 3, 5, 4, 2))


def _tilings(
    rng: np.random.Generator,
) -> Iterator[tuple[str, tuple[Any, ...], tuple[Array, Array]]]:
    q, k, v = qkv(rng, 4, 6, 3, 2)
    want = whole(q, k, v)
    for tile_q, tile_k in ((1, 1), (2, 3), (3, 4), (4, 6), (9, 5)):
        yield f"the same numbers in tiles of {tile_q} × {tile_k}", (q, k, v, tile_q, tile_k), want


def _huge(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    q, k, v = qkv(rng, 3, 5, 4, 2)
    yield "scores of some ±10,000", Call((100 * q, 100 * k, v, 2, 2))
    yield "all scores below −100,000", Call((abs(q) + 400, -abs(k) - 400, v, 2, 2))
    falls = np.array([[500.0], [-500.0], [0.0]]) * np.ones(4)  # scores near 1,000, −1,000, 0
    yield "scores that fall by 2,000 from query to query", Call((falls, abs(k) + 1, v, 1, 2))


def _few_tiles(subject: Subject, probe: Probe) -> None:
    """32 queries in tiles of 16: eight times as many keys need no more memory."""
    _right_first(subject, probe)
    state = int(probe.rng.integers(2**31))
    expect_growth(
        subject,
        lambda keys: _large(state, 32, keys),
        sizes=(512, 4096),
        at_most=1.8,
        cost="peak_bytes",
        of="keys (float32, stored transposed)",
        advice="A tile of queries meets one tile of keys at a time; no row of S scores, no copy "
        "of all keys, and no list of partial results is held.",
    )


def _linear(subject: Subject, probe: Probe) -> None:
    """Four times the queries and keys: four times the output, not 16 times the scores."""
    _right_first(subject, probe)
    state = int(probe.rng.integers(2**31))
    expect_growth(
        subject,
        lambda length: _large(state, length, length),
        sizes=(128, 512),
        at_most=5,
        cost="peak_bytes",
        of="queries and keys (float32, stored transposed)",
        advice="Something of T × S numbers is stored. Beside the output and the LSE only tiles "
        "are needed.",
    )


def _large(state: int, t: int, s: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(state)
    return *guises(*(rng.standard_normal((n, 64)) for n in (t, s, s))), 16, 64


def _right_first(subject: Subject, probe: Probe) -> None:
    probe.agree(
        subject, *qkv(probe.rng, 4, 6, 3, 2), 2, 4, why="memory counts for right values only"
    )


def _as_asked(subject: Subject, probe: Probe) -> None:
    """Tiles of queries and of keys are no larger than asked."""
    _right_first(subject, probe)

    def make(t: int, s: int) -> tuple[Array, ...]:
        return qkv(probe.rng, t, s, 2, 1)

    small_tiles(
        subject,
        make,
        advice="Cut queries into tiles of tile_q and keys into tiles of tile_k, as tiles(…) does.",
    )


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, square, leading axes, tiles of one, D = S, D = D_v, one query, large."""
    q, k, v = qkv(rng, 3, 5, 4, 2)
    return [
        Call((*qkv(rng, 3, 5, 3, 2), 2, 2)),
        Call((*qkv(rng, 4, 4, 4, 4), 2, 2)),
        Call((*qkv(rng, 3, 4, 5, 2, (2,)), 2, 3)),
        Call((*qkv(rng, 5, 7, 2, 3), 1, 1)),
        Call((*qkv(rng, 2, 4, 4, 3), 2, 3)),
        Call((*qkv(rng, 3, 5, 2, 2), 1, 2)),
        Call((*qkv(rng, 1, 6, 3, 2), 64, 64)),
        Call((10 * q, 10 * k, v, 3, 2)),
    ]


def row_tiles(q, k, v, tile_q=64, tile_k=64):  # noqa: D103 (what a learner is told is its slip's)
    expect_shapes(q, k, v)
    tiles(k.shape[-2], tile_k)
    parts = [whole(q[..., rows, :], k, v) for rows in tiles(q.shape[-2], tile_q)]
    outputs, lses = zip(*parts, strict=True)
    return np.concatenate(outputs, axis=-2), np.concatenate(lses, axis=-1)


def all_scores(q, k, v, tile_q=64, tile_k=64):  # noqa: D103 (what a learner is told is its slip's)
    expect_shapes(q, k, v)
    tiles(k.shape[-2], tile_k)
    tiles(q.shape[-2], tile_q)
    return whole(q, k, v)


def mean_of_tiles(q, k, v, tile_q=64, tile_k=64):  # noqa: D103 (what is told is its slip's)
    expect_shapes(q, k, v)
    tiles(q.shape[-2], tile_q)
    parts = [whole(q, k[..., c, :], v[..., c, :])[0] for c in tiles(k.shape[-2], tile_k)]
    return sum(parts) / len(parts), whole(q, k, v)[1]


STATE = """        running_max = np.full(q_tile.shape[:-1], -np.inf)
        running_sum = np.zeros(q_tile.shape[:-1])
        accumulator = np.zeros((*q_tile.shape[:-1], v.shape[-1]))
"""
FRESH = "np.full(q_tile.shape[:-1], -np.inf)"

SLIPS = (
    Slip(
        "all scores at once",
        all_scores,
        "Values are right, but all T × S scores are stored. That is what tiles are for: one tile "
        "of queries and one tile of keys at a time.",
    ),
    Slip(
        "a whole row of scores or all keys at once",
        row_tiles,
        "Values are right, but memory grows with S: each tile of queries meets all S keys at "
        "once, or all keys are copied. Loop over tiles of keys inside, and carry the state.",
    ),
    Slip(
        "forgets the scale",
        (" / q.shape[-1] ** 0.5", ""),
        "The scores are not divided by √D, where D is the width of queries and keys.",
    ),
    Slip(
        "output not divided by the sum",
        ("accumulator / running_sum[..., None]", "accumulator"),
        "The output is the accumulator as it is. Divide it by the running sum, once, after the "
        "last tile of keys.",
    ),
    Slip(
        "output divided after every tile of keys",
        (("= accumulator / running_sum[..., None]", "= accumulator"),
         ("scores, v[..., columns, :]\n            )\n",
          "scores, v[..., columns, :]\n            )\n"
          "            accumulator = accumulator / running_sum[..., None]\n")),
        "The accumulator is divided by the running sum after every tile of keys, so what came "
        "first is divided several times. Divide once, after the last tile.",
    ),
    Slip(
        "LSE without the maximum",
        ("running_max + np.log(running_sum)", "np.log(running_sum)"),
        "The LSE is the logarithm of the running sum only. That sum is measured from the running "
        "maximum: LSE = running_max + ln running_sum.",
    ),
    Slip(
        "sum in place of the LSE",
        ("running_max + np.log(running_sum)", "running_sum"),
        "The second result is the running sum. The LSE is running_max + ln running_sum.",
    ),
    Slip(
        "mean of the tiles' own outputs",
        mean_of_tiles,
        "Each tile of keys has a softmax of its own, and the output is the plain mean of what the "
        "tiles give. All keys share one softmax: carry maximum, sum and accumulator from tile to "
        "tile, and divide once, after the last.",
    ),
    Slip(
        "last keys left out",
        ("for columns in tiles(k.shape[-2], tile_k):",
         "for columns in tiles(k.shape[-2] - k.shape[-2] % min(tile_k, k.shape[-2]), tile_k):"),
        "Where S is no multiple of tile_k, the last keys are not looked at. The last tile is "
        "shorter, and it counts.",
    ),
    Slip(
        "state carried over to the next queries",
        (STATE, "        n = rows.stop - rows.start\n        if not rows.start:\n"
         "            running_max = np.full((*q.shape[:-2], n), -np.inf)\n"
         "            running_sum = np.zeros((*q.shape[:-2], n))\n"
         "            accumulator = np.zeros((*q.shape[:-2], n, v.shape[-1]))\n"
         "        running_max, running_sum = running_max[..., :n], running_sum[..., :n]\n"
         "        accumulator = accumulator[..., :n, :]\n"),
        "The first tile of queries is right, later ones are not, as if the running state of the "
        "tile before were still in it. Start each tile of queries at −inf, 0 and 0.",
    ),
)  # fmt: skip


def by_merging(q, k, v, tile_q=64, tile_k=64):
    """A finished partial result for each pair of tiles, merged."""
    expect_shapes(q, k, v)
    output, lse = np.zeros((*q.shape[:-1], v.shape[-1])), np.full(q.shape[:-1], -np.inf)
    for rows in tiles(q.shape[-2], tile_q):
        for columns in tiles(k.shape[-2], tile_k):
            part = whole(q[..., rows, :], k[..., columns, :], v[..., columns, :])
            merged = merge_partials(output[..., rows, :], lse[..., rows], *part)
            output[..., rows, :], lse[..., rows] = merged
    return output, lse


def keys_outside(q, k, v, tile_q=64, tile_k=64):
    """The loops of the first FlashAttention: tiles of keys outside, state kept for all queries."""
    expect_shapes(q, k, v)
    m, total = np.full(q.shape[:-1], -np.inf), np.zeros(q.shape[:-1])
    weighted = np.zeros((*q.shape[:-1], v.shape[-1]))
    for c in tiles(k.shape[-2], tile_k):
        for r in tiles(q.shape[-2], tile_q):
            z = np.einsum("...td,...sd->...ts", q[..., r, :], k[..., c, :]) / np.sqrt(q.shape[-1])
            state = online_softmax(m[..., r], total[..., r], weighted[..., r, :], z, v[..., c, :])
            m[..., r], total[..., r], weighted[..., r, :] = state
    weighted /= total[..., None]
    return weighted, m + np.log(total)


def scaled_queries(q, k, v, tile_q=64, tile_k=64):
    """Queries are scaled when they are read; loops over starts, not slices."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or min(tile_q, tile_k) < 1:
        raise ValueError("shapes or tiles do not fit")
    outputs, lses = [], []
    for i in range(0, q.shape[-2], tile_q):
        mine = q[..., i : i + tile_q, :] * q.shape[-1] ** -0.5
        shape = mine.shape[:-1]
        state = (np.full(shape, -np.inf), np.zeros(shape), np.zeros((*shape, v.shape[-1])))
        for j in range(0, k.shape[-2], tile_k):
            keys = k[..., j : j + tile_k, :]
            state = online_softmax(*state, mine @ keys.swapaxes(-1, -2), v[..., j : j + tile_k, :])
        outputs.append(state[2] / state[1][..., None])
        lses.append(np.log(state[1]) + state[0])
    return np.concatenate(outputs, -2), np.concatenate(lses, -1)


EXERCISE = Exercise(
    chapter="16_flash",
    title="Flash attention, forward",
    goal="Attention for any length, with only a few tiles in memory.",
    reference=flash.flash_forward,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        says=(
            "Beside the results and copies of their size or that of q, no more than a few tiles in "
            "memory at once, none of more than tile_q queries or tile_k keys, and no copy of k or "
            "v.",
            "Shapes that do not fit and tiles of less than 1 raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: equal scores",
            np.zeros((2, 4)),
            np.ones((3, 4)),
            np.array([[1.0], [2.0], [6.0]]),
            1,
            2,
            want=(np.array([[3.0], [3.0]]), np.log([3.0, 3.0])),
            why="every weight is 1/3",
        ),
        agrees("the output is right", _values, part=0),
        agrees("the LSE is right", _values, part=1),
        known("any tiles give the same", _tilings),
        agrees("scores of ±10,000, or all far below 0", _huge, repeat=1),
        agrees("tile sizes may be left out", _default, repeat=1),
        Property("memory does not grow with the number of keys", 1, _few_tiles),
        Property("memory grows with the output only, not with T × S", 1, _linear),
        Property("tiles are no larger than asked", 1, _as_asked),
        bad_attention_input(),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "merge_partials, tile by tile": by_merging,
        "keys in the outer loop": keys_outside,
        "queries scaled, lists of tiles": scaled_queries,
    },
    hints=(
        "Write it for one tile of queries first: what does it start with, what does it do for "
        "each tile of keys, and what is left to do after the last one?",
        "Two loops: `for rows in tiles(T, tile_q)`, inside it `for columns in tiles(S, tile_k)`. "
        "`q[..., rows, :]` is a tile. The state starts anew for each tile of queries; your "
        "online_softmax carries it from one tile of keys to the next.",
        "Before the inner loop: maximum −inf and sum 0 of shape q_tile.shape[:-1], accumulator 0 "
        "with D_v at its end. Inside: scores = q_tile @ k_tile transposed (last two axes) / √D, "
        "then your step. After it: output rows = accumulator / sum (one more axis), LSE rows = "
        "maximum + ln sum.",
    ),
    minutes=25,
    difficulty=4,
    importance=5,
    uses=("online_softmax", "merge_partials"),
    results=("output", "lse"),
)
