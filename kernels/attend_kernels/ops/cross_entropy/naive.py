"""Cross-entropy one step at a time: the twin of ``cross_entropy``.

Equation and letters: see ``api``.
"""

from __future__ import annotations

import torch


def naive_cross_entropy(
    logits: torch.Tensor,
    targets: torch.Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> torch.Tensor:
    """Cross-entropy in plain PyTorch, one step at a time; shapes as ``cross_entropy``."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    lse = torch.logsumexp(wide, dim=-1)
    live = targets != ignore_index
    index = targets.masked_fill(~live, 0).long()
    picked = wide.gather(-1, index[..., None])[..., 0]
    if label_smoothing:
        picked = (1.0 - label_smoothing) * picked + label_smoothing * wide.mean(dim=-1)
    losses = (lse - picked + z_loss * lse.square()).masked_fill(~live, 0.0)
    if reduction == "none":
        return losses
    return losses.sum() / live.sum().clamp_min(1) if reduction == "mean" else losses.sum()
