"""Chapter 04: how masked softmax goes wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np
from attend_solutions.attention import softmax


def _visible(mask):
    """The mask, or True, which broadcasts against anything."""
    return True if mask is None else mask


def _right(scores, mask=None):
    """The right weights, for slips that lie elsewhere."""
    scores = np.where(_visible(mask), scores, -np.inf)
    empty = (scores == -np.inf).all(axis=-1, keepdims=True)
    return np.where(empty, 0.0, softmax(np.where(empty, 0.0, scores)))


def masked_multiplied(scores, mask=None):
    """Hidden scores are set to 0, as `scores * mask` does. But 0 is a score like any other: it gets
    the weight e⁰ / sum. Only −inf gets the weight 0: np.where(mask, scores, -np.inf).
    """
    return softmax(np.where(_visible(mask), scores, 0.0))


def masked_nan(scores, mask=None):
    """A row with nothing to look at is NaN. There the largest score is −inf, and −inf − (−inf) is
    NaN: put 0 in its place. The sum is 0 as well, and 0 / 0 is NaN: put 1 in its place.
    """
    return softmax(np.where(_visible(mask), scores, -np.inf))


def masked_filled_low(scores, mask=None):
    """A row with nothing to look at shares its weight evenly. Hidden scores were filled with one
    very low number, and equal scores get equal weights. Fill with -np.inf, and settle empty rows.
    """
    return softmax(np.where(_visible(mask), scores, -1e9))


def masked_added_low(scores, mask=None):
    """A very low number is added to hidden scores. In a row with nothing to look at it is added to
    all, and a shift changes no weight: the row is as if nothing were hidden. Use np.where and −inf.
    """
    return softmax(scores + np.where(_visible(mask), 0.0, -1e9))


def masked_inverted(scores, mask=None):
    """True hides and False shows. Here True means "may look", as in torch's
    scaled_dot_product_attention (nn.MultiheadAttention has it the other way round).
    """
    return _right(scores, None if mask is None else ~mask)


def masked_after(scores, mask=None):
    """Hidden weights are set to 0 after the softmax. The others were divided by a sum with the
    hidden ones in it, so a row no longer sums to 1. Hide the scores before the softmax.
    """
    return softmax(scores) * _visible(mask)


def masked_after_renormalised(scores, mask=None):
    """Hidden weights are set to 0 after the softmax and the rest is divided by its own sum. A large
    hidden score has then already pressed the visible ones down to 0, and 0 / 0 is NaN. Hide the
    scores first.
    """
    weights = softmax(scores) * _visible(mask)
    return weights / weights.sum(axis=-1, keepdims=True)


def masked_largest_of_all(scores, mask=None):
    """The largest score is looked for among the hidden ones too. Where it is far above the visible
    ones, their exponentials all become 0. Hide first, then take the maximum.
    """
    scores = np.asarray(scores) * 1.0
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True)) * _visible(mask)
    total = shares.sum(axis=-1, keepdims=True)
    return shares / np.where(total == 0, 1, total)


def masked_global_largest(scores, mask=None):
    """One number is subtracted from all rows. A row far below the others becomes all 0, as if it
    were empty. Subtract each row's own largest score: max(axis=-1, keepdims=True).
    """
    scores = np.where(_visible(mask), scores, -np.inf)
    largest = scores.max()
    shares = np.exp(scores - (0.0 if largest == -np.inf else largest))
    total = shares.sum(axis=-1, keepdims=True)
    return shares / np.where(total == 0, 1, total)


def masked_ignored(scores, mask=None):
    """The mask has no effect. Put −inf where it is False, np.where(mask, scores, -np.inf), and go
    on with what np.where returns.
    """
    return _right(scores, None)


def masked_in_place(scores, mask=None):
    """`scores[~mask] = …` writes into the caller's scores. np.where(mask, scores, -np.inf) makes a
    new array, and broadcasts the mask besides.
    """
    if mask is not None:
        scores[~np.broadcast_to(mask, scores.shape)] = -np.inf
    return _right(scores, None)


def masked_none_hides(scores, mask=None):
    """Without a mask all weights are 0: None counts as False in np.where. Ask first: `if mask is
    not None`.
    """
    return _right(scores, False if mask is None else mask)


def masked_over_queries(scores, mask=None):
    """Your columns sum to 1. The weights of one query, a row, must: take maximum and sum along the
    last axis, axis=-1 with keepdims=True.
    """
    scores = np.where(_visible(mask), scores, -np.inf)
    return np.swapaxes(_right(np.swapaxes(scores, -1, -2)), -1, -2)


def masked_evenly(scores, mask=None):
    """A row with nothing to look at comes out as 1/S everywhere, so the query looks at all that is
    hidden from it. Such a row gets 0 everywhere.
    """
    scores = np.where(_visible(mask), scores, -np.inf)
    empty = (scores == -np.inf).all(axis=-1, keepdims=True)
    return softmax(np.where(empty, 0.0, scores))


def masked_added_boolean(scores, mask=None):
    """The mask is added as it is: True counts as 1, so visible scores rise by 1 and hidden ones
    stay in. Hidden ones must become −inf: np.where(mask, scores, -np.inf).
    """
    return softmax(scores if mask is None else scores + mask)


def masked_added_infinite(scores, mask=None):
    """−inf is added to hidden scores. That hides every number, but where a hidden place holds inf
    or NaN the sum is NaN. Put −inf in its place, whatever was there: np.where(mask, scores, -inf).
    """
    with np.errstate(invalid="ignore"):
        return _right(scores + np.where(_visible(mask), 0.0, -np.inf))


def masked_times_infinite(scores, mask=None):
    """Visible scores are NaN: they get 0 · −inf, which is not 0 but NaN. An infinity cannot be
    switched off by a product: choose place by place, np.where(mask, scores, -np.inf).
    """
    if mask is None:
        return _right(scores)
    with np.errstate(invalid="ignore"):
        return softmax(scores + (1 - mask.astype(int)) * -np.inf)


MASKED = {
    "hidden scores set to 0": masked_multiplied,
    "NaN where everything is hidden": masked_nan,
    "filled with −1e9 instead of −inf": masked_filled_low,
    "−1e9 added instead of −inf": masked_added_low,
    "−inf added, not put in its place": masked_added_infinite,
    "−inf multiplied by 0": masked_times_infinite,
    "True taken for hidden": masked_inverted,
    "masked after the softmax": masked_after,
    "masked after the softmax, then divided": masked_after_renormalised,
    "largest score taken with the hidden ones": masked_largest_of_all,
    "one maximum for all rows": masked_global_largest,
    "mask without effect": masked_ignored,
    "changed scores in place": masked_in_place,
    "None hides everything": masked_none_hides,
    "normalised over queries": masked_over_queries,
    "empty rows share evenly": masked_evenly,
    "mask added as a number": masked_added_boolean,
}
