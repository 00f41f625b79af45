"""Whether a candidate does something else on a call that it has had before."""

from __future__ import annotations

from collections.abc import Sequence

from attend_grader.checks.calls import usable
from attend_grader.checks.cases import Case
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.subject import Subject
from attend_grader.checks.trials import KEPT
from attend_grader.inside.kernels import kernels_of

MADE_AGAIN = 6
"""Calls that are made a second time, last ones first."""


def changes_its_mind(
    subject: Subject, exercise: Exercise, cases: Sequence[Case], seen: Sequence[Case]
) -> str:
    """Make some calls again; a sentence if one gives something else, or empty.

    Args:
        subject: the candidate.
        exercise: what it should do.
        cases: its calls; those that came to a wrong result are made again.
        seen: calls of the properties; right ones are made again where all ``cases`` raise.
    """
    if kernels_of(exercise.reference):  # interpreted: seconds
        return ""
    wrong = [case for case in cases if case.wrong and usable(case.got)][::-1][:MADE_AGAIN]
    again = subject.many([case.call for case in wrong])
    if any(
        usable(came) and not case.agrees(came.value)
        for case, came in zip(wrong, again, strict=True)
    ):
        return f"Called again with the same arguments, it gives another result. {KEPT}"
    if all(case.got.error is not None for case in cases):
        right = [case for case in seen if not case.wrong and case.call.build is None]
        for came in subject.many([case.call for case in right[::-1][:MADE_AGAIN]]):
            if came.error is not None:
                kind = f"{came.error.type} is raised"
                return f"Called again with arguments that it took before, {kind}. {KEPT}"
    return ""
