"""A last look at an answer that every property lets pass: draws, small ones, and others in size.

What properties look for is what their authors thought of. An answer that is right gives what the
reference gives on any draw, as far as rounding allows; one that does not is wrong, whatever passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attend_grader.checks.behaviour import same_structure
from attend_grader.checks.calls import (
    Bench,
    Leaf,
    is_array,
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
from attend_grader.checks.promises import changes
from attend_grader.checks.sizes import ANY, AS_DRAWN, Sized
from attend_grader.checks.subject import Outcome, Subject, SubjectError, local
from attend_grader.checks.trials import KEPT, Trial, form_of

SMALL = 8
"""Calls with a length of 1 that are tried, at most."""


def look(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Compare a candidate with the reference on fresh draws, and on calls made of them.

    Raises:
        Miss: a result is another one.
        SubjectError: the candidate raised.
    """
    _usual(subject, exercise, probe)
    _of_any_size(subject, exercise, probe)
    _refilled(subject, exercise, probe)


def look_at_zero(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Compare gradients with the reference's where an argument is all zeros.

    Raises:
        Miss: one is missing or another one.
        SubjectError: the candidate raised.
    """
    contract = exercise.contract
    if contract is None or not contract.gradients:
        return
    from attend_grader.checks import flow

    usual = AS_DRAWN if exercise.related else ANY

    def taken(leaf: Leaf) -> bool:
        span = contract.ranges.get(root(leaf), usual)
        return span is not None and span[0] <= 0 <= span[1]

    others, named = tuple(exercise.right_answers.values()), contract.gradients
    flow.at_zero(subject, probe, exercise.draws, others, named=named, taken=taken)


def _usual(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Fresh draws, and draws cut to a length of 1."""
    drawn = list(exercise.draws(probe.rng))
    calls = drawn if exercise.related else [*drawn, *_small(drawn, exercise)]
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
            raise loss


def _refilled(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Draws in arrays that held others in the call before, as a weight does that is trained."""
    firsts, seconds = list(exercise.draws(probe.rng)), list(exercise.draws(probe.rng))
    pairs, seen = list[tuple[Call, Call]](), set()
    for first, second in zip(firsts, seconds, strict=False):
        here, there = (_frame((call.args, *call.kwargs.items())) for call in (first, second))
        if first.build is None and here == there and form_of(first) not in seen:
            seen.add(form_of(first))
            pairs.append((first, second))
    fresh, outcomes = subject.many([second for _, second in pairs]), subject.refilled(pairs)
    for (_, second), plain, outcome in zip(pairs, fresh, outcomes, strict=True):
        loss = None
        if usable(plain):
            loss = _loss(Trial(subject, probe, second), outcome, plain.value)
        if isinstance(loss, Miss):
            text = "called, then other numbers were written into the same arguments; called again"
            raise Miss(f"{text}: {loss.text}", loss.evidence, KEPT, KEPT)


def _frame(value: Any) -> Any:
    """All of a call but the numbers in its arrays."""
    if is_array(value):
        return numbers(value).shape, str(value.dtype)
    if isinstance(value, (tuple, list)):
        return tuple(map(_frame, value))
    return repr(value)


def _of_any_size(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Numbers large, tiny and far from 0, arguments of zeros, long axes."""
    others = tuple(exercise.right_answers.values())
    benches: dict[int, tuple[Bench, Bench]] = {}
    tried: list[tuple[Sized, Exact, Bench]] = []
    for each in exercise.sized(probe.rng):
        if id(each.base) not in benches:
            right = reference_on(exercise.reference, each.base)
            benches[id(each.base)] = right, Bench(subject, each.base)
        right, bench = benches[id(each.base)]
        exact = Exact(exercise.reference, others, each, right)
        if exact.usable:
            tried.append((each, exact, bench))
    run_ahead([(bench, each.call) for each, _, bench in tried])
    unchanged = exercise.contract is not None and exercise.contract.arguments_unchanged
    for each, exact, bench in tried:
        outcome = bench(each.call)
        if not exact.same(outcome) and exact.settled:
            raise _unlike(Trial(subject, probe, each.call), each.what, exact, outcome)
        if unchanged and outcome.mutated:
            named = [exact.names[i] if isinstance(i, int) else i for i in outcome.mutated]
            trial = Trial(subject, probe, each.call)
            raise changes(named).on(trial.given(each.call), each.what)


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
