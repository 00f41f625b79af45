"""DeltaNet: linear attention that overwrites what it held at a key, by the delta rule.

Equation, one head (Schlag et al. 2021; Yang et al. 2024, "Parallelizing linear transformers with
the delta rule over sequence length", section 3)::

    q, k = unit(silu(conv(W_q x))), unit(silu(conv(W_k x)))      beta = sigmoid(W_b x)
    S_t = S_t-1 + beta_t k_t (v_t - S_t-1ᵀ k_t)ᵀ        y_t = S_tᵀ q_t / sqrt(D)
    out = W_o norm(y)                   or, gated, W_o (norm(y) silu(W_g x))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from attend_kernels.modules.linear import LinearLayer


def unit(x: torch.Tensor) -> torch.Tensor:
    """Scale rows to length 1, in fp32; rows near 0 stay finite. Shapes: ``(..., D)``, kept."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


class DeltaNet(LinearLayer):
    """DeltaNet's layer, with the weights' names of flash-linear-attention's ``DeltaNet``.

    As there by default: silu on q, k and v, keys and queries of length 1.

    Args:
        hidden_size: width C of the residual stream.
        num_heads: heads H.
        expand_k: all heads' keys together are so many times C wide.
        expand_v: likewise the values.
        use_beta: whether beta is learned; else it is 1.
        use_gate: whether the output is gated.
        use_short_conv: whether q, k and v pass through short convolutions.
        conv_size: their taps.
        conv_bias: whether they have biases.
        allow_neg_eigval: beta from 0 to 2 (Grazzi et al. 2024).
        norm_eps: what the output's norm adds to the mean of squares.

    Raises:
        ValueError: the sizes do not belong together.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int = 4,
        *,
        expand_k: float = 1.0,
        expand_v: float = 1.0,
        use_beta: bool = True,
        use_gate: bool = False,
        use_short_conv: bool = True,
        conv_size: int = 4,
        conv_bias: bool = False,
        allow_neg_eigval: bool = False,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__(
            hidden_size, num_heads, num_heads,
            key_width=int(hidden_size * expand_k), value_width=int(hidden_size * expand_v),
            conv_size=conv_size if use_short_conv else 0, conv_bias=conv_bias,
            gated=use_gate, norm_eps=norm_eps, norm="o_norm",
        )  # fmt: skip
        self.b_proj = nn.Linear(hidden_size, num_heads, bias=False) if use_beta else None
        self.most = 2.0 if allow_neg_eigval else 1.0

    def arguments(
        self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int
    ) -> dict[str, Any]:
        """Add beta; see ``LinearLayer.arguments``."""
        if not self.has_convolutions:  # which end in silu themselves
            q, k, v = (nn.functional.silu(m) for m in (q, k, v))
        if self.b_proj is None:
            beta = torch.full(q.shape[:-1], self.most, dtype=torch.float32, device=q.device)
        else:
            beta = self.most * torch.sigmoid(self.b_proj(x).float())
        return {"q": unit(q) * self.width_k**-0.5, "k": unit(k), "v": v, "beta": beta}
