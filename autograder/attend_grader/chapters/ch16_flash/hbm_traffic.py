"""Exercise 16_flash/hbm_traffic: the bytes that a tiled forward pass moves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from attend_solutions import flash
from attend_solutions.flash import tiles, tiles_needed

from attend_grader.checks.compare import Miss
from attend_grader.checks.contract import Contract
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, refuses, worked
from attend_grader.checks.subject import Subject

Case = tuple[str, Call]


def _cases(rng: np.random.Generator, masks: list[tuple[bool, bool]]) -> Iterator[Case]:
    for causal, windowed in masks:
        for _ in range(5):
            sizes = tuple(int(n) for n in rng.integers(1, [20, 20, 9, 7, 7]))
            window = int(rng.integers(5)) if windowed else None
            yield "", Call((*sizes, causal, window, int(rng.choice([1, 2, 4]))))


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    for t, s in product((5, 6), (7, 8)):
        yield "tiles that need not fit", Call((t, s, int(rng.integers(2, 9)), 2, 4))
    yield "65,537 queries and keys", Call((65_537, 65_537, 1, 64, 1024))
    yield "10⁶ queries and keys, in 10,000 tiles", Call((10**6, 10**6, 1, 100, 10**6))


def _plain(subject: Subject, probe: Probe) -> None:
    for _, call in _cases(probe.rng, [(False, False)]):
        got = probe.agree(subject, *call.args).value
        if isinstance(got, (float, np.floating)):
            text = "bytes are whole numbers: yours come as a float. Divide with //, if at all."
            raise Miss(text, topic="a float").on(probe.given(call.args, {}), "")


def _causal(rng: np.random.Generator) -> Iterator[Case]:
    yield from _cases(rng, [(True, False)])
    args = (9, 4, int(rng.integers(2, 9)), 2, 3, True)
    yield "queries that see no key are read, too", Call(args)


def _windows(rng: np.random.Generator) -> Iterator[Case]:
    yield from _cases(rng, [(False, True), (True, True)])
    width = int(rng.integers(2, 9))
    for causal, window in ((False, 0), (True, 0), (True, 1)):
        yield f"a window of {window}", Call((7, 7, width, 2, 2, causal, window, 2))


BAD = refuses(
    (
        ("a tile of −1 queries", (4, 4, 3, -1, 2), {}),
        ("a tile of 0 keys", (4, 4, 3, 2, 0), {}),
        ("a window of −1", (4, 4, 3, 2, 2), {"window": -1}),
        ("a tile of 0 queries for one query", (1, 4, 3, 0, 2), {}),
        ("a tile of −1 queries for one query, causal", (1, 4, 3, -1, 2, True), {}),
        ("a tile of 0 keys for one query", (1, 4, 3, 2, 0), {}),
        ("a tile of 0 keys for one key", (4, 1, 3, 2, 0), {}),
        ("a tile of 0 queries for one query and one key", (1, 1, 3, 0, 1), {}),
        ("a window of −1 for one query and one key", (1, 1, 3, 1, 1), {"window": -1}),
        ("a window of −1 in a single tile", (4, 4, 3, 8, 8), {"window": -1}),
        ("a tile of −1 keys, all queries in one tile", (4, 4, 3, 8, -1), {}),
    ),
    cause="tiles_needed does that: call it for every count, with all that it takes.",
)


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, causal, windows, other item sizes, queries that see no key."""
    width = int(rng.integers(3, 9))
    return [
        Call((6, 8, width, 2, 4)),
        Call((5, 9, width, 2, 4)),
        Call((8, 8, width, 2, 2, True)),
        Call((4, 10, width, 2, 4, True), {"itemsize": 4}),
        Call((9, 9, width, 2, 3, True, 2)),
        Call((9, 9, width, 3, 2), {"window": 1}),
        Call((8, 8, width, 2, 2), {"window": 0}),
        Call((7, 5, width, 3, 2), {"itemsize": 4}),
        Call((8, 5, width, 2, 2, True)),
        Call((65_536, 65_536, 128, 128, 2_048)),
    ]


SLIPS = (
    Slip(
        "only one of K and V counted",
        ("2 * keys_read * width", "keys_read * width"),
        "Only one of K and V is counted. Count both, tile by tile.",
    ),
    Slip(
        "keys and values read once",
        ("(needed * lengths).sum()", "lengths.sum()"),
        "K and V are counted once. They do not stay on the chip: for each tile of Q, count those "
        "tiles of them that it needs.",
    ),
    Slip(
        "every tile of keys is full",
        ("tile.stop - tile.start", "tile_k"),
        "The last tile of keys is counted as full. It is shorter if tile_k does not divide keys.",
    ),
    Slip(
        "Q or output again for every needed tile of keys",
        ("queries * width + 2 * keys_read",
         "sum(n * (t.stop - t.start) for n, t in zip(needed.sum(axis=1).tolist(), "
         "tiles(queries, tile_q), strict=True)) * width + 2 * keys_read"),
        "Q or the output is counted once for each needed pair of tiles. Both stay on the chip "
        "while the keys pass by: count each tile of either once.",
    ),
    Slip(
        "LSE not counted",
        ("queries * width + queries ", "queries * width "),
        "The LSE is missing: count one number for each query, too.",
    ),
    Slip(
        "Q or output again for every tile of keys",
        ("queries * width + 2 * keys_read", "needed.shape[1] * queries * width + 2 * keys_read"),
        "Q or the output is counted once for every tile of keys, hidden ones too. Both stay on "
        "the chip while the keys pass by: count each tile of either once.",
    ),
    Slip(
        "tiles of queries that see no key not counted",
        ("queries * width + 2 * keys_read",
         "sum(t.stop - t.start for t, n in zip(tiles(queries, tile_q), needed, strict=True) "
         "if n.any()) * width + 2 * keys_read"),
        "A tile of Q, or of the output, is not counted where it sees no key. Count each tile "
        "once, read and written, whatever it sees; tiles_needed says only which tiles of K and V "
        "are read for it.",
    ),
    Slip(
        "the standard way's count",
        ("(read + written)", "(2 * (queries + keys) * width + 4 * queries * keys)"),
        "These are the bytes of the standard way, which writes all scores and weights and reads "
        "them again. In flash_forward they never leave the chip: count what it reads and writes.",
    ),
    Slip(
        "mask ignored",
        ("tile_k, causal, window)", "tile_k)"),
        "Tiles that the mask hides altogether are counted. Leave them out: ask tiles_needed.",
    ),
)  # fmt: skip


def loops(queries, keys, width, tile_q, tile_k, causal=False, window=None, itemsize=2):
    """The loops of flash_forward, with a counter in the place of every array."""
    needed = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
    numbers = 0
    for i, rows in enumerate(tiles(queries, tile_q)):
        numbers += (rows.stop - rows.start) * (2 * width + 1)
        for j, columns in enumerate(tiles(keys, tile_k)):
            if needed[i, j]:
                numbers += 2 * width * (columns.stop - columns.start)
    return numbers * itemsize


def product_form(queries, keys, width, tile_q, tile_k, causal=False, window=None, itemsize=2):
    """Tiles of keys by length, as a matrix product."""
    grid = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
    starts = np.arange(0, keys, tile_k)
    lengths = np.minimum(starts + tile_k, keys) - starts
    return (queries * (2 * width + 1) + 2 * width * int((grid @ lengths).sum())) * itemsize


EXERCISE = Exercise(
    chapter="16_flash",
    title="Count the bytes",
    goal="Say how many bytes the tiled forward pass moves, before it runs.",
    reference=flash.hbm_traffic,
    contract=Contract(
        numpy_only=True,
        ranges={"queries": (1, 300), "keys": (1, 300), "width": (1, 300), "itemsize": (1, 300)},
        says=(
            "Up to 10⁶ queries and keys. A tile of less than 1 and a negative window raise a "
            "ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: 4 queries, 6 keys",
            *(4, 6, 8, 2, 3),
            want=520,
            why="Q 32, K and V twice 96, output 32, LSE 4 numbers of 2 bytes",
        ),
        Property("no mask, any sizes; an integer", 1, _plain),
        agrees("the last tile may be shorter", _ragged, repeat=1),
        agrees(
            "causal: tiles of K and V that a tile of Q cannot see are not read", _causal, repeat=1
        ),
        agrees("windows, with and without causal", _windows, points=2, repeat=1),
        BAD,
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"the loops themselves": loops, "a matrix product": product_form},
    hints=(
        "Walk through your flash_forward: at which lines does it cut a tile out of q, k or v, and "
        "how often does each line run?",
        "Q is read once, output and LSE are written once. For each tile of queries, add the "
        "lengths of those tiles of keys that tiles_needed calls needed; each key stands for one "
        "row of K and one of V.",
        "numbers = queries · width (Q) + 2 · width · (sum over needed pairs of tiles of the length "
        "of the tile of keys) + queries · width (output) + queries (LSE). Times itemsize.",
    ),
    minutes=15,
    difficulty=3,
    importance=4,
    uses=("tiles_needed",),
)
