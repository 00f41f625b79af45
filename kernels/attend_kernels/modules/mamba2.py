"""The block of Mamba-2 around its scan, without its norm and residual.

Equation, for the input x_t (Dao & Gu 2024, section 7.1)::

    z, u, B, C, dt = W_in x          u, B, C = silu(conv(u, B, C))
    y = ssd(u, softplus(dt + bias), -exp(A_log), B, C, D)          out = W_out norm(y silu(z))

where the norm is over each group's channels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from attend_kernels.modules.mamba import inverse_softplus_of_steps
from attend_kernels.modules.parts import ShortConvolution, check_hidden, divided
from attend_kernels.modules.states import RecurrentState
from attend_kernels.ops.norm.api import rms_norm
from attend_kernels.ops.ssd.api import ssd, ssd_step


class GatedGroupNorm(nn.Module):
    """RMSNorm of x silu(z), over each of some groups of channels, in fp32."""

    def __init__(self, width: int, groups: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.groups, self.eps = groups, eps

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Shapes: x and z ``(..., C)`` -> ``(..., C)`` in x's dtype."""
        gated = x.float() * nn.functional.silu(z.float())
        normed = rms_norm(gated.unflatten(-1, (self.groups, -1)), eps=self.eps)
        return self.weight * normed.flatten(-2).to(x.dtype)


class Mamba2Block(nn.Module):
    """Mamba-2's mixer, with the weights' names of Hugging Face's ``Mamba2Mixer``.

    Args:
        hidden_size: width C of the residual stream.
        num_heads: heads H of the scan; H · head_dim is ``expand`` · C.
        head_dim: width of a head, up to 128.
        state_size: states of a head's channel.
        n_groups: heads that share B and C form a group; H is a multiple.
        conv_kernel: taps of the convolution, 1 to 8.
        expand: the scan has so many times C channels.
        use_bias: whether the projections in and out have biases.
        use_conv_bias: whether the convolution has one.
        layer_norm_epsilon: added to the mean of squares.
        chunk: steps the scan handles at once; the answer does not depend on it.

    Raises:
        ValueError: the sizes do not belong together.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        head_dim: int = 64,
        state_size: int = 128,
        n_groups: int = 1,
        conv_kernel: int = 4,
        expand: int = 2,
        use_bias: bool = False,
        use_conv_bias: bool = True,
        layer_norm_epsilon: float = 1e-5,
        chunk: int = 64,
    ) -> None:
        super().__init__()
        inner = expand * hidden_size
        if inner != num_heads * head_dim:
            raise ValueError(
                f"Mamba2Block: num_heads · head_dim is {num_heads * head_dim}; expected expand · "
                f"hidden_size = {inner}. Next: num_heads={max(1, inner // head_dim)}."
            )
        divided(self, "num_heads", num_heads, n_groups, "n_groups")
        self.hidden_size, self.state_size, self.chunk = hidden_size, state_size, chunk
        self.heads, self.width, self.groups = num_heads, head_dim, n_groups
        mixed = inner + 2 * n_groups * state_size
        self.sizes = [inner, mixed, num_heads]
        self.in_proj = nn.Linear(hidden_size, sum(self.sizes), bias=use_bias)
        self.conv1d = ShortConvolution(mixed, conv_kernel, use_conv_bias)
        self.dt_bias = nn.Parameter(inverse_softplus_of_steps(num_heads))
        self.A_log = nn.Parameter(torch.arange(1.0, num_heads + 1).log())
        self.D = nn.Parameter(torch.ones(num_heads))
        self.norm = GatedGroupNorm(inner, n_groups, layer_norm_epsilon)
        self.out_proj = nn.Linear(inner, hidden_size, bias=use_bias)

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
        z, mixed, dt = self.in_proj(x).split(self.sizes, dim=-1)
        mixed, past = self.conv1d(mixed, before.conv[0])
        y, memory = ssd(
            **self._arguments(mixed, dt), chunk=self.chunk,
            initial_state=before.memory, output_state=True,
        )  # fmt: skip
        if state is not None:
            state.advance(x.shape[1], memory, (past,))
        return self.out_proj(self.norm(y.flatten(-2), z))

    def step(self, x: torch.Tensor, state: RecurrentState) -> torch.Tensor:
        """Mix one token: ``forward`` of T = 1 without the axis.

        Shapes: x ``(B, C)`` -> ``(B, C)``.

        Raises:
            ShapeError: x has another shape.
        """
        check_hidden(self, x, self.hidden_size, "B")
        z, mixed, dt = self.in_proj(x).split(self.sizes, dim=-1)
        mixed, past = self.conv1d.step(mixed, state.conv[0])
        memory = state.memory
        if memory is None:
            shape = (len(x), self.heads, self.width, self.state_size)
            memory = x.new_zeros(shape, dtype=torch.float32)
        y, memory = ssd_step(memory, **self._arguments(mixed, dt))
        state.advance(1, memory, (past,))
        return self.out_proj(self.norm(y.flatten(-2), z))

    def _arguments(self, mixed: torch.Tensor, dt: torch.Tensor) -> dict[str, Any]:
        shared = self.groups * self.state_size
        u, b, c = mixed.split([self.sizes[0], shared, shared], dim=-1)
        return {
            "x": u.unflatten(-1, (self.heads, self.width)),
            "dt": dt,
            "A": -torch.exp(self.A_log.float()),
            "B": b.unflatten(-1, (self.groups, self.state_size)),
            "C": c.unflatten(-1, (self.groups, self.state_size)),
            "D": self.D,
            "dt_bias": self.dt_bias,
            "softplus": True,
        }
