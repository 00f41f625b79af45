"""Counting the multiplications of a torch function while it runs (imports torch).

Seconds differ from machine to machine. Multiplications do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
ELEMENTWISE = ("mul", "mul_", "div", "div_", "addcmul")


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else all of torch's compiler is imported

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in PRODUCTS:
            left = args[-2]  # the first matrix, behind what is added
            self.count += result.numel() * left.shape[-1]
        elif name in ELEMENTWISE:
            self.count += result.numel()
        return result


def multiplications(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Multiplications and divisions of numbers in ``function(*args)``: matrix products and others.

    Exponentials, sums and what a fused operator does inside count as none.
    """
    with _Counter() as counter, torch.no_grad():
        function(*args, **kwargs)
    return counter.count
