"""The kernels behind ``rg_lru`` and their launchers; need Triton.

Equations, letters and memory traffic: see ``api``. A program owns CHANNELS channels of one sequence
and walks along time in tiles of TIME steps, forward from the first, backward from the last. Within
a tile all of h comes from one scan over the pairs (a, b) of ``h -> a h + b``; from tile to tile one
row of h is carried.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices
from attend_kernels.common.launch import LN2, LOG2E, launch

TIME = 64  # steps a tile, forward
BACK = 32  # and backward, where a step takes three times as many registers
CHANNELS = 32  # a program: 128 bytes of each row in fp32


@triton.jit
def then(a_first, b_first, a_second, b_second):
    """First h -> a h + b, then another: one map again."""
    return a_first * a_second, a_second * b_first + b_second


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x)), without overflow."""
    e = tl.exp2(-tl.abs(x) * LOG2E)
    return tl.where(x < 0, e, 1.0) / (1.0 + e)


@triton.jit
def softplus(x):
    """log(1 + exp(x)); where exp(x) is small, its series."""
    e = tl.exp2(-tl.abs(x) * LOG2E)
    log = tl.where(e < 1e-3, e * (1.0 - e * (0.5 - e / 3)), tl.log2(1.0 + e) * LN2)
    return tl.maximum(x, 0.0) + log


@triton.jit
def decay(gate, rate, fresh):
    """(r, l, a, m) of the logits of the recurrence's gate; see ``api``."""
    r = sigmoid(gate)
    log = -rate * r
    z = 2.0 * log
    # 1 - exp(z): near 0 its series, where the difference would cancel.
    near = -z * (1 + z * (1 / 2 + z * (1 / 6 + z * (1 / 24 + z * (1 / 120 + z * (1 / 720))))))
    left = tl.where(z > -0.25, near, 1.0 - tl.exp2(z * LOG2E))
    a = tl.where(fresh, 0.0, tl.exp2(log * LOG2E))
    return r, log, a, tl.where(fresh, 1.0, tl.sqrt(left))


@triton.jit
def is_start(starts_ptr, t, T, starts_row, FIRST: tl.constexpr):
    """Whether a sequence starts at each of these steps."""
    if starts_ptr is None:
        return (t == 0) & FIRST
    else:
        return tl.load(starts_ptr + t * starts_row, mask=(t >= 0) & (t < T), other=0) != 0


@triton.jit
def rg_lru_forward_kernel(
    x_ptr, input_ptr, gate_ptr, parameter_ptr, starts_ptr, first_ptr, y_ptr, last_ptr,
    x_batch, x_row, input_batch, input_row, gate_batch, gate_row, starts_batch, starts_row,
    first_batch, first_column, T, C, blocks,
    FIRST: tl.constexpr, TIME: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Write y and the last state of CHANNELS channels of a sequence."""
    channel = tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    live = channel < C
    row = tl.arange(0, TIME)[:, None]
    x_ptr += batch * x_batch + channel[None, :]
    input_ptr += batch * input_batch + channel[None, :]
    gate_ptr += batch * gate_batch + channel[None, :]
    y_ptr += batch * T * C + channel[None, :]
    if starts_ptr is not None:
        starts_ptr += batch * starts_batch
    rate = 8.0 * softplus(tl.load(parameter_ptr + channel, mask=live, other=0.0).to(tl.float32))
    h = tl.zeros((CHANNELS,), tl.float32)
    if first_ptr is not None:
        at = first_ptr + batch * first_batch + channel * first_column
        h = tl.load(at, mask=live, other=0.0).to(tl.float32)
    for begin in range(0, T, TIME):
        t = (begin + row).to(tl.int64)
        here = (t < T) & live[None, :]
        x = tl.load(x_ptr + t * x_row, mask=here, other=0.0).to(tl.float32)
        logit = tl.load(input_ptr + t * input_row, mask=here, other=0.0).to(tl.float32)
        gate = tl.load(gate_ptr + t * gate_row, mask=here, other=0.0).to(tl.float32)
        fresh = is_start(starts_ptr, t, T, starts_row, FIRST)
        _, _, a, m = decay(gate, rate[None, :], fresh)
        a = tl.where(t < T, a, 1.0)  # past the end nothing changes
        b = tl.where(t < T, m * sigmoid(logit) * x, 0.0)
        a, b = tl.associative_scan((a, b), 0, then)
        y = a * h[None, :] + b
        tl.store(y_ptr + t * C, y.to(y_ptr.dtype.element_ty), mask=here)
        h = tl.sum(tl.where(row == TIME - 1, y, 0.0), axis=0)
    tl.store(last_ptr + batch * C + channel, h, mask=live)


@triton.jit
def rg_lru_backward_kernel(
    grad_ptr, grad_last_ptr, x_ptr, input_ptr, gate_ptr, parameter_ptr, starts_ptr, first_ptr,
    y_ptr, dx_ptr, d_input_ptr, d_gate_ptr, d_parameter_ptr, d_first_ptr,
    grad_batch, grad_row, last_batch, last_column,
    x_batch, x_row, input_batch, input_row, gate_batch, gate_row, starts_batch, starts_row,
    first_batch, first_column, T, C, blocks,
    FIRST: tl.constexpr, TIME: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Write all gradients of CHANNELS channels of a sequence; the parameter's for it alone."""
    channel = tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    live = channel < C
    row = tl.arange(0, TIME)[:, None]
    grad_ptr += batch * grad_batch + channel[None, :]
    x_ptr += batch * x_batch + channel[None, :]
    input_ptr += batch * input_batch + channel[None, :]
    gate_ptr += batch * gate_batch + channel[None, :]
    whole = batch * T * C + channel[None, :]
    if starts_ptr is not None:
        starts_ptr += batch * starts_batch
    p = tl.load(parameter_ptr + channel, mask=live, other=0.0).to(tl.float32)
    rate = 8.0 * softplus(p)
    first = tl.zeros((CHANNELS,), tl.float32)
    if first_ptr is not None:
        at = first_ptr + batch * first_batch + channel * first_column
        first = tl.load(at, mask=live, other=0.0).to(tl.float32)
    carried = tl.zeros((CHANNELS,), tl.float32)  # a g of the step after the tile
    if grad_last_ptr is not None:
        at = grad_last_ptr + batch * last_batch + channel * last_column
        carried = tl.load(at, mask=live, other=0.0).to(tl.float32)
    total = tl.zeros((CHANNELS,), tl.float32)
    tiles = tl.cdiv(T, TIME)
    for done in range(0, tiles):
        begin = (tiles - 1 - done) * TIME
        t = (begin + row).to(tl.int64)
        here = (t < T) & live[None, :]
        x = tl.load(x_ptr + t * x_row, mask=here, other=0.0).to(tl.float32)
        logit = tl.load(input_ptr + t * input_row, mask=here, other=0.0).to(tl.float32)
        gate = tl.load(gate_ptr + t * gate_row, mask=here, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + t * grad_row, mask=here, other=0.0).to(tl.float32)
        before = here & (t > 0)
        h = tl.load(y_ptr + whole + (t - 1) * C, mask=before, other=0.0).to(tl.float32)
        h = tl.where(t == 0, first[None, :], h)  # h_{t-1}
        fresh = is_start(starts_ptr, t, T, starts_row, FIRST)
        r, log, a, m = decay(gate, rate[None, :], fresh)
        # The maps of g: a of the step after, which within the tile is the next row.
        inside = (t + 1 < T) & (row + 1 < TIME) & live[None, :]
        after = tl.load(gate_ptr + (t + 1) * gate_row, mask=inside, other=0.0).to(tl.float32)
        fresh_after = is_start(starts_ptr, t + 1, T, starts_row, FIRST)
        _, _, a_after, _ = decay(after, rate[None, :], fresh_after)
        # Past the end of time and at the tile's last row, what is carried comes in as it is.
        a_after = tl.where(inside, a_after, 1.0)
        g, held = tl.associative_scan((a_after, grad), 0, then, reverse=True)
        g = g * carried[None, :] + held
        i = sigmoid(logit)
        gained = g * m
        tl.store(dx_ptr + whole + t * C, (gained * i).to(dx_ptr.dtype.element_ty), mask=here)
        d_input = gained * x * i * (1.0 - i)
        tl.store(d_input_ptr + whole + t * C, d_input.to(d_input_ptr.dtype.element_ty), mask=here)
        ratio = tl.where(m == 0.0, 0.0, log / tl.where(m == 0.0, 1.0, m))
        e = g * (a * log * h - i * x * a * a * ratio)
        e = tl.where(fresh, 0.0, e)
        d_gate = e * (1.0 - r)
        tl.store(d_gate_ptr + whole + t * C, d_gate.to(d_gate_ptr.dtype.element_ty), mask=here)
        total += tl.sum(tl.where(here, e, 0.0), axis=0)
        carried = tl.sum(tl.where(row == 0, a * g, 0.0), axis=0)
    # sigmoid(p) / softplus(p) goes to 1 as both go to 0.
    share = tl.where(p < -15.0, 1.0, sigmoid(p) / tl.where(p < -15.0, 1.0, softplus(p)))
    tl.store(d_parameter_ptr + batch * C + channel, total * share, mask=live)
    tl.store(d_first_ptr + batch * C + channel, carried, mask=live)


def forward(
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    parameter: torch.Tensor,
    starts: torch.Tensor | None,
    initial: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel: y and the last state. Last axes of the three rows have stride 1."""
    B, T, C = x.shape
    y = torch.empty((B, T, C), dtype=x.dtype, device=x.device)
    last = torch.empty((B, C), dtype=torch.float32, device=x.device)
    starts = None if starts is None else starts.view(torch.uint8)
    sizes = tiles(T, C, TIME)
    blocks = -(-C // sizes["CHANNELS"])
    launch(
        rg_lru_forward_kernel, B * blocks,
        x, input_gate, recurrence_gate, parameter, starts, initial, y, last,
        *x.stride()[:2], *input_gate.stride()[:2], *recurrence_gate.stride()[:2],
        *pair(starts), *pair(initial), T, C, blocks,
        FIRST=initial is None, **sizes, num_warps=4,
    )  # fmt: skip
    return y, last


def backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    grad_last: torch.Tensor | None,
    parameter: torch.Tensor,
    starts: torch.Tensor | None,
    initial: torch.Tensor | None,
    y: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Launch the kernel: the gradients of x, both gates, the parameter and the first state."""
    B, T, C = x.shape
    rows = [
        torch.empty((B, T, C), dtype=m.dtype, device=m.device)
        for m in (x, input_gate, recurrence_gate)
    ]
    d_parameter = torch.empty((B, C), dtype=torch.float32, device=x.device)
    first = torch.empty_like(d_parameter)
    starts = None if starts is None else starts.view(torch.uint8)
    sizes = tiles(T, C, BACK)
    blocks = -(-C // sizes["CHANNELS"])
    launch(
        rg_lru_backward_kernel, B * blocks,
        grad, grad_last, x, input_gate, recurrence_gate, parameter, starts, initial,
        y.contiguous(), *rows, d_parameter, first,
        *grad.stride()[:2], *pair(grad_last), *x.stride()[:2], *input_gate.stride()[:2],
        *recurrence_gate.stride()[:2], *pair(starts), *pair(initial), T, C, blocks,
        FIRST=initial is None, **sizes, num_warps=4,
    )  # fmt: skip
    return rows[0], rows[1], rows[2], d_parameter.sum(dim=0), first


def tiles(T: int, C: int, most: int) -> dict[str, int]:
    """Sizes of a tile of ``most`` steps at most; no larger than the problem, 16 × 16 at least."""
    time, channels = devices.padded(T), devices.padded(C)
    return {"TIME": min(most, time), "CHANNELS": min(CHANNELS, channels)}


def pair(x: torch.Tensor | None) -> tuple[int, int]:
    """Strides of a matrix that may be missing."""
    return (0, 0) if x is None else (x.stride(0), x.stride(1))
