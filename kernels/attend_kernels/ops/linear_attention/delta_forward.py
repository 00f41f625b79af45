"""The kernels of the delta rule's forward pass, gated or not, and their launchers.

Equations and letters: see ``delta_operators``. ``inverse_kernel`` solves every chunk's
triangular system for all right-hand sides at once; ``delta_walk_kernel`` finds e and o by walking
forwards, the state in registers. Where those do not hold what both need, with gates or D > 128, o
is left to ``walk_kernel``: given e it is linear attention. The first walk is then the shorter, and
it is the one that cannot be cut into segments. Fading: as in
``forward``. Gradients: ``delta_backward``.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common.blocks import load_part, load_state, store_part, store_state
from attend_kernels.common.wide_products import MOST, dot_wide
from attend_kernels.ops.linear_attention import tiles as configs
from attend_kernels.ops.linear_attention.fading import load_scores, pair_fading, sum_gates
from attend_kernels.ops.linear_attention.forward import constants, segment_states, walk
from attend_kernels.ops.linear_attention.gated_forward import across, levels
from attend_kernels.ops.linear_attention.segments import Fading, launch_heads, state_like, strides


@triton.jit
def load_column(ptr, first, stride, length, CHUNK: tl.constexpr):
    """Load one number a step as a column; zeros beyond the end."""
    t = first + tl.arange(0, CHUNK)
    x = tl.load(ptr + t.to(tl.int64) * stride, mask=t < length, other=0.0)
    return x.to(tl.float32)[:, None]


@triton.jit
def invert(system, t, LEVELS: tl.constexpr, EXACT: tl.constexpr):
    """(I + N)⁻¹ for N the part of ``system`` below its diagonal; 2 ** LEVELS rows.

    By halves: the inverse of [[A, 0], [C, B]] is [[A⁻¹, 0], [-B⁻¹ C A⁻¹, B⁻¹]], and of one row, 1.
    """
    inverse = tl.where(t[:, None] == t[None, :], 1.0, 0.0)
    for half in range(LEVELS):
        below = across(t, half) & (t[:, None] > t[None, :])
        corner = tl.where(below, system, 0.0)
        corner = tl.dot(inverse, corner, input_precision=EXACT)
        inverse -= tl.dot(corner, inverse, input_precision=EXACT)
    return inverse


@triton.jit
def inverse_kernel(
    k_ptr, beta_ptr, gate_ptr, inverse_ptr,
    k_batch, k_head, k_row, beta_batch, beta_head, beta_row, gate_batch, gate_head, gate_row,
    chunks, heads, T,
    BY_READER: tl.constexpr, FAR: tl.constexpr,
    CHUNK: tl.constexpr, PART: tl.constexpr, LEVELS: tl.constexpr,
    D: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Write (I + N)⁻¹, N_ts = k_t · k_s below the diagonal times beta_s, or beta_t if BY_READER.

    ``gate_ptr``: and faded by the gates after s through t. In one part of PART = CHUNK rows, or in
    two, whose corner is the last halving; what passes to it passes the end of the first part.
    """
    pid = tl.program_id(0)
    first = pid % chunks * CHUNK
    head = pid // chunks % heads
    if FAR:
        head = head.to(tl.int64)
    batch = (pid // (chunks * heads)).to(tl.int64)
    k_ptr += batch * k_batch + head * k_head
    beta_ptr += batch * beta_batch + head * beta_head
    inverse_ptr += (batch * heads + head) * T * CHUNK
    k = load_part(k_ptr, first, k_row, T, PART, D).to(DOT)
    beta = load_column(beta_ptr, first, beta_row, T, PART)
    t = first + tl.arange(0, PART)
    system = tl.dot(k, k.T, input_precision=PRECISION)
    system *= beta if BY_READER else tl.trans(beta)
    if gate_ptr is not None:
        gate_ptr += batch * gate_batch + head * gate_head
        wholes, fractions, after = sum_gates(gate_ptr, first, gate_row, T, PART)
        system *= pair_fading(wholes, fractions, t[:, None] > t[None, :], False)
    early = invert(system, t, LEVELS, EXACT)
    store_part(inverse_ptr, first, CHUNK, T, early, PART, PART)
    if PART < CHUNK:
        later = first + PART
        k_late = load_part(k_ptr, later, k_row, T, PART, D).to(DOT)
        beta_late = load_column(beta_ptr, later, beta_row, T, PART)
        corner = tl.dot(k_late, k.T, input_precision=PRECISION)
        corner *= beta_late if BY_READER else tl.trans(beta)
        system = tl.dot(k_late, k_late.T, input_precision=PRECISION)
        system *= beta_late if BY_READER else tl.trans(beta_late)
        if gate_ptr is not None:
            wholes, fractions, _ = sum_gates(gate_ptr, later, gate_row, T, PART)
            corner *= tl.exp2((wholes + fractions)[:, None] + after[None, :])
            system *= pair_fading(wholes, fractions, t[:, None] > t[None, :], False)
        late = invert(system, t + PART, LEVELS, EXACT)
        corner = tl.dot(late, corner, input_precision=EXACT)
        corner = -tl.dot(corner, early, input_precision=EXACT)
        store_part(inverse_ptr + PART, first, CHUNK, T, early * 0.0, PART, PART)
        store_part(inverse_ptr, later, CHUNK, T, corner, PART, PART)
        store_part(inverse_ptr + PART, later, CHUNK, T, late, PART, PART)


@triton.jit
def delta_walk_kernel(
    q_ptr, k_ptr, v_ptr, beta_ptr, gate_ptr, inverse_ptr, out_ptr, error_ptr, start_ptr, end_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    beta_batch, beta_head, beta_row, gate_batch, gate_head, gate_row, out_batch, out_head, out_row,
    start_batch, start_head, start_row, start_column, slices, heads, T,
    FAR: tl.constexpr, CHUNK: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_E columns of the output, of e (``error_ptr``) and of the last state.

    ``gate_ptr`` None: nothing fades. ``out_ptr`` None, as it must be where there are gates: the
    output is left to ``walk_kernel``.
    """
    pid = tl.program_id(0)
    first_column = pid % slices * BLOCK_E
    head = pid // slices % heads
    if FAR:
        head = head.to(tl.int64)
    batch = (pid // (slices * heads)).to(tl.int64)
    line = batch * heads + head
    q_ptr += batch * q_batch + head * q_head
    k_ptr += batch * k_batch + head * k_head
    v_ptr += batch * v_batch + head * v_head + first_column
    beta_ptr += batch * beta_batch + head * beta_head
    error_ptr += line * T * E + first_column
    if gate_ptr is not None:
        gate_ptr += batch * gate_batch + head * gate_head
    if start_ptr is None:
        state = tl.zeros((D, BLOCK_E), tl.float32)
    else:
        start_ptr += batch * start_batch + head * start_head
        state = load_state(start_ptr, start_row, start_column, first_column, D, BLOCK_E)
    # Writing what memory keeps of e, rounded, lets later steps correct that, too; and all walks
    # that take u from memory have the same state.
    KEPT: tl.constexpr = error_ptr.dtype.element_ty
    i = tl.arange(0, CHUNK)
    for first in range(0, T, CHUNK):
        t = first + i
        k = load_part(k_ptr, first, k_row, T, CHUNK, D).to(DOT)
        v = load_part(v_ptr, first, v_row, T, CHUNK, BLOCK_E)
        inverse = load_scores(inverse_ptr + line * T * CHUNK, first, T, False, CHUNK).to(DOT)
        held = state.to(DOT)
        read = dot_wide(k, held, PRECISION)
        if gate_ptr is not None:
            wholes, fractions, after = sum_gates(gate_ptr, first, gate_row, T, CHUNK)
            through = wholes + fractions
            read *= tl.exp2(through)[:, None]
        told = v.to(tl.float32) - read
        error = tl.dot(inverse, told.to(DOT), input_precision=PRECISION).to(KEPT)
        store_part(error_ptr, first, E, T, error, CHUNK, BLOCK_E)
        beta = load_column(beta_ptr, first, beta_row, T, CHUNK)
        written = (error.to(tl.float32) * beta).to(KEPT)
        if out_ptr is not None:
            q = load_part(q_ptr, first, q_row, T, CHUNK, D).to(DOT)
            weights = tl.dot(q, k.T, input_precision=PRECISION)  # (CHUNK, CHUNK)
            weights = tl.where(t[:, None] >= t[None, :], weights, 0.0).to(DOT)
            out = tl.dot(q, held, input_precision=PRECISION)
            out = tl.dot(weights, written.to(DOT), out, input_precision=PRECISION)
            to = out_ptr + batch * out_batch + head * out_head + first_column
            store_part(to, first, out_row, T, out, CHUNK, BLOCK_E)
        if gate_ptr is not None:
            state *= tl.exp2(tl.sum(tl.where(i == CHUNK - 1, through, 0.0), axis=0))
            written = written.to(tl.float32) * tl.exp2(after)[:, None]
        state = tl.dot(k.T, written.to(DOT), state, input_precision=PRECISION)
    end_ptr += line * D * E
    store_state(end_ptr, E, 1, first_column, state, D, BLOCK_E)


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    gate: torch.Tensor | None,
    initial: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Output like v, the last state in fp32, and e (B, H, T, D_v). Last axes have stride 1."""
    B, H, T, _ = q.shape
    E = v.shape[-1]
    out, final = torch.empty_like(v), state_like(k, v)
    error = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    fading = Fading(gate)
    inverse = solve(k, beta, gate, chunk, by_reader=False)
    tile = configs.choose(named("delta", gate), k, v)
    slices = -(-E // tile.columns)
    # The pairs' fading, or two products with so wide a state, would not fit the registers.
    apart = gate is not None or k.shape[-1] > MOST.value
    launch_heads(
        delta_walk_kernel, slices * H * B, q, k, v, beta, gate, inverse, None if apart else out,
        error, initial, final,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *beta.stride(), *strides(gate, 3),
        *out.stride()[:3], *strides(initial, 4), slices, H, T,
        CHUNK=chunk, E=E, BLOCK_E=tile.columns, **constants(k, tile),
    )  # fmt: skip
    if apart:
        written = (beta[..., None].float() * error).to(v.dtype)
        attend(q, k, written, out, fading, initial, chunk)
    return out, final, error


MOST_ROWS = 32  # of a system that is inverted whole; 64 would not fit the registers


def named(kernel: str, gate: torch.Tensor | None) -> str:
    """What ``tiles`` calls a kernel of the delta rule."""
    return kernel if gate is None else f"gated {kernel}"


def solve(
    k: torch.Tensor, beta: torch.Tensor, gate: torch.Tensor | None, chunk: int, by_reader: bool
) -> torch.Tensor:
    """Launch ``inverse_kernel`` over all chunks: ``(B, H, T, chunk)``."""
    B, H, T, _ = k.shape
    inverse = torch.empty((B, H, T, chunk), dtype=k.dtype, device=k.device)
    tile = configs.choose(named("inverse", gate), k, k)
    chunks, part = -(-T // chunk), min(chunk, MOST_ROWS)
    # Errors of a triangular solve grow with the system: three tf32 products make one of fp32's.
    exact = "tf32x3" if k.dtype != torch.float32 else "ieee"
    launch_heads(
        inverse_kernel, chunks * H * B, k, beta, gate, inverse, *k.stride()[:3], *beta.stride(),
        *strides(gate, 3), chunks, H, T, BY_READER=by_reader, CHUNK=chunk, PART=part,
        LEVELS=levels(part), EXACT=exact, **constants(k, tile),
    )  # fmt: skip
    return inverse


def attend(
    read: torch.Tensor,
    write: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    fading: Fading,
    start: torch.Tensor | None,
    chunk: int,
    reverse: bool = False,
    own: bool = True,
    kept: torch.Tensor | None = None,
) -> None:
    """Fill ``out`` with linear attention; the arguments are those of ``walk``."""
    span = configs.span(fading.kernel, write, value)
    states = segment_states(write, value, fading, start, None, span, chunk, reverse)
    walk(read, write, value, out, fading, states, None, span, chunk, reverse, own, kept)
