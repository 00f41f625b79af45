"""Calls made again, in ways that show what an answer keeps from one to the next."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attend_grader.checks.behaviour import same_structure
from attend_grader.checks.calls import (
    Leaf,
    leaves,
    numbers,
    parameters_of,
    parts,
    reference_on,
    replaced,
    usable,
)
from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.leading import root, stack_of
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call, Probe
from attend_grader.checks.promises import overwrites
from attend_grader.checks.sizes import ANY, Sized, as_like, plain_numbers, with_value
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.trials import KEPT, Trial, form_of
from attend_grader.inside import codec
from attend_grader.inside.calling import arrays
from attend_grader.judging.losses import difference_of, loss_of, settled
from attend_grader.judging.small import small_calls

AGAIN = (
    "called again, after what it returned at first was written over",
    "called again with the same arrays, which hold other numbers now",
    "after the call that followed, an earlier result",
)
FORMS = 3
"""Forms of a call that are tried three times."""

PLAIN = re.compile(r" (all zeros|= -?\d+)$")
"""Of what is special about a call: a result may be known without any work."""

MANY = 12
"""Calls whose results all are to stay; more where the answer's text holds a larger number."""

LITTLE = 1.0 + 2e-5
"""Numbers times this are the same to four digits."""

NEAR = 1e-6
"""By so much of themselves differ the numbers of two arrays that are nearly the same."""

KNOWN = 5
"""Such calls that are tried three times too."""


def thrice(subject: Subject, exercise: Exercise, probe: Probe, sized: Sequence[Sized]) -> None:
    """Calls whose earlier result was written over, and whose arrays hold other numbers by then.

    A result that is kept for arguments seen before is handed out again; one that is kept for an
    array, and not for what that holds, is out of date.
    """
    both = [exercise.draws(np.random.default_rng(s)) for s in probe.rng.integers(2**32, size=2)]
    pairs = [
        (one, _with_arrays(one, other))
        for one, other in zip(*both, strict=True)
        if _plain(one)
        and _arrays(one) == _arrays(other)
        and (not exercise.related or _rest(one) == _rest(other))
    ]
    chosen = [pairs[place] for place in probe.rng.permutation(len(pairs))[:FORMS]]
    single = [each.call for each in sized if PLAIN.search(each.what)]
    single += [hidden for call in both[0] for hidden in _hidden(call)]
    known = [(call, call) for call in single]
    if not exercise.related:
        small = zip(*(small_calls(some, exercise) for some in both), strict=False)
        cuts = [(a, b) for (a, _), (b, _) in small]
        known += [(a, _with_arrays(a, b)) for a, b in cuts if _arrays(a) == _arrays(b)]
    known = [pair for pair in known if _plain(pair[0])]
    chosen += _in_stacks(subject, exercise, probe, pairs)
    known = [known[place] for place in probe.rng.permutation(len(known))[:KNOWN]]
    known += [(call, call) for call in both[0] if _plain(call) and not leaves(call, ())]
    _called_thrice(subject, exercise, probe, [*chosen, *known], graph=True)
    if exercise.contract is not None and exercise.contract.gradients:
        _called_thrice(subject, exercise, probe, chosen, graph=False)


def _in_stacks(
    subject: Subject, exercise: Exercise, probe: Probe, pairs: Sequence[tuple[Call, Call]]
) -> list[tuple[Call, Call]]:
    """Pairs of calls as stacks of two, one of each form: what is kept may be kept there only."""
    if exercise.contract is None or not exercise.contract.leading_axes:
        return []
    named = exercise.contract.leading_axes
    stacks = None if named is True else named
    found = []
    for one, other in {form_of(one): (one, other) for one, other in pairs}.values():
        stack, turned = (
            stack_of(Trial(subject, probe, a), b, stacks) for a, b in ((one, other), (other, one))
        )
        if stack is not None and turned is not None:
            found.append((stack, turned))
    return found


def _hidden(call: Call) -> Iterator[Call]:
    """The call with each of its masks hiding all."""
    for leaf in leaves(call, ()):
        if leaf.kind == "boolean":
            yield replaced(call, {leaf.path: leaf.value & ~leaf.value})


def _plain(call: Call) -> bool:
    """Whether it is a call of a function."""
    return call.build is None and not call.launcher


def _called_thrice(
    subject: Subject,
    exercise: Exercise,
    probe: Probe,
    pairs: Sequence[tuple[Call, Call]],
    *,
    graph: bool,
) -> None:
    """Call as the first of each pair, again, and with its arrays holding those of the second."""
    rights = [[reference_on(exercise.reference, call)(call) for call in pair] for pair in pairs]
    both = [each for each in zip(pairs, rights, strict=True) if all(map(usable, each[1]))]
    came = subject.many(
        [one for (one, _), _ in both],
        graph=graph,
        again=[{"others": arrays((*o.args, *o.kwargs.values()))} for (_, o), _ in both],
    )
    told = [what if graph else f"{what}, under torch.no_grad()" for what in AGAIN]
    for (pair, (first, second)), outcome in zip(both, came, strict=True):
        wanted, calls = (first, second, first), (*pair, pair[0])
        _expect_all(subject, exercise, probe, told, calls, wanted, outcome)


def _expect_all(
    subject: Subject,
    exercise: Exercise,
    probe: Probe,
    told: Sequence[str],
    calls: Sequence[Call],
    rights: Sequence[Outcome],
    came: Outcome,
) -> None:
    """Hold the results of one request to being right, where all right answers come to that.

    Raises:
        Miss: one is another.
        SubjectError: a call raised.
    """
    trials = [Trial(subject, probe, call) for call in calls]
    if came.error is not None:
        if all(settled(exercise, *pair) for pair in zip(trials, _values(rights), strict=True)):
            given = trials[0].given(calls[0])
            raise SubjectError(came.error, f"{told[0]}: {given}")
        return
    for what, value, trial, want in zip(told, came.value, trials, _values(rights), strict=True):
        text = f"{what}: the result has another form than before."
        if same_structure(value, want):
            found = difference_of(trial, value, want)
            if found is None:
                continue
            place, mine, right = found
            text = f"{what}: {place} is {mine}, expected {right}."
        if settled(exercise, trial, want):
            raise Miss(text, cause=KEPT, topic=KEPT).on(trial.given(trial.call), "")


def _values(outcomes: Sequence[Outcome]) -> list[Any]:
    return [outcome.value for outcome in outcomes]


def many(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """One call with numbers in many other orders: a few buffers, used in turn, run out."""
    calls = [(call, _several(exercise, call)) for call in filter(_plain, exercise.draws(probe.rng))]
    calls = [(call, floats) for call, floats in calls if floats]
    if not calls or exercise.contract is None:
        return
    call, floats = calls[probe.rng.integers(len(calls))]
    own = exercise.own_counts(subject.description.source or "")
    count = max([MANY, *(1 + n for n in own)])
    others = [
        replaced(call, {leaf.path: _shuffled(leaf.value, probe.rng) for leaf in floats})
        for _ in range(count)
    ]
    for graph in (True, False) if exercise.contract.gradients else (True,):
        for came in subject.many(others, graph=graph):
            if came.overwritten:
                mode = "" if graph else ", under torch.no_grad()"
                what = f"called {count} times{mode}"
                raise overwrites().on(Trial(subject, probe, call).given(call), what)


def nearly_the_same(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Calls that have much in common with the call before: an end of an argument, or digits.

    What an answer keeps may be found again by less than all of an argument's numbers.
    """
    if exercise.related or exercise.contract is None:
        return
    both = [exercise.draws(np.random.default_rng(s)) for s in probe.rng.integers(2**32, size=2)]
    pairs = [pair for pair in zip(*both, strict=True) if _plain(pair[0])]
    pairs = [(one, other) for one, other in pairs if _arrays(one) == _arrays(other)]
    tried: set[tuple[str, int]] = set()
    for place in probe.rng.permutation(len(pairs)):
        one, other = pairs[place]
        several = {(leaf.name, leaf.value.ndim): leaf for leaf in _several(exercise, one)}
        calls = list(_mixed(one, other, [several[k] for k in several if k not in tried]))
        if not tried:
            calls += _moved(one, parameters_of(exercise.reference, one.method))
        tried.update(several)
        rights = [reference_on(exercise.reference, call)(call) for call in calls]
        came = subject.many(calls, graph=not exercise.contract.gradients)
        for call, right, outcome in zip(calls, rights, came, strict=True):
            trial = Trial(subject, probe, call)
            loss = loss_of(trial, outcome, right.value) if usable(right) else None
            if loss is not None and settled(exercise, trial, right.value):
                raise loss if isinstance(loss, SubjectError) else loss.on("", NEARLY)


NEARLY = "after a call with nearly the same numbers"


def _moved(call: Call, names: Sequence[str]) -> Iterator[Call]:
    """The call, and then with one number, or the numbers of one array, a little larger."""
    for leaf in leaves(call, names):
        if leaf.kind == "floating":
            yield call
            yield replaced(call, {leaf.path: as_like(leaf.value, numbers(leaf.value) * LITTLE)})
    for place, value, _ in plain_numbers(call, names, dict.fromkeys((*names, *call.kwargs), ANY)):
        if isinstance(value, float):
            yield call
            yield with_value(call, names, place, value * LITTLE).call


def _mixed(one: Call, other: Call, arrays: Sequence[Leaf]) -> Iterator[Call]:
    """One call, and then with an array that is the other's but for an end, by turns."""
    others = {leaf.path: leaf.value for leaf in leaves(other, ())}
    for leaf in arrays:
        values = numbers(leaf.value)
        for end in (0, -1):
            mixed = numbers(others[leaf.path]).copy()
            mixed[(end,) * values.ndim] = values[(end,) * values.ndim]
            yield one
            yield replaced(one, {leaf.path: as_like(leaf.value, mixed)})


def _several(exercise: Exercise, call: Call) -> list[Leaf]:
    """Arrays of more than one floating number."""
    arrays = leaves(call, parameters_of(exercise.reference, call.method))
    return [leaf for leaf in arrays if leaf.kind == "floating" and numbers(leaf.value).size > 1]


def _shuffled(array: Any, rng: np.random.Generator) -> Any:
    """The same numbers in another order."""
    values = numbers(array)
    return as_like(array, rng.permutation(values.ravel()).reshape(values.shape))


def one_array(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Two arguments that are one and the same array, or differ in the seventh digit only."""
    if exercise.related:
        return
    asked: dict[tuple[str, str, str], tuple[Call, Call, str]] = {}
    for call in filter(_plain, exercise.draws(probe.rng)):
        floats = [
            leaf
            for leaf in leaves(call, parameters_of(exercise.reference, call.method))
            if leaf.kind == "floating" and isinstance(leaf.path[0], int) and len(leaf.path) == 1
        ]
        for one, two in itertools.combinations(floats, 2):
            if one.value.shape == two.value.shape and one.value.dtype == two.value.dtype:
                base = replaced(call, {two.path: codec.copied(one.value)})
                same = replace(base, shared=(int(one.path[0]), int(two.path[0])))
                what = f"one array as {one.name} and {two.name}"
                asked.setdefault((one.name, two.name, ""), (base, same, what))
                if one.value.ndim > 1 and one.value.shape[-1] == one.value.shape[-2]:
                    view = codec.copied(one.value.swapaxes(-1, -2))
                    base = replaced(call, {two.path: view})
                    turned = replace(base, shared=same.shared, turned=True)
                    what = f"a transposed view of {one.name} as {two.name}"
                    asked.setdefault((one.name, two.name, "turned"), (base, turned, what))
                if numbers(one.value).dtype.itemsize == 8:
                    near = numbers(one.value) * (
                        1 + NEAR * probe.rng.standard_normal(one.value.shape)
                    )
                    apart = replaced(call, {two.path: as_like(two.value, near)})
                    what = f"{one.name} and {two.name} nearly the same"
                    asked.setdefault((one.name, two.name, "near"), (apart, apart, what))
    came = subject.many([call for _, call, _ in asked.values()])
    for (base, _, what), outcome in zip(asked.values(), came, strict=True):
        right = reference_on(exercise.reference, base)(base)
        trial = Trial(subject, probe, base)
        loss = loss_of(trial, outcome, right.value) if usable(right) else None
        if loss is not None and settled(exercise, trial, right.value):
            raise loss if isinstance(loss, SubjectError) else loss.on("", what)


def _with_arrays(one: Call, other: Call) -> Call:
    """A call with another's arrays, and its dicts of arrays."""
    mixed = replaced(one, {leaf.path: leaf.value for leaf in leaves(other, ())})
    both = zip(mixed.args, other.args, strict=True)
    return replace(mixed, args=tuple(b if isinstance(b, dict) else a for a, b in both))


def _arrays(call: Call) -> list[tuple[Any, ...]]:
    """Places, shapes and types of a call's arrays."""
    return [(leaf.path, leaf.value.shape, str(leaf.value.dtype)) for leaf in leaves(call, ())]


def _rest(call: Call) -> str:
    """All that is no array."""
    blank = replaced(call, {leaf.path: None for leaf in leaves(call, ())})
    return f"{blank.args} {blank.kwargs}"


def passed_back(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Results that become arguments, as a state does from step to step.

    An answer that goes on in the array it returned before changes an earlier result.
    """
    if exercise.related or exercise.contract is None:
        return
    tried: set[tuple[tuple[int, str], ...]] = set()
    asked: list[tuple[Call, dict[str, Any], str, Call, tuple[Outcome, Outcome]]] = []
    for call in filter(_plain, exercise.draws(probe.rng)):
        right = reference_on(exercise.reference, call)(call)
        if not usable(right):
            continue
        found = _places(exercise, call, parts(right.value))
        whole = [
            (place, leaf) for place, leaf in found if exercise.results[place:][:1] == (leaf.name,)
        ]
        for some in (*([one] for one in found), whole):
            key = tuple((place, leaf.name) for place, leaf in some)
            if not some or key in tried:
                continue
            tried.add(key)
            results = {leaf.path: codec.copied(parts(right.value)[place]) for place, leaf in some}
            second = replaced(call, results)
            wanted = reference_on(exercise.reference, second)(second)
            if not usable(wanted):
                continue
            again = {"places": [(place, leaf.path[0]) for place, leaf in some]}
            name = Trial(subject, probe, call).alike().name
            names = [f"the {name(place, len(parts(right.value)))}" for place, _ in some]
            what = f"called again with {' and '.join(names)} that it returned as "
            what += " and ".join(leaf.name for _, leaf in some)
            asked.append((call, again, what, second, (wanted, right)))
    came = subject.many([each[0] for each in asked], again=[each[1] for each in asked])
    for (call, _, what, second, rights), outcome in zip(asked, came, strict=True):
        _expect_all(subject, exercise, probe, (what, OVER), (second, call), rights, outcome)


OVER = "after the next call, which was given what the first returned, the first's own result"


def _places(exercise: Exercise, call: Call, results: Sequence[Any]) -> list[tuple[int, Leaf]]:
    """Results and arguments that have the same shape and type, and may hold the same numbers."""
    found = []
    contract = exercise.contract
    for leaf in leaves(call, parameters_of(exercise.reference, call.method)):
        low, high = (contract and contract.ranges.get(root(leaf), ANY)) or (1.0, 0.0)
        for place, value in enumerate(results):
            same = leaf.kind == "floating" and len(leaf.path) == 1 and _alike(leaf.value, value)
            if same and low <= numbers(value).min() and numbers(value).max() <= high:
                found.append((place, leaf))
    return found


def _alike(one: Any, other: Any) -> bool:
    same = type(one) is type(other) and one.shape == other.shape and one.dtype == other.dtype
    return same and numbers(one).size > 0
