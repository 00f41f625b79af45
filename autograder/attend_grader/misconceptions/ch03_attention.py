"""Chapter 03, forwards: how softmax, scores, attention and variance go wrong in practice.

Each function is written as a learner would write it; its docstring is what the learner is told.
"""

import numpy as np
from attend_solutions.attention import attention_scores, softmax

# softmax


def softmax_without_shift(scores, axis=-1):
    """You take exp of the scores as they are: exp(710) is already infinite. Subtract the largest
    score along the axis first; that changes no weight.
    """
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def softmax_global_max(scores, axis=-1):
    """You subtract the largest score of the whole array. A row far below it becomes all zeros, and
    0 / 0 is NaN. Subtract each row's own largest score: max(axis=axis, keepdims=True).
    """
    exponentials = np.exp(scores - np.max(scores))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def softmax_global_sum(scores, axis=-1):
    """You divide by the sum of the whole array, so that all rows together sum to 1. Each row needs
    its own sum: sum(axis=axis, keepdims=True).
    """
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum()


def softmax_ignores_axis(scores, axis=-1):
    """You always use the last axis. Pass the argument on: axis=axis in both max and sum."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def softmax_first_axis(scores, axis=-1):
    """You always use axis 0, so that columns sum to 1. Pass the argument on: axis=axis in both max
    and sum.
    """
    exponentials = np.exp(scores - np.max(scores, axis=0))
    return exponentials / np.sum(exponentials, axis=0)


def softmax_without_keepdims(scores, axis=-1):
    """max and sum lose the axis they run along, so the result lines up with the wrong axis, which
    goes unnoticed where the array is square. Keep the axis: keepdims=True in both.
    """
    exponentials = np.exp(scores - scores.max(axis=axis))
    return exponentials / exponentials.sum(axis=axis)


def softmax_in_place(scores, axis=-1):
    """`-=` writes into the caller's array. Make a new one: shifted = scores - largest."""
    scores -= scores.max(axis=axis, keepdims=True)
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def softmax_without_exp(scores, axis=-1):
    """You divide the scores by their sum. Scores can be negative and can sum to 0: take exp first,
    which makes them all positive.
    """
    return scores / scores.sum(axis=axis, keepdims=True)


def softmax_without_division(scores, axis=-1):
    """You stop after exp. Divide by the sum of the exponentials along the axis, so that the weights
    sum to 1.
    """
    return np.exp(scores - scores.max(axis=axis, keepdims=True))


def softmax_into_integers(scores, axis=-1):
    """You store the weights in an array of the scores' type. Where scores are integers, every
    weight below 1 is cut to 0. Let NumPy make the result, or ask for floats: dtype=float.
    """
    weights = np.empty_like(scores)
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    weights[...] = exponentials / exponentials.sum(axis=axis, keepdims=True)
    return weights


def softmax_always_float64(scores, axis=-1):
    """You turn everything into float64, which doubles the memory of float32 scores. Let the type
    that came in decide: np.exp of float32 is float32.
    """
    scores = np.array(scores, dtype=float)
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


SOFTMAX = {
    "did not subtract the maximum": softmax_without_shift,
    "one maximum for all rows": softmax_global_max,
    "one sum for all rows": softmax_global_sum,
    "ignored the axis": softmax_ignores_axis,
    "always axis 0": softmax_first_axis,
    "lost the axis in max and sum": softmax_without_keepdims,
    "changed the scores in place": softmax_in_place,
    "no exponential": softmax_without_exp,
    "no division by the sum": softmax_without_division,
    "stored weights as integers": softmax_into_integers,
    "float32 became float64": softmax_always_float64,
}

# attention_scores


def scores_unscaled(q, k, scaled=True):
    """Your scores are not divided by √D where scaled is True. D is the width of a query:
    q.shape[-1].
    """
    return q @ np.swapaxes(k, -1, -2)


def scores_divided_by_width(q, k, scaled=True):
    """You divide by D. The dot products spread like √D, so divide by its square root."""
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / q.shape[-1] if scaled else scores


def scores_divided_by_keys(q, k, scaled=True):
    """You divide by the square root of how many keys there are. The spread comes from the width of
    the vectors, D: use q.shape[-1].
    """
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / np.sqrt(k.shape[-2]) if scaled else scores


def scores_multiplied(q, k, scaled=True):
    """You multiply by √D. That spreads the scores further: divide by it."""
    scores = q @ np.swapaxes(k, -1, -2)
    return scores * np.sqrt(q.shape[-1]) if scaled else scores


def scores_always_scaled(q, k, scaled=True):
    """You divide by √D even where scaled is False. Look at the argument: if scaled."""
    return q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])


def scores_full_transpose(q, k, scaled=True):
    """k.T turns all axes round, the leading ones too. Swap only the last two:
    np.swapaxes(k, -1, -2).
    """
    scores = q @ k.T
    return scores / np.sqrt(q.shape[-1]) if scaled else scores


def scores_keys_by_queries(q, k, scaled=True):
    """Your rows are keys and your columns queries. Put q on the left: row t must hold the scores of
    query t.
    """
    scores = k @ np.swapaxes(q, -1, -2)
    return scores / np.sqrt(q.shape[-1]) if scaled else scores


def scores_np_dot(q, k, scaled=True):
    """np.dot pairs every leading index of q with every leading index of k. Use @ (np.matmul), which
    keeps leading axes side by side.
    """
    scores = np.dot(q, np.swapaxes(k, -1, -2))
    return scores / np.sqrt(q.shape[-1]) if scaled else scores


def scores_cosine(q, k, scaled=True):
    """You divide each vector by its own length (cosine similarity). Attention uses the plain dot
    product, divided by √D only.
    """
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / np.sqrt(q.shape[-1]) if scaled else scores


def scores_in_place(q, k, scaled=True):
    """`/=` writes into the caller's q. Make a new array: scores / √D."""
    if scaled:
        q /= np.sqrt(q.shape[-1])
    return q @ np.swapaxes(k, -1, -2)


SCORES = {
    "forgot 1/√d_k": scores_unscaled,
    "divided by d_k, not √d_k": scores_divided_by_width,
    "scaled by the number of keys": scores_divided_by_keys,
    "multiplied by √d_k": scores_multiplied,
    "ignored scaled=False": scores_always_scaled,
    "k.T reverses every axis": scores_full_transpose,
    "keys and queries exchanged": scores_keys_by_queries,
    "np.dot instead of @": scores_np_dot,
    "cosine instead of dot product": scores_cosine,
    "changed q in place": scores_in_place,
}

# scaled_dot_product_attention


def attention_unscaled(q, k, v):
    """Your weights come from scores that are not divided by √D. attention_scores divides unless
    you tell it scaled=False.
    """
    weights = softmax(attention_scores(q, k, scaled=False))
    return weights @ v, weights


def attention_over_queries(q, k, v):
    """Your softmax runs over the queries, so that columns sum to 1. Each query shares one unit of
    weight among the keys, which lie on the last axis.
    """
    weights = softmax(attention_scores(q, k), axis=-2)
    return weights @ v, weights


def attention_output_only(q, k, v):
    """You return the output only. Return the weights too: `return output, weights`."""
    return softmax(attention_scores(q, k)) @ v


def attention_weights_first(q, k, v):
    """You return the weights first. The output comes first: `return output, weights`."""
    weights = softmax(attention_scores(q, k))
    return weights, weights @ v


def attention_without_softmax(q, k, v):
    """You multiply the values by the scores themselves. Turn each row of scores into weights with
    softmax first.
    """
    scores = attention_scores(q, k)
    return scores @ v, scores


def attention_returns_scores(q, k, v):
    """Your output is right, but you return the scores where the weights belong: give back what
    softmax returned.
    """
    scores = attention_scores(q, k)
    return softmax(scores) @ v, scores


def attention_scaled_twice(q, k, v):
    """You divide by √D twice: attention_scores has already done it. Drop your own division."""
    weights = softmax(attention_scores(q, k) / np.sqrt(q.shape[-1]))
    return weights @ v, weights


def attention_scaled_after(q, k, v):
    """You divide by √D after softmax, so that weights no longer sum to 1. The scale belongs to the
    scores, before softmax.
    """
    weights = softmax(attention_scores(q, k, scaled=False)) / np.sqrt(q.shape[-1])
    return weights @ v, weights


def attention_two_weights(q, k, v):
    """Your output uses scaled scores, but the weights you return come from unscaled ones. Compute
    the weights once and use them for both.
    """
    output = softmax(attention_scores(q, k)) @ v
    return output, softmax(attention_scores(q, k, scaled=False))


ATTENTION = {
    "forgot 1/√d_k": attention_unscaled,
    "normalised over queries instead of keys": attention_over_queries,
    "returned the output only": attention_output_only,
    "returned the weights first": attention_weights_first,
    "no softmax": attention_without_softmax,
    "returned scores instead of weights": attention_returns_scores,
    "scaled twice": attention_scaled_twice,
    "scaled after softmax": attention_scaled_after,
    "returned weights without the scale": attention_two_weights,
}

# score_variance


def variance_standard_deviation(q, k, scaled=False):
    """You return the standard deviation, which is the square root of the variance. Use var."""
    dots = (q * k).sum(axis=-1)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(dots.std())


def variance_of_a_sample(q, k, scaled=False):
    """You divide by n − 1 (ddof=1). Here the mean of the squared deviations is asked: divide by n,
    which is NumPy's default.
    """
    dots = (q * k).sum(axis=-1)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(dots.var(ddof=1))


def variance_all_pairs(q, k, scaled=False):
    """You use all n × n dot products. Row i of q meets row i of k only: n numbers, from q * k
    summed over the last axis.
    """
    dots = q @ k.T
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(dots.var())


def variance_divided_by_root(q, k, scaled=False):
    """You divide the variance by √D. The scale belongs to the dot products; their variance then
    falls by D.
    """
    variance = (q * k).sum(axis=-1).var()
    return float(variance / np.sqrt(q.shape[-1])) if scaled else float(variance)


def variance_divided_by_width(q, k, scaled=False):
    """You divide the dot products by D. Divide them by √D, as attention does."""
    dots = (q * k).sum(axis=-1)
    return float((dots / q.shape[-1]).var()) if scaled else float(dots.var())


def variance_ignores_scaled(q, k, scaled=False):
    """You do not use the argument scaled: where it is True, divide the dot products by √D."""
    return float((q * k).sum(axis=-1).var())


def variance_always_scaled(q, k, scaled=False):
    """You divide by √D even where scaled is False. Look at the argument: if scaled."""
    return float(((q * k).sum(axis=-1) / np.sqrt(q.shape[-1])).var())


def variance_of_products(q, k, scaled=False):
    """You take the variance of all n × D products. Sum each row first: a dot product is one number
    for each pair.
    """
    products = q * k
    if scaled:
        products = products / np.sqrt(q.shape[-1])
    return float(products.var())


def variance_mean_square(q, k, scaled=False):
    """You average the squares. Subtract the mean of the dot products before squaring."""
    dots = (q * k).sum(axis=-1)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float((dots**2).mean())


def variance_over_rows(q, k, scaled=False):
    """You sum over the pairs (axis 0), which leaves D numbers. A dot product sums over the width:
    axis=-1.
    """
    dots = (q * k).sum(axis=0)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(dots.var())


VARIANCE = {
    "standard deviation instead of variance": variance_standard_deviation,
    "divided by n − 1": variance_of_a_sample,
    "all pairs instead of matching rows": variance_all_pairs,
    "variance divided by √d_k": variance_divided_by_root,
    "dot products divided by d_k": variance_divided_by_width,
    "forgot 1/√d_k": variance_ignores_scaled,
    "ignored scaled=False": variance_always_scaled,
    "variance of products, not of dot products": variance_of_products,
    "mean not subtracted": variance_mean_square,
    "summed over the wrong axis": variance_over_rows,
}
