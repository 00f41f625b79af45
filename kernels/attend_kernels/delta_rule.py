"""Linear attention with the delta rule: a memory that corrects what it holds.

Equation, for one head, with S a D × D_v matrix. Before a step writes at k it reads what is held
there, and writes only the difference, times beta::

    e_t = v_t - S_t-1ᵀ k_t                 what S gets wrong at k_t
    S_t = S_t-1 + k_t u_tᵀ                 u_t = beta_t e_t
    o_t = S_tᵀ q_t                         so S_t = (I - beta_t k_t k_tᵀ) S_t-1 + beta_t k_t v_tᵀ

It is a step of gradient descent on |Sᵀ k_t - v_t|² / 2, of size beta_t; with |k| = 1 and beta = 1
what is held at k_t is replaced. For |k| = 1 and 0 <= beta <= 2 the state cannot blow up.

By chunks. Given u, this is plain linear attention with u for values. And in a chunk that starts
from S the e solve a triangular system, for each e is told of the earlier ones through S::

    (I + N) E = V - K S           N_ts = k_t · k_s beta_s   for s < t, else 0

(the UT transform: its inverse, one C × C matrix a chunk, needs K and beta alone, so all chunks find
theirs side by side). The gradients, with R_t that of S_t (``linear_attention_backward``)::

    du_t = R_tᵀ k_t              R_t-1 = R_t + q_t-1 do_t-1ᵀ - beta_t k_t du_tᵀ
    dv_t = beta_t du_t           dbeta_t = du_t · e_t
    dq_t = S_t do_t              dk_t = R_t u_t - beta_t S_t-1 du_t

du solve the transposed kind of system, N_st = k_s · k_t beta_t for s < t, walking backwards; then
all of dq and dk is plain linear attention again, four walks of it, for S and R are sums of k u and
of q do and -beta k du. So no state of any chunk is ever written to memory; e is kept for this.

Letters: those of ``attend_kernels.linear_attention_chunked``. Sources: Schlag et al. 2021, "Linear
transformers are secretly fast weight programmers", section 4; Yang et al. 2024, "Parallelizing
linear transformers with the delta rule over sequence length", section 3. Nothing here has been
timed on a GPU yet.
"""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels import linear_attention_configs
from attend_kernels.flash_ops import unit_rows
from attend_kernels.linear_attention_ops import fake_state


@torch.library.custom_op("attend::delta_rule", mutates_args=())
def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    initial: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the output, the last state, and e for the gradient."""
    from attend_kernels import delta_rule_triton as kernels

    q, k, v = (unit_rows(x) for x in (q, k, v))
    chunk = linear_attention_configs.steps(k, v, chunk)
    return kernels.forward(q, k, v, beta, initial, chunk)


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
    initial: torch.Tensor | None,
    error: torch.Tensor,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK, dV, dbeta and the gradient of the initial state."""
    from attend_kernels import delta_rule_triton as kernels

    grad, q, k, v = (unit_rows(x) for x in (grad, q, k, v))
    chunk = linear_attention_configs.steps(k, v, chunk)
    return kernels.backward(grad, grad_final, q, k, v, beta, initial, error, chunk)


@backward.register_fake
def _(
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    *_: Any,
) -> tuple[torch.Tensor, ...]:
    d_beta = beta.new_empty(beta.shape, dtype=torch.float32)
    return (*(torch.empty_like(unit_rows(x)) for x in (q, k, v)), d_beta, fake_state(k, v))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    *tensors, chunk = inputs
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*tensors, output[2])
    ctx.chunk = chunk
    ctx.set_materialize_grads(False)  # a state nobody used costs nothing


def _gradient(ctx: Any, grad: torch.Tensor | None, grad_final: torch.Tensor | None, _: Any) -> Any:
    q, k, v, beta, initial, error = ctx.saved_tensors
    grad = torch.zeros_like(v) if grad is None else grad
    dq, dk, dv, d_beta, d_initial = backward(
        grad, grad_final, q, k, v, beta, initial, error, ctx.chunk
    )
    d_initial = None if initial is None else d_initial.to(initial.dtype)
    return dq, dk, dv, d_beta.to(beta.dtype), d_initial, None


forward.register_autograd(_gradient, setup_context=_save)
