"""Whether two results of one function agree, up to the rounding that its formula has.

How far rounding may carry follows from the formula and the arguments: the unit of rounding times
the formula's condition (how far its result moves when each argument moves by a known relative
step), and times the square of the largest argument, which is how large a product can be that
cancels before the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from attend_grader.checks.calls import (
    cast,
    is_array,
    leaves,
    numbers,
    parts,
    reference_on,
    replaced,
)
from attend_grader.checks.compare import FLOAT32, FLOAT64, Tolerance, mismatches, told_apart
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call

ROUNDINGS = 64
"""Roundings that are allowed for, each as large as one of the arguments'."""

STEP = 2.0**-20
"""Relative step that measures the condition, in float64."""


class Alike:
    """Holds two results for the numbers of one call to each other.

    Args:
        reference: the right function (of a class: a bound method of an instance).
        call: the call, with plain float arrays.
        names: of the function's parameters.
        results: what its results are called.
        right: what it returns for the call; None where that is not known.
    """

    def __init__(
        self,
        reference: Callable[..., Any],
        call: Call,
        names: tuple[str, ...],
        results: tuple[str, ...] = (),
        right: Any = None,
    ) -> None:
        self.reference, self.call = reference, call
        self.names, self.results, self.right = names, results, right

    def difference(
        self, got: Any, want: Any, *, single: bool, strict: bool = False
    ) -> tuple[str, str, str] | None:
        """The largest difference: (place, number in ``got``, number in ``want``), or None.

        Args:
            got: what the function returned.
            want: what it returned for the same numbers in another guise.
            single: whether float32 took part.
            strict: allow for a few roundings of the result only, whatever the arguments are.
        """
        mine, other = parts(got), parts(want)
        if len(mine) != len(other):
            return "the number of results", str(len(mine)), str(len(other))
        for index, (a, b) in enumerate(zip(mine, other, strict=True)):
            x, y = numbers(a), numbers(b)
            name = self.name(index, len(other))
            if not {x.dtype.kind, y.dtype.kind} <= set("biufc"):
                return f"the type of {name}", type(a).__name__, type(b).__name__
            if "c" in (x.dtype.kind, y.dtype.kind) and x.dtype.kind != y.dtype.kind:
                return f"the type of {name}", str(x.dtype), str(y.dtype)
            if x.shape != y.shape:
                return f"the shape of {name}", str(x.shape), str(y.shape)
            bad = self._bad(x, y, index, FLOAT32 if single else FLOAT64, strict)
            if bad.any():
                wide = y.astype(np.result_type(y, float))
                with np.errstate(invalid="ignore"):
                    far = np.where(bad, np.nan_to_num(np.abs(x - wide), nan=np.inf), -1)
                where = np.unravel_index(int(np.argmax(far)), far.shape)
                place = f"{name}[{', '.join(map(str, where))}]" if x.ndim else name
                return (place, *told_apart(x[where], y[where]))
        return None

    def name(self, index: int, count: int) -> str:
        """What a message calls one of ``count`` results."""
        if self.results:
            return self.results[index]
        return "result" if count == 1 else f"result {index + 1}"

    def _bad(
        self, x: np.ndarray, y: np.ndarray, index: int, base: Tolerance, strict: bool
    ) -> np.ndarray:
        alike_nan = _nan(x) & _nan(y)
        x, y = np.where(alike_nan, 0, x), np.where(alike_nan, 0, y)
        bad = mismatches(x, y, base)
        if strict or not bad.any():
            return bad
        unit = 2.0**-24 if base is FLOAT32 else 2.0**-53
        allowed = ROUNDINGS * unit * self._size
        if mismatches(x, y, Tolerance("size", base.relative, base.reason, allowed)).any():
            if self._condition is None:
                return bad
            allowed += ROUNDINGS * unit * self._condition[min(index, len(self._condition) - 1)]
        return mismatches(x, y, Tolerance("condition", base.relative, base.reason, float(allowed)))

    @cached_property
    def _size(self) -> float:
        """The square of the largest argument that may be rounded, and 1 at least."""
        sizes = [1.0]
        for leaf in leaves(self.call, self.names):
            if leaf.kind != "floating":
                continue  # places, lengths and masks are exact
            values = np.abs(numbers(leaf.value).astype(float))
            sizes.append(float(values[np.isfinite(values)].max(initial=0.0)))
        return max(sizes) ** 2

    @cached_property
    def _condition(self) -> list[float] | None:
        """How far each result moves, for each unit of relative change in all arguments."""
        rng = np.random.default_rng(0)
        bench = reference_on(self.reference, self.call)
        floats = [leaf for leaf in leaves(self.call, self.names) if leaf.kind == "floating"]
        wide = all(numbers(leaf.value).dtype.itemsize == 8 for leaf in floats)
        step = STEP if wide else 2.0**-10
        changes = {}
        for leaf in floats:
            signs = rng.choice((-1.0, 1.0), numbers(leaf.value).shape)
            moved = cast(leaf.value, "float64") * (1 + step * _like(leaf.value, signs))
            dtype = str(leaf.value.dtype).removeprefix("torch.")
            changes[leaf.path] = cast(moved, dtype)
        after = bench(replaced(self.call, changes))
        before = bench(self.call) if self.right is None else Outcome(self.right)
        if before.error is not None or after.error is not None or not changes:
            return None
        sizes = []
        for a, b in zip(parts(before.value), parts(after.value), strict=True):
            one, two = (x.astype(np.result_type(x, float)) for x in (numbers(a), numbers(b)))
            with np.errstate(invalid="ignore"):
                moved = np.nan_to_num(np.abs(one - two), posinf=0.0)
            sizes.append(float(moved.max(initial=0.0)) / step)
        return sizes


def _nan(array: np.ndarray) -> np.ndarray:
    return np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)


def _like(value: Any, array: np.ndarray) -> Any:
    if isinstance(value, np.ndarray) or not is_array(value):
        return array
    import torch

    return torch.from_numpy(np.asarray(array))
