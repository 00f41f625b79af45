"""Exercise 16_flash/stream_attention: repair a forward pass that forgets to rescale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attend_solutions import flash
from attend_solutions.flash import expect_shapes, merge_partials, online_softmax, tiles
from attend_solutions.types import Array

from attend_grader.chapters.ch16_flash.shared import (
    CUT_WITH_TILES,
    guises,
    holds_at_most,
    qkv,
    whole,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import expect_growth
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


def _ordered(
    rng: np.random.Generator,
) -> Iterator[tuple[str, Inputs, tuple[Array, float]]]:
    for rising in (True, False):
        q, k, v, tile = _sorted(rng, rising)
        output, lse = whole(q[None], k, v)
        why = f"scores {'rise' if rising else 'fall'} from tile to tile"
        yield why, (q, k, v, tile), (output[0], float(lse[0]))


def _far(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    q, k, v, tile = _sorted(rng, True)
    yield "scores up to some 10,000", Call((100 * q, 100 * k, v, tile))
    yield "one key in a tile", Call((q, k, v, 1))
    steps = np.arange(5.0)[:, None] * np.ones(4)
    why = "scores that fall by 1,000 from tile to tile"
    yield why, Call((np.ones(4), 1000 - 500 * steps, v[:5], 1))
    why = "all scores below −100,000"
    yield why, Call((np.ones(4), -60_000 - steps / 10, v[:5], tile))


def _memory(subject: Subject, probe: Probe) -> None:
    """No tile is larger than asked; four times as many keys need no more memory than one tile."""
    probe.agree(subject, *_inputs(probe.rng, 6, 4, 2, 2), why="memory counts for right values only")
    state = int(probe.rng.integers(2**31))
    wide = np.random.default_rng(state).standard_normal((129, 1024))
    args = wide[0], *guises(wide[1:65], wide[65:]), 1
    advice = "Read k and v in tiles of tile_k keys; a copy of k or v is larger than a tile."
    of = "64 float32 keys of width 1,024, one by one,"
    whole_row = np.ones(2), np.ones((8192, 2)), np.ones((8192, 1)), 64
    keep = "Keep one tile at a time: no row of S scores, and no copy of k or v."
    holds_at_most(subject, whole_row, 32, of="8,192 keys in tiles of 64", advice=keep)
    holds_at_most(subject, args, 128, of=of, advice=advice)

    def make(keys: int) -> Inputs:
        rng = np.random.default_rng(state)
        k, v = guises(*rng.standard_normal((2, keys, 4)))
        return rng.standard_normal(4), k, v, 1024

    advice = "Keep one tile of scores and exponentials at a time, and no list of results."
    expect_growth(
        subject, make, sizes=(4096, 16384), at_most=2, cost="peak_bytes", of="keys", advice=advice
    )
    args = *make(4096)[:3], 64
    holds_at_most(subject, args, 32, of="4,096 keys in tiles of 64", advice=advice)


BAD = refuses(
            (
        ("keys of another width", (np.ones(3), np.ones((4, 1)), np.ones((4, 2))), {}),
        ("more values than keys", (np.ones(3), np.ones((4, 3)), np.ones((8, 2)), 2), {}),
        (
            "a tile of 0 keys",
            (np.ones(3), np.ones((4, 3)), np.ones((4, 2)), 0),
            {},
            CUT_WITH_TILES,
        ),
        (
            "a tile of −1 keys",
            (np.ones(3), np.ones((4, 3)), np.ones((4, 2)), -1),
            {},
            CUT_WITH_TILES,
        ),
    ),
)  # fmt: skip


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


def all_at_once(q, k, v, tile_k=64):  # noqa: D103 (what a learner is told is its slip's)
    expect_shapes(q[None], k, v)
    tiles(len(k), tile_k)
    scores = k @ q / len(q) ** 0.5
    exponentials = np.exp(scores - scores.max())
    total = exponentials.sum()
    return exponentials @ v / total, float(scores.max() + np.log(total))


WEIGHTED = "shrink * weighted + exponentials @ v[part]"
TOTAL = "shrink * total + exponentials.sum()"

SLIPS = (
    Slip(
        "as it was given: weighted is not rescaled",
        (WEIGHTED, "weighted + exponentials @ v[part]"),
        "This is how the function was given. Look at each line that adds to something old, and "
        "ask which maximum the old number was measured from.",
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
        "The new terms are rescaled too, and they are measured from the new largest score already. "
        "Only the old weighted sum is multiplied.",
    ),
    Slip(
        "rescaled the wrong way",
        ("np.exp(largest - new_largest)", "np.exp(min(new_largest - largest, 700.0))"),
        "Old sums grow when a larger score comes. They must shrink: e^(old largest − new largest).",
    ),
    Slip(
        "weighted rescaled the wrong way",
        (
            WEIGHTED,
            "(weighted / shrink if np.isfinite(largest) else weighted) + exponentials @ v[part]",
        ),
        "The old weighted sum grows when a larger score comes. It must shrink, as the total does: "
        "multiply it by e^(old largest − new largest).",
    ),
    Slip(
        "LSE without the largest score",
        ("float(largest + np.log(total))", "float(np.log(total))"),
        "The LSE lacks the largest score: total is measured from it, so LSE = largest + ln total.",
    ),
    Slip(
        "forgets the scale",
        (" / len(q) ** 0.5", ""),
        "Scores are not divided by √D any more. That line was right as it was given.",
    ),
    Slip(
        "more keys at once than tile_k",
        all_at_once,
        "Values are right, but more is held than tiles of the size asked for: all scores at once, "
        "a copy of k or v, or tiles that do not follow tile_k. Read the stream in tiles of tile_k.",
    ),
    Slip(
        "last keys left out",
        ("tiles(len(k), tile_k):", "tiles(len(k) - len(k) % min(tile_k, len(k)), tile_k):"),
        "Where S is no multiple of tile_k, the last keys are not looked at. The last tile is "
        "shorter, and it counts.",
    ),
)


def by_steps(q, k, v, tile_k=64):
    """The learner's own step, with one query as a row."""
    expect_shapes(q[None], k, v)
    state = np.array([-np.inf]), np.zeros(1), np.zeros((1, v.shape[-1]))
    for part in tiles(k.shape[0], tile_k):
        state = online_softmax(*state, (q @ k[part].T / np.sqrt(q.shape[-1]))[None], v[part])
    return state[2][0] / state[1], (state[0] + np.log(state[1])).item()


def by_merging(q, k, v, tile_k=64):
    """A finished result for each tile, merged into what was there."""
    expect_shapes(q[None], k, v)
    output, lse = np.zeros((1, v.shape[-1])), np.array([-np.inf])
    for part in tiles(len(k), tile_k):
        scores = k[part] @ q / np.sqrt(len(q))
        weights = np.exp(scores - scores.max())
        mine = (weights @ v[part] / weights.sum())[None]
        its_lse = np.array([scores.max() + np.log(weights.sum())])
        output, lse = merge_partials(output, lse, mine, its_lse)
    return output[0], float(lse[0])


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
    contract=Contract(
        numpy_only=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        says=(
            "Beside copies of the size of q or the output, no more than a few tiles in memory at "
            "once, none of more than tile_k keys.",
            "Shapes that do not fit and tiles of less than 1 raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: equal scores",
            np.ones(4),
            np.zeros((3, 4)),
            np.array([[1.0, 3.0], [2.0, 3.0], [6.0, 0.0]]),
            2,
            want=(np.array([3.0, 2.0]), float(np.log(3.0))),
            why="every weight is 1/3",
        ),
        agrees("fresh queries and keys, tiles of any size", _values),
        known("scores that rise or fall from tile to tile", _ordered),
        agrees("large scores; one key in a tile", _far, repeat=1),
        Property("memory for one tile, whatever the number of keys", 1, _memory),
        BAD,
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "online_softmax, step by step": by_steps,
        "merge_partials, tile by tile": by_merging,
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
