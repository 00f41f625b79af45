"""From a subject to a report: started? allowed? right, with earlier parts right? which slip?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from attend_grader.checks.again import MADE_AGAIN
from attend_grader.checks.compare import as_array
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.subject import Subject, local
from attend_grader.checks.symptoms import symptom
from attend_grader.checks.trials import KEPT
from attend_grader.checks.wording import MARKED, corrected
from attend_grader.inside.settings import usual_settings
from attend_grader.judging.diagnose import diagnose, shows
from attend_grader.judging.reading import (
    blank,
    forbidden_calls,
    leftover_raise,
    signature_problem,
)
from attend_grader.judging.report import Finding, Report, empty_report
from attend_grader.judging.run import AGAIN, NOT_YET, passes, run_properties

OF_GRADIENTS = re.compile(r"(?:^|: )(?:(?:the )?gradient of |no gradient reaches )")
"""In messages about what came out of a backward pass."""


def judge(subject: Subject, exercise: Exercise, seed: int, *, extra: bool) -> Report:
    """Check ``subject`` against ``exercise``.

    Args:
        subject: the candidate, local or remote.
        exercise: what it should do.
        seed: draws all random inputs; the same seed gives the same verdict.
        extra: run the additional cases used for grading.
    """
    subject.forbid(exercise.forbidden)
    try:
        with usual_settings():  # in a notebook, oracles run in the learner's process
            return _judged(subject, exercise, seed, extra)
    finally:
        with suppress(Exception):  # the process may be gone, which is told already
            subject.forbid(())


def _judged(subject: Subject, exercise: Exercise, seed: int, extra: bool) -> Report:
    worth = [(p.name, p.points) for p in exercise.properties]
    description = subject.description
    if not description.callable:
        kind = "class" if isinstance(exercise.reference, type) else "function"
        note = f"expected the {kind} {exercise.name}, but got a value of type {description.type}."
        return empty_report(exercise.id, worth, "invalid", note)
    if blank(description.source, exercise.reference):
        return _not_started(exercise, worth)
    problem = signature_problem(description, exercise.reference)
    if problem:
        return empty_report(exercise.id, worth, "invalid", problem)
    found = forbidden_calls(description, exercise)
    if found:
        advice = exercise.contract.instead if exercise.contract else ""
        note = f"Not allowed in this exercise: {'; '.join(found)}. {advice}".strip()
        return empty_report(exercise.id, worth, "failed", note)

    findings = run_properties(subject, exercise, seed, extra=extra)
    if findings is None:
        left = leftover_raise(description.source)
        if left:
            return empty_report(exercise.id, worth, "failed", left)
        return _not_started(exercise, worth)
    chosen, fix_first = subject, ()
    if exercise.uses and not _all_passed(findings):
        chosen, findings, fix_first = _follow_through(subject, exercise, seed, extra, findings)
    passed = _all_passed(findings)
    name, explanation = (
        (None, "") if passed else diagnose(chosen, exercise, findings, seed, extra=extra)
    )
    if exercise.uses and not passed and name is None and not fix_first:
        name, explanation, found, fix_first = _diagnose_behind(subject, exercise, seed, extra)
        findings = found or findings
    earned = sum(f.earned for f in findings)
    related = None if passed or name else _symptom(chosen, exercise, findings)
    if related and KEPT not in related and any(KEPT in finding.reason for finding in findings):
        related = None  # what was written over an earlier result may be what came back
    if related and _gradients_only(findings):
        related = related.replace(MARKED, "; gradients are not, as marked below.")
    elif related and _values_are_wrong(exercise, findings):
        related = corrected(related)
    return Report(
        exercise.id,
        tuple(findings),
        "passed" if passed else "partial" if earned else "failed",
        diagnosis=name,
        explanation=explanation,
        symptom=related,
        fix_first=fix_first,
        printed=subject.printed[0] if subject.printed else "",
        seed=seed,
    )


def _values_are_wrong(exercise: Exercise, findings: Sequence[Finding]) -> bool:
    """Whether a check of values failed, and not only one of a promise."""
    own = {prop.name for prop in exercise.properties if not prop.promise}
    lost = [f.message for f in findings if f.property in own and not OF_GRADIENTS.search(f.message)]
    return any("wrong value" in message for message in lost)


def _gradients_only(findings: Sequence[Finding]) -> bool:
    """Whether all that failed is about gradients, or happened where they were asked for."""
    told = [f for f in findings if not f.passed and f.message not in (AGAIN, NOT_YET)]
    return bool(told) and all(
        OF_GRADIENTS.search(f.message)
        or (f.reason.startswith("raises ") and "gradient" in f.property)
        for f in told
    )


def _symptom(subject: Subject, exercise: Exercise, findings: Sequence[Finding]) -> str | None:
    """What can be said of the results where no slip matches; never in the way of a verdict."""
    raised = any(finding.reason.startswith("raises ") for finding in findings)
    try:
        return symptom(subject, exercise, raised=raised)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # what came makes no sense to a comparison: the rows say what it is


def references_for(exercise: Exercise, known: Mapping[str, Exercise]) -> dict[str, Callable]:
    """References of the earlier exercises that ``exercise`` may call, by name."""
    return {name: known[name].reference for name in exercise.uses}


def _follow_through(
    subject: Subject, exercise: Exercise, seed: int, extra: bool, own: list[Finding]
) -> tuple[Subject, list[Finding], tuple[str, ...]]:
    """Check what it loses again, with references for what it calls; keep what is better."""

    changing = [each for each in subject.log if each.outcome.mutated][:MADE_AGAIN]

    def run(names: tuple[str, ...]) -> tuple[Subject, list[Finding]]:
        variant = subject.with_references(names)
        more: dict[str, Any] = {"kept": own, "changing": changing}
        return variant, run_properties(variant, exercise, seed, extra=extra, **more) or own

    variant, findings = run(exercise.uses)
    best = _earned(findings)
    if best <= _earned(own):
        return subject, own, ()
    if len(exercise.uses) == 1:
        return variant, findings, exercise.uses
    more = [f.property for f, was in zip(findings, own, strict=True) if f.earned > was.earned]
    promises = {prop.name for prop in exercise.properties if prop.promise}
    gained = set(more) - promises or set(more)  # promises count from some points on
    if passes(subject, exercise, gained, seed, extra=extra):  # the last look took the points
        for name in exercise.uses:
            alone, with_one = run((name,))
            if _earned(with_one) == best:
                return alone, with_one, (name,)
        return variant, findings, exercise.uses
    for name in exercise.uses:
        if passes(subject.with_references((name,)), exercise, gained, seed, extra=extra):
            return variant, findings, (name,)
    return variant, findings, exercise.uses


def _diagnose_behind(
    subject: Subject, exercise: Exercise, seed: int, extra: bool
) -> tuple[str | None, str, list[Finding], tuple[str, ...]]:
    """Name the candidate's own slip where slips in what it calls hide it and its points.

    Returns:
        the misconception, its explanation, the findings with references in place, and the
        earlier exercises without which it stays hidden; nothing of it where none is found.
    """
    variant = subject.with_references(exercise.uses)
    findings = run_properties(variant, exercise, seed, extra=extra) or []
    name, explanation = diagnose(variant, exercise, findings, seed, extra=extra)
    if name is None:
        return None, "", [], ()
    needed = exercise.uses
    for one in exercise.uses:
        without = tuple(n for n in needed if n != one)
        if shows(subject.with_references(without), exercise, name):
            needed = without
    return name, explanation, findings, needed


def _not_started(exercise: Exercise, worth: list[tuple[str, int]]) -> Report:
    note = f"Write the body of {exercise.name}, run its cell, then run this check again."
    return empty_report(exercise.id, worth, "not started", note)


def _earned(findings: list[Finding]) -> int:
    return sum(f.earned for f in findings)


def _all_passed(findings: list[Finding]) -> bool:
    return all(f.passed for f in findings)


def smoke(subject: Subject, exercise: Exercise) -> str:
    """Why ``subject`` cannot be used by a picture yet, or an empty string.

    Wrong values are no reason: a learner should see what a wrong function does.
    """
    if not subject.description.callable:
        return "is not a function"
    if blank(subject.description.source, exercise.reference):
        return "is not started"
    for call in exercise.draws(np.random.default_rng(0))[:2]:
        outcome = call.on(subject)
        if outcome.error is not None:
            if outcome.error.type != "NotImplementedError":
                return f"raises {outcome.error.type}"
            left = leftover_raise(subject.description.source) if outcome.error.own else ""
            return "still holds its `raise NotImplementedError()`" if left else "is not started"
        want = call.on(local(exercise.reference)).value
        if _form(outcome.value) != _form(want):
            return "returns the wrong shape"
        if _finite(want) and not _finite(outcome.value):
            return "returns NaN or infinite numbers"
    return ""


def _finite(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_finite(item) for item in value)
    array = np.asarray(value) if isinstance(value, float) else as_array(value)
    return array is None or bool(np.isfinite(array).all())


def _form(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_form(item) for item in value]
    return getattr(value, "shape", ()) if not isinstance(value, (str, type(None))) else type(value)
