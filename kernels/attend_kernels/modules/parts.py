"""Small parts that several layers share: convolutions, norms, and checks of sizes."""

from __future__ import annotations

import torch
from torch import nn

from attend_kernels.common.shapes import assert_shape
from attend_kernels.ops.conv1d.api import causal_conv1d, causal_conv1d_step
from attend_kernels.ops.norm.api import rms_norm


class ShortConvolution(nn.Module):
    """Causal depthwise convolution and SiLU, with ``nn.Conv1d``'s weights.

    Shapes: weight ``(C, 1, K)``, bias ``(C,)``; x ``(B, T, C)`` -> ``(B, T, C)``.
    """

    def __init__(self, channels: int, taps: int, bias: bool = False) -> None:
        super().__init__()
        bound = taps**-0.5
        self.weight = nn.Parameter(torch.empty(channels, 1, taps).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def forward(
        self, x: torch.Tensor, past: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the output and the inputs that the next call needs; ``past`` is those before."""
        return causal_conv1d(x, self.weight.squeeze(1), self.bias, state=past, output_state=True)

    def step(self, x: torch.Tensor, past: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """One token, ``(B, C)``."""
        w = self.weight.squeeze(1)
        past = x.new_zeros(*x.shape, w.shape[1] - 1) if past is None else past
        return causal_conv1d_step(past, x, w, self.bias)


class RMSNorm(nn.Module):
    """RMSNorm over the last axis; with ``gate`` its output is multiplied by silu(gate)."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor, gate: torch.Tensor | None = None) -> torch.Tensor:
        """Shapes: x and gate ``(..., C)`` -> ``(..., C)``."""
        y = rms_norm(x, self.weight, eps=self.eps)
        return y if gate is None else y * nn.functional.silu(gate)


def check_hidden(layer: nn.Module, x: torch.Tensor, width: int, axes: str = "B T") -> None:
    """Refuse hidden states of another width or number of axes.

    Raises:
        ShapeError: x is not (B, T, width), or (B, width) for a step.
    """
    assert_shape(x, f"{axes} {width}", name=f"the input of {type(layer).__name__}")


def divided(layer: nn.Module, what: str, total: int, parts: int, of: str) -> int:
    """Divide, or say why it will not go.

    Raises:
        ValueError: ``total`` is no multiple of ``parts``.
    """
    if parts < 1 or total % parts:
        raise ValueError(
            f"{type(layer).__name__}: {what} is {total}; expected a multiple of {of}={parts}. "
            f"Next: another {of}, or {what}={max(1, total // max(parts, 1)) * max(parts, 1)}."
        )
    return total // parts
