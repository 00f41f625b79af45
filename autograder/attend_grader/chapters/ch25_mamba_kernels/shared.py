"""Chapter 25: tensors that several exercises draw."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.torch_numbers import normal


def logs(rng: np.random.Generator, *shape: int) -> Tensor:
    """Logarithms of decays from −2 to −0.05, two decimals."""
    return -torch.from_numpy(rng.uniform(0.05, 2.0, shape).round(2)).float()


def sequence(
    rng: np.random.Generator, batch: int, tokens: int, heads: int, width: int, state: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, log_decay, b and c of one sequence."""
    return (
        normal(rng, batch, tokens, heads, width),
        logs(rng, batch, tokens, heads),
        normal(rng, batch, tokens, state),
        normal(rng, batch, tokens, state),
    )
