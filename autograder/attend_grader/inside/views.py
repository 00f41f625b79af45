"""Views that would lose their strides on the way to a candidate: made where it runs.

A launcher stands here or in ``attend.data``: a jail holds no chapter of checks.
"""

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


def rows_apart(
    function: Callable[..., Any], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any
) -> Any:
    """Call with views of matrices twice as wide; so is the gradient that comes in."""
    views = (torch.cat([x, x], -1)[..., : x.shape[-1]] for x in (q, k, v))
    out = function(*views, *options)
    return torch.cat([out, torch.zeros_like(out)], -1)[..., : out.shape[-1]]


def thrice(function: Callable[..., Any], x: torch.Tensor, *options: Any) -> Any:
    """Call ``function`` with one and the same tensor for queries, keys and values."""
    return function(x, x, x, *options)


def memory_of(function: Callable[..., Any], stored: torch.Tensor, *options: Any) -> Any:
    """Call ``function`` with the transpose of ``stored``; its result's numbers as they lie."""
    result = function(stored.T, *options)
    return _as_it_lies(result)


def memories_of(function: Callable[..., Any], *args: Any) -> Any:
    """Call ``function``; the numbers of each of its results as they lie."""
    results = function(*args)
    return tuple(map(_as_it_lies, results)) if isinstance(results, tuple) else _as_it_lies(results)


def _as_it_lies(result: Any) -> Any:
    return result.as_strided((result.numel(),), (1,)) if torch.is_tensor(result) else result
