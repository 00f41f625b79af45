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

from typing import Any, overload

import torch

from attend_kernels import fallback
from attend_kernels.arguments import assert_tensors
from attend_kernels.shapes import ShapeError, assert_shape

Pair = tuple[torch.Tensor, torch.Tensor]


def naive_rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    residual: torch.Tensor | None = None,
    eps: float = 1e-6,
) -> torch.Tensor | Pair:
    """RMSNorm in plain PyTorch, one step at a time.

    Shapes: ``x (..., C), weight (C,) -> (..., C)``; fp16 and bf16 are computed in fp32. With
    ``residual (..., C)`` returns ``(normed, x + residual)``.
    """
    h = x if residual is None else x + residual
    wide = _wide(h)
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    normed = (wide / torch.sqrt(mean_square + eps) * weight.to(wide.dtype)).to(h.dtype)
    return normed if residual is None else (normed, h)


def naive_layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    residual: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor | Pair:
    """LayerNorm in plain PyTorch, one step at a time.

    Shapes: ``x (..., C), weight (C,), bias (C,) -> (..., C)``; fp16 and bf16 are computed in fp32.
    With ``residual (..., C)`` returns ``(normed, x + residual)``.
    """
    h = x if residual is None else x + residual
    wide = _wide(h)
    deviation = wide - wide.mean(dim=-1, keepdim=True)
    variance = deviation.square().mean(dim=-1, keepdim=True)
    normed = deviation / torch.sqrt(variance + eps) * weight.to(wide.dtype)
    if bias is not None:
        normed = normed + bias.to(wide.dtype)
    normed = normed.to(h.dtype)
    return normed if residual is None else (normed, h)


@overload
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, *, residual: None = None, eps: float = ...
) -> torch.Tensor: ...
@overload
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, *, residual: torch.Tensor, eps: float = ...
) -> Pair: ...
def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    residual: torch.Tensor | None = None,
    eps: float = 1e-6,
) -> torch.Tensor | Pair:
    """RMSNorm over the last axis in one kernel, forward and backward.

    Shapes: ``x (..., C), weight (C,) -> (..., C)``. With ``residual (..., C)`` the norm is of
    ``h = x + residual`` and the result is ``(normed, h)``, so that the residual stream goes on.

    Both results have the dtype of h: that of ``x + residual`` by PyTorch's promotion (fp16, bf16,
    fp32, fp64), inside ``torch.autocast`` too. The weight may have another dtype. Accumulates in
    fp32 (fp64 for fp64). Without Triton or a GPU it warns once and runs ``naive_rms_norm``.

    Raises:
        ShapeError: ``weight`` is not ``(C,)`` or ``residual`` has not the shape of ``x``.
        TypeError: an argument is not floating point.
        ValueError: the tensors are on different devices, or ``eps`` is not 0 or more.
    """
    _check("rms_norm", x, residual, {"weight": weight}, eps)
    if reason := _unless_empty(x):
        fallback.warn_once("rms_norm", "naive_rms_norm", reason)
    if reason or x.numel() == 0:
        return naive_rms_norm(x, weight, residual=residual, eps=eps)
    normed, h, _, _ = _norm(x, residual, weight, None, eps, False)
    return normed if residual is None else (normed, h)


@overload
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    residual: None = None,
    eps: float = ...,
) -> torch.Tensor: ...
@overload
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    residual: torch.Tensor,
    eps: float = ...,
) -> Pair: ...
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    residual: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor | Pair:
    """LayerNorm over the last axis in one kernel, forward and backward.

    Shapes: ``x (..., C), weight (C,), bias (C,) -> (..., C)``; ``bias=None`` leaves b out. With
    ``residual (..., C)`` the norm is of ``h = x + residual`` and the result is ``(normed, h)``.

    Dtypes, fallback and errors: as ``rms_norm``.
    """
    _check("layer_norm", x, residual, {"weight": weight, "bias": bias}, eps)
    if reason := _unless_empty(x):
        fallback.warn_once("layer_norm", "naive_layer_norm", reason)
    if reason or x.numel() == 0:
        return naive_layer_norm(x, weight, bias, residual=residual, eps=eps)
    normed, h, _, _ = _norm(x, residual, weight, bias, eps, True)
    return normed if residual is None else (normed, h)


@torch.library.custom_op("attend::norm", mutates_args=())
def _norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    center: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normed rows, h, mean and reciprocal deviation; what is not asked for comes back empty."""
    from attend_kernels import norm_triton

    return norm_triton.forward(x, residual, weight, bias, eps, center)


@_norm.register_fake
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
def _norm_backward(
    grad: torch.Tensor,
    grad_sum: torch.Tensor | None,
    h: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    inverse: torch.Tensor,
    has_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of h, weight and bias (empty without one); the last two in the wide dtype."""
    from attend_kernels import norm_triton

    return norm_triton.backward(grad, grad_sum, h, weight, mean, inverse, has_bias)


@_norm_backward.register_fake
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
    dh, dw, db = _norm_backward(grad, grad_sum, h, weight, mean, inverse, of_bias is not None)
    dx = dh.to(of_x)
    dresidual = None if of_residual is None else dh.to(of_residual)
    return dx, dresidual, dw.to(of_weight), None if of_bias is None else db.to(of_bias), None, None


_norm.register_autograd(_gradients, setup_context=_save)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _unless_empty(x: torch.Tensor) -> str | None:
    return fallback.why_not(x) if x.numel() else None


def _check(
    function: str,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weights: dict[str, torch.Tensor | None],
    eps: float,
) -> None:
    assert_tensors(function, ("residual", "bias"), x=x, residual=residual, **weights)
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
