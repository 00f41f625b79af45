"""What a function allocates, counted: bytes of every tensor PyTorch makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Allocations(TorchDispatchMode):
    """Bytes of every new tensor while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        # The interpreter hands tensors over by set_, which makes nothing.
        if isinstance(made, torch.Tensor) and not (func.is_view or func._schema.is_mutable):
            self.sizes.append(made.numel() * made.element_size())
        return made


def allocated(function: Callable[[], Any]) -> list[int]:
    """Bytes of each tensor that a call makes."""
    with Allocations() as seen:
        function()
    return seen.sizes


def assert_linear(bytes_at: Callable[[int], list[int]], length: int) -> list[int]:
    """Hold that what doubling T adds doubles with it: at T, 2 T and 4 T. Returns the last bytes."""
    once, twice, four_times = (bytes_at(times * length) for times in (1, 2, 4))
    assert sum(twice) > sum(once)
    assert sum(four_times) - sum(twice) == 2 * (sum(twice) - sum(once))
    return four_times
