"""How a candidate is called: one array in two places, again, or for the first of many values."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from attend_grader.inside import codec


def shared(args: tuple, positions: Collection[int], *, turned: bool = False) -> tuple:
    """The arguments with the first of those at ``positions`` in the place of them all.

    Or, ``turned``, with views of it whose last two axes are exchanged in the place of the others.
    """
    if not positions:
        return args
    first = args[min(positions)]
    other = first.swapaxes(-1, -2) if turned else first
    return tuple(
        arg if i not in positions else first if i == min(positions) else other
        for i, arg in enumerate(args)
    )


def thrice(target: Any, args: tuple, kwargs: dict, others: list[Any]) -> tuple[Any, Any, Any]:
    """Call with these arguments, with the same again, and with these arrays holding other numbers.

    What came of the first call is written over before the second. The results of the second and of
    the last, and that of the second as it is after a call with other arrays.
    """
    again, named = codec.copied(args), codec.copied(kwargs)
    for each in arrays(target(*args, **kwargs)):
        with contextlib.suppress(Exception):  # a view whose numbers share places, or read only
            _detached(each)[...] = 1
    middle = target(*again, **named)
    second = codec.copied(middle)
    apart, by_name = codec.copied(again), codec.copied(named)
    _fill((*apart, *by_name.values()), others)
    target(*apart, **by_name)
    after = codec.copied(middle)  # before its arguments change, whose view it may be
    target(*again, **named)
    _fill((*again, *named.values()), others)
    return second, codec.copied(target(*again, **named)), after


def _fill(arguments: tuple, others: list[Any]) -> None:
    for each, other in zip(arrays(arguments), others, strict=True):
        _detached(each)[...] = other


def passed_back(
    target: Any, args: tuple, kwargs: dict, places: list[tuple[int, int | str]]
) -> tuple[Any, Any]:
    """Call, then again with some of the results as arguments.

    What came of the second call, and what the first had returned as it is by then.

    Args:
        target: what is called.
        args: of the first call, and but for some of the second.
        kwargs: likewise.
        places: of several results which (0 where it has one), and the position of the argument
            that it becomes; a name for a keyword.
    """
    again, named = list(codec.copied(args)), codec.copied(kwargs)
    first = target(*args, **kwargs)
    for place, position in places:
        value = first[place] if isinstance(first, (tuple, list)) else first
        if isinstance(position, str):
            named[position] = value
        else:
            again[position] = value
    second = codec.copied(target(*again, **named))
    return second, codec.copied(first)


def after_change(
    targets: tuple[Any, Any], args: tuple, kwargs: dict, change: Callable[[], None]
) -> Any:
    """Call the first, make a change, and call the second with the very same arguments.

    Returns:
        what came of the second call.
    """
    targets[0](*args, **kwargs)
    change()
    return targets[1](*args, **kwargs)


def arrays(value: Any) -> list[Any]:
    """Arrays and tensors in a value, in order."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return [each for item in value for each in arrays(item)]
    return [value] if isinstance(value, np.ndarray) or hasattr(value, "numel") else []


def _detached(array: Any) -> Any:
    return array.detach() if hasattr(array, "detach") else array


def taken(value: Any, count: int | None) -> Any:
    """The first ``count`` values of a generator, which may have no end; None: the value itself.

    Raises:
        TypeError: it is no generator.
    """
    if count is None:
        return value
    if not isinstance(value, Iterator):
        raise TypeError(
            f"expected a generator (a function with `yield`), got {type(value).__name__}"
        )
    return list(itertools.islice(value, count))
