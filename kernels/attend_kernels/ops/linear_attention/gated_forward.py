"""The kernels of gated linear attention: one gate a step and key dimension (GLA).

Equations and letters: see ``api``. Inside a chunk a pair
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
and q and k faded to the chunk's ends; with these ``walk_kernel`` gives o. Sums of gates are kept as
a whole number and a fraction, so that small ones keep their digits beside large ones. Gradients:
``gated_backward``.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices
from attend_kernels.common.blocks import load_part, store_part
from attend_kernels.common.launch import LOG2E
from attend_kernels.ops.linear_attention import tiles as configs
from attend_kernels.ops.linear_attention.fading import LEAST_GATE
from attend_kernels.ops.linear_attention.forward import constants, segment_states, walk
from attend_kernels.ops.linear_attention.segments import Fading, launch_heads, state_like


@triton.jit
def age_kernel(
    gate_ptr, wholes_ptr, fractions_ptr, totals_ptr,
    gate_batch, gate_head, gate_row, gate_column, slices, chunks, heads, T, D,
    FAR: tl.constexpr, CHUNK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Write the base-2 log gates of a chunk summed through each step, and their total."""
    pid = tl.program_id(0)
    column = pid % slices * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    chunk = pid // slices % chunks
    head = pid // (slices * chunks) % heads
    if FAR:
        head = head.to(tl.int64)
        column = column.to(tl.int64)
    batch = (pid // (slices * chunks * heads)).to(tl.int64)
    line = batch * heads + head
    row = tl.arange(0, CHUNK)[:, None]
    t = (chunk * CHUNK + row).to(tl.int64)
    live = t < T
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
    tl.store(totals_ptr + (line * chunks + chunk) * D + column, total)


@triton.jit
def load_ages(wholes_ptr, fractions_ptr, row, row_stride, length, COLUMNS: tl.constexpr):
    """Load both parts of the sums of gates at these rows, each a row of the chunk or another."""
    column = tl.arange(0, COLUMNS)[None, :]
    at = row[:, None].to(tl.int64) * row_stride + column
    live = row[:, None] < length
    wholes = tl.load(wholes_ptr + at, mask=live, other=0).to(tl.float32)
    return wholes, tl.load(fractions_ptr + at, mask=live, other=0.0)


@triton.jit
def ages_after(
    wholes, fractions, wholes_ptr, fractions_ptr, i, first, row_stride, length,
    CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of the gates after each row of a chunk."""
    last = tl.minimum(first + CHUNK, length) - 1 + i * 0
    whole, fraction = load_ages(
        wholes_ptr, fractions_ptr, last, row_stride, length, COLUMNS
    )  # fmt: skip
    return tl.minimum((whole - wholes) + (fraction - fractions), 0.0)  # no row beyond the end


@triton.jit
def part_factors(
    wholes, fractions, wholes_ptr, fractions_ptr, i, half, first, row_stride, length,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fading of each row to the middle of its part, two halves of 2 ** half rows: from it if after.

    The middle is after the last row of the part's first half.
    """
    middle = (i >> half + 1 << half + 1) + (1 << half) - 1
    middle = tl.minimum(first + middle, length - 1)
    whole, fraction = load_ages(
        wholes_ptr, fractions_ptr, middle, row_stride, length, COLUMNS
    )  # fmt: skip
    age = (wholes - whole) + (fractions - fraction)
    age = tl.where(((i >> half & 1) == 1)[:, None], age, -age)
    return tl.exp2(tl.minimum(age, 0.0))  # rows beyond the end would rise


@triton.jit
def scores_kernel(
    q_ptr, k_ptr, wholes_ptr, fractions_ptr, scores_ptr, q_faded_ptr, k_faded_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, chunks, heads, T,
    FAR: tl.constexpr, CHUNK: tl.constexpr, LEVELS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the weights of a chunk's pairs (reader t, writer s); q and k faded to its ends."""
    pid = tl.program_id(0)
    first = pid % chunks * CHUNK
    head = pid // chunks % heads
    if FAR:
        head = head.to(tl.int64)
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
        q = load_part(q_ptr + column, first, q_row, T, CHUNK, BLOCK_D).to(tl.float32)
        k = load_part(k_ptr + column, first, k_row, T, CHUNK, BLOCK_D).to(tl.float32)
        wholes, fractions = load_ages(
            wholes_ptr + column, fractions_ptr + column, first + i, D, T, BLOCK_D
        )  # fmt: skip
        faded = q * tl.exp2(wholes + fractions)
        to = q_faded_ptr + line * T * D + column
        store_part(to, first, D, T, faded, CHUNK, BLOCK_D)
        after = ages_after(
            wholes, fractions, wholes_ptr + column, fractions_ptr + column,
            i, first, D, T, CHUNK, BLOCK_D,
        )  # fmt: skip
        faded = k * tl.exp2(after)
        to = k_faded_ptr + line * T * D + column
        store_part(to, first, D, T, faded, CHUNK, BLOCK_D)
        own += tl.sum(q * k, axis=1)
        for half in range(
            LEVELS
        ):  # not unrolled: all parts' gates at once would fill the registers
            factors = part_factors(
                wholes, fractions, wholes_ptr + column, fractions_ptr + column,
                i, half, first, D, T, BLOCK_D,
            )  # fmt: skip
            # Rows of the second half read, with q; those of the first were written, at k.
            second = ((i >> half & 1) == 1)[:, None]
            near = (tl.where(second, q, k) * factors).to(DOT)
            part = tl.dot(near, near.T, input_precision=PRECISION)
            scores += tl.where(across(first + i, half) & second, part, 0.0)
    t = first + i
    scores = tl.where(t[:, None] == t[None, :], own[:, None], scores)
    to = scores_ptr + line * T * CHUNK
    store_part(to, first, CHUNK, T, scores, CHUNK, CHUNK)


@triton.jit
def across(t, half):
    """Mask of the pairs that stand in different halves of one part."""
    return ((t[:, None] ^ t[None, :]) >> half) == 1


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
    block = min(AGE_COLUMNS, devices.padded(D))
    slices = -(-D // block)
    launch_heads(
        age_kernel, slices * chunks * H * B, gate, wholes, fractions, totals, *gate.stride(),
        slices, chunks, H, T, D, CHUNK=chunk, BLOCK_D=block, num_warps=4,
    )  # fmt: skip
    tile = configs.choose("scores", q, k)
    launch_heads(
        scores_kernel, chunks * H * B, q, k, wholes, fractions, scores, q_faded, k_faded,
        *q.stride()[:3], *k.stride()[:3], chunks, H, T, CHUNK=chunk, LEVELS=levels(chunk),
        BLOCK_D=tile.columns, **constants(q, tile),
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
    g = prepare(q, k, gate, chunk)
    span = configs.span(g.fading.kernel, k, v)
    states = segment_states(g.k_faded, v, g.fading, initial, final, span, chunk)
    walk(g.q_faded, g.k_faded, v, out, g.fading, states, final, span, chunk)
    return out, final
