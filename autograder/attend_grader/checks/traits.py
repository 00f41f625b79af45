"""What calls are like: sentences that say when something happens ("q and k differ in length …").

Every case carries the same ones, true or false, so that what all failing cases have, and no passing
one, can be said.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from attend_grader.checks.calls import Leaf, numbers
from attend_grader.checks.cases import Case
from attend_grader.checks.exercise import Exercise

LARGE = (500.0, 100.0, 30.0)
"""Numbers above these are called large, the first that fits is told; exp overflows above 709."""

SMALL = 0.1
"""An argument none of whose numbers is above this is called small."""

IS_WORD = ' is "'
"""In traits of options that are words: ``kind is "gelu"``."""

AXES = {-1: "last axis", -2: "second-to-last axis", -3: "third-to-last axis"}


def describe(cases: Sequence[Case], exercise: Exercise) -> None:
    """Give each case its traits: the same ones, true or false."""
    rows = [case.leaves() for case in cases]
    names = list(dict.fromkeys(leaf.name for row in rows for leaf in row))
    fewest = {
        name: min(numbers(leaf.value).ndim for row in rows for leaf in row if leaf.name == name)
        for name in names
    }
    for case, row in zip(cases, rows, strict=True):
        by_name = {leaf.name: leaf for leaf in row}
        case.traits |= _of_options(case, exercise)
        case.traits |= _of_types(by_name, names)
        case.traits |= _of_axes(by_name, fewest)
        case.traits |= _of_lengths(by_name, names)
        case.traits |= _of_numbers(by_name, names)
    zeros = {trait for case in cases for trait, holds in case.traits.items() if holds}
    for case in cases:  # of a number that is never 0, "is 1" and "is not 1" are enough
        for trait in [t for t in case.traits if t.endswith((" is 0 or 1", " is neither 0 nor 1"))]:
            name = trait.split(" is ")[0]
            if f"{name} is zero" not in zeros:
                case.traits[f"{name} is not 1"] = not case.traits[f"{name} is 1"]
                del case.traits[trait]
    words = {trait for case in cases for trait in case.traits if IS_WORD in trait}
    for case in cases:
        case.traits |= {word: case.traits.get(word, False) for word in words}
        case.traits |= {w.replace(IS_WORD, ' is not "'): not case.traits[w] for w in words}


def _of_options(case: Case, exercise: Exercise) -> dict[str, bool]:
    """Values of options, of the call and of a class's constructor."""
    found: dict[str, bool] = {}
    target = exercise.reference
    asked: list[tuple[Any, tuple[Any, ...], Any, bool]] = []
    if case.call.build is not None:
        asked.append((target, case.call.build.args, case.call.build.kwargs, False))
        target = getattr(target, case.call.method or "forward", target.__call__)
        asked.append((target, case.call.args, case.call.kwargs, True))
    else:
        asked.append((target, case.call.args, case.call.kwargs, False))
    for function, args, kwargs, bound in asked:
        listed = list(inspect.signature(function).parameters.values())[bound:]
        given = dict(zip([p.name for p in listed], args, strict=False)) | dict(kwargs)
        for parameter in listed:
            value = given.get(parameter.name, parameter.default)
            name = parameter.name
            if value is None:
                found |= {f"{name} is not 1": True, f"{name} is not zero": True}
            if parameter.kind is parameter.VAR_POSITIONAL:
                count = sum(value is not None for value in args[listed.index(parameter) :])
                found[f"a third one of {name} is given (None is not counted)"] = count > 2
                start = listed.index(parameter)
                for one, what in zip(case.names[start:], args[start:], strict=False):
                    found[f"{one} is None"] = what is None
                continue
            if parameter.default is not parameter.empty:
                found[f"{name} is left out"] = name not in given
                found[f"{name} is passed"] = name in given
            if value is None or parameter.default is None:
                found[f"{name} is None"] = value is None
                found[f"{name} is given"] = value is not None
            if isinstance(value, bool):
                found[f"{name} is True"], found[f"{name} is False"] = value, not value
            elif isinstance(value, int):
                found[f"{name} is 1"], found[f"{name} is not 1"] = value == 1, value != 1
                found[f"{name} is zero"], found[f"{name} is not zero"] = value == 0, value != 0
                found[f"{name} is odd"], found[f"{name} is even"] = value % 2 == 1, value % 2 == 0
                found[f"{name} is negative"] = value < 0
                found[f"{name} is 0 or more"] = value >= 0
            elif isinstance(value, float):
                edge = value in (0.0, 1.0)
                found[f"{name} is 1"], found[f"{name} is zero"] = value == 1.0, value == 0.0
                found[f"{name} is not zero"] = value != 0.0
                found[f"{name} is 0 or 1"], found[f"{name} is neither 0 nor 1"] = edge, not edge
            elif isinstance(value, str):
                found[f'{name}{IS_WORD}{value}"'] = True
    return found


def _of_types(by_name: dict[str, Leaf], names: Sequence[str]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    floats = [n for n in names if n in by_name and by_name[n].kind in ("floating", "integer")]
    kinds = {n: by_name[n].kind for n in floats}
    if len(floats) > 1:
        whole = [kind == "integer" for kind in kinds.values()]
        found["any array holds integers"] = any(whole)
        found["all arrays hold integers"] = all(whole)
        found["an array holds fractions"] = not all(whole)
    for name in names:
        here = by_name.get(name)
        found[f"{name} holds integers"] = here is not None and here.kind == "integer"
    widths = {numbers(by_name[n].value).dtype.itemsize for n in floats if kinds[n] == "floating"}
    tensor = any(not isinstance(leaf.value, np.ndarray) for leaf in by_name.values())
    if tensor:
        found["the arguments are float64"] = 8 in widths
    else:
        found["the arguments are float32"] = 4 in widths
    laid = {n: _is_view(by_name[n].value) for n in names if n in by_name}
    for name in names:
        found[f"{name} is a view (not contiguous)"] = laid.get(name, False)
    if len(names) > 1:
        found["an argument is a view (not contiguous)"] = any(laid.values())
    return found


def _is_view(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.flags.c_contiguous
    return not value.is_contiguous()


def _of_axes(by_name: dict[str, Leaf], fewest: dict[str, int]) -> dict[str, bool]:
    arrays = {n: numbers(leaf.value) for n, leaf in by_name.items()}
    more = {n: a.ndim - fewest[n] for n, a in arrays.items() if a.dtype.kind != "b"}  # no masks
    found: dict[str, bool] = {}
    most = max(more.values(), default=0)
    if set(fewest.values()) != {1} or len(fewest) > 1:
        found["there are leading axes"] = most > 0
        found["there are no leading axes"] = most == 0
        found["there are two or more leading axes"] = most > 1
    for name, leaf in by_name.items():
        count = numbers(leaf.value).ndim
        for least in (2, 3):
            found[f"{name} has {least} or more axes"] = count >= least
            found[f"{name} has fewer than {least} axes"] = count < least
        found[f"{name} has one axis only"] = count == 1
    return found


def _of_lengths(by_name: dict[str, Leaf], names: Sequence[str]) -> dict[str, bool]:
    """Lengths of core axes: 1, odd, equal or not."""
    found: dict[str, bool] = {}
    shapes = {n: numbers(by_name[n].value).shape for n in names if n in by_name}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        for axis in (-1, -2):
            if len(shape) >= -axis:
                sizes[f"the {AXES[axis]} of {name}"] = shape[axis]
    for what, length in sizes.items():
        found[f"{what} is empty"] = length == 0
        found[f"{what} is not empty"] = length > 0
        found[f"{what} has length 1"] = length == 1
        found[f"{what} is longer than 1"] = length > 1
        found[f"{what} has an odd length"] = length % 2 == 1
        found[f"{what} has an even length"] = length % 2 == 0
    for name, shape in shapes.items():
        if len(shape) >= 2:
            found[f"{name} is square"] = shape[-1] == shape[-2]
            found[f"{name} is not square"] = shape[-1] != shape[-2]
    for name, shape in shapes.items():
        if len(shape) >= 3:
            found[f"the {AXES[-3]} of {name} has length 1"] = shape[-3] == 1
            found[f"the {AXES[-3]} of {name} is longer than 1"] = shape[-3] > 1
    for (one, a), (two, b) in combinations(sizes.items(), 2):
        if one.endswith(f"of {two.rpartition(' of ')[2]}"):
            continue
        (axis, _, first), (other, _, second) = one.rpartition(" of "), two.rpartition(" of ")
        pair = f"{one} and {two}"
        if axis == other:
            pair = f"the {axis.removeprefix('the ')}s of {first} and {second}".replace(
                "axiss", "axes"
            )
        found[f"{pair} are equally long"] = a == b
        found[f"{pair} differ in length"] = a != b
        found[f"{one} is longer than {two}"] = a > b
        found[f"{one} is shorter than {two}"] = a < b
    return found


def _of_numbers(by_name: dict[str, Leaf], names: Sequence[str]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    top = 0.0
    for name in names:
        values = numbers(by_name[name].value) if name in by_name else np.zeros(0)
        if values.dtype.kind == "b":
            hides = values.size > 0 and not values.all()
            rows = values.any(axis=-1) if values.ndim else values
            found[f"{name} holds a False"] = bool(hides)
            found[f"all of {name} is True"] = name in by_name and not hides
            found[f"a row of {name} is all False"] = bool(values.size) and not rows.all()
            continue
        finite = np.abs(values[np.isfinite(values)])
        largest = float(finite.max(initial=0.0))
        top = max(top, largest)
        found[f"{name} is small (below {SMALL:g})"] = 0 < largest < SMALL
        if values.dtype.kind == "c":  # has no sign
            continue
        found[f"{name} holds −inf"] = bool(np.isneginf(values).any())
        found[f"{name} holds a negative number"] = bool((values < 0).any())
        found[f"{name} holds no negative number"] = name in by_name and bool((values >= 0).all())
    for limit in LARGE:
        found[f"numbers are large in size (above {limit:g})"] = top > limit
    return found
