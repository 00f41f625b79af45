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
    pairs: list[tuple[Call, Any]] = once(exercise, _answered)
    came = subject.many([call for call, _ in pairs])
    found = [_case(exercise, *pair, got) for pair, got in zip(pairs, came, strict=True)]
    return [case for case in found if not case.unsure]


def _answered(exercise: Exercise) -> list[tuple[Call, Any]]:
    """Calls, each with what is right."""
    calls: list[Call] = []
    for number in range(ROUNDS):
        drawn = list(exercise.draws(np.random.default_rng([DRAWN, 7, number])))
        for place, call in enumerate(drawn):
            calls.append(call)
            if number == 0:
                calls += _variants(exercise, call, _other_numbers(exercise, place))
    rights = [reference_on(exercise.reference, call)(call) for call in calls]
    both = zip(calls, rights, strict=True)
    return [(call, right.value) for call, right in both if usable(right, infinite=True)]


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
