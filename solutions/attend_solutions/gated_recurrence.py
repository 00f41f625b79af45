"""Gated recurrences in NumPy: memories of fixed size that fade, correct themselves, or both.

All of them have a state that a token first fades and then writes into::

    S_t = γ S_t-1 + k_t v_tᵀ                                retention: one γ a head
    S_t = diag(e^g_t) S_t-1 + k_t v_tᵀ                      gated: g_t comes from the token
    S_t = S_t-1 + β_t k_t (v_t - S_t-1ᵀ k_t)ᵀ               the delta rule
    o_t = S_tᵀ q_t                                          reading

    h_t = a_t h_t-1 + √(1 - a_t²) (σ(i_t) x_t)              RG-LRU: a vector for a state
    y_t = Σ_s<t e^(k_s - (t-1-s) w) v_s + e^(u + k_t) v_t   RWKV, divided by the sum of weights

Letters:
    T    how many tokens                     D    width of a query and of a key
    C    numbers in a token (channels)       D_v  width of a value
    ...  any leading axes (batch, heads), the same for all arrays

Sources: Sun et al. 2023, "Retentive Network"; Yang et al. 2024, "Gated Linear Attention
Transformers with Hardware-Efficient Training"; Yang et al. 2024, "Parallelizing Linear Transformers
with the Delta Rule over Sequence Length"; Peng et al. 2023, "RWKV: Reinventing RNNs for the
Transformer Era"; De et al. 2024, "Griffin".
"""

import numpy as np

from attend_solutions.flash import tiles
from attend_solutions.linear_attention import expect_pairs
from attend_solutions.recurrence import sigmoid
from attend_solutions.types import Array


def retention_recurrent(
    q: Array, k: Array, v: Array, decay: Array | float, state: Array | None = None
) -> tuple[Array, Array]:
    """Read and write a memory that fades: S = γ S + k_t v_tᵀ, then o_t = Sᵀ q_t.

    Shapes:
        q, k: (..., T, D), T at least 1
        v: (..., T, D_v)
        decay: one number, or one for each leading index of q (a head, say): above 0, at most 1
        state: (..., D, D_v), the memory so far; None is empty
        returns: output (..., T, D_v), and the memory after the last token (..., D, D_v)

    Raises:
        ValueError: widths of q and k or lengths of q, k and v differ.

    Source: Sun et al. 2023, equation 6, without its rotations and norms.

    >>> q, k, v = np.ones((3, 1)), np.ones((3, 1)), np.array([[8.0], [0.0], [2.0]])
    >>> retention_recurrent(q, k, v, 0.5)
    (array([[8.],
           [4.],
           [4.]]), array([[4.]]))
    """
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]  # (..., 1, 1)
    ### BEGIN SOLUTION
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for t in range(q.shape[-2]):
        state = decay * state + k[..., t, :, None] * v[..., t, None, :]  # (..., D, D_v)
        outputs.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(outputs, axis=-2), state
    ### END SOLUTION


def retention_parallel(q: Array, k: Array, v: Array, decay: Array | float) -> Array:
    """The same outputs from an empty memory, by one T × T matrix of products that fade with age.

    Shapes:
        q, k: (..., T, D), T at least 1
        v: (..., T, D_v)
        decay: one number, or one for each leading index of q: above 0, at most 1
        returns: (..., T, D_v)

    Raises:
        ValueError: widths of q and k or lengths of q, k and v differ.

    Source: Sun et al. 2023, equation 5, without its rotations and norms.

    >>> q, k, v = np.ones((3, 1)), np.ones((3, 1)), np.array([[8.0], [0.0], [2.0]])
    >>> retention_parallel(q, k, v, 0.5)
    array([[8.],
           [4.],
           [4.]])
    """
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]  # (..., 1, 1)
    ### BEGIN SOLUTION
    place = np.arange(q.shape[-2])
    age = np.maximum(place[:, None] - place, 0)  # 0 for later keys: a negative power can overflow
    fade = np.tril(decay**age)  # (..., T, T)
    return (fade * (q @ np.swapaxes(k, -1, -2))) @ v
    ### END SOLUTION


def retention_chunked(
    q: Array,
    k: Array,
    v: Array,
    decay: Array | float,
    chunk: int = 64,
    state: Array | None = None,
) -> tuple[Array, Array]:
    """The same numbers as ``retention_recurrent``, a chunk of tokens at a time.

    Shapes:
        q, k: (..., T, D), T at least 1
        v: (..., T, D_v)
        decay: one number, or one for each leading index of q: above 0, at most 1
        state: (..., D, D_v), the memory so far; None is empty
        returns: output (..., T, D_v), and the memory after the last token (..., D, D_v)

    Args:
        chunk: tokens in a chunk; the last may be shorter.

    Raises:
        ValueError: shapes do not fit as in ``retention_recurrent``, or a chunk is less than 1.

    Source: Sun et al. 2023, equation 7.

    >>> q, k, v = np.ones((3, 1)), np.ones((3, 1)), np.array([[8.0], [0.0], [2.0]])
    >>> retention_chunked(q, k, v, 0.5, chunk=2)[0]
    array([[8.],
           [4.],
           [4.]])
    """
    expect_pairs(q, k, v)
    ### BEGIN SOLUTION
    rate = np.asarray(decay, dtype=float)[..., None, None]  # (..., 1, 1)
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for part in tiles(q.shape[-2], chunk):
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        length = keys.shape[-2]
        place = np.arange(length)[:, None]  # (length, 1)
        from_state = (rate ** (place + 1) * asked) @ state
        outputs.append(from_state + retention_parallel(asked, keys, values, decay))
        faded = rate ** (length - 1 - place) * keys
        state = rate**length * state + np.swapaxes(faded, -1, -2) @ values
    return np.concatenate(outputs, axis=-2), np.asarray(state)
    ### END SOLUTION


def gated_linear_attention(
    q: Array, k: Array, v: Array, gates: Array, chunk: int = 64, state: Array | None = None
) -> tuple[Array, Array]:
    """Linear attention whose tokens choose what fades: row d of the memory by e^gate, in chunks.

    Only differences of the gates' sums become powers of e, and they are at most 0: so nothing
    overflows, however strong a gate is.

    Shapes:
        q, k, gates: (..., T, D), T at least 1
        v: (..., T, D_v)
        state: (..., D, D_v), the memory so far; None is empty
        returns: output (..., T, D_v), and the memory after the last token (..., D, D_v)

    Args:
        gates: logarithms of what is left of each row of the memory; 0 or less, finite.
        chunk: tokens in a chunk; the last may be shorter.

    Raises:
        ValueError: widths of q and k or lengths of q, k and v differ, gates have not the shape of
            k, or a chunk is less than 1.

    Source: Yang et al. 2024 (GLA), §4, with the weights of pairs in logarithms.

    >>> q, k, v = np.ones((2, 1)), np.ones((2, 1)), np.array([[8.0], [1.0]])
    >>> gated_linear_attention(q, k, v, np.log([[0.5], [0.25]]))[0]
    array([[8.],
           [3.]])
    """
    expect_pairs(q, k, v)
    if gates.shape[-2:] != k.shape[-2:]:
        raise ValueError(f"expected gates of the shape of k, {k.shape}; got {gates.shape}")
    parts = tiles(q.shape[-2], chunk)
    ### BEGIN SOLUTION
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for part in parts:
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        total = np.cumsum(gates[..., part, :], axis=-2)  # (..., n, D) for the n tokens of a chunk
        between = total[..., :, None, :] - total[..., None, :, :]  # (..., n, n, D)
        fade = np.exp(np.minimum(between, 0.0))  # above the diagonal anything finite will do
        weights = np.tril(np.einsum("...td,...sd,...tsd->...ts", asked, keys, fade))
        outputs.append((asked * np.exp(total)) @ state + weights @ values)
        last = total[..., -1:, :]  # (..., 1, D)
        faded = keys * np.exp(last - total)
        state = np.swapaxes(np.exp(last), -1, -2) * state + np.swapaxes(faded, -1, -2) @ values
    return np.concatenate(outputs, axis=-2), state
    ### END SOLUTION


def delta_rule_chunked(
    q: Array, k: Array, v: Array, beta: Array, chunk: int = 64, state: Array | None = None
) -> tuple[Array, Array]:
    """The delta rule, a chunk of tokens at a time: all corrections of a chunk by one linear system.

    Token t writes u_t = β_t (v_t - S_t-1ᵀ k_t) under k_t. In a chunk that begins with the memory S,
    u_t + β_t Σ_s<t (k_t · k_s) u_s = β_t (v_t - Sᵀ k_t): a triangular system for all u.

    Shapes:
        q, k: (..., T, D), T at least 1
        v: (..., T, D_v)
        beta: (..., T)
        state: (..., D, D_v), the memory so far; None is empty
        returns: output (..., T, D_v), and the memory after the last token (..., D, D_v)

    Args:
        beta: step sizes, 0 to 1.
        chunk: tokens in a chunk; the last may be shorter.

    Raises:
        ValueError: widths of q and k or lengths of q, k, v and beta differ, or a chunk is less
            than 1.

    Source: Yang et al. 2024 (delta rule), §3; the WY form: Bischof and
    Van Loan 1987.

    >>> q, k, v = np.ones((2, 1)), np.ones((2, 1)), np.array([[8.0], [2.0]])
    >>> delta_rule_chunked(q, k, v, np.array([1.0, 0.5]))[0]
    array([[8.],
           [5.]])
    """
    expect_pairs(q, k, v)
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError(f"expected {k.shape[-2]} step sizes; got {beta.shape[-1]}")
    parts = tiles(q.shape[-2], chunk)
    ### BEGIN SOLUTION
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for part in parts:
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        step = beta[..., part, None]  # (..., n, 1)
        turned = np.swapaxes(keys, -1, -2)
        overlaps = np.tril(step * (keys @ turned), -1)  # (..., n, n)
        wrong = step * (values - keys @ state)
        written = np.linalg.solve(np.eye(keys.shape[-2]) + overlaps, wrong)  # (..., n, D_v)
        outputs.append(asked @ state + np.tril(asked @ turned) @ written)
        state = state + turned @ written
    return np.concatenate(outputs, axis=-2), state
    ### END SOLUTION


def token_shift(x: Array, mix: Array, last: Array | None = None) -> tuple[Array, Array]:
    """Mix every token with the one before it, channel by channel: mix x_t + (1 - mix) x_t-1.

    Shapes:
        x: (..., T, C), T at least 1
        mix: (C,), how much of each channel comes from the token itself
        last: (..., C), the token before the first; None is all zeros
        returns: mixed tokens (..., T, C), and the last token of x (..., C)

    Source: Peng et al. 2023, §3.1, token shift.

    >>> token_shift(np.array([[8.0], [4.0]]), np.array([0.75]))
    (array([[6.],
           [5.]]), array([4.]))
    """
    if last is None:
        last = np.zeros_like(x[..., 0, :])
    before = np.concatenate([last[..., None, :], x[..., :-1, :]], axis=-2)  # (..., T, C)
    return mix * x + (1 - mix) * before, x[..., -1, :]


def rwkv_time_mix(
    r: Array, k: Array, v: Array, rate: Array, bonus: Array, state: Array | None = None
) -> tuple[Array, Array]:
    """RWKV-4's mixing: in each channel a weighted mean of values so far, times a gate.

    The weight of token s at token t is e^(k_s - (t-1-s) rate), that of t itself e^(bonus + k_t).
    The state holds the sum of weighted values, the sum of weights, and the largest exponent, by
    whose power of e both sums are divided: so keys may be of any size.

    Shapes:
        r, k, v: (..., T, C), T at least 1
        rate: (C,), 0 or more: how much weights shrink a token, as a logarithm
        bonus: (C,)
        state: (..., 3, C): values, weights, largest exponent; None is before the first token
        returns: output (..., T, C), and the state after the last token (..., 3, C)

    Source: Peng et al. 2023, §3.1, the WKV operator; its running maximum as in the authors' code.

    >>> k, v, one = np.zeros((2, 1)), np.array([[8.0], [2.0]]), np.ones(1)
    >>> rwkv_time_mix(np.zeros((2, 1)), k, v, one, 0 * one)[0]  # a gate of one half
    array([[4. ],
           [2.5]])
    """
    if state is None:
        nothing = np.zeros((*k.shape[:-2], k.shape[-1]))
        state = np.stack([nothing, nothing, nothing - np.inf], axis=-2)
    values, weights, largest = np.moveaxis(state, -2, 0)  # each (..., C)
    ### BEGIN SOLUTION
    outputs = []
    for t in range(k.shape[-2]):
        now, value = k[..., t, :], v[..., t, :]  # (..., C)
        top = np.maximum(largest, bonus + now)
        old, new = np.exp(largest - top), np.exp(bonus + now - top)
        outputs.append((old * values + new * value) / (old * weights + new))
        top = np.maximum(largest - rate, now)
        old, new = np.exp(largest - rate - top), np.exp(now - top)
        values, weights, largest = old * values + new * value, old * weights + new, top
    mixed = np.stack(outputs, axis=-2)
    return sigmoid(r) * mixed, np.stack([values, weights, largest], axis=-2)
    ### END SOLUTION


def rg_lru(
    x: Array, forget: Array, admit: Array, rates: Array, state: Array | None = None
) -> tuple[Array, Array]:
    """Griffin's real-gated linear recurrent unit: its state keeps the size of independent inputs.

    With a_t = e^(-8 softplus(rates) σ(forget_t)), the state is h_t = a_t h_t-1 +
    √(1 - a_t²) σ(admit_t) x_t. Gates come as they are before their sigmoid.

    Shapes:
        x, forget, admit: (..., T, C), T at least 1
        rates: (C,)
        state: (..., C), h before the first token; None is all zeros
        returns: all h (..., T, C), and the last h (..., C)

    Source: De et al. 2024, §2.4, equations 1-4; softplus(rates) as in Hugging Face's
    RecurrentGemma, whose rates have the opposite sign of the paper's Λ.

    >>> one = np.zeros((1, 1))  # gates of one half, and a_t = e^(-4 ln 2)
    >>> rg_lru(one + 2.0, one, one, np.zeros(1))[0].round(3)
    array([[0.998]])
    """
    ### BEGIN SOLUTION
    log_keep = -8 * np.logaddexp(0, rates) * sigmoid(forget)  # (..., T, C)
    keep = np.exp(log_keep)
    written = np.sqrt(-np.expm1(2 * log_keep)) * sigmoid(admit) * x  # expm1: exact near a = 1
    h = np.zeros_like(written[..., 0, :]) if state is None else state
    states = []
    for t in range(x.shape[-2]):
        h = keep[..., t, :] * h + written[..., t, :]
        states.append(h)
    return np.stack(states, axis=-2), h
    ### END SOLUTION
