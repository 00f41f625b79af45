"""The norms as operators of PyTorch, so that autograd and ``torch.compile`` know them."""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.tensors import unit_rows, unit_stride


def launch_norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    center: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normed rows, h, mean and reciprocal deviation; what is not asked for comes back empty."""
    from attend_kernels.ops.norm import kernels

    weight = unit_rows(weight)
    return kernels.forward(x, residual, weight, unit_stride(bias), eps, center)


norm_forward = torch.library.custom_op("attend::norm", mutates_args=())(launch_norm)


@norm_forward.register_fake
def _(x, residual, weight, bias, eps, center):
    dtype = x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)
    rows = x.numel() // x.shape[-1]
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return (
        x.new_empty(x.shape, dtype=dtype),
        x.new_empty(x.shape if residual is not None else 0, dtype=dtype),
        x.new_empty(rows if center else 0, dtype=wide),
        x.new_empty(rows, dtype=wide),
    )


@torch.library.custom_op("attend::norm_backward", mutates_args=())
def norm_backward(
    grad: torch.Tensor,
    grad_sum: torch.Tensor | None,
    h: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    inverse: torch.Tensor,
    has_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of h, weight and bias (empty without one); the last two in the wide dtype."""
    from attend_kernels.ops.norm import kernels

    return kernels.backward(grad, grad_sum, h, unit_rows(weight), mean, inverse, has_bias)


@norm_backward.register_fake
def _(grad, grad_sum, h, weight, mean, inverse, has_bias):
    width = h.shape[-1]
    return h.new_empty(h.shape), inverse.new_empty(width), inverse.new_empty(width * has_bias)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, residual, weight, bias, _, _ = inputs
    _, h, mean, inverse = output
    ctx.set_materialize_grads(False)  # an unused output's gradient is None, not a full zero tensor
    ctx.mark_non_differentiable(mean, inverse)
    ctx.save_for_backward(x if residual is None else h, weight, mean, inverse)
    ctx.dtypes = [None if t is None else t.dtype for t in (x, residual, weight, bias)]


def _gradients(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    h, weight, mean, inverse = ctx.saved_tensors
    of_x, of_residual, of_weight, of_bias = ctx.dtypes
    grad = torch.zeros_like(h) if grads[0] is None else grads[0]
    grad_sum = None if of_residual is None else grads[1]
    dh, dw, db = norm_backward(grad, grad_sum, h, weight, mean, inverse, of_bias is not None)
    dx = dh.to(of_x)
    dresidual = None if of_residual is None else dh.to(of_residual)
    return dx, dresidual, dw.to(of_weight), None if of_bias is None else db.to(of_bias), None, None


norm_forward.register_autograd(_gradients, setup_context=_save)
