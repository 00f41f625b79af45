"""Chapter 16: numbers and properties that several exercises use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.compare import Miss
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS, Contract
from attend_grader.checks.exercise import Probe, Property
from attend_grader.checks.helpers import refuses
from attend_grader.checks.properties import expect_growth, normal, transposed
from attend_grader.checks.subject import Subject, SubjectError

ARRAYS = Contract(
    numpy_only=True, accepts=(FLOAT64, FLOAT32, INTEGERS), views=True, arguments_unchanged=True
)
"""What every function of arrays in this chapter promises."""

FOR_RIGHT_VALUES = "memory counts for right values only"
CUT_WITH_TILES = "tiles(…) does that: cut with it, or look at the tile sizes before you loop."


def qkv(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    """Random q (*lead, t, d), k (*lead, s, d), v (*lead, s, d_v); scores spread by a few units."""
    q, k, v = (normal(rng, *lead, *ends) for ends in ((t, d), (s, d), (s, d_v)))
    return 2 * q, 2 * k, v


def whole(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Attention in one piece, real or complex: output and LSE, by the definition."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    largest = np.real(scores).max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - largest)
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials @ v / total, (largest + np.log(total))[..., 0]


def bad_attention_input(*more: Array) -> Property:
    """Shapes that do not fit and tiles of less than 1; ``more`` stands between v and the tiles."""

    def call(d: int, values: int, *sizes: int) -> tuple[Any, ...]:
        return np.ones((2, 3)), np.ones((4, d)), np.ones((values, 2)), *more, *sizes

    def one(*sizes: int, d: int = 3) -> tuple[Any, ...]:
        """One query and one key, which no tile would cut."""
        first = tuple(array[:1] for array in more)
        return np.ones((1, 3)), np.ones((1, d)), np.ones((1, 2)), *first, *sizes

    return refuses(
        (
            ("keys of another width", call(1, 4), {}),
            ("more values than keys", call(3, 8, 2, 2), {}),
            ("a tile of 0 queries", call(3, 4, 0, 2), {}, CUT_WITH_TILES),
            ("a tile of −1 queries", call(3, 4, -1, 2), {}, CUT_WITH_TILES),
            ("a tile of 0 keys", call(3, 4, 2, 0), {}, CUT_WITH_TILES),
            ("a tile of −1 keys", call(3, 4, 2, -1), {}, CUT_WITH_TILES),
            ("one query, and one key of another width", one(d=1), {}),
            ("a tile of 0 queries for one query", one(0, 2), {}, CUT_WITH_TILES),
            ("a tile of −1 queries for one query", one(-1, 2), {}, CUT_WITH_TILES),
            ("a tile of 0 keys for one key", one(2, 0), {}, CUT_WITH_TILES),
            ("a tile of −1 keys for one key", one(2, -1), {}, CUT_WITH_TILES),
        ),
    )


def blanked(
    arrays: tuple[Array, ...], where: int | slice, which: tuple[int, ...]
) -> tuple[Array, ...]:
    """The same arrays, some of them (``which``) with zeros in a row, or in several (``where``)."""
    made = tuple(array.copy() for array in arrays)
    for place in which:
        made[place][..., where, :] = 0.0
    return made


BLANK = "a key whose numbers and values are zeros: its score is 0, and it has its share"


def guises(*arrays: Array) -> tuple[Array, ...]:
    """The same numbers as float32, stored transposed: whoever makes them plain copies them."""
    return tuple(transposed(array.astype(np.float32)) for array in arrays)


TILINGS = (
    (128, 128, 8, 8, 80),
    (512, 256, 8, 64, 80),
    (16, 1024, 256, 16, 112),
    (1024, 16, 16, 256, 112),
    (512, 64, 512, 1, 112),
    (64, 512, 1, 512, 112),
)
"""T, S, tile_q, tile_k, KiB: small tiles; many queries; many keys; tiles longer than there is; then
one size as large and the other as small as can be, so that either shows if it is not kept to.

Results, copies of their size and tiles take half of it at most, also where they are kept as 128
little arrays, whose headers take 20 KiB more. A strip of all scores takes 128 KiB by itself.
In the last two, 64 keys at once, or 64 queries, make 256 KiB of scores; asked for are 4 KiB.
"""


LEFT_OVER = ((2, 4, 5), (4, 8, 11))
"""A tile, a length that it divides, and a longer one: what is left over is a tile of its own."""


def left_over(
    subject: Subject,
    make: Callable[[int, int], tuple[Any, ...]],
    *,
    of: str,
    at_most: float = 1.1,
) -> None:
    """What no tile is left for is not taken with the tile before: no more memory is held.

    Args:
        subject: the candidate.
        make: arguments for a length in tiles of a size.
        of: what is cut.
        at_most: the ratio allowed; a tile that is half as long again would need more.
    """
    for tile, whole_tiles, longer in LEFT_OVER:
        expect_growth(
            subject,
            lambda length, tile=tile: make(length, tile),
            sizes=(whole_tiles, longer),
            at_most=at_most,
            cost="peak_bytes",
            of=f"{of} in tiles of {tile}",
            advice="The last tile may be shorter, and is a tile of its own: none is longer.",
        )


MANY = 1024
"""Keys or queries that make the scores of a tile larger than all else."""


def tiles_as_asked(make: Callable[..., tuple[Any, ...]]) -> Property:
    """Tiles are no larger than asked: larger ones are seen by the memory that they take.

    Args:
        make: of a generator, T, S, D and D_v: the arguments before the tile sizes.
    """
    advice = "Cut queries into tiles of tile_q and keys into tiles of tile_k, as tiles(…) does."

    def test(subject: Subject, probe: Probe) -> None:
        probe.agree(subject, *make(probe.rng, 4, 6, 3, 2), 2, 4, why=FOR_RIGHT_VALUES)
        for t, s, tile_q, tile_k, limit in TILINGS:
            of = f"{t} queries in tiles of {tile_q} and {s} keys in tiles of {tile_k}"
            args = *make(probe.rng, t, s, 2, 1), tile_q, tile_k
            holds_at_most(subject, args, limit, of=of, advice=advice)
        left_over(subject, lambda n, tile: (*make(rng(), n, MANY, 1, 1), tile, MANY), of="queries")
        left_over(subject, lambda n, tile: (*make(rng(), MANY, n, 1, 1), MANY, tile), of="keys")

    def rng() -> np.random.Generator:
        return np.random.default_rng(1)

    return Property("tiles are no larger than asked", 1, test)


def holds_at_most(
    subject: Subject, args: tuple[Any, ...], limit: int, *, of: str, advice: str
) -> None:
    """A call never holds more than ``limit`` KiB at once, beside its arguments."""
    outcome = subject.run(args, measure=True)
    if outcome.error is not None:
        raise SubjectError(outcome.error)
    held = outcome.peak_bytes / 1024
    if held > limit:
        text = f"too large: {of} take {held:,.0f} KiB at once; {limit} are plenty. {advice}"
        raise Miss(text, topic="tiles larger than asked")
