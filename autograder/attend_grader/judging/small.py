"""Draws cut to lengths of 1, where that leaves calls that a right answer takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from attend_grader.checks.calls import (
    leaves,
    numbers,
    parameters_of,
    parts,
    reference_on,
    replaced,
    usable,
)
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call
from attend_grader.checks.trials import form_of

SMALL = 8
"""Calls with a length of 1 that are tried, at most."""


def small_calls(drawn: Sequence[Call], exercise: Exercise) -> Iterator[tuple[Call, Outcome]]:
    """Of one draw of each form, every length cut to 1 in turn, in all arrays that have it.

    Each with what the reference does on it.
    """
    made, seen = 0, set()
    for call in drawn:
        form = form_of(call)
        if form in seen:
            continue
        seen.add(form)
        arrays = leaves(call, parameters_of(exercise.reference, call.method))
        lengths = dict.fromkeys(n for leaf in arrays for n in leaf.value.shape if n > 1)
        if not lengths:
            continue
        bench = reference_on(exercise.reference, call)
        whole = bench(call)
        fixed = {n for value in (call.parameters or {}).values() for n in value.shape}
        for length in lengths:
            if made == SMALL:
                return
            cut = replaced(call, {leaf.path: _cut(leaf.value, length) for leaf in arrays})
            if length not in fixed and _fits(whole, right := bench(cut), (length,)):
                made += 1
                yield cut, right
        if len(lengths) > 1 and call.build is None:
            first = {leaf.path: leaf.value[(slice(0, 1),) * leaf.value.ndim] for leaf in arrays}
            cut = replaced(call, first)
            if _fits(whole, right := bench(cut), tuple(lengths)):
                yield cut, right


def _cut(array: Any, length: int) -> Any:
    """Its first entry along each axis of this length."""
    return array[tuple(slice(0, 1) if n == length else slice(None) for n in array.shape)]


def _fits(before: Outcome, after: Outcome, lengths: Collection[int]) -> bool:
    """Whether the result shrinks as the arguments did: else they broadcast by chance."""
    if not usable(before) or not usable(after):
        return False
    shapes = [[numbers(part).shape for part in parts(each.value)] for each in (before, after)]
    return [tuple(1 if n in lengths else n for n in shape) for shape in shapes[0]] == shapes[1]
