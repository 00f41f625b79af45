"""Chapter 07: tensors that several exercises draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.exercise import Call
from attend_grader.checks.torch_numbers import normal
from attend_grader.checks.torch_properties import module_call

SCALE = 0.5
"""Of fresh parameters: with widths of 4 to 9 outputs stay near 1."""


def far(rng: np.random.Generator) -> Tensor:
    """Numbers near 1,024 whose mean and deviations float32 holds exactly: (2, 3, 8).

    They are quarters, and sums of eight of them need 15 bits of the 24. Their squares do not fit.
    """
    return torch.from_numpy(rng.integers(-8, 9, (2, 3, 8)) / 4 + 1024).float()


def scattered(rng: np.random.Generator, *shape: int) -> Tensor:
    """A random mask; every token may look at one at least, not always at itself."""
    allowed = rng.random(shape) < 0.5
    one = rng.integers(shape[-1], size=(*shape[:-1], 1))
    return torch.from_numpy(allowed | (np.arange(shape[-1]) == one))


def block_call(
    reference: Any,
    rng: np.random.Generator,
    build: tuple[Any, ...],
    *x: int,
    mask: tuple[int, ...] = (),
) -> Call:
    """A call of a block with fresh parameters on a text of shape ``x``, perhaps with a mask."""
    args = (normal(rng, *x), scattered(rng, *mask)) if mask else (normal(rng, *x),)
    return module_call(reference, rng, Call(build), *args, scale=SCALE)
