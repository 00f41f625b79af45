"""Chapter 03: how softmax goes wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np


def softmax_without_shift(scores, axis=-1):
    """exp of a large score overflows: exp(710) is already infinite. Subtract the largest score
    along the axis first; that changes no weight.
    """
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def softmax_global_max(scores, axis=-1):
    """One number is subtracted from all rows. A row far below the others becomes all zeros, and 0 /
    0 is NaN. Subtract each row's own largest score: max(axis=axis, keepdims=True).
    """
    exponentials = np.exp(scores - np.max(scores))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def softmax_global_sum(scores, axis=-1):
    """All rows together sum to 1, as if divided by the sum of the whole array. Each row needs its
    own sum: sum(axis=axis, keepdims=True).
    """
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum()


def softmax_of_everything(scores, axis=-1):
    """All numbers of the array together sum to 1. Each row is a distribution of its own: take max
    and sum along the axis, with axis=axis and keepdims=True.
    """
    exponentials = np.exp(scores - np.max(scores))
    return exponentials / exponentials.sum()


def softmax_ignores_axis(scores, axis=-1):
    """It is always the last axis that sums to 1. Pass the argument on: axis=axis in both max and
    sum.
    """
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def softmax_first_axis(scores, axis=-1):
    """It is always axis 0 that sums to 1: the columns. Pass the argument on: axis=axis in both max
    and sum.
    """
    exponentials = np.exp(scores - np.max(scores, axis=0))
    return exponentials / np.sum(exponentials, axis=0)


def softmax_second_axis(scores, axis=-1):
    """It is always axis 1 that sums to 1. Pass the argument on: axis=axis in both max and sum."""
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def softmax_without_keepdims(scores, axis=-1):
    """max and sum lose the axis they run along, so the result lines up with the wrong axis, which
    goes unnoticed where the array is square. Keep the axis: keepdims=True in both.
    """
    exponentials = np.exp(scores - scores.max(axis=axis))
    return exponentials / exponentials.sum(axis=axis)


def softmax_in_place(scores, axis=-1):
    """What you write into `scores` itself (by `-=`, `scores[...] =` or `out=`) changes the caller's
    array. Make a new one: shifted = scores - largest.
    """
    scores -= scores.max(axis=axis, keepdims=True)
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def softmax_without_exp(scores, axis=-1):
    """The scores are divided by their sum as they are. They can be negative and can sum to 0: take
    exp first, which makes them all positive.
    """
    return scores / scores.sum(axis=axis, keepdims=True)


def softmax_shift_only(scores, axis=-1):
    """The shifted scores themselves are divided by their sum. Take exp of them first: np.exp
    returns a new array, so its result needs a name.
    """
    shifted = scores - scores.max(axis=axis, keepdims=True)
    return shifted / shifted.sum(axis=axis, keepdims=True)


def softmax_without_division(scores, axis=-1):
    """The largest weight is always 1: that is exp, not yet divided. Divide by the sum of the
    exponentials along the axis, so that the weights sum to 1.
    """
    return np.exp(scores - scores.max(axis=axis, keepdims=True))


def softmax_into_integers(scores, axis=-1):
    """The weights get the scores' type. Where scores are integers, every weight below 1 is cut to
    0. Let NumPy make the result, or ask for floats: dtype=float.
    """
    weights = np.empty_like(scores)
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    weights[...] = exponentials / exponentials.sum(axis=axis, keepdims=True)
    return weights


def softmax_shifted_otherwise(scores, axis=-1):
    """Scores are shifted before exp, but not by the largest: where they lie far apart, exp still
    overflows. Only after subtracting the maximum along the axis is every exponent 0 or less.
    """
    exponentials = np.exp(scores - scores.mean(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def softmax_maximum_after_exp(scores, axis=-1):
    """The maximum is subtracted from exp(score), as in np.exp(scores) - largest. It belongs inside:
    np.exp(scores - largest).
    """
    shifted = np.exp(scores) - scores.max(axis=axis, keepdims=True)
    return shifted / shifted.sum(axis=axis, keepdims=True)


def softmax_shifted_above_only(scores, axis=-1):
    """The maximum is subtracted above the fraction bar but not below it, where it must cancel.
    Compute the exponentials once and use them twice.
    """
    shifted = scores - scores.max(axis=axis, keepdims=True)
    return np.exp(shifted) / np.exp(scores).sum(axis=axis, keepdims=True)


def softmax_sum_without_keepdims(scores, axis=-1):
    """The sum loses the axis it runs along, so that the division lines up with the wrong axis,
    which goes unnoticed where the array is square. Keep the axis: sum(axis=axis, keepdims=True).
    """
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis)


def softmax_max_without_keepdims(scores, axis=-1):
    """The maximum loses the axis it runs along, so that it lines up with the wrong axis, which goes
    unnoticed where the array is square. Keep the axis: max(axis=axis, keepdims=True).
    """
    exponentials = np.exp(scores - scores.max(axis=axis))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


SOFTMAX = {
    "did not subtract the maximum": softmax_without_shift,
    "one maximum for all rows": softmax_global_max,
    "one sum for all rows": softmax_global_sum,
    "one softmax over the whole array": softmax_of_everything,
    "ignored the axis": softmax_ignores_axis,
    "always axis 0": softmax_first_axis,
    "always axis 1": softmax_second_axis,
    "lost the axis in max and sum": softmax_without_keepdims,
    "changed the scores in place": softmax_in_place,
    "no exponential": softmax_without_exp,
    "no exponential, only the shift": softmax_shift_only,
    "no division by the sum": softmax_without_division,
    "stored weights as integers": softmax_into_integers,
    "shifted, but not by the maximum": softmax_shifted_otherwise,
    "subtracted the maximum after exp": softmax_maximum_after_exp,
    "subtracted the maximum above only": softmax_shifted_above_only,
    "lost the axis in the sum": softmax_sum_without_keepdims,
    "lost the axis in max": softmax_max_without_keepdims,
}
