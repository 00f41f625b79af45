"""Gated DeltaNet: the delta rule on a state that fades, one gate a step.

Equation, one value head, whose key head it shares with others (Yang, Kautz & Hatamizadeh 2025,
"Gated delta networks", section 3)::

    q, k, v = conv(W_q x), conv(W_k x), conv(W_v x), each through silu      q, k = unit(q), unit(k)
    gate = -exp(A_log) softplus(W_a x + dt_bias)      beta = sigmoid(W_b x)
    S'_t = exp(gate_t) S_t-1      S_t = S'_t + beta_t k_t (v_t - S'_tᵀ k_t)ᵀ
    y_t = S_tᵀ q_t / sqrt(D)      out = W_o (norm(y) silu(W_z x))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from attend_kernels.modules.deltanet import unit
from attend_kernels.modules.parts import RMSNorm, ShortConvolution, check_hidden, divided
from attend_kernels.modules.states import RecurrentState
from attend_kernels.ops.linear_attention.api import linear_attention, linear_attention_step


class GatedDeltaNet(nn.Module):
    """Gated DeltaNet's layer, with the weights' names of ``Qwen3NextGatedDeltaNet``.

    The projections of a key head and of the value heads that share it lie together there.

    Args:
        hidden_size: width C of the residual stream.
        num_value_heads: value heads H.
        num_key_heads: key heads, a divisor of H.
        key_width: width of a key head.
        value_width: width of a value head.
        conv_kernel: taps of the convolution, 1 to 8.
        norm_eps: what the output's norm adds to the mean of squares.

    Raises:
        ValueError: the numbers of heads do not belong together.
    """

    def __init__(
        self,
        hidden_size: int,
        num_value_heads: int = 32,
        num_key_heads: int = 16,
        key_width: int = 128,
        value_width: int = 128,
        conv_kernel: int = 4,
        norm_eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.hidden_size, self.heads, self.groups = hidden_size, num_value_heads, num_key_heads
        self.share = divided(self, "num_value_heads", self.heads, self.groups, "num_key_heads")
        self.width_k, self.width_v = key_width, value_width
        keys, values = num_key_heads * key_width, num_value_heads * value_width
        self.widths = [keys, keys, values]
        self.in_proj_qkvz = nn.Linear(hidden_size, 2 * keys + 2 * values, bias=False)
        self.in_proj_ba = nn.Linear(hidden_size, 2 * self.heads, bias=False)
        self.conv1d = ShortConvolution(sum(self.widths), conv_kernel)
        self.dt_bias = nn.Parameter(torch.ones(self.heads))
        self.A_log = nn.Parameter(torch.empty(self.heads).uniform_(0.01, 16).log())
        self.norm = RMSNorm(value_width, norm_eps)
        self.out_proj = nn.Linear(values, hidden_size, bias=False)

    def new_state(self) -> RecurrentState:
        """Return the state before the first token."""
        return RecurrentState()

    def forward(self, x: torch.Tensor, state: RecurrentState | None = None) -> torch.Tensor:
        """Mix a sequence; with ``state`` go on from it, and leave in it what comes after.

        Shapes: x ``(B, T, C)`` -> ``(B, T, C)``.

        Raises:
            ShapeError: x has another shape.
        """
        check_hidden(self, x, self.hidden_size)
        before = state or RecurrentState()
        mixed, z, rest = self._project(x)
        mixed, past = self.conv1d(mixed, before.conv[0])
        y, memory = linear_attention(
            **self._heads(mixed), **rest, initial_state=before.memory, output_state=True,
            layout="bthd",
        )  # fmt: skip
        if state is not None:
            state.advance(x.shape[1], memory, (past,))
        return self.out_proj(self.norm(y, z).flatten(-2))

    def step(self, x: torch.Tensor, state: RecurrentState) -> torch.Tensor:
        """Mix one token: ``forward`` of T = 1 without the axis.

        Shapes: x ``(B, C)`` -> ``(B, C)``.

        Raises:
            ShapeError: x has another shape.
        """
        check_hidden(self, x, self.hidden_size, "B")
        mixed, z, rest = self._project(x)
        mixed, past = self.conv1d.step(mixed, state.conv[0])
        memory = state.memory
        if memory is None:
            shape = (len(x), self.heads, self.width_k, self.width_v)
            memory = x.new_zeros(shape, dtype=torch.float32)
        y, memory = linear_attention_step(memory, **self._heads(mixed), **rest)
        state.advance(1, memory, (past,))
        return self.out_proj(self.norm(y, z).flatten(-2))

    def _project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
        """What goes into the convolution, the output's gate, and the state's gate and beta.

        Shapes: x ``(..., C)`` -> ``(..., channels)``, ``(..., H, D_v)``, and ``(..., H)`` twice.
        """
        shared = self.share * self.width_v
        parts = self.in_proj_qkvz(x).unflatten(-1, (self.groups, -1))
        q, k, v, z = parts.split([self.width_k, self.width_k, shared, shared], dim=-1)
        mixed = torch.cat([m.flatten(-2) for m in (q, k, v)], dim=-1)
        b, a = self.in_proj_ba(x).unflatten(-1, (self.groups, -1)).chunk(2, dim=-1)
        steps = nn.functional.softplus(a.flatten(-2).float() + self.dt_bias.float())
        gate = -torch.exp(self.A_log.float()) * steps
        z = z.reshape(*x.shape[:-1], self.heads, self.width_v)
        return mixed, z, {"gate": gate, "beta": torch.sigmoid(b.flatten(-2).float())}

    def _heads(self, mixed: torch.Tensor) -> dict[str, Any]:
        """Queries and keys of length 1, one for each value head, and values."""
        q, k, v = mixed.split(self.widths, dim=-1)
        q, k = (unit(m.unflatten(-1, (self.groups, -1))) for m in (q, k))
        q, k = (m.repeat_interleave(self.share, dim=-2) for m in (q, k))
        v = v.unflatten(-1, (self.heads, -1))
        return {"q": q * self.width_k**-0.5, "k": k, "v": v}
