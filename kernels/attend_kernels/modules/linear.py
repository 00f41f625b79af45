"""What layers of linear attention share: projections, short convolutions, and the walk itself."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import nn

from attend_kernels.modules.parts import RMSNorm, ShortConvolution, check_hidden, divided
from attend_kernels.modules.states import RecurrentState
from attend_kernels.ops.linear_attention.api import linear_attention, linear_attention_step


class LinearLayer(nn.Module):
    """A layer of linear attention; a family adds its gates and how it closes.

    Args:
        hidden_size: width C of the residual stream.
        num_heads: heads H.
        num_kv_heads: key/value heads G, a divisor of H.
        key_width: width of all the query heads together.
        value_width: and of the values, as wide as H heads make them.
        conv_size: taps of the convolutions of q, k and v; 0 for none.
        conv_bias: whether those have biases.
        gated: whether each head's normed output is multiplied by silu(W_g x).
        norm: what the norm of the output is called, in the weights' names.
        norm_eps: what it adds to the mean of squares.

    Raises:
        ValueError: the sizes do not belong together.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int,
        *,
        key_width: int,
        value_width: int,
        conv_size: int,
        conv_bias: bool,
        gated: bool,
        norm: str,
        norm_eps: float,
    ) -> None:
        super().__init__()
        self.hidden_size, self.heads, self.groups = hidden_size, num_heads, num_kv_heads
        share = divided(self, "num_heads", num_heads, num_kv_heads, "num_kv_heads")
        self.width_k = divided(self, "the keys' width", key_width, num_heads, "num_heads")
        self.width_v = divided(self, "the values' width", value_width, num_heads, "num_heads")
        widths = (key_width, key_width // share, value_width // share)
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(hidden_size, width, bias=False) for width in widths
        )
        self.o_proj = nn.Linear(value_width, hidden_size, bias=False)
        self.g_proj = nn.Linear(hidden_size, value_width, bias=False) if gated else None
        self.norm_name = norm
        self.add_module(norm, RMSNorm(self.width_v, norm_eps))
        self.has_convolutions = conv_size > 0
        if self.has_convolutions:
            self.q_conv1d, self.k_conv1d, self.v_conv1d = (
                ShortConvolution(width, conv_size, conv_bias) for width in widths
            )

    @abstractmethod
    def arguments(
        self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int
    ) -> dict[str, Any]:
        """Arguments of ``linear_attention``, from projections of T tokens after ``first`` others.

        Shapes: x ``(B, T, C)``, q ``(B, T, H, D)``, k ``(B, T, G, D)``, v ``(B, T, G, D_v)`` ->
        tensors in the layout "bthd".
        """

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
        arguments, conv = self._inputs(x, before, False)
        y, memory = linear_attention(
            **arguments, initial_state=before.memory, output_state=True, layout="bthd"
        )
        if state is not None:
            state.advance(x.shape[1], memory, conv)
        return self._close(x, y)

    def step(self, x: torch.Tensor, state: RecurrentState) -> torch.Tensor:
        """Mix one token: ``forward`` of T = 1 without the axis.

        Shapes: x ``(B, C)`` -> ``(B, C)``.

        Raises:
            ShapeError: x has another shape.
        """
        check_hidden(self, x, self.hidden_size, "B")
        arguments, conv = self._inputs(x[:, None], state, True)
        one = {name: m if name == "decay" else m[:, 0] for name, m in arguments.items()}
        memory = state.memory
        if memory is None:
            shape = (len(x), self.heads, self.width_k, self.width_v)
            memory = x.new_zeros(shape, dtype=torch.float32)
        y, memory = linear_attention_step(memory, **one)
        state.advance(1, memory, conv)
        return self._close(x, y)

    def _inputs(
        self, x: torch.Tensor, state: RecurrentState, single: bool
    ) -> tuple[dict[str, Any], tuple[torch.Tensor | None, ...]]:
        rows = [proj(x) for proj in (self.q_proj, self.k_proj, self.v_proj)]
        after: list[torch.Tensor | None] = [None] * 3
        if self.has_convolutions:
            for at, conv in enumerate((self.q_conv1d, self.k_conv1d, self.v_conv1d)):
                if single:
                    row, after[at] = conv.step(rows[at][:, 0], state.conv[at])
                    rows[at] = row[:, None]
                else:
                    rows[at], after[at] = conv(rows[at], state.conv[at])
        widths = (self.width_k, self.width_k, self.width_v)
        q, k, v = (m.unflatten(-1, (-1, w)) for m, w in zip(rows, widths, strict=True))
        return self.arguments(x, q, k, v, state.length), tuple(after)

    def _close(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        norm = self.get_submodule(self.norm_name)
        gate = None if self.g_proj is None else self.g_proj(x).unflatten(-1, (self.heads, -1))
        return self.o_proj(norm(y, gate).flatten(-2))

    def spread(self, x: torch.Tensor) -> torch.Tensor:
        """Repeat the heads of keys, values or gates for the query heads that share them.

        Shapes: ``(B, T, G, D)`` -> ``(B, T, H, D)``.
        """
        share = self.heads // self.groups
        return x if share == 1 else x.repeat_interleave(share, dim=2)
