"""The backward kernel behind ``selective_scan`` and its launcher; needs Triton.

Equations and letters: see ``api``. A program owns BLOCK_C channels of one
sequence, as in the forward pass, and walks along time from the end: ``g`` is dL/dh of the step it
stands at. Each step also needs the state before it, which was never stored. For each chunk:

1. from the state kept at the chunk's start, run forward, and write down the state at the start of
   each group of STEPS steps in ``scratch``. Every chunk uses the same scratch: a program has CHUNK
   / STEPS states whatever T is, and the programs of a full GPU have few enough for the L2 cache of
   a Hopper.
2. For each group, last first: run forward once more with its STEPS states in registers, then back.

Rows of memory are asked for a group ahead; what step 2 reads of u, delta and B, step 1 has brought
to the L2 cache.

So a decay is computed three times and no (B, T, C, N) tensor exists. dB and dC are sums over all
channels: each program writes the sum over its own, and one more pass adds those up, in the same
order every time. Sums over time (dA, dD, dbias) stay in registers.
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

from attend_kernels.common.activations import sigmoid, step_size
from attend_kernels.common.launch import LN2, LOG2E
from attend_kernels.ops.selective_scan import tiles as configs
from attend_kernels.ops.selective_scan.recurrence import (
    INTERPRETED,
    channels_last,
    constants,
    load_rows,
    where_before,
    widened,
)
from attend_kernels.ops.selective_scan.segments import segment_starts


@triton.jit
def selective_scan_backward_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, d_ptr, z_ptr, bias_ptr,
    grad_ptr, grad_last_ptr, kept_ptr, scratch_ptr,
    du_ptr, ddelta_ptr, da_ptr, db_ptr, dc_ptr, dd_ptr, dz_ptr, dbias_ptr, dfirst_ptr,
    u_batch, u_row, delta_batch, delta_row, b_batch, b_row, c_batch, c_row,
    z_batch, z_row, grad_batch, grad_row, B, T, C, segment,
    N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, STEPS: tl.constexpr,
    CHUNK: tl.constexpr, SOFTPLUS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Write gradients of BLOCK_C channels of a segment of a sequence; their share of dB and dC.

    One segment may be all of the sequence. ``grad_last`` is dL/dh of the state after each.
    """
    block = tl.program_id(0)
    channel = block * BLOCK_C + tl.arange(0, BLOCK_C)
    state = tl.arange(0, BLOCK_N)
    batch = tl.program_id(1).to(tl.int64)
    piece = tl.program_id(2).to(tl.int64)
    begin = piece * segment
    live = channel < C
    in_n = state < N
    real = in_n if BLOCK_N > N else None  # None: no mask, where N is a power of two
    both = in_n[:, None] & live[None, :]
    u_ptr += batch * u_batch + begin * u_row + channel
    delta_ptr += batch * delta_batch + begin * delta_row + channel
    b_ptr += batch * b_batch + begin * b_row + state
    c_ptr += batch * c_batch + begin * c_row + state
    grad_ptr += batch * grad_batch + begin * grad_row + channel
    own = (batch * T + begin) * C + channel  # gradients of inputs are contiguous (B, T, C)
    du_ptr += own
    ddelta_ptr += own
    share = ((block.to(tl.int64) * B + batch) * T + begin) * N + state
    db_ptr += share
    dc_ptr += share
    tile = state[:, None] * C + channel[None, :]
    row = batch * tl.num_programs(2) + piece  # of what every segment has of its own
    kept_ptr += (batch * tl.cdiv(T, CHUNK) + begin // CHUNK) * N * C + tile
    scratch_ptr += row * (CHUNK // STEPS) * N * C + tile
    T = tl.minimum(T - begin, segment).to(tl.int32)  # of this segment
    chunks = tl.cdiv(T, CHUNK)
    rate = tl.load(a_ptr + tile, mask=both, other=0.0).to(WIDE) * LOG2E
    bias = 0.0
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + channel, mask=live, other=0.0).to(WIDE)
    if d_ptr is not None:
        skip = tl.load(d_ptr + channel, mask=live, other=0.0).to(WIDE)
    if z_ptr is not None:
        z_ptr += batch * z_batch + begin * z_row + channel
        dz_ptr += own
    da = tl.zeros((BLOCK_N, BLOCK_C), WIDE)
    dd = tl.zeros((BLOCK_C,), WIDE)
    dbias = tl.zeros((BLOCK_C,), WIDE)
    g = tl.zeros((BLOCK_N, BLOCK_C), WIDE)
    if grad_last_ptr is not None:
        g = tl.load(grad_last_ptr + row * N * C + tile, mask=both, other=0.0).to(WIDE)
    final = (tl.cdiv(T, STEPS) - 1) * STEPS  # where the last group starts
    next_grad = load_rows(grad_ptr, final, grad_row, T - 1, live, STEPS, WIDE)
    if z_ptr is not None:
        next_z = load_rows(z_ptr, final, z_row, T - 1, live, STEPS, WIDE)
    for back in range(chunks):
        start = (chunks - 1 - back) * CHUNK
        groups = tl.cdiv(tl.minimum(CHUNK, T - start), STEPS)
        h = tl.load(kept_ptr + tl.cast(chunks - 1 - back, tl.int64) * N * C, mask=both, other=0.0)
        next_u = load_rows(u_ptr, start, u_row, T - 1, live, STEPS, WIDE)
        next_raw = load_rows(delta_ptr, start, delta_row, T - 1, live, STEPS, WIDE)
        next_b = load_rows(b_ptr, start, b_row, T - 1, real, STEPS, WIDE)
        for group in range(groups):
            tl.store(scratch_ptr + tl.cast(group, tl.int64) * N * C, h, mask=both)
            t = start + group * STEPS
            u = next_u
            raw = next_raw
            b = next_b
            next_u = load_rows(u_ptr, t + STEPS, u_row, T - 1, live, STEPS, WIDE)
            next_raw = load_rows(delta_ptr, t + STEPS, delta_row, T - 1, live, STEPS, WIDE)
            next_b = load_rows(b_ptr, t + STEPS, b_row, T - 1, real, STEPS, WIDE)
            for i in tl.static_range(STEPS):
                delta = step_size(raw[i], bias, SOFTPLUS)
                h = tl.exp2(delta[None, :] * rate) * h + b[i][:, None] * (delta * u[i])[None, :]
        tl.debug_barrier()  # scratch is read by other threads than wrote it
        for group_back in range(groups):
            group = groups - 1 - group_back
            t = start + group * STEPS
            h = tl.load(scratch_ptr + tl.cast(group, tl.int64) * N * C, mask=both, other=0.0)
            u = load_rows(u_ptr, t, u_row, T - 1, live, STEPS, WIDE)
            raw = load_rows(delta_ptr, t, delta_row, T - 1, live, STEPS, WIDE)
            b = load_rows(b_ptr, t, b_row, T - 1, real, STEPS, WIDE)
            c = load_rows(c_ptr, t, c_row, T - 1, real, STEPS, WIDE)
            grad = next_grad
            earlier = tl.maximum(t - STEPS, 0)
            next_grad = load_rows(grad_ptr, earlier, grad_row, T - 1, live, STEPS, WIDE)
            if z_ptr is not None:
                z = next_z
                next_z = load_rows(z_ptr, earlier, z_row, T - 1, live, STEPS, WIDE)
            before = (h,)  # before[i] is the state before step t + i
            for i in tl.static_range(STEPS):
                delta = step_size(raw[i], bias, SOFTPLUS)
                delta = tl.where(t + i < T, delta, 0.0)
                h = tl.exp2(delta[None, :] * rate) * h + b[i][:, None] * (delta * u[i])[None, :]
                before = before + (h,)
            for i in tl.static_range(STEPS - 1, -1, -1):
                inside = t + i < T
                mask = live & inside
                if INTERPRETED:
                    mask = live & where_before(t + i, T, channel)
                offset = tl.cast(t + i, tl.int64) * C
                dy = tl.where(inside, grad[i], 0.0)
                if z_ptr is not None:
                    gate = sigmoid(z[i])
                    y = tl.sum(before[i + 1] * c[i][:, None], axis=0)
                    if d_ptr is not None:
                        y += skip * u[i]
                    dz = dy * y * gate * (1.0 + z[i] * (1.0 - gate))
                    tl.store(dz_ptr + offset, dz.to(dz_ptr.dtype.element_ty), mask=mask)
                    dy *= z[i] * gate
                g += c[i][:, None] * dy[None, :]  # (BLOCK_N, BLOCK_C)
                here = tl.cast(t + i, tl.int64) * N
                dc = tl.sum(before[i + 1] * dy[None, :], axis=1)  # (BLOCK_N,)
                if INTERPRETED:
                    tl.store(dc_ptr + here, dc, mask=in_n & where_before(t + i, T, state))
                else:
                    tl.store(dc_ptr + here, dc, mask=in_n & inside)
                delta = step_size(raw[i], bias, SOFTPLUS)
                delta = tl.where(inside, delta, 0.0)
                db = tl.sum(g * (delta * u[i])[None, :], axis=1)
                if INTERPRETED:
                    tl.store(db_ptr + here, db, mask=in_n & where_before(t + i, T, state))
                else:
                    tl.store(db_ptr + here, db, mask=in_n & inside)
                write = tl.sum(g * b[i][:, None], axis=0)  # (BLOCK_C,): dL/d(delta u)
                du = delta * write
                if d_ptr is not None:
                    du += skip * dy
                    dd += u[i] * dy
                tl.store(du_ptr + offset, du.to(du_ptr.dtype.element_ty), mask=mask)
                g *= tl.exp2(delta[None, :] * rate)  # now dL/dh of the state before
                through = g * before[i]  # dL/d(delta A)
                da += through * delta[None, :]
                ddelta = tl.sum(through * rate, axis=0) * LN2 + write * u[i]
                if SOFTPLUS:
                    ddelta *= sigmoid(raw[i] + bias)
                ddelta = tl.where(inside, ddelta, 0.0)
                dbias += ddelta
                tl.store(ddelta_ptr + offset, ddelta.to(ddelta_ptr.dtype.element_ty), mask=mask)
        tl.debug_barrier()  # the next chunk writes over the scratch
    tl.store(da_ptr + row * N * C + tile, da, mask=both)
    if d_ptr is not None:
        tl.store(dd_ptr + row * C + channel, dd, mask=live)
    if bias_ptr is not None:
        tl.store(dbias_ptr + row * C + channel, dbias, mask=live)
    if dfirst_ptr is not None:
        if INTERPRETED:
            both &= where_before(piece, 1, state)[:, None]
            tl.store(dfirst_ptr + batch * N * C + tile, g, mask=both)
        else:
            tl.store(dfirst_ptr + batch * N * C + tile, g, mask=both & (piece == 0))


def backward(
    grad: torch.Tensor,
    grad_last: torch.Tensor | None,
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    z: torch.Tensor | None,
    bias: torch.Tensor | None,
    has_initial: bool,
    kept: torch.Tensor,
    softplus: bool,
) -> list[torch.Tensor]:
    """Gradients of u, delta, A, B, C, D, z, delta_bias and the first state; empty if not given."""
    B, T, C = u.shape
    N = a.shape[1]
    wide = kept.dtype
    config = configs.choose("backward", u.device, N)
    blocks = -(-C // config.block_c)

    def new(*shape: int, dtype: torch.dtype = wide, given: bool = True) -> torch.Tensor:
        return torch.empty(shape if given else (0,), dtype=dtype, device=u.device)

    segment = configs.segment(u, N)
    pieces = -(-T // segment)
    scratch = new(B * pieces, configs.CHUNK // config.steps, N, C)
    du, ddelta = new(B, T, C, dtype=u.dtype), new(B, T, C, dtype=delta.dtype)
    dz = new(0) if z is None else new(B, T, C, dtype=z.dtype)
    da, dd, dbias = (
        new(B * pieces, N, C),
        new(B * pieces, C, given=d is not None),
        new(B * pieces, C, given=bias is not None),
    )
    db, dc = new(blocks, B, T, N), new(blocks, B, T, N)
    dfirst = new(B, N, C, given=has_initial)
    kernel: Any = selective_scan_backward_kernel
    a, wide_b, wide_c = channels_last(a), widened(b, wide), widened(c, wide)
    after = None if grad_last is None else channels_last(grad_last)  # of each segment
    if pieces > 1:
        after = segment_starts(grad, delta, a, wide_c, z, bias, after, softplus, segment, True)
    with torch.cuda.device_of(u):
        kernel[(blocks, B, pieces)](
            u, delta, a, wide_b, wide_c, d, z, bias,
            grad, after, kept, scratch,
            du, ddelta, da, db, dc, dd, dz, dbias, dfirst if has_initial else None,
            *u.stride()[:2], *delta.stride()[:2], *wide_b.stride()[:2], *wide_c.stride()[:2],
            *(z.stride()[:2] if z is not None else (0, 0)), *grad.stride()[:2],
            B, T, C, segment,
            **constants(N, config, softplus, wide),
        )  # fmt: skip
    da, dfirst = da.sum(0).T, dfirst.transpose(-1, -2) if has_initial else dfirst
    db, dc = db.sum(0).to(b.dtype), dc.sum(0).to(c.dtype)
    sums = [x if x.numel() == 0 else x.sum(0) for x in (dd, dbias)]
    return [du, ddelta, da.contiguous(), db, dc, sums[0], dz, sums[1], dfirst.contiguous()]
