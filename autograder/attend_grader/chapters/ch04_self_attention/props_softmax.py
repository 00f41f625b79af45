"""Chapter 04, masked softmax: what must hold of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attend_solutions.types import Array, Mask

from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import VIEWS, expect_unchanged, normal
from attend_grader.checks.subject import Subject

_APART = np.array([[1e4], [0.0], [-1e4]])
"""Added to three rows, it puts them so far apart that no common maximum serves all."""


def seen(rng: np.random.Generator, *shape: int) -> Mask:
    """A random mask: in each row of two or more places at least one is visible, one hidden."""
    mask = rng.random(shape) < 0.6
    turn = rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
    return (mask | (turn == 0)) & ((turn != 1) | (shape[-1] == 1))


def within(mask: Any) -> Callable[[Array], str]:
    """A clue: a hidden place has weight, or a row does not sum to what it should."""

    def clue(weights: Array) -> str:
        if not np.isfinite(weights).all():
            return ""
        allowed = np.broadcast_to(True if mask is None else mask, weights.shape)
        stray = np.abs(np.where(allowed, 0, weights))
        if stray.max(initial=0) > 0:
            where = np.unravel_index(int(stray.argmax()), weights.shape)
            place = ", ".join(map(str, where))
            return (
                f"The mask is False at [{place}], so the weight there must be 0; yours is "
                f"{weights[where]:.3g}."
            )
        totals = weights.sum(axis=-1)
        off = np.abs(np.where(allowed.any(axis=-1), totals - 1, 0)).ravel()
        if off.max(initial=0) < 1e-6:
            return ""
        return (
            "The visible weights of a row must sum to 1; somewhere yours sum to "
            f"{np.ravel(totals)[off.argmax()]:.4g}."
        )

    return clue


def empty_rows(empty: Any) -> Callable[[Array], str]:
    """A clue for the rows of the scores (True in ``empty``, (..., T)) with everything hidden."""

    def clue(weights: Array) -> str:
        rows = weights[np.broadcast_to(empty, weights.shape[:-1])]
        if np.isnan(rows).any():
            return (
                "NaN comes from −inf − (−inf), or from 0 / 0: in a row with nothing to look at "
                "the largest score is −inf, and the sum of the exponentials is 0. Put harmless "
                "numbers in their place before you subtract and divide."
            )
        if np.isfinite(rows).all() and np.abs(rows).max(initial=0) > 0:
            return (
                "A row with nothing to look at gets the weight 0 everywhere; yours holds "
                f"{rows.flat[np.abs(rows).argmax()]:.3g}. Hidden scores are −inf, not just very "
                "low, and a row of nothing but −inf needs a line of its own."
            )
        return ""

    return clue


def _own_largest(weights: Array) -> str:
    """A clue for rows far apart."""
    if np.isfinite(weights).all() and np.allclose(weights.sum(axis=-1), 1):
        return ""
    return "Each row needs its own largest score: max(axis=-1, keepdims=True)."


def masked_worked(subject: Subject, probe: Probe) -> None:
    """Scores ln 1, ln 2, ln 9, ln 5 with the third hidden: 1 : 2 : 5."""
    mask = np.array([True, True, False, True])
    want = np.array([1.0, 2.0, 0.0, 5.0]) / 8
    probe.agree(subject, np.log([1.0, 2.0, 9.0, 5.0]), mask, want=want, clue=within(mask))


def masked_none(subject: Subject, probe: Probe) -> None:
    """No mask, or one that is True everywhere: the softmax of chapter 03, huge scores included."""
    for scores in (normal(probe.rng, 3, 4), normal(probe.rng, 2, 2, 3), 1e4 * normal(probe.rng, 5)):
        probe.agree(subject, scores, why="no mask", clue=within(None))
    scores = normal(probe.rng, 3, 3)
    probe.agree(subject, scores, None, why="mask=None", clue=within(None))
    probe.agree(subject, scores, np.ones((3, 3), bool), why="a mask that hides nothing")
    why = "rows near 10,000, 0 and −10,000"
    probe.agree(subject, scores + _APART, why=why, clue=_own_largest)


def masked_hides(subject: Subject, probe: Probe) -> None:
    """0 where hidden; the others as if the hidden places did not exist."""
    for _ in probe.repeat(1, 3):
        for shape in ((2, 5), (4, 4), (2, 3, 4)):
            scores, mask = 2 * normal(probe.rng, *shape), seen(probe.rng, *shape)
            probe.agree(subject, scores, mask, clue=within(mask))
    scores = normal(probe.rng, 3, 4)
    one = np.eye(3, 4, k=1, dtype=bool)
    why = "one visible place in each row, so it gets the weight 1"
    probe.agree(subject, scores, one, want=one.astype(float), why=why, clue=within(one))


def masked_empty(subject: Subject, probe: Probe) -> None:
    """A row with nothing to look at gets 0, and does not disturb the others."""
    for scores in (normal(probe.rng, 3, 4), 100 * normal(probe.rng, 4, 4) - 300):
        mask = seen(probe.rng, *scores.shape)
        mask[1] = False
        why = "row 1 has nothing to look at"
        probe.agree(subject, scores, mask, why=why, clue=empty_rows(~mask.any(axis=-1)))
    scores = normal(probe.rng, 3, 4)
    scores[2] = -np.inf
    why = "no mask, but row 2 is all −inf"
    probe.agree(subject, scores, why=why, clue=empty_rows(np.isneginf(scores).all(axis=-1)))
    why = "everything is hidden"
    probe.agree(
        subject,
        normal(probe.rng, 2, 3),
        np.zeros((2, 3), bool),
        want=np.zeros((2, 3)),
        why=why,
        clue=empty_rows(True),
    )


def masked_ignores(subject: Subject, probe: Probe) -> None:
    """Whatever a hidden place holds (also NaN), the visible weights stay."""
    scores, mask = normal(probe.rng, 3, 5), seen(probe.rng, 3, 5)
    want = probe.reference(scores, mask)

    def clue(weights: Array) -> str:
        del weights
        return (
            "Put −inf in the place of hidden scores first: np.where does not care what stood "
            "there, while adding does (inf − inf and NaN − inf are NaN). Only then look for the "
            "largest score: it must be the largest of the visible ones."
        )

    for garbage, name in ((1e6, "1,000,000"), (np.inf, "inf"), (np.nan, "NaN")):
        held = np.where(mask, scores, garbage)
        why = f"hidden places hold {name}, which should not matter"
        probe.agree(subject, held, mask, want=want, why=why, clue=clue)
    for far, name in ((1e6, "−1,000,000"), (1e12, "−1,000,000,000,000")):
        low = scores - far  # fills as −1e9 are above some, below others
        why = f"visible scores lie near {name}, hidden ones near 0"
        probe.agree(subject, np.where(mask, low, 0.0), mask, why=why, clue=clue)


def masked_broadcasts(subject: Subject, probe: Probe) -> None:
    """One mask for all leading axes, one for all queries, and a mask with more axes."""
    cases = (
        ((2, 3, 4), (3, 4), "scores (2, 3, 4), one mask (3, 4) for both"),
        ((3, 4, 4), (3, 1, 4), "scores (3, 4, 4), mask (3, 1, 4): one row for all queries"),
        ((3, 4), (4,), "scores (3, 4), mask (4,)"),
        ((2, 3), (4, 1, 3), "scores (2, 3), mask (4, 1, 3): four results (2, 3)"),
    )
    for shape, other, why in cases:
        mask = seen(probe.rng, *other)
        probe.agree(subject, normal(probe.rng, *shape), mask, why=why, clue=within(mask))


def masked_infinite(subject: Subject, probe: Probe) -> None:
    """A score of −inf is hidden, with and without a mask."""
    scores = normal(probe.rng, 3, 4)
    scores[0, 1] = -np.inf
    probe.agree(subject, scores, why="one score is −inf, no mask")
    mask = seen(probe.rng, 3, 4)
    mask[0] = [False, True, False, True]
    probe.agree(subject, scores, mask, why="one score is −inf, and a mask", clue=within(mask))


def masked_awkward(subject: Subject, probe: Probe) -> None:
    """Whole numbers, float32, views; and the arguments stay as they were."""
    mask = seen(probe.rng, 3, 4)
    whole = probe.rng.permutation(12).reshape(3, 4) - 4
    probe.agree(subject, whole, mask, why="whole numbers", clue=within(mask))
    scores = normal(probe.rng, 3, 4)
    single = scores.astype(np.float32)
    probe.agree(subject, single, mask, tolerance=FLOAT32, why="float32", clue=within(mask))
    expect_unchanged(probe, probe.call(subject, scores, mask))
    expect_unchanged(probe, probe.call(subject, scores))
    for why, lay in VIEWS.items():
        probe.agree(subject, lay(scores), lay(mask), why=why, clue=within(mask))


MASKED = (
    Property("a hand-worked example: 1 : 2 : hidden : 5", 1, masked_worked),
    Property("without a mask it is the softmax", 1, masked_none),
    Property("hidden places get 0, the others share as if alone", 2, masked_hides),
    Property("a row with nothing to look at is 0, never NaN", 2, masked_empty),
    Property("what a hidden place holds does not matter", 1, masked_ignores),
    Property("the mask broadcasts against the scores", 1, masked_broadcasts),
    Property("a score of −inf is hidden too", 1, masked_infinite),
    Property("integers, float32, views; arguments stay as they were", 1, masked_awkward),
)


def masked_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong and square, none, empty rows, garbage, broadcasting, −inf, integers."""
    scores, mask = rng.standard_normal((3, 5)), seen(rng, 3, 5)
    some = seen(rng, 4, 4)
    some[1] = False
    held = np.where(mask, scores, 1e6)
    lowest = rng.standard_normal((2, 4))
    lowest[0, 1] = lowest[1] = -np.inf
    return [
        Call((scores, mask)),
        Call((rng.standard_normal((3, 4)),)),
        Call((rng.standard_normal((4, 4)), seen(rng, 4, 4))),
        Call((rng.standard_normal((4, 4)), some)),
        Call((held, mask)),
        Call((rng.standard_normal((2, 3, 4)), seen(rng, 3, 4))),
        Call((rng.standard_normal((3, 4, 4)), seen(rng, 3, 1, 4))),
        Call((lowest,)),
        Call((rng.permutation(12).reshape(3, 4), seen(rng, 3, 4))),
        Call((np.full((2, 3), -1e6) + rng.standard_normal((2, 3)), seen(rng, 2, 3))),
        Call((rng.standard_normal((3, 4)) + _APART, seen(rng, 3, 4))),
    ]
