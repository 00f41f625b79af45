"""The kernel behind ``selective_scan_step``: a step of the recurrence, for decoding; needs Triton.

Equation and letters: see ``api``. A program owns BLOCK_C channels of one sequence with all their
states: it reads them, writes them anew and reads y from them on the way. Nothing is used twice, so
the time is that of moving the state twice. States and A are read as they lie; the new states lie
(B, N, C) in memory, as the scan leaves its last, so that neighbouring threads take neighbouring
channels.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.common.activations import sigmoid, step_size
from attend_kernels.common.launch import LOG2E, launch

TILE = 1_024  # numbers of the state a program owns: 8 a thread of 4 warps


@triton.jit
def selective_scan_step_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, d_ptr, z_ptr, bias_ptr, state_ptr, out_ptr, new_ptr,
    u_batch, delta_batch, b_batch, c_batch, z_batch, a_channel, a_state,
    state_batch, state_channel, state_state, blocks, C,
    N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, SOFTPLUS: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Write y and the new states of BLOCK_C channels."""
    pid = tl.program_id(0)
    channel = pid % blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    batch = (pid // blocks).to(tl.int64)
    n = tl.arange(0, BLOCK_N)
    live, real = channel < C, n < N
    both = real[:, None] & live[None, :]
    at = state_ptr + batch * state_batch + n[:, None] * state_state
    h = tl.load(at + channel[None, :] * state_channel, mask=both, other=0.0).to(WIDE)
    at = a_ptr + n[:, None] * a_state + channel[None, :] * a_channel
    rate = tl.load(at, mask=both, other=0.0).to(WIDE) * LOG2E  # exp(x) = exp2(x log2(e))
    u = tl.load(u_ptr + batch * u_batch + channel, mask=live, other=0.0).to(WIDE)
    raw = tl.load(delta_ptr + batch * delta_batch + channel, mask=live, other=0.0).to(WIDE)
    b = tl.load(b_ptr + batch * b_batch + n, mask=real, other=0.0).to(WIDE)
    c = tl.load(c_ptr + batch * c_batch + n, mask=real, other=0.0).to(WIDE)
    bias = 0.0
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + channel, mask=live, other=0.0).to(WIDE)
    delta = step_size(raw, bias, SOFTPLUS)
    h = tl.exp2(delta[None, :] * rate) * h + b[:, None] * (delta * u)[None, :]
    y = tl.sum(h * c[:, None], axis=0)
    if d_ptr is not None:
        y += tl.load(d_ptr + channel, mask=live, other=0.0).to(WIDE) * u
    if z_ptr is not None:
        z = tl.load(z_ptr + batch * z_batch + channel, mask=live, other=0.0).to(WIDE)
        y *= z * sigmoid(z)
    tl.store(out_ptr + batch * C + channel, y.to(out_ptr.dtype.element_ty), mask=live)
    tl.store(new_ptr + (batch * N + n[:, None]) * C + channel[None, :], h, mask=both)


def step(
    state: torch.Tensor,
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    z: torch.Tensor | None,
    bias: torch.Tensor | None,
    softplus: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel: (y, new state (B, C, N)). Last axes but A's and the state's are adjacent.

    Shapes: as ``selective_scan_step``.
    """
    B, C = u.shape
    N = a.shape[1]
    wide = torch.float64 if u.dtype == torch.float64 else torch.float32
    y = torch.empty((B, C), dtype=u.dtype, device=u.device)
    new = torch.empty((B, N, C), dtype=wide, device=u.device)
    settings = constants(N, softplus, wide)
    blocks = -(-C // settings["BLOCK_C"])
    launch(
        selective_scan_step_kernel, B * blocks, u, delta, a, b, c, d, z, bias, state, y, new,
        u.stride(0), delta.stride(0), b.stride(0), c.stride(0), 0 if z is None else z.stride(0),
        *a.stride(), *state.stride(), blocks, C, **settings,
    )  # fmt: skip
    return y, new.transpose(1, 2)


@cache
def constants(states: int, softplus: bool, wide: torch.dtype) -> dict[str, Any]:
    """Compile-time values for so many states a channel."""
    block = triton.next_power_of_2(states)
    return {
        "N": states,
        "BLOCK_N": block,
        "BLOCK_C": max(4, TILE // block),
        "SOFTPLUS": softplus,
        "WIDE": tl.float64 if wide == torch.float64 else tl.float32,
        "num_warps": 4,
    }
