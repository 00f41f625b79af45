"""Chapter 18: a flash attention forward in Triton; each kernel with the function that launches it.

Each program owns ``BLOCK_T`` queries of one head and walks over the keys in tiles of ``BLOCK_S``
(x are a tile's scores, v its values; chapter 16 has the same in NumPy):

    m' = max(m, max_s x_s)                       running maximum
    l' = e^(m - m') l + Σ_s e^(x_s - m')         running sum
    a' = e^(m - m') a + Σ_s e^(x_s - m') v_s     accumulator
    at the end:  o = a / l,   LSE = m + ln l

Letters:
    B    batch                           T    queries
    H    query heads                     S    keys, and values
    G    key/value heads                 D    width of a head: 16, 32, 64, 128

In the kernels ``t``, ``s`` and ``d`` are the queries, keys and columns of a tile. Scores and sums
are float32, whatever the type of q, k and v; the output is float32.

Sources: Dao 2023, "FlashAttention-2", algorithm 1; Milakov and Gimelshein 2018, "Online normalizer
calculation for softmax"; grouped heads: Ainslie et al. 2023, "GQA".
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

# ruff: noqa: N806  # axis letters are capitals

import torch

from attend_solutions.interpreted import tl, triton


@triton.jit
def one_tile_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program attends for BLOCK_T queries to all keys at once: S is at most BLOCK_S."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    s = tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    ### BEGIN SOLUTION
    rows = t[:, None] * D + d[None, :]  # where a tile of queries lies
    keys = s[:, None] * D + d[None, :]
    q = tl.load(q_ptr + rows, mask=t[:, None] < T, other=0.0)
    k = tl.load(k_ptr + keys, mask=s[:, None] < S, other=0.0)
    v = tl.load(v_ptr + keys, mask=s[:, None] < S, other=0.0)
    scores = scale * tl.dot(q, k.T)  # (BLOCK_T, BLOCK_S)
    scores = tl.where(s[None, :] < S, scores, -float("inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    output = tl.dot(weights.to(v.dtype), v) / tl.sum(weights, axis=1)[:, None]
    tl.store(out_ptr + rows, output, mask=t[:, None] < T)
    ### END SOLUTION


def one_tile(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16) -> torch.Tensor:
    """Attention with all keys in one tile, a program for each tile of queries.

    Shapes:
        q: (T, D)
        k, v: (S, D)
        returns: (T, D), float32
    """
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    block_s = max(16, triton.next_power_of_2(S))
    one_tile_kernel[grid](
        q, k, v, out, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out


@triton.jit
def flash_loop_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program attends for BLOCK_T queries, BLOCK_S keys at a time; BLOCK_S divides S."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    for first in range(0, S, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :])
        v = tl.load(v_ptr + s[:, None] * D + d[None, :])
        ### BEGIN SOLUTION
        scores = tl.dot(q, k.T) * scale  # (BLOCK_T, BLOCK_S)
        new_max = tl.maximum(running_max, tl.max(scores, axis=1))
        weights = tl.exp(scores - new_max[:, None])
        correction = tl.exp(running_max - new_max)
        running_sum = running_sum * correction + tl.sum(weights, axis=1)
        accumulator = accumulator * correction[:, None] + tl.dot(weights.to(v.dtype), v)
        running_max = new_max
        ### END SOLUTION
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def flash_loop(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16, block_s: int = 16
) -> torch.Tensor:
    """Attention, tile by tile.

    Shapes:
        q: (T, D)
        k, v: (S, D); S is a multiple of block_s
        returns: (T, D), float32
    """
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    flash_loop_kernel[grid](
        q, k, v, out, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out


@triton.jit
def ragged_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program attends for BLOCK_T queries; the last tile of keys may be partly empty."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    for first in range(0, S, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        ### BEGIN SOLUTION
        scores = tl.dot(q, k.T) * scale
        scores = tl.where(s[None, :] < S, scores, -float("inf"))
        new_max = tl.maximum(running_max, tl.max(scores, axis=1))
        weights = tl.exp(scores - new_max[:, None])
        correction = tl.exp(running_max - new_max)
        running_sum = running_sum * correction + tl.sum(weights, axis=1)
        accumulator = accumulator * correction[:, None] + tl.dot(weights.to(v.dtype), v)
        running_max = new_max
        ### END SOLUTION
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def ragged_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16, block_s: int = 16
) -> torch.Tensor:
    """Attention, tile by tile, over any number of keys.

    Shapes:
        q: (T, D)
        k, v: (S, D)
        returns: (T, D), float32
    """
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    ragged_kernel[grid](
        q, k, v, out, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out


@triton.jit
def lse_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program attends for BLOCK_T queries in powers of two, and writes their LSE too."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    ### BEGIN SOLUTION
    unit = scale * 1.4426950408889634  # log2(e): 2^(x · unit) = e^(x · scale)
    ### END SOLUTION
    for first in range(0, S, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        ### BEGIN SOLUTION
        scores = tl.where(s[None, :] < S, tl.dot(q, k.T) * unit, -float("inf"))  # in base 2
        new_max = tl.maximum(running_max, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_max[:, None])
        correction = tl.exp2(running_max - new_max)
        running_sum = running_sum * correction + tl.sum(weights, axis=1)
        accumulator = accumulator * correction[:, None] + tl.dot(weights.to(v.dtype), v)
        running_max = new_max
        ### END SOLUTION
    ### BEGIN SOLUTION
    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453  # ln(2): back to base e
    tl.store(lse_ptr + t, lse, mask=t < T)
    ### END SOLUTION
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def flash_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16, block_s: int = 16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention, tile by tile, and the natural logarithm of each query's sum of exponentials.

    Shapes:
        q: (T, D)
        k, v: (S, D)
        returns: (T, D) and (T,), float32
    """
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    lse = torch.empty(T, dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    lse_kernel[grid](
        q, k, v, out, lse, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out, lse


@triton.jit
def causal_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, T, S, scale, window,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program attends for BLOCK_T queries to the tiles of keys that one of them may see."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    ### BEGIN SOLUTION
    unit = scale * 1.4426950408889634
    place = tl.program_id(0) * BLOCK_T + S - T  # of the tile's first query
    start = tl.maximum(0, place - window) // BLOCK_S * BLOCK_S
    stop = tl.minimum(S, place + BLOCK_T)
    ### END SOLUTION
    for first in range(start, stop, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        ### BEGIN SOLUTION
        ahead = s[None, :] - (t[:, None] + S - T)
        seen = (ahead <= 0) & (ahead >= -window)
        scores = tl.where(seen, tl.dot(q, k.T) * unit, -1e30)  # finite: -inf less -inf is NaN
        new_max = tl.maximum(running_max, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_max[:, None])
        correction = tl.exp2(running_max - new_max)
        running_sum = running_sum * correction + tl.sum(weights, axis=1)
        accumulator = accumulator * correction[:, None] + tl.dot(weights.to(v.dtype), v)
        running_max = new_max
        ### END SOLUTION
    ### BEGIN SOLUTION
    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453
    tl.store(lse_ptr + t, lse, mask=t < T)
    ### END SOLUTION
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def causal_flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    window: int | None = None,
    block_t: int = 16,
    block_s: int = 16,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention that skips the tiles of keys which nobody may see.

    Query t stands at the place p = t + S - T, and sees the keys p - window … p; without a window,
    all keys up to p. T is at most S.

    Shapes:
        q: (T, D)
        k, v: (S, D)
        returns: output (T, D) and LSE (T,), float32
    """
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    lse = torch.empty(T, dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    window = S if window is None else window
    causal_kernel[grid](
        q, k, v, out, lse, T, S, D**-0.5, window, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out, lse


@triton.jit
def grouped_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, T, S, scale,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    H: tl.constexpr, GROUP: tl.constexpr,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Program (i, j) attends for tile i of the queries of head j % H in batch entry j // H."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    ### BEGIN SOLUTION
    batch = tl.program_id(1) // H
    head = tl.program_id(1) % H
    q_ptr += batch * q_batch + head * q_head
    k_ptr += batch * k_batch + head // GROUP * k_head
    v_ptr += batch * v_batch + head // GROUP * v_head
    out_ptr += tl.program_id(1) * T * D
    lse_ptr += tl.program_id(1) * T
    q = tl.load(q_ptr + t[:, None] * q_row + d[None, :], mask=t[:, None] < T, other=0.0)
    ### END SOLUTION
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    ### BEGIN SOLUTION
    unit = scale * 1.4426950408889634
    stop = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + S - T)
    ### END SOLUTION
    for first in range(0, stop, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        ### BEGIN SOLUTION
        k = tl.load(k_ptr + s[:, None] * k_row + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * v_row + d[None, :], mask=s[:, None] < S, other=0.0)
        seen = (s[None, :] <= t[:, None] + S - T) & (s[None, :] < S)
        scores = tl.where(seen, tl.dot(q, k.T) * unit, -float("inf"))
        new_max = tl.maximum(running_max, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_max[:, None])
        correction = tl.exp2(running_max - new_max)
        running_sum = running_sum * correction + tl.sum(weights, axis=1)
        accumulator = accumulator * correction[:, None] + tl.dot(weights.to(v.dtype), v)
        running_max = new_max
        ### END SOLUTION
    ### BEGIN SOLUTION
    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453
    tl.store(lse_ptr + t, lse, mask=t < T)
    ### END SOLUTION
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def grouped_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16, block_s: int = 16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention of a batch of heads; H / G query heads share a head of keys and values.

    Any strides, but those of the last axes are 1. T is at most S.

    Shapes:
        q: (B, H, T, D)
        k, v: (B, G, S, D)
        returns: output (B, H, T, D) and LSE (B, H, T), float32, without gaps
    """
    (B, H, T, D), (G, S) = q.shape, k.shape[1:3]
    out = torch.empty((B, H, T, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    ### BEGIN SOLUTION
    grid = (triton.cdiv(T, block_t), B * H)
    grouped_kernel[grid](
        q, k, v, out, lse, T, S, D**-0.5, *strides,
        H=H, GROUP=H // G, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )  # fmt: skip
    ### END SOLUTION
    return out, lse


def choose_tiles(width: int) -> tuple[int, int, int, int]:
    """Choose the tiles of ``causal_flash`` for float16 heads of width 64 or 128 on an H100.

    Returns:
        block_t, block_s, warps a program, stages of the loop's pipeline
    """
    return {64: (128, 64, 8, 3), 128: (128, 128, 8, 3)}[width]
