"""Chapter 03, forwards: how scores, attention and variance go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np
from attend_solutions.attention import attention_scores, softmax

# attention_scores


def scores_unscaled(q, k, scaled=True):
    """Your scores are not divided by √D where scaled is True. D is the width of a query:
    q.shape[-1].
    """
    return q @ np.swapaxes(k, -1, -2)


def scores_divided_by_width(q, k, scaled=True):
    """Your scores are divided by D. The dot products spread like √D: divide by that."""
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / q.shape[-1] if scaled else scores


def scores_half_power(q, k, scaled=True):
    """Your scores are divided by 2 D. Python reads `x / D ** 1/2` as (x / D) / 2: write D ** 0.5 or
    np.sqrt(D).
    """
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / (2 * q.shape[-1]) if scaled else scores


def scores_divided_by_keys(q, k, scaled=True):
    """Your scores are divided by the square root of how many keys there are. The spread comes from
    the width of the vectors, D: use q.shape[-1].
    """
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / np.sqrt(k.shape[-2]) if scaled else scores


def scores_multiplied(q, k, scaled=True):
    """Your scores are multiplied by √D. That spreads the scores further: divide by it."""
    scores = q @ np.swapaxes(k, -1, -2)
    return scores * np.sqrt(q.shape[-1]) if scaled else scores


def scores_always_scaled(q, k, scaled=True):
    """Your scores are divided by √D even where scaled is False. Look at the argument: if scaled."""
    return q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])


def scores_full_transpose(q, k, scaled=True):
    """Single matrices come out right, stacks of them do not. That happens with `.T`, which turns
    all axes round, with axes counted from the start, and with a loop over the first axis. Swap the
    last two axes, np.swapaxes(k, -1, -2), and let `@` run over the stack.
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
    """Every leading index of q is paired with every leading index of k, as np.dot and np.inner do.
    Use `@` (np.matmul), which keeps leading axes side by side.
    """
    scores = np.dot(q, np.swapaxes(k, -1, -2))
    return scores / np.sqrt(q.shape[-1]) if scaled else scores


def scores_cosine(q, k, scaled=True):
    """Each vector is divided by its own length (cosine similarity). Attention uses the plain dot
    product, divided by √D only.
    """
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / np.sqrt(q.shape[-1]) if scaled else scores


def scores_in_place(q, k, scaled=True):
    """`/=` and `q[...] =` write into the caller's q. Make a new array: scores / √D."""
    if scaled:
        q /= np.sqrt(q.shape[-1])
    return q @ np.swapaxes(k, -1, -2)


def scores_elementwise(q, k, scaled=True):
    """Entry meets entry, as with `q * k`. Here every query meets every key, and a score sums over
    the width: that is a matrix product, `@`.
    """
    scores = q * k
    return scores / np.sqrt(q.shape[-1]) if scaled else scores


def scores_without_transpose(q, k, scaled=True):
    """q times k as they are, which only fits where S = D. Entry (t, s) is query t times key s, both
    rows: swap the last two axes of k first.
    """
    scores = q @ k
    return scores / np.sqrt(q.shape[-1]) if scaled else scores


SCORES = {
    "forgot 1/√d_k": scores_unscaled,
    "divided by d_k, not √d_k": scores_divided_by_width,
    "`** 1/2` without brackets": scores_half_power,
    "scaled by the number of keys": scores_divided_by_keys,
    "multiplied by √d_k": scores_multiplied,
    "ignored scaled=False": scores_always_scaled,
    "right for single matrices only": scores_full_transpose,
    "keys and queries exchanged": scores_keys_by_queries,
    "np.dot or np.inner instead of @": scores_np_dot,
    "cosine instead of dot product": scores_cosine,
    "changed q in place": scores_in_place,
    "elementwise product instead of @": scores_elementwise,
    "k was not transposed": scores_without_transpose,
}

# scaled_dot_product_attention


def attention_unscaled(q, k, v):
    """Your weights come from scores that are not divided by √D. attention_scores divides unless you
    tell it scaled=False.
    """
    weights = softmax(attention_scores(q, k, scaled=False))
    return weights @ v, weights


def attention_over_queries(q, k, v):
    """Your columns sum to 1: the softmax ran over the queries. Each query shares one unit of weight
    among the keys, which lie on the last axis.
    """
    weights = softmax(attention_scores(q, k), axis=-2)
    return weights @ v, weights


def attention_output_only(q, k, v):
    """There is one result, the output. Return the weights too: `return output, weights`."""
    return softmax(attention_scores(q, k)) @ v


def attention_weights_first(q, k, v):
    """The weights come first. The output comes first: `return output, weights`."""
    weights = softmax(attention_scores(q, k))
    return weights, weights @ v


def attention_without_softmax(q, k, v):
    """The values are multiplied by the scores themselves. Turn each row of scores into weights with
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
    """The scores are divided by √D twice: attention_scores already does it. Drop the other one."""
    weights = softmax(attention_scores(q, k) / np.sqrt(q.shape[-1]))
    return weights @ v, weights


def attention_scaled_after(q, k, v):
    """The weights are divided by √D, after softmax, so that they no longer sum to 1. The scale
    belongs to the scores, before softmax.
    """
    weights = softmax(attention_scores(q, k, scaled=False)) / np.sqrt(q.shape[-1])
    return weights @ v, weights


def attention_two_weights(q, k, v):
    """Your output uses scaled scores, but the weights you return come from unscaled ones. Compute
    the weights once and use them for both.
    """
    output = softmax(attention_scores(q, k)) @ v
    return output, softmax(attention_scores(q, k, scaled=False))


def attention_mixes_keys(q, k, v):
    """Your output is the weights times k. Keys only decide how much; what is mixed is v."""
    weights = softmax(attention_scores(q, k))
    return weights @ k, weights


def attention_mixes_queries(q, k, v):
    """Your output is the weights' transpose times v. Row t of the weights already belongs to query
    t: multiply weights (T, S) by v (S, D_v) as they are.
    """
    weights = softmax(attention_scores(q, k))
    return np.swapaxes(weights, -1, -2) @ v, weights


def attention_elementwise(q, k, v):
    """The weights meet v entry by entry, as with `*`. A query's output is a sum over all keys: a
    matrix product, `@`.
    """
    weights = softmax(attention_scores(q, k))
    return weights * v, weights


def attention_scaled_by_values(q, k, v):
    """The scores are divided by the root of the width of v. It is the width of queries and keys
    that spreads them: q.shape[-1], which attention_scores already takes.
    """
    weights = softmax(attention_scores(q, k, scaled=False) / np.sqrt(v.shape[-1]))
    return weights @ v, weights


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
    "scaled by the width of the values": attention_scaled_by_values,
    "weights times keys": attention_mixes_keys,
    "Pᵀ instead of P in the output": attention_mixes_queries,
    "elementwise product instead of @": attention_elementwise,
}

# score_variance


def variance_standard_deviation(q, k, scaled=False):
    """This is the standard deviation, which is the square root of the variance. Use var."""
    dots = (q * k).sum(axis=-1)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(dots.std())


def variance_of_a_sample(q, k, scaled=False):
    """The sum is divided by n − 1 (ddof=1). Here the mean of the squared deviations is asked:
    divide by n, which is NumPy's default.
    """
    dots = (q * k).sum(axis=-1)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(dots.var(ddof=1))


def variance_not_averaged(q, k, scaled=False):
    """This is the sum of the squared deviations. Divide it by n, the number of dot products."""
    dots = (q * k).sum(axis=-1)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(((dots - dots.mean()) ** 2).sum())


def variance_all_pairs(q, k, scaled=False):
    """This is the variance of all n × n dot products. Row i of q meets row i of k only: n numbers,
    from q * k summed over the last axis.
    """
    dots = q @ k.T
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(dots.var())


def variance_divided_by_root(q, k, scaled=False):
    """The variance is divided by √D. The scale belongs to the dot products; their variance then
    falls by D.
    """
    variance = (q * k).sum(axis=-1).var()
    return float(variance / np.sqrt(q.shape[-1])) if scaled else float(variance)


def variance_divided_by_width(q, k, scaled=False):
    """The dot products are divided by D. Divide them by √D, as attention does."""
    dots = (q * k).sum(axis=-1)
    return float((dots / q.shape[-1]).var()) if scaled else float(dots.var())


def variance_ignores_scaled(q, k, scaled=False):
    """Nothing changes with the argument scaled: where it is True, divide the dot products by √D."""
    return float((q * k).sum(axis=-1).var())


def variance_always_scaled(q, k, scaled=False):
    """It is divided by √D even where scaled is False. Look at the argument: if scaled."""
    return float(((q * k).sum(axis=-1) / np.sqrt(q.shape[-1])).var())


def variance_of_products(q, k, scaled=False):
    """This is the variance of all n × D products. Sum each row first: a dot product is one number
    for each pair.
    """
    products = q * k
    if scaled:
        products = products / np.sqrt(q.shape[-1])
    return float(products.var())


def variance_mean_square(q, k, scaled=False):
    """This is the mean of the squares. Subtract the mean of the dot products before squaring."""
    dots = (q * k).sum(axis=-1)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float((dots**2).mean())


def variance_over_rows(q, k, scaled=False):
    """The sums run over the pairs (axis 0), which leaves D numbers. A dot product sums over the
    width: axis=-1.
    """
    dots = (q * k).sum(axis=0)
    if scaled:
        dots = dots / np.sqrt(q.shape[-1])
    return float(dots.var())


def variance_divided_by_pairs(q, k, scaled=False):
    """The dot products are divided by √n, and n is how many pairs there are. Divide by √D, the root
    of their width: q.shape[-1].
    """
    dots = (q * k).sum(axis=-1)
    if scaled:
        dots = dots / np.sqrt(q.shape[0])
    return float(dots.var())


def variance_of_one_number(q, k, scaled=False):
    """The result is always 0: a single number has no spread. Sum over the last axis only, so that n
    dot products remain: (q * k).sum(axis=-1).
    """
    return float((q * k).sum().var())


VARIANCE = {
    "standard deviation instead of variance": variance_standard_deviation,
    "divided by n − 1": variance_of_a_sample,
    "not divided by n": variance_not_averaged,
    "all pairs instead of matching rows": variance_all_pairs,
    "variance divided by √d_k": variance_divided_by_root,
    "dot products divided by d_k": variance_divided_by_width,
    "forgot 1/√d_k": variance_ignores_scaled,
    "ignored scaled=False": variance_always_scaled,
    "variance of products, not of dot products": variance_of_products,
    "mean not subtracted": variance_mean_square,
    "summed over the wrong axis": variance_over_rows,
    "one sum over everything": variance_of_one_number,
    "divided by √n, not √d_k": variance_divided_by_pairs,
}
