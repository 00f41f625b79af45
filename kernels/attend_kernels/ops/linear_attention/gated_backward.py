"""The gradients of gated linear attention (GLA).

Equations and letters: see ``api``; pairs inside a chunk:
``gated_forward``; the states S and R:
``backward``. Each gradient has a part from pairs inside the chunk
and a part that comes by a state::

    dq_td = sum_s exp(b_td - b_sd) (do_t · v_s) k_sd + exp(b_td) (S do_t)_d             s <= t
    dk_sd = sum_t exp(b_td - b_sd) (do_t · v_s) q_td + exp(b_end,d - b_sd) (R v_s)_d    t >= s

``pairs_kernel`` makes the first parts, all chunks side by side, and ``gated_walk_kernel`` adds the
second: ``walk_kernel`` with gates on the columns of the state instead of its rows. dv has its gates
on the rows and comes from ``walk_kernel`` itself.

The gradient of a gate g_td sums q_ud k_sd exp(b_ud - b_sd) (do_u · v_s) over all pairs (reader u,
writer s) with s < t <= u. Each pair is counted where it passes, once, so nothing cancels: inside a
chunk at the middle that parts it, from t's side (readers u >= t, or writers s < t); with one end in
the chunk likewise; with both outside, by <R, S> of the states, for which one walk writes S to
memory before each chunk and the other reads it: D D_v numbers a chunk, as wide as the inputs.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common.blocks import load_part, load_state, store_part, store_state
from attend_kernels.common.wide_products import dot_wide
from attend_kernels.ops.linear_attention import tiles as configs
from attend_kernels.ops.linear_attention.fading import load_scores
from attend_kernels.ops.linear_attention.forward import constants, segment_states, walk
from attend_kernels.ops.linear_attention.gated_forward import (
    Gated,
    across,
    ages_after,
    levels,
    load_ages,
    part_factors,
    prepare,
)
from attend_kernels.ops.linear_attention.segments import launch_heads, state_like, strides

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]


@triton.jit
def products_kernel(
    grad_ptr, v_ptr, products_ptr,
    grad_batch, grad_head, grad_row, v_batch, v_head, v_row, chunks, heads, T,
    FAR: tl.constexpr, CHUNK: tl.constexpr, D: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write do_t · v_s of a chunk's pairs, reader t and writer s <= t, at (t, s) and at (s, t)."""
    pid = tl.program_id(0)
    first = pid % chunks * CHUNK
    head = pid // chunks % heads
    if FAR:
        head = head.to(tl.int64)
    batch = (pid // (chunks * heads)).to(tl.int64)
    grad_ptr += batch * grad_batch + head * grad_head
    v_ptr += batch * v_batch + head * v_head
    grad = load_part(grad_ptr, first, grad_row, T, CHUNK, D).to(DOT)
    v = load_part(v_ptr, first, v_row, T, CHUNK, D).to(DOT)
    t = first + tl.arange(0, CHUNK)
    products = tl.dot(grad, v.T, input_precision=PRECISION)
    mirrored = tl.dot(v, grad.T, input_precision=PRECISION)
    products = tl.where(t[:, None] >= t[None, :], products, mirrored)
    to = products_ptr + (batch * heads + head) * T * CHUNK
    store_part(to, first, CHUNK, T, products, CHUNK, CHUNK)


@triton.jit
def pairs_kernel(
    q_ptr, k_ptr, wholes_ptr, fractions_ptr, products_ptr, dq_ptr, dk_ptr, d_gate_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, dq_batch, dq_head, dq_row,
    dk_batch, dk_head, dk_row, slices, chunks, heads, T,
    FAR: tl.constexpr, CHUNK: tl.constexpr, LEVELS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write what pairs inside a chunk give to BLOCK_D columns of dq, dk and the gates' gradient."""
    pid = tl.program_id(0)
    column = pid % slices * BLOCK_D
    first = pid // slices % chunks * CHUNK
    head = pid // (slices * chunks) % heads
    if FAR:
        head = head.to(tl.int64)
    batch = (pid // (slices * chunks * heads)).to(tl.int64)
    line = (batch * heads + head) * T
    q_ptr += batch * q_batch + head * q_head + column
    k_ptr += batch * k_batch + head * k_head + column
    wholes_ptr += line * D + column
    fractions_ptr += line * D + column
    products_ptr += line * CHUNK
    i = tl.arange(0, CHUNK)
    t = first + i
    q = load_part(q_ptr, first, q_row, T, CHUNK, BLOCK_D).to(tl.float32)
    k = load_part(k_ptr, first, k_row, T, CHUNK, BLOCK_D).to(tl.float32)
    at = products_ptr + t.to(tl.int64) * CHUNK + i
    own = tl.load(at, mask=t < T, other=0.0).to(tl.float32)[:, None]  # no gate between t and t
    dq = own * k
    dk = own * q
    d_gate = tl.zeros((CHUNK, BLOCK_D), tl.float32)
    for half in range(LEVELS):
        wholes, fractions = load_ages(wholes_ptr, fractions_ptr, t, D, T, BLOCK_D)
        factors = part_factors(
            wholes, fractions, wholes_ptr, fractions_ptr,
            i, half, first, D, T, BLOCK_D,
        )  # fmt: skip
        # Rows of the second half read, so they get dq from k; of the first, dk from q. One product.
        second = ((t >> half & 1) == 1)[:, None]
        given = (tl.where(second, q, k) * factors).to(DOT)
        pairs = load_scores(products_ptr, first, T, False, CHUNK)
        pairs = tl.where(across(t, half), pairs, 0.0).to(DOT)
        part = factors * tl.dot(pairs, given, input_precision=PRECISION)
        dq += tl.where(second, part, 0.0)
        dk += tl.where(second, 0.0, part)
        # Gate t gets readers u >= t in its half, if that is the second; else writers s < t.
        same = (t >> half)[:, None] == (t >> half)[None, :]
        passes = same & ((t[:, None] <= t[None, :]) == second)
        product = (part * tl.where(second, q, k)).to(DOT)
        d_gate = tl.dot(passes.to(DOT), product, d_gate, input_precision=PRECISION)
    dq_ptr += batch * dq_batch + head * dq_head + column
    store_part(dq_ptr, first, dq_row, T, dq, CHUNK, BLOCK_D)
    dk_ptr += batch * dk_batch + head * dk_head + column
    store_part(dk_ptr, first, dk_row, T, dk, CHUNK, BLOCK_D)
    if d_gate_ptr is not None:
        to = d_gate_ptr + line * D + column
        store_part(to, first, D, T, d_gate, CHUNK, BLOCK_D)


@triton.jit
def gated_walk_kernel(
    read_ptr, write_ptr, faded_ptr, partner_ptr, out_ptr, wholes_ptr, fractions_ptr, totals_ptr,
    start_ptr, kept_ptr, d_gate_ptr,
    read_batch, read_head, read_row, write_batch, write_head, write_row,
    partner_batch, partner_head, partner_row, out_batch, out_head, out_row,
    start_batch, start_head, start_segment, start_row, start_column,
    slices, segments, heads, T, span,
    REVERSE: tl.constexpr, FAR: tl.constexpr, CHUNK: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add to dq, forwards, or to dk, backwards, what comes by the state.

    Here D is the width of v and of the output's gradient, E that of the keys, whose gates fade the
    state's columns. ``faded_ptr``: k or q, faded to the far end of each chunk; ``partner_ptr``: the
    other one. ``kept_ptr``: the states before each chunk, written forwards, read backwards.
    """
    pid = tl.program_id(0)
    first_column = pid % slices * BLOCK_E
    segment = pid // slices % segments
    head = pid // (slices * segments) % heads
    if FAR:
        head = head.to(tl.int64)
    batch = (pid // (slices * segments * heads)).to(tl.int64)
    line = batch * heads + head
    read_ptr += batch * read_batch + head * read_head
    write_ptr += batch * write_batch + head * write_head
    partner_ptr += batch * partner_batch + head * partner_head + first_column
    out_ptr += batch * out_batch + head * out_head + first_column
    faded_ptr += line * T * E + first_column
    wholes_ptr += line * T * E + first_column
    fractions_ptr += line * T * E + first_column
    i = tl.arange(0, CHUNK)
    e = tl.arange(0, BLOCK_E)
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
        t = first + i
        read = load_part(read_ptr, first, read_row, stop, CHUNK, D).to(DOT)
        age, fractions = load_ages(wholes_ptr, fractions_ptr, t, E, stop, BLOCK_E)
        if REVERSE:
            age = ages_after(
                age, fractions, wholes_ptr, fractions_ptr,
                i, first, E, stop, CHUNK, BLOCK_E,
            )  # fmt: skip
        else:
            age += fractions
        chunk = line * tl.cdiv(T, CHUNK) + first // CHUNK
        total = tl.load(totals_ptr + chunk * E + first_column + e)
        out = dot_wide(read, state.to(DOT), PRECISION) * tl.exp2(age)
        if d_gate_ptr is not None:
            kept = kept_ptr + chunk * (D * E)
            if REVERSE:
                before = load_state(kept, E, 1, first_column, D, BLOCK_E)
                past = tl.sum(state * before, axis=0) * tl.exp2(total)
                passes = t[:, None] > t[None, :]  # (t, writer s)
            else:
                store_state(kept, E, 1, first_column, state, D, BLOCK_E)
                past = tl.zeros((BLOCK_E,), tl.float32)
                passes = t[:, None] <= t[None, :]  # (t, reader u)
            to = d_gate_ptr + line * T * E + first_column
            d_gate = load_part(to, first, E, stop, CHUNK, BLOCK_E) + past[None, :]
            partner = load_part(partner_ptr, first, partner_row, stop, CHUNK, BLOCK_E)
            product = (out * partner.to(tl.float32)).to(DOT)
            d_gate = tl.dot(passes.to(DOT), product, d_gate, input_precision=PRECISION)
            store_part(to, first, E, stop, d_gate, CHUNK, BLOCK_E)
        out += load_part(out_ptr, first, out_row, stop, CHUNK, BLOCK_E).to(tl.float32)
        store_part(out_ptr, first, out_row, stop, out, CHUNK, BLOCK_E)
        write = load_part(write_ptr, first, write_row, stop, CHUNK, D).to(DOT)
        faded = load_part(faded_ptr, first, E, stop, CHUNK, BLOCK_E).to(DOT)
        state *= tl.exp2(total)[None, :]
        state = tl.dot(write.T, faded, state, input_precision=PRECISION)


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
) -> Gradients:
    """Return dQ, dK, dV, the gradient of the initial state, and that of the gates if wanted."""
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    d_initial = state_like(k, v)
    kept = d_gate = None
    if want_gate:
        kept = state_like(v, k, -(-q.shape[2] // chunk), q.dtype)
        d_gate = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    g = prepare(q, k, gate, chunk)
    span = configs.span(g.fading.kernel, k, v)
    states = segment_states(g.k_faded, v, g.fading, initial, None, span, chunk)
    backs = segment_states(
        g.q_faded, grad, g.fading, grad_final, d_initial, span, chunk, reverse=True
    )
    inside(grad, v, q, k, g, dq, dk, d_gate, chunk)
    gated_walk(grad, v, g.k_faded, q, dq, g, states, kept, d_gate, span, chunk, reverse=False)
    walk(g.k_faded, g.q_faded, grad, dv, g.fading, backs, d_initial, span, chunk, reverse=True)
    gated_walk(v, grad, g.q_faded, k, dk, g, backs, kept, d_gate, span, chunk, reverse=True)
    return dq, dk, dv, d_initial, d_gate


def inside(
    grad: torch.Tensor,
    v: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    g: Gated,
    dq: torch.Tensor,
    dk: torch.Tensor,
    d_gate: torch.Tensor | None,
    chunk: int,
) -> None:
    """Fill dq, dk and d_gate with what the pairs inside the chunks give."""
    B, H, T, D = q.shape
    chunks = -(-T // chunk)
    products = torch.empty((B, H, T, chunk), dtype=q.dtype, device=q.device)
    tile = configs.choose("products", grad, v)
    launch_heads(
        products_kernel, chunks * H * B, grad, v, products,
        *grad.stride()[:3], *v.stride()[:3], chunks, H, T, CHUNK=chunk, **constants(grad, tile),
    )  # fmt: skip
    tile = configs.choose("pairs", q, k)
    slices = -(-D // tile.columns)
    launch_heads(
        pairs_kernel, slices * chunks * H * B, q, k, g.wholes, g.fractions, products,
        dq, dk, d_gate, *q.stride()[:3], *k.stride()[:3], *dq.stride()[:3], *dk.stride()[:3],
        slices, chunks, H, T, CHUNK=chunk, LEVELS=levels(chunk),
        BLOCK_D=tile.columns, **constants(q, tile),
    )  # fmt: skip


def gated_walk(
    read: torch.Tensor,
    write: torch.Tensor,
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
    E = out.shape[-1]
    segments = max(1, -(-T // span))
    tile = configs.choose("columns", read, out)
    slices = -(-E // tile.columns)
    turned = None if states is None else states.transpose(-1, -2)
    launch_heads(
        gated_walk_kernel, slices * segments * H * B, read, write, faded, partner, out,
        g.wholes, g.fractions, g.fading.totals, turned, kept, d_gate,
        *read.stride()[:3], *write.stride()[:3], *partner.stride()[:3], *out.stride()[:3],
        *strides(turned, 5), slices, segments, H, T, span,
        REVERSE=reverse, CHUNK=chunk, E=E, BLOCK_E=tile.columns, **constants(read, tile),
    )  # fmt: skip
