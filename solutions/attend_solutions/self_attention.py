"""Self-attention, cross-attention and the masks that say who may look at whom, in NumPy.

A sentence looks at itself: queries, keys and values are all made from the same tokens.

    Q = x W_q,   K = x W_k,   V = x W_v
    P = softmax over the allowed keys of (Q Kᵀ / √D)
    O = P V

A mask M is a table of permissions: M[t, s] is True where query t may look at key s. (So it is in
torch's ``scaled_dot_product_attention``; ``nn.MultiheadAttention`` means the opposite by True.)

Letters:
    T    queries                  C    width of a token in x
    S    keys, and values         C_c  width of a token in another text, the context
    B    sentences in a batch     D    width of a query and of a key
    ...  any leading axes         D_v  width of a value

Source: Vaswani et al. 2017, "Attention Is All You Need", §3.2.1 and §3.2.3.
"""

import numpy as np

from attend_solutions.attention import attention_scores
from attend_solutions.types import Array, Integers, Mask


def masked_softmax(scores: Array, mask: Mask | None = None) -> Array:
    """Turn scores into weights along the last axis, with all weight on the places allowed.

    Where the mask is False the weight is exactly 0, and the others share the weight as if that
    place did not exist. What a hidden place holds is never looked at: it may be huge, infinite or
    NaN. A score of -inf is hidden too, with or without a mask. A row in which nothing is left gets
    the weight 0 everywhere.

    Shapes:
        scores: (..., S), any numbers, also integers; usually (..., T, S)
        mask: boolean, any shape that broadcasts with the scores; None hides nothing
        returns: the shape both broadcast to, floating point

    The inputs are not modified. Chapter 03's softmax may be called, a library's may not.

    Source: Vaswani et al. 2017, §3.2.3 ("setting to −∞"); the empty row is this course's choice.

    >>> scores = np.array([[0.0, 7.0, 0.0], [1.0, 2.0, 3.0]])
    >>> masked_softmax(scores, np.array([[True, False, True], [False, False, False]]))
    array([[0.5, 0. , 0.5],
           [0. , 0. , 0. ]])
    """
    scores = np.asarray(scores) * 1.0  # integers become float64, float32 stays float32
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    largest = np.where(largest == -np.inf, 0.0, largest)  # an empty row has none
    exponentials = np.exp(scores - largest)
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total == 0, 1.0, total)


def self_attention(
    x: Array, w_q: Array, w_k: Array, w_v: Array, mask: Mask | None = None
) -> tuple[Array, Array]:
    """Let every token look at the tokens of its own sentence that the mask allows.

    A token that may look at nothing gets weights of 0, and so an output of 0.

    Shapes:
        x: (..., T, C)
        w_q, w_k: (C, D)
        w_v: (C, D_v)
        mask: boolean, broadcasts with (..., T, T); None lets everyone look at everyone
        returns: output (..., T, D_v) and weights (..., T, T)

    The inputs may be integers, and they are not modified.

    Source: Vaswani et al. 2017, §3.2.1, equation (1), and §3.2.3.

    >>> x = np.array([[2.0, 0.0], [0.0, 4.0]])
    >>> w_q, w_k, w_v = np.zeros((2, 1)), np.ones((2, 1)), np.eye(2)
    >>> output, weights = self_attention(x, w_q, w_k, w_v)
    >>> output
    array([[1., 2.],
           [1., 2.]])
    >>> self_attention(x, w_q, w_k, w_v, mask=np.array([[True, False], [True, True]]))[1]
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    weights = masked_softmax(attention_scores(x @ w_q, x @ w_k), mask)  # (..., T, T)
    return weights @ (x @ w_v), weights


def permutation_matrix_test(
    order: Integers, x: Array, w_q: Array, w_k: Array, w_v: Array, mask: Mask | None = None
) -> tuple[Array, Array, Array]:
    """Move the tokens before self-attention, or the output after it, and return both.

    P is the permutation matrix that puts token order[i] in place i: row i of P x is row order[i]
    of x. With f_M for self-attention under the mask M, the three results are

        expected    P f_M(x)        output moved afterwards
        mask_stays  f_M(P x)        tokens moved, the mask left as it is
        mask_moves  f_PMPᵀ(P x)     tokens moved, and the mask moved with them

    Without a mask, M stays None in all three.

    Shapes:
        order: (T,) integers, each of 0 … T-1 once
        x: (T, C)
        w_q, w_k: (C, D)
        w_v: (C, D_v)
        mask: (T, T), boolean
        returns: three outputs (T, D_v)

    The inputs are not modified.

    Source: Lee et al. 2019, "Set Transformer", §3 (permutation equivariance).

    >>> x, one = np.array([[10.0], [20.0], [60.0]]), np.zeros((1, 1))
    >>> look_at_first = np.array([[True, False, False]] * 3)
    >>> results = permutation_matrix_test([1, 2, 0], x, one, one, np.eye(1), look_at_first)
    >>> [result[:, 0].tolist() for result in results]
    [[10.0, 10.0, 10.0], [20.0, 20.0, 20.0], [10.0, 10.0, 10.0]]
    """
    p = np.eye(len(x))[np.asarray(order)]  # (T, T)
    moved_mask = None if mask is None else p @ mask @ p.T > 0
    output, _ = self_attention(x, w_q, w_k, w_v, mask)
    mask_stays, _ = self_attention(p @ x, w_q, w_k, w_v, mask)
    mask_moves, _ = self_attention(p @ x, w_q, w_k, w_v, moved_mask)
    return p @ output, mask_stays, mask_moves


def causal_mask(queries: int, keys: int | None = None) -> Mask:
    """Let every query look at its own place and at those before it, never ahead.

    The queries are the *last* places of the text whose keys are given: the last query looks at all
    keys. That is how a text is continued, a few new queries against all keys so far. Where there
    are fewer keys than queries, the first queries stand before all keys and see nothing.

    Args:
        queries: how many, T.
        keys: how many, S; None means as many as queries.

    Shapes:
        returns: (T, S), boolean, True where query t may look at key s

    Source: Vaswani et al. 2017, §3.2.3; aligned at the end as in
    ``torch.nn.attention.bias.causal_lower_right``.

    >>> causal_mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    >>> causal_mask(2, 4).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    keys = queries if keys is None else keys
    place = np.arange(queries)[:, None] + keys - queries  # (T, 1): where each query stands
    return np.arange(keys) <= place


def padding_mask(lengths: Integers, size: int, side: str = "right") -> Mask:
    """Hide the places that only fill a batch of sentences up to one size.

    Args:
        lengths: how many tokens each of the B sentences really has, from 0 to ``size``.
        size: how many places each sentence takes in the batch, S.
        side: where the filling is: "right" (after the tokens) or "left" (before them).

    Shapes:
        returns: (B, 1, S), boolean, True where the key is a token. The axis of length 1 stands
            for all the queries.

    The lengths may be a list or an array, and they are not modified.

    Source: the ``attention_mask`` of Hugging Face's tokenizers, with ``padding_side``.

    >>> padding_mask([3, 1], 4)[:, 0].astype(int)
    array([[1, 1, 1, 0],
           [1, 0, 0, 0]])
    >>> padding_mask([3, 1], 4, side="left")[:, 0].astype(int)
    array([[0, 1, 1, 1],
           [0, 0, 0, 1]])
    """
    count = np.asarray(lengths)[:, None, None]  # (B, 1, 1)
    place = np.arange(size)
    if side == "left":
        return place >= size - count
    return place < count


def combine_masks(*masks: Mask | None) -> Mask | None:
    """Allow what every mask allows.

    None is a mask that hides nothing. Where all are None, or there are none, so is the result.

    Shapes:
        masks: boolean, any shapes that broadcast with each other
        returns: boolean, the shape they broadcast to; or None

    The inputs are not modified.

    >>> row, column = np.array([True, True, False]), np.array([[True], [False]])
    >>> combine_masks(row, None, column)
    array([[ True,  True, False],
           [False, False, False]])
    >>> combine_masks(None, None) is None
    True
    """
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


def cross_attention(
    x: Array, context: Array, w_q: Array, w_k: Array, w_v: Array, mask: Mask | None = None
) -> tuple[Array, Array]:
    """Let every token of one text look at the tokens of another, as a translator does.

    Queries come from ``x``, keys and values from ``context``.

    Shapes:
        x: (..., T, C)
        context: (..., S, C_c)
        w_q: (C, D)
        w_k: (C_c, D)
        w_v: (C_c, D_v)
        mask: boolean, broadcasts with (..., T, S); None lets everyone look at everything
        returns: output (..., T, D_v) and weights (..., T, S)

    The inputs may be integers, and they are not modified.

    Source: Vaswani et al. 2017, §3.2.3 ("encoder-decoder attention").

    >>> x, context = np.array([[1.0, 0.0]]), np.array([[2.0], [4.0], [9.0]])
    >>> mask = np.array([[True, True, False]])
    >>> cross_attention(x, context, np.zeros((2, 1)), np.eye(1), np.eye(1), mask)
    (array([[3.]]), array([[0.5, 0.5, 0. ]]))
    """
    weights = masked_softmax(attention_scores(x @ w_q, context @ w_k), mask)  # (..., T, S)
    return weights @ (context @ w_v), weights


def repaired_attention(
    q: Array, k: Array, v: Array, mask: Mask | None = None
) -> tuple[Array, Array]:
    """Give what `suspect_attention` should give: output and weights under a mask.

    Copy the body of `suspect_attention`, and repair it.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        mask: boolean, broadcasts with (..., T, S); None lets everyone look at everything
        returns: output (..., T, D_v) and weights (..., T, S)

    Source: Vaswani et al. 2017, §3.2.3.

    >>> q, k, v = np.array([[1.0]]), np.array([[0.0], [2000.0]]), np.array([[3.0], [5.0]])
    >>> repaired_attention(q, k, v, np.array([[True, False]]))
    (array([[3.]]), array([[1., 0.]]))
    """
    weights = masked_softmax(attention_scores(q, k), mask)
    return weights @ v, weights
