"""Rotation as an operator of PyTorch, so that autograd and ``torch.compile`` know it."""

from __future__ import annotations

from typing import Any

import torch


def launch_rope(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> torch.Tensor:
    """Rotate by the table's angles, or by their opposites."""
    from attend_kernels.ops.rope import kernels

    return kernels.rotate(x, cos, sin, positions, interleaved, inverse)


rotate = torch.library.custom_op("attend::rope", mutates_args=())(launch_rope)


@rotate.register_fake
def _(x, cos, sin, positions, interleaved, inverse):
    return torch.empty_like(x)


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, cos, sin, positions, interleaved, inverse = inputs
    ctx.save_for_backward(cos, sin, positions)
    ctx.way = (interleaved, not inverse)


def _gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Turn the gradient back; the rotation itself, so this can be differentiated again."""
    return rotate(grad, *ctx.saved_tensors, *ctx.way), None, None, None, None, None


rotate.register_autograd(_gradient, setup_context=_save)
