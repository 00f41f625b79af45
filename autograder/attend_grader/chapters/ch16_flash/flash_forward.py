"""Exercise 16_flash/flash_forward: attention tile by tile, in memory that does not grow with S."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from attend_solutions import flash
from attend_solutions.flash import expect_shapes, merge_partials, online_softmax, tiles

from attend_grader.chapters.ch16_flash.shared import (
    ARRAYS,
    BLANK,
    FOR_RIGHT_VALUES,
    bad_attention_input,
    blanked,
    guises,
    qkv,
    tiles_as_asked,
    whole,
)
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.properties import expect_growth
from attend_grader.checks.subject import Subject

SIZES = ((3, 5, 3, 2, 2, 2), (4, 4, 4, 4, 1, 3), (5, 7, 2, 3, 3, 64), (1, 6, 8, 1, 64, 1))
"""T, S, D, D_v, tile_q, tile_k: ragged, square, tiles of one, tiles larger than all."""


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for t, s, d, d_v, tile_q, tile_k in SIZES:
        why = f"{t} queries in tiles of {tile_q}, {s} keys in tiles of {tile_k}"
        yield why, Call((*qkv(rng, t, s, d, d_v), tile_q, tile_k))
    for where in (1, -1, slice(2, 4)):
        yield BLANK, Call((*blanked(qkv(rng, 3, 5, 3, 2), where, (1, 2)), 2, 2))


def _tilings(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    arrays = qkv(rng, 4, 6, 3, 2)
    for sizes in ((1, 1), (2, 3), (3, 4), (4, 6), (9, 5)):
        yield f"the same numbers in tiles of {sizes[0]} × {sizes[1]}", Call((*arrays, *sizes))


def _huge(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    q, k, v = qkv(rng, 3, 5, 4, 2)
    yield "scores of some ±10,000", Call((100 * q, 100 * k, v, 2, 2))
    yield "all scores below −100,000", Call((abs(q) + 400, -abs(k) - 400, v, 2, 2))
    falls = np.array([[500.0], [-500.0], [0.0]]) * np.ones(4)  # scores near 1,000, −1,000, 0
    yield "scores that fall by 2,000 from query to query", Call((falls, abs(k) + 1, v, 1, 2))


@dataclass(frozen=True)
class Form:
    """What memory is measured on, for more and more keys: ``queries`` of 0 are as many."""

    of: str
    queries: int
    lead: tuple[int, ...] = ()
    width: int = 64
    tile_k: int = 64

    def args(self, rng: np.random.Generator, keys: int) -> tuple[Any, ...]:
        """Arguments, float32 and stored transposed."""
        lengths = self.queries or keys, keys, keys
        arrays = (rng.standard_normal((*self.lead, n, self.width)) for n in lengths)
        return *guises(*arrays), 16, self.tile_k


def _grows(sizes: tuple[int, int], *forms: Form, **told: Any) -> Callable[[Subject, Probe], None]:
    """Memory for more keys, in each form."""

    def test(subject: Subject, probe: Probe) -> None:
        probe.agree(subject, *qkv(probe.rng, 4, 6, 3, 2), 2, 4, why=FOR_RIGHT_VALUES)
        state = int(probe.rng.integers(2**31))
        for form in forms:
            expect_growth(
                subject,
                lambda keys, form=form: form.args(np.random.default_rng(state), keys),
                sizes=sizes,
                cost="peak_bytes",
                of=f"{form.of} (float32, stored transposed)",
                **told,
            )

    return test


FEW_TILES = _grows(
    (512, 4096),
    Form("keys", 32),
    Form("keys of leading axes (2, 2)", 32, (2, 2), 16),  # which reshape merges in a copy only
    Form("keys of one query", 1, (), 4, 256),
    at_most=1.8,  # eight times as many keys need no more memory
    advice="A tile of queries meets one tile of keys at a time; no row of S scores, no copy of all "
    "keys, and no list of partial results is held.",
)
LINEAR = _grows(
    (128, 512),
    Form("queries and keys", 0),
    at_most=5,  # four times the output, not 16 times the scores
    advice="Something of T × S numbers is stored. Beside the output and the LSE only tiles are "
    "needed.",
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


def mean_of_tiles(q, k, v, tile_q=64, tile_k=64):  # noqa: D103 (what is told is its slip's)
    expect_shapes(q, k, v)
    tiles(q.shape[-2], tile_q)
    parts = [whole(q, k[..., c, :], v[..., c, :])[0] for c in tiles(k.shape[-2], tile_k)]
    return sum(parts) / len(parts), whole(q, k, v)[1]


STATE = """        running_max = np.full(q_tile.shape[:-1], -np.inf)
        running_sum = np.zeros(q_tile.shape[:-1])
        accumulator = np.zeros((*q_tile.shape[:-1], v.shape[-1]))
"""

SLIPS = (
    Slip(
        "output not divided by the sum",
        ("accumulator / running_sum[..., None]", "accumulator"),
        "The output is the accumulator as it is. Divide it by the running sum after the last tile.",
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
        "maximum: add it.",
    ),
    Slip(
        "mean of the tiles' own outputs",
        mean_of_tiles,
        "Each tile of keys has a softmax of its own, and the output is the plain mean of what the "
        "tiles give. All keys should share one softmax: carry maximum, sum and accumulator from "
        "tile to tile, and divide once, after the last.",
    ),
    Slip(
        "last keys left out",
        ("for columns in tiles(k.shape[-2], tile_k):",
         "for columns in tiles(k.shape[-2] - k.shape[-2] % min(tile_k, k.shape[-2]), tile_k):"),
        "Where S is above tile_k and no multiple of it, the last keys are left out. Take the "
        "shorter last tile, too.",
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
    """The loops of the first FlashAttention: keys outside; queries scaled when they are read."""
    expect_shapes(q, k, v)
    m, total = np.full(q.shape[:-1], -np.inf), np.zeros(q.shape[:-1])
    weighted = np.zeros((*q.shape[:-1], v.shape[-1]))
    for c in tiles(k.shape[-2], tile_k):
        for r in tiles(q.shape[-2], tile_q):
            mine = q[..., r, :] * q.shape[-1] ** -0.5
            z = np.einsum("...td,...sd->...ts", mine, k[..., c, :])
            state = online_softmax(m[..., r], total[..., r], weighted[..., r, :], z, v[..., c, :])
            m[..., r], total[..., r], weighted[..., r, :] = state
    weighted /= total[..., None]
    return weighted, m + np.log(total)


EXERCISE = Exercise(
    chapter="16_flash",
    title="Flash attention, forward",
    goal="Attention for any length, with only a few tiles in memory.",
    reference=flash.flash_forward,
    contract=replace(
        ARRAYS,
        leading_axes=("q", "k", "v"),
        says=(
            "Scores that are nearly the same are within ±100,000.",
            "Beside the results and copies of their size or that of q, no more than a few tiles in "
            "memory at once, none of more than tile_q queries or tile_k keys, and no copy of k or "
            "v.",
            "Shapes that do not fit and tiles of less than 1 raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: equal scores",
            *(np.zeros((2, 4)), np.ones((3, 4)), np.array([[1.0], [2.0], [6.0]]), 1, 2),
            want=(np.array([[3.0], [3.0]]), np.log([3.0, 3.0])),
            why="every weight is 1/3",
        ),
        agrees("the output is right", _values, part=0),
        agrees("the LSE is right", _values, part=1),
        agrees("any tiles give the same", _tilings, repeat=1),
        agrees("scores of ±10,000, or all far below 0", _huge, repeat=1),
        agrees(
            "tile sizes may be left out",
            lambda rng: [("no tile sizes given", Call(qkv(rng, 3, 5, 4, 2)))],
            repeat=1,
        ),
        Property("memory does not grow with the number of keys", 1, FEW_TILES),
        Property("memory grows with the output only, not with T × S", 1, LINEAR),
        tiles_as_asked(qkv),
        bad_attention_input(),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "merge_partials, tile by tile": by_merging,
        "keys in the outer loop": keys_outside,
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
