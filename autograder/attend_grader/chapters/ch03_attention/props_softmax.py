"""Chapter 03, softmax: what must hold of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import agree_untouched, normal
from attend_grader.checks.subject import Subject

_AXES = (((5,), None), ((3, 4), None), ((4, 3), 0), ((4, 4), 0), ((2, 3, 4), 1), ((3, 1, 2), -3))
"""(shape, axis) pairs; None leaves the axis out. Unequal lengths, a square, an axis of length 1."""

_APART = np.array([[1e4], [0.0], [-1e4]])
"""Added to three rows, it puts them so far apart that no common maximum serves all."""


def sums(axis: int) -> Callable[[Any], str]:
    """A clue: weights below 0, or by how much slices along ``axis`` miss the sum 1."""

    def clue(weights: Array) -> str:
        if np.isfinite(weights).all() and weights.min(initial=0) < -1e-9:
            return f"Weights must be positive; yours include {weights.min():.3g}."
        totals = weights.sum(axis=axis)
        worst = float(np.ravel(totals)[np.argmax(np.abs(np.ravel(totals) - 1))])
        if abs(worst - 1) < 1e-6 or not np.isfinite(worst):
            return ""
        return f"Along axis {axis} weights must sum to 1; somewhere yours sum to {worst:.4g}."

    return clue


def softmax_worked(subject: Subject, probe: Probe) -> None:
    """Scores ln 1, ln 2, ln 3 stand as 1 : 2 : 3."""
    probe.agree(subject, np.log([1.0, 2.0, 3.0]), want=np.array([1.0, 2.0, 3.0]) / 6, clue=sums(-1))


def softmax_equal(subject: Subject, probe: Probe) -> None:
    """n equal scores get 1/n each, whatever the score; and raising all alike changes nothing."""
    for count in (3, 1, 7):
        same = np.full(count, round(probe.rng.uniform(-5, 5), 2))
        probe.agree(
            subject, same, want=np.full(count, 1 / count), why="equal scores", clue=sums(-1)
        )
    scores = normal(probe.rng, 5)
    probe.agree(
        subject,
        scores + 3.0,
        want=probe.reference(scores),
        why="3 was added to every score, which should change no weight",
    )


def softmax_axes(subject: Subject, probe: Probe) -> None:
    """One distribution along the axis asked for."""
    for _ in probe.repeat(1, 3):
        for shape, axis in _AXES:
            scores = 2 * normal(probe.rng, *shape)
            if axis is None:
                probe.agree(subject, scores, clue=sums(-1))
            else:
                probe.agree(subject, scores, clue=sums(axis), axis=axis)


def softmax_huge(subject: Subject, probe: Probe) -> None:
    """Neither exp(10⁴) nor exp(−10⁴) may decide the result, nor a row that is far from another."""

    def clue(weights: Array) -> str:
        if np.isfinite(weights).all():
            return sums(-1)(weights)
        return "Subtract each row's own largest score before exp, and nothing can overflow."

    scores = normal(probe.rng, 3, 5)
    probe.agree(subject, 1e4 + scores[0], why="scores near 10,000", clue=clue)
    probe.agree(subject, scores[0] - 1e4, why="scores near −10,000", clue=clue)
    probe.agree(subject, scores + _APART, why="rows near 10,000, 0 and −10,000", clue=clue)
    probe.agree(subject, 1e4 * scores, why="scores far apart", clue=clue)


def softmax_hidden(subject: Subject, probe: Probe) -> None:
    """A score of −inf hides its place; the others share the weight as if it were not there."""
    scores = normal(probe.rng, 3, 5)
    scores[0, 1] = scores[1, 0] = -np.inf
    scores[2, :4] = -np.inf
    why = "some scores are −inf and must get the weight 0"
    probe.agree(subject, scores, why=why, clue=sums(-1))


def softmax_kinds(subject: Subject, probe: Probe) -> None:
    """Whole numbers and float32 are scores too; any floating type is a right answer."""
    whole = probe.rng.permutation(12).reshape(3, 4) - 4
    probe.agree(subject, whole, why="integer scores")
    single = normal(probe.rng, 3, 4).astype(np.float32)
    probe.agree(subject, single, tolerance=FLOAT32, why="float32 scores")


def softmax_untouched(subject: Subject, probe: Probe) -> None:
    """The argument keeps its values, in whatever memory order it is stored."""
    agree_untouched(probe, subject, normal(probe.rng, 3, 4))


SOFTMAX = (
    Property("a hand-worked example: ln 1, ln 2, ln 3 → 1/6, 2/6, 3/6", 1, softmax_worked),
    Property("equal scores share equally; a constant changes nothing", 1, softmax_equal),
    Property("sums to 1 along the axis asked for, in any number of axes", 2, softmax_axes),
    Property("huge scores are safe", 1, softmax_huge),
    Property("a score of −inf gets the weight 0", 1, softmax_hidden),
    Property("integers and float32 work", 1, softmax_kinds),
    Property("leaves its argument as it was", 1, softmax_untouched),
)


def softmax_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, square, another axis, rows far apart, hidden places, integers, one row."""
    hidden = rng.standard_normal((3, 4))
    hidden[0, 1] = hidden[2, 3] = -np.inf
    return [
        Call((rng.standard_normal((3, 5)),)),
        Call((rng.standard_normal((4, 4)),)),
        Call((rng.standard_normal((3, 4)),), {"axis": 0}),
        Call((rng.standard_normal((2, 3, 4)),), {"axis": 1}),
        Call((rng.standard_normal((3, 4)) + _APART,)),
        Call((hidden,)),
        Call((rng.permutation(12).reshape(3, 4),)),
        Call((rng.standard_normal(6),)),
    ]
