"""The kernel behind ``causal_conv1d_step``: one step, for decoding; needs Triton.

Equation and letters: see ``api``. A program owns BLOCK_C channels of one sequence. It reads their
last K - 1 inputs, writes y, and the inputs moved on by one: one launch where slicing and copying
the state beside the convolution would be three.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes Triton's ranges for functions that never return:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.common.launch import LOG2E, launch

BLOCK_C = 256  # channels a program: two a thread of 4 warps


@triton.jit
def conv1d_step_kernel(
    x_ptr, w_ptr, b_ptr, state_ptr, out_ptr, new_ptr,
    x_batch, w_channel, w_tap, state_batch, state_channel, state_tap, blocks, C,
    K: tl.constexpr, SILU: tl.constexpr, WIDE: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_C numbers of y, and their inputs for the next step."""
    pid = tl.program_id(0)
    channel = pid % blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    batch = (pid // blocks).to(tl.int64)
    live = channel < C
    state_ptr += batch * state_batch + channel * state_channel
    w_ptr += channel * w_channel
    new_ptr += (batch * C + channel) * (K - 1)
    kind = new_ptr.dtype.element_ty
    x = tl.load(x_ptr + batch * x_batch + channel, mask=live, other=0.0)
    y = tl.load(w_ptr + (K - 1) * w_tap, mask=live, other=0.0).to(WIDE) * x.to(WIDE)
    for k in tl.static_range(K - 1):
        past = tl.load(state_ptr + k * state_tap, mask=live, other=0.0)
        y += tl.load(w_ptr + k * w_tap, mask=live, other=0.0).to(WIDE) * past.to(WIDE)
        if k > 0:
            tl.store(new_ptr + (k - 1), past.to(kind), mask=live)
    if K > 1:
        tl.store(new_ptr + (K - 2), x.to(kind), mask=live)
    if b_ptr is not None:
        y += tl.load(b_ptr + channel, mask=live, other=0.0).to(WIDE)
    if SILU:
        y = y / (1.0 + tl.exp2(-y * LOG2E))
    tl.store(out_ptr + batch * C + channel, y.to(out_ptr.dtype.element_ty), mask=live)


def step(
    state: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, silu: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel: (y, new state). x and b have adjacent last axes.

    Shapes: as ``causal_conv1d_step``.
    """
    B, C = x.shape
    K = w.shape[1]
    y = torch.empty((B, C), dtype=x.dtype, device=x.device)
    new = torch.empty((B, C, K - 1), dtype=x.dtype, device=x.device)
    blocks = -(-C // BLOCK_C)
    launch(
        conv1d_step_kernel, B * blocks, x, w, b, state, y, new,
        x.stride(0), *w.stride(), *state.stride(), blocks, C, **constants(K, silu, x.dtype),
    )  # fmt: skip
    return y, new


@cache
def constants(taps: int, silu: bool, dtype: torch.dtype) -> dict[str, Any]:
    """Compile-time values for so many taps."""
    wide = tl.float64 if dtype == torch.float64 else tl.float32
    return {"K": taps, "SILU": silu, "WIDE": wide, "BLOCK_C": BLOCK_C, "num_warps": 4}
