"""Views that lose their strides on the way to a candidate: made where it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def view_of(
    function: Callable[..., Any],
    stored: torch.Tensor,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    *options: Any,
) -> Any:
    """Call ``function`` with a view of ``stored``."""
    return function(stored.as_strided(shape, strides, offset), *options)
