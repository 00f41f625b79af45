"""The flash kernels as operators of PyTorch, so that autograd and ``torch.compile`` know them.

An operator has a schema, a fake kernel that says which shapes come out without computing anything,
and a gradient. ``torch.compile`` then keeps it whole instead of looking inside.

Dense and packed batches share the operators. A packed batch, (total, H, D), comes as the view
(1, H, total, D), with the starts of its sequences.
"""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.packing import Packing
from attend_kernels.common.tensors import unit_rows, unit_stride
from attend_kernels.ops.flash.options import Options


@torch.library.custom_op("attend::flash_forward", mutates_args=())
def flash_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    slopes: torch.Tensor | None,
    q_starts: torch.Tensor | None,
    k_starts: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    left: int | None,
    right: int | None,
    deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O and LSE; ``deterministic`` is for the gradient alone."""
    from attend_kernels.ops.flash import forward as kernels

    return kernels.forward(
        *(unit_rows(x) for x in (q, k, v)),
        slopes=unit_stride(slopes),
        options=Options(scale, softcap, left, right, deterministic),
        packing=Packing.of(q_starts, k_starts),
    )


@flash_forward.register_fake
def _(q: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(unit_rows(q)), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("attend::flash_backward", mutates_args=())
def flash_backward(
    grad: torch.Tensor,
    grad_lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    output: torch.Tensor,
    lse: torch.Tensor,
    slopes: torch.Tensor | None,
    q_starts: torch.Tensor | None,
    k_starts: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    left: int | None,
    right: int | None,
    deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK and dV."""
    from attend_kernels.ops.flash import backward

    return backward.backward(
        unit_rows(grad),
        grad_lse,
        *(unit_rows(x) for x in (q, k, v, output)),
        lse=lse.contiguous(),
        slopes=unit_stride(slopes),
        options=Options(scale, softcap, left, right, deterministic),
        packing=Packing.of(q_starts, k_starts),
    )


@flash_backward.register_fake
def _(
    grad: torch.Tensor,
    grad_lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *_: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dq, dk, dv = (torch.empty_like(unit_rows(x)) for x in (q, k, v))
    return dq, dk, dv


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    *tensors, scale, softcap, left, right, deterministic = inputs
    ctx.save_for_backward(*tensors[:3], *output, *tensors[3:])
    ctx.options = (scale, softcap, left, right, deterministic)
    ctx.set_materialize_grads(False)  # an LSE nobody used costs nothing


def _gradient(ctx: Any, grad: torch.Tensor | None, grad_lse: torch.Tensor | None) -> Any:
    q, k, v, output, lse, slopes, q_starts, k_starts = ctx.saved_tensors
    grad = torch.zeros_like(output) if grad is None else grad
    gradients = flash_backward(
        grad, grad_lse, q, k, v, output, lse, slopes, q_starts, k_starts, *ctx.options
    )
    return (*gradients, *[None] * 8)


flash_forward.register_autograd(_gradient, setup_context=_save)
