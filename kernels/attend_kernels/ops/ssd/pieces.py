"""Heads wider than the kernels' registers hold, as several heads that share B, C and step sizes.

The P rows of a state do not know of each other, so a head of P = 256 is two of 128.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attend_kernels.common import devices
from attend_kernels.common.tensors import filled

WIDEST = 128  # what one program takes


@dataclass(frozen=True)
class Pieces:
    """How heads P wide are cut into ``count`` heads ``width`` wide; the last is filled up."""

    P: int

    @property
    def count(self) -> int:
        """Pieces a head."""
        return -(-self.P // WIDEST)

    @property
    def width(self) -> int:
        """Width of a piece, a power of two."""
        return WIDEST if self.count > 1 else devices.padded(self.P)

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        """``(B, T, H, P)`` -> ``(B, T, H count, width)``."""
        x = filled(x, self.count * self.width)
        return x if self.count == 1 else x.unflatten(-1, (self.count, -1)).flatten(2, 3)

    def vectors(self, x: torch.Tensor) -> torch.Tensor:
        """``(..., H)`` -> ``(..., H count)``: pieces share what a head has one of."""
        return x if self.count == 1 else x.repeat_interleave(self.count, dim=-1)

    def state(self, h: torch.Tensor, states: int) -> torch.Tensor:
        """``(B, H, P, N)`` -> ``(B, H count, width, states)``, filled up."""
        h = filled(h, self.count * self.width, states)
        return h if self.count == 1 else h.unflatten(2, (self.count, -1)).flatten(1, 2)

    def join(
        self, y: torch.Tensor, h: torch.Tensor, states: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Undo ``rows`` and ``state``, N being ``states``."""
        if self.count > 1:
            y = y.unflatten(2, (-1, self.count)).flatten(3, 4)
            h = h.unflatten(1, (-1, self.count)).flatten(2, 3)
        return y[..., : self.P], h[:, :, : self.P, :states]
