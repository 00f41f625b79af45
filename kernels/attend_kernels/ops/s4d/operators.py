"""Sums of complex powers as operators of PyTorch, so that autograd and ``torch.compile`` know them.

Complex numbers come as pairs of real ones, as ``torch.view_as_real`` has them.
"""

from __future__ import annotations

from typing import Any

import torch


@torch.library.custom_op("attend::s4d_powers", mutates_args=())
def powers(factor: torch.Tensor, z: torch.Tensor, length: int) -> torch.Tensor:
    """2 Re sum_n factor_n exp(l z_n). Shapes: factor and z ``(C, N, 2)`` -> ``(C, length)``."""
    from attend_kernels.ops.s4d import kernels

    return kernels.powers(factor, z, length)


@powers.register_fake
def _(factor: torch.Tensor, z: torch.Tensor, length: int) -> torch.Tensor:
    return factor.new_empty((factor.shape[0], length))


@torch.library.custom_op("attend::s4d_powers_backward", mutates_args=())
def powers_backward(
    grad: torch.Tensor, factor: torch.Tensor, z: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of factor and z. Shapes: grad ``(C, L)`` -> ``(C, N, 2)`` twice."""
    from attend_kernels.ops.s4d import kernels

    return kernels.powers_backward(grad.contiguous(), factor, z)


@powers_backward.register_fake
def _(
    grad: torch.Tensor, factor: torch.Tensor, z: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(factor), torch.empty_like(z)


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])


def _gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
    factor, z = ctx.saved_tensors
    return (*powers_backward(grad, factor, z), None)


powers.register_autograd(_gradient, setup_context=_save)
