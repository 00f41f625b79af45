"""Fresh calls for telling what is wrong: draws and variants of them, and what each call is like.

Every case carries its traits: sentences that say when it happens ("q and k differ in length along
…"), so that what all failing cases have, and no passing one, can be said.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from attend_grader.checks.alike import Alike
from attend_grader.checks.behaviour import same_count
from attend_grader.checks.calls import (
    Leaf,
    cast,
    leaves,
    numbers,
    parameters_of,
    parts,
    reference_on,
    replaced,
    rounded,
    stacked,
    usable,
    views,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.instances import instance
from attend_grader.checks.probe import Call, call_of
from attend_grader.checks.subject import Outcome, Subject

ROUNDS = 3
"""How often the exercise's draws are made."""

LARGE = (500.0, 100.0, 30.0)
"""Numbers above these are called large, the first that fits is told; exp overflows above 709."""

SMALL = 0.1
"""An argument none of whose numbers is above this is called small."""

IS_WORD = ' is "'
"""In traits of options that are words: ``kind is "gelu"``."""

AXES = {-1: "last axis", -2: "second-to-last axis", -3: "third-to-last axis"}


@dataclass
class Case:
    """One call: what came, what is right, and what the call is like.

    Attributes:
        call: the call.
        got: what the candidate did.
        want: the right value.
        names: of the parameters.
        wrong: whether their values differ, or the candidate raised; a type that differs does not
            count, as the card tells of it apart.
        unsure: whether rounding may explain the difference.
        traits: what holds of the call, in words that follow "where".
    """

    call: Call
    got: Outcome
    want: Any
    names: tuple[str, ...]
    wrong: bool
    alike: Alike
    single: bool
    unsure: bool = False
    traits: dict[str, bool] = field(default_factory=dict)

    def agrees(self, value: Any, index: int | None = None) -> bool:
        """Whether what came (or one result of it) agrees with ``value``."""
        got = self.got.value if index is None else parts(self.got.value)[index]
        return self.matches(got, value)

    def matches(self, got: Any, value: Any) -> bool:
        """Whether two values agree, as far as rounding allows for this call's numbers."""
        return self.alike.difference(got, value, single=self.single) is None

    @property
    def other_type(self) -> bool:
        """Whether the values are right and the type of one is not."""
        pairs = () if self.wrong else zip(parts(self.got.value), parts(self.want), strict=False)
        return any(numbers(got).dtype != numbers(want).dtype for got, want in pairs)

    @property
    def other_shape(self) -> bool:
        """Whether a result has another shape than the right one."""
        pairs = zip(parts(self.got.value), parts(self.want), strict=False)
        return any(numbers(got).shape != numbers(want).shape for got, want in pairs)

    def leaves(self) -> list[Leaf]:
        """The arrays of the call."""
        return leaves(self.call, self.names)


def observe(subject: Subject, exercise: Exercise, seed: int) -> list[Case]:
    """Run the candidate and the reference on fresh draws, and on variants that are promised."""
    calls: list[Call] = []
    for number in range(ROUNDS):
        drawn = list(exercise.draws(np.random.default_rng([seed, 7, number])))
        for place, call in enumerate(drawn):
            calls.append(call)
            if number == 0:
                calls += _variants(exercise, call, _other_numbers(exercise, seed, place))
    rights = [reference_on(exercise.reference, call)(call) for call in calls]
    both = zip(calls, rights, strict=True)
    pairs = [(call, right.value) for call, right in both if usable(right, infinite=True)]
    came = subject.many([call for call, _ in pairs])
    found = [_case(exercise, *pair, got) for pair, got in zip(pairs, came, strict=True)]
    return [case for case in found if not case.unsure]


def logged(subject: Subject, exercise: Exercise) -> list[Case]:
    """The calls that properties made of this subject, as far as the reference takes them.

    Where rounding may explain a difference, a property may have found it too large.
    """
    found: list[Case] = []
    for each in subject.log:
        if each.references != subject.references:
            continue
        call = call_of(each)
        if each.want is not None:
            case = _case(exercise, call, each.want, each.outcome)
            found.append(replace(case, wrong=each.wrong, unsure=False))
            continue
        right = reference_on(exercise.reference, call)(call)
        if usable(right, infinite=True):  # the card may show it
            found.append(_case(exercise, call, right.value, each.outcome))
    return found


def _case(exercise: Exercise, call: Call, want: Any, got: Outcome) -> Case:
    """One case."""
    names = parameters_of(exercise.reference, call.method)
    target = _right_function(exercise.reference, call)
    alike = Alike(target, replace(call, build=None), names, exercise.results)
    kinds = [numbers(leaf.value).dtype for leaf in leaves(call, names)]
    single = any(kind.kind == "f" and kind.itemsize < 8 for kind in kinds)
    single |= any(numbers(part).dtype == np.float32 for part in parts(want))
    wrong, unsure = got.error is not None or not same_count(got.value, want), False
    if not wrong and alike.difference(got.value, want, single=single, strict=True):
        wrong = True
        unsure = alike.difference(got.value, want, single=single) is None
    return Case(call, got, want, names, wrong, alike, single, unsure)


def _right_function(reference: Any, call: Call) -> Callable[..., Any]:
    target = instance(reference, call)
    return getattr(target, call.method) if call.method else target


def _other_numbers(exercise: Exercise, seed: int, place: int) -> list[Call]:
    """The draw at ``place`` with other numbers."""
    made = [exercise.draws(np.random.default_rng([seed, 8, number])) for number in range(2)]
    return [calls[place] for calls in made if place < len(calls)]


def _variants(exercise: Exercise, call: Call, others: Sequence[Call]) -> Iterator[Call]:
    """The same call in the guises that the contract promises."""
    contract = exercise.contract
    if contract is None:
        return
    names = parameters_of(exercise.reference, call.method)
    arrays = leaves(call, names)
    floats = [leaf for leaf in arrays if leaf.kind == "floating" and leaf.finite]
    if INTEGERS in contract.accepts:
        whole = {
            leaf.path: contract.whole[leaf.name](leaf.value)
            if leaf.name in contract.whole
            else rounded(leaf.value)
            for leaf in floats
        }
        for path, value in whole.items():
            yield replaced(call, {path: cast(value, "int64")})
        yield replaced(call, {path: cast(value, "int64") for path, value in whole.items()})
        for left in whole if len(whole) > 2 else ():
            rest = {path: cast(x, "int64") for path, x in whole.items() if path != left}
            yield replaced(call, rest)
    if contract.views:
        for leaf in arrays:
            for laid in list(views(leaf.value).values())[-1:] if leaf.value.ndim else ():
                yield replaced(call, {leaf.path: laid})
    if FLOAT32 in contract.accepts and FLOAT64 in contract.accepts and call.build is None:
        other = "float32" if isinstance(arrays[0].value, np.ndarray) else "float64"
        yield replaced(call, {leaf.path: cast(leaf.value, other) for leaf in floats})
    if contract.leading_axes and len(others) == 2:
        stacks = arrays
        if contract.leading_axes is not True:
            stacks = [x for x in arrays if x.name.partition("[")[0] in contract.leading_axes]
        rows = [{leaf.path: leaf for leaf in leaves(other, names)} for other in others]
        whole = {}
        for leaf in stacks:
            pair = [row[leaf.path].value for row in rows if leaf.path in row]
            if len(pair) < 2 or any(numbers(x).shape != numbers(leaf.value).shape for x in pair):
                return
            whole[leaf.path] = stacked(pair, (2,))
        shifted = {
            name: call.kwargs[name] + 1
            for name in ("axis", "dim")
            if isinstance(call.kwargs.get(name), int) and call.kwargs[name] >= 0
        }
        made = replaced(call, whole)
        yield replace(made, kwargs={**made.kwargs, **shifted})


# What calls are like


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
                found[f"a third of {name} is given (None is not counted)"] = count > 2
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
