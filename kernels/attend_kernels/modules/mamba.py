"""The block of Mamba around the selective scan, without its norm and residual.

Equation, for the input x_t (Gu & Dao 2023, section 3.4 and figure 3)::

    u, z = W_in x          u = silu(conv(u))
    delta, B, C = W_x u    delta = W_dt delta
    y = scan(u, softplus(delta + bias), -exp(A_log), B, C, D) silu(z)          out = W_out y
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from attend_kernels.modules.parts import ShortConvolution, check_hidden
from attend_kernels.modules.states import RecurrentState
from attend_kernels.ops.selective_scan.api import selective_scan, selective_scan_step

STEP_SIZES = (1e-3, 1e-1)  # at the start, spread evenly in logs (Mamba, section 3.6)


def inverse_softplus_of_steps(count: int) -> torch.Tensor:
    """Draw the biases that softplus turns into first step sizes: ``(count,)``."""
    low, high = (math.log(size) for size in STEP_SIZES)
    steps = torch.exp(torch.empty(count).uniform_(low, high))
    return steps + torch.log(-torch.expm1(-steps))


class MambaBlock(nn.Module):
    """Mamba's mixer, with the weights' names of Hugging Face's ``MambaMixer``.

    Args:
        hidden_size: width C of the residual stream.
        state_size: states a channel.
        conv_kernel: taps of the convolution, 1 to 8.
        expand: the scan has so many times C channels.
        time_step_rank: rank of the step sizes' projection; None is C / 16, rounded up.
        use_bias: whether the projections in and out have biases.
        use_conv_bias: whether the convolution has one.
    """

    def __init__(
        self,
        hidden_size: int,
        state_size: int = 16,
        conv_kernel: int = 4,
        expand: int = 2,
        time_step_rank: int | None = None,
        use_bias: bool = False,
        use_conv_bias: bool = True,
    ) -> None:
        super().__init__()
        self.hidden_size, self.state_size = hidden_size, state_size
        inner = expand * hidden_size
        self.rank = time_step_rank or math.ceil(hidden_size / 16)
        self.in_proj = nn.Linear(hidden_size, 2 * inner, bias=use_bias)
        self.conv1d = ShortConvolution(inner, conv_kernel, use_conv_bias)
        self.x_proj = nn.Linear(inner, self.rank + 2 * state_size, bias=False)
        self.dt_proj = nn.Linear(self.rank, inner)
        rates = torch.arange(1.0, state_size + 1).expand(inner, -1)
        self.A_log = nn.Parameter(rates.log())
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, hidden_size, bias=use_bias)
        nn.init.uniform_(self.dt_proj.weight, -(self.rank**-0.5), self.rank**-0.5)
        with torch.no_grad():
            self.dt_proj.bias.copy_(inverse_softplus_of_steps(inner))

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
        u, z = self.in_proj(x).chunk(2, dim=-1)
        u, past = self.conv1d(u, before.conv[0])
        y, memory = selective_scan(
            u, **self._coefficients(u), z=z, initial_state=before.memory, output_state=True
        )
        if state is not None:
            state.advance(x.shape[1], memory, (past,))
        return self.out_proj(y)

    def step(self, x: torch.Tensor, state: RecurrentState) -> torch.Tensor:
        """Mix one token: ``forward`` of T = 1 without the axis.

        Shapes: x ``(B, C)`` -> ``(B, C)``.

        Raises:
            ShapeError: x has another shape.
        """
        check_hidden(self, x, self.hidden_size, "B")
        u, z = self.in_proj(x).chunk(2, dim=-1)
        u, past = self.conv1d.step(u, state.conv[0])
        memory = state.memory
        if memory is None:
            memory = u.new_zeros(*u.shape, self.state_size, dtype=torch.float32)
        y, memory = selective_scan_step(memory, u, **self._coefficients(u), z=z)
        state.advance(1, memory, (past,))
        return self.out_proj(y)

    def _coefficients(self, u: torch.Tensor) -> dict[str, Any]:
        sizes = [self.rank, self.state_size, self.state_size]
        low, b, c = self.x_proj(u).split(sizes, dim=-1)
        return {
            "delta": nn.functional.linear(low, self.dt_proj.weight),
            "A": -torch.exp(self.A_log.float()),
            "B": b,
            "C": c,
            "D": self.D.float(),
            "delta_bias": self.dt_proj.bias.float(),
        }
