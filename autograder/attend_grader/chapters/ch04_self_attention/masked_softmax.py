"""Exercise 04_self_attention/masked_softmax: softmax under a mask."""

from __future__ import annotations

import numpy as np
from attend_solutions import self_attention
from attend_solutions.attention import softmax

from attend_grader.chapters.ch04_self_attention.shared import (
    EMPTY,
    seen,
    under_masks,
    with_empty_row,
    within,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Fresh, worked
from attend_grader.checks.properties import normal

_APART = np.array([[1e4], [0.0], [-1e4]])
"""Added to three rows, it puts them so far apart that no common maximum serves all."""

_WORKED = np.array([True, True, False, True])


def _unmasked(rng: np.random.Generator) -> Fresh:
    for scores in (normal(rng, 3, 4), normal(rng, 2, 3, 3), 1e4 * normal(rng, 5), normal(rng, 1)):
        yield "no mask", Call((scores,))
    yield "mask=None", Call((normal(rng, 3, 3), None))
    yield "a mask that hides nothing", Call((normal(rng, 3, 3), np.ones((3, 3), bool)))
    yield "one row, a mask (2, 3) that hides nothing", Call((normal(rng, 3), np.ones((2, 3), bool)))
    yield "rows near 10,000, 0 and −10,000", Call((normal(rng, 3, 5) + _APART,))


def _masked(rng: np.random.Generator) -> Fresh:
    for shape, other in (
        ((2, 5), (2, 5)),
        ((3, 1, 3), (3, 1, 3)),
        ((3, 4, 4), (3, 1, 4)),
        ((4, 4, 3), (4, 1, 3)),
        ((3, 5), (5,)),
        ((2, 3), (4, 1, 3)),
        ((3, 4), (3, 1)),
    ):
        why = f"scores {shape}, mask {other}"
        yield why, Call((2 * normal(rng, *shape), seen(rng, *other)))
    why = "one visible place in each row, so it gets the weight 1"
    yield why, Call((normal(rng, 3, 5), np.eye(3, 5, k=1, dtype=bool)))


def _empty(rng: np.random.Generator) -> Fresh:
    for scores in (normal(rng, 3, 4), 100 * normal(rng, 4, 4) - 300):
        why = "row 1 has nothing to look at"
        yield why, Call((scores, with_empty_row(seen(rng, *scores.shape), 1)))
    scores = normal(rng, 3, 5)
    scores[2] = -np.inf
    yield "no mask, but row 2 is all −inf", Call((scores, None))
    for shape in ((2, 3), (3,), (1, 1)):
        yield "everything is hidden", Call((normal(rng, *shape), np.zeros(shape, bool)))
    yield "everything is hidden, twice", Call((normal(rng, 3, 4), np.zeros((2, 1, 4), bool)))


def _garbage(rng: np.random.Generator) -> Fresh:
    scores, mask = normal(rng, 3, 5), seen(rng, 3, 5)
    for held, name in ((1e6, "1,000,000"), (np.inf, "inf"), (-np.inf, "−inf"), (np.nan, "NaN")):
        why = f"hidden places hold {name}, which should not matter"
        yield why, Call((np.where(mask, scores, held), mask))
    apart = 1e3 * rng.permutation(15).reshape(3, 5)  # so log-sum-exp loses nothing at 1e12
    for low, name in (
        (scores - 1e6, "−1,000,000"),
        (apart - 1e12, "−1,000,000,000,000"),
        (1e285 * apart - 1e290, "−10²⁹⁰"),
    ):
        why = f"visible scores lie near {name}, hidden ones near 0"  # above and below any fill
        yield why, Call((np.where(mask, low, 0.0), mask))
    yield "equal scores of 10¹²", Call((np.full((1, 3), 1e12), np.array([True, True, False])))
    yield "scores (2, 1), a mask (2, 3)", Call((normal(rng, 2, 1), seen(rng, 2, 3)))
    lowest = np.array([[np.finfo(float).min, 0.0, 0.0]])
    why = "the only visible score is the lowest number there is"
    yield why, Call((lowest, np.array([[True, False, False]])))


def _infinite(rng: np.random.Generator) -> Fresh:
    scores = normal(rng, 3, 4)
    scores[0, 1] = -np.inf
    yield "one score is −inf, no mask", Call((scores,))
    mask = seen(rng, 3, 4)
    mask[0] = [False, True, False, True]
    yield "one score is −inf, and a mask", Call((scores, mask))
    mask = mask.copy()
    mask[0] = [False, True, False, False]
    yield "the only visible score of row 0 is −inf", Call((scores, mask))


NAN = (
    "Put −inf in the place of hidden scores: np.where does not care what stood there, while adding "
    "and multiplying do (inf − inf, NaN − inf and 0 · inf are NaN)."
)


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong and square, none, empty rows, garbage, broadcasting, −inf, integers, far apart."""
    scores, mask = normal(rng, 3, 5), seen(rng, 3, 5)
    lowest = normal(rng, 2, 4)
    lowest[0, 1] = lowest[1] = -np.inf
    shapes = ((4, 4), (4, 4)), ((2, 3, 4), (3, 4)), ((3, 4, 4), (3, 1, 4))
    return [
        Call((scores, mask)),
        Call((normal(rng, 3, 4),)),
        Call((normal(rng, 4, 4), with_empty_row(seen(rng, 4, 4), 1))),
        Call((np.where(mask, scores, 1e6), mask)),
        *(Call((normal(rng, *shape), seen(rng, *other))) for shape, other in shapes),
        Call((lowest,)),
        Call((rng.permutation(12).reshape(3, 4), seen(rng, 3, 4))),
        Call((normal(rng, 2, 3) - 1e6, seen(rng, 2, 3))),
        Call((normal(rng, 3, 4) + _APART, seen(rng, 3, 4))),
    ]


FILLED = "np.where(mask, scores, -np.inf)"
DIVIDED = "exponentials / np.where(total == 0, 1.0, total)"
NO_FIRST = ("largest == -np.inf", "False")
UNSETTLED = (NO_FIRST, ("total == 0", "False"))
"""Edits that leave rows with nothing to look at as they come."""

OR_TRUE = "(True if mask is None else mask)"

SLIPS = (
    Slip(
        "hidden scores set to 0",
        ((FILLED, "np.where(mask, scores, 0.0)"), *UNSETTLED),
        "Hidden scores count as 0, as in `scores * mask`. But 0 is a score like any other: it "
        "gets the weight e⁰ / sum. Only −inf is sure to get the weight 0: np.where(mask, scores, "
        "-np.inf).",
    ),
    Slip(
        "NaN where everything is hidden",
        UNSETTLED,
        "A row with nothing to look at is NaN. There the largest score is −inf, and −inf − (−inf) "
        "is NaN: put 0 in its place. Then the sum is 0 as well, and 0 / 0 is NaN: put 1 in its "
        "place.",
    ),
    Slip(
        "filled with a low number instead of −inf",
        ((FILLED, "np.where(mask, scores, -1e9)"), *UNSETTLED),
        "A row that the mask hides altogether shares its weight evenly, as if hidden scores were "
        "filled with one very low number: equal scores get equal weights. Fill with -np.inf, and "
        "settle empty rows.",
    ),
    Slip(
        "a low number added instead of −inf",
        ((FILLED, "np.where(mask, scores, scores - 1e9)"), *UNSETTLED),
        "A very low number is added to hidden scores. In a row that the mask hides altogether it "
        "is added to all, and but for rounding a shift changes no weight: the row is as if "
        "nothing were hidden. Use np.where and −inf.",
    ),
    Slip(
        "−inf added, not put in its place",
        (FILLED, "scores + np.where(mask, 0.0, -np.inf)"),
        "−inf is added to hidden scores. That hides every number, but where a hidden place holds "
        "inf or NaN the sum is NaN. Put −inf in its place, whatever was there: np.where(mask, "
        "scores, -np.inf).",
    ),
    Slip(
        "True taken for hidden",
        (FILLED, "np.where(mask, -np.inf, scores)"),
        'True hides and False shows. Here True should mean "may look", as in torch\'s '
        "scaled_dot_product_attention (nn.MultiheadAttention has it the other way round).",
    ),
    Slip(
        "masked after the softmax",
        ((FILLED, "scores"), NO_FIRST, (DIVIDED, f"exponentials / total * {OR_TRUE}")),
        "Hidden weights are set to 0 after the softmax. The others were divided by a sum with the "
        "hidden ones in it, so a row lacks what those had. Hide the scores before the softmax.",
    ),
    Slip(
        "masked after the softmax, then divided",
        (
            (FILLED, "scores"),
            NO_FIRST,
            ("np.exp(scores - largest)", f"np.exp(scores - largest) * {OR_TRUE}"),
            ("total == 0", "False"),
        ),
        "Hidden weights are set to 0 and the rest is divided by its own sum. A hidden score far "
        "above the visible ones has then already pressed them down to 0, and 0 / 0 is NaN. Hide "
        "the scores first.",
    ),
    Slip(
        "largest score taken with the hidden ones",
        (
            (FILLED, "scores"),
            NO_FIRST,
            ("np.exp(scores - largest)", f"np.exp(scores - largest) * {OR_TRUE}"),
        ),
        "The largest score is looked for among the hidden ones too. Where it is far above the "
        "visible ones, their exponentials all become 0. Hide first, then take the maximum.",
    ),
    Slip(
        "no maximum subtracted",
        ("np.exp(scores - largest)", "np.exp(scores)"),
        "No maximum is subtracted. Exponentials of large scores are inf, and inf / inf is NaN; "
        "those of scores far below 0 are all 0. Subtract the largest visible score of each row.",
    ),
)


def by_rows(scores, mask=None):
    """Row by row: the softmax of the visible scores only, put back in their places."""
    mask = True if mask is None else mask
    scores, mask = np.broadcast_arrays(np.asarray(scores, dtype=float), mask)
    weights = np.zeros(scores.shape)
    for index in np.ndindex(scores.shape[:-1]):
        visible = mask[index] & (scores[index] != -np.inf)
        if visible.any():
            weights[index][visible] = softmax(scores[index][visible])
    return weights


def nan_to_zero(scores, mask=None):
    """−inf, chapter 03's softmax, and NaN rows set to 0 at the end."""
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(softmax(scores))


EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Softmax under a mask",
    goal="Give no weight to hidden places, and none at all where everything is hidden.",
    reference=self_attention.masked_softmax,
    contract=Contract(
        numpy_only=True,
        leading_axes=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        masks=("mask",),
        hidden_rows=True,
        arguments_unchanged=True,
        says=(
            "Visible scores may have any finite size or be −inf, which counts as hidden, with or "
            "without a mask. Hidden places may hold anything, also inf and NaN.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: 1 : 2 : hidden : 5",
            np.log([1.0, 2.0, 9.0, 5.0]),
            _WORKED,
            want=np.array([1.0, 2.0, 0.0, 5.0]) / 8,
            clue=within(_WORKED),
        ),
        under_masks("without a mask it is the softmax", _unmasked),
        under_masks("hidden places get 0, the others share as if alone", _masked, 2, repeat=3),
        under_masks("a row with nothing to look at is 0, never NaN", _empty, 2, nan=EMPTY),
        under_masks("what a hidden place holds does not matter", _garbage, nan=NAN),
        under_masks("a score of −inf is hidden too", _infinite),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_rows, nan_to_zero),
    hints=(
        "Which score has an exponential of exactly 0? Put it where the mask is False, and "
        "keep all other scores. What then happens in a row where every score is that one?",
        "`np.where(mask, a, b)` takes a where the mask is True and b elsewhere, and "
        "broadcasts. Fill first, and find the largest score only then. In an empty row the "
        "largest is −inf and the sum of exponentials is 0: swap each for a harmless number "
        "before you subtract and divide.",
        "Make the scores floats; if there is a mask, replace what it hides by -np.inf. "
        "Take each row's maximum (axis=-1, keepdims=True) and put 0 where it is -np.inf. "
        "Exponentiate the scores minus that. Sum the rows (keepdims), put 1 where the sum "
        "is 0, and divide.",
    ),
    minutes=12,
    difficulty=3,
    importance=5,
)
