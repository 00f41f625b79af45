"""Chapter 02: how scores and the weighted mean go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import torch

# additive_score


def additive_without_tanh(queries, keys, w_query, w_key, v):
    """There is no tanh between the sum and v. Without it, the part of the query is the same for
    all keys, and cannot change a weight.
    """
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return hidden @ v


def additive_tanh_before_sum(queries, keys, w_query, w_key, v):
    """tanh is taken of query part and key part, each by itself, before they are added. Then the
    query's part is the same for all keys. Add first: tanh(query part + key part).
    """
    return torch.tanh(queries @ w_query)[..., :, None, :] @ v + (
        torch.tanh(keys @ w_key)[..., None, :, :] @ v
    )


def additive_tanh_last(queries, keys, w_query, w_key, v):
    """tanh comes last, after v, so that all scores lie between -1 and 1. It belongs to the A hidden
    units, before the product with v.
    """
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return torch.tanh(hidden @ v)


def additive_relu(queries, keys, w_query, w_key, v):
    """The hidden units are cut off at 0 (relu). Bahdanau's score uses tanh."""
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return torch.relu(hidden) @ v


def additive_sigmoid(queries, keys, w_query, w_key, v):
    """The hidden units lie between 0 and 1 (sigmoid). Bahdanau's score uses tanh."""
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return torch.sigmoid(hidden) @ v


def additive_product(queries, keys, w_query, w_key, v):
    """The query's part is multiplied by the key's. This score is called additive: add them."""
    hidden = (queries @ w_query)[..., :, None, :] * (keys @ w_key)[..., None, :, :]
    return torch.tanh(hidden) @ v


def additive_rows(queries, keys, w_query, w_key, v):
    """Query t meets key t only, which goes unnoticed where T = S. Every query meets every key: give
    each part an axis for the other's places, (T, 1, A) and (1, S, A).
    """
    return torch.tanh(queries @ w_query + keys @ w_key) @ v


def additive_transposed(queries, keys, w_query, w_key, v):
    """Your rows are keys and your columns queries. Row t holds the scores of query t: the axis of
    the queries comes first.
    """
    hidden = (queries @ w_query)[..., None, :, :] + (keys @ w_key)[..., :, None, :]
    return torch.tanh(hidden) @ v


def additive_not_summed(queries, keys, w_query, w_key, v):
    """There are A numbers for each pair instead of one. v is a vector: `@ v` multiplies and sums
    over the last axis, `* v` only multiplies.
    """
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return torch.tanh(hidden) * v


def additive_mean(queries, keys, w_query, w_key, v):
    """The scores are divided by A: a mean over the hidden units. It is their sum, weighed by v."""
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return (torch.tanh(hidden) * v).mean(dim=-1)


def additive_softmax(queries, keys, w_query, w_key, v):
    """These are weights: each row sums to 1. The softmax comes later, in attend."""
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return torch.softmax(torch.tanh(hidden) @ v, dim=-1)


def additive_softmax_over_queries(queries, keys, w_query, w_key, v):
    """These are weights already, and it is the columns that sum to 1. A score may be any number;
    the softmax comes later, in attend.
    """
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return torch.softmax(torch.tanh(hidden) @ v, dim=-2)


def additive_softmax_over_units(queries, keys, w_query, w_key, v):
    """A softmax runs over the hidden units, so that a score is a mean of v's entries. There is none
    in a score: v times the tanh of the sum; the softmax over the keys comes later, in attend.
    """
    hidden = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    return torch.softmax(torch.tanh(hidden), dim=-1) @ v


def additive_weights_exchanged(queries, keys, w_query, w_key, v):
    """w_key is applied to the queries and w_query to the keys, which goes unnoticed where N = E."""
    hidden = (queries @ w_key)[..., :, None, :] + (keys @ w_query)[..., None, :, :]
    return torch.tanh(hidden) @ v


def additive_hard_coded_axes(queries, keys, w_query, w_key, v):
    """It is right for one table and wrong with leading axes: the new axes are counted from the
    start, as in unsqueeze(1) and unsqueeze(0). Count from the end: unsqueeze(-2) for the queries
    and unsqueeze(-3) for the keys.
    """
    return torch.tanh((queries @ w_query).unsqueeze(1) + (keys @ w_key).unsqueeze(0)) @ v


ADDITIVE = {
    "no tanh": additive_without_tanh,
    "tanh before the sum": additive_tanh_before_sum,
    "tanh after v": additive_tanh_last,
    "relu instead of tanh": additive_relu,
    "sigmoid instead of tanh": additive_sigmoid,
    "product instead of sum": additive_product,
    "query t with key t only": additive_rows,
    "keys and queries exchanged": additive_transposed,
    "not summed over the hidden units": additive_not_summed,
    "mean over the hidden units": additive_mean,
    "softmax taken already": additive_softmax,
    "softmax taken already, over the queries": additive_softmax_over_queries,
    "softmax over the hidden units": additive_softmax_over_units,
    "w_query and w_key exchanged": additive_weights_exchanged,
    "axes counted from the start": additive_hard_coded_axes,
}

# multiplicative_score


def _general(queries, weight):
    return queries if weight is None else queries @ weight


def multiplicative_scaled(queries, keys, weight=None):
    """The scores are divided by the root of the width of the keys. That scale came in 2017 (chapter
    03); Luong's scores of 2015 are not scaled.
    """
    return _general(queries, weight) @ keys.mT / keys.shape[-1] ** 0.5


def multiplicative_transposed_weight(queries, keys, weight=None):
    """The weight is transposed, which goes unnoticed in the shapes where N = E. The score is
    q W k: queries @ weight, then the keys.
    """
    return _general(queries, None if weight is None else weight.mT) @ keys.mT


def multiplicative_ignores_weight(queries, keys, weight=None):
    """The scores are the dot products, also where a weight is given. Then multiply the queries by
    it first.
    """
    return queries @ keys.mT


def multiplicative_all_axes(queries, keys, weight=None):
    """Single matrices come out right, stacks of them do not: the axes of the keys are exchanged
    counted from the start. Exchange the last two: keys.mT, or keys.transpose(-1, -2).
    """
    return _general(queries, weight) @ keys.transpose(0, 1)


def multiplicative_keys_by_queries(queries, keys, weight=None):
    """Your rows are keys and your columns queries. Row t must hold the scores of query t: put the
    queries on the left.
    """
    return keys @ _general(queries, weight).mT


def multiplicative_cosine(queries, keys, weight=None):
    """Each vector is divided by its own length (cosine similarity). Luong's score is the plain
    product.
    """
    queries = torch.nn.functional.normalize(_general(queries, weight), dim=-1)
    return queries @ torch.nn.functional.normalize(keys, dim=-1).mT


def multiplicative_softmax(queries, keys, weight=None):
    """These are weights: each row sums to 1. The softmax comes later, in attend."""
    return torch.softmax(_general(queries, weight) @ keys.mT, dim=-1)


def multiplicative_elementwise(queries, keys, weight=None):
    """Entry meets entry, as with `*`. Every query meets every key, and a score sums over the width:
    a matrix product, `@`.
    """
    return _general(queries, weight) * keys


def multiplicative_rows(queries, keys, weight=None):
    """Query t meets key t only, so that a whole axis is missing. Every query meets every key:
    queries @ keys.mT.
    """
    return (_general(queries, weight) * keys).sum(dim=-1)


def multiplicative_without_transpose(queries, keys, weight=None):
    """Queries times keys as they are, which only fits where S = E. Entry (t, s) is row t times row
    s: exchange the last two axes of the keys first, keys.mT.
    """
    return _general(queries, weight) @ keys


def multiplicative_tanh(queries, keys, weight=None):
    """All scores lie between -1 and 1: there is a tanh. The multiplicative score has none."""
    return torch.tanh(_general(queries, weight) @ keys.mT)


def multiplicative_if_weight(queries, keys, weight=None):
    """It stops where a weight is given, and there only. `if weight:` asks whether a tensor is true,
    which PyTorch cannot answer for many numbers; `if weight is not None:` asks whether there is
    one.
    """
    if weight:
        queries = queries @ weight
    return queries @ keys.mT


def multiplicative_added(queries, keys, weight=None):
    """With a weight, the dot product is added to q W k, as if to a residual. "General" is q W k
    alone (N = E here, or the two could not be added).
    """
    scores = _general(queries, weight) @ keys.mT
    if weight is not None and weight.shape[0] == weight.shape[1]:
        scores = scores + queries @ keys.mT
    return scores


MULTIPLICATIVE = {
    "scaled by the root of the width": multiplicative_scaled,
    "weight transposed": multiplicative_transposed_weight,
    "ignored the weight": multiplicative_ignores_weight,
    "axes counted from the start": multiplicative_all_axes,
    "keys and queries exchanged": multiplicative_keys_by_queries,
    "cosine instead of the product": multiplicative_cosine,
    "softmax taken already": multiplicative_softmax,
    "elementwise product instead of @": multiplicative_elementwise,
    "query t with key t only": multiplicative_rows,
    "keys not transposed": multiplicative_without_transpose,
    "tanh of the score": multiplicative_tanh,
    "asked whether the weight is true": multiplicative_if_weight,
    "dot product added to general": multiplicative_added,
}

# attend


def attend_over_queries(scores, values):
    """Your columns sum to 1: the softmax ran over the queries. Each query shares one unit of weight
    among the keys: dim=-1.
    """
    weights = torch.softmax(scores, dim=-2)
    return weights @ values, weights


def attend_first_axis(scores, values):
    """With leading axes, the softmax runs over axis 1 (dim=1), which is the keys' axis for a single
    table only. The keys always lie on the last axis: dim=-1.
    """
    weights = torch.softmax(scores, dim=1)
    return weights @ values, weights


def attend_without_softmax(scores, values):
    """The values are multiplied by the scores themselves. Turn each row of scores into weights
    first: torch.softmax(scores, dim=-1).
    """
    return scores @ values, scores


def attend_divided(scores, values):
    """The scores are divided by their sum as they are. They can be negative and can sum to 0: take
    the softmax.
    """
    weights = scores / scores.sum(dim=-1, keepdim=True)
    return weights @ values, weights


def attend_sigmoid(scores, values):
    """Each weight lies between 0 and 1 by itself, but a row does not sum to 1 (sigmoid). The keys
    of a query share one unit: softmax.
    """
    weights = torch.sigmoid(scores)
    return weights @ values, weights


def attend_contexts_only(scores, values):
    """There is one result, the contexts. Return the weights too: `return contexts, weights`."""
    return torch.softmax(scores, dim=-1) @ values


def attend_weights_first(scores, values):
    """The weights come first. The contexts come first: `return contexts, weights`."""
    weights = torch.softmax(scores, dim=-1)
    return weights, weights @ values


def attend_returns_scores(scores, values):
    """Your contexts are right, but you return the scores where the weights belong: give back what
    softmax returned.
    """
    return torch.softmax(scores, dim=-1) @ values, scores


def attend_scaled(scores, values):
    """The scores are divided by the root of the width of the values. Nothing is scaled here."""
    weights = torch.softmax(scores / values.shape[-1] ** 0.5, dim=-1)
    return weights @ values, weights


def attend_hard(scores, values):
    """All weight goes to the largest score (argmax). That is hard; soft attention gives every key
    its share: softmax.
    """
    weights = torch.nn.functional.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
    return weights @ values, weights


def attend_transposed(scores, values):
    """The contexts are the weights' transpose times the values, which fits where T = S only. Row t
    of the weights already belongs to query t: weights @ values.
    """
    weights = torch.softmax(scores, dim=-1)
    return weights.mT @ values, weights


def attend_mean(scores, values):
    """The contexts are divided by S once more. The weights sum to 1 already: their sum with the
    values is the mean.
    """
    weights = torch.softmax(scores, dim=-1)
    return weights @ values / values.shape[-2], weights


def attend_detached(scores, values):
    """The values are right, but the weights are detached as soon as they are made: no gradient
    reaches the scores, and the decoder never learns where to look. Pass them on as they are.
    """
    weights = torch.softmax(scores, dim=-1).detach()
    return weights @ values, weights


def attend_detached_contexts(scores, values):
    """The values are right, but the contexts are made from detached weights. The gradient that
    teaches the decoder where to look comes through the contexts: use the weights as they are.
    """
    weights = torch.softmax(scores, dim=-1)
    return weights.detach() @ values, weights


def attend_detached_result(scores, values):
    """The contexts are right, with their gradients; the weights you *return* are detached. A loss
    may use them too (to ask for a sharp alignment, say): return them as they are.
    """
    weights = torch.softmax(scores, dim=-1)
    return weights @ values, weights.detach()


ATTEND = {
    "normalised over queries instead of keys": attend_over_queries,
    "softmax over axis 1": attend_first_axis,
    "no softmax": attend_without_softmax,
    "divided by the sum, without exp": attend_divided,
    "sigmoid instead of softmax": attend_sigmoid,
    "returned the contexts only": attend_contexts_only,
    "returned the weights first": attend_weights_first,
    "returned scores instead of weights": attend_returns_scores,
    "scaled by the root of the width": attend_scaled,
    "all weight to the largest score": attend_hard,
    "weights transposed in the contexts": attend_transposed,
    "contexts divided by S": attend_mean,
    "detached the weights": attend_detached,
    "detached the weights in the contexts": attend_detached_contexts,
    "detached the weights it returns": attend_detached_result,
}
