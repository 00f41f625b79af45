"""Chapter 24: tensors that several exercises draw."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.torch_numbers import normal


def steps(rng: np.random.Generator, *shape: int) -> Tensor:
    """Step sizes from 0.05 to 2, two decimals."""
    return torch.from_numpy(rng.uniform(0.05, 2.0, shape).round(2)).float()


def rates(rng: np.random.Generator, channels: int, state: int) -> Tensor:
    """Negative rates of decay (E, N), two decimals."""
    return -torch.from_numpy(rng.uniform(0.1, 1.5, (channels, state)).round(2)).float()


def scanned(
    rng: np.random.Generator, batch: int, tokens: int, channels: int, state: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """x, Δ (both positive or any), a, b and c of one scan."""
    return (
        normal(rng, batch, tokens, channels),
        steps(rng, batch, tokens, channels),
        rates(rng, channels, state),
        normal(rng, batch, tokens, state),
        normal(rng, batch, tokens, state),
    )
