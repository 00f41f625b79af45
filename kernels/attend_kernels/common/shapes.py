"""Shapes as documentation that runs.

``assert_shape(q, "B H T D")`` says what ``q`` is and asserts it. Letters are axes, the same
everywhere: ``B`` batch, ``H`` heads, ``G`` key/value heads, ``T`` query length, ``S`` key length,
``D`` head dim, ``C`` model width, ``N`` state size, ``L`` layers, ``V`` vocabulary. A number is an
axis of just that size; ``...`` at the start stands for any number of leading axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class HasShape(Protocol):
    """Anything with a ``.shape``: a NumPy array, a torch tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Axis lengths, outermost first."""
        ...


class ShapeError(ValueError):
    """An array has not the shape its place in the mathematics asks for."""


def assert_shape(
    x: HasShape, pattern: str, sizes: Mapping[str, int] | None = None, name: str = "the array"
) -> dict[str, int]:
    """Hold ``x`` to a pattern of axes and return the size of each letter.

    Args:
        x: the array or tensor.
        pattern: axes separated by spaces: ``"B H T D"``, ``"... S"``, ``"T 1"``.
        sizes: letters already known, from an earlier call; they must agree.
        name: what the error message calls ``x``.

    Returns:
        ``sizes`` with the letters of this pattern added.

    Raises:
        ShapeError: the number of axes, a fixed number or a letter's size disagrees.

    >>> import numpy as np
    >>> sizes = assert_shape(np.zeros((2, 5, 4)), "... T D")
    >>> assert_shape(np.zeros((2, 7, 4)), "... S D", sizes, name="k")
    {'T': 5, 'D': 4, 'S': 7}
    """
    known = dict(sizes or {})
    shape = tuple(int(length) for length in x.shape)
    axes = pattern.split()
    leading = axes[:1] == ["..."]
    axes = axes[1:] if leading else axes
    if len(shape) < len(axes) or (len(shape) > len(axes) and not leading):
        raise ShapeError(_wrong_axis_count(name, shape, pattern, len(axes), leading))
    first = len(shape) - len(axes)
    bound = dict(known)
    for position, axis in enumerate(axes, start=first):
        want = int(axis) if axis.isdigit() else bound.setdefault(axis, shape[position])
        if shape[position] != want:
            raise ShapeError(
                _wrong_length(name, shape, pattern, axes, bound, known, (position, axis, want))
            )
    return bound


def _wrong_axis_count(
    name: str, shape: tuple[int, ...], pattern: str, count: int, leading: bool
) -> str:
    least = "at least " if leading else ""
    head = (
        f"{name} has {len(shape)} {_axes(len(shape))}; expected {least}{count} ({pattern}), "
        f"got shape {shape}."
    )
    if len(shape) < count:
        missing = count - len(shape)
        return (
            f"{head} Likely cause: {missing} leading {_axes(missing)} (batch or heads) left out. "
            f"Next: add them with x[None]."
        )
    spare = len(shape) - count
    ones = [i for i, length in enumerate(shape) if length == 1]
    if len(ones) >= spare:
        return (
            f"{head} Likely cause: an axis of length 1 kept. Next: drop axis {ones[0]} with "
            f"x.squeeze({ones[0]}), or sum without keepdims."
        )
    return (
        f"{head} Likely cause: {spare} leading {_axes(spare)} (batch or heads) too many. "
        f"Next: index or reshape them away before the call."
    )


def _wrong_length(
    name: str,
    shape: tuple[int, ...],
    pattern: str,
    axes: list[str],
    bound: Mapping[str, int],
    known: Mapping[str, int],
    miss: tuple[int, str, int],
) -> str:
    position, axis, want = miss
    first = len(shape) - len(axes)
    expected = [int(a) if a.isdigit() else bound.get(a) for a in axes]
    meant = ", ".join(f"{a}={bound[a]}" for a in axes if a in bound)
    what = f"axis {position} ({axis})" if not axis.isdigit() else f"axis {position}"
    head = (
        f"{name} has the wrong shape: expected {pattern}"
        + (f" with {meant}" if meant else "")
        + f", got {shape}: {what} is {shape[position]}, not {want}."
    )
    tail = list(shape[first:])
    for i in range(len(tail)):
        for j in range(i + 1, len(tail)):
            swapped = tail.copy()
            swapped[i], swapped[j] = swapped[j], swapped[i]
            if all(e is None or e == got for e, got in zip(expected, swapped, strict=True)):
                a, b = first + i, first + j
                return (
                    f"{head} Likely cause: axes {a} and {b} are swapped. "
                    f"Next: swap them before the call (swapaxes({a}, {b}))."
                )
    if axis in known:
        return (
            f"{head} Likely cause: it does not belong to the arrays given before it, which have "
            f"{axis}={want}. Next: print the shapes of all the arguments."
        )
    return (
        f"{head} Likely cause: an axis summed or sliced too early. "
        f"Next: print the shape where {name} is made."
    )


def _axes(count: int) -> str:
    return "axis" if count == 1 else "axes"
