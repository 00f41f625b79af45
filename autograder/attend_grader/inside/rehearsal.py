"""A call before the call: with the same arrays, which held other numbers then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attend_grader.inside import codec


def rehearse(target: Callable[..., Any], args: tuple, kwargs: dict, before: Any) -> None:
    """Call ``target`` with what its arrays held before; afterwards they hold their own numbers.

    What it returns is dropped: an answer that keeps something for these very arrays shows it in the
    next call.

    Args:
        target: what is called.
        args: of the call to come.
        kwargs: of the call to come.
        before: as ``(args, kwargs)``, with arrays of the same shapes and types.
    """
    pairs = list(zip(_arrays((args, kwargs)), _arrays(before), strict=True))
    own = [codec.copied(array) for array, _ in pairs]
    try:
        for array, other in pairs:
            _write(array, other)
        target(*args, **kwargs)
    finally:
        for (array, _), numbers in zip(pairs, own, strict=True):
            _write(array, numbers)


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray) or codec.plain_tensor(value):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _arrays(item)


def _write(array: Any, numbers: Any) -> None:
    if isinstance(array, np.ndarray):
        array[...] = numbers
    else:
        array.detach().copy_(numbers)
