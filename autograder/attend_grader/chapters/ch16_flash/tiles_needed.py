"""Exercise 16_flash/tiles_needed: which tiles of the score matrix hold a visible pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
from attend_solutions import flash
from attend_solutions.flash import expect_window, tiles

from attend_grader.chapters.ch16_flash.shared import CUT_WITH_TILES
from attend_grader.checks.contract import Contract
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import refuses
from attend_grader.checks.mask_properties import agree_mask
from attend_grader.checks.properties import expect_growth
from attend_grader.checks.subject import Subject

SQUARE = ((6, 6, 2, 2), (7, 7, 3, 2), (8, 8, 2, 4), (5, 5, 1, 1))
OBLONG = ((3, 9, 2, 2), (9, 4, 2, 3), (1, 8, 4, 3), (6, 10, 4, 4))
CAUSAL_OR_NOT = {"causal": True}, {"causal": False}
MASKS = (True, 0.25), (True, None), (False, 0.25)
"""Causal or not, and a window as a part of the keys."""
WINDOWS = {"window": 0}, {"window": 1}, {"window": 3}


def _agree(
    sizes: Iterable[Sequence[int]], masks: Iterable[dict[str, Any]], *, boolean: bool = False
) -> Callable[[Subject, Probe], None]:
    """All sizes with all masks."""

    def test(subject: Subject, probe: Probe) -> None:
        for args, kwargs in product(sizes, masks):
            agree_mask(probe, subject, *args, boolean=boolean, what="result", **kwargs)

    return test


def _both(subject: Subject, probe: Probe) -> None:
    masks = [{"causal": True, "window": window} for window in (0, 2, 4)]
    _agree(SQUARE + OBLONG, masks)(subject, probe)
    _agree([(20, 4, 2, 2)], [{"window": window} for window in (4, 9)])(subject, probe)
    for _ in probe.repeat(10, 40):
        sizes = tuple(int(n) for n in probe.rng.integers(1, [14, 14, 6, 6]))
        mask = {"causal": True, "window": int(probe.rng.integers(6))}
        _agree([sizes], [mask])(subject, probe)


def _memory(subject: Subject, probe: Probe) -> None:
    """Sixteen times the pairs in as many tiles need no more memory."""
    _agree([(6, 6, 2, 2), (6, 6, 6, 2)], [{"causal": True, "window": 1}])(subject, probe)
    for parts, (causal, window) in product(((8, 8), (1, 8), (8, 1), (1, 1)), MASKS):

        def make(length: int, parts: Any = parts, causal: bool = causal, window: Any = window):
            reach = None if window is None else int(window * length)
            return length, length, *(length // n for n in parts), causal, reach

        expect_growth(
            subject,
            make,
            sizes=(128, 1024),
            at_most=2.5 if parts == (8, 8) else 10,  # lists of places are no table
            cost="peak_bytes",
            of=f"queries and keys, in {parts[0]} and {parts[1]} tiles,",
            advice="Something grows with queries × keys, or with either. The first and last "
            "places of a tile are enough to decide.",
        )


BAD = refuses(
    (
        ("a tile of 0 queries", (4, 4, 0, 2), {}, CUT_WITH_TILES),
        ("a tile of −2 keys", (4, 4, 2, -2), {}, CUT_WITH_TILES),
        ("a window of −1", (4, 4, 2, 2), {"window": -1}),
        ("a window of −1 in a single tile", (4, 4, 8, 8), {"window": -1}),
        ("a causal window of −1 for one query", (1, 4, 2, 2), {"causal": True, "window": -1}),
        ("a window of −1 for one query and one key", (1, 1, 1, 1), {"window": -1}),
        ("a tile of 0 queries for one query", (1, 4, 0, 2), {}, CUT_WITH_TILES),
        ("a tile of 0 keys for one key", (4, 1, 2, 0), {}, CUT_WITH_TILES),
        ("a tile of −1 queries, all keys in one tile", (4, 4, -1, 8), {}, CUT_WITH_TILES),
        ("a tile of −1 keys, all queries in one tile", (4, 4, 8, -1), {}, CUT_WITH_TILES),
    ),
)


def draws(rng: np.random.Generator) -> list[Call]:
    """Square and oblong, ragged, causal, windows, both."""
    window = int(rng.integers(1, 3))
    return [
        Call((6, 6, 2, 2)),
        *(Call(sizes, {"causal": True}) for sizes in ((7, 7, 3, 2), (8, 8, 2, 4), *OBLONG[:2])),
        Call((9, 9, 2, 2), {"window": window}),
        Call((8, 8, 2, 2), {"causal": True, "window": window}),
        Call((10, 10, 4, 1), {"window": window}),
        Call((9, 9, 2, 3), {"causal": True, "window": 2}),
        Call((6, 10, 4, 4), {"causal": True, "window": 0}),
        Call((5, 11, 3, 2), {"window": 1}),
        Call((12, 12, 6, 2), {"causal": True, "window": 1}),
        Call((8, 5, 3, 2), {"causal": True}),
        Call((9, 6, 2, 2), {"window": 1}),
    ]


def four_corners(queries, keys, tile_q, tile_k, causal=False, window=None):  # noqa: D103 (slip)
    expect_window(window)

    def visible(p: int, s: int) -> bool:
        return (not causal or s <= p) and (window is None or abs(s - p) <= window)

    def kept(row: slice, column: slice) -> bool:
        places = row.start + keys - queries, row.stop - 1 + keys - queries
        return any(visible(p, s) for p in places for s in (column.start, column.stop - 1))

    columns = tiles(keys, tile_k)
    return np.array([[kept(r, c) for c in columns] for r in tiles(queries, tile_q)])


PLACES = "row.start + shift, row.stop - 1 + shift"
AHEAD, BEHIND = "column.start > last:", "column.stop - 1 < first - window"
BEYOND = "column.start > last + window"

SLIPS = (
    Slip(
        "first query decides",
        (AHEAD, "column.start > first:"),
        "Under `causal` the first query of a tile decides, but its last one sees furthest. "
        "Compare the last query's place with the first key.",
    ),
    Slip(
        "last key decides",
        (AHEAD, "column.stop - 1 > last:"),
        "Under `causal` a tile is left out as soon as its last key is hidden. One visible pair is "
        "enough: compare the first key with the last query's place.",
    ),
    Slip(
        "causal by tile numbers",
        (AHEAD, "j > i:"),
        "Under `causal` tile j is kept up to tile i, as if both were equally long and began at the "
        "same place. Compare places: the first key with the last query's p.",
    ),
    Slip(
        "queries counted from the first key",
        (PLACES, "row.start, row.stop - 1"),
        "Query t comes out as if it stood at t; with `causal` or a window that is sure to be "
        "right where T = S only. The last query stands at the last key: place t at p = t + keys − "
        "queries.",
    ),
    Slip(
        "window looks back only",
        (BEYOND, AHEAD.removesuffix(":")),
        "With a window all keys after a query are treated as hidden. Without `causal` the window "
        "should reach forward as far as back: |s − p| ≤ window.",
    ),
    Slip(
        "window one too narrow",
        ((BEHIND, "column.stop - 1 <= first - window"), (BEYOND, "column.start >= last + window")),
        "The window's edge is left out. A key `window` places away should be visible: |s − p| ≤ "
        "window.",
    ),
    Slip(
        "window in whole tiles",
        ((BEHIND, "j < i - -(-window // tile_k)"), (BEYOND, "j > i + -(-window // tile_k)")),
        "With a window tiles are counted, not places, as if j were compared with i. Compare the "
        "places of a tile's first and last key with those of its first and last query.",
    ),
    Slip(
        "four corners",
        four_corners,
        "A tile is left out where none of its four corners is visible. A narrow window can pass "
        "between them: compare its edges with the tile's first and last key.",
    ),
    Slip(
        "queries before the first key put at place 0",
        (PLACES, "max(row.start + shift, 0), max(row.stop - 1 + shift, 0)"),
        "With T > S the first queries stand before the first key, at p < 0. They are treated as "
        "if they stood at place 0, so they may see keys that are hidden from them. Let p be "
        "negative.",
    ),
    Slip(
        "only tiles that are visible throughout",
        ((AHEAD, "column.stop - 1 > first:"), (BEHIND, "column.start < last - window"),
         (BEYOND, "column.stop - 1 > first + window")),
        "A tile is kept only if all its pairs are visible. It must be read if a single one is.",
    ),
)  # fmt: skip


def broadcast(queries, keys, tile_q, tile_k, causal=False, window=None):
    """All corners at once."""
    expect_window(window)
    rows, columns = tiles(queries, tile_q), tiles(keys, tile_k)
    shift = keys - queries
    low = np.array([[r.start + shift] for r in rows])
    high = np.array([[r.stop + shift - 1] for r in rows])
    first, last = np.array([c.start for c in columns]), np.array([c.stop - 1 for c in columns])
    ahead = 0 if causal else (np.inf if window is None else window)
    behind = np.inf if window is None else window
    return (first - high <= ahead) & (low - last <= behind)


def offsets(queries, keys, tile_q, tile_k, causal=False, window=None):
    """The offsets s − p of a tile's pairs are an interval; does it meet the visible ones?"""
    expect_window(window)
    least = -np.inf if window is None else -window
    most = 0 if causal else -least
    rows = [(r.start + keys - queries, r.stop - 1 + keys - queries) for r in tiles(queries, tile_q)]
    columns = [(c.start, c.stop - 1) for c in tiles(keys, tile_k)]
    return np.array([[s - p1 <= most and s1 - p >= least for s, s1 in columns] for p, p1 in rows])


EXERCISE = Exercise(
    chapter="16_flash",
    title="Which tiles are needed?",
    goal="Find the tiles that hold a visible pair, without making the mask.",
    reference=flash.tiles_needed,
    contract=Contract(
        numpy_only=True,
        ranges={"queries": (1, 300), "keys": (1, 300), "tile_q": (1, 300), "tile_k": (1, 300)},
        says=(
            "No table of queries × keys; up to 10⁶ of either.",
            "A tile of less than 1 and a negative window raise a ValueError.",
        ),
    ),
    properties=(
        Property(
            "causal or not, as many queries as keys; booleans",
            1,
            _agree(SQUARE, CAUSAL_OR_NOT, boolean=True),
        ),
        Property(
            "causal or not, other numbers of queries and keys", 1, _agree(OBLONG, CAUSAL_OR_NOT)
        ),
        Property("a window on both sides", 1, _agree(SQUARE + OBLONG, WINDOWS)),
        Property("causal and a window, any sizes", 2, _both),
        Property("memory grows with the number of tiles only", 1, _memory),
        BAD,
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"all corners at once": broadcast, "intervals of offsets": offsets},
    hints=(
        "Draw the mask of 6 queries and 6 keys on paper, cut it into tiles of 2 × 2, and mark the "
        "tiles that are dark throughout. Which corner decides for causal, and what for a window?",
        "A tile is dark under causal if its first key lies after its last query's place. It is "
        "dark under a window if its last key lies too far before its first query's place, or its "
        "first key too far after its last query's.",
        "For each row tile: places of its first and last query, shifted by keys − queries. For "
        "each column tile: first key column.start, last key column.stop − 1. Start with True and "
        "set False for each of the three rules above.",
    ),
    minutes=20,
    difficulty=3,
    importance=3,
)
