"""The kernels behind ``causal_conv1d`` and their launchers; needs Triton.

Equations, letters and memory traffic: see ``api``. A program owns a tile of
BLOCK_T rows by BLOCK_C channels and reads it K times, each time one row later; all but the first
time the rows are in the L1 cache. Backward, dx of a row needs the gradients of K rows before the
activation, and these need 2 K - 1 rows of x: they are computed again in registers, once a shift.

A backward program walks over TILES tiles and keeps its sums of dw and db in registers; a sum over
the programs finishes them. Nothing is added atomically.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# ruff: noqa: RUF005  # Triton has no starred tuples
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
# Tiles of 1,024 to 2,048 elements by 4 warps: 16 bytes a thread and load in bf16. Chosen without a
# GPU; with 4 taps none spills a register on sm_80 or sm_90 (tests assert it). Not timed yet.
FORWARD = {"BLOCK_T": 32, "BLOCK_C": 64, "num_warps": 4}
BACKWARD = {"BLOCK_T": 16, "BLOCK_C": 64, "TILES": 16, "num_warps": 4}


@triton.jit
def load_input(x_ptr, state_ptr, t, x_row, state_tap, T, live, K: tl.constexpr, WIDE: tl.constexpr):
    """x at times ``t``: before the start the state (times 1 - K to -1) if there is one, else 0."""
    x = tl.load(x_ptr + t.to(tl.int64) * x_row, mask=live & (t >= 0) & (t < T), other=0.0).to(WIDE)
    if state_ptr is not None:
        at = state_ptr + (t + (K - 1)) * state_tap
        x += tl.load(at, mask=live & (t < 0) & (t >= 1 - K), other=0.0).to(WIDE)
    return x


@triton.jit
def conv1d_forward_kernel(
    x_ptr, w_ptr, b_ptr, state_ptr, out_ptr,
    x_batch, x_row, w_channel, w_tap, state_batch, state_channel, state_tap, T, C,
    K: tl.constexpr, SILU: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_T rows of BLOCK_C channels of the output."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)[:, None]
    batch = tl.program_id(2).to(tl.int64)
    live = channel < C
    x_ptr += batch * x_batch + channel
    if state_ptr is not None:
        state_ptr += batch * state_batch + channel * state_channel
    y = tl.zeros((BLOCK_T, BLOCK_C), WIDE)
    if b_ptr is not None:
        y += tl.load(b_ptr + channel, mask=live, other=0.0).to(WIDE)
    for k in tl.static_range(K):
        w = tl.load(w_ptr + channel * w_channel + k * w_tap, mask=live, other=0.0).to(WIDE)
        y += w * load_input(x_ptr, state_ptr, t - (K - 1) + k, x_row, state_tap, T, live, K, WIDE)
    if SILU:
        y = y / (1.0 + tl.exp2(-y * LOG2E))
    at = (batch * T + t) * C + channel
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=live & (t < T))


@triton.jit
def conv1d_backward_kernel(
    x_ptr, w_ptr, b_ptr, state_ptr, grad_ptr, dx_ptr, dstate_ptr, partial_ptr,
    x_batch, x_row, w_channel, w_tap, state_batch, state_channel, state_tap, grad_batch, grad_row,
    T, C,
    K: tl.constexpr, SILU: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Write dx of TILES tiles of rows, and their sum of dw and db; the first also dstate."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    band = tl.program_id(1)
    batch = tl.program_id(2).to(tl.int64)
    live = channel < C
    x_ptr += batch * x_batch + channel
    grad_ptr += batch * grad_batch + channel
    bias = 0.0
    if b_ptr is not None:
        bias = tl.load(b_ptr + channel, mask=live, other=0.0).to(WIDE)
    if state_ptr is not None:
        state_ptr += batch * state_batch + channel * state_channel
    w = ()
    sums = ()
    for k in tl.static_range(K):
        tap = tl.load(w_ptr + channel * w_channel + k * w_tap, mask=live, other=0.0)
        w = w + (tap.to(WIDE),)
        sums = sums + (tl.zeros((BLOCK_T, BLOCK_C), WIDE),)
    db = tl.zeros((BLOCK_T, BLOCK_C), WIDE)
    for tile in range(TILES):
        t = (band * TILES + tile) * BLOCK_T + tl.arange(0, BLOCK_T)[:, None]
        if state_ptr is not None:
            t -= K - 1  # the state's rows come before the first
        x = ()  # x[s] is the input at times t - (K - 1) + s
        for s in tl.static_range(2 * K - 1 if SILU else K):
            time = t - (K - 1) + s
            x = x + (load_input(x_ptr, state_ptr, time, x_row, state_tap, T, live, K, WIDE),)
        dx = tl.zeros((BLOCK_T, BLOCK_C), WIDE)
        for j in tl.static_range(K):
            time = t + j
            inside = live & (time >= 0) & (time < T)
            g = tl.load(grad_ptr + time.to(tl.int64) * grad_row, mask=inside, other=0.0).to(WIDE)
            if SILU:
                y = tl.zeros((BLOCK_T, BLOCK_C), WIDE) + bias
                for k in tl.static_range(K):
                    y += w[k] * x[j + k]
                gate = 1.0 / (1.0 + tl.exp2(-y * LOG2E))
                g *= gate * (1.0 + y * (1.0 - gate))
            dx += w[K - 1 - j] * g
            if j == 0:
                db += g
                new = ()
                for k in tl.static_range(K):
                    new = new + (sums[k] + g * x[k],)
                sums = new
        row = (batch * T + t) * C + channel
        tl.store(dx_ptr + row, dx.to(dx_ptr.dtype.element_ty), mask=live & (t >= 0) & (t < T))
        if dstate_ptr is not None:
            past = dstate_ptr + (batch * C + channel) * (K - 1) + t + (K - 1)
            tl.store(past, dx.to(dstate_ptr.dtype.element_ty), mask=live & (t < 0))
    bands = tl.num_programs(1)
    partial_ptr += (batch * bands + band) * (K + 1) * C + channel
    for k in tl.static_range(K):
        tl.store(partial_ptr + k * C, tl.sum(sums[k], axis=0, keep_dims=True), mask=live)
    tl.store(partial_ptr + K * C, tl.sum(db, axis=0, keep_dims=True), mask=live)


def forward(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    state: torch.Tensor | None,
    silu: bool,
) -> torch.Tensor:
    """Convolution of ``x (B, T, C)`` (adjacent channels), contiguous."""
    B, T, C = x.shape
    out = torch.empty((B, T, C), dtype=x.dtype, device=x.device)
    kernel: Any = conv1d_forward_kernel
    settings = constants("forward", w.shape[1], silu, x.dtype)
    grid = (triton.cdiv(C, settings["BLOCK_C"]), triton.cdiv(T, settings["BLOCK_T"]), B)
    with torch.cuda.device_of(x):  # the launch goes to the current device, not to the tensor's
        kernel[grid](
            x, w, b, state, out,
            *x.stride()[:2], *w.stride(), *_strides(state), T, C, **settings,
        )  # fmt: skip
    return out


def backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    state: torch.Tensor | None,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of x, w, b and the state; empty for what was not given."""
    B, T, C = x.shape
    K = w.shape[1]
    kernel: Any = conv1d_backward_kernel
    settings = constants("backward", K, silu, x.dtype)
    rows = T if state is None else T + K - 1
    bands = -(-rows // (settings["BLOCK_T"] * settings["TILES"]))
    dx = torch.empty((B, T, C), dtype=x.dtype, device=x.device)
    dstate = x.new_empty(0) if state is None else state.new_empty(state.shape)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    partial = torch.empty((B * bands, K + 1, C), dtype=wide, device=x.device)
    grid = (triton.cdiv(C, settings["BLOCK_C"]), bands, B)
    with torch.cuda.device_of(x):
        kernel[grid](
            x, w, b, state, grad, dx, None if state is None else dstate, partial,
            *x.stride()[:2], *w.stride(), *_strides(state), *grad.stride()[:2], T, C, **settings,
        )  # fmt: skip
    sums = partial.sum(0)
    db = x.new_empty(0, dtype=wide) if b is None else sums[K].clone()
    return dx, sums[:K].T.contiguous(), db, dstate


def constants(direction: str, taps: int, silu: bool, dtype: torch.dtype) -> dict[str, Any]:
    """Compile-time values of a kernel."""
    settings = FORWARD if direction == "forward" else BACKWARD
    wide = tl.float64 if dtype == torch.float64 else tl.float32
    return {"K": taps, "SILU": silu, "WIDE": wide} | settings


def _strides(state: torch.Tensor | None) -> tuple[int, ...]:
    return (0, 0, 0) if state is None else state.stride()
