"""The selective scan as operators of PyTorch, so that autograd and ``torch.compile`` know it.

An operator has a schema, a fake kernel that says which shapes come out without computing anything,
and a gradient.
"""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common.tensors import unit_rows, unit_stride
from attend_kernels.ops.selective_scan import tiles as configs


@torch.library.custom_op("attend::selective_scan", mutates_args=())
def scan_forward(
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    z: torch.Tensor | None,
    bias: torch.Tensor | None,
    initial: torch.Tensor | None,
    softplus: bool,
    keep: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return y, the last state, and the states at chunk starts (none unless ``keep``)."""
    from attend_kernels.ops.selective_scan import forward

    u, delta, b, c = (unit_rows(x) for x in (u, delta, b, c))
    d, z, bias = unit_stride(d), unit_stride(z), unit_stride(bias)
    return forward.forward(u, delta, a, b, c, d, z, bias, initial, softplus, keep)


@scan_forward.register_fake
def _(u, delta, a, b, c, d, z, bias, initial, softplus, keep):
    wide = torch.float64 if u.dtype == torch.float64 else torch.float32
    (size, length, channels), states = u.shape, a.shape[1]
    chunks = configs.chunks(length) if keep else 0
    return (
        u.new_empty(u.shape),
        u.new_empty((size, states, channels), dtype=wide).transpose(1, 2),
        u.new_empty((size, chunks, states, channels), dtype=wide),
    )


@torch.library.custom_op("attend::selective_scan_backward", mutates_args=())
def scan_backward(
    grad: torch.Tensor,
    grad_last: torch.Tensor | None,
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    z: torch.Tensor | None,
    bias: torch.Tensor | None,
    has_initial: bool,
    kept: torch.Tensor,
    softplus: bool,
) -> list[torch.Tensor]:
    """Gradients of u, delta, A, B, C, D, z, delta_bias and the first state; empty if not given."""
    from attend_kernels.ops.selective_scan import backward as kernels

    grad, u, delta, b, c = (unit_rows(x) for x in (grad, u, delta, b, c))
    d, z, bias = unit_stride(d), unit_stride(z), unit_stride(bias)
    return kernels.backward(
        grad, grad_last, u, delta, a, b, c, d, z, bias, has_initial, kept, softplus
    )


@scan_backward.register_fake
def _(grad, grad_last, u, delta, a, b, c, d, z, bias, has_initial, kept, softplus):
    def like(x: torch.Tensor | None, wide: bool = False) -> torch.Tensor:
        if x is None:
            return kept.new_empty(0)
        return x.new_empty(x.shape, dtype=kept.dtype if wide else x.dtype)

    size, channels, states = u.shape[0], *a.shape
    first = kept.new_empty((size, channels, states) if has_initial else 0)
    narrow = [like(u), like(delta), like(a, True), like(b), like(c)]
    return [*narrow, like(d, True), like(z), like(bias, True), first]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    *tensors, initial, softplus, _ = inputs
    ctx.set_materialize_grads(False)  # a last state nobody used costs nothing
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*tensors, output[2])
    ctx.softplus = softplus
    ctx.dtypes = [None if x is None else x.dtype for x in (*tensors, initial)]


def _gradient(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    *tensors, kept = ctx.saved_tensors
    grad = torch.zeros_like(tensors[0]) if grads[0] is None else grads[0]
    has_initial = ctx.dtypes[-1] is not None
    found = scan_backward(grad, grads[1], *tensors, has_initial, kept, ctx.softplus)
    wanted = zip(found, ctx.dtypes, strict=True)
    return (*(None if kind is None else x.to(kind) for x, kind in wanted), None, None)


scan_forward.register_autograd(_gradient, setup_context=_save)


def launch_step(
    state: torch.Tensor,
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    z: torch.Tensor | None,
    bias: torch.Tensor | None,
    softplus: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y and the new state of one step. It has no gradient."""
    from attend_kernels.ops.selective_scan.step import step

    u, delta, b, c = unit_rows(u), unit_rows(delta), unit_rows(b), unit_rows(c)
    d, z, bias = unit_stride(d), unit_stride(z), unit_stride(bias)
    return step(state, u, delta, a, b, c, d, z, bias, softplus)


scan_step = torch.library.custom_op("attend::selective_scan_step", mutates_args=())(launch_step)


@scan_step.register_fake
def _(state, u, delta, a, b, c, d, z, bias, softplus):
    wide = torch.float64 if u.dtype == torch.float64 else torch.float32
    size, channels, states = state.shape
    return u.new_empty(u.shape), u.new_empty((size, states, channels), dtype=wide).transpose(1, 2)
