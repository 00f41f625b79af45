"""Calls for telling what is wrong: draws and variants of them, and what each call is like.

Every case carries its traits: sentences that say when it happens ("q and k differ in length along
…"), so that what all failing cases have, and no passing one, can be said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attend_grader.checks.alike import Alike
from attend_grader.checks.behaviour import same_count
from attend_grader.checks.calls import (
    Leaf,
    cast,
    is_array,
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
from attend_grader.checks.drawn import DRAWN, once
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.instances import instance
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call, call_of
from attend_grader.checks.subject import Subject
from attend_grader.inside.kernels import launches

ROUNDS = 3
"""How often the exercise's draws are made."""


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


def observe(subject: Subject, exercise: Exercise) -> list[Case]:
    """Run the candidate on draws, and on variants that are promised, beside the reference."""
    asked: list[_Asked] = once(exercise, _answered)
    came = subject.many([each.call for each in asked])
    found = [each.case(got) for each, got in zip(asked, came, strict=True)]
    return [case for case in found if not case.unsure]


def _answered(exercise: Exercise) -> list[_Asked]:
    """Calls, each with what is right."""
    calls: list[Call] = []
    for number in range(2 if launches(exercise.reference) else ROUNDS):  # interpreted: slow
        drawn = list(exercise.draws(np.random.default_rng([DRAWN, 7, number])))
        for place, call in enumerate(drawn):
            calls.append(call)
            if number == 0:
                calls += _variants(exercise, call, _other_numbers(exercise, place))
    rights = [reference_on(exercise.reference, call)(call) for call in calls]
    both = zip(calls, rights, strict=True)
    return [_asked(exercise, c, right.value) for c, right in both if usable(right, infinite=True)]


def logged(subject: Subject, exercise: Exercise) -> list[Case]:
    """The calls that properties made of this subject, as far as the reference takes them.

    Where rounding may explain a difference, a property may have found it too large. Of kernels,
    which are interpreted, a call that differs from one of :func:`observe` in numbers only is left
    out, unless a property told what is right.
    """
    found: list[Case] = []
    observed: list[_Asked] = once(exercise, _answered) if launches(exercise.reference) else []
    covered = {_guise(each.call) for each in observed}
    for each in subject.log:
        if each.references != subject.references:
            continue
        call = call_of(each)
        if each.want is not None:
            found.append(_asked(exercise, call, each.want).case(each.outcome, each.wrong))
            continue
        if each.outcome.error is None and covered and _guise(call) in covered:
            continue
        right = reference_on(exercise.reference, call)(call)
        if usable(right, infinite=True):  # the card may show it
            found.append(_asked(exercise, call, right.value).case(each.outcome))
    return found


def _guise(call: Call) -> str:
    """All of a call but the numbers in its arrays."""
    return repr((call.method, call.launcher, *map(_layout, (*call.args, *call.kwargs.items()))))


def _layout(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_layout(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.strides
    return (value.dtype, value.shape, value.stride()) if is_array(value) else value


@dataclass(frozen=True)
class _Asked:
    """A call and what is right; the rest as in :class:`Case`."""

    call: Call
    want: Any
    names: tuple[str, ...]
    alike: Alike
    single: bool

    def case(self, got: Outcome, wrong: bool | None = None) -> Case:
        """The case, where this came; ``wrong`` if that is known."""
        unsure = False
        if wrong is None:
            wrong = got.error is not None or not same_count(got.value, self.want)
            if not wrong and self._differs(got, strict=True):
                wrong, unsure = True, not self._differs(got)
        about = self.names, wrong, self.alike, self.single, unsure
        return Case(self.call, got, self.want, *about)

    def _differs(self, got: Outcome, *, strict: bool = False) -> bool:
        found = self.alike.difference(got.value, self.want, single=self.single, strict=strict)
        return found is not None


def _asked(exercise: Exercise, call: Call, want: Any) -> _Asked:
    names = parameters_of(exercise.reference, call.method)
    target = _right_function(exercise.reference, call)
    alike = Alike(target, replace(call, build=None), names, exercise.results, want)
    kinds = [numbers(leaf.value).dtype for leaf in leaves(call, names)]
    single = any(kind.kind == "f" and kind.itemsize < 8 for kind in kinds)
    single |= any(numbers(part).dtype == np.float32 for part in parts(want))
    return _Asked(call, want, names, alike, single)


def _right_function(reference: Any, call: Call) -> Callable[..., Any]:
    target = instance(reference, call)
    return getattr(target, call.method) if call.method else target


def _other_numbers(exercise: Exercise, place: int) -> list[Call]:
    """The draw at ``place`` with other numbers."""
    made = [exercise.draws(np.random.default_rng([DRAWN, 8, number])) for number in range(2)]
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
