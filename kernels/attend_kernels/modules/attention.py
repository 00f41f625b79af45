"""Attention of a language model around the flash kernels: projections, rope, grouped heads, cache.

Equation, for the input x_t at position m, one head (Vaswani et al. 2017; Su et al. 2021; Ainslie et
al. 2023 for grouped heads)::

    q, k, v = W_q x, W_k x, W_v x      q, k = rope(norm(q), m), rope(norm(k), m)   (norm if asked)
    out = W_o softmax(q Kᵀ / sqrt(D)) V
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from attend_kernels.modules.parts import RMSNorm, check_hidden, divided
from attend_kernels.modules.states import KVCache
from attend_kernels.ops.decode.api import decode_attention
from attend_kernels.ops.flash.api import flash_attention
from attend_kernels.ops.rope.api import apply_rope
from attend_kernels.ops.rope.naive import rope_table


class FlashAttention(nn.Module):
    """Causal self-attention, with the weights' names of Hugging Face's ``LlamaAttention``.

    With ``qk_norm`` they are ``Qwen3Attention``'s; with ``sliding_window``, ``MistralAttention``'s;
    with ``sinks``, ``GptOssAttention``'s.

    Args:
        hidden_size: width C of the residual stream.
        num_attention_heads: query heads H.
        num_key_value_heads: key/value heads, a divisor of H; None is H.
        head_dim: width of a head, up to 256; None is C / H.
        attention_bias: whether the projections have biases.
        output_bias: whether the one that goes out has; None is as ``attention_bias``.
        qk_norm: whether each head's queries and keys pass through an RMSNorm.
        rms_norm_eps: what that norm adds to the mean of squares.
        rope_theta: base of the angles; None for no rotary embedding.
        rope: a table to use instead, as ``rope_table`` makes it: scaled or partial embeddings.
        sliding_window: how many keys a query sees, its own included; None for all.
        sinks: whether each head learns a sink, ``flash_attention``'s.
        softcap: as in ``flash_attention``.
        scale: factor of the scores; None is 1 / sqrt(head_dim).

    Raises:
        ValueError: the sizes do not belong together.
    """

    def __init__(
        self,
        hidden_size: int,
        num_attention_heads: int,
        num_key_value_heads: int | None = None,
        *,
        head_dim: int | None = None,
        attention_bias: bool = False,
        output_bias: bool | None = None,
        qk_norm: bool = False,
        rms_norm_eps: float = 1e-6,
        rope_theta: float | None = 10_000.0,
        rope: tuple[torch.Tensor, torch.Tensor] | None = None,
        sliding_window: int | None = None,
        sinks: bool = False,
        softcap: float | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        heads, groups = num_attention_heads, num_key_value_heads or num_attention_heads
        divided(self, "num_attention_heads", heads, groups, "num_key_value_heads")
        if head_dim is None:
            head_dim = divided(self, "hidden_size", hidden_size, heads, "num_attention_heads")
        self.hidden_size, self.heads, self.groups = hidden_size, heads, groups
        self.width, self.rope_theta = head_dim, rope_theta
        output_bias = attention_bias if output_bias is None else output_bias
        self.q_proj = nn.Linear(hidden_size, heads * head_dim, bias=attention_bias)
        self.k_proj = nn.Linear(hidden_size, groups * head_dim, bias=attention_bias)
        self.v_proj = nn.Linear(hidden_size, groups * head_dim, bias=attention_bias)
        self.o_proj = nn.Linear(heads * head_dim, hidden_size, bias=output_bias)
        self.q_norm = RMSNorm(head_dim, rms_norm_eps) if qk_norm else None
        self.k_norm = RMSNorm(head_dim, rms_norm_eps) if qk_norm else None
        self.sinks = nn.Parameter(torch.zeros(heads)) if sinks else None
        self.options: dict[str, Any] = {
            "window": None if sliding_window is None else sliding_window - 1,
            "softcap": softcap,
            "scale": scale,
            "layout": "bthd",
        }
        self.given_table = rope
        self._table: tuple[torch.Tensor, torch.Tensor] | None = rope

    def new_state(self, batch: int, room: int) -> KVCache:
        """Return an empty cache with room for so many tokens a sequence."""
        w = self.k_proj.weight
        return KVCache(batch, room, self.groups, self.width, w.device, w.dtype)

    def forward(
        self,
        x: torch.Tensor,
        state: KVCache | None = None,
        lengths: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attend within a sequence; with ``state`` also to what it holds, and add to it.

        Args:
            x: hidden states.
            state: a cache. Without gradient only.
            lengths: for a first call with ``state``: how many tokens of each sequence count, where
                prompts of different lengths are filled up on the right.

        Shapes: x ``(B, T, C)``, lengths ``(B,)`` integers -> ``(B, T, C)``.

        Raises:
            ShapeError: x or lengths has another shape.
            ValueError: the cache is full, or a gradient is asked for through it.
        """
        check_hidden(self, x, self.hidden_size)
        q, k, v = self._heads(x)
        first = 0 if state is None else state.longest
        q, k = self._turn(q, k, first, None)
        if state is not None:
            _refuse_gradient(q, k, v)
            state.append(k, v, lengths)
            if first:  # else what is there is what came
                k, v = state.k[:, : state.longest], state.v[:, : state.longest]
        y = flash_attention(q, k, v, causal=True, sinks=self.sinks, **self.options)
        return self.o_proj(y.flatten(-2))

    def step(self, x: torch.Tensor, state: KVCache) -> torch.Tensor:
        """Attend from one new token of each sequence. Forward only.

        Shapes: x ``(B, C)`` -> ``(B, C)``.

        Raises:
            ShapeError: x has another shape.
            ValueError: the cache is full, or a gradient is asked for.
        """
        check_hidden(self, x, self.hidden_size, "B")
        q, k, v = self._heads(x[:, None])
        _refuse_gradient(q, k, v)
        q, k = self._turn(q, k, state.longest, state.lengths[:, None])
        state.append(k, v)
        y = decode_attention(q, state.k, state.v, state.lengths, sinks=self.sinks, **self.options)
        return self.o_proj(y[:, 0].flatten(-2))

    def _heads(self, x: torch.Tensor) -> list[torch.Tensor]:
        q, k, v = (
            proj(x).unflatten(-1, (-1, self.width))
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        q = q if self.q_norm is None else self.q_norm(q)
        return [q, k if self.k_norm is None else self.k_norm(k), v]

    def _turn(
        self, q: torch.Tensor, k: torch.Tensor, first: int, positions: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Turn queries and keys, the first of which stand at ``first`` unless positions say."""
        if self.rope_theta is None and self.given_table is None:
            return q, k
        table = self._angles(first + q.shape[1], q.device)
        if positions is None and first:
            positions = torch.arange(first, first + q.shape[1], device=q.device)
        turned = (apply_rope(x, *table, positions=positions, layout="bthd") for x in (q, k))
        return next(turned), next(turned)

    def _angles(self, tokens: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a table of as many positions at least, kept from call to call."""
        table = self._table
        if self.given_table is not None and len(self.given_table[0]) < tokens:
            raise ValueError(
                f"FlashAttention: its rope table has {len(self.given_table[0])} positions, but "
                f"{tokens} tokens came. Next: rope=rope_table({tokens}, …), or fewer tokens."
            )
        if table is None or len(table[0]) < tokens:
            assert self.rope_theta is not None
            more = max(tokens, 2 * len(table[0]) if table is not None else 0)
            table = rope_table(torch.arange(more, device=device), self.width, self.rope_theta)
        if table[0].device != device:
            table = table[0].to(device), table[1].to(device)
        self._table = table
        return table


def _refuse_gradient(*tensors: torch.Tensor) -> None:
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise ValueError(
            "FlashAttention: no gradient flows through a cache, but one is asked for. Next: with "
            "torch.no_grad(): ..., or a call without state to train."
        )
