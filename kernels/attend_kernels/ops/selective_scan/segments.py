"""Where each segment of time starts, so that segments can be scanned side by side; needs Triton.

Equations and letters: see ``api``. A scan makes one program for every BLOCK_C
channels of a sequence, and few long sequences make too few to fill a GPU. Time is then cut into
segments (``tiles.segment`` says when, and how long), and one more pass finds the
state that each starts from:

1. ``selective_scan_ends_kernel``: every segment by itself, as if it began with a state of 0: the
   state it ends with. Its decays multiply to exp(A sum of its Δ), so what it does to any other
   state it began with is one sum of Δ a channel. y is not computed.
2. ``selective_scan_join_kernel``: from segment to segment, h <- exp(A sum Δ) h + its own end.

The scan proper then runs once more over all segments at once. The gradient of the state is a
recurrence of the same form from the end of time, with C for B and dy for Δ u: REVERSE.

Memory: a state a segment, fp32 (B, segments, N, C). There are as many segments as fill the GPU,
however long T is, and none is shorter than CHUNK.
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
from attend_kernels.ops.selective_scan.recurrence import constants, pull

HIDDEN = ["C"]  # so that a thread has all states of a channel: see ``forward``


@triton.jit(do_not_specialize=HIDDEN)
def selective_scan_ends_kernel(
    x_ptr, delta_ptr, a_ptr, b_ptr, z_ptr, bias_ptr, ends_ptr, sums_ptr,
    x_batch, x_row, delta_batch, delta_row, b_batch, b_row, z_batch, z_row, T, C, segment,
    REVERSE: tl.constexpr, N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
    STEPS: tl.constexpr, AHEAD: tl.constexpr, SOON: tl.constexpr, SOFTPLUS: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Write the state one segment ends with, begun with 0, and its sum of step sizes.

    x is u and b is B; REVERSE runs back in time, with dy (gated by z, if any) for x and C for b.
    """
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    state = tl.arange(0, BLOCK_N)
    batch = tl.program_id(1).to(tl.int64)
    piece = tl.program_id(2).to(tl.int64)
    live = channel < C
    real = state < N if BLOCK_N > N else None  # None: no mask, where N is a power of two
    both = (state < N)[:, None] & live[None, :]
    first = piece * segment
    T = tl.minimum(T - first, segment).to(tl.int32)  # of this segment
    x_ptr += batch * x_batch + first * x_row + channel
    delta_ptr += batch * delta_batch + first * delta_row + channel
    b_ptr += batch * b_batch + first * b_row + state
    tile = state[:, None] * C + channel[None, :]
    rate = tl.load(a_ptr + tile, mask=both, other=0.0).to(WIDE) * LOG2E
    bias = 0.0
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + channel, mask=live, other=0.0).to(WIDE)
    if z_ptr is not None:
        z_ptr += batch * z_batch + first * z_row + channel
    h = tl.zeros((BLOCK_N, BLOCK_C), WIDE)
    total = tl.zeros((BLOCK_C,), WIDE)
    if REVERSE:
        x_ptr += tl.cast(T - 1, tl.int64) * x_row
        delta_ptr += tl.cast(T - 1, tl.int64) * delta_row
        b_ptr += tl.cast(T - 1, tl.int64) * b_row
        if z_ptr is not None:
            z_ptr += tl.cast(T - 1, tl.int64) * z_row
    way = -1 if REVERSE else 1
    x = ()
    raw = ()
    z = ()
    b = ()
    for i in tl.static_range(AHEAD):
        step = tl.where(i < T - 1, way, 0)  # beyond the last row the pointers stay
        x, x_ptr = pull(x, x_ptr, step * x_row, live, WIDE)
        raw, delta_ptr = pull(raw, delta_ptr, step * delta_row, live, WIDE)
        if z_ptr is not None:
            z, z_ptr = pull(z, z_ptr, step * z_row, live, WIDE)
    for i in tl.static_range(SOON):
        b, b_ptr = pull(b, b_ptr, tl.where(i < T - 1, way, 0) * b_row, real, WIDE)
    for t in range(0, T, STEPS):  # counted from where the walk begins
        for i in tl.static_range(STEPS):
            step = tl.where(t + i + AHEAD < T - 1, way, 0)
            x, x_ptr = pull(x, x_ptr, step * x_row, live, WIDE)
            raw, delta_ptr = pull(raw, delta_ptr, step * delta_row, live, WIDE)
            if z_ptr is not None:
                z, z_ptr = pull(z, z_ptr, step * z_row, live, WIDE)
            step = tl.where(t + i + SOON < T - 1, way, 0)
            b, b_ptr = pull(b, b_ptr, step * b_row, real, WIDE)
            inside = t + i < T
            delta = tl.where(inside, step_size(raw[0], bias, SOFTPLUS), 0.0)
            total += delta
            decay = tl.exp2(delta[None, :] * rate)  # (BLOCK_N, BLOCK_C)
            if REVERSE:
                dy = tl.where(inside, x[0], 0.0)
                if z_ptr is not None:
                    dy *= z[0] * sigmoid(z[0])
                    z = z[1:]
                h = decay * (h + b[0][:, None] * dy[None, :])
            else:
                h = decay * h + b[0][:, None] * (delta * x[0])[None, :]
            x = x[1:]
            raw = raw[1:]
            b = b[1:]
    row = batch * tl.num_programs(2) + piece
    tl.store(ends_ptr + row * N * C + tile, h, both)
    tl.store(sums_ptr + row * C + channel, total, live)


@triton.jit
def selective_scan_join_kernel(
    ends_ptr, sums_ptr, a_ptr, edge_ptr, pieces, C,
    REVERSE: tl.constexpr, N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Put what each segment starts from in the place of what it ends with, begun with 0.

    ``edge`` is what the first segment in the order of the walk starts from; 0 without it.
    """
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    state = tl.arange(0, BLOCK_N)
    batch = tl.program_id(1).to(tl.int64)
    live = channel < C
    both = (state < N)[:, None] & live[None, :]
    tile = state[:, None] * C + channel[None, :]
    rate = tl.load(a_ptr + tile, mask=both, other=0.0).to(WIDE) * LOG2E
    h = tl.zeros((BLOCK_N, BLOCK_C), WIDE)
    if edge_ptr is not None:
        h = tl.load(edge_ptr + batch * N * C + tile, mask=both, other=0.0).to(WIDE)
    for number in range(pieces):
        row = batch * pieces + (pieces - 1 - number if REVERSE else number)
        own = ends_ptr + row * N * C + tile
        end = tl.load(own, mask=both, other=0.0)
        total = tl.load(sums_ptr + row * C + channel, mask=live, other=0.0)
        tl.store(own, h, mask=both)
        h = tl.exp2(total[None, :] * rate) * h + end


def segment_starts(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    z: torch.Tensor | None,
    bias: torch.Tensor | None,
    edge: torch.Tensor | None,
    softplus: bool,
    segment: int,
    reverse: bool,
) -> torch.Tensor:
    """Return the state each segment of ``segment`` steps starts from, (B, segments, N, C).

    ``a`` is (N, C). ``b`` is in the dtype of the state, which is returned; ``edge`` (B, N, C) is
    the state at the end of time where the walk begins.
    """
    B, T, C = x.shape
    N = a.shape[0]
    config = configs.choose("forward", x.device, N)
    pieces = -(-T // segment)
    ends = torch.empty((B, pieces, N, C), dtype=b.dtype, device=x.device)
    sums = torch.empty((B, pieces, C), dtype=b.dtype, device=x.device)
    settings = constants(N, config, softplus, b.dtype) | {"REVERSE": reverse}
    blocks = triton.cdiv(C, config.block_c)
    ends_kernel: Any = selective_scan_ends_kernel
    join_kernel: Any = selective_scan_join_kernel
    with torch.cuda.device_of(x):
        ends_kernel[blocks, B, pieces](
            x, delta, a, b, z, bias, ends, sums,
            *x.stride()[:2], *delta.stride()[:2], *b.stride()[:2],
            *(z.stride()[:2] if z is not None else (0, 0)), T, C, segment,
            AHEAD=configs.AHEAD, SOON=configs.SOON,
            **{k: v for k, v in settings.items() if k != "CHUNK"},
        )  # fmt: skip
        join_kernel[blocks, B](
            ends, sums, a, edge, pieces, C,
            **{k: v for k, v in settings.items() if k not in ("CHUNK", "STEPS", "SOFTPLUS")},
        )  # fmt: skip
    return ends
