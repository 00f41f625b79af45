"""Linear attention with the delta rule: a memory that corrects what it holds, and may forget.

Equation, for one head, with S a D × D_v matrix. Before a step writes at k it reads what is held
there, and writes only the difference, times beta. With a gate g a step the state fades first::

    S'_t = exp(g_t) S_t-1                  S_t-1, where there are no gates
    e_t = v_t - S'_tᵀ k_t                  what S gets wrong at k_t
    S_t = S'_t + k_t u_tᵀ                  u_t = beta_t e_t
    o_t = S_tᵀ q_t                         so S_t = (I - beta_t k_t k_tᵀ) S'_t + beta_t k_t v_tᵀ

It is a step of gradient descent on |S'ᵀ k_t - v_t|² / 2, of size beta_t; with |k| = 1 and beta = 1
what is held at k_t is replaced. For |k| = 1 and 0 <= beta <= 2 the state cannot blow up. The gate
forgets everything a little, the correction forgets one key: together they are Gated DeltaNet.

By chunks. Given u, this is linear attention with a gate a step and u for values. And in a chunk
that starts from S the e solve a triangular system, for each e is told of the earlier ones through
the state. With b_t the sum of the chunk's gates through step t (0 without)::

    (I + N) E = V - diag(exp(b)) K S       N_ts = exp(b_t - b_s) k_t · k_s beta_s  for s < t, else 0

(the UT transform: its inverse, one C × C matrix a chunk, needs K, beta and the gates alone, so all
chunks find theirs side by side). The gradients, with R_t that of S_t and R'_t that of S'_t::

    du_t = R_tᵀ k_t              R'_t = R_t - beta_t k_t du_tᵀ
    dv_t = beta_t du_t           R_t-1 = exp(g_t) R'_t + q_t-1 do_t-1ᵀ
    dbeta_t = du_t · e_t         dg_t = <R'_t, S'_t>
    dq_t = S_t do_t              dk_t = R_t u_t - S'_t dv_t

du solve the transposed kind of system, N_st = exp(b_s - b_t) k_s · k_t beta_s for s > t, walking
backwards; then all of dq and dk is linear attention again, four walks of it
(``delta_rule_backward``), for S and R are sums of k u and of q do and -k dv, all faded by the gates
between writer and reader. So no state of any chunk is ever written to memory, unless gates want a
gradient: those need S and R at each chunk's start and end. e is kept for the gradient.

Letters: those of ``api``. Sources: Schlag et al. 2021, "Linear
transformers are secretly fast weight programmers", section 4; Yang et al. 2024, "Parallelizing
linear transformers with the delta rule over sequence length", section 3; with gates: Yang, Kautz,
Hatamizadeh 2025, "Gated delta networks", section 3. Nothing here has been timed on a GPU yet.
"""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.tensors import unit_rows
from attend_kernels.ops.linear_attention import tiles as configs
from attend_kernels.ops.linear_attention.operators import fake_state


@torch.library.custom_op("attend::delta_rule", mutates_args=())
def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    gate: torch.Tensor | None,
    initial: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the output, the last state, and e for the gradient; ``gate``: (B, H, T)."""
    from attend_kernels.ops.linear_attention import delta_forward as kernels

    q, k, v = (unit_rows(x) for x in (q, k, v))
    chunk = configs.steps(k, v, chunk)
    return kernels.forward(q, k, v, beta, gate, initial, chunk)


@forward.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(unit_rows(v)), fake_state(k, v), v.new_empty(v.shape)


@torch.library.custom_op("attend::delta_rule_backward", mutates_args=())
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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK, dV, dbeta, the initial state's gradient, and the gate's or an empty."""
    from attend_kernels.ops.linear_attention import delta_backward as kernels

    grad, q, k, v = (unit_rows(x) for x in (grad, q, k, v))
    chunk = configs.steps(k, v, chunk)
    *found, d_gate = kernels.backward(
        grad, grad_final, q, k, v, beta, gate, initial, error, chunk, want_gate
    )
    dq, dk, dv, d_beta, d_initial = found
    empty = q.new_empty(0, dtype=torch.float32)
    return dq, dk, dv, d_beta, d_initial, empty if d_gate is None else d_gate


@backward.register_fake
def _(
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
) -> tuple[torch.Tensor, ...]:
    d_beta = beta.new_empty(beta.shape, dtype=torch.float32)
    shape = gate.shape if gate is not None and want_gate else (0,)
    d_gate = q.new_empty(shape, dtype=torch.float32)
    grads = (torch.empty_like(unit_rows(x)) for x in (q, k, v))
    return (*grads, d_beta, fake_state(k, v), d_gate)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    *tensors, chunk = inputs
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*tensors, output[2])
    ctx.chunk = chunk
    ctx.set_materialize_grads(False)  # a state nobody used costs nothing


def _gradient(ctx: Any, grad: torch.Tensor | None, grad_final: torch.Tensor | None, _: Any) -> Any:
    q, k, v, beta, gate, initial, error = ctx.saved_tensors
    want_gate = gate is not None and ctx.needs_input_grad[4]
    grad = torch.zeros_like(v) if grad is None else grad
    dq, dk, dv, d_beta, d_initial, d_gate = backward(
        grad, grad_final, q, k, v, beta, gate, initial, error, ctx.chunk, want_gate
    )
    d_gate = d_gate.to(gate.dtype) if gate is not None and want_gate else None
    d_initial = None if initial is None else d_initial.to(initial.dtype)
    return dq, dk, dv, d_beta.to(beta.dtype), d_gate, d_initial, None


forward.register_autograd(_gradient, setup_context=_save)
