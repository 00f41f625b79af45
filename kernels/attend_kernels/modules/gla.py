"""Gated linear attention: a gate a step and key dimension, from a projection of low rank.

Equation, one head (Yang et al. 2024, "Gated linear attention transformers with hardware-efficient
training", section 4.4)::

    gate = logsigmoid(W_2 W_1 x + b) / 16
    S_t = diag(exp(gate_t)) S_t-1 + k_t v_tᵀ        y_t = S_tᵀ q_t / sqrt(D)
    out = W_o (norm(y) silu(W_g x))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from attend_kernels.modules.linear import LinearLayer


class GatedLinearAttention(LinearLayer):
    """GLA's layer, with the weights' names of flash-linear-attention's ``GatedLinearAttention``.

    Args:
        hidden_size: width C of the residual stream.
        num_heads: heads H.
        num_kv_heads: key/value heads, a divisor of H; None is H.
        expand_k: all query heads together are so many times C wide.
        expand_v: likewise the values.
        use_short_conv: whether q, k and v pass through short convolutions.
        conv_size: their taps.
        conv_bias: whether they have biases.
        use_output_gate: whether the output is gated.
        norm_eps: what the output's norm adds to the mean of squares.
        gate_logit_normalizer: gates' logarithms are divided by it.
        gate_low_rank_dim: rank of the gates' projection.
        clamp_min: least logarithm of a gate; None for no limit.

    Raises:
        ValueError: the sizes do not belong together.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int = 4,
        num_kv_heads: int | None = None,
        *,
        expand_k: float = 0.5,
        expand_v: float = 1.0,
        use_short_conv: bool = False,
        conv_size: int = 4,
        conv_bias: bool = False,
        use_output_gate: bool = True,
        norm_eps: float = 1e-5,
        gate_logit_normalizer: float = 16,
        gate_low_rank_dim: int = 16,
        clamp_min: float | None = None,
    ) -> None:
        super().__init__(
            hidden_size, num_heads, num_kv_heads or num_heads,
            key_width=int(hidden_size * expand_k), value_width=int(hidden_size * expand_v),
            conv_size=conv_size if use_short_conv else 0, conv_bias=conv_bias,
            gated=use_output_gate, norm_eps=norm_eps,
            norm="g_norm_swish_gate" if use_output_gate else "g_norm",
        )  # fmt: skip
        self.gk_proj = nn.Sequential(
            nn.Linear(hidden_size, gate_low_rank_dim, bias=False),
            nn.Linear(gate_low_rank_dim, self.k_proj.out_features),
        )
        self.normalizer, self.least = gate_logit_normalizer, clamp_min

    def arguments(
        self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int
    ) -> dict[str, Any]:
        """Add the gates; see ``LinearLayer.arguments``."""
        logits = self.gk_proj(x).unflatten(-1, (-1, self.width_k)).float()
        gate = nn.functional.logsigmoid(logits) / self.normalizer
        if self.least is not None:
            gate = gate.clamp(min=self.least)
        k, v, gate = (self.spread(m) for m in (k, v, gate))
        return {"q": q * self.width_k**-0.5, "k": k, "v": v, "gate": gate}
