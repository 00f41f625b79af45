"""Chapter 04: other right ways to write each answer. All must get full marks."""

import math
from functools import reduce

import numpy as np
from attend_solutions.attention import attention_scores, softmax
from attend_solutions.self_attention import masked_softmax, self_attention


def _spread(mask, shape):
    """The mask (or True) as large as scores of this shape and itself together."""
    mask = np.array(True) if mask is None else mask
    return np.broadcast_to(mask, np.broadcast_shapes(shape, mask.shape))


# masked_softmax


def masked_by_rows(scores, mask=None):
    """Row by row: the softmax of the visible scores only, put back in their places."""
    mask = True if mask is None else mask
    scores, mask = np.broadcast_arrays(np.asarray(scores, dtype=float), mask)
    weights = np.zeros(scores.shape)
    for index in np.ndindex(scores.shape[:-1]):
        seen = mask[index] & (scores[index] != -np.inf)
        if seen.any():
            weights[index][seen] = softmax(scores[index][seen])
    return weights


def masked_afterwards_mended(scores, mask=None):
    """−inf, chapter 03's softmax, and NaN rows set to 0 at the end."""
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(softmax(scores))


def masked_in_a_copy(scores, mask=None):
    """Writes −inf into a copy; an empty row is told beforehand and lifted to 0."""
    visible = _spread(mask, np.shape(scores))
    filled = np.array(np.broadcast_to(scores, visible.shape), dtype=np.float64)
    filled[~visible] = float("-inf")
    empty = np.isneginf(filled).all(axis=-1)
    filled[empty] = 0
    weights = np.exp(filled - np.max(filled, axis=-1)[..., None])
    weights /= weights.sum(axis=-1)[..., None]
    weights[empty] = 0
    return weights


def masked_with_where(scores, mask=None):
    """NumPy's own `where=` and `initial=`; the division skips rows whose sum is 0."""
    scores = np.asarray(scores, dtype=float)
    mask = _spread(mask, scores.shape)
    scores = np.broadcast_to(scores, mask.shape)
    largest = scores.max(axis=-1, keepdims=True, where=mask, initial=-1e300)
    shares = np.where(mask, np.exp(np.minimum(np.where(mask, scores, 0) - largest, 0)), 0)
    total = shares.sum(axis=-1, keepdims=True)
    return np.divide(shares, total, out=np.zeros(mask.shape), where=total > 0)


MASKED = {
    "row by row, visible places only": masked_by_rows,
    "NaN rows mended at the end": masked_afterwards_mended,
    "written into a copy": masked_in_a_copy,
    "where= in max and divide": masked_with_where,
}

# self_attention


def self_einsum(x, w_q, w_k, w_v, mask=None):
    """Calls nothing of the chapter."""
    q, k, v = (np.einsum("...tc,cd->...td", x, w) for w in (w_q, w_k, w_v))
    scores = np.einsum("...td,...sd->...ts", q, k) / math.sqrt(w_q.shape[1])
    allowed = _spread(mask, scores.shape)
    scores = np.where(allowed, scores, -np.inf)
    largest = np.where(allowed.any(-1, keepdims=True), scores.max(-1, keepdims=True), 0)
    shares = np.exp(scores - largest)
    weights = shares / np.maximum(shares.sum(-1, keepdims=True), 1e-300)
    return np.einsum("...ts,...sv->...tv", weights, v), weights


def self_by_tokens(x, w_q, w_k, w_v, mask=None):
    """One sentence and one token at a time."""
    x = np.asarray(x)
    allowed = _spread(mask, (*x.shape[:-1], x.shape[-2]))
    x = np.broadcast_to(x, (*allowed.shape[:-1], x.shape[-1]))
    weights = np.zeros(allowed.shape)
    output = np.zeros((*allowed.shape[:-1], w_v.shape[-1]))
    for index in np.ndindex(allowed.shape[:-1]):
        sentence, token = x[index[:-1]], x[index]
        scores = (sentence @ w_k) @ (token @ w_q) / math.sqrt(w_k.shape[-1])
        weights[index] = masked_softmax(scores, allowed[index])
        output[index] = weights[index] @ (sentence @ w_v)
    return output, weights


def self_one_matrix(x, w_q, w_k, w_v, mask=None):
    """One product with the three matrices side by side, cut apart afterwards; scale in front."""
    d = w_q.shape[-1]
    qkv = np.matmul(x, np.concatenate([w_q, w_k, w_v], axis=-1))
    q, k, v = np.split(qkv, [d, 2 * d], axis=-1)
    weights = masked_softmax((q / d**0.5) @ np.swapaxes(k, -1, -2), mask=mask)
    return [weights @ v, weights]


def self_values_last(x, w_q, w_k, w_v, mask=None):
    """(P x) W_v instead of P (x W_v): the same by associativity."""
    weights = masked_softmax(attention_scores(x @ w_q, x @ w_k, scaled=True), mask)
    return (weights @ x) @ w_v, weights


SELF = {
    "self-contained, einsum": self_einsum,
    "token by token": self_by_tokens,
    "one matrix for q, k and v": self_one_matrix,
    "values projected last": self_values_last,
}

# permutation_matrix_test


def permutation_by_indexing(order, x, w_q, w_k, w_v, mask=None):
    """Builds no matrix: x[order] is P x, mask[order][:, order] is P M Pᵀ."""
    moved = None if mask is None else mask[order][:, order]
    expected = self_attention(x, w_q, w_k, w_v, mask)[0][order]
    stays = self_attention(x[order], w_q, w_k, w_v, mask)[0]
    return expected, stays, self_attention(x[order], w_q, w_k, w_v, moved)[0]


def permutation_by_loops(order, x, w_q, w_k, w_v, mask=None):
    """The matrix entry by entry; the mask through its own dtype."""
    size = len(order)
    p = np.zeros((size, size))
    for i, old in enumerate(order):
        p[i, old] = 1
    moved = mask
    if mask is not None:
        moved = (p @ mask.astype(float) @ np.linalg.inv(p)).round().astype(bool)
    runs = [(x, mask), (p @ x, mask), (p @ x, moved)]
    outputs = [self_attention(tokens, w_q, w_k, w_v, allowed)[0] for tokens, allowed in runs]
    return [np.matmul(p, outputs[0]), *outputs[1:]]


def permutation_by_ix(order, x, w_q, w_k, w_v, mask=None):
    """np.ix_ for the mask, np.take for the rows."""
    tokens = np.take(x, order, axis=0)
    moved = mask[np.ix_(order, order)] if mask is not None else None
    output, _ = self_attention(x, w_q, w_k, w_v, mask=mask)
    stays, _ = self_attention(tokens, w_q, w_k, w_v, mask=mask)
    moves, _ = self_attention(tokens, w_q, w_k, w_v, mask=moved)
    return np.take(output, order, axis=0), stays, moves


PERMUTATION = {
    "by indexing, without a matrix": permutation_by_indexing,
    "matrix by a loop, its inverse": permutation_by_loops,
    "np.take and np.ix_": permutation_by_ix,
}

# causal_mask


def causal_tril(queries, keys=None):
    """A triangle of ones, shifted to the right."""
    keys = keys if keys is not None else queries
    return np.tril(np.ones((queries, keys), dtype=bool), k=keys - queries)


def causal_not_triu(queries, keys=None):
    """Not the upper triangle."""
    if keys is None:
        keys = queries
    return ~np.triu(np.full((queries, keys), True), k=keys - queries + 1)


def causal_by_loops(queries, keys=None):
    """Pair by pair; counts from the end, where both end together."""
    keys = queries if keys is None else keys
    return np.array([[queries - t <= keys - s for s in range(keys)] for t in range(queries)])


def causal_end_of_the_whole(queries, keys=None):
    """The last rows and columns of one large triangle."""
    keys = queries if keys is None else keys
    size = max(queries, keys)
    places = np.arange(size)
    return np.greater_equal.outer(places, places)[size - queries :, size - keys :]


CAUSAL = {
    "np.tril": causal_tril,
    "not np.triu": causal_not_triu,
    "pair by pair": causal_by_loops,
    "end of a large triangle": causal_end_of_the_whole,
}

# padding_mask


def padding_by_sentences(lengths, size, side="right"):
    """One sentence at a time."""
    mask = np.zeros((len(lengths), 1, size), dtype=bool)
    for b, length in enumerate(lengths):
        if side == "right":
            mask[b, :, :length] = True
        else:
            mask[b, :, size - length :] = True
    return mask


def padding_turned(lengths, size, side="right"):
    """The left-filled mask is the right-filled one read backwards."""
    mask = np.less.outer(np.arange(size), np.array(lengths)).T
    mask = mask if side == "right" else np.flip(mask, axis=-1)
    return np.expand_dims(mask, 1)


def padding_by_lists(lengths, size, side="right"):
    """Lists of booleans, one joined to the other."""
    rows = []
    for length in lengths:
        tokens, filling = [True] * int(length), [False] * (size - int(length))
        rows.append([filling + tokens if side == "left" else tokens + filling])
    return np.array(rows)


PADDING = {
    "sentence by sentence": padding_by_sentences,
    "outer comparison, flipped": padding_turned,
    "lists joined": padding_by_lists,
}

# combine_masks


def combine_reduce(*masks):
    """functools.reduce."""
    given = [mask for mask in masks if mask is not None]
    return reduce(np.logical_and, given) if given else None


def combine_stacked(*masks):
    """Broadcast, stack, all."""
    given = [mask for mask in masks if mask is not None]
    if len(given) == 0:
        return None
    return np.stack(np.broadcast_arrays(*given)).all(axis=0)


def combine_product(*masks):
    """The product of booleans is their conjunction."""
    combined = None
    for mask in masks:
        if mask is None:
            continue
        combined = mask.copy() if combined is None else combined * mask
    return combined


def combine_recursive(*masks):
    """The first with all the rest."""
    if not masks:
        return None
    first, rest = masks[0], combine_recursive(*masks[1:])
    if first is None or rest is None:
        return rest if first is None else first
    return np.bitwise_and(first, rest)


COMBINE = {
    "functools.reduce": combine_reduce,
    "stacked, all": combine_stacked,
    "product": combine_product,
    "recursive": combine_recursive,
}

# cross_attention


def cross_einsum(x, context, w_q, w_k, w_v, mask=None):
    """einsum for every product."""
    q = np.einsum("...tc,cd->...td", x, w_q)
    k, v = (np.einsum("...sc,cd->...sd", context, w) for w in (w_k, w_v))
    scores = np.einsum("...td,...sd->...ts", q, k) * w_q.shape[-1] ** -0.5
    weights = masked_softmax(scores, mask)
    return np.einsum("...ts,...sv->...tv", weights, v), weights


def cross_absorbed(x, context, w_q, w_k, w_v, mask=None):
    """The key matrix moved over to the query: x W_q W_kᵀ contextᵀ; values projected last."""
    asks = x @ (w_q @ w_k.T)
    scores = asks @ np.swapaxes(context, -1, -2) / math.sqrt(w_k.shape[-1])
    weights = masked_softmax(scores, mask)
    return (weights @ context) @ w_v, weights


def cross_within_one_text(x, context, w_q, w_k, w_v, mask=None):
    """Self-attention's own steps, with the queries of x in place."""
    t, s = x.shape[-2], context.shape[-2]
    q, k, v = x @ w_q, context @ w_k, context @ w_v
    scores = attention_scores(q, k).reshape(*q.shape[:-2], t, s)
    if mask is None:
        mask = np.ones((t, s), dtype=bool)
    weights = masked_softmax(scores, mask)
    return np.matmul(weights, v), weights


CROSS = {
    "einsum": cross_einsum,
    "keys absorbed into the query": cross_absorbed,
    "a mask of ones for None": cross_within_one_text,
}
