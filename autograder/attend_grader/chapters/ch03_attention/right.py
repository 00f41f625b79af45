"""Chapter 03: other right ways to write each answer. All must get full marks."""

import math
import statistics

import numpy as np
from attend_solutions.attention import attention_scores, scaled_dot_product_attention, softmax

# softmax


def softmax_by_logarithm(scores, axis=-1):
    """exp(score − log Σ exp): never divides."""
    return np.exp(scores - np.logaddexp.reduce(scores, axis=axis, keepdims=True))


def softmax_by_slices(scores, axis=-1):
    """One slice at a time, with Python's own exp and sum."""

    def one(row):
        shares = [math.exp(score - max(row)) for score in row.tolist()]
        return np.array([share / math.fsum(shares) for share in shares])

    return np.apply_along_axis(one, axis, scores)


def softmax_axis_last(scores, axis=-1):
    """Brings the axis to the end, works in float64 and puts everything back."""
    moved = np.moveaxis(np.array(scores, dtype=np.float64), axis, -1)
    moved -= moved.max(axis=-1)[..., None]
    np.exp(moved, out=moved)
    weights = np.einsum("...s,...->...s", moved, 1 / np.einsum("...s->...", moved))
    return np.moveaxis(weights, -1, axis)


SOFTMAX = {
    "log-sum-exp": softmax_by_logarithm,
    "slice by slice": softmax_by_slices,
    "axis moved to the end, float64 inside": softmax_axis_last,
}

# attention_scores


def scores_einsum(q, k, scaled=True):
    """One einsum; the scale as a power."""
    return np.einsum("...td,...sd->...ts", q, k) * (q.shape[-1] ** -0.5 if scaled else 1.0)


def scores_scaled_first(q, k, scaled=True):
    """Scales the queries before comparing them, as fast implementations do."""
    if scaled:
        q = q / math.sqrt(q.shape[-1])
    return np.matmul(q, k.swapaxes(-2, -1))


def scores_by_loops(q, k, scaled=True):
    """Entry by entry."""
    scores = np.zeros((*q.shape[:-1], k.shape[-2]))
    for *lead, t, s in np.ndindex(scores.shape):
        dot = sum(float(a) * float(b) for a, b in zip(q[*lead, t], k[*lead, s], strict=True))
        scores[*lead, t, s] = dot / math.sqrt(q.shape[-1]) if scaled else dot
    return scores


def scores_broadcast(q, k, scaled=True):
    """Every product at once, then a sum over the width."""
    scores = (q[..., :, None, :] * k[..., None, :, :]).sum(-1)
    return scores / np.sqrt(k.shape[-1]) if scaled else scores


def scores_float64(q, k, scaled=True):
    """Works in float64, whatever came in."""
    q, k = np.asarray(q, dtype=np.float64), np.asarray(k, dtype=np.float64)
    dots = np.matmul(q, np.moveaxis(k, -1, -2))
    return dots / math.sqrt(q.shape[-1]) if scaled else dots


SCORES = {
    "einsum": scores_einsum,
    "queries scaled first": scores_scaled_first,
    "entry by entry": scores_by_loops,
    "broadcast and sum": scores_broadcast,
    "float64 inside": scores_float64,
}

# scaled_dot_product_attention


def attention_self_contained(q, k, v):
    """Calls nothing of the chapter."""
    scores = np.einsum("...td,...sd->...ts", q, k) / np.sqrt(q.shape[-1])
    scores = np.exp(scores - np.amax(scores, -1, keepdims=True))
    weights = scores / np.add.reduce(scores, -1, keepdims=True)
    return np.einsum("...ts,...sv->...tv", weights, v), weights


def attention_by_queries(q, k, v):
    """One query at a time."""
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    weights = np.empty((*q.shape[:-1], k.shape[-2]))
    for index in np.ndindex(q.shape[:-1]):
        lead = index[:-1]
        weights[index] = softmax(k[lead] @ q[index] / math.sqrt(q.shape[-1]))
        output[index] = sum(w * row for w, row in zip(weights[index], v[lead], strict=True))
    return output, weights


def attention_divides_last(q, k, v):
    """Divides by the sum of the exponentials at the very end, as online softmax does."""
    scores = attention_scores(q, k, scaled=False) / q.shape[-1] ** 0.5
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    total = shares.sum(-1, keepdims=True)
    return [(shares @ v) / total, shares / total]


def attention_float64(q, k, v):
    """Works in float64, whatever came in."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    weights = softmax(attention_scores(q, k, scaled=True), axis=-1)
    output = np.matmul(weights, v)
    return output, weights


ATTENTION = {
    "self-contained, einsum": attention_self_contained,
    "query by query": attention_by_queries,
    "normalised at the end": attention_divides_last,
    "float64 inside": attention_float64,
}

# score_variance


def variance_standard_library(q, k, scaled=False):
    """Python's statistics module."""
    scale = math.sqrt(q.shape[1]) if scaled else 1
    return statistics.pvariance(
        [math.fsum((a * b).tolist()) / scale for a, b in zip(q, k, strict=True)]
    )


def variance_diagonal(q, k, scaled=False):
    """The diagonal of all pairs, with the chapter's own scores."""
    dots = np.diagonal(attention_scores(q, k, scaled))
    return np.mean((dots - dots.mean()) ** 2).item()


def variance_einsum(q, k, scaled=False):
    """Divides the variance by D, which is the same as the numbers by √D."""
    variance = float(np.var(np.einsum("nd,nd->n", q, k)))
    return variance / q.shape[-1] if scaled else variance


VARIANCE = {
    "standard library": variance_standard_library,
    "diagonal of all pairs": variance_diagonal,
    "einsum, variance divided by D": variance_einsum,
}

# softmax_jacobian


def jacobian_by_entries(weights):
    """Entry by entry: p_i (δ_ij − p_j)."""
    size = weights.shape[-1]
    jacobian = np.empty((*weights.shape, size))
    for i in range(size):
        for j in range(size):
            jacobian[..., i, j] = weights[..., i] * ((i == j) - weights[..., j])
    return jacobian


def jacobian_einsum(weights):
    """Minus the outer product, with p added along the diagonal in place."""
    jacobian = -np.einsum("...i,...j->...ij", weights, weights)
    places = np.arange(weights.shape[-1])
    jacobian[..., places, places] += weights
    return jacobian


def jacobian_by_rows(weights):
    """np.diag and np.outer, row by row."""
    rows = weights.reshape(-1, weights.shape[-1])
    return np.stack([np.diag(p) - np.outer(p, p) for p in rows]).reshape(
        *weights.shape, weights.shape[-1]
    )


JACOBIAN = {
    "entry by entry": jacobian_by_entries,
    "einsum and in-place diagonal": jacobian_einsum,
    "np.diag row by row": jacobian_by_rows,
}

# attention_backward


def backward_through_output(q, k, v, grad_output):
    """The row sum from the output: rowsum(P ∘ dP) = rowsum(O ∘ dO), as FlashAttention does."""
    output, weights = scaled_dot_product_attention(q, k, v)
    delta = (output * grad_output).sum(-1, keepdims=True)
    grad_scores = weights * (grad_output @ v.swapaxes(-1, -2) - delta)
    scale = 1 / math.sqrt(q.shape[-1])
    grad_k = grad_scores.swapaxes(-1, -2) @ (q * scale)
    return grad_scores @ (k * scale), grad_k, weights.swapaxes(-1, -2) @ grad_output


def backward_einsum(q, k, v, grad_output):
    """Calls softmax only; einsum for every product."""
    weights = softmax(np.einsum("...td,...sd->...ts", q, k) / np.sqrt(q.shape[-1]))
    grad_weights = np.einsum("...tv,...sv->...ts", grad_output, v)
    grad_scores = weights * grad_weights
    grad_scores = grad_scores - weights * np.einsum("...ts->...t", grad_scores)[..., None]
    grad_scores = grad_scores / np.sqrt(q.shape[-1])
    return (
        np.einsum("...ts,...sd->...td", grad_scores, k),
        np.einsum("...ts,...td->...sd", grad_scores, q),
        np.einsum("...ts,...tv->...sv", weights, grad_output),
    )


def backward_by_queries(q, k, v, grad_output):
    """One query at a time, adding to the gradients of keys and values."""
    grad_q, grad_k, grad_v = (np.zeros(x.shape) for x in (q, k, v))
    scale = math.sqrt(q.shape[-1])
    for index in np.ndindex(q.shape[:-1]):
        lead = index[:-1]
        p = softmax(k[lead] @ q[index] / scale)
        grad_p = v[lead] @ grad_output[index]
        grad_s = p * (grad_p - p @ grad_p) / scale
        grad_q[index] = grad_s @ k[lead]
        grad_k[lead] += grad_s[:, None] * q[index]
        grad_v[lead] += p[:, None] * grad_output[index]
    return grad_q, grad_k, grad_v


def backward_float64(q, k, v, grad_output):
    """Works in float64, whatever came in; the scale at the very end."""
    q, k, v, grad_output = (np.asarray(x, dtype=np.float64) for x in (q, k, v, grad_output))
    _, p = scaled_dot_product_attention(q, k, v)
    grad_p = grad_output @ np.swapaxes(v, -1, -2)
    grad_p -= (p * grad_p).sum(axis=-1, keepdims=True)
    grad_s, root = p * grad_p, np.sqrt(q.shape[-1])
    return grad_s @ k / root, grad_s.swapaxes(-1, -2) @ q / root, p.swapaxes(-1, -2) @ grad_output


BACKWARD = {
    "row sum from the output": backward_through_output,
    "einsum": backward_einsum,
    "query by query": backward_by_queries,
    "float64 inside, scaled last": backward_float64,
}
