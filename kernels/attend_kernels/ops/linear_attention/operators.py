"""Linear attention as operators of PyTorch, so that autograd and ``torch.compile`` know it.

An operator has a schema, a fake kernel that says which shapes come out without computing anything,
and a gradient. ``torch.compile`` then keeps it whole instead of looking inside.
"""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.tensors import unit_rows
from attend_kernels.ops.linear_attention import tiles as configs

Tensors = tuple[torch.Tensor, ...]


@torch.library.custom_op("attend::linear_attention", mutates_args=())
def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor | None,
    initial: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and last state. ``gate``: (B, H, T), or (B, H, T, D) for one a key dimension."""
    q, k, v = (unit_rows(x) for x in (q, k, v))
    chunk = configs.steps(k, v, chunk)
    if gate is not None and gate.dim() == 4:
        from attend_kernels.ops.linear_attention import gated_forward as gated

        return gated.forward(q, k, v, gate, initial, chunk)
    from attend_kernels.ops.linear_attention import forward as kernels

    return kernels.forward(q, k, v, gate, initial, chunk)


@forward.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(unit_rows(v)), fake_state(k, v)


@torch.library.custom_op("attend::linear_attention_backward", mutates_args=())
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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK, dV, the gradient of the initial state, and that of the gate or an empty."""
    grad, q, k, v = (unit_rows(x) for x in (grad, q, k, v))
    chunk = configs.steps(k, v, chunk)
    if gate is not None and gate.dim() == 4:
        from attend_kernels.ops.linear_attention import gated_backward as gated

        dq, dk, dv, d_initial, d_gate = gated.backward(
            grad, grad_final, q, k, v, gate, initial, chunk, want_gate
        )
    else:
        from attend_kernels.ops.linear_attention import backward as kernels

        dq, dk, dv, d_initial, d_gate = kernels.backward(
            grad, grad_final, q, k, v, gate, initial, chunk, want_gate
        )
    empty = q.new_empty(0, dtype=torch.float32)
    return dq, dk, dv, d_initial, empty if d_gate is None else d_gate


@backward.register_fake
def _(
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor | None,
    initial: torch.Tensor | None,
    chunk: int,
    want_gate: bool,
) -> tuple[torch.Tensor, ...]:
    shape = gate.shape if gate is not None and want_gate else (0,)
    d_gate = q.new_empty(shape, dtype=torch.float32)
    return (*(torch.empty_like(unit_rows(x)) for x in (q, k, v)), fake_state(k, v), d_gate)


def launch_step(
    state: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor | None,
    beta: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and new state of one step; ``gate``: (B, H) or (B, H, D). It has no gradient."""
    from attend_kernels.ops.linear_attention import step as kernels

    q, k, v = unit_rows(q), unit_rows(k), unit_rows(v)
    return kernels.step(state, q, k, v, gate, beta)


step = torch.library.custom_op("attend::linear_attention_step", mutates_args=())(launch_step)


@step.register_fake
def _(
    state: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return v.new_empty(v.shape), state.new_empty(state.shape, dtype=torch.float32)


def fake_state(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Shape and dtype of the states of k and v."""
    return k.new_empty((*k.shape[:2], k.shape[-1], v.shape[-1]), dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:
    *tensors, chunk = inputs
    ctx.save_for_backward(*tensors)
    ctx.chunk = chunk
    ctx.set_materialize_grads(False)  # a state nobody used costs nothing


def _gradient(ctx: Any, grad: torch.Tensor | None, grad_final: torch.Tensor | None) -> Any:
    q, k, v, gate, initial = ctx.saved_tensors
    want_gate = gate is not None and ctx.needs_input_grad[3]
    grad = torch.zeros_like(v) if grad is None else grad
    dq, dk, dv, d_initial, d_gate = backward(
        grad, grad_final, q, k, v, gate, initial, ctx.chunk, want_gate
    )
    return (
        dq,
        dk,
        dv,
        d_gate.to(gate.dtype) if gate is not None and want_gate else None,
        None if initial is None else d_initial.to(initial.dtype),
        None,
    )


forward.register_autograd(_gradient, setup_context=_save)
