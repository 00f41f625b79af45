"""The kernel behind ``ssd_step``: one step of the recurrence for decoding.

Equation and letters: see ``api``. A program owns BLOCK_P rows of one head's
state: it reads them, writes them anew and reads y from them on the way. Nothing is reused, so the
time is that of moving the state twice.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common.launch import launch

TILE = 2_048  # numbers of the state a program owns: 16 a thread of 4 warps


@triton.jit
def ssd_step_kernel(
    x_ptr, state_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, d_ptr, y_ptr, new_ptr,
    x_batch, x_head, dt_batch, dt_head, b_batch, b_group, c_batch, c_group,
    heads, P, N,
    GROUP: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
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
    state = tl.load(state_ptr + at, mask=real, other=0.0)
    dt = tl.load(dt_ptr + batch * dt_batch + head * dt_head)
    x = tl.load(x_ptr + batch * x_batch + head * x_head + p, mask=p < P, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + batch * b_batch + head // GROUP * b_group + n, mask=n < N, other=0.0)
    c = tl.load(c_ptr + batch * c_batch + head // GROUP * c_group + n, mask=n < N, other=0.0)
    state *= tl.exp(dt * tl.load(a_ptr + head))
    state += (dt * x)[:, None] * b.to(tl.float32)[None, :]
    tl.store(new_ptr + at, state, mask=real)
    y = tl.sum(state * c.to(tl.float32)[None, :], axis=1)
    if d_ptr is not None:
        y += tl.load(d_ptr + head) * x
    tl.store(y_ptr + row * P + p, y.to(y_ptr.dtype.element_ty), mask=p < P)


def step(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel: (y, new state). x, B and C have adjacent last axes, the state is whole."""
    batch, H, P = x.shape
    N = B.shape[-1]
    y, new = x.new_empty(x.shape), torch.empty_like(state)
    block_n = 1 << (N - 1).bit_length()
    block_p = min(1 << (P - 1).bit_length(), max(1, TILE // block_n))
    launch(
        ssd_step_kernel, batch * H * -(-P // block_p), x, state, dt, A, B, C, D, y, new,
        *x.stride()[:2], *dt.stride(), *B.stride()[:2], *C.stride()[:2], H, P, N,
        GROUP=H // B.shape[1], BLOCK_P=block_p, BLOCK_N=block_n, num_warps=4,
    )  # fmt: skip
    return y, new
