"""The convolution as operators of PyTorch, so that autograd and ``torch.compile`` know it."""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.tensors import unit_rows, unit_stride


@torch.library.custom_op("attend::causal_conv1d", mutates_args=())
def conv_forward(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    state: torch.Tensor | None,
    silu: bool,
) -> torch.Tensor:
    """Return y."""
    from attend_kernels.ops.conv1d import kernels

    return kernels.forward(unit_rows(x), w, unit_stride(b), state, silu)


@conv_forward.register_fake
def _(x, w, b, state, silu):
    return x.new_empty(x.shape)


@torch.library.custom_op("attend::causal_conv1d_backward", mutates_args=())
def conv_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    state: torch.Tensor | None,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of x, w, b and the state; empty for what was not given."""
    from attend_kernels.ops.conv1d import kernels

    return kernels.backward(unit_rows(grad), unit_rows(x), w, unit_stride(b), state, silu)


@conv_backward.register_fake
def _(grad, x, w, b, state, silu):
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    return (
        x.new_empty(x.shape),
        w.new_empty(w.shape, dtype=wide),
        x.new_empty(0 if b is None else b.shape, dtype=wide),
        x.new_empty(0) if state is None else state.new_empty(state.shape),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    *tensors, ctx.silu = inputs
    ctx.save_for_backward(*tensors)


def _gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, w, b, state = ctx.saved_tensors
    dx, dw, db, dstate = conv_backward(grad, x, w, b, state, ctx.silu)
    db = None if b is None else db.to(b.dtype)
    return dx, dw.to(w.dtype), db, None if state is None else dstate, None


conv_forward.register_autograd(_gradient, setup_context=_save)


def launch_step(
    state: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, silu: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y and the new state of one step. It has no gradient."""
    from attend_kernels.ops.conv1d.step import step

    return step(state, unit_rows(x), w, unit_stride(b), silu)


conv_step = torch.library.custom_op("attend::causal_conv1d_step", mutates_args=())(launch_step)


@conv_step.register_fake
def _(state, x, w, b, silu):
    return x.new_empty(x.shape), x.new_empty(state.shape)
