"""Exercise 04_self_attention/repaired_attention: a mask that comes after the softmax.

The broken function stands in the notebook. It sets hidden weights to 0 and divides each row by its
new sum: right on paper, and 0 / 0 where hidden scores are far above the visible ones or where a row
is empty.
"""

from __future__ import annotations

import numpy as np
from attend_solutions import self_attention
from attend_solutions.attention import attention_scores, softmax
from attend_solutions.types import Array, Mask

from attend_grader.chapters.ch04_self_attention.shared import (
    FAR,
    FILLED,
    late,
    looking,
    seen,
    under_masks,
    with_empty_row,
)
from attend_grader.checks.exercise import Call, Exercise, Slip
from attend_grader.checks.helpers import Fresh, worked
from attend_grader.checks.properties import normal

Given = tuple[Array, Array, Array]
Apart = tuple[Array, Array, Array, Mask]

_SIZES = ((3, 5, 4, 2), (4, 4, 4, 4), (2, 3, 1, 5), (1, 4, 9, 3))
"""T, S, D, D_v."""


def _given(rng: np.random.Generator, t: int, s: int, d: int, d_v: int, *lead: int) -> Given:
    return normal(rng, *lead, t, d), normal(rng, *lead, s, d), normal(rng, *lead, s, d_v)


def _apart(rng: np.random.Generator, visible: float, hidden: float) -> Apart:
    """Scores near `visible` where one may look and near `hidden` elsewhere, D = 4; and the mask.

    The visible ones differ by little, so several weights of a row count.
    """
    mask = np.zeros((3, 6), bool)
    mask[:, rng.permutation(6)[:3]] = True
    k = np.zeros((6, 4))
    k[:, 0] = np.where(mask[0], visible, hidden) + rng.uniform(0, 0.5, 6)
    k[:, 1] = normal(rng, 6)
    q = np.zeros((3, 4))
    q[:, 0], q[:, 1] = 2.0, rng.uniform(0.5, 1, 3)
    return q, k, normal(rng, 6, 3), mask


def _masked(rng: np.random.Generator) -> Fresh:
    for sizes in _SIZES:
        yield "no mask", Call(_given(rng, *sizes))
        yield "a mask", Call((*_given(rng, *sizes), seen(rng, *sizes[:2])))
    for b in (2, 3):  # as many sentences as queries, too: there a mask (B, S) fits and is wrong
        batch = _given(rng, 3, 4, 2, 5, b)
        yield f"a mask ({b}, 1, 4), one row a sentence", Call((*batch, seen(rng, b, 1, 4)))
        yield f"{b} sentences of 3 queries, one mask (3, 4)", Call((*batch, seen(rng, 3, 4)))


def _far(rng: np.random.Generator) -> Fresh:
    # e⁻⁶⁰ is still a number, but 1e-9 beside it is not nothing; of e⁻⁷³⁵ four digits are left
    for gap in (60.0, 735.0, 1e3, 1e6):
        yield f"hidden scores {gap:,.0f} above the visible ones", Call(_apart(rng, 0.0, gap))
    yield "all scores near −1,000,000, hidden ones 1,000 above", Call(_apart(rng, -1e6, -999e3))
    yield "the first 135 of 140 keys hidden, low scores", Call(late(rng, 2, 3))
    q, k, v = _given(rng, 3, 3, 1, 2)
    q, k = 1e12 * (np.abs(q) + 0.1), 1e12 * (np.abs(k) + 0.1) * [[-1.0], [1.0], [1.0]]
    alone = np.array([True, False, False])
    yield "the only visible score lies far below 0, hidden ones far above", Call((q, k, v, alone))
    yield "visible scores 100,000 above the hidden ones", Call(_apart(rng, 1e5, 0.0))
    for name, size in FAR.items():
        q, k, v = _given(rng, 3, 6, 4, 3)
        q, k = -size * (np.abs(q) + 0.1), size * (np.abs(k) + 0.1)
        yield f"all scores near {name}", Call((q, k, v, seen(rng, 3, 6)))


def _empty(rng: np.random.Generator) -> Fresh:
    for sizes in ((3, 4, 2, 5), (4, 4, 3, 2)):
        mask = with_empty_row(seen(rng, *sizes[:2]), 1)
        yield "query 1 may look at nothing", Call((*_given(rng, *sizes), mask))
    given = _given(rng, 2, 3, 2, 2)
    yield "nobody may look at anything", Call((*given, np.zeros((2, 3), bool)))
    yield "one text, and two masks of False", Call((*given, np.zeros((2, 1, 3), bool)))
    for t in (3, 1):
        one = np.arange(t)[:, None] > 0
        yield "one key, hidden from query 0", Call((*_given(rng, t, 1, 2, 3), one))
    q, k, v, mask = _apart(rng, 0.0, 1e3)
    why = "hidden scores 1,000 above the visible ones, and an empty row"
    yield why, Call((q, k, v, with_empty_row(mask, 2)))


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong and square, no mask, a batch, empty rows, hidden scores far above and far below."""
    return [
        Call((*_given(rng, 3, 5, 4, 2), seen(rng, 3, 5))),
        Call((*_given(rng, 4, 4, 3, 3), seen(rng, 4, 4))),
        Call(_given(rng, 3, 4, 2, 5)),
        Call((*_given(rng, 3, 4, 2, 5, 2), seen(rng, 2, 3, 4))),
        Call((*_given(rng, 4, 4, 2, 3), with_empty_row(seen(rng, 4, 4), 1))),
        *(Call(_apart(rng, *each)) for each in ((0.0, 30.0), (0.0, 1e3), (-1e6, 0.0))),
    ]


SCORES = "attention_scores(q, k)"
WEIGHTS = f"masked_softmax({SCORES}, mask)"
OR_TRUE = "(True if mask is None else mask)"
AFTER = (WEIGHTS, f"masked_softmax({SCORES}) * {OR_TRUE}")
TOTAL = "weights.sum(axis=-1, keepdims=True)"


def _then(weights: str) -> tuple[tuple[str, str], ...]:
    """Edits: the mask comes after the softmax, and then the weights become these."""
    return AFTER, ("return weights @ v", f"weights = {weights}\n    return weights @ v")


SLIPS = (
    Slip(
        "not repaired",
        _then(f"weights / {TOTAL}"),
        "The mask still comes after the softmax. Where hidden scores are far above the visible "
        "ones, the softmax has rounded the visible weights to 0, and 0 / 0 is NaN. Hide the "
        "scores before the softmax.",
    ),
    Slip(
        "visible weights rounded to 0",
        _then(f"np.nan_to_num(weights / {TOTAL})"),
        "Hidden scores still take part in the softmax. Where they are far above the visible ones, "
        "the visible weights are rounded to 0, and the row stays 0, which is right for an empty "
        "row only. Hide the scores before the softmax.",
    ),
    Slip(
        "a small number added to the sum",
        _then(f"weights / ({TOTAL} + 1e-9)"),
        "A small number is added to the sum, so that it is never 0. But where little weight is "
        "left to the visible keys, the rows no longer sum to 1. Hide the scores before the "
        "softmax.",
    ),
    Slip(
        "hidden weights set to 0, not divided",
        AFTER,
        "Hidden weights are set to 0 after the softmax, and a row lacks what they had: the rest "
        "was divided by a sum with the hidden scores in it. Hide the scores before the softmax.",
    ),
    Slip(
        "filled with a low number instead of −inf",
        (WEIGHTS, f"masked_softmax(np.where({OR_TRUE}, {SCORES}, -1e9))"),
        FILLED,
    ),
    Slip(
        "a fixed number added to hidden scores",
        (WEIGHTS, f"masked_softmax({SCORES} + np.where({OR_TRUE}, 0.0, -1e4))"),
        "A fixed number, such as −10,000, is added to hidden scores. One that is farther than "
        "that above the visible ones is seen again, and an empty row is, but for rounding, as if "
        "nothing were hidden. Use −inf: masked_softmax.",
    ),
    Slip(
        "hidden scores multiplied by 0",
        (WEIGHTS, f"masked_softmax({SCORES} * {OR_TRUE})"),
        "Hidden scores count as 0, as if multiplied by the mask. That is a score like any other. "
        "Only −inf is sure to get the weight 0.",
    ),
)


def by_hand(q, k, v, mask=None):
    """−inf, the largest visible score, and the two cases that would be NaN."""
    scores = attention_scores(q, k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isinf(top), 0.0, top))
    total = shares.sum(axis=-1, keepdims=True)
    weights = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
    return weights @ v, weights


def nan_of_empty_rows(q, k, v, mask=None):
    """−inf and chapter 03's softmax; what is NaN then is an empty row."""
    scores = attention_scores(q, k)
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(softmax(np.where(True if mask is None else mask, scores, -np.inf)))
    return weights @ v, weights


EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Repair a mask after the softmax",
    goal="Find out why a function that passes its three tests leaks, and repair it.",
    reference=self_attention.repaired_attention,
    contract=looking(("q", "k", "v", "mask"), forbids=("self_attention", "cross_attention")),
    properties=(
        worked(
            "a hidden score of 1,000: the visible keys still share",
            np.array([[1.0, 0.0, 0.0, 0.0]]),
            np.array([[0.0] * 4, [0.0, 5.0, 0.0, 0.0], [2000.0, 0.0, 0.0, 0.0]]),
            np.array([[2.0], [4.0], [9.0]]),
            np.array([[True, True, False]]),
            want=(np.array([[3.0]]), np.array([[0.5, 0.5, 0.0]])),
            parts=(1, 0),
        ),
        under_masks("with usual scores it is as it was", _masked, repeat=2, parts=(1, 0)),
        under_masks("hidden scores far above or below change nothing", _far, 2, parts=(1, 0)),
        under_masks("a query that may look at nothing gets 0", _empty, parts=(1, 0)),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_hand, nan_of_empty_rows),
    hints=(
        "Call it with one query (1), keys (0) and (2000), and a mask that hides the second. Print "
        "the weights before and after the line with np.where.",
        "The softmax has already divided by a sum in which hidden scores took part. No line after "
        "it can bring back what was rounded to 0. What should the softmax not see?",
        "Hide the scores, then take the softmax: the weights are your masked_softmax of "
        "attention_scores(q, k) and the mask. It also settles rows in which all is hidden.",
    ),
    minutes=6,
    difficulty=2,
    importance=4,
    uses=("masked_softmax",),
    results=("output", "weights"),
)
