"""Heads whose keys and values differ in width, as in DeepSeek's multi-head latent attention."""

from __future__ import annotations

import torch

from attend_kernels.common.tensors import filled


def widen_heads(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Fill the narrower of q, k and v up with zeros, which change no score and no other column.

    Shapes: q ``(..., D)``, k ``(..., D)``, v ``(..., E)`` -> all of the larger width.
    """
    width = max(q.shape[-1], v.shape[-1])
    return filled(q, width), filled(k, width), filled(v, width)
