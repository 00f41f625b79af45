"""RMSNorm and LayerNorm one step at a time: the twins of ``rms_norm`` and ``layer_norm``.

Equation and letters: see ``api``.
"""

from __future__ import annotations

import torch

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


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.float64 else x.float()
