"""Flash attention in NumPy: exact attention, tile by tile, with no T × S matrix in memory.

Forward, for one query, as each tile of keys comes in (z are its scores, v its values):

    m' = max(m, max_j z_j)                       running maximum
    l' = e^(m - m') l + Σ_j e^(z_j - m')         running sum
    a' = e^(m - m') a + Σ_j e^(z_j - m') v_j     accumulator
    at the end:  o = a / l,   LSE = m + ln l     output, and log of the sum of exponentials

Backward, where the weights are made again from the LSE, one tile at a time:

    P = exp(Z - LSE),   δ = rowsum(dO ∘ O),   dZ = P ∘ (dO Vᵀ - δ)
    dV = Pᵀ dO,   dQ = dZ K / √D,   dK = dZᵀ Q / √D

Letters:
    T    how many queries                 D    width of a query and of a key
    S    how many keys, and values        D_v  width of a value
    ...  any leading axes (batch, heads), the same for all arrays
    Z    the scores Q Kᵀ / √D, never stored whole (S is a number here)

Sources: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; Rabe and Staats
2021, "Self-attention Does Not Need O(n²) Memory"; Dao et al. 2022, "FlashAttention"; Dao 2023,
"FlashAttention-2", algorithms 1 and 2.
"""

import numpy as np

from attend_solutions.types import Array, Mask


def tiles(length: int, tile: int) -> list[slice]:
    """Cut the places 0 … length - 1 into slices of ``tile`` places; the last may be shorter.

    Raises:
        ValueError: a tile of less than 1 place.

    >>> tiles(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if tile < 1:
        raise ValueError(f"a tile needs at least 1 place; got {tile}")
    return [slice(start, min(start + tile, length)) for start in range(0, length, tile)]


def expect_shapes(q: Array, k: Array, v: Array) -> None:
    """Refuse queries, keys and values that do not fit each other.

    Raises:
        ValueError: says which axis, what was expected and what came.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"keys need the width of the queries, {q.shape[-1]}; got {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"each key needs a value: expected {k.shape[-2]} values; got {v.shape[-2]}"
        )


def online_softmax(
    running_max: Array, running_sum: Array, accumulator: Array, scores: Array, values: Array
) -> tuple[Array, Array, Array]:
    """Take one more tile of keys into a softmax-weighted sum, and correct what was summed before.

    Before the first tile the state is running_max = -inf, running_sum = 0, accumulator = 0. After
    the last, accumulator / running_sum is the attention output.

    A score of -inf is a hidden key. A row that has seen hidden keys only keeps -inf, 0 and 0.

    Shapes:
        running_max, running_sum: (..., T)
        accumulator: (..., T, D_v)
        scores: (..., T, n), for the n keys of this tile, already scaled
        values: (..., n, D_v)
        returns: the new running_max, running_sum and accumulator, in the shapes of the old ones

    Source: Milakov and Gimelshein 2018, algorithm 3; the accumulator: Rabe and Staats 2021, §3.

    >>> empty = np.array([-np.inf]), np.array([0.0]), np.array([[0.0]])
    >>> online_softmax(*empty, np.log([[1.0, 3.0]]), np.array([[8.0], [4.0]]))[1:]
    (array([1.33333333]), array([[6.66666667]]))
    """
    new_max = np.maximum(running_max, scores.max(axis=-1))  # (..., T)
    subtracted = np.where(new_max == -np.inf, 0.0, new_max)  # only hidden keys so far: any number
    exponentials = np.exp(scores - subtracted[..., None])  # (..., T, n)
    correction = np.exp(running_max - subtracted)  # (..., T); 0 before the first tile
    new_sum = correction * running_sum + exponentials.sum(axis=-1)
    new_accumulator = correction[..., None] * accumulator + exponentials @ values
    return new_max, new_sum, new_accumulator


def merge_partials(
    output: Array, lse: Array, other_output: Array, other_lse: Array
) -> tuple[Array, Array]:
    """Merge the attention outputs over two sets of keys into the output over both.

    Each partial result is finished: its output is divided by its sum of exponentials, and its LSE
    is the logarithm of that sum. A set without a visible key has the LSE -inf and the output 0.

    Shapes:
        output, other_output: (..., T, D_v)
        lse, other_lse: (..., T)
        returns: the merged output (..., T, D_v) and LSE (..., T)

    Source: Milakov and Gimelshein 2018, §3.1 (sums); Rabe and Staats 2021 (outputs); on GPUs: Dao,
    Haziza, Massa and Sizov 2023, "Flash-Decoding for long-context inference".

    >>> merge_partials(np.array([[8.0]]), np.log([1.0]), np.array([[4.0]]), np.log([3.0]))
    (array([[5.]]), array([1.38629436]))
    """
    merged_lse = np.logaddexp(lse, other_lse)  # (..., T)
    subtracted = np.where(merged_lse == -np.inf, 0.0, merged_lse)  # two empty sets: any number
    share = np.exp(lse - subtracted)[..., None]  # (..., T, 1)
    other_share = np.exp(other_lse - subtracted)[..., None]
    return share * output + other_share * other_output, merged_lse


def stream_attention(q: Array, k: Array, v: Array, tile_k: int = 64) -> tuple[Array, float]:
    """Answer one query while keys and values come in tile by tile.

    Shapes:
        q: (D,)
        k: (S, D), S at least 1
        v: (S, D_v)
        returns: output (D_v,), and the LSE, one number

    Args:
        tile_k: keys in a tile; the last tile may be shorter.

    Raises:
        ValueError: widths of q and k or lengths of k and v differ, or the tile is less than 1.

    Source: Milakov and Gimelshein 2018, algorithm 3; Rabe and Staats 2021, §3.

    >>> k, v = np.zeros((3, 2)), np.array([[1.0], [2.0], [6.0]])
    >>> stream_attention(np.ones(2), k, v, tile_k=2)[0]
    array([3.])
    """
    expect_shapes(q[None], k, v)
    ### BEGIN SOLUTION
    largest, total, weighted = -np.inf, 0.0, np.zeros(v.shape[-1])
    for part in tiles(len(k), tile_k):
        scores = k[part] @ q / len(q) ** 0.5
        new_largest = max(largest, scores.max())
        exponentials = np.exp(scores - new_largest)
        shrink = np.exp(largest - new_largest)
        total = shrink * total + exponentials.sum()
        weighted = shrink * weighted + exponentials @ v[part]
        largest = new_largest
    return weighted / total, float(largest + np.log(total))
    ### END SOLUTION


def flash_forward(
    q: Array, k: Array, v: Array, tile_q: int = 64, tile_k: int = 64
) -> tuple[Array, Array]:
    """Attention, tile by tile: for each tile of queries, one pass over all tiles of keys.

    Beside the inputs, the two results and copies as large as a result or q, it never holds more
    than a few tiles, however long the text is.

    Shapes:
        q: (..., T, D)
        k: (..., S, D), S at least 1
        v: (..., S, D_v)
        returns: output (..., T, D_v), and LSE (..., T): the logarithm of the sum of the
            exponentials of each query's scores

    Args:
        tile_q: queries in a tile; the last tile may be shorter.
        tile_k: keys in a tile; the same.

    Raises:
        ValueError: widths of q and k or lengths of k and v differ, or a tile is less than 1.

    Source: Dao 2023, "FlashAttention-2", algorithm 1.

    >>> q, k = np.array([[0.0]]), np.array([[5.0], [6.0], [7.0]])
    >>> flash_forward(q, k, np.array([[1.0], [2.0], [6.0]]), tile_q=1, tile_k=2)
    (array([[3.]]), array([1.09861229]))
    """
    expect_shapes(q, k, v)
    ### BEGIN SOLUTION
    output = np.zeros((*q.shape[:-1], v.shape[-1]))  # (..., T, D_v)
    lse = np.zeros(q.shape[:-1])  # (..., T)
    for rows in tiles(q.shape[-2], tile_q):
        q_tile = q[..., rows, :]
        running_max = np.full(q_tile.shape[:-1], -np.inf)
        running_sum = np.zeros(q_tile.shape[:-1])
        accumulator = np.zeros((*q_tile.shape[:-1], v.shape[-1]))
        for columns in tiles(k.shape[-2], tile_k):
            scores = q_tile @ np.swapaxes(k[..., columns, :], -1, -2) / q.shape[-1] ** 0.5
            running_max, running_sum, accumulator = online_softmax(
                running_max, running_sum, accumulator, scores, v[..., columns, :]
            )
        output[..., rows, :] = accumulator / running_sum[..., None]
        lse[..., rows] = running_max + np.log(running_sum)
    return output, lse
    ### END SOLUTION


def tiles_needed(
    queries: int,
    keys: int,
    tile_q: int,
    tile_k: int,
    causal: bool = False,
    window: int | None = None,
) -> Mask:
    """Say which tiles of the score matrix hold at least one pair that may be looked at.

    The last query stands at the last key, so query t stands at p = t + keys - queries. It may look
    at key s unless ``causal`` and s > p, or ``window`` is given and |s - p| > window.

    No table of queries × keys is made: a tile's first and last places decide.

    Shapes:
        returns: boolean, (tiles of queries, tiles of keys)

    Raises:
        ValueError: a tile is less than 1, or a window is negative.

    Source: Dao 2023, "FlashAttention-2", §3.1; the window: Beltagy et al. 2020, "Longformer", §3.1.

    >>> tiles_needed(6, 6, 2, 2, causal=True).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    >>> tiles_needed(6, 6, 2, 2, causal=True, window=1).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    expect_window(window)
    ### BEGIN SOLUTION
    rows, columns = tiles(queries, tile_q), tiles(keys, tile_k)
    needed = np.ones((len(rows), len(columns)), dtype=bool)
    shift = keys - queries
    for i, row in enumerate(rows):
        first, last = row.start + shift, row.stop - 1 + shift  # where they stand
        for j, column in enumerate(columns):
            if causal and column.start > last:
                needed[i, j] = False
            if window is not None and column.stop - 1 < first - window:
                needed[i, j] = False
            if window is not None and column.start > last + window:
                needed[i, j] = False
    return needed
    ### END SOLUTION


def expect_window(window: int | None) -> None:
    """Refuse a window that looks back a negative number of keys.

    Raises:
        ValueError: says what was expected and what came.
    """
    if window is not None and window < 0:
        raise ValueError(f"a window needs 0 or more keys on each side; got {window}")


def flash_backward(
    q: Array,
    k: Array,
    v: Array,
    output: Array,
    lse: Array,
    grad_output: Array,
    tile_q: int = 64,
    tile_k: int = 64,
) -> tuple[Array, Array, Array]:
    """Give the gradients of a loss with respect to q, k and v, tile by tile.

    The weights of a tile are made again from q, k and the LSE. Beside the inputs, the results and
    copies as large as a result or q, it never holds more than a few tiles.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        output, grad_output: (..., T, D_v)
        lse: (..., T)
        returns: grad_q (..., T, D), grad_k (..., S, D), grad_v (..., S, D_v)

    Raises:
        ValueError: widths of q and k or lengths of k and v differ, or a tile is less than 1.

    Source: Dao 2023, "FlashAttention-2", algorithm 2.

    >>> q, k, v = np.array([[9.0]]), np.array([[0.0], [0.0]]), np.array([[0.0], [8.0]])
    >>> output, lse = flash_forward(q, k, v)
    >>> flash_backward(q, k, v, output, lse, np.array([[1.0]]))[1]
    array([[-18.],
           [ 18.]])
    """
    expect_shapes(q, k, v)
    ### BEGIN SOLUTION
    delta = (grad_output * output).sum(axis=-1, keepdims=True)  # (..., T, 1)
    grad_q, grad_k, grad_v = (np.zeros(x.shape) for x in (q, k, v))
    root = q.shape[-1] ** 0.5
    for rows in tiles(q.shape[-2], tile_q):
        q_tile, grad_tile = q[..., rows, :], grad_output[..., rows, :]
        for columns in tiles(k.shape[-2], tile_k):
            k_tile, v_tile = k[..., columns, :], v[..., columns, :]
            scores = q_tile @ np.swapaxes(k_tile, -1, -2) / root
            weights = np.exp(scores - lse[..., rows, None])  # (..., tile_q, tile_k)
            grad_weights = grad_tile @ np.swapaxes(v_tile, -1, -2)
            grad_dots = weights * (grad_weights - delta[..., rows, :]) / root
            grad_q[..., rows, :] += grad_dots @ k_tile
            grad_k[..., columns, :] += np.swapaxes(grad_dots, -1, -2) @ q_tile
            grad_v[..., columns, :] += np.swapaxes(weights, -1, -2) @ grad_tile
    return grad_q, grad_k, grad_v
    ### END SOLUTION


def hbm_traffic(
    queries: int,
    keys: int,
    width: int,
    tile_q: int,
    tile_k: int,
    causal: bool = False,
    window: int | None = None,
    itemsize: int = 2,
) -> int:
    """Count the bytes that the tiled forward pass of one head moves from and to slow memory.

    Each tile of Q is read once. For each tile of Q, those tiles of K and V are read that are
    needed. The output and the LSE are written once. Keys and values have the same width.

    Args:
        queries: T.
        keys: S.
        width: D, numbers in a query, key, value and output.
        itemsize: bytes of a number: 2 for float16.
        tile_q, tile_k, causal, window: as for ``tiles_needed``.

    Returns:
        bytes read and written.

    Raises:
        ValueError: as ``tiles_needed``.

    Source: the model of Dao et al. 2022, "FlashAttention", §3.2, with the loops in the order of
    FlashAttention-2.

    >>> hbm_traffic(queries=4, keys=6, width=8, tile_q=2, tile_k=3)  # (4·8 + 2·2·6·8 + 4·8 + 4) · 2
    520
    """
    needed = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
    lengths = np.array([tile.stop - tile.start for tile in tiles(keys, tile_k)])
    keys_read = int((needed * lengths).sum())
    read = queries * width + 2 * keys_read * width  # Q, then K and V
    written = queries * width + queries  # O and the LSE
    return (read + written) * itemsize
