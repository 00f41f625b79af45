"""The backward kernels behind ``flash_attention``.

Equations and letters: see ``api``. Three launches:

1. ``flash_delta_kernel``: delta = rowsum(O * dO) - dLSE, one number a query.
2. ``flash_keys_kernel``: a program owns BLOCK_S keys, keeps their dK and dV in registers and walks
   over the queries. With grouped heads it walks over the queries of each head of its group.
3. ``flash_queries_kernel``: a program owns BLOCK_T queries, keeps their dQ and walks over the keys.

Each sum lives in one program, so its order, hence every bit, is the same each time. Both passes
make S and dP again: 7 products in all. With ``deterministic=False`` pass 2 also adds its share of
dQ to memory with atomics and pass 3 is dropped: 5 products, but sums in whatever order programs
finish in.

Pass 2 works on transposed tiles, (BLOCK_S, BLOCK_T), made as such: K Q^T rather than (Q K^T)^T,
for some versions of Triton (3.4 to 3.7.0) miscompile a product with a transposed accumulator on
Hopper, and a transpose costs a trip through shared memory anyway.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices
from attend_kernels.common.launch import LOG2E, launch
from attend_kernels.common.packing import Packing, schedule
from attend_kernels.common.scores import MASKED_SCORE, bend, score_unit, visible
from attend_kernels.ops.flash import tiles as configs
from attend_kernels.ops.flash.forward import (
    constants,
    described,
    load_rows,
    locate,
    store_rows,
    tile_range,
)
from attend_kernels.ops.flash.options import Options
from attend_kernels.ops.flash.tiles import Tile


@triton.jit
def flash_delta_kernel(
    out_ptr, grad_ptr, grad_lse_ptr, delta_ptr,
    out_batch, out_head, out_row, grad_batch, grad_head, grad_row, lse_batch, lse_head, lse_row,
    tiles, heads, T,
    BLOCK_T: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Write delta = rowsum(O * dO) - dLSE for BLOCK_T queries."""
    pid = tl.program_id(0)
    first = pid % tiles * BLOCK_T
    head = (pid // tiles % heads).to(tl.int64)
    batch = (pid // (tiles * heads)).to(tl.int64)
    out_ptr += batch * out_batch + head * out_head
    grad_ptr += batch * grad_batch + head * grad_head
    out = load_rows(out_ptr, first, out_row, T, True, BLOCK_T, D, BLOCK_D).to(tl.float32)
    grad = load_rows(grad_ptr, first, grad_row, T, True, BLOCK_T, D, BLOCK_D).to(tl.float32)
    delta = tl.sum(out * grad, axis=1)
    t = first + tl.arange(0, BLOCK_T)
    if grad_lse_ptr is not None:
        grad_lse_ptr += batch * lse_batch + head * lse_head
        delta -= tl.load(grad_lse_ptr + t.to(tl.int64) * lse_row, mask=t < T, other=0.0)
    tl.store(delta_ptr + (batch * heads + head) * T + t, delta, mask=t < T)


@triton.jit
def keys_over_queries(
    dk, dv, k, v, s, q_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, slopes_ptr,
    q_row, grad_row, q_head, grad_head, rows, start, stop, full_start, full,
    T, S, left, right, scale, softcap, GROUP: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_T: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add what the queries ``start..stop`` of all the heads of a group say about a block of keys.

    One loop over heads and tiles both: nested, the two would take registers enough to spill.
    """
    unit = score_unit(scale, softcap)
    tiles = tl.cdiv(tl.maximum(stop - start, 0), BLOCK_T)
    for step in range(0, tiles * GROUP):
        member = step // tiles if GROUP > 1 else 0
        at = start + (step - member * tiles) * BLOCK_T
        first = tl.where(at < full_start, at, at + full) if MASKED else at
        q_at = q_ptr + tl.cast(member, tl.int64) * q_head
        q = load_rows(q_at, first, q_row, T, MASKED, BLOCK_T, D, BLOCK_D).to(DOT)
        x = tl.dot(k, q.T, input_precision=PRECISION)  # (BLOCK_S, BLOCK_T)
        t = first + tl.arange(0, BLOCK_T)
        line = member * rows + t  # fits 32 bits: one number a query and head of the group
        if MASKED:  # a query beyond the end gets LSE inf: all its weights are 0
            lse = tl.load(lse_ptr + line, mask=t < T, other=float("inf"))
        else:
            lse = tl.load(lse_ptr + line)
        slope = None
        if slopes_ptr is not None:
            slope = tl.load(slopes_ptr + member)
        x, factor = bend(x, t[None, :], s[:, None], S - T, scale, softcap, slope, DOT)
        if MASKED:
            seen = visible(t[None, :], s[:, None], S - T, S, left, right)
            x = tl.where(seen, x, MASKED_SCORE)
        weights = tl.exp2(x * unit - (lse * LOG2E)[None, :])
        if MASKED:
            weights = tl.where(seen, weights, 0.0)  # an empty row has LSE -inf: its weights are inf
        grad_at = grad_ptr + tl.cast(member, tl.int64) * grad_head
        grad = load_rows(grad_at, first, grad_row, T, MASKED, BLOCK_T, D, BLOCK_D).to(DOT)
        dv = tl.dot(weights.to(DOT), grad, dv, input_precision=PRECISION)
        d_weights = tl.dot(v, grad.T, input_precision=PRECISION)  # (BLOCK_S, BLOCK_T)
        if MASKED:
            delta = tl.load(delta_ptr + line, mask=t < T, other=0.0)
        else:
            delta = tl.load(delta_ptr + line)
        dx = (weights * (d_weights - delta[None, :]) * factor).to(DOT)
        dk = tl.dot(dx, q, dk, input_precision=PRECISION)
        if dq_ptr is not None:
            dq = tl.dot(k.T, dx, input_precision=PRECISION) * scale  # (BLOCK_D, BLOCK_T)
            column = tl.arange(0, BLOCK_D)[:, None]
            row = tl.arange(0, BLOCK_T)[None, :]
            spot = dq_ptr + tl.cast(member * rows + first, tl.int64) * D + (row * D + column)
            tl.atomic_add(spot, dq, mask=(t < T)[None, :] & (column < D), sem="relaxed")
    return dk, dv


@triton.jit
def flash_keys_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, slopes_ptr,
    tiles_ptr, q_starts_ptr, k_starts_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    grad_batch, grad_head, grad_row, dk_batch, dk_head, dk_row, dv_batch, dv_head, dv_row,
    tiles, groups, T, S, left, right, scale, softcap,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_S rows of dK and dV; with ``dq_ptr`` also add to dQ (fp32, contiguous)."""
    rows = T
    first, batch, group, q_start, k_start, T, S = locate(
        tl.program_id(0), tiles, groups, tiles_ptr, q_starts_ptr, k_starts_ptr, T, S, BLOCK_S
    )
    if first >= S:
        return
    k_ptr += batch * k_batch + group * k_head + k_start * k_row
    v_ptr += batch * v_batch + group * v_head + k_start * v_row
    dk_ptr += batch * dk_batch + group * dk_head + k_start * dk_row
    dv_ptr += batch * dv_batch + group * dv_head + k_start * dv_row
    k = load_rows(k_ptr, first, k_row, S, True, BLOCK_S, D, BLOCK_D).to(DOT)
    v = load_rows(v_ptr, first, v_row, S, True, BLOCK_S, D, BLOCK_D).to(DOT)
    s = first + tl.arange(0, BLOCK_S)
    dk = tl.zeros((BLOCK_S, BLOCK_D), tl.float32)
    dv = tl.zeros((BLOCK_S, BLOCK_D), tl.float32)
    # Seen from a key the window is mirrored: queries `right` before to `left` after read it.
    last = tl.minimum(first + BLOCK_S, S) - 1
    start, full_start, full_stop, stop = tile_range(first, last, T - S, right, left, T, BLOCK_T)
    # No tile is full where some of the keys do not exist: their weights would be anything.
    full_stop = tl.where(first + BLOCK_S > S, full_start, full_stop)
    full = full_stop - full_start
    head = group * GROUP
    q_ptr += batch * q_batch + head * q_head + q_start * q_row
    grad_ptr += batch * grad_batch + head * grad_head + q_start * grad_row
    line = (batch * (groups * GROUP) + head) * rows + q_start
    lse_ptr += line
    delta_ptr += line
    if dq_ptr is not None:
        dq_ptr += line * D
    if slopes_ptr is not None:
        slopes_ptr += head
    dk, dv = keys_over_queries(
        dk, dv, k, v, s, q_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, slopes_ptr,
        q_row, grad_row, q_head, grad_head, rows, full_start, full_stop, full_start, full,
        T, S, left, right, scale, softcap, GROUP, False, BLOCK_T, D, BLOCK_D, DOT, PRECISION,
    )  # fmt: skip
    dk, dv = keys_over_queries(
        dk, dv, k, v, s, q_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, slopes_ptr,
        q_row, grad_row, q_head, grad_head, rows, start, stop - full, full_start, full,
        T, S, left, right, scale, softcap, GROUP, True, BLOCK_T, D, BLOCK_D, DOT, PRECISION,
    )  # fmt: skip
    store_rows(dk_ptr, first, dk_row, S, dk * scale, BLOCK_S, D, BLOCK_D)
    store_rows(dv_ptr, first, dv_row, S, dv, BLOCK_S, D, BLOCK_D)


@triton.jit
def queries_over_keys(
    dq, q, grad, lse, delta, t, k_ptr, v_ptr, k_row, v_row, batch, group, start, stop,
    full_start, full, shift, S, left, right, scale, softcap, slope,
    MASKED: tl.constexpr, BLOCK_S: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Add what the keys ``start..stop`` say about a block of queries."""
    unit = score_unit(scale, softcap)
    for at in range(start, stop, BLOCK_S):
        first = tl.where(at < full_start, at, at + full) if MASKED else at
        if DESCRIPTORS:
            k = k_ptr.load([batch, group, first, 0]).reshape(BLOCK_S, BLOCK_D).to(DOT)
            v = v_ptr.load([batch, group, first, 0]).reshape(BLOCK_S, BLOCK_D).to(DOT)
        else:
            k = load_rows(k_ptr, first, k_row, S, MASKED, BLOCK_S, D, BLOCK_D).to(DOT)
            v = load_rows(v_ptr, first, v_row, S, MASKED, BLOCK_S, D, BLOCK_D).to(DOT)
        x = tl.dot(q, k.T, input_precision=PRECISION)  # (BLOCK_T, BLOCK_S)
        s = first + tl.arange(0, BLOCK_S)[None, :]
        x, factor = bend(x, t[:, None], s, shift, scale, softcap, slope, DOT)
        if MASKED:
            seen = visible(t[:, None], s, shift, S, left, right)
            x = tl.where(seen, x, MASKED_SCORE)
        weights = tl.exp2(x * unit - (lse * LOG2E)[:, None])
        if MASKED:
            weights = tl.where(seen, weights, 0.0)
        d_weights = tl.dot(grad, v.T, input_precision=PRECISION)
        dx = weights * (d_weights - delta[:, None]) * factor
        dq = tl.dot(dx.to(DOT), k, dq, input_precision=PRECISION)
    return dq


@triton.jit
def flash_queries_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, slopes_ptr,
    tiles_ptr, q_starts_ptr, k_starts_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    grad_batch, grad_head, grad_row, dq_batch, dq_head, dq_row,
    tiles, heads, T, S, left, right, scale, softcap,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_T rows of dQ: the forward kernel's walk, with another sum.

    With DESCRIPTORS ``k_ptr`` and ``v_ptr`` are tensor descriptors.
    """
    pid = tl.program_id(0)
    if right is not None:
        pid = tl.num_programs(0) - 1 - pid
    rows = T
    first, batch, head, q_start, k_start, T, S = locate(
        pid, tiles, heads, tiles_ptr, q_starts_ptr, k_starts_ptr, T, S, BLOCK_T
    )
    if first >= T:
        return
    group = head // GROUP
    q_ptr += batch * q_batch + head * q_head + q_start * q_row
    if not DESCRIPTORS:
        k_ptr += batch * k_batch + group * k_head + k_start * k_row
        v_ptr += batch * v_batch + group * v_head + k_start * v_row
    at_batch, at_group = batch.to(tl.int32), group.to(tl.int32)
    grad_ptr += batch * grad_batch + head * grad_head + q_start * grad_row
    dq_ptr += batch * dq_batch + head * dq_head + q_start * dq_row
    line = (batch * heads + head) * rows + q_start
    slope = None
    if slopes_ptr is not None:
        slope = tl.load(slopes_ptr + head)

    shift = S - T
    t = first + tl.arange(0, BLOCK_T)
    q = load_rows(q_ptr, first, q_row, T, True, BLOCK_T, D, BLOCK_D).to(DOT)
    grad = load_rows(grad_ptr, first, grad_row, T, True, BLOCK_T, D, BLOCK_D).to(DOT)
    lse = tl.load(lse_ptr + line + t, mask=t < T, other=float("inf"))
    delta = tl.load(delta_ptr + line + t, mask=t < T, other=0.0)
    dq = tl.zeros((BLOCK_T, BLOCK_D), tl.float32)
    last = tl.minimum(first + BLOCK_T, T) - 1
    start, full_start, full_stop, stop = tile_range(first, last, shift, left, right, S, BLOCK_S)
    full = full_stop - full_start
    dq = queries_over_keys(
        dq, q, grad, lse, delta, t, k_ptr, v_ptr, k_row, v_row, at_batch, at_group,
        full_start, full_stop, full_start, full, shift, S, left, right, scale, softcap, slope,
        False, BLOCK_S, D, BLOCK_D, DOT, PRECISION, DESCRIPTORS,
    )  # fmt: skip
    dq = queries_over_keys(
        dq, q, grad, lse, delta, t, k_ptr, v_ptr, k_row, v_row, at_batch, at_group,
        start, stop - full, full_start, full, shift, S, left, right, scale, softcap, slope,
        True, BLOCK_S, D, BLOCK_D, DOT, PRECISION, DESCRIPTORS,
    )  # fmt: skip
    store_rows(dq_ptr, first, dq_row, T, dq * scale, BLOCK_T, D, BLOCK_D)


def backward(
    grad: torch.Tensor,
    grad_lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    slopes: torch.Tensor | None,
    options: Options,
    packing: Packing | None = None,
    keys_tile: Tile | None = None,
    queries_tile: Tile | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Launch the backward kernels: (dQ, dK, dV) laid out like q, k, v. Last axes have stride 1."""
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    mask = options.mask(slopes, packing)
    deterministic = options.deterministic or not configs.has_atomic(q)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    dq_sum = None
    if not deterministic:
        dq_sum = torch.zeros((B, H, T, D), dtype=torch.float32, device=q.device)
    delta = torch.empty_like(lse)
    lse_strides = grad_lse.stride() if grad_lse is not None else (0, 0, 0)
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *grad.stride()[:3])
    tiles = -(-T // DELTA_ROWS)
    launch(
        flash_delta_kernel, tiles * H * B, out, grad, grad_lse, delta,
        *out.stride()[:3], *grad.stride()[:3], *lse_strides,
        tiles, H, T, BLOCK_T=DELTA_ROWS, D=D, BLOCK_D=devices.padded(D),
    )  # fmt: skip

    tile = keys_tile or configs.choose("keys" if deterministic else "atomic", q, mask)
    tiles, table, starts = schedule(S, packing, tile.block_s, over_queries=False)
    launch(
        flash_keys_kernel, tiles * G * B, q, k, v, grad, lse, delta, dq_sum, dk, dv, slopes,
        table, *starts, *strides, *dk.stride()[:3], *dv.stride()[:3],
        tiles, G, T, S, *options.arguments(), GROUP=H // G, **constants(q, tile),
    )  # fmt: skip
    if dq_sum is not None:
        return dq.copy_(dq_sum), dk, dv

    tile = queries_tile or configs.choose("queries", q, mask)
    tiles, table, starts = schedule(T, packing, tile.block_t, over_queries=True)
    by_descriptors, keys, values = described(tile, packing, tile.block_s, k, v)
    launch(
        flash_queries_kernel, tiles * H * B, q, keys, values, grad, lse, delta, dq, slopes,
        table, *starts, *strides, *dq.stride()[:3],
        tiles, H, T, S, *options.arguments(),
        GROUP=H // G, DESCRIPTORS=by_descriptors, **constants(q, tile),
    )  # fmt: skip
    return dq, dk, dv


DELTA_ROWS = 64  # queries a program of flash_delta_kernel owns; it only streams, so any will do
