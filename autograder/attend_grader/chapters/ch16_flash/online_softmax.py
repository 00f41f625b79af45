"""Exercise 16_flash/online_softmax: one step of a softmax-weighted sum that never looks back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from attend_solutions import flash
from attend_solutions.types import Array

from attend_grader.chapters.ch16_flash.shared import ARRAYS, whole
from attend_grader.checks.compare import Tolerance, expect_close
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject

Inputs = tuple[Array, Array, Array, Array, Array]

EXACT = Tolerance("exact", 0.0, "exp(−inf) is 0, and sums of zeros are 0, however they are made")


def _inputs(
    rng: np.random.Generator, t: int, n: int, d_v: int, lead: tuple[int, ...] = ()
) -> Inputs:
    """A state that has seen keys, and a tile; in about half of the rows the maximum moves."""
    running_max, running_sum = 2 * normal(rng, *lead, t) + 2, 1 + abs(normal(rng, *lead, t))
    tile = 2 * normal(rng, *lead, t, n), normal(rng, *lead, n, d_v)
    return running_max, running_sum, normal(rng, *lead, t, d_v), *tile


def _empty(t: int, d_v: int) -> tuple[Array, Array, Array]:
    return np.full(t, -np.inf), np.zeros(t), np.zeros((t, d_v))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for t, n, d_v in ((3, 4, 2), (4, 4, 4), (1, 3, 5), (5, 1, 2)):
        yield "", Call(_inputs(rng, t, n, d_v))
    yield "the first tile", Call((*_empty(3, 2), *_inputs(rng, 3, 4, 2)[3:]))


def _hidden(subject: Subject, probe: Probe) -> None:
    for _ in probe.repeat(1, 3):
        scores, values = np.full((2, 3), -np.inf), normal(probe.rng, 3, 2)
        why = "a tile of which a row sees no key: all its scores are −inf"
        probe.agree(subject, *_inputs(probe.rng, 2, 3, 2)[:3], scores, values, why=why)
        why = "only hidden keys so far: −inf, 0 and 0 stay exactly that"
        probe.agree(subject, *_empty(2, 2), scores, values, tolerance=EXACT, why=why)
        scores[1, 2] = 0.5
        why = "the first tile, of which a row sees no key"
        probe.agree(subject, *_empty(2, 2), scores, values, why=why)


def _huge(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    running_max, *rest, scores, values = _inputs(rng, 3, 4, 2)
    yield "a tile near 10,000", Call((running_max, *rest, scores + 1e4, values))
    yield "a tile near −10,000", Call((running_max, *rest, scores - 1e4, values))
    grown = np.full(3, -30.0), np.ones(3), 1e12 * rest[-1]
    yield (
        "the output so far near 10¹², and a tile 30 above its scores",
        Call((*grown, scores, values)),
    )
    yield "the output so far near 10¹², and a tile 90 above", Call((*grown, scores + 60, values))
    second, large = np.arange(4) == 1, values * [[1], [1e12], [1], [1]]
    for score, what in ((-np.inf, "a hidden key"), (-50.0, "a score of −50")):
        low = np.where(second, score, scores)
        yield f"{what}, and its value 10¹²", Call((running_max, *rest, low, large))
    for far in (1e4, 1e12):
        args = running_max - far, *rest, scores - far, values
        yield f"all scores near −{far:,.0f}", Call(args)
        why = f"the first tile, with scores near −{far:,.0f}"
        yield why, Call((*_empty(3, 2), scores - far, values))
        hidden = (scores - far).copy()
        hidden[:, 1], hidden[1] = -np.inf, -np.inf
        why = f"scores near −{far:,.0f} beside hidden keys, and a row that sees none"
        yield why, Call((*_empty(3, 2), hidden, values))
        yield why, Call((running_max - far, *rest, hidden, values))


def _rows(subject: Subject, probe: Probe) -> None:
    """Whole rows, tile by tile from the empty state, end at the softmax-weighted mean."""
    for tile in (1, 2, 3, 7):
        scores, values = 3 * normal(probe.rng, 3, 7), normal(probe.rng, 7, 2)
        state = _empty(3, 2)
        for part in flash.tiles(7, tile):
            why = f"rows of 7 keys in tiles of {tile}, keys {part.start + 1} to {part.stop}"
            state = probe.agree(subject, *state, scores[:, part], values[part], why=why).value
        want = whole(scores * np.sqrt(7), np.eye(7), values)[0]  # q = scores √7, k = the identity
        ratio = np.asarray(state[2]) / np.asarray(state[1])[:, None]
        expect_close(ratio, want, what="accumulator / sum after the last tile")


def draws(rng: np.random.Generator) -> list[Call]:
    """Moving and resting maxima, square, the first tile, hidden keys, one key, one query."""
    hidden = np.array([[0.5, -np.inf, 1.0], [-np.inf, -np.inf, -np.inf]])
    return [
        Call(_inputs(rng, 3, 4, 2)),
        Call(_inputs(rng, 4, 4, 4)),
        Call(_inputs(rng, 2, 3, 3, (2,))),
        Call((*_empty(3, 2), *_inputs(rng, 3, 4, 2)[3:])),
        Call((*_empty(2, 2), -abs(normal(rng, 2, 3)) - 1, normal(rng, 3, 2))),
        Call((*_empty(2, 2), hidden, normal(rng, 3, 2))),
        Call(_inputs(rng, 2, 1, 3)),
        Call(_inputs(rng, 1, 4, 3, (2,))),
    ]


OLD_SUM, OLD_ACCUMULATOR = "correction * running_sum", "correction[..., None] * accumulator"
DIVIDED = (
    "The accumulator comes back divided by the sum, and the next step would take it for undivided. "
    "Divide once, after the last tile."
)

SLIPS = (
    Slip(
        "accumulator not corrected",
        (OLD_ACCUMULATOR, "accumulator"),
        "The old accumulator is still measured from the old maximum. Where the maximum rises it "
        "must be multiplied by e^(old maximum − new maximum), as the sum is.",
    ),
    Slip(
        "sum not corrected",
        (OLD_SUM, "running_sum"),
        "The old sum is still measured from the old maximum. Where the maximum rises it must be "
        "multiplied by e^(old maximum − new maximum), as the accumulator is.",
    ),
    Slip(
        "nothing corrected",
        ((OLD_SUM, "running_sum"), (OLD_ACCUMULATOR, "accumulator")),
        "Old sum and old accumulator are measured from the old maximum, the new terms from the "
        "new one. Multiply both old ones by e^(old maximum − new maximum) before you add.",
    ),
    Slip(
        "everything corrected, new terms too",
        (("correction * running_sum + exponentials.sum(axis=-1)",
          "correction * (running_sum + exponentials.sum(axis=-1))"),
         ("correction[..., None] * accumulator + exponentials @ values",
          "correction[..., None] * (accumulator + exponentials @ values)")),
        "The new terms are multiplied by the correction too. They are measured from the new "
        "maximum already: correct only the old sum and the old accumulator.",
    ),
    Slip(
        "correction upside down",
        ("np.exp(running_max - subtracted)",
         "np.exp(subtracted - np.where(running_max == -np.inf, subtracted, running_max))"),
        "The correction is above 1 where the maximum rises. What was summed before must shrink: "
        "e^(old maximum − new maximum).",
    ),
    Slip(
        "maximum of this tile only",
        ("np.maximum(running_max, scores.max(axis=-1))", "scores.max(axis=-1)"),
        "The new maximum forgets the old one: it falls where this tile has smaller scores. Take "
        "the larger of both, np.maximum(running_max, …).",
    ),
    Slip(
        "divides at every step",
        ("new_sum, new_accumulator", "new_sum, new_accumulator / new_sum[..., None]"),
        DIVIDED,
    ),
    Slip(
        "divides at every step where the sum is not 0",
        ("new_sum, new_accumulator",
         "new_sum, new_accumulator / np.where(new_sum == 0, 1, new_sum)[..., None]"),
        DIVIDED,
    ),
    Slip(
        "NaN where every key is hidden",
        ("np.where(new_max == -np.inf, 0.0, new_max)", "new_max"),
        "A row that has seen hidden keys only has the maximum −∞, and −∞ − (−∞) is NaN. Subtract "
        "some finite number in such a row: every exponential is then 0, as it should be.",
    ),
    Slip(
        "exponentials measured from this tile's maximum",
        ("scores - subtracted[..., None]",
         "scores - np.where(scores.max(axis=-1) == -np.inf, 0.0, scores.max(axis=-1))[..., None]"),
        "The new terms are measured from the largest score of this tile, the old ones from the new "
        "maximum. They differ where an earlier tile held a larger score: subtract the new maximum.",
    ),
)  # fmt: skip


def old_sum_as_a_key(running_max, running_sum, accumulator, scores, values):
    """What was summed before is one more key, whose exponential counts running_sum times."""
    together = np.concatenate([running_max[..., None], scores], axis=-1)
    largest = together.max(-1)
    safe = np.where(np.isneginf(largest), 0, largest)[..., None]
    weights = np.exp(together - safe)
    old, new = weights[..., :1], weights[..., 1:]
    total = old[..., 0] * running_sum + np.einsum("...n->...", new)
    return largest, total, old * accumulator + np.einsum("...tn,...nv->...tv", new, values)


def key_by_key(running_max, running_sum, accumulator, scores, values):
    """Algorithm 3 of Milakov and Gimelshein to the letter: one key after the other."""
    m, total, weighted = (x * 1.0 for x in (running_max, running_sum, accumulator))
    for j in range(scores.shape[-1]):
        z = scores[..., j]
        new = np.maximum(m, z)
        with np.errstate(invalid="ignore"):
            old_share = np.where(m == -np.inf, 0.0, np.exp(m - new))
            share = np.where(z == -np.inf, 0.0, np.exp(z - new))
        total = total * old_share + share
        weighted = weighted * old_share[..., None] + share[..., None] * values[..., j, None, :]
        m = new
    return m, total, weighted


EXERCISE = Exercise(
    chapter="16_flash",
    title="One step of an online softmax",
    goal="Take in one more tile of keys, and correct what was summed before.",
    reference=flash.online_softmax,
    contract=replace(ARRAYS, leading_axes=True),
    properties=(
        worked(
            "a hand-worked example: the first tile",
            *_empty(1, 1),
            np.log([[1.0, 2.0, 4.0]]),
            np.array([[8.0], [4.0], [1.0]]),
            want=(np.log([4.0]), np.array([1.75]), np.array([[5.0]])),
            why="before the first tile: maximum −inf, sum 0, accumulator 0",
        ),
        worked(
            "a hand-worked example: the maximum rises",
            *(np.array([0.0]), np.array([2.0]), np.array([[6.0]])),
            *(np.log([[4.0]]), np.array([[3.0]])),
            want=(np.log([4.0]), np.array([1.5]), np.array([[4.5]])),
            why="the old sum 2 and accumulator 6 shrink to a quarter",
        ),
        agrees("one tile, whatever was seen before", _values),
        Property("whole rows in tiles of any size", 1, _rows),
        Property("hidden keys (−inf), also a row of them", 1, _hidden),
        agrees("scores far above and far below 0", _huge, repeat=1),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "the old sum as one more key": old_sum_as_a_key,
        "key by key": key_by_key,
    },
    hints=(
        "Follow the second worked example: which two numbers shrank, by which factor, and why did "
        "the new key's own exponential not shrink?",
        "Four steps: the new maximum of each row; the exponentials of the tile, measured from it; "
        "the factor that carries old sums over to the new maximum; the new sum and accumulator. A "
        "maximum of shape (..., T) needs one more axis to be subtracted from (..., T, n).",
        "New maximum: np.maximum of the old one and the tile's row maxima. Factor: exp of old less "
        "new. Sum: factor times old, plus the row sums of the exponentials. Accumulator: factor, "
        "with an axis added, times old, plus exponentials times values. Where the new maximum is "
        "−∞, subtract 0 in its place, but return −∞.",
    ),
    minutes=20,
    difficulty=3,
    importance=5,
    results=("running_max", "running_sum", "accumulator"),
)
