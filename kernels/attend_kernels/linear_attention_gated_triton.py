"""The kernels of gated linear attention: one gate a step and key dimension (GLA).

Equations and letters: see ``attend_kernels.linear_attention_chunked``. Inside a chunk a pair
(reader t, writer s) weighs sum_d q_td k_sd exp(b_td - b_sd). As a matrix product that would be
(q exp(b)) (k exp(-b))ᵀ, and exp(-b) overflows as soon as gates are strong. Here it is made without
ever raising 2 to a positive power:

Cut the chunk in halves. For a writer in the first and a reader in the second, what passes between
them passes the middle: exp(b_t - b_s) = exp(b_t - b_middle) exp(b_middle - b_s), both factors at
most 1. So all such pairs are one matrix product of q and k, each faded to the middle. What is left
are pairs within the first half and pairs within the second: cut those in halves, and so on; the
parts of all sizes n = 1, 2, 4, ... C / 2 make log2(C) products (``part_factors``), and the diagonal
needs no gate.

(Yang et al. 2024, "Gated linear attention transformers", section 4.2, cut once more, into parts of
16, and make the pairs inside those without matrix products.)

Kernels: ``age_kernel`` sums the gates of each chunk. ``scores_kernel`` makes the pairs' weights,
and q and k faded to the chunk's ends; with these ``walk_kernel`` gives o and dv.
``gated_walk_kernel``, where gates scale the values, gives dq and dk. Sums of gates are kept as a
whole number and a fraction, so that small ones keep their digits beside large ones.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from attend_kernels import flash_configs, linear_attention_configs
from attend_kernels.flash_triton import launch, load_rows
from attend_kernels.linear_attention_triton import (
    LEAST_GATE,
    LOG2E,
    Fading,
    constants,
    load_part,
    load_state,
    segment_states,
    state_like,
    store_part,
    store_state,
    strides,
    walk,
)


@triton.jit
def age_kernel(
    gate_ptr, wholes_ptr, fractions_ptr, totals_ptr,
    gate_batch, gate_head, gate_row, gate_column, slices, chunks, heads, T, D,
    CHUNK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Write the base-2 log gates of a chunk summed through each step, and their total."""
    pid = tl.program_id(0)
    column = pid % slices * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    chunk = pid // slices % chunks
    head = pid // (slices * chunks) % heads
    batch = (pid // (slices * chunks * heads)).to(tl.int64)
    line = batch * heads + head
    row = tl.arange(0, CHUNK)[:, None]
    t = (chunk * CHUNK + row).to(tl.int64)
    live = (t < T) & (column < D)
    at = gate_ptr + batch * gate_batch + head * gate_head + t * gate_row + column * gate_column
    gates = tl.load(at, mask=live, other=0.0).to(tl.float32)
    gates = tl.minimum(tl.maximum(gates, LEAST_GATE), 0.0) * LOG2E
    whole = tl.floor(gates + 0.5)
    wholes = tl.cumsum(whole, axis=0)
    fractions = tl.cumsum(gates - whole, axis=0)
    to = (line * T + t) * D + column
    tl.store(wholes_ptr + to, wholes.to(tl.int16), mask=live)
    tl.store(fractions_ptr + to, fractions, mask=live)
    total = tl.sum(whole, axis=0, keep_dims=True) + tl.sum(gates - whole, axis=0, keep_dims=True)
    tl.store(totals_ptr + (line * chunks + chunk) * D + column, total, mask=column < D)


@triton.jit
def load_ages(wholes_ptr, fractions_ptr, row, row_stride, length, columns, COLUMNS: tl.constexpr):
    """Load both parts of the sums of gates at these rows, each a row of the chunk or another."""
    column = tl.arange(0, COLUMNS)[None, :]
    at = row[:, None].to(tl.int64) * row_stride + column
    live = (row[:, None] < length) & (column < columns)
    wholes = tl.load(wholes_ptr + at, mask=live, other=0).to(tl.float32)
    return wholes, tl.load(fractions_ptr + at, mask=live, other=0.0)


@triton.jit
def ages_after(
    wholes, fractions, wholes_ptr, fractions_ptr, i, first, row_stride, length, columns,
    CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of the gates after each row of a chunk."""
    last = tl.minimum(first + CHUNK, length) - 1 + i * 0
    whole, fraction = load_ages(
        wholes_ptr, fractions_ptr, last, row_stride, length, columns, COLUMNS
    )  # fmt: skip
    return tl.minimum((whole - wholes) + (fraction - fractions), 0.0)  # no row beyond the end


@triton.jit
def part_factors(
    wholes, fractions, wholes_ptr, fractions_ptr, i, n: tl.constexpr, first, row_stride, length,
    columns, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fading of each row to the middle of its part of 2 n rows: from it if after, to it if before.

    The middle is after the last row of the part's first half.
    """
    middle = tl.minimum(first + i // (2 * n) * (2 * n) + n - 1, length - 1)
    whole, fraction = load_ages(
        wholes_ptr, fractions_ptr, middle, row_stride, length, columns, COLUMNS
    )  # fmt: skip
    age = (wholes - whole) + (fractions - fraction)
    age = tl.where((i // n % 2 == 1)[:, None], age, -age)
    return tl.exp2(tl.minimum(age, 0.0))  # rows beyond the end would rise


@triton.jit
def scores_kernel(
    q_ptr, k_ptr, wholes_ptr, fractions_ptr, scores_ptr, q_faded_ptr, k_faded_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, chunks, heads, T,
    CHUNK: tl.constexpr, LEVELS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the weights of a chunk's pairs (reader t, writer s); q and k faded to its ends."""
    pid = tl.program_id(0)
    first = pid % chunks * CHUNK
    head = pid // chunks % heads
    batch = (pid // (chunks * heads)).to(tl.int64)
    line = batch * heads + head
    q_ptr += batch * q_batch + head * q_head
    k_ptr += batch * k_batch + head * k_head
    wholes_ptr += line * T * D
    fractions_ptr += line * T * D
    i = tl.arange(0, CHUNK)
    scores = tl.zeros((CHUNK, CHUNK), tl.float32)
    own = tl.zeros((CHUNK,), tl.float32)
    for column in range(0, D, BLOCK_D):
        columns = D - column
        q = load_part(q_ptr + column, first, q_row, T, columns, CHUNK, BLOCK_D).to(tl.float32)
        k = load_part(k_ptr + column, first, k_row, T, columns, CHUNK, BLOCK_D).to(tl.float32)
        wholes, fractions = load_ages(
            wholes_ptr + column, fractions_ptr + column, first + i, D, T, columns, BLOCK_D
        )  # fmt: skip
        faded = q * tl.exp2(wholes + fractions)
        to = q_faded_ptr + line * T * D + column
        store_part(to, first, D, T, columns, faded, CHUNK, BLOCK_D)
        after = ages_after(
            wholes, fractions, wholes_ptr + column, fractions_ptr + column,
            i, first, D, T, columns, CHUNK, BLOCK_D,
        )  # fmt: skip
        faded = k * tl.exp2(after)
        to = k_faded_ptr + line * T * D + column
        store_part(to, first, D, T, columns, faded, CHUNK, BLOCK_D)
        own += tl.sum(q * k, axis=1)
        for level in tl.static_range(LEVELS):
            n: tl.constexpr = CHUNK >> level + 1
            factors = part_factors(
                wholes, fractions, wholes_ptr + column, fractions_ptr + column,
                i, n, first, D, T, columns, BLOCK_D,
            )  # fmt: skip
            part = tl.dot((q * factors).to(DOT), (k * factors).to(DOT).T, input_precision=PRECISION)
            scores += tl.where(across(first + i, n), part, 0.0)
    t = first + i
    scores = tl.where(t[:, None] == t[None, :], own[:, None], scores)
    to = scores_ptr + line * T * CHUNK
    store_part(to, first, CHUNK, T, CHUNK, scores, CHUNK, CHUNK)


@triton.jit
def across(t, n: tl.constexpr):
    """Mask of the pairs whose row is in the second half, and column in the first, of one part."""
    second = t // n % 2 == 1
    part = t // (2 * n)
    return (part[:, None] == part[None, :]) & second[:, None] & ~second[None, :]


@triton.jit
def across_back(t, n: tl.constexpr):
    """Mask of the pairs whose row is in the first half, and column in the second, of one part."""
    second = t // n % 2 == 1
    part = t // (2 * n)
    return (part[:, None] == part[None, :]) & ~second[:, None] & second[None, :]


@triton.jit
def gated_walk_kernel(
    read_ptr, write_ptr, value_ptr, faded_ptr, partner_ptr, out_ptr, wholes_ptr, fractions_ptr,
    totals_ptr, start_ptr, kept_ptr, d_gate_ptr,
    read_batch, read_head, read_row, write_batch, write_head, write_row,
    value_batch, value_head, value_row, partner_batch, partner_head, partner_row,
    out_batch, out_head, out_row,
    start_batch, start_head, start_segment, start_row, start_column,
    slices, segments, heads, T, span,
    REVERSE: tl.constexpr, CHUNK: tl.constexpr, LEVELS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``walk_kernel`` where gates scale the values: dq, forwards, or dk, backwards.

    Here D is the width of v and of the output's gradient, E that of the keys, whose gates fade the
    state's columns. ``faded_ptr``: the values faded to the end of the chunk they are written to.

    ``d_gate_ptr``: the gradient of the gates, made from partner * out, each pair where it passes:
    forwards, what readers after t read from writers before t's part; backwards, what writers before
    t wrote for readers after t's part, and what only passes by, from the states that the walk
    forwards keeps (``kept_ptr``).
    """
    pid = tl.program_id(0)
    first_column = pid % slices * BLOCK_E
    segment = pid // slices % segments
    head = pid // (slices * segments) % heads
    batch = (pid // (slices * segments * heads)).to(tl.int64)
    line = batch * heads + head
    columns = E - first_column
    read_ptr += batch * read_batch + head * read_head
    write_ptr += batch * write_batch + head * write_head
    value_ptr += batch * value_batch + head * value_head + first_column
    partner_ptr += batch * partner_batch + head * partner_head + first_column
    out_ptr += batch * out_batch + head * out_head + first_column
    faded_ptr += line * T * E + first_column
    wholes_ptr += line * T * E + first_column
    fractions_ptr += line * T * E + first_column
    i = tl.arange(0, CHUNK)
    e = tl.arange(0, BLOCK_E)
    if start_ptr is None:
        state = tl.zeros((BLOCK_D, BLOCK_E), tl.float32)
    else:
        start_ptr += batch * start_batch + head * start_head + segment * start_segment
        state = load_state(
            start_ptr, start_row, start_column, first_column, D, E, BLOCK_D, BLOCK_E
        )  # fmt: skip

    begin = segment * span
    stop = tl.minimum(begin + span, T)
    for step in range(0, stop - begin, CHUNK):
        first = begin + step
        if REVERSE:
            first = begin + (tl.cdiv(stop - begin, CHUNK) - 1) * CHUNK - step
        t = first + i
        read = load_rows(read_ptr, first, read_row, stop, True, CHUNK, D, BLOCK_D).to(DOT)
        write = load_rows(write_ptr, first, write_row, stop, True, CHUNK, D, BLOCK_D).to(DOT)
        value = load_part(value_ptr, first, value_row, stop, columns, CHUNK, BLOCK_E)
        wholes, fractions = load_ages(
            wholes_ptr, fractions_ptr, t, E, stop, columns, BLOCK_E
        )  # fmt: skip
        chunk = line * tl.cdiv(T, CHUNK) + first // CHUNK
        total = tl.load(totals_ptr + chunk * E + first_column + e, mask=e < columns, other=0.0)
        age = wholes + fractions
        if REVERSE:
            age = ages_after(
                wholes, fractions, wholes_ptr, fractions_ptr,
                i, first, E, stop, columns, CHUNK, BLOCK_E,
            )  # fmt: skip
        out = tl.dot(read, state.to(DOT), input_precision=PRECISION) * tl.exp2(age)
        if d_gate_ptr is not None:
            partner = load_part(partner_ptr, first, partner_row, stop, columns, CHUNK, BLOCK_E)
            kept = kept_ptr + chunk * (D * E)
            # (t, u): the rows u whose product a gate t gets. A walk forwards has the readers here.
            if REVERSE:
                before = load_state(kept, E, 1, first_column, D, E, BLOCK_D, BLOCK_E)
                d_gate = (tl.sum(state * before, axis=0) * tl.exp2(total))[None, :]
                passes = t[:, None] > t[None, :]
            else:
                store_state(kept, E, 1, first_column, state, D, E, BLOCK_D, BLOCK_E)
                d_gate = 0.0
                passes = t[:, None] <= t[None, :]
            product = out * partner.to(tl.float32)
            d_gate += tl.dot(passes.to(DOT), product.to(DOT), input_precision=PRECISION)
        weights = tl.dot(read, write.T, input_precision=PRECISION)  # (CHUNK, CHUNK)
        for level in tl.static_range(LEVELS):
            n: tl.constexpr = CHUNK >> level + 1
            factors = part_factors(
                wholes, fractions, wholes_ptr, fractions_ptr,
                i, n, first, E, stop, columns, BLOCK_E,
            )  # fmt: skip
            # Readers stand in the second half and writers in the first; backwards, the other way.
            pairs = across_back(t, n) if REVERSE else across(t, n)
            faded = (value.to(tl.float32) * factors).to(DOT)
            part = tl.where(pairs, weights, 0.0).to(DOT)
            part = factors * tl.dot(part, faded, input_precision=PRECISION)
            out += part
            if d_gate_ptr is not None:
                product = (part * partner.to(tl.float32)).to(DOT)
                half = t // n
                same = half[:, None] == half[None, :]
                if REVERSE:
                    passes = same & (t[:, None] > t[None, :])
                else:
                    passes = same & (t[:, None] <= t[None, :])
                d_gate += tl.dot(passes.to(DOT), product, input_precision=PRECISION)
        own = tl.sum(tl.where(t[:, None] == t[None, :], weights, 0.0), axis=1)
        out += own[:, None] * value.to(tl.float32)
        store_part(out_ptr, first, out_row, stop, columns, out, CHUNK, BLOCK_E)
        if d_gate_ptr is not None:
            to = d_gate_ptr + line * T * E + first_column
            if REVERSE:
                d_gate += load_part(to, first, E, stop, columns, CHUNK, BLOCK_E)
            store_part(to, first, E, stop, columns, d_gate, CHUNK, BLOCK_E)
        faded = load_part(faded_ptr, first, E, stop, columns, CHUNK, BLOCK_E).to(DOT)
        state *= tl.exp2(total)[None, :]
        state = tl.dot(write.T, faded, state, input_precision=PRECISION)


@dataclass(frozen=True)
class Gated:
    """What the walks need of q, k and the gates; all made by ``prepare``, all contiguous."""

    fading: Fading  # for walk_kernel
    q_faded: torch.Tensor  # (B, H, T, D), from each chunk's start
    k_faded: torch.Tensor  # (B, H, T, D), to each chunk's end
    wholes: torch.Tensor  # (B, H, T, D), sums of log gates through each step: whole numbers, int16
    fractions: torch.Tensor  # (B, H, T, D), and fractions, fp32


def prepare(q: torch.Tensor, k: torch.Tensor, gate: torch.Tensor, chunk: int) -> Gated:
    """Sum the gates, weigh the pairs, fade q and k; all chunks side by side."""
    B, H, T, D = q.shape
    chunks = -(-T // chunk)

    def make(dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.empty((B, H, *shape), dtype=dtype, device=q.device)

    wholes, fractions = make(torch.int16, T, D), make(torch.float32, T, D)
    totals, scores = make(torch.float32, chunks, D), make(q.dtype, T, chunk)
    q_faded, k_faded = make(q.dtype, T, D), make(q.dtype, T, D)
    block = min(AGE_COLUMNS, flash_configs.padded(D))
    slices = -(-D // block)
    launch(
        age_kernel, slices * chunks * H * B, gate, wholes, fractions, totals, *gate.stride(),
        slices, chunks, H, T, D, CHUNK=chunk, BLOCK_D=block, num_warps=4,
    )  # fmt: skip
    tile = linear_attention_configs.choose("scores", q, k, chunk)
    launch(
        scores_kernel, chunks * H * B, q, k, wholes, fractions, scores, q_faded, k_faded,
        *q.stride()[:3], *k.stride()[:3], chunks, H, T, CHUNK=chunk, LEVELS=levels(chunk),
        **constants(q, tile) | {"BLOCK_D": tile.block_e},
    )  # fmt: skip
    return Gated(Fading(scores=scores, totals=totals), q_faded, k_faded, wholes, fractions)


AGE_COLUMNS = 32  # columns of gates a program sums; it only streams, so any few will do


def levels(chunk: int) -> int:
    """How often a chunk can be cut in halves."""
    return chunk.bit_length() - 1


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    initial: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output like v, and the last state (B, H, D, D_v) in fp32. Last axes have stride 1."""
    out = torch.empty_like(v)
    final = state_like(k, v)
    span = linear_attention_configs.span(k, v, chunk)
    g = prepare(q, k, gate, chunk)
    states = segment_states(g.k_faded, v, g.fading, initial, final, span, chunk)
    walk(g.q_faded, g.k_faded, v, out, g.fading, states, final, span, chunk)
    return out, final


def backward(
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    initial: torch.Tensor | None,
    chunk: int,
    want_gate: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return dQ, dK, dV, the gradient of the initial state, and that of the gates if wanted."""
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    d_initial = state_like(k, v)
    kept = d_gate = None
    if want_gate:
        kept = state_like(v, k, -(-q.shape[2] // chunk), q.dtype)
        d_gate = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    span = linear_attention_configs.span(k, v, chunk)
    g = prepare(q, k, gate, chunk)
    states = segment_states(g.k_faded, v, g.fading, initial, None, span, chunk)
    backs = segment_states(
        g.q_faded, grad, g.fading, grad_final, d_initial, span, chunk, reverse=True
    )
    gated_walk(grad, v, k, g.k_faded, q, dq, g, states, kept, d_gate, span, chunk, reverse=False)
    walk(g.k_faded, g.q_faded, grad, dv, g.fading, backs, d_initial, span, chunk, reverse=True)
    gated_walk(v, grad, q, g.q_faded, k, dk, g, backs, kept, d_gate, span, chunk, reverse=True)
    return dq, dk, dv, d_initial, d_gate


def gated_walk(
    read: torch.Tensor,
    write: torch.Tensor,
    value: torch.Tensor,
    faded: torch.Tensor,
    partner: torch.Tensor,
    out: torch.Tensor,
    g: Gated,
    states: torch.Tensor | None,
    kept: torch.Tensor | None,
    d_gate: torch.Tensor | None,
    span: int,
    chunk: int,
    reverse: bool,
) -> None:
    """Launch ``gated_walk_kernel`` over all segments; ``states`` as ``walk`` has them for v."""
    B, H, T, _ = read.shape
    E = value.shape[-1]
    segments = max(1, -(-T // span))
    tile = linear_attention_configs.choose("gated", read, value, chunk)
    slices = -(-E // tile.block_e)
    turned = None if states is None else states.transpose(-1, -2)
    launch(
        gated_walk_kernel, slices * segments * H * B, read, write, value, faded, partner, out,
        g.wholes, g.fractions, g.fading.totals, turned, kept, d_gate,
        *read.stride()[:3], *write.stride()[:3], *value.stride()[:3], *partner.stride()[:3],
        *out.stride()[:3], *strides(turned, 5), slices, segments, H, T, span,
        REVERSE=reverse, CHUNK=chunk, LEVELS=levels(chunk), E=E, BLOCK_E=tile.block_e,
        **constants(read, tile),
    )  # fmt: skip
