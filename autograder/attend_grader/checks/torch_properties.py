"""Parts that checks of torch exercises are made of (imports torch: NumPy chapters must not use it).

Inputs are float32 unless a check is about dtypes: it is what learners work with, and a
``torch.zeros(...)`` in the middle of a right answer costs nobody points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from attend_grader.checks.compare import Tolerance
from attend_grader.checks.instances import shared
from attend_grader.checks.probe import Call
from attend_grader.checks.properties import strided
from attend_grader.checks.properties import transposed as transposed_array
from attend_grader.checks.torch_numbers import fresh_parameters, normal

__all__ = ["GRADIENT", "VIEWS", "gapped", "module_call", "normal", "transposed"]

GRADIENT = Tolerance(
    "gradient in float32",
    5e-5,
    "a backward pass adds as many rounded terms as the forward one (which FLOAT32 allows 1e-5), "
    "through two or three products in a row",
    absolute=5e-6,
)


def module_call(
    reference: Callable[..., torch.nn.Module],
    rng: np.random.Generator,
    build: Call,
    *args: Any,
    scale: float = 1.0,
    **kwargs: Any,
) -> Call:
    """A call of an instance with fresh parameters: what an exercise's ``draws`` are made of."""
    return Call(args, kwargs, build, fresh_parameters(shared(reference, build).module, rng, scale))


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in reversed memory order: what a view like ``x.mT`` looks like inside."""
    return torch.from_numpy(transposed_array(tensor.numpy()))


def gapped(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with gaps between them: what a view like ``x[..., 1::2]`` looks like."""
    return torch.from_numpy(strided(tensor.numpy()))


VIEWS = {
    "arguments stored transposed (a view, as `x.mT` gives; `.view` fails on it)": transposed,
    "arguments stored with gaps (a view, as `x[..., 1::2]` gives)": gapped,
}
"""Memory layouts that are not contiguous, and how to tell them in a message."""
