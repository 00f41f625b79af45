"""How exact a result must be on calls of any size: as exact as the numbers that came in.

What an answer may be off by follows from the call: a small share of the largest right number, and
as far as the right answer itself moves where the arguments move by a few units in their last
place. An answer that is further off loses digits which the call has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from attend_grader.checks.behaviour import same_structure
from attend_grader.checks.calls import (
    Bench,
    leaves,
    numbers,
    parameters_of,
    parts,
    replaced,
    usable,
)
from attend_grader.checks.compare import FLOAT32, FLOAT64, told_apart
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call
from attend_grader.checks.sizes import Sized
from attend_grader.checks.subject import local

STEPS = 4
"""Units in the last place by which arguments are moved."""

MOVES = 6
"""How often they are moved."""

ROUNDINGS = 64
"""How many such moves an answer may be off by."""

STYLES = 100
"""How many times the differences between right answers of several styles."""

TINY = {8: 1e-290, 4: 1e-36}
"""Numbers below these are 0 to some right answers, by the bytes of a number."""


VANISHED = 1e-6
"""A result so much smaller than usual, of arguments that are not, is left by terms that cancel."""


class Exact:
    """What is right on one call, and how far from it an answer may be.

    Args:
        reference: the answer.
        others: right answers in other styles.
        sized: the call.
        bench: the answer, built as the call says.
    """

    def __init__(
        self,
        reference: Callable[..., Any],
        others: Sequence[Callable[..., Any]],
        sized: Sized,
        bench: Bench,
    ) -> None:
        self.bench, self.others = bench, others
        self.call, self.base = sized.call, sized.base
        self.names = parameters_of(reference, self.call.method)
        self.right = bench(self.call)

    @property
    def usable(self) -> bool:
        """Whether the answer itself takes the call, and gives finite numbers."""
        return usable(self.right)

    @property
    def settled(self) -> bool:
        """Whether right answers in all styles give what the answer gives, as far as it matters."""
        want = [numbers(part) for part in parts(self.right.value)]
        return all(np.isfinite(far) for far in self._allowed(want))

    def same(self, outcome: Outcome) -> bool:
        """Whether a candidate came to what is right, as exactly as this call allows."""
        if outcome.error is not None or not same_structure(outcome.value, self.right.value):
            return False
        return self.difference(outcome.value) is None

    def difference(self, got: Any) -> tuple[int, tuple[int, ...], str, str] | None:
        """Which result is off, where, what came and what is right; None where none is."""
        want = [numbers(part) for part in parts(self.right.value)]
        mine = [numbers(part) for part in parts(got)]
        off = [self._off(a, b, self._near(b)) for a, b in zip(mine, want, strict=True)]
        if not any(bad.any() for bad in off):
            return None
        allowed = self._allowed(want)
        for index, (a, b) in enumerate(zip(mine, want, strict=True)):
            bad = self._off(a, b, allowed[index])
            if bad.any() and a.shape != b.shape:
                return index, (), f"an array of shape {a.shape}", f"the shape {b.shape}"
            if bad.any():
                far = np.where(bad, np.nan_to_num(_apart(a, b), nan=np.inf), -1.0)
                place = np.unravel_index(int(np.argmax(far)), far.shape)
                mine, right = a[place], b[place]
                told = (str(bool(mine)), str(right)) if b.dtype == bool else told_apart(mine, right)
                return index, tuple(map(int, place)), *told
        return None

    @staticmethod
    def _off(got: np.ndarray, want: np.ndarray, allowed: float) -> np.ndarray:
        if got.shape != want.shape or got.dtype.kind not in "biufc":
            return np.ones(want.shape, bool)
        return ~((_apart(got, want) <= allowed) | (got == want))

    def _near(self, want: np.ndarray) -> float:
        """A small share of the largest number."""
        if want.dtype.kind not in "fc":
            return 0.0
        base = FLOAT64 if self._width(want) == 8 else FLOAT32
        return base.relative * float(np.abs(want).max(initial=0.0))

    def _width(self, want: np.ndarray) -> int:
        return min(self._narrowest, want.dtype.itemsize if want.dtype.kind == "f" else 8)

    @cached_property
    def _narrowest(self) -> int:
        """Bytes of a number, of the arguments' floats."""
        return min((numbers(leaf.value).dtype.itemsize for leaf in self._floats()), default=8)

    def _floats(self) -> list:
        return [leaf for leaf in leaves(self.call, self.names) if leaf.kind == "floating"]

    def _allowed(self, want: Sequence[np.ndarray]) -> list[float]:
        """How far each result may be off; without limit where styles differ by much."""
        far = [self._near(each) + TINY[self._width(each)] for each in want]
        rng = np.random.default_rng(0)
        for _ in range(MOVES):
            moved = replaced(
                self.call, {leaf.path: _moved(leaf.value, rng) for leaf in self._floats()}
            )
            self._widen(far, want, self.bench(moved), ROUNDINGS)
        for other in self.others:
            self._widen(far, want, self.call.on(local(other)), STYLES)
        before = self.bench(self.base)
        for index, each in enumerate(want):
            usual = numbers(parts(before.value)[index]) if usable(before) else each
            if each.dtype.kind in "fc":  # terms of usual size may cancel on the way
                size = float(np.abs(usual).max(initial=0.0))
                far[index] += ROUNDINGS * self._unit(each) * size
            least = VANISHED * self._shrunk() * np.abs(usual).max(initial=0.0)
            if np.abs(each).max(initial=0.0) <= least:
                far[index] += ROUNDINGS * self._unit(each) * _largest(self.call, self.names) ** 3
        return far

    def _shrunk(self) -> float:
        """By how much the arguments together are smaller than those of the draw, at most 1."""
        product = 1.0
        for before, after in zip(
            *(leaves(c, self.names) for c in (self.base, self.call)), strict=True
        ):
            one, two = (_top(leaf.value) for leaf in (before, after))
            product *= min(1.0, two / one) if one and two and before.kind == "floating" else 1.0
        return product

    def _unit(self, want: np.ndarray) -> float:
        return 2.0**-53 if self._width(want) == 8 else 2.0**-24

    def _widen(self, far: list[float], want: Sequence[np.ndarray], came: Any, times: int) -> None:
        """Allow for so many times the distance of another right result."""
        fits = usable(came) and same_structure(came.value, self.right.value)
        for index, each in enumerate(want):
            part = numbers(parts(came.value)[index]) if fits else None
            if part is None or part.shape != each.shape or each.dtype.kind not in "biufc":
                far[index] = np.inf
                continue
            apart = float(_apart(part, each).max(initial=0.0))
            far[index] = max(far[index], self._near(each) + times * apart)


def _apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far numbers or truth values are from each other."""
    with np.errstate(all="ignore"):
        return np.abs(one.astype(np.result_type(one, float)) - other)


def _top(value: Any) -> float:
    """The largest finite number, without its sign."""
    array = np.abs(numbers(value))
    return float(array[np.isfinite(array)].max(initial=0.0)) if array.dtype.kind != "b" else 1.0


def _largest(call: Call, names: tuple[str, ...]) -> float:
    return max(
        [1.0, *(_top(leaf.value) for leaf in leaves(call, names) if leaf.kind == "floating")]
    )


def _moved(value: Any, rng: np.random.Generator) -> Any:
    """An array moved by a few units in the last place, each number its own way."""
    array = numbers(value)
    signs = rng.choice((-1.0, 1.0), array.shape)
    unit = 2.0 ** -(53 if array.dtype.itemsize == 8 else 24)
    moved = np.asarray(array * (1.0 + STEPS * unit * signs), array.dtype)
    if isinstance(value, np.ndarray):
        return moved
    import torch

    return torch.from_numpy(moved).to(value.dtype)
