"""Chapter 03, backwards: how the softmax's Jacobian and attention's gradients go wrong."""

import numpy as np
from attend_solutions.attention import scaled_dot_product_attention, softmax

# softmax_jacobian


def jacobian_diagonal_only(weights):
    """This is the diagonal p_i (1 − p_i) only. A score also takes weight from all other keys: the
    entries beside the diagonal are −p_i p_j.
    """
    return (weights * (1 - weights))[..., :, None] * np.eye(weights.shape[-1])


def jacobian_elementwise(weights):
    """This is p (1 − p), one number for each weight: the derivative of the sigmoid. Every weight
    answers to every score, so the result is S × S.
    """
    return weights * (1 - weights)


def jacobian_of_scores(weights):
    """This is the Jacobian at softmax(p). The argument is already softmax's result: use it as p."""
    p = softmax(weights)
    return p[..., :, None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]


def jacobian_sign(weights):
    """Every sign is flipped: a weight grows with its own score, so the diagonal is positive. It is
    diag(p) − p pᵀ.
    """
    p = weights
    return p[..., :, None] * p[..., None, :] - p[..., :, None] * np.eye(p.shape[-1])


def jacobian_identity(weights):
    """This is the identity minus p pᵀ. The diagonal term is diag(p): p_i, not 1, at (i, i)."""
    p = weights
    return np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]


def jacobian_without_diagonal(weights):
    """This is −p pᵀ only. Add diag(p): a weight's own score raises it."""
    return -weights[..., :, None] * weights[..., None, :]


def jacobian_plus(weights):
    """This is diag(p) plus p pᵀ. A score takes weight from the other keys: subtract it from
    diag(p).
    """
    p = weights
    return p[..., :, None] * np.eye(p.shape[-1]) + p[..., :, None] * p[..., None, :]


def jacobian_one_row(weights):
    """A single row comes out right, several do not. That happens with np.diag and np.outer, which
    know one row only. Use an identity matrix and broadcasting: p[..., :, None] and p[..., None, :].
    """
    return np.diag(weights) - np.outer(weights, weights)


def jacobian_single_number(weights):
    """A single number is subtracted everywhere: `p @ p.T` is no table here, since for one axis `.T`
    does nothing and `@` then sums. All products p_i p_j are a column against a row: p[..., :, None]
    * p[..., None, :].
    """
    return np.diag(weights) - weights @ weights.T


def jacobian_without_delta(weights):
    """Every entry is p_i (1 − p_j). The 1 stands for δ_ij, which is 1 on the diagonal only and 0
    beside it: np.eye(S).
    """
    return weights[..., :, None] * (1 - weights[..., None, :])


def jacobian_diagonal_row(weights):
    """A single row comes out right, several do not: p must meet the identity as a column, p[..., :,
    None] * np.eye(S). Else the rows of p line up with the rows of the identity.
    """
    return np.eye(weights.shape[-1]) * weights - weights[..., :, None] * weights[..., None, :]


JACOBIAN = {
    "only the diagonal": jacobian_diagonal_only,
    "elementwise p (1 − p)": jacobian_elementwise,
    "applied softmax to the weights": jacobian_of_scores,
    "every sign flipped": jacobian_sign,
    "identity instead of diag(p)": jacobian_identity,
    "forgot diag(p)": jacobian_without_diagonal,
    "added p pᵀ": jacobian_plus,
    "right for a single row only": jacobian_one_row,
    "p @ p.T is one number": jacobian_single_number,
    "1 instead of δ": jacobian_without_delta,
    "identity times p without a column": jacobian_diagonal_row,
}

# attention_backward


def backward_without_scale(q, k, v, grad_output):
    """grad_q and grad_k are √D times too large. The scores were divided by √D on the way forward,
    so their gradient is divided by √D on the way back.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean)
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_query_scaled_only(q, k, v, grad_output):
    """grad_q is divided by √D, grad_k is not. Both come from the same scores: divide dS once,
    before you use it for either.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean)
    return grad_scores @ k / np.sqrt(q.shape[-1]), np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_without_mean(q, k, v, grad_output):
    """Your gradients are those of dS = P ∘ dP. Raising one score lowers the other weights: subtract
    each row's sum of P ∘ dP from dP first.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    grad_scores = weights * grad_weights / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_sum_over_queries(q, k, v, grad_output):
    """Your sum of P ∘ dP runs over the queries. Each query's weights are a distribution of their
    own: sum over the keys, axis=-1 with keepdims=True.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    total = (weights * grad_weights).sum(axis=-2, keepdims=True)
    grad_scores = weights * (grad_weights - total) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_one_sum(q, k, v, grad_output):
    """One sum of P ∘ dP is taken over all queries and keys. Each query needs its own: sum over the
    keys, axis=-1 with keepdims=True.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    grad_scores = weights * (grad_weights - (weights * grad_weights).sum())
    grad_scores = grad_scores / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_plain_mean(q, k, v, grad_output):
    """The plain mean of dP is subtracted. It is the mean weighted by P: the row sum of P ∘ dP."""
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = grad_weights.mean(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_without_weights(q, k, v, grad_output):
    """dP − rowsum is not multiplied by P: dS = P ∘ (dP − rowsum(P ∘ dP))."""
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = (grad_weights - mean) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_through_no_softmax(q, k, v, grad_output):
    """dP is used as if it were dS: the step back through softmax is missing. dS = P ∘ (dP −
    rowsum(P ∘ dP)).
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_scores = grad_output @ np.swapaxes(v, -1, -2) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_weights_not_transposed(q, k, v, grad_output):
    """grad_v is Pᵀ times dO; yours is P times dO, which only fits where T = S. A key's value
    collects from all queries: swap the last two axes of P.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = weights @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_keys_first(q, k, v, grad_output):
    """grad_k comes first. The order is that of the arguments: grad_q, grad_k, grad_v."""
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / np.sqrt(q.shape[-1])
    return np.swapaxes(grad_scores, -1, -2) @ q, grad_scores @ k, grad_v


def backward_full_transpose(q, k, v, grad_output):
    """Single matrices come out right, stacks of them do not. That happens with `.T`, which turns
    all axes round, with axes counted from the start, and with a loop over the first axis. Swap the
    last two axes: np.swapaxes(x, -1, -2).
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = weights.T @ grad_output
    grad_weights = grad_output @ v.T
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / np.sqrt(q.shape[-1])
    return grad_scores @ k, grad_scores.T @ q, grad_v


def backward_with_jacobian(q, k, v, grad_output):
    """Memory grows with S × S for every query, as with softmax's Jacobian. Its product with dP is
    short: P ∘ (dP − rowsum(P ∘ dP)).
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    column, row = weights[..., :, None], weights[..., None, :]
    jacobian = column * np.eye(k.shape[-2]) - column * row
    grad_scores = (jacobian @ grad_weights[..., None])[..., 0] / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_unscaled_weights(q, k, v, grad_output):
    """These are the gradients of attention whose scores were not divided by √D on the way forward.
    P must be the weights of the scaled scores; scaled_dot_product_attention returns them.
    """
    weights = softmax(q @ np.swapaxes(k, -1, -2))
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_without_any_scale(q, k, v, grad_output):
    """No √D anywhere: these are the gradients of attention without the scale. Take P from the
    scaled scores, and divide dS by √D on the way back.
    """
    weights = softmax(q @ np.swapaxes(k, -1, -2))
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean)
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_unweighted_sum(q, k, v, grad_output):
    """The row sum of dP itself is subtracted. It is the row sum of P ∘ dP: multiply by P before you
    sum.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    total = grad_weights.sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - total) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_scaled_twice(q, k, v, grad_output):
    """grad_q and grad_k are √D times too small: the scale is in there twice. Divide dS once."""
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / q.shape[-1]
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_scores_not_transposed(q, k, v, grad_output):
    """grad_k is dSᵀ times q; yours is dS times q, which only fits where T = S. A key collects from
    all queries: swap the last two axes of dS.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / np.sqrt(q.shape[-1])
    return grad_scores @ k, grad_scores @ q, grad_v


def backward_output_as_weights(q, k, v, grad_output):
    """The output was taken for the weights. scaled_dot_product_attention returns the output first:
    `output, weights = …`.
    """
    weights, _ = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_sum_without_keepdims(q, k, v, grad_output):
    """The row sum of P ∘ dP loses its axis, so that it lines up with the keys, which goes unnoticed
    where T = S. Keep it: sum(axis=-1, keepdims=True).
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    grad_scores = weights * (grad_weights - (weights * grad_weights).sum(axis=-1))
    grad_scores = grad_scores / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


def backward_values_not_transposed(q, k, v, grad_output):
    """dP is dO times vᵀ; yours is dO times v, which only fits where S = D_v. Entry (t, s) is row t
    of dO times row s of v: swap the last two axes of v.
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ v
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / np.sqrt(q.shape[-1])
    return grad_scores @ k, np.swapaxes(grad_scores, -1, -2) @ q, grad_v


BACKWARD = {
    "forgot 1/√d_k": backward_without_scale,
    "scaled grad_q only": backward_query_scaled_only,
    "forgot to subtract the row sum": backward_without_mean,
    "row sum over queries instead of keys": backward_sum_over_queries,
    "one sum for all rows": backward_one_sum,
    "plain mean instead of weighted mean": backward_plain_mean,
    "forgot the factor P": backward_without_weights,
    "skipped the softmax": backward_through_no_softmax,
    "P instead of Pᵀ in grad_v": backward_weights_not_transposed,
    "grad_q and grad_k exchanged": backward_keys_first,
    "right for single matrices only": backward_full_transpose,
    "builds the Jacobian": backward_with_jacobian,
    "weights from unscaled scores": backward_unscaled_weights,
    "no scale at all": backward_without_any_scale,
    "row sum of dP without P": backward_unweighted_sum,
    "scaled twice": backward_scaled_twice,
    "dS instead of dSᵀ in grad_k": backward_scores_not_transposed,
    "lost the axis in the row sum": backward_sum_without_keepdims,
    "v instead of vᵀ in dP": backward_values_not_transposed,
    "took the output for the weights": backward_output_as_weights,
}
