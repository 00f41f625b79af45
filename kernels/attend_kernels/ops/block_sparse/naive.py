"""Attention with the whole mask written out: the twin of ``block_sparse_attention``."""

from __future__ import annotations

import math

import torch


def naive_block_sparse_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    *,
    block: int = 64,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention with every matrix written out, in the dtype it is given.

    Shapes: as ``block_sparse_attention`` in the layout "bhtd"; it always returns O and LSE.
    """
    T, S = q.shape[2], k.shape[2]  # noqa: N806  # axis letters
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    seen = mask.repeat_interleave(block, dim=-2).repeat_interleave(block, dim=-1)[..., :T, :S]
    if causal:
        ones = torch.ones(T, S, dtype=torch.bool, device=q.device)
        seen = seen & ones.tril(S - T)
    empty = ~seen.any(dim=-1, keepdim=True)  # -inf everywhere would give NaN
    scores = scale * (q @ k.transpose(-1, -2))
    scores = scores.masked_fill(~seen, float("-inf")).masked_fill(empty, 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(~seen, 0.0)
    lse = torch.logsumexp(scores, dim=-1).masked_fill(empty[..., 0], float("-inf"))
    return weights @ v, lse
