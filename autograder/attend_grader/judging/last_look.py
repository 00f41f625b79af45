"""A last look at an answer that every property lets pass: draws, small, wide and of other size.

What properties look for is what their authors thought of. An answer that is right gives what the
reference gives on any draw, as far as rounding allows; one that does not is wrong, whatever passed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attend_grader.checks.behaviour import same_structure
from attend_grader.checks.calls import (
    Bench,
    Leaf,
    parts,
    reference_on,
    run_ahead,
    usable,
)
from attend_grader.checks.compare import Miss
from attend_grader.checks.exact import Exact
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.leading import root
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call, Learning, Probe
from attend_grader.checks.promises import changes, overwrites
from attend_grader.checks.sizes import ANY, AS_DRAWN, Sized
from attend_grader.checks.subject import Subject, SubjectError, local
from attend_grader.checks.trials import Trial
from attend_grader.inside.kernels import launches
from attend_grader.judging.kept import many, nearly_the_same, one_array, passed_back, thrice
from attend_grader.judging.losses import loss_of, settled
from attend_grader.judging.small import small_calls

MOST = 110
"""Calls of other sizes that are tried; where there are more, as many are drawn of them."""

PULLED = 3
"""Calls with a length of 1 whose gradients are looked at."""


def look(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Compare a candidate with the reference on fresh draws, and on calls made of them.

    Raises:
        Miss: a result is another one.
        SubjectError: the candidate raised.
    """
    sized = exercise.sized(probe.rng)
    _usual(subject, exercise, probe)
    if launches(exercise.reference):  # kernels by way of other functions: interpreted, seconds
        return
    _of_any_size(subject, exercise, probe, sized)
    thrice(subject, exercise, probe, sized)
    many(subject, exercise, probe)
    nearly_the_same(subject, exercise, probe)
    one_array(subject, exercise, probe)
    passed_back(subject, exercise, probe)
    _at_zero(subject, exercise, probe)


def _at_zero(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Compare gradients with the reference's where an argument is all zeros."""
    contract = exercise.contract
    if contract is None or not contract.gradients:
        return
    from attend_grader.checks.at_zero import at_large, at_zero

    usual = AS_DRAWN if exercise.related else ANY

    def taken(leaf: Leaf) -> bool:
        span = contract.ranges.get(root(leaf), usual)
        return span is not None and span[0] <= 0 <= span[1]

    zeros = at_zero(subject, probe, exercise.draws, named=contract.gradients, taken=taken)
    calls = [Learning(call, what) for call, what in zeros]

    def far(leaf: Leaf) -> bool:
        span = contract.ranges.get(root(leaf), usual)
        return span is not None and span[1] == math.inf

    large = at_large(subject, probe, exercise.draws, named=contract.gradients, taken=far)
    calls += [Learning(call, what, finite=True) for call, what in large]
    _learns(subject, exercise, probe, calls)


def _usual(subject: Subject, exercise: Exercise, probe: Probe) -> None:
    """Fresh draws, and draws cut to a length of 1 and wide calls.

    These come twice, with other numbers: a result that is kept would be overwritten. Small calls
    of modules come once, as their parameters are new each time, and those that launch kernels.
    """
    drawn = list(exercise.draws(probe.rng))
    small: list[tuple[Call, Outcome]] = []
    if not exercise.related:
        small += small_calls(drawn, exercise)
        again = [] if launches(exercise.reference) else exercise.draws(probe.rng)
        small += small_calls([call for call in again if call.build is None], exercise)
    wide = [*exercise.wide(probe.rng), *exercise.wide(probe.rng)] if exercise.wide else []
    both = [(call, reference_on(exercise.reference, call)(call)) for call in (*drawn, *wide)]
    asked = [(call, right.value) for call, right in (*both, *small) if usable(right)]
    came = subject.many([call for call, _ in asked])
    for (call, want), outcome in zip(asked, came, strict=True):
        trial = Trial(subject, probe, call)
        loss = loss_of(trial, outcome, want)
        if loss is not None and settled(exercise, trial, want):  # lengths may belong together
            longest = max((n for leaf in trial.leaves() for n in leaf.value.shape), default=0)
            why = f"with an axis of {longest}" if any(call is each for each in wide) else ""
            raise loss if isinstance(loss, SubjectError) else loss.on("", why)
        if loss is None:
            _unchanged(exercise, trial, outcome, "")
    if exercise.contract is not None and exercise.contract.gradients:
        cuts = [call for call, _ in small]
        for call, outcome in zip(cuts, subject.many(cuts, graph=False), strict=True):
            _unchanged(exercise, Trial(subject, probe, call), outcome, "under torch.no_grad()")
        some = probe.rng.permutation(len(cuts))[:PULLED]
        _learns(subject, exercise, probe, [Learning(cuts[place], "") for place in some])


def _learns(subject: Subject, exercise: Exercise, probe: Probe, calls: Sequence[Learning]) -> None:
    """Hold the gradients of calls to being right, where those of all right answers are."""
    from attend_grader.checks.flow import wrong_gradients

    assert exercise.contract is not None
    named, others = exercise.contract.gradients, exercise.right_answers.values()
    for each, loss in zip(calls, wrong_gradients(subject, probe, calls, named), strict=True):
        if loss is not None and not any(
            any(wrong_gradients(local(other), probe, [each], named)) for other in others
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
    some = sorted(probe.rng.permutation(len(sized))[:MOST])
    for each in (*(sized[place] for place in some), *exercise.aimed(text, probe.rng)):
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
