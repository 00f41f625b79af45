"""From a subject to a report: started? allowed? right? right given right parts? which slip?"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attend_grader import chapters
from attend_grader.compare import Miss, as_array
from attend_grader.diagnosis import diagnose
from attend_grader.exercise import Exercise, Probe
from attend_grader.explain import explain
from attend_grader.reading import (
    blank,
    forbidden_calls,
    leftover_raise,
    parameter_names,
    signature_problem,
)
from attend_grader.report import CALLED, Finding, Report, empty_report
from attend_grader.subject import Subject, SubjectError, local

GRADER_VERSION = "3"
"""Raised whenever the same submission and seed could score differently than before."""


def judge(subject: Subject, exercise: Exercise, seed: int, *, extra: bool) -> Report:
    """Check ``subject`` against ``exercise``.

    Args:
        subject: the candidate, local or remote.
        exercise: what it should do.
        seed: draws all random inputs; the same seed gives the same verdict.
        extra: run the additional cases used for grading.
    """
    worth = [(p.name, p.points) for p in exercise.properties]
    description = subject.description
    if not description.callable:
        kind = "class" if isinstance(exercise.reference, type) else "function"
        note = f"expected the {kind} {exercise.name}, but got a value of type {description.type}."
        return empty_report(exercise.id, worth, "invalid", note)
    if blank(description.source):
        return _not_started(exercise, worth)
    problem = signature_problem(description, exercise.reference)
    if problem:
        return empty_report(exercise.id, worth, "invalid", problem)
    found = forbidden_calls(description, exercise)
    if found:
        note = "Not allowed in this exercise: " + "; ".join(found) + ". Build it yourself."
        return empty_report(exercise.id, worth, "failed", note)

    findings = run_properties(subject, exercise, seed, extra=extra)
    if findings is None:
        left = leftover_raise(description.source)
        if left:
            return empty_report(exercise.id, worth, "failed", left)
        return _not_started(exercise, worth)
    chosen, mend = subject, ()
    if exercise.uses and not _all_passed(findings):
        chosen, findings, mend = _follow_through(subject, exercise, seed, extra, findings)
    passed = _all_passed(findings)
    name, explanation = (
        (None, "") if passed else diagnose(chosen, exercise, findings, seed, extra=extra)
    )
    if exercise.uses and not passed and name is None and not mend:
        name, explanation, found, mend = _diagnose_behind(subject, exercise, seed, extra)
        findings = found or findings
    earned = sum(f.earned for f in findings)
    return Report(
        exercise.id,
        tuple(findings),
        "passed" if passed else "partial" if earned else "failed",
        diagnosis=name,
        explanation=explanation,
        mend=mend,
        printed=subject.printed[0] if subject.printed else "",
        seed=seed,
    )


def run_properties(
    subject: Subject, exercise: Exercise, seed: int, *, extra: bool
) -> list[Finding] | None:
    """Test every property on its own random numbers.

    Returns:
        A finding for each; None where each call ended at a ``raise NotImplementedError``.
    """
    names = parameter_names(exercise.reference)
    findings: list[Finding] = []
    said: set[str] = set()
    unwritten = 0
    for prop in exercise.properties:
        rng = np.random.default_rng([seed, zlib.crc32(prop.name.encode())])
        probe = Probe(rng, exercise.reference, extra, names, exercise.results)
        try:
            prop.test(subject, probe)
        except Miss as miss:
            message, evidence = miss.message, miss.evidence
            topic, again = miss.topic or message, "the same as above"
        except SubjectError as failure:
            error = failure.error
            unwritten += error.type == "NotImplementedError" and error.own
            message, evidence = explain(error, results_of_earlier(exercise))
            if failure.given:
                evidence = ((CALLED, failure.given), *evidence)
            topic = f"{error.type} {list(error.lines)[-1:]}" if error.lines else message
            again = "the same error, in the same line" if error.lines else "the same as above"
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # the check's own
            message = (
                "this check can make nothing of what your function returned "
                f"({type(error).__name__}: {error}). Compare it with what the exercise asks for."
            )
            evidence, topic, again = (), message, "the same as above"
        else:
            findings.append(Finding(prop.name, prop.points, prop.points))
            continue
        if topic in said:
            message, evidence = again, ()
        said.add(topic)
        findings.append(Finding(prop.name, prop.points, 0, message, evidence))
    return None if unwritten == len(exercise.properties) else findings


def results_of_earlier(exercise: Exercise) -> dict[str, tuple[str, ...]]:
    """What the earlier functions that ``exercise`` may call return, where that is several."""
    known = chapters.references(exercise)
    return {name: known[name].results for name in exercise.uses if known[name].results}


def references_for(exercise: Exercise, known: Mapping[str, Exercise]) -> dict[str, Callable]:
    """References of the earlier exercises that ``exercise`` may call, by name."""
    return {name: known[name].reference for name in exercise.uses}


def _follow_through(
    subject: Subject, exercise: Exercise, seed: int, extra: bool, own: list[Finding]
) -> tuple[Subject, list[Finding], tuple[str, ...]]:
    """Check again with references for what it calls; keep that result where it is better."""

    def run(names: tuple[str, ...]) -> tuple[Subject, list[Finding]]:
        variant = subject.with_references(names)
        return variant, run_properties(variant, exercise, seed, extra=extra) or own

    variant, findings = run(exercise.uses)
    best = _earned(findings)
    if best <= _earned(own):
        return subject, own, ()
    for name in exercise.uses:
        alone, with_one = run((name,))
        if _earned(with_one) == best:
            return alone, with_one, (name,)
    return variant, findings, exercise.uses


def _diagnose_behind(
    subject: Subject, exercise: Exercise, seed: int, extra: bool
) -> tuple[str | None, str, list[Finding], tuple[str, ...]]:
    """Name the candidate's own slip where slips in what it calls hide it and its points.

    Returns:
        the misconception, its explanation, the findings with references in place, and the
        earlier exercises without which it stays hidden; nothing of it where none is found.
    """

    def named(names: tuple[str, ...]) -> tuple[str | None, str, list[Finding]]:
        variant = subject.with_references(names)
        findings = run_properties(variant, exercise, seed, extra=extra) or []
        return *diagnose(variant, exercise, findings, seed, extra=extra), findings

    name, explanation, findings = named(exercise.uses)
    if name is None:
        return None, "", [], ()
    needed = exercise.uses
    for one in exercise.uses:
        without = tuple(n for n in needed if n != one)
        if named(without)[0] == name:
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
    if blank(subject.description.source):
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
        if not _finite(outcome.value):
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
