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
from attend_kernels.ops.selective_scan import tiles as configs

# Triton 3.9's interpreter takes no single condition, spread over a vector, for a mask.
INTERPRETED = tl.constexpr(fallback.interpreted())


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
