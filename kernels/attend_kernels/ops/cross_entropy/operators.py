"""Cross-entropy as operators of PyTorch, so that autograd and ``torch.compile`` know it."""

from __future__ import annotations

from typing import Any

import torch


@torch.library.custom_op("attend::cross_entropy", mutates_args=())
def loss_and_gradient(
    logits: torch.Tensor,
    targets: torch.Tensor,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    reduction: str,
    with_gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The reduced loss, and its gradient by the logits (empty unless asked for)."""
    from attend_kernels.ops.cross_entropy import kernels

    return kernels.loss_and_gradient(
        logits, targets, ignore_index, label_smoothing, z_loss, reduction, with_gradient
    )


@loss_and_gradient.register_fake
def _(logits, targets, ignore_index, label_smoothing, z_loss, reduction, with_gradient):
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    loss = logits.new_empty(targets.shape if reduction == "none" else (), dtype=wide)
    return loss, logits.new_empty(logits.shape if with_gradient else 0)


@torch.library.custom_op("attend::cross_entropy_backward", mutates_args=())
def _scaled(gradient: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """The stored gradient times the gradient of the loss, ``()`` or one number a row."""
    return (gradient * factor[..., None]).to(gradient.dtype)


@_scaled.register_fake
def _(gradient, factor):
    return torch.empty_like(gradient)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.set_materialize_grads(False)  # else autograd makes zeros for the gradient of the gradient
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _gradient(
    ctx: Any, factor: torch.Tensor | None, _: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    """Scale the stored gradient: in place where this backward pass is the only one of its graph."""
    (gradient,) = ctx.saved_tensors
    none = (None,) * 6
    if torch.is_grad_enabled():
        raise RuntimeError(
            "cross_entropy has no second derivative: its gradient is stored as numbers, but "
            "backward(create_graph=True) asked for one. Next: naive_cross_entropy, which has it."
        )
    if factor is None:
        return None, *none
    # A compiler traces with tensors of its own types; it plans its own memory.
    traced = type(gradient) is not torch.Tensor
    # retain_graph=True is known to the engine alone; torch.compile asks it the same way.
    engine: Any = torch._C._autograd  # pyright: ignore[reportAttributeAccessIssue]  # not in stubs
    if traced or engine._get_current_graph_task_keep_graph():
        return _scaled(gradient, factor), *none
    from attend_kernels.ops.cross_entropy import kernels

    kernels.scale_in_place(gradient, factor)
    return gradient, *none


loss_and_gradient.register_autograd(_gradient, setup_context=_save)
