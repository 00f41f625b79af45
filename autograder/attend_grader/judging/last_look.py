"""A last look at an answer that every property lets pass: draws, small, wide and of other size.

What properties look for is what their authors thought of. An answer that is right gives what the
reference gives on any draw, as far as rounding allows; one that does not is wrong, whatever passed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attend_grader.checks.behaviour import same_structure
from attend_grader.checks.calls import (
    Bench,
    Leaf,
    leaves,
    numbers,
    parameters_of,
    parts,
    reference_on,
    replaced,
    run_ahead,
    usable,
)
from attend_grader.checks.compare import Miss
from attend_grader.checks.exact import Exact
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.leading import root
from attend_grader.checks.probe import Call, Probe
from attend_grader.checks.promises import changes, overwrites
from attend_grader.checks.sizes import ANY, AS_DRAWN, Sized
from attend_grader.checks.subject import Outcome, Subject, SubjectError, local
from attend_grader.checks.trials import KEPT, Trial, form_of
from attend_grader.inside import codec

SMALL = 8
"""Calls with a length of 1 that are tried, at most."""

PULLED = 3
"""Of these, so many whose gradients are looked at."""


def look(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Compare a candidate with the reference on fresh draws, and on calls made of them.

    Raises:
        Miss: a result is another one.
        SubjectError: the candidate raised.
    """
    sized = exercise.sized(probe.rng)
    _usual(subject, exercise, probe)
    _of_any_size(subject, exercise, probe, sized)
    _thrice(subject, exercise, probe, sized)
    _one_array(subject, exercise, probe)
    _at_zero(subject, exercise, probe)


def _at_zero(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Compare gradients with the reference's where an argument is all zeros."""
    contract = exercise.contract
    if contract is None or not contract.gradients:
        return
    from attend_grader.checks.at_zero import at_zero

    usual = AS_DRAWN if exercise.related else ANY

    def taken(leaf: Leaf) -> bool:
        span = contract.ranges.get(root(leaf), usual)
        return span is not None and span[0] <= 0 <= span[1]

    zeros = at_zero(subject, probe, exercise.draws, named=contract.gradients, taken=taken)
    for call, what in zeros:
        _learns(subject, exercise, probe, call, what)


def _usual(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Fresh draws, draws cut to a length of 1, and wide calls.

    The wide ones come twice, with other numbers: a result that is kept would be overwritten.
    """
    drawn = list(exercise.draws(probe.rng))
    small = [] if exercise.related else list(_small(drawn, exercise))
    wide = [*exercise.wide(probe.rng), *exercise.wide(probe.rng)] if exercise.wide else []
    calls = [*drawn, *small, *wide]
    rights = [reference_on(exercise.reference, call)(call) for call in calls]
    both = zip(calls, rights, strict=True)
    asked = [(call, right.value) for call, right in both if usable(right)]
    came = subject.many([call for call, _ in asked])
    for (call, want), outcome in zip(asked, came, strict=True):
        trial = Trial(subject, probe, call)
        loss = _loss(trial, outcome, want)
        if loss is not None and all(
            _loss(trial, call.on(local(other)), want) is None
            for other in exercise.right_answers.values()
        ):  # else it is no call that every right answer fits: lengths may not belong together
            longest = max((n for leaf in trial.leaves() for n in leaf.value.shape), default=0)
            why = f"with an axis of {longest}" if any(call is each for each in wide) else ""
            raise loss if isinstance(loss, SubjectError) else loss.on("", why)
        if loss is None:
            _unchanged(exercise, trial, outcome, "")
    if exercise.contract is not None and exercise.contract.gradients:
        for call, outcome in zip(small, subject.many(small, graph=False), strict=True):
            _unchanged(exercise, Trial(subject, probe, call), outcome, "under torch.no_grad()")
        for place in probe.rng.permutation(len(small))[:PULLED]:
            _learns(subject, exercise, probe, small[place], "")


def _learns(subject: Subject, exercise: Exercise, probe: Probe, call: Call, what: str) -> None:
    """Hold the gradients of a call to being right, where those of all right answers are."""
    from attend_grader.checks.flow import wrong_gradients

    assert exercise.contract is not None
    named = exercise.contract.gradients
    loss = wrong_gradients(subject, probe, call, named, what)
    if loss is not None and all(
        wrong_gradients(local(other), probe, call, named, what) is None
        for other in exercise.right_answers.values()
    ):
        raise loss


def _of_any_size(
    subject: Subject, exercise: Exercise, probe: Probe, sized: Sequence[Sized]
) -> None:
    """Large, tiny and far numbers, zeros, long axes; numbers about those in the answer's text."""
    others = tuple(exercise.right_answers.values())
    benches: dict[int, tuple[Bench, Bench]] = {}
    tried: list[tuple[Sized, Exact, Bench]] = []
    text = subject.description.source or ""
    for each in (*sized, *exercise.aimed(text, probe.rng)):
        if id(each.base) not in benches:
            right = reference_on(exercise.reference, each.base)
            benches[id(each.base)] = right, Bench(subject, each.base)
        right, bench = benches[id(each.base)]
        exact = Exact(exercise.reference, others, each, right)
        if exact.usable:
            tried.append((each, exact, bench))
    graphs = [True, not (exercise.contract and exercise.contract.gradients)]
    turns = [graphs[place % 2] for place in range(len(tried))]
    for graph in set(turns):  # what is kept between calls may be kept without a graph only
        some = [one for one, turn in zip(tried, turns, strict=True) if turn is graph]
        run_ahead([(bench, each.call) for each, _, bench in some], graph=graph)
    for (each, exact, bench), graph in zip(tried, turns, strict=True):
        outcome = bench(each.call, graph=graph)
        trial = Trial(subject, probe, each.call)
        what = each.what if graph else f"{each.what}, under torch.no_grad()"
        if not exact.same(outcome) and exact.settled:
            raise _unlike(trial, what, exact, outcome)
        _unchanged(exercise, trial, outcome, what)


def _unchanged(exercise: Exercise, trial: Trial, outcome: Outcome, what: str) -> None:
    """Hold a call to leaving arguments and earlier results alone, where that is promised."""
    if exercise.contract is None or not exercise.contract.arguments_unchanged:
        return
    if outcome.mutated:
        named = [trial.names[i] if isinstance(i, int) else i for i in outcome.mutated]
        raise changes(named).on(trial.given(trial.call), what)
    if outcome.overwritten:
        raise overwrites().on(trial.given(trial.call), what)


AGAIN = (
    "called again, after what it returned at first was written over",
    "called again with the same arrays, which hold other numbers now",
)
FORMS = 2
"""Forms of a call that are tried three times."""

PLAIN = re.compile(r" (all zeros|= -?\d+)$")
"""Of what is special about a call: a result may be known without any work."""

KNOWN = 6
"""Such calls that are tried three times too."""


def _thrice(subject: Subject, exercise: Exercise, probe: Probe, sized: Sequence[Sized]) -> None:
    """Calls whose earlier result was written over, and whose arrays hold other numbers by then.

    A result that is kept for arguments seen before is handed out again; one that is kept for an
    array, and not for what that holds, is out of date.
    """
    both = [exercise.draws(np.random.default_rng(s)) for s in probe.rng.integers(2**32, size=2)]
    pairs = [
        (one, replaced(one, {leaf.path: leaf.value for leaf in leaves(other, ())}))
        for one, other in zip(*both, strict=True)
        if _plain(one)
        and _arrays(one) == _arrays(other)
        and (not exercise.related or _rest(one) == _rest(other))
    ]
    chosen = [pairs[place] for place in probe.rng.permutation(len(pairs))[:FORMS]]
    known = [each.call for each in sized if PLAIN.search(each.what)]
    known += [] if exercise.related else list(_small(both[0], exercise))
    known = [call for call in known if _plain(call)]
    known = [known[place] for place in probe.rng.permutation(len(known))[:KNOWN]]
    for one, other in (*chosen, *((call, call) for call in known)):
        _called_thrice(subject, exercise, probe, one, other, graph=True)
    if exercise.contract is not None and exercise.contract.gradients:
        for one, other in chosen:
            _called_thrice(subject, exercise, probe, one, other, graph=False)


def _plain(call: Call) -> bool:
    """Whether it is a call of a function."""
    return call.build is None and not call.launcher


def _called_thrice(
    subject: Subject, exercise: Exercise, probe: Probe, one: Call, other: Call, *, graph: bool
) -> None:
    """Call with the arguments of ``one``, again, and with its arrays holding those of ``other``."""
    rights = [reference_on(exercise.reference, call)(call) for call in (one, other)]
    if not all(map(usable, rights)):
        return
    arrays = [leaf.value for leaf in leaves(other, parameters_of(exercise.reference))]
    came = subject.run(one.args, one.kwargs, method=one.method, others=arrays, graph=graph)
    trial, mode = Trial(subject, probe, one), "" if graph else ", under torch.no_grad()"
    if came.error is not None:
        raise SubjectError(came.error, f"called three times{mode}: {trial.given(one)}")
    for what, value, call, right in zip(AGAIN, came.value, (one, other), rights, strict=True):
        text = f"{what}{mode}: the result has another form than before."
        if same_structure(value, right.value):
            found = _difference(Trial(subject, probe, call), value, right.value)
            if found is None:
                continue
            place, mine, want = found
            text = f"{what}{mode}: {place} is {mine}, expected {want}."
        raise Miss(text, cause=KEPT, topic=KEPT).on(trial.given(call), "")


def _one_array(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Two arguments that are one and the same array."""
    if exercise.related:
        return
    asked: dict[tuple[str, str], tuple[Call, Call, str]] = {}
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
                asked.setdefault((one.name, two.name), (base, same, what))
    came = subject.many([same for _, same, _ in asked.values()])
    for (base, _, what), outcome in zip(asked.values(), came, strict=True):
        right = reference_on(exercise.reference, base)(base)
        trial = Trial(subject, probe, base)
        loss = _loss(trial, outcome, right.value) if usable(right) else None
        if loss is not None and all(
            _loss(trial, base.on(local(other)), right.value) is None
            for other in exercise.right_answers.values()
        ):
            raise loss if isinstance(loss, SubjectError) else loss.on("", what)


def _arrays(call: Call) -> list[tuple[Any, ...]]:
    """Places, shapes and types of a call's arrays."""
    return [(leaf.path, leaf.value.shape, str(leaf.value.dtype)) for leaf in leaves(call, ())]


def _rest(call: Call) -> str:
    """All that is no array."""
    blank = replaced(call, {leaf.path: None for leaf in leaves(call, ())})
    return f"{blank.args} {blank.kwargs}"


def _unlike(trial: Trial, what: str, exact: Exact, outcome: Outcome) -> Miss | SubjectError:
    """What is wrong with a result on a call of unusual size."""
    if outcome.error is not None:
        return SubjectError(outcome.error, f"{what}: {trial.given(trial.call)}")
    found = None
    if same_structure(outcome.value, exact.right.value):
        found = exact.difference(outcome.value)
    if found is None:
        text = "the result has another form than it should: a number, an array, a tuple?"
        return Miss(text, topic="form").on(trial.given(trial.call), what)
    index, place, mine, right = found
    alike = trial.alike()
    name = alike.name(index, len(parts(exact.right.value)))
    at = f"[{', '.join(map(str, place))}]" if place else ""
    text = f"wrong value: {name}{at} is {mine}, expected {right}."
    return Miss(text, topic=f"{what.split(' ', 1)[-1]} {name}").on(trial.given(trial.call), what)


def _loss(trial: Trial, outcome: Outcome, want: Any) -> Miss | SubjectError | None:
    """What is wrong with a result, if anything is."""
    if outcome.error is not None:
        return SubjectError(outcome.error, trial.given(trial.call))
    if not same_structure(outcome.value, want):
        text = "the result has another form than it should: a number, an array, a tuple?"
        return Miss(text, topic="form").on(trial.given(trial.call), "")
    found = _difference(trial, outcome.value, want)
    if found is None:
        return None
    place, mine, right = found
    miss = Miss(f"{place} is {mine}, expected {right}.", topic=place.split("[")[0])
    return miss.on(trial.given(trial.call), "")


def _difference(trial: Trial, got: Any, want: Any) -> tuple[str, str, str] | None:
    single = any(numbers(part).dtype.itemsize < 8 for part in parts(want))
    return trial.alike().difference(got, want, single=single)


def _small(drawn: Sequence[Call], exercise: Exercise) -> Iterator[Call]:
    """Of one draw of each form, every length cut to 1 in turn, in all arrays that have it."""
    made, seen = 0, set()
    for call in drawn:
        form = form_of(call)
        if form in seen:
            continue
        seen.add(form)
        arrays = leaves(call, parameters_of(exercise.reference, call.method))
        lengths = dict.fromkeys(n for leaf in arrays for n in leaf.value.shape if n > 1)
        fixed = {n for value in (call.parameters or {}).values() for n in value.shape}
        for length in lengths:
            if made == SMALL:
                return
            cut = replaced(call, {leaf.path: _cut(leaf.value, length) for leaf in arrays})
            if length not in fixed and _fits(exercise, call, cut, length):
                made += 1
                yield cut


def _cut(array: Any, length: int) -> Any:
    """Its first entry along each axis of this length."""
    return array[tuple(slice(0, 1) if n == length else slice(None) for n in array.shape)]


def _fits(exercise: Exercise, call: Call, cut: Call, length: int) -> bool:
    """Whether the result shrinks as the arguments did: else they broadcast by chance."""
    bench = reference_on(exercise.reference, call)
    before, after = bench(call), bench(cut)
    if not usable(before) or not usable(after):
        return False
    shapes = [[numbers(part).shape for part in parts(each.value)] for each in (before, after)]
    return [tuple(1 if n == length else n for n in shape) for shape in shapes[0]] == shapes[1]
