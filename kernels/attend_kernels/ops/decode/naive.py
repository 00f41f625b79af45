"""Attention of each sequence over its own keys: the twin of ``decode_attention``.

Equation, letters and the cache's layouts: see ``api``.
"""

from __future__ import annotations

import math

import torch

from attend_kernels.common.attention import reach
from attend_kernels.ops.decode.quantise import dequantise_cache, encode, quantise_cache


def naive_decode_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of each sequence over its own keys, written out: the twin of ``decode_attention``.

    It computes in q's dtype: float64 for an oracle. The options are those of ``decode_attention``.

    Shapes: as ``decode_attention``; it always returns O and LSE.
    """
    if q.dim() == 3:
        output, lse = naive_decode_attention(
            q[:, :, None], k_cache, v_cache, lengths, block_table,
            scale=scale, window=window, softcap=softcap, sinks=sinks, k_scale=k_scale,
            v_scale=v_scale,
        )  # fmt: skip
        return output[:, :, 0], lse[:, :, 0]
    output, lse = torch.zeros_like(q), q.new_zeros(q.shape[:3])
    for sequence, length in enumerate(lengths.tolist()):
        k, v = (
            _keys(cache, code_scale, block_table, sequence, length, q.dtype)
            for cache, code_scale in ((k_cache, k_scale), (v_cache, v_scale))
        )
        output[sequence], lse[sequence] = _attend(q[sequence], k, v, scale, window, softcap, sinks)
    return output, lse


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None,
    window: int | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries of one sequence, (H, T, D), over its keys and values, (G, length, D)."""
    T, length = q.shape[1], k.shape[1]  # noqa: N806  # axis letters
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    k, v = (x.repeat_interleave(q.shape[0] // k.shape[0], dim=0) for x in (k, v))
    scores = scale * (q @ k.transpose(-1, -2))  # (H, T, length)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    ahead = torch.arange(length, device=q.device) - (length - T)
    ahead = ahead - torch.arange(T, device=q.device)[:, None]  # of each key over each query
    hidden = ahead > 0
    left, _ = reach(True, window)
    if left is not None:
        hidden |= ahead < -left
    if sinks is not None:  # a key more, whose value is 0
        column = sinks.to(scores.dtype)[:, None, None].expand(-1, T, 1)
        scores = torch.cat([scores.masked_fill(hidden, float("-inf")), column], dim=-1)
        return torch.softmax(scores, dim=-1)[..., :-1] @ v, torch.logsumexp(scores, dim=-1)
    empty = hidden.all(dim=-1, keepdim=True)  # -inf everywhere would give NaN
    scores = scores.masked_fill(hidden, float("-inf")).masked_fill(empty, 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
    return weights @ v, torch.logsumexp(scores, dim=-1).masked_fill(empty[:, 0], float("-inf"))


def _keys(
    cache: torch.Tensor,
    scale: torch.Tensor | None,
    block_table: torch.Tensor | None,
    sequence: int,
    length: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Keys (or values) of one sequence out of the cache: ``(G, length, D)``."""
    per_head = scale is not None and scale.dim() == 1
    if block_table is None:
        rows = cache[sequence, :, :length]  # (G, length, D)
        codes_scale = scale if scale is None or per_head else scale[sequence, :, :length]
    else:
        pages = block_table[sequence, : -(-length // cache.shape[1])].long()
        rows = cache[pages].flatten(0, 1)[:length].transpose(0, 1)
        codes_scale = scale
        if scale is not None and not per_head:
            codes_scale = scale[pages].flatten(0, 1)[:length].transpose(0, 1)
    if codes_scale is None:
        return rows.to(dtype)
    return dequantise_cache(rows, codes_scale, dtype, head_axis=0 if per_head else None)


def naive_append_to_cache(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None = None,
    *,
    counts: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Write new keys and values one token at a time: the twin of ``append_to_cache``.

    Shapes: as ``append_to_cache`` in the layout "bhtd", k and v with their axis T.
    """
    for x, cache, scale in ((k, k_cache, k_scale), (v, v_cache, v_scale)):
        for sequence, length in enumerate(lengths.tolist()):
            steps = x.shape[2] if counts is None else int(counts[sequence])
            for t in range(steps):
                row = x[sequence, :, t]  # (G, D)
                at: tuple[int | slice, ...] = (sequence, slice(None), length + t)
                if block_table is not None:
                    page, slot = divmod(length + t, cache.shape[1])
                    at = (int(block_table[sequence, page]), slot)
                if scale is None:
                    cache[at] = row
                elif scale.dim() == 1:
                    cache[at] = encode(row, scale, cache.dtype, head_axis=0)
                else:
                    cache[at], scale[at] = quantise_cache(row, cache.dtype)
    return lengths + (k.shape[2] if counts is None else counts)
