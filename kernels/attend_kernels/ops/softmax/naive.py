"""Softmax one step at a time: the twin of ``fused_softmax``.

Equation and letters: see ``api``.
"""

from __future__ import annotations

import torch


def naive_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis in plain PyTorch, one step at a time.

    Shapes: ``(..., S) -> (..., S)``, same dtype; fp16 and bf16 are computed in fp32.
    """
    wide = x if x.dtype == torch.float64 else x.float()
    row_max = wide.detach().amax(dim=-1, keepdim=True)
    row_max = row_max.masked_fill(row_max == float("-inf"), 0.0)  # -inf - (-inf) would be NaN
    weights = torch.exp(wide - row_max)
    row_sum = weights.sum(dim=-1, keepdim=True)
    return (weights / row_sum.masked_fill(row_sum == 0.0, 1.0)).to(x.dtype)
