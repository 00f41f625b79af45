"""Attention with every matrix written out: the twins of the flash kernels.

Equation and letters: see ``api``.
"""

from __future__ import annotations

import math

import torch

from attend_kernels.common.attention import Window, reach


def naive_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention with every matrix written out: the twin of ``flash_attention``.

    It computes in the dtype it is given: float64 for an oracle, bf16 for what plain PyTorch would
    get. The options are those of ``flash_attention``.

    Shapes: q ``(B, H, T, D)``, k ``(B, G, S, D)``, v ``(B, G, S, D_v)``, alibi and sinks ``(H,)``
    -> output ``(B, H, T, D_v)`` and LSE ``(B, H, T)``.
    """
    T, S = q.shape[2], k.shape[2]  # noqa: N806  # axis letters
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))  # (B, H, S, D)
    scores = scale * (q @ k.transpose(-1, -2))  # (B, H, T, S)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    t = torch.arange(T, device=q.device)[:, None] + (S - T)  # where query t stands among the keys
    s = torch.arange(S, device=q.device)
    if alibi is not None:
        scores = scores - alibi.to(scores.dtype)[:, None, None] * (t - s).abs()
    left, right = reach(causal, window)
    hidden = torch.zeros(T, S, dtype=torch.bool, device=q.device)
    if left is not None:
        hidden |= s < t - left
    if right is not None:
        hidden |= s > t + right
    empty = hidden.all(dim=-1)  # (T,): these rows see no key; -inf everywhere would give NaN
    scores = scores.masked_fill(hidden, float("-inf")).masked_fill(empty[:, None], 0.0)
    if sinks is not None:  # a key more, whose value is 0
        scores = scores.masked_fill(hidden, float("-inf"))
        column = sinks.to(scores.dtype)[:, None, None].expand(len(q), -1, T, 1)
        scores = torch.cat([scores, column], dim=-1)
        return torch.softmax(scores, dim=-1)[..., :-1] @ v, torch.logsumexp(scores, dim=-1)
    weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
    return weights @ v, torch.logsumexp(scores, dim=-1).masked_fill(empty, float("-inf"))


def naive_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``naive_attention`` of each sequence in turn: the twin of ``flash_attention_varlen``.

    Rows after the last sequence are 0 and their LSE -inf (or the sink's), here and there.

    Shapes: as ``flash_attention_varlen``.
    """
    output = q.new_zeros(*q.shape[:2], v.shape[-1])
    lse = torch.full((q.shape[1], q.shape[0]), float("-inf"), dtype=q.dtype, device=q.device)
    lse = lse if sinks is None else sinks.to(q.dtype)[:, None].expand_as(lse)
    q_starts, k_starts = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    spans = zip(q_starts, q_starts[1:], k_starts, k_starts[1:], strict=False)
    for q_first, q_stop, k_first, k_stop in spans:
        one = [
            x[first:stop].transpose(0, 1)[None]
            for x, first, stop in ((q, q_first, q_stop), (k, k_first, k_stop), (v, k_first, k_stop))
        ]
        rows, logs = naive_attention(
            *one, causal=causal, window=window, alibi=alibi, sinks=sinks, softcap=softcap,
            scale=scale,
        )  # fmt: skip
        output = output.slice_scatter(rows[0].transpose(0, 1), 0, q_first, q_stop)
        lse = lse.slice_scatter(logs[0], 1, q_first, q_stop)
    return output, lse
