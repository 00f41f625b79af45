"""Row softmax, fused: every element is read from memory once and written once.

Equation, for one row x of S scores::

    p_s = exp(x_s - m) / l        m = max_s x_s        l = sum_s exp(x_s - m)
    dx_s = p_s (dp_s - sum_r dp_r p_r)                 (the Jacobian diag(p) - p p^T, never built)

Letters: ``S`` scores in a row; all leading axes are rows. ``running_max`` and ``running_sum`` are m
and l of the part of a row seen so far (Milakov & Gimelshein 2018, "Online normalizer calculation
for softmax", algorithm 3).

Memory traffic, counted in elements a row. The least possible is 2 S: each score read once, each
weight written once. ``naive_softmax`` moves 8 S: max reads S, subtract, exp and divide each read
and write S, sum reads S. The fused kernel moves 2 S where a row fits in one block (S <= MAX_BLOCK);
a longer row is read twice, 3 S. The backward pass reads P and dP and writes dX: 3 S, or 5 S for
long rows.

A row that is all -inf (everything masked) has no distribution: its softmax is defined as zeros
here, and so is its gradient. ``torch.softmax`` gives NaN. NaN and +inf in a row make the row NaN.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from attend_kernels.common import fallback
from attend_kernels.common.shapes import assert_shape
from attend_kernels.ops.softmax.naive import naive_softmax

MAX_BLOCK = 16_384  # longest row held in one block: 16 fp32 values a thread at 32 warps
TILE = 4_096  # elements one program holds when rows are short: several rows share a program


def fused_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis in one kernel, forward and backward.

    Shapes: ``(..., S) -> (..., S)``, same dtype (fp16, bf16, fp32, fp64), contiguous; any strides
    are accepted. Accumulates in fp32 (fp64 for fp64). Without Triton or a GPU it warns once and
    runs ``naive_softmax``.

    Raises:
        ShapeError: ``x`` has no axis.
        TypeError: ``x`` is not floating point.
    """
    assert_shape(x, "... S", name="x")
    if not x.is_floating_point():
        raise TypeError(
            f"fused_softmax needs floating-point scores, got {x.dtype}. "
            f"Likely cause: integers from arange or a mask. Next: x.float()."
        )
    if x.numel() == 0:
        return torch.empty_like(x)
    if reason := fallback.why_not(x):
        fallback.warn_once("fused_softmax", "naive_softmax", reason)
        return naive_softmax(x)
    return _FusedSoftmax.apply(x)  # pyright: ignore[reportReturnType]  # apply is untyped in torch


class _FusedSoftmax(torch.autograd.Function):
    """Ties the two kernels to autograd; keeps P alone for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        from attend_kernels.ops.softmax import kernels

        p = kernels.forward(x, MAX_BLOCK, TILE)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator is untyped
        ctx: Any, *grad_outputs: torch.Tensor
    ) -> torch.Tensor:
        from attend_kernels.ops.softmax import kernels

        (p,) = ctx.saved_tensors
        return kernels.backward(p, grad_outputs[0], MAX_BLOCK, TILE)
