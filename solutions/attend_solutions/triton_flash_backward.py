"""Chapter 19: the gradient of flash attention in Triton; each kernel with its launch.

The forward pass kept the output O and, for each query, the LSE. With dO, the gradient of a loss
with respect to O, tile by tile (chapter 16 has the same in NumPy):

    δ  = rowsum(dO ∘ O)
    P  = exp(scale · Q Kᵀ - LSE)        weights, made again
    dX = P ∘ (dO Vᵀ - δ)                gradient of the scaled scores
    dV = Pᵀ dO,   dK = scale · dXᵀ Q,   dQ = scale · dX K

dV and dK are sums over queries, dQ is a sum over keys. Two passes give each program the rows that
it sums; one pass shares the rows of dQ among programs, which then add with atomic operations.

Letters:
    H    heads, of all texts of a batch   D    width of a head: 16, 32, 64, 128
    T    queries                          S    keys, and values

In the kernels ``t``, ``s`` and ``d`` are the queries, keys and columns of a tile. All tensors lie
without gaps; sums and results are float32, whatever the type of q, k, v and dO. Causal: query t
stands at the place t + S - T and sees the keys up to there; T is at most S.

Sources: Dao 2023, "FlashAttention-2", algorithm 2; Dao et al. 2022, "FlashAttention", algorithm 4.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIncompatibleMethodOverride=false
# (a kernel's constants are plain numbers where it is launched; a Function's methods have their own
# arguments)

# ruff: noqa: N806  # axis letters are capitals

from typing import Any

import torch

from attend_solutions.interpreted import tl, triton
from attend_solutions.triton_flash import causal_kernel, lse_kernel


def forward_heads(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, block_t: int = 64, block_s: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Attention of each head by chapter 18's kernels, with any scale; 1/√D where there is none.

    Shapes:
        q: (H, T, D)
        k, v: (H, S, D)
        returns: output (H, T, D) and LSE (H, T), float32
    """
    (H, T, D), S = q.shape, k.shape[1]
    scale = D**-0.5 if scale is None else scale
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out = torch.empty((H, T, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((H, T), dtype=torch.float32, device=q.device)
    grid, blocks = (triton.cdiv(T, block_t),), {"BLOCK_T": block_t, "BLOCK_S": block_s}
    for head in range(H):
        tensors = q[head], k[head], v[head], out[head], lse[head]
        if causal:
            causal_kernel[grid](*tensors, T, S, scale, S, D=D, **blocks)
        else:
            lse_kernel[grid](*tensors, T, S, scale, D=D, **blocks)
    return out, lse


@triton.jit
def delta_kernel(
    out_ptr, d_out_ptr, delta_ptr, T, D: tl.constexpr, BLOCK_T: tl.constexpr
):  # fmt: skip
    """Program (i, h) writes delta for tile i of head h's queries."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    ### BEGIN SOLUTION
    row = tl.program_id(1) * T + t  # of all heads' rows, one under the other
    places = row[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + places, mask=t[:, None] < T, other=0.0)
    d_out = tl.load(d_out_ptr + places, mask=t[:, None] < T, other=0.0)
    delta = tl.sum(out.to(tl.float32) * d_out.to(tl.float32), axis=1)
    tl.store(delta_ptr + row, delta, mask=t < T)
    ### END SOLUTION


def flash_delta(out: torch.Tensor, d_out: torch.Tensor, block_t: int = 64) -> torch.Tensor:
    """For each query, the sum over the columns of output times gradient.

    Shapes:
        out, d_out: (H, T, D)
        returns: (H, T), float32
    """
    H, T, D = out.shape
    delta = torch.empty((H, T), dtype=torch.float32, device=out.device)
    ### BEGIN SOLUTION
    grid = (triton.cdiv(T, block_t), H)
    ### END SOLUTION
    delta_kernel[grid](out, d_out, delta, T, D=D, BLOCK_T=block_t)
    return delta


@triton.jit
def keys_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, T, S, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Program (i, h) sums dK and dV for tile i of head h's keys, over tiles of queries."""
    s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    keys = (s + tl.program_id(1) * S)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + keys, mask=(s < S)[:, None], other=0.0)
    v = tl.load(v_ptr + keys, mask=(s < S)[:, None], other=0.0)
    dk = tl.zeros((BLOCK_S, D), tl.float32)
    dv = tl.zeros((BLOCK_S, D), tl.float32)
    start = 0
    ### BEGIN SOLUTION
    if CAUSAL:  # the first query that sees the tile's first key stands at its place
        start = tl.maximum(0, tl.program_id(0) * BLOCK_S + T - S) // BLOCK_T * BLOCK_T
    ### END SOLUTION
    for first in range(start, T, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        row = t + tl.program_id(1) * T
        rows = row[:, None] * D + d[None, :]
        q = tl.load(q_ptr + rows, mask=(t < T)[:, None], other=0.0)
        d_out = tl.load(d_out_ptr + rows, mask=(t < T)[:, None], other=0.0)
        lse = tl.load(lse_ptr + row, t < T, other=0.0)
        delta = tl.load(delta_ptr + row, t < T, other=0.0)
        ### BEGIN SOLUTION
        scores = tl.dot(k, q.T) * scale  # (BLOCK_S, BLOCK_T): rows are keys
        weights = tl.exp(scores - lse[None, :])
        if CAUSAL:
            weights = tl.where(s[:, None] <= t[None, :] + S - T, weights, 0.0)
        dv += tl.dot(weights.to(d_out.dtype), d_out)
        d_weights = tl.dot(v, d_out.T)
        d_scores = weights * (d_weights - delta[None, :])
        dk += tl.dot(d_scores.to(q.dtype), q)
    dk *= scale
    ### END SOLUTION
    tl.store(dk_ptr + keys, dk, mask=s[:, None] < S)
    tl.store(dv_ptr + keys, dv, mask=s[:, None] < S)


def grad_keys_values(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_out: torch.Tensor,
    lse: torch.Tensor, delta: torch.Tensor, causal: bool = False,
    scale: float | None = None, block_t: int = 64, block_s: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Give the gradients of keys and values, a program for each tile of keys.

    Shapes:
        q, d_out: (H, T, D)
        k, v: (H, S, D)
        lse, delta: (H, T)
        returns: dK and dV, (H, S, D), float32
    """
    (H, T, D), S = q.shape, k.shape[1]
    dk, dv = (torch.empty((H, S, D), dtype=torch.float32, device=q.device) for _ in range(2))
    grid = (triton.cdiv(S, block_s), H)
    keys_kernel[grid](
        q, k, v, d_out, lse, delta, dk, dv, T, S, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )  # fmt: skip
    return dk, dv


@triton.jit
def queries_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse_ptr, delta_ptr, dq_ptr, T, S, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Program (i, h) sums dQ for tile i of head h's queries, over tiles of keys."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    ### BEGIN SOLUTION
    row = tl.program_id(1) * T + t
    queries = row[:, None] * D + d[None, :]
    q = tl.load(q_ptr + queries, mask=t[:, None] < T, other=0.0)
    d_out = tl.load(d_out_ptr + queries, mask=t[:, None] < T, other=0.0)
    lse = tl.load(lse_ptr + row, mask=t < T, other=0.0)
    delta = tl.load(delta_ptr + row, mask=t < T, other=0.0)
    dq = tl.zeros((BLOCK_T, D), tl.float32)
    stop = S
    if CAUSAL:
        stop = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + S - T)
    for first in range(0, stop, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        keys = (tl.program_id(1) * S + s)[:, None] * D + d[None, :]
        k = tl.load(k_ptr + keys, mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + keys, mask=s[:, None] < S, other=0.0)
        scores = tl.dot(q, k.T) * scale  # (BLOCK_T, BLOCK_S): rows are queries
        seen = s[None, :] < S
        if CAUSAL:
            seen = seen & (s[None, :] <= t[:, None] + S - T)
        weights = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0)
        d_scores = weights * (tl.dot(d_out, v.T) - delta[:, None])
        dq += tl.dot(d_scores.to(k.dtype), k)
    tl.store(dq_ptr + queries, dq * scale, mask=t[:, None] < T)
    ### END SOLUTION


def grad_queries(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_out: torch.Tensor,
    lse: torch.Tensor, delta: torch.Tensor, causal: bool = False,
    scale: float | None = None, block_t: int = 64, block_s: int = 64,
) -> torch.Tensor:  # fmt: skip
    """Give the gradient of queries, a program for each tile of queries.

    Shapes:
        q, d_out: (H, T, D)
        k, v: (H, S, D)
        lse, delta: (H, T)
        returns: dQ, (H, T, D), float32
    """
    (H, T, D), S = q.shape, k.shape[1]
    dq = torch.empty((H, T, D), dtype=torch.float32, device=q.device)
    ### BEGIN SOLUTION
    grid = (triton.cdiv(T, block_t), H)
    ### END SOLUTION
    queries_kernel[grid](
        q, k, v, d_out, lse, delta, dq, T, S, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )  # fmt: skip
    return dq


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """Attention whose gradient is made by the kernels above.

    Shapes:
        q: (H, T, D)
        k, v: (H, S, D)
        returns: (H, T, D), float32
    """

    class FlashFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
            ### BEGIN SOLUTION
            q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
            out, lse = forward_heads(q, k, v, causal, scale)
            ctx.save_for_backward(q, k, v, out, lse)
            return out
            ### END SOLUTION

        @staticmethod
        def backward(ctx: Any, d_out: Any) -> Any:
            ### BEGIN SOLUTION
            q, k, v, out, lse = ctx.saved_tensors
            d_out = d_out.contiguous().to(q.dtype)
            delta = flash_delta(out, d_out)
            dk, dv = grad_keys_values(q, k, v, d_out, lse, delta, causal, scale)
            dq = grad_queries(q, k, v, d_out, lse, delta, causal, scale)
            return dq, dk, dv
            ### END SOLUTION

    return FlashFunction.apply(q, k, v)


def gradient_gaps(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_out: torch.Tensor,
    gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    directions: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    causal: bool = False, scale: float | None = None, step: float = 2**-5,
) -> tuple[float, float, float]:  # fmt: skip
    """How far the gradients of q, k and v are from slopes along one direction each.

    The loss is the sum of ``d_out`` times the output of ``forward_heads``.

    Shapes:
        q, d_out: (H, T, D)
        k, v: (H, S, D)
        gradients, directions: three tensors, of the shapes of q, k and v
        returns: for each of q, k and v the slope by gradient minus the slope by differences
    """
    ### BEGIN SOLUTION
    inputs, gaps = [q, k, v], []
    for i in range(3):
        losses = []
        for sign in (1, -1):
            moved = [x + sign * step * directions[i] if i == j else x for j, x in enumerate(inputs)]
            out, _ = forward_heads(*moved, causal, scale)
            losses.append((out.double() * d_out.double()).sum())
        slope = (losses[0] - losses[1]) / (2 * step)
        gaps.append(float((gradients[i].double() * directions[i].double()).sum() - slope))
    return tuple(gaps)
    ### END SOLUTION


@triton.jit
def one_pass_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, T, S, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Program (i, h) sums dK and dV for tile i of head h's keys, and adds its share to dQ."""
    s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    keys = (s + tl.program_id(1) * S)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + keys, mask=(s < S)[:, None], other=0.0)
    v = tl.load(v_ptr + keys, mask=(s < S)[:, None], other=0.0)
    dk = tl.zeros((BLOCK_S, D), tl.float32)
    dv = tl.zeros((BLOCK_S, D), tl.float32)
    start = 0
    if CAUSAL:
        start = tl.maximum(tl.program_id(0) * BLOCK_S - (S - T), 0) // BLOCK_T * BLOCK_T
    for first in range(start, T, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        row = t + tl.program_id(1) * T
        rows = row[:, None] * D + d[None, :]
        q = tl.load(q_ptr + rows, mask=(t < T)[:, None], other=0.0)
        do = tl.load(d_out_ptr + rows, mask=(t < T)[:, None], other=0.0)
        lse = tl.load(lse_ptr + row, t < T, other=0.0)[None, :]
        delta = tl.load(delta_ptr + row, t < T, other=0.0)[None, :]
        hidden = (s >= S)[:, None]
        if CAUSAL:
            hidden |= s[:, None] > (t + S - T)[None, :]
        p = tl.where(hidden, 0.0, tl.exp(tl.dot(k, q.T) * scale - lse))
        dv = tl.dot(p.to(do.dtype), do, dv)
        dx = p * (tl.dot(v, do.T) - delta)
        dk = tl.dot(dx.to(q.dtype), q, dk)
        ### BEGIN SOLUTION
        share = tl.dot(k.T, dx.to(k.dtype)) * scale  # (D, BLOCK_T)
        tl.atomic_add(dq_ptr + row[None, :] * D + d[:, None], share, mask=t[None, :] < T)
        ### END SOLUTION
    tl.store(dk_ptr + keys, dk * scale, mask=s[:, None] < S)
    tl.store(dv_ptr + keys, dv, mask=s[:, None] < S)


def one_pass(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_out: torch.Tensor,
    lse: torch.Tensor, delta: torch.Tensor, causal: bool = False,
    scale: float | None = None, block_t: int = 64, block_s: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Give all three gradients in one launch, a program for each tile of keys.

    Shapes:
        q, d_out: (H, T, D)
        k, v: (H, S, D)
        lse, delta: (H, T)
        returns: dQ (H, T, D), dK and dV (H, S, D), float32
    """
    (H, T, D), S = q.shape, k.shape[1]
    dk, dv = (torch.empty((H, S, D), dtype=torch.float32, device=q.device) for _ in range(2))
    ### BEGIN SOLUTION
    dq = torch.zeros((H, T, D), dtype=torch.float32, device=q.device)
    ### END SOLUTION
    grid = (triton.cdiv(S, block_s), H)
    one_pass_kernel[grid](
        q, k, v, d_out, lse, delta, dq, dk, dv, T, S, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )  # fmt: skip
    return dq, dk, dv
