"""What the kernels of the selective scan share; needs Triton."""

# ruff: noqa: N803  # axis letters and compile-time values are written in capitals
# ruff: noqa: RUF005  # Triton has no starred tuples
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.common import fallback
from attend_kernels.common.launch import LOG2E
from attend_kernels.ops.selective_scan import tiles as configs

# Triton 3.9's interpreter takes no single condition, spread over a vector, for a mask.
INTERPRETED = tl.constexpr(fallback.interpreted())
LINEAR_FROM = tl.constexpr(20.0)  # beyond it softplus(x) is x to the last bit of fp32


@triton.jit
def load_rows(ptr, first, row_stride, last, live, STEPS: tl.constexpr, WIDE: tl.constexpr):
    """Rows first, first + 1, ... as a tuple of STEPS vectors; beyond the last row, that again."""
    rows = ()
    ptr += tl.cast(first, tl.int64) * row_stride
    for i in tl.static_range(STEPS):
        at = ptr + tl.minimum(i, last - first) * row_stride
        row = tl.load(at) if live is None else tl.load(at, mask=live, other=0.0)
        rows = rows + (row.to(WIDE),)
    return rows


@triton.jit
def pull(rows, ptr, stride, live, WIDE: tl.constexpr):
    """Load one more row into a tuple of them; also return where the next one lies."""
    row = tl.load(ptr) if live is None else tl.load(ptr, mask=live, other=0.0)
    return rows + (row.to(WIDE),), ptr + stride


@triton.jit
def where_before(time, stop, vector):
    """Mask of the shape of ``vector``: whether ``time``, one number, is before ``stop``."""
    return tl.zeros_like(vector) + time < stop


@triton.jit
def sigmoid(x):
    """Logistic function."""
    return 1.0 / (1.0 + tl.exp2(-x * LOG2E))


@triton.jit
def step_size(raw, bias, SOFTPLUS: tl.constexpr):
    """Return softplus(raw + bias), or the bare sum; log(1 + e) keeps its digits for small e."""
    x = raw + bias
    if SOFTPLUS:
        e = tl.exp2(tl.minimum(x, LINEAR_FROM) * LOG2E)
        w = 1.0 + e  # log(w) is off by e's rounding in w; e / (w - 1) is off by as much
        log = tl.where(w == 1.0, e, tl.log(w) * (e / tl.where(w == 1.0, 1.0, w - 1.0)))
        x = tl.where(x > LINEAR_FROM, x, log)
    return x


def widened(x: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    """Cast B or C (B, T, N) to the dtype of the state, once for all channels.

    Left to the kernel, it would be 2 N conversions a warp and step beside about 6 N other things.
    """
    return x.to(wide)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """Lay A or states (..., C, N) out as the kernels hold them, (..., N, C), in a copy if need be.

    That is N numbers a channel once a call. The last state of another call lies so already.
    """
    return x.transpose(-1, -2).contiguous()


def constants(
    n: int, config: configs.Config, softplus: bool, wide: torch.dtype = torch.float32
) -> dict[str, Any]:
    """Compile-time values of a scan kernel."""
    return {
        "N": n,
        "BLOCK_N": triton.next_power_of_2(n),
        "BLOCK_C": config.block_c,
        "STEPS": config.steps,
        "CHUNK": configs.CHUNK,
        "SOFTPLUS": softplus,
        "WIDE": tl.float64 if wide == torch.float64 else tl.float32,
        "num_warps": config.warps,
    }
