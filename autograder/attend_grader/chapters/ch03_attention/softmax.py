"""Exercise 03_attention/softmax: what must hold, how it goes wrong, other ways to write it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from attend_solutions import attention
from attend_solutions.types import Array

from attend_grader.chapters.ch03_attention.shared import PROMISES
from attend_grader.checks.clues import sums
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject

_AXES = (((5,), -1), ((3, 4), -1), ((4, 3), 0), ((4, 4), 0), ((2, 3, 4), 1), ((3, 1, 2), -3))
"""(shape, axis) pairs: unequal lengths, a square, an axis of length 1."""

_APART = np.array([[1e4], [0.0], [-1e4]])
"""Added to three rows, it puts them so far apart that no common maximum serves all."""

_WIDE = np.array([-1000.0, -1000.0, -6000.0])
"""Added to three columns, it puts the scores of each row far apart, two of them near each other."""


def _equal(rng: np.random.Generator) -> Known:
    for count in (3, 1, 7):
        same = np.full(count, round(rng.uniform(-5, 5), 2))
        yield "equal scores", (same,), np.full(count, 1 / count)
    scores = normal(rng, 5)
    why = "3 was added to every score, which should change no weight"
    yield why, (scores + 3.0,), attention.softmax(scores)


def _axes(rng: np.random.Generator) -> Fresh:
    for shape, axis in _AXES:
        yield "", Call((2 * normal(rng, *shape),), {} if axis == -1 else {"axis": axis})
    yield "integers, one in a row, so the weight 1.0", Call((rng.integers(-5, 6, (3, 1)),))


def _huge(rng: np.random.Generator) -> Fresh:
    scores = normal(rng, 3, 5)
    yield "scores near 10,000", Call((1e4 + scores[0],))
    yield "scores near −10,000", Call((scores[0] - 1e4,))
    yield "rows near 10,000, 0 and −10,000", Call((scores + _APART,))
    yield "scores far apart", Call((1e4 * scores,))
    yield "scores of 200,000 and more", Call((np.array([2e5, 1e5, 0.0, 2e5]),))
    yield "scores of ±1e300", Call((np.array([1e300, 9e299, -1e300]),))
    yield "integers of ±10¹⁵", Call((10**15 * np.array([0, 1, -1]),))
    near = np.array([0, 1, 0, 2])
    yield "scores near 10¹⁵, at most 2 apart", Call((1e15 + near,))
    yield "integers near 10¹⁵, at most 2 apart", Call((10**15 + near,))
    yield "three scores of 1e300", Call((np.full(3, 1e300),))


def _hidden(subject: Subject, probe: Probe) -> None:
    """−inf gets 0 exactly, next to scores of any size; a score far below the others does not."""
    scores = normal(probe.rng, 3, 5)
    scores[0, 1] = scores[1, 0] = -np.inf
    scores[2, :4] = -np.inf
    why = "some scores are −inf and must get the weight 0"
    low = np.array([-np.inf, -3e30, -np.inf])
    cases = ((scores, -1), (low, -1), (low.astype(np.float32), -1), (scores.T, 0))
    for given, along in cases:
        axis: dict[str, Any] = {} if along == -1 else {"axis": along}
        weights = probe.agree(subject, given, why=why, clue=sums(along), **axis).value
        some = weights[np.isneginf(given)].max()
        if some != 0:
            told = f"the weight of −inf is {some:.3g}, expected exactly 0."
            raise probe.miss(told, given, **axis)
    low = np.array([0.0, -100.0])
    small = probe.agree(subject, low, clue=sums(-1)).value[1]
    want = math.exp(-100)
    if not math.isclose(small, want, rel_tol=1e-6):
        raise probe.miss(f"the weight of −100 is {small:.3g}, expected {want:.3g}.", low)


def _overflowed(weights: Array) -> str:
    if np.isfinite(weights).all():
        return sums(-1)(weights)
    return "Subtract each row's own largest score before exp, and nothing can overflow."


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, square, another axis, rows far apart, hidden places, integers, one row, length 1.

    In the last, the scores of one row are far apart.
    """
    hidden = normal(rng, 3, 4)
    hidden[0, 1] = hidden[2, 3] = -np.inf
    shapes, other = ((3, 5), (4, 4)), (((3, 4), 0), ((2, 3, 4), 1))
    made = [Call((normal(rng, *shape),)) for shape in shapes]
    made += [Call((normal(rng, *shape),), {"axis": axis}) for shape, axis in other]
    apart, whole = normal(rng, 3, 4) + _APART, rng.permutation(12).reshape(3, 4)
    made += [Call((scores,)) for scores in (apart, hidden, whole, normal(rng, 6))]
    made += [Call((normal(rng, 3, 1, 2),)), Call((normal(rng, 4, 2),), {"axis": -2})]
    return [*made, Call((normal(rng, 2, 3) + _WIDE,))]


MAXIMUM = "scores.max(axis=axis, keepdims=True)"
TOTAL = "exponentials.sum(axis=axis, keepdims=True)"

SLIPS = (
    Slip(
        "did not subtract the maximum",
        ("scores - largest", "scores"),
        "exp of a large score overflows: exp(710) is already infinite. Subtract the largest score "
        "along the axis first; that changes no weight.",
    ),
    Slip(
        "one maximum for all rows",
        (MAXIMUM, "scores.max()"),
        "One number is subtracted from all rows. A row far below the others becomes all zeros, "
        "and 0 / 0 is NaN. Subtract each row's own largest score: max(axis=axis, keepdims=True).",
    ),
    Slip(
        "one sum for all rows",
        (TOTAL, "exponentials.sum()"),
        "All rows together sum to 1, as if divided by the sum of the whole array. Each row needs "
        "its own sum: sum(axis=axis, keepdims=True).",
    ),
    Slip(
        "one softmax over the whole array",
        ((MAXIMUM, "scores.max()"), (TOTAL, "exponentials.sum()")),
        "All numbers of the array together sum to 1. Each row is a distribution of its own: take "
        "max and sum along the axis, with axis=axis and keepdims=True.",
    ),
    Slip(
        "ignored the axis",
        (("max(axis=axis", "max(axis=-1"), ("sum(axis=axis", "sum(axis=-1")),
        "It is always the last axis that sums to 1, whatever axis is asked for. Both max and sum "
        "must run along the axis that the function is given: axis=axis.",
    ),
    Slip(
        "lost the axis in max and sum",
        ((MAXIMUM, "scores.max(axis=axis)"), (TOTAL, "exponentials.sum(axis=axis)")),
        "max and sum lose the axis they run along, so the result lines up with the wrong axis, "
        "which goes unnoticed where the array is square. Keep the axis: keepdims=True in both.",
    ),
    Slip(
        "changed the scores in place",
        (
            ("np.asarray(scores) * 1.0", "scores"),
            ("scores - largest", "np.subtract(scores, largest, out=scores)"),
        ),
        "What you write into `scores` itself (by `-=`, `scores[...] =` or `out=`) changes the "
        "caller's array. Make a new one: shifted = scores - largest.",
    ),
    Slip(
        "no exponential",
        ("np.exp(scores - largest)", "scores"),
        "The scores are divided by their sum as they are. They can be negative and can sum to 0: "
        "take exp first, which makes them all positive.",
    ),
    Slip(
        "shifted, but not by the maximum",
        ("scores.max(", "scores.mean("),
        "Scores are shifted before exp, but not by the largest: where they lie far apart, exp "
        "overflows. Subtract the maximum along the axis: then every exponent is 0 or less.",
    ),
    Slip(
        "something small added to the divisor",
        (TOTAL, f"({TOTAL} + 1e-8)"),
        "The weights sum to a little less than 1: something small is added to the divisor. After "
        "subtracting the maximum the sum is at least 1, so nothing needs protection. Leave it out.",
    ),
    Slip(
        "added the logarithm to the maximum",
        (
            "exponentials / exponentials.sum(axis=axis, keepdims=True)",
            "np.exp(scores - (largest + np.log(exponentials.sum(axis=axis, keepdims=True))))",
        ),
        "The logarithm of the sum is small; added to a huge maximum it is rounded away. Subtract "
        "the maximum from the scores first, then the logarithm, or divide by the sum.",
    ),
)


def by_logarithm(scores, axis=-1):
    """exp(shifted − log Σ exp(shifted)): never divides."""
    shifted = scores - np.max(scores, axis=axis, keepdims=True)
    return np.exp(shifted - np.logaddexp.reduce(shifted, axis=axis, keepdims=True))


def by_slices(scores, axis=-1):
    """One slice at a time, with Python's own exp and sum."""

    def one(row):
        shares = [math.exp(score - max(row)) for score in row.tolist()]
        return np.array([share / math.fsum(shares) for share in shares])

    return np.apply_along_axis(one, axis, scores)


EXERCISE = Exercise(
    chapter="03_attention",
    title="Softmax",
    goal="Turn any scores into weights that are at least 0 and sum to 1, without overflow.",
    reference=attention.softmax,
    contract=replace(
        PROMISES,
        says=(
            "Floating scores of any finite size are safe (NumPy may warn), and integers up to "
            "10¹⁵; a score of −inf gets the weight 0 exactly (rows of nothing but −inf do not "
            "occur). With a float32 argument, here and below, results may be float32, and off by "
            "10⁻⁵.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: ln 1, ln 2, ln 3 → 1/6, 2/6, 3/6",
            np.log([1.0, 2.0, 3.0]),
            want=np.array([1.0, 2.0, 3.0]) / 6,
            clue=sums(-1),
        ),
        known("equal scores share equally; a constant changes nothing", _equal, clue=sums(-1)),
        agrees("sums to 1 along the axis asked for", _axes),
        agrees("huge scores are safe", _huge, repeat=1, clue=_overflowed),
        Property("a score of −inf gets the weight 0, and no other does", 1, _hidden),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_logarithm, by_slices),
    hints=(
        "Follow the worked number: which score did you subtract from all of them first, and why "
        "did that not change the weights?",
        "Three steps, all along `axis`: shift, exponentiate, normalise. The maximum and the sum "
        "each remove an axis; ask NumPy to keep it with length 1, so that the result broadcasts "
        "back against the scores.",
        "Make a new float array rather than changing the input: take away each slice's own "
        "maximum (`axis=axis, keepdims=True`), take `np.exp` of what is left, and divide by the "
        "sum of those exponentials along the same axis, kept in the same way.",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
)
