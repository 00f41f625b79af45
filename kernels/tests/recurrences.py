"""What the tests of the scan and of SSD share: a call with all its gradients, in any precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensors = dict[str, Any]  # Any, for they are passed on as keyword arguments


def run(function: Callable[..., Any], inputs: Tensors, seed: int = 9, **options: Any) -> Tensors:
    """Outputs and all gradients, through y and the last state alike."""
    leaves = {name: x.detach().clone().requires_grad_() for name, x in inputs.items()}
    y, state = function(**leaves, **options)
    generator = torch.Generator().manual_seed(seed)
    grads = [torch.randn(x.shape, generator=generator).to(x.device, x.dtype) for x in (y, state)]
    found = torch.autograd.grad([y, state], list(leaves.values()), grads)
    results = {"y": y.detach(), "state": state.detach()}
    return results | {f"d{name}": g for name, g in zip(leaves, found, strict=True)}


def wide(inputs: Tensors) -> Tensors:
    """The same numbers in float64."""
    return {name: x.double() for name, x in inputs.items()}
