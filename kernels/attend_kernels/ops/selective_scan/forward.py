"""The forward kernel behind ``selective_scan`` and its launcher; needs Triton.

Equations, letters and memory traffic: see ``api``. A program owns BLOCK_C
channels of one sequence and walks along time. The state, BLOCK_N × BLOCK_C numbers, never leaves
its registers but for a copy every CHUNK steps, from which the backward pass starts again.

A program is a warp or two, and nothing but itself hides its waits for memory. So a row of u, delta
or z is asked for AHEAD steps before it is used, and one of B or C, which other programs have
brought to the L2 cache, SOON steps. The rows under way are tuples: pulled in at one end, used at
the other. With STEPS steps unrolled such a queue costs no moves from register to register.

States are held as (N, C), channels last, so that a warp's 32 threads hold 32 channels and each
thread all states of its channel: the sum over N then needs no exchange between threads. Triton
derives who holds what from the loads and stores of the tile, so all of them say the same:

- A and the states lie as (N, C) in memory too, so that neighbouring threads take neighbouring
  channels. With both strides arguments, which Triton knows nothing of, its version would decide:
  3.5 and 3.6 take neighbours along the first axis then, 3.7 along the last.
- that C is a multiple of 16 is kept from Triton (``HIDDEN``). A thread would else take 4 channels
  at once, in loads of 16 bytes, with a quarter of their states.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.common.activations import sigmoid, step_size
from attend_kernels.common.launch import LOG2E
from attend_kernels.ops.selective_scan import tiles as configs
from attend_kernels.ops.selective_scan.recurrence import (
    INTERPRETED,
    channels_last,
    constants,
    pull,
    where_before,
    widened,
)
from attend_kernels.ops.selective_scan.segments import segment_starts

HIDDEN = ["C"]


@triton.jit(do_not_specialize=HIDDEN)
def selective_scan_forward_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, d_ptr, z_ptr, bias_ptr,
    out_ptr, first_ptr, last_ptr, kept_ptr,
    u_batch, u_row, delta_batch, delta_row, b_batch, b_row, c_batch, c_row, z_batch, z_row,
    T, C, segment,
    N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, STEPS: tl.constexpr,
    CHUNK: tl.constexpr, AHEAD: tl.constexpr, SOON: tl.constexpr, SOFTPLUS: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Write y for BLOCK_C channels of a segment of a sequence, and the states kept for later.

    The last segment also writes the last state. One segment may be all of the sequence.
    """
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    state = tl.arange(0, BLOCK_N)
    batch = tl.program_id(1).to(tl.int64)
    piece = tl.program_id(2).to(tl.int64)
    begin = piece * segment
    live = channel < C
    real = state < N if BLOCK_N > N else None  # None: no mask, where N is a power of two
    both = (state < N)[:, None] & live[None, :]
    u_ptr += batch * u_batch + begin * u_row + channel
    delta_ptr += batch * delta_batch + begin * delta_row + channel
    if z_ptr is not None:
        z_ptr += batch * z_batch + begin * z_row + channel
    b_ptr += batch * b_batch + begin * b_row + state
    c_ptr += batch * c_batch + begin * c_row + state
    out_ptr += (batch * T + begin) * C + channel
    tile = state[:, None] * C + channel[None, :]
    rate = tl.load(a_ptr + tile, mask=both, other=0.0).to(WIDE) * LOG2E  # exp(x) = exp2(x log2(e))
    bias = 0.0
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + channel, mask=live, other=0.0).to(WIDE)
    if d_ptr is not None:
        skip = tl.load(d_ptr + channel, mask=live, other=0.0).to(WIDE)
    h = tl.zeros((BLOCK_N, BLOCK_C), WIDE)
    if first_ptr is not None:
        first_ptr += (batch * tl.num_programs(2) + piece) * N * C
        h = tl.load(first_ptr + tile, mask=both, other=0.0).to(WIDE)
    if kept_ptr is not None:
        kept_ptr += (batch * tl.cdiv(T, CHUNK) + begin // CHUNK) * N * C
    T = tl.minimum(T - begin, segment).to(tl.int32)  # of this segment
    last = T - 1  # beyond it the pointers stay where they are
    u = ()
    raw = ()
    z = ()
    b = ()
    c = ()
    for i in tl.static_range(AHEAD):
        step = tl.where(i < last, 1, 0)
        u, u_ptr = pull(u, u_ptr, step * u_row, live, WIDE)
        raw, delta_ptr = pull(raw, delta_ptr, step * delta_row, live, WIDE)
        if z_ptr is not None:
            z, z_ptr = pull(z, z_ptr, step * z_row, live, WIDE)
    for i in tl.static_range(SOON):
        step = tl.where(i < last, 1, 0)
        b, b_ptr = pull(b, b_ptr, step * b_row, real, WIDE)
        c, c_ptr = pull(c, c_ptr, step * c_row, real, WIDE)
    for t in range(0, T, STEPS):
        if kept_ptr is not None:  # noqa: SIM102  # decided when compiled, the next is not
            if t % CHUNK == 0:
                tl.store(kept_ptr + tile, h, mask=both)
                kept_ptr += N * C
        for i in tl.static_range(STEPS):
            step = tl.where(t + i + AHEAD < last, 1, 0)
            u, u_ptr = pull(u, u_ptr, step * u_row, live, WIDE)
            raw, delta_ptr = pull(raw, delta_ptr, step * delta_row, live, WIDE)
            if z_ptr is not None:
                z, z_ptr = pull(z, z_ptr, step * z_row, live, WIDE)
            step = tl.where(t + i + SOON < last, 1, 0)
            b, b_ptr = pull(b, b_ptr, step * b_row, real, WIDE)
            c, c_ptr = pull(c, c_ptr, step * c_row, real, WIDE)
            delta = step_size(raw[0], bias, SOFTPLUS)
            delta = tl.where(t + i < T, delta, 0.0)  # a step of size 0 leaves the state alone
            decay = tl.exp2(delta[None, :] * rate)  # (BLOCK_N, BLOCK_C)
            h = decay * h + b[0][:, None] * (delta * u[0])[None, :]
            y = tl.sum(h * c[0][:, None], axis=0)  # (BLOCK_C,)
            if d_ptr is not None:
                y += skip * u[0]
            if z_ptr is not None:
                y *= z[0] * sigmoid(z[0])
                z = z[1:]
            if INTERPRETED:
                mask = live & where_before(t + i, T, channel)
                tl.store(out_ptr, y.to(out_ptr.dtype.element_ty), mask=mask)
            else:
                tl.store(out_ptr, y.to(out_ptr.dtype.element_ty), mask=live & (t + i < T))
            out_ptr += C
            u = u[1:]
            raw = raw[1:]
            b = b[1:]
            c = c[1:]
    if piece == tl.num_programs(2) - 1:
        tl.store(last_ptr + batch * N * C + tile, h, mask=both)


def forward(
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    z: torch.Tensor | None,
    bias: torch.Tensor | None,
    initial: torch.Tensor | None,
    softplus: bool,
    keep: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return y, the last state (B, C, N) and, if asked, the kept ones (B, chunks, N, C)."""
    B, T, C = u.shape
    N = a.shape[1]
    wide = torch.float64 if u.dtype == torch.float64 else torch.float32
    config = configs.choose("forward", u.device, N)
    out = torch.empty((B, T, C), dtype=u.dtype, device=u.device)
    last = torch.empty((B, N, C), dtype=wide, device=u.device)
    chunks = configs.chunks(T) if keep else 0
    kept = torch.empty((B, chunks, N, C), dtype=wide, device=u.device)
    a, b, c = channels_last(a), widened(b, wide), widened(c, wide)
    segment = configs.segment(u, N)
    first = None if initial is None else channels_last(initial)  # of each segment
    if segment < T:
        first = segment_starts(u, delta, a, b, None, bias, first, softplus, segment, False)
    kernel: Any = selective_scan_forward_kernel
    grid = (triton.cdiv(C, config.block_c), B, triton.cdiv(T, segment))
    with torch.cuda.device_of(u):  # the launch goes to the current device, not to the tensor's
        kernel[grid](
            u, delta, a, b, c, d, z, bias,
            out, first, last, kept if keep else None,
            *u.stride()[:2], *delta.stride()[:2], *b.stride()[:2], *c.stride()[:2],
            *(z.stride()[:2] if z is not None else (0, 0)), T, C, segment,
            **constants(N, config, softplus, wide), AHEAD=configs.AHEAD, SOON=configs.SOON,
        )  # fmt: skip
    return out, last.transpose(1, 2), kept
