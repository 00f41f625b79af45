"""RMSNorm and LayerNorm, fused, each with an optional residual addition in front.

Equations, for one row h = x + residual of C channels (h = x without a residual)::

    RMSNorm    y = w h_hat          h_hat = h / sqrt(mean(h^2) + eps)
    LayerNorm  y = w h_hat + b      h_hat = (h - mean(h)) / sqrt(mean((h - mean(h))^2) + eps)

    g  = dy w                       (with r = 1 / sqrt(...), the row's reciprocal deviation)
    dh = r (g - h_hat mean(g h_hat) [- mean(g)]) + dsum         dx = dresidual = dh
    dw = sum over rows of dy h_hat  [db = sum over rows of dy]

The terms in brackets are LayerNorm's. dsum is the gradient that reaches h along the residual
stream. Papers: Ba, Kiros and Hinton 2016, "Layer normalization", equations 3 and 4; Zhang and
Sennrich 2019, "Root mean square layer normalization", equation 4.

Letters: ``C`` model width; all leading axes are rows.

Memory traffic, in elements a row (the weights are shared by all rows and stay in the cache). Least
possible, and what the kernels move: forward 2 C (x in, y out), with a residual 4 C (x and residual
in, y and h out); backward 3 C (h and dy in, dh out), with a residual 4 C. ``naive_rms_norm`` moves
11 C forward: square, mean, divide, multiply and the conversions each go through memory.
"""

from __future__ import annotations

from typing import overload

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_tensors
from attend_kernels.common.known import Known
from attend_kernels.common.shapes import ShapeError, assert_shape
from attend_kernels.ops.norm.naive import Pair, naive_layer_norm, naive_rms_norm
from attend_kernels.ops.norm.operators import launch_norm, norm_forward

RMS, LAYER = Known(), Known()


@overload
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, residual: None = None, eps: float = ...
) -> torch.Tensor: ...
@overload
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, residual: torch.Tensor, eps: float = ...
) -> Pair: ...
def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    *,
    residual: torch.Tensor | None = None,
    eps: float = 1e-6,
) -> torch.Tensor | Pair:
    """RMSNorm over the last axis in one kernel, forward and backward.

    Shapes: ``x (..., C), weight (C,) -> (..., C)``. With ``residual (..., C)`` the norm is of
    ``h = x + residual`` and the result is ``(normed, h)``, so that the residual stream goes on.
    ``weight=None`` is a weight of ones.

    Both results have the dtype of h: that of ``x + residual`` by PyTorch's promotion (fp16, bf16,
    fp32, fp64), inside ``torch.autocast`` too. The weight may have another dtype. Accumulates in
    fp32 (fp64 for fp64). Without Triton or a GPU it warns once and runs ``naive_rms_norm``.

    Raises:
        ShapeError: ``weight`` is not ``(C,)`` or ``residual`` has not the shape of ``x``.
        TypeError: an argument is not floating point.
        ValueError: the tensors are on different devices, or ``eps`` is not 0 or more.
    """
    key = RMS.key((x, weight, residual), eps)
    if RMS.find(key):
        weight = _ones(x) if weight is None else weight
        normed, h, _, _ = launch_norm(x, residual, weight, None, eps, False)
        return normed if residual is None else (normed, h)
    _check("rms_norm", x, residual, {"weight": weight}, eps)
    weight = _ones(x) if weight is None else weight
    if reason := _unless_empty(x):
        fallback.warn_once("rms_norm", "naive_rms_norm", reason)
    if reason or x.numel() == 0:
        return naive_rms_norm(x, weight, residual=residual, eps=eps)
    RMS.keep(key)
    normed, h, _, _ = norm_forward(x, residual, weight, None, eps, False)
    return normed if residual is None else (normed, h)


@overload
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    residual: None = None,
    eps: float = ...,
) -> torch.Tensor: ...
@overload
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    residual: torch.Tensor,
    eps: float = ...,
) -> Pair: ...
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    residual: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor | Pair:
    """LayerNorm over the last axis in one kernel, forward and backward.

    Shapes: ``x (..., C), weight (C,), bias (C,) -> (..., C)``; ``weight=None`` is a
    weight of ones, ``bias=None`` leaves b out. With ``residual (..., C)`` the norm is of
    ``h = x + residual`` and the result is ``(normed, h)``.

    Dtypes, fallback and errors: as ``rms_norm``.
    """
    key = LAYER.key((x, weight, bias, residual), eps)
    if LAYER.find(key):
        weight = _ones(x) if weight is None else weight
        normed, h, _, _ = launch_norm(x, residual, weight, bias, eps, True)
        return normed if residual is None else (normed, h)
    _check("layer_norm", x, residual, {"weight": weight, "bias": bias}, eps)
    weight = _ones(x) if weight is None else weight
    if reason := _unless_empty(x):
        fallback.warn_once("layer_norm", "naive_layer_norm", reason)
    if reason or x.numel() == 0:
        return naive_layer_norm(x, weight, bias, residual=residual, eps=eps)
    LAYER.keep(key)
    normed, h, _, _ = norm_forward(x, residual, weight, bias, eps, True)
    return normed if residual is None else (normed, h)


def _ones(x: torch.Tensor) -> torch.Tensor:
    """Weights that change nothing, in a dtype that changes none: one number in memory."""
    return x.new_ones(1).expand(x.shape[-1])


def _unless_empty(x: torch.Tensor) -> str | None:
    return fallback.why_not(x) if x.numel() else None


def _check(
    function: str,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weights: dict[str, torch.Tensor | None],
    eps: float,
) -> None:
    assert_tensors(function, ("residual", "weight", "bias"), x=x, residual=residual, **weights)
    sizes = assert_shape(x, "... C", name="x")
    given = {"x": x, "residual": residual, **weights}
    for name, tensor in given.items():
        if tensor is None:
            continue
        if name in weights:
            assert_shape(tensor, "C", sizes, name=name)
        if not tensor.is_floating_point():
            raise TypeError(
                f"{function} needs floating-point tensors, got {name} of {tensor.dtype}. "
                f"Likely cause: token ids or a mask passed for activations. Next: {name}.float()."
            )
        if tensor.device != x.device:
            raise ValueError(
                f"{function} needs all tensors on one device, got x on {x.device} and {name} on "
                f"{tensor.device}. Likely cause: the module was not moved. "
                f"Next: {name}.to(x.device)."
            )
    if not isinstance(eps, int | float | torch.SymFloat) or not eps >= 0:
        raise ValueError(
            f"{function} adds eps to a mean of squares, so it must be 0 or more, got {eps!r}. "
            f"Next: leave it out, or eps=1e-5."
        )
    if residual is not None and residual.shape != x.shape:
        raise ShapeError(
            f"{function} adds residual to x, so their shapes must be equal: expected "
            f"{tuple(x.shape)}, got {tuple(residual.shape)}. Likely cause: a residual stream kept "
            f"from before a reshape. Next: residual.reshape(x.shape) or residual.expand_as(x)."
        )
