"""What a call of attention asks for beside its tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import torch

from attend_kernels.common.attention import Window, reach
from attend_kernels.common.layout import Layout
from attend_kernels.common.packing import Packing


class Keywords(TypedDict, total=False):
    """Options of ``flash_attention``, which has their defaults and explains them."""

    causal: bool
    window: Window
    alibi: torch.Tensor | None
    sinks: torch.Tensor | None
    softcap: float | None
    scale: float | None
    deterministic: bool


class DenseKeywords(Keywords, total=False):
    """And those of a batch that is not packed."""

    layout: Layout


@dataclass(frozen=True)
class Options:
    """The options as the kernels take them; ``None`` is off."""

    scale: float
    softcap: float | None = None
    left: int | None = None  # how many keys before its own a query sees
    right: int | None = None  # and after it: 0 if causal
    deterministic: bool = True  # for the gradient alone

    @classmethod
    def of(
        cls,
        q: torch.Tensor,
        causal: bool,
        window: Window,
        softcap: float | None,
        scale: float | None,
        deterministic: bool,
    ) -> Options:
        """Turn what a caller gave into what the kernels take."""
        left, right = reach(causal, window)
        scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
        return cls(scale, softcap, left, right, deterministic)

    def flat(self) -> tuple[float, float | None, int | None, int | None, bool]:
        """In the order of the fields, as operators of PyTorch take them."""
        return self.scale, self.softcap, self.left, self.right, self.deterministic

    def arguments(self) -> tuple[int | None, int | None, float, float | None]:
        """In the kernels' order; no window is so wide that adding a position to it overflows."""
        left, right = (None if n is None else min(n, 2**30) for n in (self.left, self.right))
        return left, right, self.scale, self.softcap

    def mask(self, slopes: torch.Tensor | None, packing: Packing | None) -> str:
        """Which of ``tiles.MASKS`` it is."""
        if any(x is not None for x in (self.softcap, self.left, slopes, packing)):
            return "options"
        return "full" if self.right is None else "causal"
