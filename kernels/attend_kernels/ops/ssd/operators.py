"""The SSD kernels as operators of PyTorch, so that autograd and ``torch.compile`` know them.

An operator has a schema, a fake kernel that says which shapes come out, and a gradient. Nothing
is kept for the gradient but the inputs: it makes the states again.
"""

# ruff: noqa: N803  # the paper's letters are capitals

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.tensors import unit_rows, unit_stride


@torch.library.custom_op("attend::ssd_forward", mutates_args=())
def ssd_forward(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    initial: torch.Tensor | None,
    starts: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y and the last states."""
    from attend_kernels.ops.ssd import forward as kernels

    y, final = kernels.forward(_inputs(x, dt, A, B, C, D, initial, starts), chunk)
    return y, final


@ssd_forward.register_fake
def _(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    initial: torch.Tensor | None,
    starts: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    sequences = x.shape[0] if starts is None else starts.shape[0] - 1
    return x.new_empty(x.shape), dt.new_empty(sequences, *x.shape[2:], B.shape[-1])


@torch.library.custom_op("attend::ssd_backward", mutates_args=())
def ssd_backward(
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    initial: torch.Tensor | None,
    starts: torch.Tensor | None,
    chunk: int,
) -> tuple[
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
]:
    """Gradients of x, dt, A, B, C, D and the initial state (the last two empty without one)."""
    from attend_kernels.ops.ssd import backward as kernels

    grad_final = None if grad_final is None else grad_final.contiguous()
    inputs = _inputs(x, dt, A, B, C, D, initial, starts)
    dx, ddt, da, db, dc, dd, dinitial = kernels.backward(inputs, unit_rows(grad), grad_final, chunk)
    return dx, ddt, da, db, dc, dd, dinitial


@ssd_backward.register_fake
def _(
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    initial: torch.Tensor | None,
    starts: torch.Tensor | None,
    chunk: int,
) -> tuple[torch.Tensor, ...]:
    return (
        *(given.new_empty(given.shape) for given in (x, dt, A, B, C)),
        *(dt.new_empty(0 if given is None else given.shape) for given in (D, initial)),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    *tensors, chunk = inputs
    ctx.save_for_backward(*tensors)
    ctx.chunk = chunk
    ctx.set_materialize_grads(False)  # a last state nobody used costs nothing


def _gradient(ctx: Any, grad: torch.Tensor | None, grad_final: torch.Tensor | None) -> Any:
    saved = ctx.saved_tensors  # once: under checkpoint a second look is an error
    x, *_, D, initial, _starts = saved  # noqa: N806
    grad = torch.zeros_like(x) if grad is None else grad
    *gradients, dd, dinitial = ssd_backward(grad, grad_final, *saved, ctx.chunk)
    return (
        *gradients,
        None if D is None else dd,
        None if initial is None else dinitial,
        None,
        None,
    )


ssd_forward.register_autograd(_gradient, setup_context=_save)


def launch_step(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    dt_bias: torch.Tensor | None,
    softplus: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y and the next state, in fp32."""
    from attend_kernels.ops.ssd.step import step

    x, B, C = unit_rows(x), unit_rows(B), unit_rows(C)  # noqa: N806
    A, D, dt_bias = unit_rows(A), unit_stride(D), unit_stride(dt_bias)  # noqa: N806
    return step(state.contiguous(), x, dt, A, B, C, D, dt_bias, softplus)


ssd_step = torch.library.custom_op("attend::ssd_step", mutates_args=())(launch_step)


@ssd_step.register_fake
def _(
    state: torch.Tensor, x: torch.Tensor, *_: torch.Tensor | bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(x.shape), state.new_empty(state.shape, dtype=torch.float32)


def _inputs(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None,
    initial: torch.Tensor | None,
    starts: torch.Tensor | None,
) -> Any:
    """Gather the tensors as the kernels read them; copies only where a last axis has a stride."""
    from attend_kernels.ops.ssd.forward import Inputs

    x, B, C = (unit_rows(m) for m in (x, B, C))  # noqa: N806
    A = A.contiguous()  # noqa: N806
    D = None if D is None else D.contiguous()  # noqa: N806
    initial = None if initial is None else initial.contiguous()
    return Inputs(x, dt, A, B, C, D, initial, unit_stride(starts))
