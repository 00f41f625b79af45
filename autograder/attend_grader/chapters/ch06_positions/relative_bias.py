"""Exercise 06_positions/relative_bias: a bias for each distance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from attend_solutions import positions
from torch import Tensor, nn

from attend_grader.chapters.ch06_positions.shared import READY_MADE, reordered
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked
from attend_grader.checks.torch_properties import normal

SIZES = (
    (32, 128, False),
    (32, 128, True),
    (12, 50, False),
    (20, 77, True),
    (14, 60, True),
    (9, 40, False),
    (15, 60, True),
    (32, 32, False),
    (32, 20, False),
    (32, 1000, False),
    (40, 1_000_000, True),
)
"""Buckets, max_distance, bidirectional: also odd numbers of buckets, no room, and little of it:
between 19 and 20 the last bucket begins. And long ranges: past what a list may hold."""

LONG_RANGE = 1000
"""From this max_distance on distances are drawn by their logarithms: all buckets get some."""


def _edges(one_side: int, max_distance: int) -> list[float]:
    """The smallest distance of each shared bucket of a side."""
    exact = one_side // 2
    far = one_side - exact
    return [exact * (max_distance / exact) ** (i / far) for i in range(far)]


def _clear(one_side: int, max_distance: int, among: Iterable[int]) -> list[int]:
    """Distances that lie on no bucket's edge: there rounding would decide."""
    edges = _edges(one_side, max_distance)[1:]
    return [d for d in among if all(abs(d - edge) > max(1e-3, 1e-5 * edge) for edge in edges)]


def _to_thrice(rng: np.random.Generator, exact: int, max_distance: int) -> Iterable[int]:
    """Distances to three times the largest that counts: all, or where they are many, some."""
    if max_distance < LONG_RANGE:
        return range(3 * max_distance)
    return [int(exact * (3 * max_distance / exact) ** u) for u in rng.random(30)]


def _numbered(buckets: int) -> Tensor:
    """A table whose entries say their own bucket."""
    return torch.arange(float(buckets))[:, None]


OWN = "a table that holds each bucket's own number"


def _mixed(value: Any) -> str:
    if value.ndim == 3 and not np.allclose(value % 1, 0, atol=1e-3):
        return "Yours mixes buckets: each entry should be one number of the table."
    return ""


def _far(rng: np.random.Generator) -> Fresh:
    """Ranges widen in proportion; from max_distance on all share the last bucket."""
    for buckets, far, both in SIZES:
        one_side = buckets // 2 if both else buckets
        exact = one_side // 2
        clear = _clear(one_side, far, _to_thrice(rng, exact, far))
        turning = {*_clear(one_side, far, (exact - 1, exact, exact + 1, far))}
        chosen = sorted({int(d) for d in rng.choice(clear, 9)} | turning | {5 * far})
        relative = torch.tensor([[-d for d in chosen], chosen])
        why = f"{OWN}, {buckets} buckets, max_distance = {far}, bidirectional = {both}"
        yield why, Call((_numbered(buckets), relative, both, far))
    relative = torch.tensor([[-112, -113, -500, 112, 113]])
    yield f"{OWN}, 64 buckets, max_distance left out, so 128", Call((_numbered(64), relative))


def _heads(rng: np.random.Generator) -> Fresh:
    for heads, queries, keys in ((3, 4, 6), (5, 5, 5), (1, 2, 3), (4, 1, 1)):
        relative = torch.arange(keys) - torch.arange(queries)[:, None]
        yield f"{heads} heads, T = {queries}, S = {keys}", Call((normal(rng, 16, heads), relative))
    for why, keys in reordered():
        relative = keys - torch.tensor([[4], [9]])
        yield f"keys {why}", Call((normal(rng, 16, 2), relative))
    for why, relative in _uneven():
        yield why, Call((normal(rng, 16, 2), relative))


def _uneven() -> Iterator[tuple[str, Tensor]]:
    """What is special about offsets, and offsets: edges and diagonal do not tell the rest."""
    for why, where in reordered():
        yield f"queries and keys {why}", where - where[:, None]
    for rows, columns in ((5, 5), (4, 6)):
        relative = torch.arange(columns) - torch.arange(rows)[:, None]
        yield f"T = {rows}, S = {columns}, keys in order", relative
        exchanged = relative.clone()
        exchanged[1, 2], exchanged[2, 1] = relative[2, 1], relative[1, 2]
        yield "the same with two offsets exchanged, (1, 2) and (2, 1)", exchanged


def draws(rng: np.random.Generator) -> list[Call]:
    """Both directions and one, near and far, T ≠ S and T = S = H, other sizes, nothing ahead."""
    near = torch.arange(6) - torch.arange(4)[:, None]
    wide = torch.tensor([_clear(8, 128, range(400))[::7]])
    spread = torch.tensor([[-90, -30, -4, 1, 3, 5, 30, 90]])
    return [
        Call((normal(rng, 16, 3), near)),
        Call((normal(rng, 32, 2), torch.cat((-wide, wide)), False)),
        Call((normal(rng, 16, 2), torch.cat((-wide, wide)))),
        Call((normal(rng, 16, 4), near[:, :4], False)),
        Call((normal(rng, 8, 3), spread, True), {"max_distance": 16}),
        Call((normal(rng, 12, 1), torch.cat((spread, 7 * spread)), False), {"max_distance": 50}),
        Call((normal(rng, 16, 2), torch.tensor([[0, -2, -5, -9, -40]]))),
        Call((normal(rng, 14, 2), spread, True), {"max_distance": 60}),
        Call((normal(rng, 11, 2), spread, True), {"max_distance": 60}),
    ]


HALVED = "one_side = one_side // 2"
AHEAD = "(relative > 0) * one_side"
BACK = "(-relative).clamp(min=0)"

SLIPS = (
    Slip(
        "ranges made for the whole table",
        ((HALVED, "half = one_side // 2"), (AHEAD, "(relative > 0) * half")),
        "With bidirectional your ranges are made for the whole table, though each side has only "
        "half of it: halve the number of buckets before you halve it again for the exact ones.",
    ),
    Slip(
        "half of the table looking back",
        (f"distance = {BACK}", f"{HALVED}\n        distance = {BACK}"),
        "Looking back only, you use half of the table, as with bidirectional. Let all buckets "
        "serve one side: side = buckets.",
    ),
    Slip(
        "as many shared as exact",
        ("share * (one_side - exact)", "share * exact"),
        "Where a side has an odd number of buckets, far keys can come into too low a one, as if as "
        "many buckets were shared as are exact. Count those left to share as side − exact: one "
        "more.",
    ),
    Slip(
        "the logarithm spread too wide",
        ("share * (one_side - exact)", "share * one_side"),
        "The buckets of far distances climb too fast, as if the logarithm were multiplied by all "
        "buckets of a side. Multiply it by those left to share, side − exact.",
    ),
    Slip(
        "a bucket for every distance",
        ("torch.where(distance < exact, distance, far)", "distance.clamp(max=one_side - 1)"),
        "Every distance has a bucket of its own until they run out. Give only side // 2 of a "
        "side's buckets to single distances; let far distances share the others, by the logarithm.",
    ),
    Slip(
        "keys ahead count by distance",
        (BACK, "relative.abs()"),
        "Without bidirectional, keys after the query are treated like keys as far before it. They "
        "should all count as distance 0: hold −r at 0 or above.",
    ),
    Slip(
        "rounded instead of cut off",
        (".clamp(0, one_side - 1)", ".round().clamp(0, one_side - 1)"),
        "Far distances come out a bucket too high here and there, as if ℓ were rounded to the "
        "nearest whole number. Cut its fraction off (floor, or .long()).",
    ),
    Slip(
        "one half for both directions",
        (AHEAD, "first"),
        "Both sides of the query share buckets even where bidirectional is True. Give keys after "
        "the query the second half of the table: add side to their bucket.",
    ),
)


def by_loops(table, relative, bidirectional=True, max_distance=128):
    """Pair by pair, with Python's logarithm."""
    one_side = len(table) // 2 if bidirectional else len(table)
    exact = one_side // 2

    def bucket(r):
        distance = abs(r) if bidirectional else max(-r, 0)
        if distance >= exact:
            log = math.log(distance / exact) / math.log(max_distance / exact)
            distance = min(exact + int(log * (one_side - exact)), one_side - 1)
        return distance + (one_side if bidirectional and r > 0 else 0)

    rows = [torch.stack([table[bucket(r)] for r in row]) for row in relative.tolist()]
    return torch.stack(rows).permute(2, 0, 1)


def by_one_hot(table, relative, bidirectional=True, max_distance=128):
    """Logarithms to base 2 in float64, a one-hot product instead of indexing."""
    n = len(table)
    if bidirectional:
        n //= 2
        side, distance = torch.where(relative > 0, n, 0), torch.abs(relative)
    else:
        side, distance = torch.zeros_like(relative), torch.relu(-relative)
    exact = n // 2
    ratio = (distance.clamp(min=exact).double() / exact).log2() / math.log2(max_distance / exact)
    far = torch.clamp((exact + ratio * (n - exact)).floor().long(), max=n - 1)
    bucket = side + torch.where(distance < exact, distance, far)
    chosen = nn.functional.one_hot(bucket, len(table)).to(table.dtype)
    return (chosen @ table).permute(2, 0, 1).contiguous()


EXERCISE = Exercise(
    chapter="06_positions",
    title="A bias for each distance",
    goal="Look up T5's bias: near distances one by one, far ones in widening buckets.",
    reference=positions.relative_bias,
    contract=Contract(
        views=True, arguments_unchanged=True, gradients=("table",), forbids=READY_MADE
    ),
    properties=(
        worked(
            "a hand-worked example: 8 buckets looking back",
            _numbered(8),
            torch.tensor([[0, -1, -2, -3, -4, -5, -6, -7, -9, -11, -13, -40]]),
            False,
            16,
            want=torch.tensor([[[0.0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7]]]),
            tolerance=FLOAT32,
            why=f"{OWN}, 8 buckets, max_distance = 16, causal",
        ),
        worked(
            "near keys: a bucket each, those after it in the other half",
            _numbered(16),
            torch.arange(-3, 4)[None],
            want=torch.tensor([[[3.0, 2, 1, 0, 9, 10, 11]]]),
            tolerance=FLOAT32,
            why=f"{OWN}, 16 buckets, both directions",
        ),
        worked(
            "bidirectional=False: the whole table looks back",
            _numbered(16),
            torch.tensor([[-7, -2, 0, 1, 5, 900]]),
            bidirectional=False,
            want=torch.tensor([[[7.0, 2, 0, 0, 0, 0]]]),
            tolerance=FLOAT32,
            why=f"{OWN}, 16 buckets, bidirectional = False",
        ),
        agrees(
            "far keys share logarithmic buckets, up to max_distance",
            _far,
            points=2,
            repeat=1,
            tolerance=FLOAT32,
            clue=_mixed,
        ),
        agrees("(H, T, S), a number for each head", _heads, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_loops, by_one_hot),
    hints=(
        "Three questions, one after the other: which part of the table, how far away, and which "
        "bucket has that distance? Only then is anything looked up.",
        "If bidirectional: each side has half of the buckets, keys after the query (relative > 0) "
        "start at that half, and the distance is the absolute value. Else: all buckets, start 0, "
        "and the distance is −relative, but at least 0. Work out the bucket for near and for far "
        "distances, and choose between them with torch.where.",
        "With side buckets for one side and exact = side // 2: far = exact + (side − exact) · "
        "log(distance / exact) / log(max_distance / exact). Clamp that to 0 … side − 1 (distance "
        "0 gives log 0 = −inf), and only then cut off with .long(). Choose near or far, add where "
        "the side starts, look up, and mind the order of the axes.",
    ),
    minutes=20,
    difficulty=4,
    importance=3,
)
