"""The gradient of linear attention is linear attention, three times.

With R_t the gradient of the state S_t (all later steps' wishes for it), for S_t = a_t S_t-1 +
k_t v_tᵀ and o_t = S_tᵀ q_t::

    R_t = q_t do_tᵀ + a_t+1 R_t+1                a walk backwards in time: q writes do
    dq_t = S_t do_t       dk_t = R_t v_t       dv_t = R_tᵀ k_t       da_t = <R_t, S_t-1>

So the walk of the forward pass gives all of them, with other tensors in other places:

=====  ==========  =====  =====  ==========  ======
walk   reads with  keys   values in time     state
=====  ==========  =====  =====  ==========  ======
o      q           k      v      forwards    S
dq     do          v      k      forwards    Sᵀ
dk     v           do     q      backwards   Rᵀ
dv     k           q      do     backwards   R
=====  ==========  =====  =====  ==========  ======

Each walk carries its own state; none is kept from the forward pass.

The gradient of a gate. A log gate g_t scales what passes from before t to t or later, so dg_t sums
the products z_us = exp(b_u - b_s) (q_u · k_s) (do_u · v_s) over all pairs (reader u, writer s) with
s < t <= u. ``gate_gradient_kernel`` adds them up by where u and s lie: both in t's chunk; one of
them; neither. The last three need the states S before and R after the chunk, so if gates want a
gradient two of the walks write theirs to memory: 2 D D_v numbers a chunk, as wide as the inputs.

The usual shortcut, dg_t = sum_u>=t (q_u · dq_u - k_u · dk_u), needs no states. But all pairs after
t stand in it twice, with opposite signs, and their rounding errors stay: with bf16 inputs and a
decay of 1/2 a step we measured 3 % of the gradient of ``decay`` after 70 steps.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common.blocks import load_part, load_state
from attend_kernels.common.wide_products import dot_rows, dot_wide
from attend_kernels.ops.linear_attention import tiles as configs
from attend_kernels.ops.linear_attention.fading import NEVER, sum_gates
from attend_kernels.ops.linear_attention.forward import constants, segment_states, walk
from attend_kernels.ops.linear_attention.segments import Fading, launch_heads, state_like

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]


@triton.jit
def gate_gradient_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, gate_ptr, before_ptr, after_ptr, d_gate_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    grad_batch, grad_head, grad_row, gate_batch, gate_head, gate_row,
    chunks, heads, T, columns,
    FAR: tl.constexpr, CHUNK: tl.constexpr, D: tl.constexpr, BLOCK_E: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the gradient of a chunk's gates; the states before and after it lie as (E, D).

    ``after_ptr`` None: only of what is read inside the chunk. ``columns`` (D_v) is no constant: a
    loop of one turn would be written out, which takes more registers.
    """
    pid = tl.program_id(0)
    first = pid % chunks * CHUNK
    head = pid // chunks % heads
    if FAR:
        head = head.to(tl.int64)
    batch = (pid // (chunks * heads)).to(tl.int64)
    line = batch * heads + head
    q_ptr += batch * q_batch + head * q_head
    k_ptr += batch * k_batch + head * k_head
    v_ptr += batch * v_batch + head * v_head
    grad_ptr += batch * grad_batch + head * grad_head
    gate_ptr += batch * gate_batch + head * gate_head
    state = (line * chunks + pid % chunks) * (columns * D)
    q = load_part(q_ptr, first, q_row, T, CHUNK, D).to(DOT)
    k = load_part(k_ptr, first, k_row, T, CHUNK, D).to(DOT)
    products = tl.zeros((CHUNK, CHUNK), tl.float32)  # do_u · v_s
    read = tl.zeros((CHUNK,), tl.float32)  # by step u of the chunk, from before it
    written = tl.zeros((CHUNK,), tl.float32)  # by step s of the chunk, and read after it
    through = tl.zeros((), tl.float32)  # from before the chunk, and read after it
    for column in range(0, columns, BLOCK_E):
        v = load_part(v_ptr + column, first, v_row, T, CHUNK, BLOCK_E).to(DOT)
        grad = load_part(grad_ptr + column, first, grad_row, T, CHUNK, BLOCK_E).to(DOT)
        products = tl.dot(grad, v.T, products, input_precision=PRECISION)
        before = load_state(before_ptr + state, 1, D, column, D, BLOCK_E)
        if after_ptr is not None:
            after = load_state(after_ptr + state, 1, D, column, D, BLOCK_E)
            through += tl.sum(before * after)
        here = dot_wide(q, before.to(DOT), PRECISION)
        read += tl.sum(here * grad.to(tl.float32), axis=1)
        if after_ptr is not None:
            here = dot_wide(k, after.to(DOT), PRECISION)
            written += tl.sum(here * v.to(tl.float32), axis=1)

    wholes, fractions, rest = sum_gates(gate_ptr, first, gate_row, T, CHUNK)
    ages = wholes + fractions
    i = tl.arange(0, CHUNK)
    if after_ptr is not None:
        through *= tl.exp2(tl.sum(tl.where(i == CHUNK - 1, ages, 0.0), axis=0))
        written *= tl.exp2(rest)
    read *= tl.exp2(ages)
    age = wholes[:, None] - wholes[None, :] + (fractions[:, None] - fractions[None, :])
    products *= dot_rows(q, k, q_ptr, k_ptr, first, q_row, k_row, T, PRECISION)
    products *= tl.exp2(tl.where(i[:, None] > i[None, :], age, NEVER))
    # (u, t): the sum over s < t; then over u >= t.
    earlier = (i[:, None] < i[None, :]).to(DOT)
    crossing = tl.dot(products.to(DOT), earlier, input_precision=PRECISION) + read[:, None]
    d_gate = tl.sum(tl.where(i[:, None] >= i[None, :], crossing, 0.0), axis=0)
    if after_ptr is not None:
        d_gate += tl.sum(tl.where(i[:, None] < i[None, :], written[:, None], 0.0), axis=0) + through
    tl.store(d_gate_ptr + line * T + first + i, d_gate, mask=first + i < T)


def backward(
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor | None,
    initial: torch.Tensor | None,
    chunk: int,
    want_gate: bool,
) -> Gradients:
    """Return dQ, dK, dV, the gradient of the initial state, and that of the gates if wanted."""
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    d_initial = state_like(k, v)
    fading = Fading(gate)
    span = configs.span(fading.kernel, k, v)
    states = segment_states(k, v, fading, initial, None, span, chunk)
    backs = segment_states(q, grad, fading, grad_final, d_initial, span, chunk, reverse=True)
    before = after = None
    if want_gate:
        before, after = (state_like(v, k, -(-q.shape[2] // chunk), q.dtype) for _ in range(2))
    walk(grad, v, k, dq, fading, turned(states), None, span, chunk, kept=before)
    walk(k, q, grad, dv, fading, backs, d_initial, span, chunk, reverse=True)
    walk(v, grad, q, dk, fading, turned(backs), None, span, chunk, reverse=True, kept=after)
    if gate is None or before is None or after is None:
        return dq, dk, dv, d_initial, None
    return dq, dk, dv, d_initial, gate_gradient(grad, q, k, v, gate, before, after, chunk)


def turned(states: torch.Tensor | None) -> torch.Tensor | None:
    """States with rows and columns exchanged."""
    return None if states is None else states.transpose(-1, -2)


def gate_gradient(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    before: torch.Tensor,
    after: torch.Tensor | None,
    chunk: int,
) -> torch.Tensor:
    """Launch ``gate_gradient_kernel``: ``(B, H, T)`` in fp32."""
    B, H, T, _ = q.shape
    E = v.shape[-1]
    d_gate = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
    tile = configs.choose("gates", q, v)
    chunks = before.shape[2]
    launch_heads(
        gate_gradient_kernel, chunks * H * B, q, k, v, grad, gate, before, after, d_gate,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *grad.stride()[:3], *gate.stride(),
        chunks, H, T, E, CHUNK=chunk, BLOCK_E=tile.columns,
        **constants(q, tile),
    )  # fmt: skip
    return d_gate
