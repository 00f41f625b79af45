"""Chapter 04: how self-attention, cross-attention and the permutation test go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np
from attend_solutions.attention import attention_scores, softmax
from attend_solutions.self_attention import masked_softmax, self_attention


def _look_up(q, k, v, mask=None):
    """Output and weights, for slips that lie elsewhere."""
    weights = masked_softmax(attention_scores(q, k), mask)
    return weights @ v, weights


# self_attention


def self_exchanged(x, w_q, w_k, w_v, mask=None):
    """Queries and keys are exchanged: your weights are made from scores turned over. The query is x
    @ w_q, the key x @ w_k, and attention_scores takes the query first.
    """
    return _look_up(x @ w_k, x @ w_q, x @ w_v, mask)


def self_scaled_by_width(x, w_q, w_k, w_v, mask=None):
    """Scores are divided by √C, the width of a token. What is multiplied are queries and keys: D =
    w_q.shape[-1] wide. attention_scores divides by √D itself.
    """
    scores = (x @ w_q) @ np.swapaxes(x @ w_k, -1, -2) / np.sqrt(x.shape[-1])
    weights = masked_softmax(scores, mask)
    return weights @ (x @ w_v), weights


def self_unscaled(x, w_q, w_k, w_v, mask=None):
    """Scores are not divided by √D. attention_scores(q, k) does it unless told scaled=False."""
    weights = masked_softmax(attention_scores(x @ w_q, x @ w_k, scaled=False), mask)
    return weights @ (x @ w_v), weights


def self_scaled_twice(x, w_q, w_k, w_v, mask=None):
    """Scores are divided by √D twice. attention_scores has done it already."""
    scores = attention_scores(x @ w_q, x @ w_k) / np.sqrt(w_q.shape[-1])
    weights = masked_softmax(scores, mask)
    return weights @ (x @ w_v), weights


def self_without_values(x, w_q, w_k, w_v, mask=None):
    """The output is a mean of the tokens themselves. The values are x @ w_v: multiply the weights
    with those.
    """
    return _look_up(x @ w_q, x @ w_k, x, mask)


def self_keys_as_values(x, w_q, w_k, w_v, mask=None):
    """The output is a mean of the keys. The values are x @ w_v: multiply the weights with those."""
    return _look_up(x @ w_q, x @ w_k, x @ w_k, mask)


def self_ignores_mask(x, w_q, w_k, w_v, mask=None):
    """The mask has no effect: hidden tokens get weight. Hand it to masked_softmax."""
    return _look_up(x @ w_q, x @ w_k, x @ w_v)


def self_masked_after(x, w_q, w_k, w_v, mask=None):
    """Hidden weights are set to 0 after the softmax, so the rows of weights no longer sum to 1.
    Hide before it: masked_softmax(scores, mask).
    """
    weights = masked_softmax(attention_scores(x @ w_q, x @ w_k))
    weights = weights if mask is None else weights * mask
    return weights @ (x @ w_v), weights


def self_nan(x, w_q, w_k, w_v, mask=None):
    """A token that may look at nothing gets NaN. Chapter 03's softmax cannot settle such a row;
    your masked_softmax does.
    """
    scores = attention_scores(x @ w_q, x @ w_k)
    weights = softmax(scores if mask is None else np.where(mask, scores, -np.inf))
    return weights @ (x @ w_v), weights


def self_over_queries(x, w_q, w_k, w_v, mask=None):
    """Your columns sum to 1. Each query shares out one unit of weight among the keys, which lie on
    the last axis.
    """
    scores = np.swapaxes(attention_scores(x @ w_q, x @ w_k), -1, -2)
    if mask is not None:
        mask = np.swapaxes(np.broadcast_to(mask, scores.shape), -1, -2)
    weights = np.swapaxes(masked_softmax(scores, mask), -1, -2)
    return weights @ (x @ w_v), weights


def self_output_only(x, w_q, w_k, w_v, mask=None):
    """There is one result, the output. Return the weights too: `return output, weights`."""
    return _look_up(x @ w_q, x @ w_k, x @ w_v, mask)[0]


def self_weights_first(x, w_q, w_k, w_v, mask=None):
    """The weights come first. The output comes first: `return output, weights`."""
    return _look_up(x @ w_q, x @ w_k, x @ w_v, mask)[::-1]


def self_mask_turned(x, w_q, w_k, w_v, mask=None):
    """The mask is turned over: keys see queries. Row t of the mask belongs to query t, as row t of
    the scores does.
    """
    turned = None if mask is None or np.ndim(mask) < 2 else np.swapaxes(mask, -1, -2)
    return _look_up(x @ w_q, x @ w_k, x @ w_v, turned)


def self_transposed_weights(x, w_q, w_k, w_v, mask=None):
    """x is multiplied by the matrices turned over. That fits only where they are square: it is x @
    w_q, with w_q of shape (C, D) as it is given.
    """
    return _look_up(x @ w_q.T, x @ w_k.T, x @ w_v.T, mask)


def self_mask_inverted(x, w_q, w_k, w_v, mask=None):
    """True hides and False shows. masked_softmax takes the mask as it is given: True means "may
    look".
    """
    return _look_up(x @ w_q, x @ w_k, x @ w_v, None if mask is None else ~mask)


def self_mask_multiplied(x, w_q, w_k, w_v, mask=None):
    """Hidden scores are set to 0, as a product with the mask does, and e⁰ is no small weight. Hand
    scores and mask to masked_softmax.
    """
    scores = attention_scores(x @ w_q, x @ w_k)
    weights = softmax(scores if mask is None else scores * mask)
    return weights @ (x @ w_v), weights


def self_keys_like_queries(x, w_q, w_k, w_v, mask=None):
    """Keys are made by w_q, so w_k has no effect. The key is x @ w_k."""
    return _look_up(x @ w_q, x @ w_q, x @ w_v, mask)


SELF = {
    "queries and keys exchanged": self_exchanged,
    "scaled by √C instead of √D": self_scaled_by_width,
    "forgot 1/√D": self_unscaled,
    "scaled twice": self_scaled_twice,
    "tokens instead of values": self_without_values,
    "keys instead of values": self_keys_as_values,
    "mask without effect": self_ignores_mask,
    "masked after the softmax": self_masked_after,
    "NaN where everything is hidden": self_nan,
    "normalised over queries": self_over_queries,
    "the weights are not returned": self_output_only,
    "weights returned first": self_weights_first,
    "mask turned over": self_mask_turned,
    "True taken for hidden": self_mask_inverted,
    "hidden scores set to 0": self_mask_multiplied,
    "one matrix for queries and keys": self_keys_like_queries,
    "matrices turned over": self_transposed_weights,
}

# permutation_matrix_test


def _three(order, x, w_q, w_k, w_v, mask, moved_mask, p=None):
    """The three outputs for a given moved mask (and a given matrix)."""
    p = np.eye(len(x))[np.asarray(order)] if p is None else p
    expected = p @ self_attention(x, w_q, w_k, w_v, mask)[0]
    stays = self_attention(p @ x, w_q, w_k, w_v, mask)[0]
    return expected, stays, self_attention(p @ x, w_q, w_k, w_v, moved_mask)[0]


def permutation_inverse(order, x, w_q, w_k, w_v, mask=None):
    """Tokens go the opposite way: your matrix is Pᵀ. Row i of P has its 1 in column order[i], so
    that row i of P x is row order[i] of x: np.eye(T)[order].
    """
    p = np.eye(len(x))[:, np.asarray(order)]
    moved = None if mask is None else (p @ mask @ p.T) > 0
    return _three(order, x, w_q, w_k, w_v, mask, moved, p)


def permutation_rows_only(order, x, w_q, w_k, w_v, mask=None):
    """Only the rows of the mask move (P M). Its columns are tokens too: P M Pᵀ."""
    moved = None if mask is None else mask[np.asarray(order)]
    return _three(order, x, w_q, w_k, w_v, mask, moved)


def permutation_columns_only(order, x, w_q, w_k, w_v, mask=None):
    """Only the columns of the mask move (M Pᵀ). Its rows are tokens too: P M Pᵀ."""
    moved = None if mask is None else mask[:, np.asarray(order)]
    return _three(order, x, w_q, w_k, w_v, mask, moved)


def permutation_mask_back(order, x, w_q, w_k, w_v, mask=None):
    """The mask moves the opposite way to the tokens: Pᵀ M P. It is P M Pᵀ, P on the left as for the
    tokens.
    """
    back = np.argsort(order)
    moved = None if mask is None else mask[back][:, back]
    return _three(order, x, w_q, w_k, w_v, mask, moved)


def permutation_rows_twice(order, x, w_q, w_k, w_v, mask=None):
    """The rows of the mask move twice, its columns never: each [order] takes rows. Columns are
    mask[order][:, order], or P M Pᵀ.
    """
    moved = None if mask is None else mask[np.asarray(order)][np.asarray(order)]
    return _three(order, x, w_q, w_k, w_v, mask, moved)


def permutation_not_transposed(order, x, w_q, w_k, w_v, mask=None):
    """The columns of the mask move the opposite way to its rows: P M P. On the right stands the
    transpose: P M Pᵀ.
    """
    back = np.argsort(order)
    moved = None if mask is None else mask[np.asarray(order)][:, back]
    return _three(order, x, w_q, w_k, w_v, mask, moved)


def permutation_mask_never_moves(order, x, w_q, w_k, w_v, mask=None):
    """The second and the third result are the same: the mask does not move in the third. Give it P
    M Pᵀ there.
    """
    return _three(order, x, w_q, w_k, w_v, mask, mask)


def permutation_mask_always_moves(order, x, w_q, w_k, w_v, mask=None):
    """All three results are the same. In the second one the tokens move and the mask stays, so it
    must differ from the others: do not move the mask there, and do not move the output instead.
    """
    moved = None if mask is None else mask[np.asarray(order)][:, np.asarray(order)]
    expected, _, moves = _three(order, x, w_q, w_k, w_v, mask, moved)
    return expected, moves, moves


def permutation_output_stays(order, x, w_q, w_k, w_v, mask=None):
    """The first result is f(x) in its old order. Move its rows as well: P @ f(x)."""
    p = np.eye(len(x))[np.asarray(order)]
    moved = None if mask is None else (p @ mask @ p.T) > 0
    _, stays, moves = _three(order, x, w_q, w_k, w_v, mask, moved)
    return self_attention(x, w_q, w_k, w_v, mask)[0], stays, moves


def permutation_other_order(order, x, w_q, w_k, w_v, mask=None):
    """The second and third results are in each other's places: first the mask that stays, then the
    one that moves.
    """
    moved = None if mask is None else mask[np.asarray(order)][:, np.asarray(order)]
    expected, stays, moves = _three(order, x, w_q, w_k, w_v, mask, moved)
    return expected, moves, stays


def permutation_without_mask(order, x, w_q, w_k, w_v, mask=None):
    """The mask has no effect: all three results are those without one. Pass it to self_attention,
    as it is or moved.
    """
    return _three(order, x, w_q, w_k, w_v, None, None)


def permutation_of_weights(order, x, w_q, w_k, w_v, mask=None):
    """You compare weights (T, T). self_attention returns output and weights: take the output, the
    first of the two.
    """
    p = np.eye(len(x))[np.asarray(order)]
    moved = None if mask is None else (p @ mask @ p.T) > 0
    runs = [(x, mask), (p @ x, mask), (p @ x, moved)]
    weights = [self_attention(tokens, w_q, w_k, w_v, allowed)[1] for tokens, allowed in runs]
    return p @ weights[0], weights[1], weights[2]


PERMUTATION = {
    "Pᵀ instead of P": permutation_inverse,
    "only the mask's rows move": permutation_rows_only,
    "only the mask's columns move": permutation_columns_only,
    "the mask moves the opposite way": permutation_mask_back,
    "the mask's rows move twice": permutation_rows_twice,
    "P M P instead of P M Pᵀ": permutation_not_transposed,
    "the mask never moves": permutation_mask_never_moves,
    "the mask always moves": permutation_mask_always_moves,
    "the output is not moved": permutation_output_stays,
    "second and third exchanged": permutation_other_order,
    "mask without effect": permutation_without_mask,
    "weights instead of outputs": permutation_of_weights,
}

# cross_attention


def cross_roles_exchanged(x, context, w_q, w_k, w_v, mask=None):
    """The context asks and x answers, wherever the shapes allow it. Queries come from x, keys and
    values from the context.
    """
    weights = masked_softmax(attention_scores(context @ w_q, x @ w_k), mask)
    return weights @ (x @ w_v), weights


def cross_ignores_context(x, context, w_q, w_k, w_v, mask=None):
    """The context has no effect: x looks at itself. Keys and values come from the context."""
    return _look_up(x @ w_q, x @ w_k, x @ w_v, mask)


def cross_values_of_x(x, context, w_q, w_k, w_v, mask=None):
    """The values come from x. What is looked up is in the context: context @ w_v."""
    return _look_up(x @ w_q, context @ w_k, x @ w_v, mask)


def cross_keys_of_x(x, context, w_q, w_k, w_v, mask=None):
    """The keys come from x. What can be found is in the context: context @ w_k."""
    weights = masked_softmax(attention_scores(x @ w_q, x @ w_k), mask)
    return weights @ (context @ w_v), weights


def cross_queries_of_context(x, context, w_q, w_k, w_v, mask=None):
    """The queries come from the context, which then looks at itself. x asks: x @ w_q."""
    return _look_up(context @ w_q, context @ w_k, context @ w_v, mask)


def cross_unscaled(x, context, w_q, w_k, w_v, mask=None):
    """Scores are not divided by √D. attention_scores(q, k) does it unless told scaled=False."""
    scores = attention_scores(x @ w_q, context @ w_k, scaled=False)
    weights = masked_softmax(scores, mask)
    return weights @ (context @ w_v), weights


def cross_ignores_mask(x, context, w_q, w_k, w_v, mask=None):
    """The mask has no effect: hidden places get weight. Hand it to masked_softmax."""
    return _look_up(x @ w_q, context @ w_k, context @ w_v)


def cross_nan(x, context, w_q, w_k, w_v, mask=None):
    """A query that may look at nothing gets NaN. Chapter 03's softmax cannot settle such a row;
    your masked_softmax does.
    """
    scores = attention_scores(x @ w_q, context @ w_k)
    weights = softmax(scores if mask is None else np.where(mask, scores, -np.inf))
    return weights @ (context @ w_v), weights


def cross_weights_first(x, context, w_q, w_k, w_v, mask=None):
    """The weights come first. The output comes first: `return output, weights`."""
    return _look_up(x @ w_q, context @ w_k, context @ w_v, mask)[::-1]


def cross_output_only(x, context, w_q, w_k, w_v, mask=None):
    """There is one result, the output. Return the weights too: `return output, weights`."""
    return _look_up(x @ w_q, context @ w_k, context @ w_v, mask)[0]


def cross_without_values(x, context, w_q, w_k, w_v, mask=None):
    """The output is a mean of the context's tokens themselves. The values are context @ w_v:
    multiply the weights with those.
    """
    return _look_up(x @ w_q, context @ w_k, context, mask)


def cross_causal(x, context, w_q, w_k, w_v, mask=None):
    """A query sees only the first places of the context, as under a causal mask. Here nothing is
    hidden unless a mask says so: the context is there as a whole.
    """
    causal = np.tril(np.ones((x.shape[-2], context.shape[-2]), dtype=bool))
    mask = causal if mask is None else causal & mask
    return _look_up(x @ w_q, context @ w_k, context @ w_v, mask)


CROSS = {
    "x and context exchanged": cross_roles_exchanged,
    "the context has no effect": cross_ignores_context,
    "values from x": cross_values_of_x,
    "keys from x": cross_keys_of_x,
    "queries from the context": cross_queries_of_context,
    "forgot 1/√D": cross_unscaled,
    "mask without effect": cross_ignores_mask,
    "NaN where everything is hidden": cross_nan,
    "weights returned first": cross_weights_first,
    "the weights are not returned": cross_output_only,
    "context tokens instead of values": cross_without_values,
    "a causal mask that nobody asked for": cross_causal,
}
