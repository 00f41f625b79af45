"""Block-sparse attention as operators of PyTorch, for autograd and ``torch.compile``."""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.tensors import unit_rows


@torch.library.custom_op("attend::block_sparse", mutates_args=())
def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    block: int,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O and LSE. ``mask``: (B or 1, H or 1, blocks, blocks)."""
    from attend_kernels.ops.block_sparse import forward as kernels

    q, k, v = (unit_rows(x) for x in (q, k, v))
    return kernels.forward(q, k, v, mask, block, causal, scale)


@forward.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    like = torch.empty_like(unit_rows(q)[..., :1]).expand(*q.shape[:3], v.shape[-1])
    return torch.empty_like(like), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("attend::block_sparse_backward", mutates_args=())
def backward(
    grad: torch.Tensor,
    grad_lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    output: torch.Tensor,
    lse: torch.Tensor,
    block: int,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK and dV."""
    from attend_kernels.ops.block_sparse import backward as kernels

    grad, q, k, v = (unit_rows(x) for x in (grad, q, k, v))
    delta = (grad.float() * output.float()).sum(-1)
    delta = delta if grad_lse is None else delta - grad_lse
    return kernels.backward(
        grad, q, k, v, mask, lse.contiguous(), delta.contiguous(), block, causal, scale
    )


@backward.register_fake
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
    *tensors, block, causal, scale = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.options = (block, causal, scale)
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, grad: torch.Tensor | None, grad_lse: torch.Tensor | None) -> Any:
    q, k, v, mask, output, lse = ctx.saved_tensors
    grad = torch.zeros_like(output) if grad is None else grad
    found = backward(grad, grad_lse, q, k, v, mask, output, lse, *ctx.options)
    return (*found, None, None, None, None)


forward.register_autograd(_gradient, setup_context=_save)
