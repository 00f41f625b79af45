"""RG-LRU as operators of PyTorch, so that autograd and ``torch.compile`` know it."""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.tensors import unit_rows


@torch.library.custom_op("attend::rg_lru", mutates_args=())
def rg_lru_forward(
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    parameter: torch.Tensor,
    starts: torch.Tensor | None,
    initial: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y and the last state. Shapes: as ``rg_lru``."""
    from attend_kernels.ops.rg_lru import kernels

    x, input_gate, recurrence_gate = (unit_rows(m) for m in (x, input_gate, recurrence_gate))
    parameter = parameter.contiguous()
    return kernels.forward(x, input_gate, recurrence_gate, parameter, starts, initial)


@rg_lru_forward.register_fake
def _(x: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(x.shape), x.new_empty((x.shape[0], x.shape[2]), dtype=torch.float32)


@torch.library.custom_op("attend::rg_lru_backward", mutates_args=())
def rg_lru_backward(
    grad: torch.Tensor,
    grad_last: torch.Tensor | None,
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    parameter: torch.Tensor,
    starts: torch.Tensor | None,
    initial: torch.Tensor | None,
    y: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of x, both gates, the parameter (fp32) and the first state (fp32)."""
    from attend_kernels.ops.rg_lru import kernels

    grad, x = unit_rows(grad), unit_rows(x)
    input_gate, recurrence_gate = unit_rows(input_gate), unit_rows(recurrence_gate)
    parameter = parameter.contiguous()
    return kernels.backward(
        grad, x, input_gate, recurrence_gate, grad_last, parameter, starts, initial, y
    )


@rg_lru_backward.register_fake
def _(
    grad: torch.Tensor,
    grad_last: torch.Tensor | None,
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    *_: Any,
) -> tuple[torch.Tensor, ...]:
    first = x.new_empty((x.shape[0], x.shape[2]), dtype=torch.float32)
    like = [m.new_empty(m.shape) for m in (x, input_gate, recurrence_gate)]
    return (*like, first.new_empty(x.shape[2]), first)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[0])
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, grad: torch.Tensor | None, grad_last: torch.Tensor | None) -> Any:
    *inputs, y = ctx.saved_tensors
    grad = torch.zeros_like(y) if grad is None else grad
    *rows, d_parameter, first = rg_lru_backward(grad, grad_last, *inputs, y)
    initial = inputs[5]
    return (
        *rows,
        d_parameter.to(inputs[3].dtype),
        None,
        None if initial is None else first.to(initial.dtype),
    )


rg_lru_forward.register_autograd(_gradient, setup_context=_save)
