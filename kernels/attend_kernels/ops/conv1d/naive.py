"""Causal convolution a tap at a time: the twin of ``causal_conv1d``.

Equation and letters: see ``api``.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn import functional

Activation = Literal["silu"] | None


def naive_causal_conv1d(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None = None,
    *,
    activation: Activation = "silu",
    state: torch.Tensor | None = None,
) -> torch.Tensor:
    """Causal convolution in plain PyTorch, a tap at a time: the twin of ``causal_conv1d``.

    It computes float64 in float64 and everything else in float32.

    Shapes: x ``(B, T, C)``, w ``(C, K)``, b ``(C,)``, state ``(B, C, K - 1)`` -> ``(B, T, C)``.
    """
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    length, taps = x.shape[1], w.shape[1]
    padded = with_past(x.to(wide), None if state is None else state.to(wide), taps)
    y = sum(w[:, k].to(wide) * padded[:, k : k + length] for k in range(taps))
    assert isinstance(y, torch.Tensor)
    y = y if b is None else y + b.to(wide)
    return (functional.silu(y) if activation == "silu" else y).to(x.dtype)


def with_past(x: torch.Tensor, state: torch.Tensor | None, taps: int) -> torch.Tensor:
    """The K - 1 inputs before the first, then x: ``(B, K - 1 + T, C)``."""
    past = x.new_zeros(x.shape[0], taps - 1, x.shape[2])
    return torch.cat([past if state is None else state.transpose(1, 2), x], dim=1)
