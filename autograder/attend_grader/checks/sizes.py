"""Calls whose numbers and lengths are unlike those of an exercise's draws.

Draws are small on purpose: a card shows them. What goes wrong only for large or tiny numbers, for
numbers far from 0, for rows far from each other, for an argument of zeros or for long axes is
looked for here, in calls that are made of the draws. What an argument may hold limits them
(:class:`.contract.Contract`, ``ranges``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attend_grader.checks.calls import (
    Leaf,
    cast,
    is_tensor,
    leaves,
    numbers,
    parameters_of,
    replaced,
)
from attend_grader.checks.leading import root
from attend_grader.checks.probe import Call
from attend_grader.checks.trials import form_of

Range = tuple[float, float] | None
"""From and to which numbers an argument may hold any; None: only such as the draws give."""

AS_DRAWN: Range = None
ANY: Range = (-np.inf, np.inf)
POSITIVE: Range = (5e-324, np.inf)

FACTORS = (12345.678, 1.2345678e-3)
"""Arguments are scaled by these: squares and products of a few still fit into a float. By the
second only where there are few digits: others are scaled by more extreme numbers."""

EXTREMES = {8: (1e12, 1e-12, 1e-24), 4: (1e6, 1e-6)}
"""Whole arrays are scaled by these too, by the bytes of a number: past what an answer may take
for as good as infinite, or as good as 0."""

COINCIDENT = {False: 12, True: 4}
"""Pairs of lengths that are made one; fewer where a module is called, which takes longer."""

OFFSETS = {8: 123456.789, 4: 1234.5678}
"""What is added, by the bytes of a number: some ten digits are left, or four. No float holds it as
it is written, so that whole numbers get all the digits that a float has."""

FORMS = 1
"""Each change is tried on so many forms of a call (with and without a mask, say)."""

LONG = 300
"""Axes are made so long: 256 places and more need more than 8 bits, and more than one tile."""

LARGEST = 2**15
"""Numbers that an array may have once it is long: two long axes, but not three."""

COUNTS = (0, 1, LONG, 10**6 + 1, 2**24 + 3)
"""Whole numbers that an argument which is one takes; the last has more digits than float32."""

AMOUNTS = (0.0, 1e4, 1e-4)
"""What a number that is no array is multiplied by."""


@dataclass(frozen=True)
class Sized:
    """A call of unusual size.

    Attributes:
        what: what is special about it, in words.
        call: the call.
        base: the draw that it was made of.
        arrays: arguments whose numbers are others.
    """

    what: str
    call: Call
    base: Call
    arrays: tuple[str, ...] = ()


def sized(
    draws: Sequence[Call],
    reference: Any,
    ranges: Mapping[str, Range],
    usual: Range,
    *,
    double: bool,
    rng: np.random.Generator,
) -> Iterator[Sized]:
    """Calls made of ``draws``, of each form of which one is used.

    Args:
        draws: calls of usual size.
        reference: whose parameters they are.
        ranges: of arguments, by name.
        usual: of other arrays of floats.
        double: whether arrays of torch are made float64.
        rng: picks rows, and numbers for long axes.
    """
    made = of_each_form(draws, reference, double=double)
    found: dict[str, list[Sized]] = {}
    for call in made:
        names = parameters_of(reference, call.method)
        free = free_arrays(call, names, ranges, usual)
        for each in (*_numbers(call, free, rng), *_plain(call, names, ranges)):
            found.setdefault(each.what, []).append(each)
    for same in found.values():
        few = rng.choice(len(same), min(FORMS, len(same)), replace=False)
        yield from (same[place] for place in sorted(few))
    yield from longer(made, reference, ranges, usual, rng)
    yield from coincident(made, reference, ranges, usual, rng)


def of_each_form(draws: Sequence[Call], reference: Any, *, double: bool) -> list[Call]:
    """The first draw of each form, the last form first; in float64 where that may be."""
    firsts = {form_of(call): call for call in reversed(list(draws))}
    return in_float64(list(reversed(firsts.values())), reference, double=double)


def in_float64(calls: Sequence[Call], reference: Any, *, double: bool) -> list[Call]:
    """Calls of functions in float64 where that may be, and those of modules as they are."""
    return [
        _wide(call, parameters_of(reference, call.method))
        if double and call.build is None
        else call
        for call in calls
    ]


def free_arrays(
    call: Call, names: Sequence[str], ranges: Mapping[str, Range], usual: Range
) -> list[tuple[Leaf, tuple[float, float]]]:
    """Arrays of floats that may hold other numbers than drawn, and from where to where."""
    arrays = [
        (leaf, ranges.get(root(leaf), usual))
        for leaf in leaves(call, names)
        if leaf.kind == "floating" and leaf.value.ndim + np.size(numbers(leaf.value)) > 0
    ]
    return [(leaf, span) for leaf, span in arrays if span is not None]


def _wide(call: Call, names: Sequence[str]) -> Call:
    floats = [leaf for leaf in leaves(call, names) if leaf.kind == "floating"]
    tensors = [leaf for leaf in floats if is_tensor(leaf.value)]
    return replaced(call, {leaf.path: cast(leaf.value, "float64") for leaf in tensors})


# Numbers


def _numbers(
    call: Call, free: Sequence[tuple[Leaf, tuple[float, float]]], rng: np.random.Generator
) -> Iterator[Sized]:
    """Each array larger, smaller, far from 0, all zeros; a row of it far from the others."""
    together: dict[str, dict] = {}
    for leaf, (low, high) in free:
        values = numbers(leaf.value).astype(float)
        top = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        if not top and not values.size:
            continue
        offset = OFFSETS.get(numbers(leaf.value).dtype.itemsize, 0.0)
        room = min(-low, high) if low < 0 else high
        tries: list[tuple[str, np.ndarray]] = []
        for factor in FACTORS[: 1 if leaf.value.dtype.itemsize == 8 else 2]:
            by = min(factor, room / top) if top else factor
            tries.append((f"times {by:,.8g}", values * by))
            for axis, word in _axes(values) if factor > 1 else ():
                picked = _picked(values, axis, rng)
                tries.append((f"times {by:,.8g} in {word}", np.where(picked, values * by, values)))
        for sign, word in ((1.0, "larger"), (-1.0, "smaller")):
            by = min(offset, high - top if sign > 0 else -low - top)
            if by <= 0:
                continue
            tries.append((f"{word} by {by:,.9g}", values + sign * by))
            for axis, where in _axes(values) if sign < 0 else ():
                picked = _picked(values, axis, rng)
                moved = np.where(picked, values + sign * by, values)
                tries.append((f"{word} by {by:,.9g} in {where}", moved))
        tries.append(("all zeros", np.zeros_like(values)))
        if values.size > 1:  # sums that cancel; and what looks empty before it is
            least = -1 if low < 0 else 0
            signs = rng.integers(least, 2, values.shape)
            tries.append((f"of the numbers {'−1, ' * -least}0 and 1", signs.astype(float)))
            tries.append(("mostly zeros", np.where(rng.random(values.shape) < 0.3, values, 0.0)))
            tries += _patterns(values)
        extremes = EXTREMES.get(numbers(leaf.value).dtype.itemsize, ())
        alone = [(f"times {by:g}", values * by) for by in extremes]
        if values.size > 1:
            large = np.full_like(
                values, min(FACTORS[0], room / top if top else 1.0) * values.flat[-1]
            )
            alone.append(("all one large number", large))
        if not is_tensor(leaf.value):  # a layer's parameters stay float32, and weights with them
            alone += [(f"smaller by {by:g}", values - by) for by in extremes[:1]]
        for word, changed in (*tries, *alone):
            finite = changed[np.isfinite(values)]
            if not ((finite >= low) & (finite <= high)).all():
                continue
            value = as_like(leaf.value, changed)
            yield Sized(
                f"{leaf.name} {word}", replaced(call, {leaf.path: value}), call, (root(leaf),)
            )
            if " in " not in word and all(word != other for other, _ in alone):
                together.setdefault(word, {})[leaf.path] = value
    for word, changes in together.items():
        if len(changes) > 1 and len(changes) == len(free):
            yield Sized(f"every argument {word}", replaced(call, changes), call)
    yield from _balanced(call, free)


def _balanced(call: Call, free: Sequence[tuple[Leaf, tuple[float, float]]]) -> Iterator[Sized]:
    """Each array in turn large and all others tiny: a product of both is of usual size."""
    wide = [(leaf, span) for leaf, span in free if numbers(leaf.value).dtype.itemsize == 8]
    large, tiny = EXTREMES[8][:2]
    for leaf, _ in wide if len(wide) > 1 else ():
        scales = [(each, span, large if each is leaf else tiny) for each, span in wide]
        scaled = [(each, span, numbers(each.value) * by) for each, span, by in scales]
        if all(((v >= span[0]) & (v <= span[1]) | ~np.isfinite(v)).all() for _, span, v in scaled):
            changes = {each.path: as_like(each.value, v) for each, _, v in scaled}
            what = f"{leaf.name} times {large:g} and the others times {tiny:g}"
            yield Sized(what, replaced(call, changes), call)


def _patterns(values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays that may be taken for what they are not by a look at a part of them."""
    for place, word in ((0, "first"), (-1, "last")):
        zeros = values.copy()
        for axis in (axis for axis, n in enumerate(values.shape) if n > 1):
            np.moveaxis(zeros, axis, 0)[place] = 0.0
        yield f"zeros in the {word} place of each axis", zeros
    yield "all one number", np.full_like(values, values.flat[-1])
    if values.shape[-1] > 1:
        yield "cancelling along its last axis", values - values[..., ::-1]
    if values.ndim > 1 and values.shape[-1] == values.shape[-2]:
        yield "symmetric", (values + np.swapaxes(values, -1, -2)) / 2


def _axes(values: np.ndarray) -> list[tuple[int, str]]:
    """Axes along which one entry can be far from the others, and what a sentence calls it."""
    words = {-1: "one place of its last axis", -2: "one row"}
    return [
        (axis, words.get(axis, f"one entry of its axis {axis}"))
        for axis in range(-1, -values.ndim - 1, -1)
        if values.shape[axis] > 1
    ]


def _picked(values: np.ndarray, axis: int, rng: np.random.Generator) -> np.ndarray:
    """True in one entry along an axis."""
    places = np.arange(values.shape[axis]) == rng.integers(values.shape[axis])
    return np.moveaxis(
        np.broadcast_to(places, (*np.delete(values.shape, axis), len(places))), -1, axis
    )


def as_like(like: Any, array: np.ndarray) -> Any:
    """Numbers in the kind and type of another array."""
    if not is_tensor(like):
        return np.asarray(array, like.dtype)  # a product of an array without axes is none
    import torch

    return torch.from_numpy(np.ascontiguousarray(array)).to(like.dtype)


# Numbers that are no arrays


def _plain(call: Call, names: Sequence[str], ranges: Mapping[str, Range]) -> Iterator[Sized]:
    """Other values of the options and counts that have a range."""
    for place, value, (low, high) in plain_numbers(call, names, ranges):
        others: list[float] = [value * by for by in AMOUNTS]
        if isinstance(value, int):
            others = [*COUNTS, *(int(end) for end in (low, high) if np.isfinite(end))]
        for other in dict.fromkeys(others):
            if low <= other <= high and other != value:
                yield with_value(call, names, place, other)


def plain_numbers(
    call: Call, names: Sequence[str], ranges: Mapping[str, Range], counts: Range = None
) -> Iterator[tuple[int | str, float, tuple[float, float]]]:
    """Numbers that are no arrays and may be others: where they stand, and from where to where.

    Whole numbers without a range of their own may be ``counts``.
    """
    places = list(zip(range(len(call.args)), names, call.args, strict=False))
    for place, name, value in (*places, *((key, key, each) for key, each in call.kwargs.items())):
        span = ranges.get(name, counts if isinstance(value, int) else None)
        if span is not None and isinstance(value, (int, float)) and not isinstance(value, bool):
            yield place, value, span


def with_value(call: Call, names: Sequence[str], place: int | str, value: float) -> Sized:
    """The call with another number as one of its arguments."""
    name = place if isinstance(place, str) else names[place]
    if isinstance(place, str):
        other = replace(call, kwargs={**call.kwargs, place: value})
    else:
        other = replaced(call, {(place,): value})
    return Sized(f"{name} = {value:,}", other, call)


# Lengths


def longer(
    made: Sequence[Call],
    reference: Any,
    ranges: Mapping[str, Range],
    usual: Range,
    rng: np.random.Generator,
    to: int = LONG,
) -> Iterator[Sized]:
    """Each length in turn made another, in all arrays that have it."""
    covered: set[tuple[str, int]] = set()
    for call in sorted(made, key=lambda call: len(_lengths(call, reference)), reverse=True):
        for length in _lengths(call, reference):
            having, changed = _with_length(call, length, to, reference, ranges, usual, rng)
            if changed is not None and not covered >= having:
                covered |= having
                yield changed


def coincident(
    made: Sequence[Call],
    reference: Any,
    ranges: Mapping[str, Range],
    usual: Range,
    rng: np.random.Generator,
) -> Iterator[Sized]:
    """Each length made each of the others: what differs in the draws, is the same here."""
    if not made:
        return
    call = max(made, key=lambda call: len(_lengths(call, reference)))
    pairs = list(itertools.permutations(_lengths(call, reference), 2))
    for place in rng.permutation(len(pairs))[: COINCIDENT[call.build is not None]]:
        length, to = pairs[place]
        _, changed = _with_length(call, length, to, reference, ranges, usual, rng)
        if changed is not None:
            yield changed


def _lengths(call: Call, reference: Any) -> list[int]:
    """Lengths of axes, without 1."""
    arrays = leaves(call, parameters_of(reference, call.method))
    return list(dict.fromkeys(n for leaf in arrays for n in leaf.value.shape if n > 1))


def _with_length(
    call: Call,
    length: int,
    to: int,
    reference: Any,
    ranges: Mapping[str, Range],
    usual: Range,
    rng: np.random.Generator,
) -> tuple[set[tuple[str, int]], Sized | None]:
    """The axes of a length, and the call with these made another, where that may be."""
    arrays = leaves(call, parameters_of(reference, call.method))
    fixed = {n for value in (call.parameters or {}).values() for n in value.shape}
    having = {
        (leaf.name, axis - leaf.value.ndim): leaf
        for leaf in arrays
        for axis, n in enumerate(leaf.value.shape)
        if n == length
    }
    kept = usual is None and any(  # they follow a rule, which a longer one would not
        leaf.kind == "floating" and ranges.get(root(leaf)) is None for leaf in having.values()
    )
    large = max(_grown(leaf, length, to) for leaf in having.values()) > LARGEST
    if length == to or length in fixed or kept or large:
        return set(having), None
    changes = {leaf.path: _longer(leaf, length, to, rng) for leaf in having.values()}
    return set(having), Sized(f"{to} in the place of {length}", replaced(call, changes), call)


def _grown(leaf: Leaf, length: int, to: int) -> int:
    """How many numbers an array has with its axes of a length made another."""
    return int(np.prod([to if n == length else n for n in leaf.value.shape]))


def _longer(leaf: Leaf, length: int, to: int, rng: np.random.Generator) -> Any:
    """An array whose axes of a length have another; its numbers are drawn from those it has."""
    values = numbers(leaf.value)
    shape = tuple(to if n == length else n for n in values.shape)
    if leaf.kind == "floating" and leaf.finite:
        return as_like(leaf.value, rng.choice(values.ravel(), size=shape))
    for axis, n in enumerate(values.shape):
        if n == length:
            values = np.take(values, np.arange(to) % length, axis=axis)
    return as_like(leaf.value, values)
