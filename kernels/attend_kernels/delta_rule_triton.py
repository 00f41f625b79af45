"""The kernels of linear attention with the delta rule, and their launchers.

Equations and letters: see ``attend_kernels.delta_rule``. Three kernels: ``inverse_kernel`` solves
every chunk's triangular system for all right-hand sides at once, ``delta_walk_kernel`` finds e and
o by walking forwards, ``delta_back_kernel`` du by walking backwards. Everything else is linear
attention, by ``walk_kernel``; so is o where the registers do not hold both, in fp32 with D > 128.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels import linear_attention_configs
from attend_kernels.flash_triton import launch
from attend_kernels.linear_attention_gated_triton import across, levels
from attend_kernels.linear_attention_segments import Fading, state_like, strides
from attend_kernels.linear_attention_tiles import (
    load_part,
    load_scores,
    load_state,
    store_part,
    store_state,
)
from attend_kernels.linear_attention_triton import constants, segment_states, walk
from attend_kernels.wide_products import dot_rows, dot_wide, is_wide

Pair = tuple[torch.Tensor, torch.Tensor]
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


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
    k_ptr, beta_ptr, inverse_ptr,
    k_batch, k_head, k_row, beta_batch, beta_head, beta_row, chunks, heads, T,
    BY_READER: tl.constexpr, CHUNK: tl.constexpr, PART: tl.constexpr, LEVELS: tl.constexpr,
    D: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Write (I + N)⁻¹, N_ts = k_t · k_s below the diagonal times beta_s, or beta_t if BY_READER.

    In one part of PART = CHUNK rows, or in two, whose corner is the last halving.
    """
    pid = tl.program_id(0)
    first = pid % chunks * CHUNK
    head = pid // chunks % heads
    batch = (pid // (chunks * heads)).to(tl.int64)
    k_ptr += batch * k_batch + head * k_head
    beta_ptr += batch * beta_batch + head * beta_head
    inverse_ptr += (batch * heads + head) * T * CHUNK
    k = load_part(k_ptr, first, k_row, T, PART, D).to(DOT)
    beta = load_column(beta_ptr, first, beta_row, T, PART)
    t = first + tl.arange(0, PART)
    system = tl.dot(k, k.T, input_precision=PRECISION)
    system *= beta if BY_READER else tl.trans(beta)
    early = invert(system, t, LEVELS, EXACT)
    store_part(inverse_ptr, first, CHUNK, T, early, PART, PART)
    if PART < CHUNK:
        later = first + PART
        k_late = load_part(k_ptr, later, k_row, T, PART, D).to(DOT)
        beta_late = load_column(beta_ptr, later, beta_row, T, PART)
        system = tl.dot(k_late, k_late.T, input_precision=PRECISION)
        system *= beta_late if BY_READER else tl.trans(beta_late)
        late = invert(system, t + PART, LEVELS, EXACT)
        corner = tl.dot(k_late, k.T, input_precision=PRECISION)
        corner *= beta_late if BY_READER else tl.trans(beta)
        corner = tl.dot(late, corner, input_precision=EXACT)
        corner = -tl.dot(corner, early, input_precision=EXACT)
        store_part(inverse_ptr + PART, first, CHUNK, T, early * 0.0, PART, PART)
        store_part(inverse_ptr, later, CHUNK, T, corner, PART, PART)
        store_part(inverse_ptr + PART, later, CHUNK, T, late, PART, PART)


@triton.jit
def delta_walk_kernel(
    q_ptr, k_ptr, v_ptr, beta_ptr, inverse_ptr, out_ptr, error_ptr, start_ptr, end_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    beta_batch, beta_head, beta_row, out_batch, out_head, out_row,
    start_batch, start_head, start_row, start_column, slices, heads, T,
    CHUNK: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_E columns of the output, of e (``error_ptr``) and of the last state.

    ``out_ptr`` None: the output is left to ``walk_kernel``.
    """
    pid = tl.program_id(0)
    first_column = pid % slices * BLOCK_E
    head = pid // slices % heads
    batch = (pid // (slices * heads)).to(tl.int64)
    line = batch * heads + head
    q_ptr += batch * q_batch + head * q_head
    k_ptr += batch * k_batch + head * k_head
    v_ptr += batch * v_batch + head * v_head + first_column
    beta_ptr += batch * beta_batch + head * beta_head
    error_ptr += line * T * E + first_column
    if start_ptr is None:
        state = tl.zeros((D, BLOCK_E), tl.float32)
    else:
        start_ptr += batch * start_batch + head * start_head
        state = load_state(start_ptr, start_row, start_column, first_column, D, BLOCK_E)
    for first in range(0, T, CHUNK):
        t = first + tl.arange(0, CHUNK)
        k = load_part(k_ptr, first, k_row, T, CHUNK, D).to(DOT)
        v = load_part(v_ptr, first, v_row, T, CHUNK, BLOCK_E)
        inverse = load_scores(inverse_ptr + line * T * CHUNK, first, T, False, CHUNK).to(DOT)
        held = state.to(DOT)
        told = v.to(tl.float32) - dot_wide(k, held, PRECISION)
        error = tl.dot(inverse, told.to(DOT), input_precision=PRECISION)
        store_part(error_ptr, first, E, T, error, CHUNK, BLOCK_E)
        written = (error * load_column(beta_ptr, first, beta_row, T, CHUNK)).to(DOT)
        if out_ptr is not None:
            q = load_part(q_ptr, first, q_row, T, CHUNK, D).to(DOT)
            weights = tl.dot(q, k.T, input_precision=PRECISION)  # (CHUNK, CHUNK)
            weights = tl.where(t[:, None] >= t[None, :], weights, 0.0).to(DOT)
            out = tl.dot(q, held, input_precision=PRECISION)
            out = tl.dot(weights, written, out, input_precision=PRECISION)
            to = out_ptr + batch * out_batch + head * out_head + first_column
            store_part(to, first, out_row, T, out, CHUNK, BLOCK_E)
        state = tl.dot(k.T, written, state, input_precision=PRECISION)
    end_ptr += line * D * E
    store_state(end_ptr, E, 1, first_column, state, D, BLOCK_E)


@triton.jit
def delta_back_kernel(
    q_ptr, k_ptr, grad_ptr, beta_ptr, inverse_ptr, d_written_ptr, start_ptr, end_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, grad_batch, grad_head, grad_row,
    beta_batch, beta_head, beta_row, start_batch, start_head, start_row, start_column,
    slices, heads, T,
    CHUNK: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_E columns of du, and of the first state's gradient, from the last one's."""
    pid = tl.program_id(0)
    first_column = pid % slices * BLOCK_E
    head = pid // slices % heads
    batch = (pid // (slices * heads)).to(tl.int64)
    line = batch * heads + head
    q_ptr += batch * q_batch + head * q_head
    k_ptr += batch * k_batch + head * k_head
    grad_ptr += batch * grad_batch + head * grad_head + first_column
    beta_ptr += batch * beta_batch + head * beta_head
    d_written_ptr += line * T * E + first_column
    if start_ptr is None:
        state = tl.zeros((D, BLOCK_E), tl.float32)
    else:
        start_ptr += batch * start_batch + head * start_head
        state = load_state(start_ptr, start_row, start_column, first_column, D, BLOCK_E)
    for step in range(0, T, CHUNK):
        first = (tl.cdiv(T, CHUNK) - 1) * CHUNK - step
        t = first + tl.arange(0, CHUNK)
        q = load_part(q_ptr, first, q_row, T, CHUNK, D).to(DOT)
        k = load_part(k_ptr, first, k_row, T, CHUNK, D).to(DOT)
        grad = load_part(grad_ptr, first, grad_row, T, CHUNK, BLOCK_E).to(DOT)
        weights = dot_rows(k, q, k_ptr, q_ptr, first, k_row, q_row, T, PRECISION)  # (s, t)
        weights = tl.where(t[:, None] <= t[None, :], weights, 0.0).to(DOT)
        wanted = dot_wide(k, state.to(DOT), PRECISION)
        wanted = tl.dot(weights, grad, wanted, input_precision=PRECISION)
        inverse = load_scores(inverse_ptr + line * T * CHUNK, first, T, True, CHUNK).to(DOT)
        d_written = tl.dot(inverse, wanted.to(DOT), input_precision=PRECISION)
        store_part(d_written_ptr, first, E, T, d_written, CHUNK, BLOCK_E)
        state = tl.dot(q.T, grad, state, input_precision=PRECISION)
        back = -d_written * load_column(beta_ptr, first, beta_row, T, CHUNK)
        state = tl.dot(k.T, back.to(DOT), state, input_precision=PRECISION)
    end_ptr += line * D * E
    store_state(end_ptr, E, 1, first_column, state, D, BLOCK_E)


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    initial: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Output like v, the last state in fp32, and e (B, H, T, D_v). Last axes have stride 1."""
    B, H, T, _ = q.shape
    E = v.shape[-1]
    out, final = torch.empty_like(v), state_like(k, v)
    error = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    inverse = solve(k, beta, chunk, by_reader=False)
    tile = linear_attention_configs.choose("delta", k, v)
    slices = -(-E // tile.columns)
    # Two exact products with the state at once are too many operands for the registers.
    apart = is_wide(k)
    launch(
        delta_walk_kernel, slices * H * B, q, k, v, beta, inverse, None if apart else out, error,
        initial, final,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *beta.stride(), *out.stride()[:3],
        *strides(initial, 4), slices, H, T,
        CHUNK=chunk, E=E, BLOCK_E=tile.columns, **constants(k, tile),
    )  # fmt: skip
    if apart:
        written = (beta[..., None].float() * error).to(v.dtype)
        attend(q, k, written, out, initial, chunk)
    return out, final, error


MOST_ROWS = 32  # of a system that is inverted whole; 64 would not fit the registers


def solve(k: torch.Tensor, beta: torch.Tensor, chunk: int, by_reader: bool) -> torch.Tensor:
    """Launch ``inverse_kernel`` over all chunks: ``(B, H, T, chunk)``."""
    B, H, T, _ = k.shape
    inverse = torch.empty((B, H, T, chunk), dtype=k.dtype, device=k.device)
    tile = linear_attention_configs.choose("inverse", k, k)
    chunks, part = -(-T // chunk), min(chunk, MOST_ROWS)
    # Errors of a triangular solve grow with the system: three tf32 products make one of fp32's.
    exact = "tf32x3" if k.dtype != torch.float32 else "ieee"
    launch(
        inverse_kernel, chunks * H * B, k, beta, inverse, *k.stride()[:3], *beta.stride(),
        chunks, H, T, BY_READER=by_reader, CHUNK=chunk, PART=part, LEVELS=levels(part),
        EXACT=exact, **constants(k, tile),
    )  # fmt: skip
    return inverse


def backward(
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    initial: torch.Tensor | None,
    error: torch.Tensor,
    chunk: int,
) -> Gradients:
    """Return dQ, dK, dV, dbeta (fp32) and the gradient of the initial state."""
    B, H, T, _ = q.shape
    E = v.shape[-1]
    d_initial = state_like(k, v)
    d_written = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    inverse = solve(k, beta, chunk, by_reader=True)
    tile = linear_attention_configs.choose("back", k, v)
    slices = -(-E // tile.columns)
    launch(
        delta_back_kernel, slices * H * B, q, k, grad, beta, inverse, d_written,
        grad_final, d_initial,
        *q.stride()[:3], *k.stride()[:3], *grad.stride()[:3], *beta.stride(),
        *strides(grad_final, 4), slices, H, T,
        CHUNK=chunk, E=E, BLOCK_E=tile.columns, **constants(k, tile),
    )  # fmt: skip

    strength = beta[..., None].float()
    d_beta = (d_written.float() * error.float()).sum(dim=-1)
    dv = torch.empty_like(v).copy_(strength * d_written)
    written = (strength * error).to(v.dtype)
    k_scaled = (strength * k).to(k.dtype)
    dq, dk = torch.empty_like(q), torch.empty_like(k)
    total, part = (torch.empty(k.shape, dtype=torch.float32, device=k.device) for _ in range(2))
    first = None if initial is None else initial.transpose(-1, -2)
    last = None if grad_final is None else grad_final.transpose(-1, -2)
    attend(grad, written, k, dq, first, chunk)
    attend(written, grad, q, total, last, chunk, reverse=True)
    attend(written, d_written, k_scaled, part, None, chunk, reverse=True, own=False)
    total -= part
    attend(-dv, written, k, part, first, chunk, own=False)
    dk.copy_(total.add_(part))
    return dq, dk, dv, d_beta, d_initial


def attend(
    read: torch.Tensor,
    write: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    start: torch.Tensor | None,
    chunk: int,
    reverse: bool = False,
    own: bool = True,
) -> None:
    """Fill ``out`` with plain linear attention; ``own``: a step reads what it writes itself."""
    span = linear_attention_configs.span("plain", write, value)
    states = segment_states(write, value, Fading(), start, None, span, chunk, reverse)
    walk(read, write, value, out, Fading(), states, None, span, chunk, reverse, own)
