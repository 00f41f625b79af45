"""The forward kernel behind ``block_sparse_attention``, and what the backward ones share with it.

Equations, letters and memory traffic: see ``api``. A program owns TILE queries of one head and
walks over the blocks of keys in its row's list. A block may be several tiles long. Scores live in
base 2, for ``exp2`` is one instruction on a GPU where ``exp`` is two.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices, fallback
from attend_kernels.common.blocks import load_part, store_part
from attend_kernels.common.launch import LN2, LOG2E, TRITON_TYPES, launch
from attend_kernels.common.scores import MASKED_SCORE


@triton.jit
def listed(list_ptr, number, RATIO: tl.constexpr):
    """The tile that stands at ``number`` in a list of blocks, each RATIO tiles long."""
    return tl.load(list_ptr + number // RATIO) * RATIO + number % RATIO


@triton.jit
def sees(t, s, T, S, CAUSAL: tl.constexpr):
    """Mask of the (query, key) pairs in a tile that exist and that causal order lets through."""
    seen = (t < T) & (s < S)
    if CAUSAL:
        seen &= s <= t + (S - T)
    return seen


@triton.jit
def block_sparse_forward_kernel(
    q_ptr, k_ptr, v_ptr, list_ptr, count_ptr, out_ptr, lse_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    out_batch, out_head, out_row, list_batch, list_head, list_row, count_batch, count_head,
    tiles, heads, T, S, scale,
    GROUP: tl.constexpr, RATIO: tl.constexpr, CAUSAL: tl.constexpr, TILE: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write TILE rows of O and of LSE."""
    pid = tl.program_id(0)
    tile = pid % tiles
    head = (pid // tiles % heads).to(tl.int64)
    batch = (pid // (tiles * heads)).to(tl.int64)
    row = tile // RATIO
    list_ptr += batch * list_batch + head * list_head + row * list_row
    count = tl.load(count_ptr + batch * count_batch + head * count_head + row)
    group = head // GROUP
    q_ptr += batch * q_batch + head * q_head
    k_ptr += batch * k_batch + group * k_head
    v_ptr += batch * v_batch + group * v_head
    first = tile * TILE
    t = first + tl.arange(0, TILE)
    q = load_part(q_ptr, first, q_row, T, TILE, D).to(DOT)
    output = tl.zeros((TILE, E), tl.float32)
    running_max = tl.full((TILE,), MASKED_SCORE, tl.float32)
    running_sum = tl.zeros((TILE,), tl.float32)
    for number in range(0, count * RATIO):
        at = listed(list_ptr, number, RATIO) * TILE
        k = load_part(k_ptr, at, k_row, S, TILE, D).to(DOT)
        x = tl.dot(q, k.T, input_precision=PRECISION) * (scale * LOG2E)
        seen = sees(t[:, None], at + tl.arange(0, TILE)[None, :], T, S, CAUSAL)
        x = tl.where(seen, x, MASKED_SCORE)
        new_max = tl.maximum(running_max, tl.max(x, axis=1))
        weights = tl.where(seen, tl.exp2(x - new_max[:, None]), 0.0)
        rescale = tl.exp2(running_max - new_max)
        running_sum = running_sum * rescale + tl.sum(weights, axis=1)
        v = load_part(v_ptr, at, v_row, S, TILE, E).to(DOT)
        output = output * rescale[:, None]
        output = tl.dot(weights.to(DOT), v, output, input_precision=PRECISION)
        running_max = new_max
    empty = running_sum == 0.0
    output = output / tl.where(empty, 1.0, running_sum)[:, None]
    lse = running_max * LN2 + tl.log(tl.where(empty, 1.0, running_sum))
    lse_ptr += (batch * heads + head) * T
    tl.store(lse_ptr + t, tl.where(empty, -float("inf"), lse), mask=t < T)
    out_ptr += batch * out_batch + head * out_head
    store_part(out_ptr, first, out_row, T, output, TILE, E)


def lists(mask: torch.Tensor, columns: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """For each row of blocks (or column) those it sees, in order, and how many: int32.

    What comes after these in a list is the others.
    """
    mask = (mask.mT if columns else mask).contiguous()
    order = torch.sort((~mask).to(torch.int8), dim=-1, stable=True).indices
    return order.to(torch.int32), mask.sum(dim=-1, dtype=torch.int32)


def strides(x: torch.Tensor, count: int) -> tuple[int, ...]:
    """The first strides, 0 for axes of 1, which stand for all."""
    return tuple(0 if n == 1 else s for n, s in zip(x.shape[:count], x.stride(), strict=False))


def constants(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block: int) -> dict[str, Any]:
    """Compile-time values of all the kernels but CAUSAL."""
    half = q.dtype in (torch.float16, torch.bfloat16)
    widen = fallback.interpreted() and half  # it multiplies bf16 as the integers that store it
    tf32 = q.dtype == torch.float32 and devices.tf32_allowed()
    width = max(q.shape[-1], v.shape[-1])
    # What the registers hold; fp32 products are single FMAs, whose factors lie there too.
    tile = (64 if width <= 128 else 32) if half else (32 if width <= 32 else 16)
    tile = min(block, tile)
    return {
        "GROUP": q.shape[1] // k.shape[1],
        "RATIO": block // tile,
        "TILE": tile,
        "D": q.shape[-1],
        "E": v.shape[-1],
        "DOT": tl.float32 if widen or not half else TRITON_TYPES[q.dtype],
        "PRECISION": "tf32" if tf32 or half else "ieee",
        "num_warps": 4,
        "num_stages": 2,
    }


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    block: int,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel: (O, LSE). Widths are powers of two, last axes have stride 1."""
    B, H, T, _ = q.shape
    like = torch.empty_like(q[..., :1]).expand(B, H, T, v.shape[-1])
    out = torch.empty_like(like)
    lse = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
    order, count = lists(mask, columns=False)
    fixed = constants(q, k, v, block)
    tiles = -(-T // fixed["TILE"])
    launch(
        block_sparse_forward_kernel, tiles * H * B, q, k, v, order, count, out, lse,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        *strides(order, 2), order.stride(2), *strides(count, 2),
        tiles, H, T, k.shape[2], scale, CAUSAL=causal, **fixed,
    )  # fmt: skip
    return out, lse
