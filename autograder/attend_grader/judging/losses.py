"""What is wrong with a result, in a last look."""

from __future__ import annotations

from typing import Any

from attend_grader.checks.behaviour import same_structure
from attend_grader.checks.calls import numbers, parts
from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.subject import SubjectError, local
from attend_grader.checks.trials import Trial


def loss_of(trial: Trial, outcome: Outcome, want: Any) -> Miss | SubjectError | None:
    """What is wrong with a result, if anything is."""
    if outcome.error is not None:
        return SubjectError(outcome.error, trial.given(trial.call))
    if not same_structure(outcome.value, want):
        text = "the result has another form than it should: a number, an array, a tuple?"
        return Miss(text, topic="form").on(trial.given(trial.call), "")
    found = difference_of(trial, outcome.value, want)
    if found is None:
        return None
    place, mine, right = found
    miss = Miss(f"{place} is {mine}, expected {right}.", topic=place.split("[")[0])
    return miss.on(trial.given(trial.call), "")


def difference_of(trial: Trial, got: Any, want: Any) -> tuple[str, str, str] | None:
    """Where a result differs from the right one: the place, what came, what is right."""
    single = any(numbers(part).dtype.itemsize < 8 for part in parts(want))
    return trial.alike().difference(got, want, single=single)


def settled(exercise: Exercise, trial: Trial, want: Any) -> bool:
    """Whether every right answer comes to this: else it is no call that all of them take."""
    return all(
        loss_of(trial, trial.call.on(local(other)), want) is None
        for other in exercise.right_answers.values()
    )
