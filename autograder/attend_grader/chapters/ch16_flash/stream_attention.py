"""Exercise 16_flash/stream_attention: repair a forward pass that forgets to rescale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from attend_solutions import flash
from attend_solutions.flash import expect_shapes, online_softmax, tiles
from attend_solutions.types import Array

from attend_grader.chapters.ch16_flash.shared import (
    ARRAYS,
    BLANK,
    CUT_WITH_TILES,
    FOR_RIGHT_VALUES,
    blanked,
    guises,
    holds_at_most,
    left_over,
    qkv,
)
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, refuses, worked
from attend_grader.checks.subject import Subject

Inputs = tuple[Array, Array, Array, int]


def _inputs(rng: np.random.Generator, s: int, d: int, d_v: int, tile: int) -> Inputs:
    q, k, v = qkv(rng, 1, s, d, d_v)
    return q[0], k, v, tile


def _sorted(rng: np.random.Generator, rising: bool) -> Inputs:
    """Keys in the order of their scores."""
    q, k, v, tile = _inputs(rng, 7, 4, 2, 2)
    order = np.argsort(k @ q)
    return q, k[order if rising else order[::-1]], v, tile


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for s, d, d_v, tile in ((5, 3, 2, 2), (6, 4, 4, 3), (7, 1, 3, 1), (4, 9, 1, 64), (1, 2, 2, 3)):
        yield "", Call(_inputs(rng, s, d, d_v, tile))
    q, k, v, tile = _inputs(rng, 5, 3, 2, 2)
    for where in (1, -1, slice(2, 4)):
        yield BLANK, Call((q, *blanked((k, v), where, (0, 1)), tile))


def _ordered(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "scores rise from tile to tile", Call(_sorted(rng, True))
    yield "scores fall from tile to tile", Call(_sorted(rng, False))


def _far(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    q, k, v, tile = _sorted(rng, True)
    yield "scores up to some 10,000", Call((100 * q, 100 * k, v, tile))
    yield "one key in a tile", Call((q, k, v, 1))
    steps = np.arange(5.0)[:, None] * np.ones(4)
    why = "scores that fall by 1,000 from tile to tile"
    yield why, Call((np.ones(4), 1000 - 500 * steps, v[:5], 1))
    low = np.where(steps > 3, 10.0, 31.0), np.where(steps[:, :2] > 3, 1e12, 1.0) * v[:5]
    for each in (1, 2):
        yield "a score 42 below the others, and its value 10¹²", Call((np.ones(4), *low, each))
    why = "all scores below −100,000"
    yield why, Call((np.ones(4), -60_000 - steps / 10, v[:5], tile))


def _memory(subject: Subject, probe: Probe) -> None:
    """One tile is held, no larger than asked: not all scores, and no copy of k or v."""
    probe.agree(subject, *_inputs(probe.rng, 6, 4, 2, 2), why=FOR_RIGHT_VALUES)
    advice = "Keep one tile at a time: no row of S scores, and no copy of k or v."
    many = np.ones(2), np.ones((8192, 2)), np.ones((8192, 1)), 64
    holds_at_most(subject, many, 32, of="8,192 keys in tiles of 64", advice=advice)
    numbers = probe.rng.standard_normal((129, 1024))
    wide = numbers[0], *guises(numbers[1:65], numbers[65:]), 1
    advice = "Read k and v in tiles of tile_k keys; a copy of k or v is larger than a tile."
    of = "64 float32 keys of width 1,024, one by one,"
    holds_at_most(subject, wide, 128, of=of, advice=advice)

    def make(length: int, tile: int) -> Inputs:
        k, v = guises(numbers[:length], numbers[-length:])
        return numbers[0], k, v, tile

    left_over(subject, make, of="keys of width 1,024")


def _bad(d: int, values: int, *tile: int) -> tuple[Any, ...]:
    return np.ones(3), np.ones((4, d)), np.ones((values, 2)), *tile


BAD = refuses(
    (
        ("keys of another width", _bad(1, 4), {}),
        ("more values than keys", _bad(3, 8, 2), {}),
        ("a tile of 0 keys", _bad(3, 4, 0), {}, CUT_WITH_TILES),
        ("a tile of −1 keys", _bad(3, 4, -1), {}, CUT_WITH_TILES),
        ("one key of another width", (np.ones(3), np.ones((1, 1)), np.ones((1, 2))), {}),
        ("one key and two values", (np.ones(3), np.ones((1, 3)), np.ones((2, 2))), {}),
        *(
            (
                f"a tile of {n} keys for one key",
                (np.ones(3), np.ones((1, 3)), np.ones((1, 2)), n),
                {},
                CUT_WITH_TILES,
            )
            for n in (0, -1)
        ),
    ),
)


def draws(rng: np.random.Generator) -> list[Call]:
    """Rising and falling scores, one tile, ragged, one key."""
    return [
        Call(_sorted(rng, True)),
        Call(_sorted(rng, False)),
        Call(_inputs(rng, 5, 3, 2, 2)),
        Call(_inputs(rng, 4, 4, 4, 64)),
        Call(_inputs(rng, 6, 2, 3, 1)),
        Call(_inputs(rng, 1, 3, 2, 2)),
    ]


WEIGHTED = "shrink * weighted + exponentials @ v[part]"
TOTAL = "shrink * total + exponentials.sum()"

SLIPS = (
    Slip(
        "as it was given: weighted is not rescaled",
        (WEIGHTED, "weighted + exponentials @ v[part]"),
        "It does what the function did as it was given. Look at each line that adds to something "
        "old, and ask which maximum the old number was measured from.",
    ),
    Slip(
        "neither sum is rescaled",
        ((WEIGHTED, "weighted + exponentials @ v[part]"), (TOTAL, "total + exponentials.sum()")),
        "Neither the old total nor the old weighted sum is rescaled now, so the outputs are a mean "
        "again, but with wrong weights. Multiply both by e^(old largest − new largest).",
    ),
    Slip(
        "rescales the new terms too",
        (WEIGHTED, "shrink * (weighted + exponentials @ v[part])"),
        "The new terms are rescaled too, and they are measured from the new largest score "
        "already. Multiply only the old weighted sum.",
    ),
    Slip(
        "rescaled the wrong way",
        ("np.exp(largest - new_largest)", "np.exp(min(new_largest - largest, 700.0))"),
        "Old sums grow when a larger score comes. They must shrink: e^(old largest − new largest).",
    ),
    Slip(
        "LSE without the largest score",
        ("float(largest + np.log(total))", "float(np.log(total))"),
        "The LSE lacks the largest score. total is measured from it, so add it: largest + ln "
        "total.",
    ),
    Slip(
        "last keys left out",
        ("tiles(len(k), tile_k):", "tiles(len(k) - len(k) % min(tile_k, len(k)), tile_k):"),
        "Where S is above tile_k and no multiple of it, the last keys are left out. Take the "
        "shorter last tile, too.",
    ),
)


def by_steps(q, k, v, tile_k=64):
    """The learner's own step, with one query as a row."""
    expect_shapes(q[None], k, v)
    state = np.array([-np.inf]), np.zeros(1), np.zeros((1, v.shape[-1]))
    for part in tiles(k.shape[0], tile_k):
        state = online_softmax(*state, (q @ k[part].T / np.sqrt(q.shape[-1]))[None], v[part])
    return state[2][0] / state[1], (state[0] + np.log(state[1])).item()


def two_passes(q, k, v, tile_k=64):
    """First the largest score, tile by tile, then the sums: nothing needs to be rescaled."""
    expect_shapes(q[None], k, v)
    parts = tiles(len(k), tile_k)
    scale = 1 / np.sqrt(q.size)
    largest = max(float((k[p] @ q).max() * scale) for p in parts)
    total, weighted = 0.0, np.zeros(v.shape[-1])
    for p in parts:
        exponentials = np.exp(k[p] @ q * scale - largest)
        total += float(exponentials.sum())
        weighted += exponentials @ v[p]
    return weighted / total, largest + float(np.log(total))


EXERCISE = Exercise(
    chapter="16_flash",
    title="Repair: one query over a stream of keys",
    goal="Find the one line that is wrong in a forward pass that looks right.",
    reference=flash.stream_attention,
    contract=replace(
        ARRAYS,
        says=(
            "Scores that are nearly the same are within ±100,000.",
            "Beside copies of the size of q or the output, no more than a few tiles in memory at "
            "once, none of more than tile_k keys.",
            "Shapes that do not fit and tiles of less than 1 raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: equal scores",
            *(np.ones(4), np.zeros((3, 4)), np.array([[1.0, 3.0], [2.0, 3.0], [6.0, 0.0]]), 2),
            want=(np.array([3.0, 2.0]), float(np.log(3.0))),
            why="every weight is 1/3",
        ),
        agrees("fresh queries and keys, tiles of any size", _values),
        agrees("scores that rise or fall from tile to tile", _ordered, repeat=1),
        agrees("large scores; one key in a tile", _far, repeat=1),
        Property("memory for one tile, whatever the number of keys", 1, _memory),
        BAD,
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "online_softmax, step by step": by_steps,
        "two passes": two_passes,
    },
    hints=(
        "Make all values 1. A weighted mean of ones is 1: what do you get, and for which order of "
        "keys? Then print largest, total and weighted after each tile.",
        "Two numbers are carried from tile to tile, and both are sums of exponentials measured "
        "from `largest`. When it changes, both must be measured anew. Compare their two lines.",
        "`weighted` is added to as it is. Multiply the old one by np.exp(largest - new_largest) "
        "before you add, as the line above does with `total`.",
    ),
    minutes=10,
    difficulty=2,
    importance=4,
    uses=("online_softmax", "merge_partials"),
    results=("output", "lse"),
)
