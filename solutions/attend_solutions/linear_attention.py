"""Linear attention in NumPy: a memory of fixed size in the place of the T × S matrix.

Without the softmax, the products of attention may be done in another order, (Q Kᵀ) V = Q (Kᵀ V),
and the matrix S = Kᵀ V is a memory that is written by adding and read by multiplying:

    S_t = S_t-1 + k_t v_tᵀ                              the sum (one step of the recurrence)
    S_t = S_t-1 + β k_t (v_t - S_t-1ᵀ k_t)ᵀ             the delta rule
    o_t = S_tᵀ q_t                                      reading
    o_t = S_tᵀ q_t / (q_t · Σ_s≤t k_s)                  reading a weighted mean

Letters:
    T    how many queries                    D    width of a query and of a key
    S    how many keys, and values           D_v  width of a value
    M    how many random features            R    rows left by a Linformer projection
    ...  any leading axes (batch, heads), the same for all arrays

In the equations S is the memory, in shapes the number of keys.

Sources: Katharopoulos et al. 2020, "Transformers are RNNs"; Wang et al. 2020, "Linformer";
Choromanski et al. 2021, "Rethinking Attention with Performers"; Schlag et al. 2021, "Linear
Transformers Are Secretly Fast Weight Programmers".
"""

import math

import numpy as np

from attend_solutions.attention import scaled_dot_product_attention
from attend_solutions.flash import expect_shapes, tiles
from attend_solutions.types import Array


def elu_plus_one(x: Array) -> Array:
    """Map any numbers to positive ones: x + 1 above 0, e^x below.

    Shapes: any -> the same.

    Source: Katharopoulos et al. 2020, equation 7.

    >>> elu_plus_one(np.array([-1.0, 0.0, 2.0])).round(3)
    array([0.368, 1.   , 3.   ])
    """
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def gaussian_projection(
    rng: np.random.Generator, features: int, width: int, orthogonal: bool = False
) -> Array:
    """Draw directions for random features: standard normal rows, independent or in orthogonal sets.

    Orthogonal rows come in blocks of ``width``; each row alone is still standard normal.

    Shapes:
        returns: (features, width)

    Source: Choromanski et al. 2021, §2.4.
    """
    if not orthogonal:
        return rng.standard_normal((features, width))
    blocks = []
    for _ in range(-(-features // width)):
        turned, upper = np.linalg.qr(rng.standard_normal((width, width)))
        blocks.append((turned * np.sign(np.diag(upper))).T)  # LAPACK's signs are not random
    lengths = np.linalg.norm(rng.standard_normal((features, width)), axis=1, keepdims=True)
    return lengths * np.concatenate(blocks)[:features]


def expect_pairs(q: Array, k: Array, v: Array) -> None:
    """Refuse texts whose queries, keys and values do not fit, or are not as many.

    Raises:
        ValueError: says which axis, what was expected and what came.
    """
    expect_shapes(q, k, v)
    if q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"each query needs a key of its own: expected {q.shape[-2]} keys; got {k.shape[-2]}"
        )


def linear_attention(q: Array, k: Array, v: Array) -> Array:
    """Attend with weights q · k / Σ q · k, without ever making the T × S weights.

    Every query sees every key. ``q`` and ``k`` are features already: positive numbers.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        returns: (..., T, D_v)

    Raises:
        ValueError: widths of q and k or lengths of k and v differ.

    Source: Katharopoulos et al. 2020, equations 4-6.

    >>> linear_attention(np.array([[1.0, 1.0]]), np.eye(2), np.array([[2.0], [6.0]]))
    array([[4.]])
    """
    expect_shapes(q, k, v)
    ### BEGIN SOLUTION
    memory = np.swapaxes(k, -1, -2) @ v  # (..., D, D_v)
    total = k.sum(axis=-2)[..., None]  # (..., D, 1)
    return (q @ memory) / (q @ total)
    ### END SOLUTION


def recurrent_form(q: Array, k: Array, v: Array, state: Array | None = None) -> tuple[Array, Array]:
    """Read and write the memory token by token: state += k_t v_tᵀ, then o_t = stateᵀ q_t.

    There is no division: o_t is the sum of (q_t · k_s) v_s over s ≤ t.

    Shapes:
        q, k: (..., T, D), T at least 1
        v: (..., T, D_v)
        state: (..., D, D_v), the memory so far; None is empty
        returns: output (..., T, D_v), and the memory after the last token (..., D, D_v)

    Raises:
        ValueError: widths of q and k or lengths of q, k and v differ.

    Source: Katharopoulos et al. 2020, equations 18-20, without the normaliser.

    >>> q, k, v = np.array([[1.0], [1.0]]), np.array([[2.0], [3.0]]), np.array([[1.0], [10.0]])
    >>> recurrent_form(q, k, v)
    (array([[ 2.],
           [32.]]), array([[32.]]))
    """
    expect_pairs(q, k, v)
    ### BEGIN SOLUTION
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for t in range(q.shape[-2]):
        state = state + k[..., t, :, None] * v[..., t, None, :]  # (..., D, D_v)
        outputs.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(outputs, axis=-2), state
    ### END SOLUTION


def chunked_form(
    q: Array, k: Array, v: Array, chunk: int = 64, state: Array | None = None
) -> tuple[Array, Array]:
    """The same numbers as ``recurrent_form``, a chunk of tokens at a time.

    Inside a chunk a small masked matrix; from chunk to chunk the memory.

    Shapes:
        q, k: (..., T, D), T at least 1
        v: (..., T, D_v)
        state: (..., D, D_v), the memory so far; None is empty
        returns: output (..., T, D_v), and the memory after the last token (..., D, D_v)

    Args:
        chunk: tokens in a chunk; the last may be shorter.

    Raises:
        ValueError: shapes do not fit as in ``recurrent_form``, or a chunk is less than 1.

    Source: Sun et al. 2023, "Retentive Network", equation 7, where nothing decays.

    >>> q, k, v = np.array([[1.0], [1.0]]), np.array([[2.0], [3.0]]), np.array([[1.0], [10.0]])
    >>> chunked_form(q, k, v, chunk=2)[0]
    array([[ 2.],
           [32.]])
    """
    expect_pairs(q, k, v)
    parts = tiles(q.shape[-2], chunk)
    ### BEGIN SOLUTION
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for part in parts:
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        turned = np.swapaxes(keys, -1, -2)
        inside = np.tril(asked @ turned) @ values  # this chunk's own past
        outputs.append(asked @ state + inside)
        state = state + turned @ values
    return np.concatenate(outputs, axis=-2), state
    ### END SOLUTION


def causal_average(q: Array, k: Array, v: Array) -> Array:
    """Linear attention in which a token sees itself and the past, as a weighted mean.

    ``q`` and ``k`` are features already: positive numbers.

    Shapes:
        q, k: (..., T, D), T at least 1
        v: (..., T, D_v)
        returns: (..., T, D_v)

    Source: Katharopoulos et al. 2020, equations 9-12.

    >>> causal_average(np.ones((3, 1)), np.ones((3, 1)), np.array([[1.0], [3.0], [8.0]]))
    array([[1.],
           [2.],
           [4.]])
    """
    weighted, _ = chunked_form(q, k, v)
    ### BEGIN SOLUTION
    total = (q * np.cumsum(k, axis=-2)).sum(axis=-1, keepdims=True)  # (..., T, 1)
    return weighted / total
    ### END SOLUTION


def linformer_attention(q: Array, k: Array, v: Array, project_k: Array, project_v: Array) -> Array:
    """Softmax attention over R mixtures of the S keys and values.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        project_k, project_v: (R, S)
        returns: (..., T, D_v)

    Raises:
        ValueError: widths of q and k or lengths of k and v differ, or the projections are not both
            (R, S).

    Source: Wang et al. 2020, §4.

    >>> k, v, halves = np.zeros((4, 1)), np.arange(4.0)[:, None], np.kron(np.eye(2), [0.5, 0.5])
    >>> linformer_attention(np.ones((1, 1)), k, v, halves, halves)
    array([[1.5]])
    """
    expect_shapes(q, k, v)
    if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
        raise ValueError(
            f"both projections need the shape (R, {k.shape[-2]}); "
            f"got {project_k.shape} and {project_v.shape}"
        )
    ### BEGIN SOLUTION
    return scaled_dot_product_attention(q, project_k @ k, project_v @ v)[0]
    ### END SOLUTION


def positive_random_features(x: Array, projection: Array) -> Array:
    """Features whose dot product is e^(x · y) on average, and which are never negative.

    With a standard normal row w of the projection, one feature is e^(w · x - ‖x‖²/2) / √M.

    Shapes:
        x: (..., D)
        projection: (M, D)
        returns: (..., M)

    Raises:
        ValueError: the widths of x and of the projection differ.

    Source: Choromanski et al. 2021, lemma 1.

    >>> positive_random_features(np.array([2.0]), np.array([[1.0], [0.0], [3.0], [1.0]])).round(3)
    array([ 0.5  ,  0.068, 27.299,  0.5  ])
    """
    if x.shape[-1] != projection.shape[-1]:
        raise ValueError(
            f"the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}"
        )
    ### BEGIN SOLUTION
    half_square = (x**2).sum(axis=-1, keepdims=True) / 2  # (..., 1)
    return np.exp(x @ projection.T - half_square) / len(projection) ** 0.5
    ### END SOLUTION


def performer_attention(q: Array, k: Array, v: Array, projection: Array) -> Array:
    """Attend with weights near those of softmax(q · k / √D), in time and memory linear in length.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        projection: (M, D), the same for queries and keys
        returns: (..., T, D_v)

    Raises:
        ValueError: widths of q, k and the projection or lengths of k and v differ.

    Source: Choromanski et al. 2021, §2.2-2.3.

    >>> performer_attention(np.zeros((1, 4)), np.zeros((2, 4)), np.array([[2.0], [6.0]]), np.eye(4))
    array([[4.]])
    """
    expect_shapes(q, k, v)
    ### BEGIN SOLUTION
    root = q.shape[-1] ** 0.25  # on both sides, so that q · k is divided by √D
    mapped_q = positive_random_features(q / root, projection)
    mapped_k = positive_random_features(k / root, projection)
    return linear_attention(mapped_q, mapped_k, v)
    ### END SOLUTION


def delta_rule_update(state: Array, k: Array, v: Array, beta: float = 1.0) -> Array:
    """Correct what the memory says at ``k`` towards ``v``: a gradient step on ½ ‖stateᵀ k - v‖².

    With beta = 1 and ‖k‖ = 1 the memory then answers v at k exactly.

    Shapes:
        state: (..., D, D_v)
        k: (..., D)
        v: (..., D_v)
        returns: the new memory, (..., D, D_v)

    Args:
        beta: the step size, 0 (write nothing) to 1.

    Source: Widrow and Hoff 1960; Schlag et al. 2021, §4.2.

    >>> delta_rule_update(np.array([[5.0], [7.0]]), np.array([1.0, 0.0]), np.array([9.0]))
    array([[9.],
           [7.]])
    """
    said = (k[..., None, :] @ state)[..., 0, :]  # (..., D_v)
    return state + beta * k[..., :, None] * (v - said)[..., None, :]


def memory_width(pairs: int, error: float) -> int:
    """Choose the width of the keys, so that a summed memory answers with at most a given error.

    Keys are independent random directions of norm 1, values independent with mean 0. The error is
    the mean of ‖answer - value‖² over the mean of ‖value‖², when the memory is asked for the pairs
    written.

    Args:
        pairs: how many are written, at least 1.
        error: the most that is allowed, above 0.

    Returns:
        the least D that will do.

    Raises:
        ValueError: no pair, or an error that is not above 0.

    Source: the variance of q · k in chapter 03; Schlag et al. 2021, §4.1.

    >>> memory_width(pairs=9, error=0.5)
    16
    """
    if pairs < 1 or error <= 0:
        raise ValueError(f"expected at least 1 pair and an error above 0; got {pairs} and {error}")
    ### BEGIN SOLUTION
    # 21 / 0.7 is a little above 30 in floats, so 22 pairs and 0.7 get one more than the least
    return max(1, math.ceil((pairs - 1) / error))
    ### END SOLUTION
