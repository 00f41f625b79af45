"""The kernel behind ``apply_rope`` and its launcher; needs Triton.

Equations, letters and memory traffic: see ``api``. One program turns ``TOKENS``
tokens of ``HEADS`` heads: it reads their cosines and sines once and uses them for every head.
The gradient is the same kernel with the angle negated.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

TILE = 2_048  # elements of one head a program holds at a time
HEADS = 4  # heads sharing one read of the table; more would leave small batches too few programs


@triton.jit
def rope_kernel(
    x_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    out_ptr,
    n_heads,
    n_tokens,
    n_positions,
    half,
    head_dim,
    x_batch_stride,
    x_head_stride,
    x_token_stride,
    x_stride,
    out_batch_stride,
    out_head_stride,
    out_token_stride,
    out_stride,
    positions_batch_stride,
    positions_stride,
    INVERSE: tl.constexpr,  # noqa: N803  # Triton's habit: compile-time values in capitals
    INTERLEAVED: tl.constexpr,  # noqa: N803
    HAS_POSITIONS: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    HEADS: tl.constexpr,  # noqa: N803
    PAIRS: tl.constexpr,  # noqa: N803
    REST: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Rotate the pairs of ``TOKENS`` tokens by their angles; copy the dimensions behind them."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)[:, None]
    batch = tl.program_id(2).to(tl.int64)
    pair = tl.arange(0, PAIRS)[None, :]
    live_token = token < n_tokens
    live = live_token & (pair < half)
    position = token
    if HAS_POSITIONS:
        at = positions_ptr + batch * positions_batch_stride + token * positions_stride
        position = tl.load(at, mask=live_token, other=0).to(tl.int64)
    # A position outside the table must not read other memory; NaN says so in the result.
    known = live & (position >= 0) & (position < n_positions)
    cos = tl.load(cos_ptr + position * half + pair, mask=known, other=float("nan"))
    sin = tl.load(sin_ptr + position * half + pair, mask=known, other=float("nan"))
    cos, sin = cos.to(ACCUMULATE), sin.to(ACCUMULATE)
    if INVERSE:
        sin = -sin
    x_token = x_ptr + batch * x_batch_stride + token * x_token_stride
    out_token = out_ptr + batch * out_batch_stride + token * out_token_stride
    # Unrolled, so that the reads of all heads are in flight together.
    for step in tl.static_range(HEADS):  # pyright: ignore[reportGeneralTypeIssues]
        head = (tl.program_id(1).to(tl.int64) * HEADS + step + tl.arange(0, 1))[:, None]
        x_head = x_token + head * x_head_stride
        out_head = out_token + head * out_head_stride
        live_head = live & (head < n_heads)
        if INTERLEAVED:
            # Neighbours are read as one tile and taken apart: two strided reads would fetch
            # every line twice.
            member = 2 * pair[:, :, None] + tl.arange(0, 2)[None, None, :]
            live_pair = live_head[:, :, None] & (member >= 0)
            x = tl.load(x_head[:, :, None] + member * x_stride, mask=live_pair, other=0.0)
            first, second = tl.split(x.to(ACCUMULATE))
            out = tl.join(first * cos - second * sin, second * cos + first * sin)
            out = out.to(out_ptr.dtype.element_ty)
            tl.store(out_head[:, :, None] + member * out_stride, out, mask=live_pair)
        else:
            other = pair + half
            first = tl.load(x_head + pair * x_stride, mask=live_head, other=0.0).to(ACCUMULATE)
            second = tl.load(x_head + other * x_stride, mask=live_head, other=0.0).to(ACCUMULATE)
            out = (first * cos - second * sin).to(out_ptr.dtype.element_ty)
            tl.store(out_head + pair * out_stride, out, mask=live_head)
            out = (second * cos + first * sin).to(out_ptr.dtype.element_ty)
            tl.store(out_head + other * out_stride, out, mask=live_head)
        if REST > 0:
            behind = 2 * half + tl.arange(0, REST)[None, :]
            live_rest = live_token & (behind < head_dim) & (head < n_heads)
            rest = tl.load(x_head + behind * x_stride, mask=live_rest, other=0.0)
            tl.store(out_head + behind * out_stride, rest, mask=live_rest)


def rotate(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> torch.Tensor:
    """Rotate ``x (B, H, T, D)``; the result has the memory layout of ``x`` where x is dense."""
    batch, heads, tokens, head_dim = x.shape
    cos, sin = cos.contiguous(), sin.contiguous()
    out = torch.empty_like(x)
    half = cos.shape[-1]
    where, batch_stride, stride = cos, 0, 1  # cos: never read
    if positions is not None:
        where, stride = positions, positions.stride(-1)
        batch_stride = positions.stride(0) if positions.dim() == 2 else 0
    has = positions is not None
    settings = _settings(half, head_dim, x.dtype, inverse, interleaved, has)
    kernel: Any = rope_kernel
    grid = (-(-tokens // settings["TOKENS"]), -(-heads // HEADS), batch)
    with torch.cuda.device_of(x):  # the launch goes to the current device, not to the tensor's
        kernel[grid](
            x, cos, sin, where, out,
            heads, tokens, cos.shape[0], half, head_dim,
            *x.stride(), *out.stride(), batch_stride, stride, **settings,
        )  # fmt: skip
    return out


@cache
def _settings(
    half: int, head_dim: int, dtype: torch.dtype, inverse: bool, interleaved: bool, has: bool
) -> dict[str, Any]:
    """Every compile-time value of a launch."""
    options = {"INVERSE": inverse, "INTERLEAVED": interleaved, "HAS_POSITIONS": has}
    return config(half, head_dim, dtype) | options


def config(half: int, head_dim: int, dtype: torch.dtype) -> dict[str, Any]:
    """Pick the compile-time values for ``half`` pairs in heads of ``head_dim``."""
    pairs = triton.next_power_of_2(half)
    rest = head_dim - 2 * half
    return {
        "TOKENS": max(1, min(64, TILE // (2 * pairs))),
        "HEADS": HEADS,
        "PAIRS": pairs,
        "REST": triton.next_power_of_2(rest) if rest else 0,
        "ACCUMULATE": tl.float64 if dtype == torch.float64 else tl.float32,
        "num_warps": 4,
    }
