"""Random numbers for checks of torch exercises (imports torch: NumPy chapters must not use it)."""

from __future__ import annotations

import numpy as np
import torch


def normal(
    rng: np.random.Generator, *shape: int, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Standard normal numbers of two decimals, so that a card shows a case briefly."""
    return torch.from_numpy(np.asarray(rng.standard_normal(shape).round(2))).to(dtype)


def fresh_parameters(
    module: torch.nn.Module, rng: np.random.Generator, scale: float = 1.0
) -> dict[str, torch.Tensor]:
    """New values for everything floating in a module's state: normal numbers times ``scale``."""
    return {
        name: scale * normal(rng, *value.shape, dtype=value.dtype)
        if value.is_floating_point()
        else value.clone()
        for name, value in module.state_dict().items()
    }
