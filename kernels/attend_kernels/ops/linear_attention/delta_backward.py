"""The gradient of the delta rule, gated or not: one walk back for du, and four of linear attention.

Equations and letters: see ``delta_operators``. ``delta_back_kernel`` walks backwards with
R, the gradient of the state, and finds du. Then S is a sum of k u, and R one of q do and of
-beta k du, all faded alike; so every sum over pairs is a walk of linear attention
(``forward``) with other tensors in other places:

============  ==========  =====  ======  ==========  =============
walk          reads with  keys   values  in time     its own step
============  ==========  =====  ======  ==========  =============
dq            do          u      k       forwards    yes
dk, 1st part  u           do     q       backwards   yes
dk, 2nd part  u           -dv    k       backwards   no
dk, 3rd part  -dv         u      k       forwards    no
============  ==========  =====  ======  ==========  =============

The gradient of a gate. What step s wrote fades by g_t on its way to every reader u >= t > s, and
there are two readers a step: q_u, whose wish is do_u, and k_u, which corrects: its wish is -dv_u.
So dg_t is the sum of ``linear_attention_backward``'s products over the pairs of both kinds, made by
its kernel called twice. Both need S before each chunk, which the walk of dq writes to memory. R
after each chunk holds the wishes of both kinds; ``delta_back_kernel`` writes it, and the first call
alone reads it. (R as the difference of the states of dk's two walks backwards would lose digits:
where little fades, each of these grows with the length, and R does not.)
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common.blocks import load_part, load_state, store_part, store_state
from attend_kernels.common.wide_products import dot_rows, dot_wide
from attend_kernels.ops.linear_attention import tiles as configs
from attend_kernels.ops.linear_attention.backward import gate_gradient, turned
from attend_kernels.ops.linear_attention.delta_forward import attend, load_column, named, solve
from attend_kernels.ops.linear_attention.fading import load_scores, pair_fading, sum_gates
from attend_kernels.ops.linear_attention.forward import constants
from attend_kernels.ops.linear_attention.segments import Fading, launch_heads, state_like, strides

Gradients = tuple[
    torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None
]


@triton.jit
def delta_back_kernel(
    q_ptr, k_ptr, grad_ptr, beta_ptr, gate_ptr, inverse_ptr, d_written_ptr, start_ptr, end_ptr,
    kept_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, grad_batch, grad_head, grad_row,
    beta_batch, beta_head, beta_row, gate_batch, gate_head, gate_row,
    start_batch, start_head, start_row, start_column, slices, heads, T,
    FAR: tl.constexpr, CHUNK: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_E columns of du, and of the first state's gradient, from the last one's.

    ``gate_ptr`` None: nothing fades. ``kept_ptr``: also write R after each chunk, as (E, D).
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
    grad_ptr += batch * grad_batch + head * grad_head + first_column
    beta_ptr += batch * beta_batch + head * beta_head
    d_written_ptr += line * T * E + first_column
    if gate_ptr is not None:
        gate_ptr += batch * gate_batch + head * gate_head
    if start_ptr is None:
        state = tl.zeros((D, BLOCK_E), tl.float32)
    else:
        start_ptr += batch * start_batch + head * start_head
        state = load_state(start_ptr, start_row, start_column, first_column, D, BLOCK_E)
    KEPT: tl.constexpr = d_written_ptr.dtype.element_ty  # rounded as ``delta_walk_kernel`` does
    i = tl.arange(0, CHUNK)
    for step in range(0, T, CHUNK):
        first = (tl.cdiv(T, CHUNK) - 1) * CHUNK - step
        t = first + i
        if kept_ptr is not None:
            kept = kept_ptr + (line * tl.cdiv(T, CHUNK) + first // CHUNK) * (D * E)
            store_state(kept, 1, D, first_column, state, D, BLOCK_E)
        q = load_part(q_ptr, first, q_row, T, CHUNK, D).to(DOT)
        k = load_part(k_ptr, first, k_row, T, CHUNK, D).to(DOT)
        grad = load_part(grad_ptr, first, grad_row, T, CHUNK, BLOCK_E).to(DOT)
        weights = dot_rows(k, q, k_ptr, q_ptr, first, k_row, q_row, T, PRECISION)  # (s, t)
        seen = t[:, None] <= t[None, :]
        wanted = dot_wide(k, state.to(DOT), PRECISION)
        if gate_ptr is not None:
            wholes, fractions, after = sum_gates(gate_ptr, first, gate_row, T, CHUNK)
            through = wholes + fractions
            wanted *= tl.exp2(after)[:, None]
            weights *= pair_fading(wholes, fractions, seen, True)
        else:
            weights = tl.where(seen, weights, 0.0)
        wanted = tl.dot(weights.to(DOT), grad, wanted, input_precision=PRECISION)
        inverse = load_scores(inverse_ptr + line * T * CHUNK, first, T, True, CHUNK).to(DOT)
        d_written = tl.dot(inverse, wanted.to(DOT), input_precision=PRECISION).to(KEPT)
        store_part(d_written_ptr, first, E, T, d_written, CHUNK, BLOCK_E)
        if gate_ptr is not None:
            state *= tl.exp2(tl.sum(tl.where(i == CHUNK - 1, through, 0.0), axis=0))
            grad = (grad.to(tl.float32) * tl.exp2(through)[:, None]).to(DOT)
        state = tl.dot(q.T, grad, state, input_precision=PRECISION)
        beta = load_column(beta_ptr, first, beta_row, T, CHUNK)
        back = (-d_written.to(tl.float32) * beta).to(KEPT)
        if gate_ptr is not None:
            back = back.to(tl.float32) * tl.exp2(through)[:, None]
        state = tl.dot(k.T, back.to(DOT), state, input_precision=PRECISION)
    end_ptr += line * D * E
    store_state(end_ptr, E, 1, first_column, state, D, BLOCK_E)


def backward(
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    gate: torch.Tensor | None,
    initial: torch.Tensor | None,
    error: torch.Tensor,
    chunk: int,
    want_gate: bool,
) -> Gradients:
    """Return dQ, dK, dV, dbeta (fp32), the initial state's gradient, and the gates' if wanted."""
    B, H, T, _ = q.shape
    E = v.shape[-1]
    d_initial = state_like(k, v)
    d_written = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    before = after = None
    if gate is not None and want_gate:
        before, after = (state_like(v, k, -(-T // chunk), q.dtype) for _ in range(2))
    inverse = solve(k, beta, gate, chunk, by_reader=True)
    tile = configs.choose(named("back", gate), k, v)
    slices = -(-E // tile.columns)
    launch_heads(
        delta_back_kernel, slices * H * B, q, k, grad, beta, gate, inverse, d_written,
        grad_final, d_initial, after,
        *q.stride()[:3], *k.stride()[:3], *grad.stride()[:3], *beta.stride(), *strides(gate, 3),
        *strides(grad_final, 4), slices, H, T,
        CHUNK=chunk, E=E, BLOCK_E=tile.columns, **constants(k, tile),
    )  # fmt: skip

    fading, strength = Fading(gate), beta[..., None].float()
    d_beta = (d_written.float() * error.float()).sum(dim=-1)
    dv = torch.empty_like(v).copy_(strength * d_written)
    wish = -dv
    written = (strength * error).to(v.dtype)
    dq, dk = torch.empty_like(q), torch.empty_like(k)
    total, part = (torch.empty(k.shape, dtype=torch.float32, device=k.device) for _ in range(2))
    first, last = turned(initial), turned(grad_final)
    attend(grad, written, k, dq, fading, first, chunk, kept=before)
    attend(written, grad, q, total, fading, last, chunk, reverse=True)
    attend(written, wish, k, part, fading, None, chunk, reverse=True, own=False)
    total += part
    attend(wish, written, k, part, fading, first, chunk, own=False)
    dk.copy_(total.add_(part))
    if gate is None or before is None:
        return dq, dk, dv, d_beta, d_initial, None
    d_gate = gate_gradient(grad, q, k, written, gate, before, after, chunk)
    d_gate += gate_gradient(wish, k, k, written, gate, before, None, chunk)
    return dq, dk, dv, d_beta, d_initial, d_gate
