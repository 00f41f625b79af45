"""Retention: linear attention that forgets at a fixed rate, another for each head.

Equation, head h of H (Sun et al. 2023, "Retentive network", equations 5 and 8)::

    gamma_h = 1 - 2^(-5 - h)      q, k = rope(W_q x, m), rope(W_k x, m)
    S_t = gamma S_t-1 + k_t v_tᵀ        y_t = S_tᵀ q_t / sqrt(D)
    out = W_o (norm(y) silu(W_g x))
"""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.modules.linear import LinearLayer
from attend_kernels.ops.rope.api import apply_rope
from attend_kernels.ops.rope.naive import rope_table


class RetNet(LinearLayer):
    """Retention's layer, with the weights' names of fla's ``MultiScaleRetention``.

    Args:
        hidden_size: width C of the residual stream.
        num_heads: heads H.
        num_kv_heads: key/value heads, a divisor of H; None is H.
        expand_k: all query heads together are so many times C wide; a head's width must be even.
        expand_v: likewise the values.
        use_short_conv: whether q, k and v pass through short convolutions.
        conv_size: their taps.
        conv_bias: whether they have biases.
        use_output_gate: whether the output is gated.
        norm_eps: what the output's norm adds to the mean of squares.

    Raises:
        ValueError: the sizes do not belong together.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int = 8,
        num_kv_heads: int | None = None,
        *,
        expand_k: float = 1.0,
        expand_v: float = 2.0,
        use_short_conv: bool = False,
        conv_size: int = 4,
        conv_bias: bool = False,
        use_output_gate: bool = True,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__(
            hidden_size, num_heads, num_kv_heads or num_heads,
            key_width=round(hidden_size * expand_k), value_width=round(hidden_size * expand_v),
            conv_size=conv_size if use_short_conv else 0, conv_bias=conv_bias,
            gated=use_output_gate, norm_eps=norm_eps,
            norm="g_norm_swish_gate" if use_output_gate else "g_norm",
        )  # fmt: skip

    def arguments(
        self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int
    ) -> dict[str, Any]:
        """Turn by position and add the decay; see ``LinearLayer.arguments``."""
        at = torch.arange(first, first + x.shape[1], device=x.device)
        table = rope_table(at, self.width_k)
        q, k = (apply_rope(m, *table, layout="bthd") for m in (q, k))
        head = torch.arange(self.heads, device=x.device, dtype=torch.float64)
        decay = torch.log1p(-torch.exp2(-5 - head)).float()
        k, v = self.spread(k), self.spread(v)
        return {"q": q * self.width_k**-0.5, "k": k, "v": v, "decay": decay}
