"""The backward kernels behind ``block_sparse_attention``: one for dQ, one for dK and dV.

Equations, letters and memory traffic: see ``api``. P is made again from Q, K and the LSE. Products
that are needed transposed are computed so.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common.blocks import load_part, store_part
from attend_kernels.common.launch import LOG2E, launch
from attend_kernels.ops.block_sparse.forward import constants, listed, lists, sees, strides


@triton.jit
def block_sparse_queries_kernel(
    grad_ptr, q_ptr, k_ptr, v_ptr, list_ptr, count_ptr, lse_ptr, delta_ptr, dq_ptr,
    grad_batch, grad_head, grad_row, q_batch, q_head, q_row, k_batch, k_head, k_row,
    v_batch, v_head, v_row, dq_batch, dq_head, dq_row,
    list_batch, list_head, list_row, count_batch, count_head,
    tiles, heads, T, S, scale,
    GROUP: tl.constexpr, RATIO: tl.constexpr, CAUSAL: tl.constexpr, TILE: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write TILE rows of dQ."""
    pid = tl.program_id(0)
    tile = pid % tiles
    head = (pid // tiles % heads).to(tl.int64)
    batch = (pid // (tiles * heads)).to(tl.int64)
    row = tile // RATIO
    list_ptr += batch * list_batch + head * list_head + row * list_row
    count = tl.load(count_ptr + batch * count_batch + head * count_head + row)
    k_ptr += batch * k_batch + head // GROUP * k_head
    v_ptr += batch * v_batch + head // GROUP * v_head
    first = tile * TILE
    t = first + tl.arange(0, TILE)
    rows = (batch * heads + head) * T
    lse = tl.load(lse_ptr + rows + t, mask=t < T, other=0.0) * LOG2E
    delta = tl.load(delta_ptr + rows + t, mask=t < T, other=0.0)
    q = load_part(q_ptr + batch * q_batch + head * q_head, first, q_row, T, TILE, D).to(DOT)
    grad_ptr += batch * grad_batch + head * grad_head
    grad = load_part(grad_ptr, first, grad_row, T, TILE, E).to(DOT)
    dq = tl.zeros((TILE, D), tl.float32)
    for number in range(0, count * RATIO):
        at = listed(list_ptr, number, RATIO) * TILE
        k = load_part(k_ptr, at, k_row, S, TILE, D).to(DOT)
        v = load_part(v_ptr, at, v_row, S, TILE, E).to(DOT)
        x = tl.dot(q, k.T, input_precision=PRECISION) * (scale * LOG2E)
        seen = sees(t[:, None], at + tl.arange(0, TILE)[None, :], T, S, CAUSAL)
        weights = tl.where(seen, tl.exp2(tl.where(seen, x - lse[:, None], 0.0)), 0.0)
        dx = weights * (tl.dot(grad, v.T, input_precision=PRECISION) - delta[:, None])
        dq = tl.dot(dx.to(DOT), k, dq, input_precision=PRECISION)
    store_part(dq_ptr + batch * dq_batch + head * dq_head, first, dq_row, T, dq * scale, TILE, D)


@triton.jit
def block_sparse_keys_kernel(
    grad_ptr, q_ptr, k_ptr, v_ptr, list_ptr, count_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    grad_batch, grad_head, grad_row, q_batch, q_head, q_row, k_batch, k_head, k_row,
    v_batch, v_head, v_row, dk_batch, dk_head, dk_row, dv_batch, dv_head, dv_row,
    list_batch, list_head, list_row, count_batch, count_head,
    tiles, groups, T, S, scale,
    GROUP: tl.constexpr, RATIO: tl.constexpr, CAUSAL: tl.constexpr, TILE: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write TILE rows of dK and dV: what the queries of all heads of a group say about them."""
    pid = tl.program_id(0)
    tile = pid % tiles
    group = (pid // tiles % groups).to(tl.int64)
    batch = (pid // (tiles * groups)).to(tl.int64)
    first = tile * TILE
    s = first + tl.arange(0, TILE)
    k = load_part(k_ptr + batch * k_batch + group * k_head, first, k_row, S, TILE, D).to(DOT)
    v = load_part(v_ptr + batch * v_batch + group * v_head, first, v_row, S, TILE, E).to(DOT)
    dk = tl.zeros((TILE, D), tl.float32)
    dv = tl.zeros((TILE, E), tl.float32)
    for member in range(0, GROUP):
        head = group * GROUP + member
        rows = (batch * groups * GROUP + head) * T
        q_at = q_ptr + batch * q_batch + head * q_head
        grad_at = grad_ptr + batch * grad_batch + head * grad_head
        list_at = list_ptr + batch * list_batch + head * list_head + tile // RATIO * list_row
        count_at = count_ptr + batch * count_batch + head * count_head + tile // RATIO
        for number in range(0, tl.load(count_at) * RATIO):
            at = listed(list_at, number, RATIO) * TILE
            t = at + tl.arange(0, TILE)
            lse = tl.load(lse_ptr + rows + t, mask=t < T, other=0.0) * LOG2E
            delta = tl.load(delta_ptr + rows + t, mask=t < T, other=0.0)
            q = load_part(q_at, at, q_row, T, TILE, D).to(DOT)
            grad = load_part(grad_at, at, grad_row, T, TILE, E).to(DOT)
            x = tl.dot(k, q.T, input_precision=PRECISION) * (scale * LOG2E)  # (keys, queries)
            seen = sees(t[None, :], s[:, None], T, S, CAUSAL)
            weights = tl.where(seen, tl.exp2(tl.where(seen, x - lse[None, :], 0.0)), 0.0)
            dv = tl.dot(weights.to(DOT), grad, dv, input_precision=PRECISION)
            dx = weights * (tl.dot(v, grad.T, input_precision=PRECISION) - delta[None, :])
            dk = tl.dot(dx.to(DOT), q, dk, input_precision=PRECISION)
    store_part(dk_ptr + batch * dk_batch + group * dk_head, first, dk_row, S, dk * scale, TILE, D)
    store_part(dv_ptr + batch * dv_batch + group * dv_head, first, dv_row, S, dv, TILE, E)


def backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    block: int,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Launch both kernels: (dQ, dK, dV). Last axes have stride 1, lse and delta are contiguous."""
    (B, H, T, _), (_, G, S, _) = q.shape, k.shape
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    fixed = constants(q, k, v, block)
    given = [stride for x in (grad, q, k, v) for stride in x.stride()[:3]]
    order, count = lists(mask, columns=False)
    tiles = -(-T // fixed["TILE"])
    launch(
        block_sparse_queries_kernel, tiles * H * B, grad, q, k, v, order, count, lse, delta, dq,
        *given, *dq.stride()[:3], *strides(order, 2), order.stride(2), *strides(count, 2),
        tiles, H, T, S, scale, CAUSAL=causal, **fixed,
    )  # fmt: skip
    if fixed["TILE"] * max(fixed["D"], fixed["E"]) > 64 * 64:
        fixed["num_warps"] = 8  # dK and dV are two such tiles
    order, count = lists(mask, columns=True)
    tiles = -(-S // fixed["TILE"])
    launch(
        block_sparse_keys_kernel, tiles * G * B, grad, q, k, v, order, count, lse, delta, dk, dv,
        *given, *dk.stride()[:3], *dv.stride()[:3],
        *strides(order, 2), order.stride(2), *strides(count, 2),
        tiles, G, T, S, scale, CAUSAL=causal, **fixed,
    )  # fmt: skip
    return dq, dk, dv
