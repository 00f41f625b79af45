"""Scaled dot-product attention, forward and backward, in NumPy.

A look-up that is soft: each query is compared with every key, the comparisons become weights that
sum to 1, and the answer is the weighted mean of the values.

    Z = Q Kᵀ / √D          scores
    P = softmax(Z)         weights, one distribution over the keys per query
    O = P V                output

Letters:
    T    how many queries                 D    width of a query and of a key (the paper's d_k)
    S    how many keys, and values        D_v  width of a value
    ...  any leading axes (batch, heads), the same for q, k and v
    dX   the gradient of the loss with respect to X

Source: Vaswani et al. 2017, "Attention Is All You Need", §3.2.1 and equation (1); footnote 4 for
the variance. Backward pass: Dao et al. 2022, "FlashAttention", appendix B.2.
"""

import numpy as np

from attend_solutions.types import Array


def softmax(scores: Array, axis: int = -1) -> Array:
    """Turn scores into weights that are at least 0 and sum to 1 along one axis.

    Equal scores get equal weights, and adding one number to all scores changes nothing.

    Shapes:
        scores: any shape, at least one axis
        returns: the same shape, floating point, also for integers

    Out of scope: +inf, and a slice of nothing but -inf (chapter 04 decides what that means).

    Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", §2.

    >>> softmax(np.array([0.0, 0.0, -np.inf, 0.0])).round(3)
    array([0.333, 0.333, 0.   , 0.333])
    >>> softmax(np.array([1000, 1000]))
    array([0.5, 0.5])
    """
    scores = np.asarray(scores) * 1.0  # integers become float64, float32 stays float32
    largest = scores.max(axis=axis, keepdims=True)
    exponentials = np.exp(scores - largest)  # largest exponent is 0: no overflow
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def attention_scores(q: Array, k: Array, scaled: bool = True) -> Array:
    """Compare every query with every key by dot product, divided by √D if ``scaled``.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        returns: (..., T, S); row t holds the scores of query t

    Source: Vaswani et al. 2017, §3.2.1, equation (1).

    >>> q = np.array([[2.0, 0.0, 1.0, 0.0]])
    >>> k = np.array([[3.0, 9.0, 0.0, 9.0], [0.0, 5.0, 4.0, 5.0]])
    >>> attention_scores(q, k)
    array([[3., 2.]])
    >>> attention_scores(q, k, scaled=False)
    array([[6., 4.]])
    """
    dots = q @ np.swapaxes(k, -1, -2)  # (..., T, S)
    if not scaled:
        return dots
    return dots / q.shape[-1] ** 0.5  # a Python float, so float32 stays float32


def scaled_dot_product_attention(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """Look up each query in the keys and return the weighted mean of the values.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        returns: output (..., T, D_v) and weights (..., T, S); each row of weights sums to 1

    Source: Vaswani et al. 2017, §3.2.1, equation (1).

    >>> q = np.array([[9.0, 9.0]])
    >>> k = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> v = np.array([[10.0, 0.0, 1.0], [20.0, 4.0, 1.0]])
    >>> output, weights = scaled_dot_product_attention(q, k, v)
    >>> output
    array([[15.,  2.,  1.]])
    >>> weights
    array([[0.5, 0.5]])
    """
    weights = softmax(attention_scores(q, k))  # (..., T, S)
    return weights @ v, weights


def score_variance(q: Array, k: Array, scaled: bool = False) -> float:
    """Measure how widely the dot products of paired queries and keys are spread.

    Row i of ``q`` is paired with row i of ``k``: n dot products, each divided by √D if
    ``scaled``. The answer is their population variance (the mean of the squared deviations).

    Shapes:
        q: (n, D)
        k: (n, D)
        returns: one Python float

    Source: Vaswani et al. 2017, §3.2.1, footnote 4.

    >>> q = np.array([[1.0, 2.0, 0.0, 0.0], [0.0, 1.0, 1.0, 3.0]])
    >>> k = np.array([[2.0, 1.0, 5.0, 5.0], [7.0, 1.0, 1.0, 2.0]])
    >>> score_variance(q, k)  # dot products 4 and 8
    4.0
    >>> score_variance(q, k, scaled=True)  # 2 and 4
    1.0
    """
    dots = (q * k).sum(axis=-1)  # (n,)
    if scaled:
        dots = dots / q.shape[-1] ** 0.5
    return float(dots.var())


def softmax_jacobian(weights: Array) -> Array:
    """Give the derivative of every weight with respect to every score.

    The argument is the softmax's output p, not the scores. Entry [..., s, r] of the answer is
    ∂p_s/∂z_r, where z are the scores.

    Shapes:
        weights: (..., S), each row a distribution
        returns: (..., S, S), symmetric; each row sums to 0

    Source: Bishop 2006, "Pattern Recognition and Machine Learning", equation (4.106).

    >>> softmax_jacobian(np.array([0.5, 0.25, 0.25]))
    array([[ 0.25  , -0.125 , -0.125 ],
           [-0.125 ,  0.1875, -0.0625],
           [-0.125 , -0.0625,  0.1875]])
    """
    identity = np.eye(weights.shape[-1], dtype=weights.dtype)
    column = weights[..., :, None]  # (..., S, 1)
    row = weights[..., None, :]  # (..., 1, S)
    return column * identity - column * row


def attention_backward(
    q: Array, k: Array, v: Array, grad_output: Array
) -> tuple[Array, Array, Array]:
    """Give the gradients of a loss with respect to q, k and v of scaled dot-product attention.

    ``grad_output`` is the gradient of the loss with respect to attention's output. The weights are
    computed again from q and k. No Jacobian is built: it would hold S×S numbers for every query.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        grad_output: (..., T, D_v)
        returns: grad_q (..., T, D), grad_k (..., S, D), grad_v (..., S, D_v)

    A product of two arguments that hold integers holds integers too, and ``-=`` a fraction fails:
    write ``dp = dp - ...``.

    Source: Dao et al. 2022, "FlashAttention", appendix B.2 (there without the scale).

    >>> q = np.array([[9.0, 9.0, 9.0, 9.0]])
    >>> k = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    >>> v = np.array([[0.0], [8.0]])
    >>> grad_q, grad_k, grad_v = attention_backward(q, k, v, np.array([[1.0]]))
    >>> grad_q
    array([[-1.,  1.,  0.,  0.]])
    >>> grad_k
    array([[-9., -9., -9., -9.],
           [ 9.,  9.,  9.,  9.]])
    >>> grad_v
    array([[0.5],
           [0.5]])
    """
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)  # (..., T, S)
    mean_grad = (weights * grad_weights).sum(axis=-1, keepdims=True)  # (..., T, 1)
    grad_dots = weights * (grad_weights - mean_grad) / q.shape[-1] ** 0.5  # (..., T, S)
    grad_q = grad_dots @ k
    grad_k = np.swapaxes(grad_dots, -1, -2) @ q
    return grad_q, grad_k, grad_v


def repaired_backward(
    q: Array, k: Array, v: Array, grad_output: Array
) -> tuple[Array, Array, Array]:
    """Give what `suspect_backward` should give: the gradients with respect to q, k and v.

    Copy the body of `suspect_backward`, and repair it.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        grad_output: (..., T, D_v)
        returns: grad_q (..., T, D), grad_k (..., S, D), grad_v (..., S, D_v)

    Source: Dao et al. 2022, "FlashAttention", appendix B.2.

    >>> q, k = np.zeros((1, 4)), np.eye(4)[:2]
    >>> repaired_backward(q, k, np.array([[0.0], [8.0]]), np.array([[1.0]]))[0]
    array([[-1.,  1.,  0.,  0.]])
    """
    result, weights = scaled_dot_product_attention(q, k, v)
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)  # (..., T, S)
    mean_grad = (result * grad_output).sum(axis=-1, keepdims=True)  # = rowsum(P ∘ dP)
    grad_dots = weights * (grad_weights - mean_grad) / q.shape[-1] ** 0.5
    grad_q = grad_dots @ k
    grad_k = np.swapaxes(grad_dots, -1, -2) @ q
    return grad_q, grad_k, np.swapaxes(weights, -1, -2) @ grad_output
