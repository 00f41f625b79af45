"""The kernel behind ``ssd_step``: one step of the recurrence for decoding.

Equation and letters: see ``api``. A program owns BLOCK_P rows of one head's
state: it reads them, writes them anew and reads y from them on the way. Nothing is reused, so the
time is that of moving the state twice.
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

from attend_kernels.common.activations import step_size
from attend_kernels.common.launch import launch

TILE = 2_048  # numbers of the state a program owns: 16 a thread of 4 warps


@triton.jit
def ssd_step_kernel(
    x_ptr, state_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, d_ptr, bias_ptr, y_ptr, new_ptr,
    x_batch, x_head, dt_batch, dt_head, b_batch, b_group, c_batch, c_group,
    heads, P, N,
    GROUP: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr, SOFTPLUS: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_P numbers of y and as many rows of the new state."""
    blocks = tl.cdiv(P, BLOCK_P)
    pid = tl.program_id(0)
    p = pid % blocks * BLOCK_P + tl.arange(0, BLOCK_P)
    head = (pid // blocks % heads).to(tl.int64)
    batch = (pid // (blocks * heads)).to(tl.int64)
    n = tl.arange(0, BLOCK_N)
    row = batch * heads + head
    at = row * P * N + p[:, None] * N + n[None, :]
    real = (p < P)[:, None] & (n < N)[None, :]
    state = tl.load(state_ptr + at, mask=real, other=0.0).to(tl.float32)
    dt = tl.load(dt_ptr + batch * dt_batch + head * dt_head).to(tl.float32)
    bias = 0.0
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + head).to(tl.float32)
    dt = step_size(dt, bias, SOFTPLUS)
    x = tl.load(x_ptr + batch * x_batch + head * x_head + p, mask=p < P, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + batch * b_batch + head // GROUP * b_group + n, mask=n < N, other=0.0)
    c = tl.load(c_ptr + batch * c_batch + head // GROUP * c_group + n, mask=n < N, other=0.0)
    state *= tl.exp(dt * tl.load(a_ptr + head).to(tl.float32))
    state += (dt * x)[:, None] * b.to(tl.float32)[None, :]
    tl.store(new_ptr + at, state, mask=real)
    y = tl.sum(state * c.to(tl.float32)[None, :], axis=1)
    if d_ptr is not None:
        y += tl.load(d_ptr + head).to(tl.float32) * x
    tl.store(y_ptr + row * P + p, y.to(y_ptr.dtype.element_ty), mask=p < P)


def step(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    bias: torch.Tensor | None,
    softplus: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel: (y, new state). x, B and C have adjacent last axes, the state is whole."""
    batch, H, P = x.shape
    groups, N = B.shape[1:]
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    new = torch.empty(state.shape, dtype=torch.float32, device=x.device)
    settings = constants(H // groups, P, N, softplus)
    blocks = -(-P // settings["BLOCK_P"])
    launch(
        ssd_step_kernel, batch * H * blocks, x, state, dt, A, B, C, D, bias, y, new,
        *x.stride()[:2], *dt.stride(), *B.stride()[:2], *C.stride()[:2], H, P, N, **settings,
    )  # fmt: skip
    return y, new


@cache
def constants(group: int, P: int, N: int, softplus: bool) -> dict[str, Any]:
    """Compile-time values; ``group`` is how many heads share B and C."""
    block_n = 1 << (N - 1).bit_length()
    block_p = min(1 << (P - 1).bit_length(), max(1, TILE // block_n))
    names = ("GROUP", "BLOCK_P", "BLOCK_N", "SOFTPLUS", "num_warps")
    return dict(zip(names, (group, block_p, block_n, softplus, 4), strict=True))
