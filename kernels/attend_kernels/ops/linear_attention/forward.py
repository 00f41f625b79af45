"""The kernel behind ``linear_attention``, for no decay and for scalar gates, and its launcher.

Equations, letters and memory traffic: see ``api``. There is
one kernel, ``walk_kernel``. A program owns BLOCK_E columns of the state of one head, keeps them in
registers and walks over the steps in chunks. At each chunk it

1. reads: output = read @ state, faded, plus (read @ writeᵀ, masked and faded) @ value;
2. writes: state = state, faded, + writeᵀ @ value, faded.

The forward pass reads with q, writes v at k. The gradients are the same walk with other tensors
(``backward``), two of them backwards in time: hence the names.

Fading, in base-2 logarithms. ``through_i`` sums a chunk's gates from its start through step i,
``after_i`` those after step i. The state fades by exp2(through_i) until step i reads it; what step
j writes, by exp2(through_i - through_j) until step i reads it and by exp2(after_j) until the
chunk's end. Backwards in time ``through`` and ``after`` change places. Only pairs with j before i
are raised, and no sum of gates that are <= 0 is negated: nothing overflows, however strong they
are.

Where a batch has too few heads to fill the GPU, the sequence is cut into segments that run side by
side. A first pass finds what each segment adds to the state, ``join_kernel`` adds that up, and the
second pass starts each segment from its state: the only states that reach memory.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices, fallback
from attend_kernels.common.blocks import load_part, load_state, store_part, store_state
from attend_kernels.common.launch import TRITON_TYPES
from attend_kernels.common.wide_products import dot_rows, dot_wide
from attend_kernels.ops.linear_attention import tiles as configs
from attend_kernels.ops.linear_attention.fading import load_scores, pair_fading, sum_gates
from attend_kernels.ops.linear_attention.segments import (
    Fading,
    join,
    launch_heads,
    state_like,
    strides,
)


@triton.jit
def walk_kernel(
    read_ptr, write_ptr, value_ptr, out_ptr, gate_ptr, scores_ptr, totals_ptr, start_ptr, end_ptr,
    kept_ptr,
    read_batch, read_head, read_row, write_batch, write_head, write_row,
    value_batch, value_head, value_row, out_batch, out_head, out_row,
    gate_batch, gate_head, gate_row,
    start_batch, start_head, start_segment, start_row, start_column,
    end_batch, end_head, end_segment, end_row, end_column,
    slices, segments, heads, T, span,
    REVERSE: tl.constexpr, OWN: tl.constexpr, FAR: tl.constexpr, CHUNK: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Walk over ``span`` steps of one head with BLOCK_E columns of its state.

    ``gate_ptr``: a scalar log gate a step. For gates a key dimension, already in read and write:
    ``scores_ptr``, the products of all pairs, and ``totals_ptr``, the sums of each chunk's gates.
    ``out_ptr`` None: only find the state. ``start_ptr`` None: start from 0. OWN: a step reads what
    it writes itself. ``kept_ptr``: also write the state each chunk starts from.
    """
    pid = tl.program_id(0)
    first_column = pid % slices * BLOCK_E
    segment = pid // slices % segments
    head = pid // (slices * segments) % heads
    if FAR:
        head = head.to(tl.int64)
    batch = (pid // (slices * segments * heads)).to(tl.int64)
    line = (batch * heads + head) * T  # of tensors (B, H, T, ...) made by the launcher
    read_ptr += batch * read_batch + head * read_head
    write_ptr += batch * write_batch + head * write_head
    value_ptr += batch * value_batch + head * value_head + first_column
    i = tl.arange(0, CHUNK)
    if start_ptr is None:
        state = tl.zeros((D, BLOCK_E), tl.float32)
    else:
        start_ptr += batch * start_batch + head * start_head + segment * start_segment
        state = load_state(start_ptr, start_row, start_column, first_column, D, BLOCK_E)

    begin = segment * span
    stop = tl.minimum(begin + span, T)
    for step in range(0, stop - begin, CHUNK):
        first = begin + step
        if REVERSE:
            first = begin + (tl.cdiv(stop - begin, CHUNK) - 1) * CHUNK - step
        if kept_ptr is not None:
            kept = (batch * heads + head) * tl.cdiv(T, CHUNK) + first // CHUNK
            store_state(kept_ptr + kept * (D * E), E, 1, first_column, state, D, BLOCK_E)
        write = load_part(write_ptr, first, write_row, stop, CHUNK, D).to(DOT)
        value = load_part(value_ptr, first, value_row, stop, CHUNK, BLOCK_E)
        if gate_ptr is not None:
            gates = gate_ptr + batch * gate_batch + head * gate_head
            wholes, fractions, after = sum_gates(gates, first, gate_row, stop, CHUNK)
            through = wholes + fractions
            total = tl.sum(tl.where(i == CHUNK - 1, through, 0.0), axis=0)
        if out_ptr is not None:
            read = load_part(read_ptr, first, read_row, stop, CHUNK, D).to(DOT)
            t = first + i  # masks made of i alone would stay in registers, a number for each pair
            seen = t[:, None] <= t[None, :] if REVERSE else t[:, None] >= t[None, :]
            if scores_ptr is not None:
                weights = load_scores(scores_ptr + line * CHUNK, first, stop, REVERSE, CHUNK)
            else:
                weights = dot_rows(  # (CHUNK, CHUNK)
                    read, write, read_ptr, write_ptr, first, read_row, write_row, stop, PRECISION
                )
            if gate_ptr is not None:
                weights *= pair_fading(wholes, fractions, seen, REVERSE)
            elif scores_ptr is None:
                weights = tl.where(seen, weights, 0.0)
            if not OWN:
                weights = tl.where(t[:, None] == t[None, :], 0.0, weights)
            out = dot_wide(read, state.to(DOT), PRECISION)
            if gate_ptr is not None:
                out *= tl.exp2(after if REVERSE else through)[:, None]
            out = tl.dot(weights.to(DOT), value.to(DOT), out, input_precision=PRECISION)
            to = out_ptr + batch * out_batch + head * out_head + first_column
            store_part(to, first, out_row, stop, out, CHUNK, BLOCK_E)
        if gate_ptr is not None:  # the values fade, not the keys: those are as memory has them
            state *= tl.exp2(total)
            value = value.to(tl.float32) * tl.exp2(through if REVERSE else after)[:, None]
        if totals_ptr is not None:
            at = ((batch * heads + head) * tl.cdiv(T, CHUNK) + first // CHUNK) * D
            state *= tl.exp2(tl.load(totals_ptr + at + tl.arange(0, D)))[:, None]
        state = tl.dot(write.T, value.to(DOT), state, input_precision=PRECISION)

    if end_ptr is not None:
        end_ptr += batch * end_batch + head * end_head + segment * end_segment
        store_state(end_ptr, end_row, end_column, first_column, state, D, BLOCK_E)


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor | None,
    initial: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output like v, and the last state (B, H, D, D_v) in fp32. Last axes have stride 1."""
    fading = Fading(gate)
    out = torch.empty_like(v)
    final = state_like(k, v)
    span = configs.span(fading.kernel, k, v)
    states = segment_states(k, v, fading, initial, final, span, chunk)
    walk(q, k, v, out, fading, states, final, span, chunk)
    return out, final


def segment_states(
    write: torch.Tensor,
    value: torch.Tensor,
    fading: Fading,
    start: torch.Tensor | None,
    end: torch.Tensor | None,
    span: int,
    chunk: int,
    reverse: bool = False,
) -> torch.Tensor | None:
    """States that segments of ``span`` steps start from, ``(B, H, segments, D, E)``; fills ``end``.

    One segment starts from ``start``: there is nothing to compute, and ``end`` is left to ``walk``.
    """
    T = write.shape[2]
    if span >= T:
        return None if start is None else start[:, :, None]
    states = state_like(write, value, -(-T // span))
    walk(None, write, value, None, fading, None, states, span, chunk, reverse)
    join(states, fading.over(span, chunk), start, end, reverse)
    return states


def walk(
    read: torch.Tensor | None,
    write: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor | None,
    fading: Fading,
    states: torch.Tensor | None,
    end: torch.Tensor | None,
    span: int,
    chunk: int,
    reverse: bool = False,
    own: bool = True,
    kept: torch.Tensor | None = None,
) -> None:
    """Launch ``walk_kernel`` over all segments.

    Args:
        read: keys to read at, ``(B, H, T, D)``; None with ``out``, to find the states alone.
        write: keys to write at, ``(B, H, T, D)``.
        value: what to write there, ``(B, H, T, E)``.
        out: filled with what is read, ``(B, H, T, E)``.
        fading: how the state fades.
        states: where each segment starts, ``(B, H, segments, D, E)``, any strides; None is 0.
        end: filled with the last state, ``(B, H, D, E)``, if there is one segment; with that of
            each, ``(B, H, segments, D, E)``, if ``out`` is None.
        span: steps a segment, a multiple of the chunk.
        chunk: steps a chunk.
        reverse: from the last step to the first.
        own: a step reads what it writes itself.
        kept: filled with the state each chunk starts from, ``(B, H, chunks, D, E)``, contiguous.
    """
    B, H, T, _ = write.shape
    E = value.shape[-1]
    segments = max(1, -(-T // span))
    if end is not None and end.dim() == 4:
        end = end[:, :, None] if segments == 1 else None
    name = fading.kernel if kept is None else "kept"
    tile = configs.choose(name, write, value)
    slices = -(-E // tile.columns)
    gate = fading.gate
    if read is None:
        read = write
    launch_heads(
        walk_kernel, slices * segments * H * B, read, write, value, out, gate,
        fading.scores, fading.totals, states, end, kept,
        *read.stride()[:3], *write.stride()[:3], *value.stride()[:3], *strides(out, 3),
        *strides(gate, 3), *strides(states, 5), *strides(end, 5),
        slices, segments, H, T, span,
        REVERSE=reverse, OWN=own, CHUNK=chunk, E=E, BLOCK_E=tile.columns,
        **constants(write, tile),
    )  # fmt: skip


def constants(write: torch.Tensor, tile: configs.Tile) -> dict[str, Any]:
    """Compile-time values that depend on the dtype and width alone."""
    half = write.dtype != torch.float32
    # The interpreter multiplies bf16 as the integers that store it: widen there.
    widen = fallback.interpreted() and half
    tf32 = not half and devices.tf32_allowed()
    return {
        "D": write.shape[-1],
        "DOT": tl.float32 if widen else TRITON_TYPES[write.dtype],
        "PRECISION": "tf32" if tf32 or half else "ieee",
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }
