"""Running an exercise's properties on a subject: what each earned, and what to say of a failure."""

from __future__ import annotations

import zlib

import numpy as np

from attend_grader import chapters
from attend_grader.checks.compare import CALLED, Miss
from attend_grader.checks.exercise import Exercise, Probe
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.judging.explain import explain
from attend_grader.judging.reading import parameter_names
from attend_grader.judging.report import Finding

NEEDED = 1 / 3
"""Share of an exercise's own points from which its promises count. They compare the candidate with
itself, and what returns zeros keeps every promise."""

NOT_YET = "this counts once a third of the points above are earned."


def run_properties(
    subject: Subject, exercise: Exercise, seed: int, *, extra: bool, slow: bool = True
) -> list[Finding] | None:
    """Test every property on its own random numbers; without ``slow``, only those that are quick.

    Returns:
        A finding for each; None where each call ended at a ``raise NotImplementedError``.
    """
    names = parameter_names(exercise.reference)
    findings: list[Finding] = []
    said: set[str] = set()
    unwritten = 0
    tried = [prop for prop in exercise.properties if slow or not prop.slow]
    own = [prop for prop in tried if not prop.promise]
    needed = NEEDED * sum(prop.points for prop in own)
    for prop in (*own, *(prop for prop in tried if prop.promise)):
        if prop.promise and sum(f.earned for f in findings[: len(own)]) < needed:
            findings.append(Finding(prop.name, prop.points, 0, NOT_YET, reason=NOT_YET))
            continue
        rng = np.random.default_rng([seed, zlib.crc32(prop.name.encode())])
        probe = Probe(rng, exercise.reference, extra, names, exercise.results)
        try:
            prop.test(subject, probe)
        except Miss as miss:
            message, evidence = miss.message, miss.evidence
            topic, again = miss.topic or message, "the same as above"
            reason = topic
        except SubjectError as failure:
            error = failure.error
            unwritten += error.type == "NotImplementedError" and error.own
            message, evidence = explain(error, results_of_earlier(exercise))
            if failure.given:
                evidence = ((CALLED, failure.given), *evidence)
            topic = f"{error.type} {list(error.lines)[-1:]}" if error.lines else message
            reason = f"raises {error.type}"
            again = "the same error, in the same line" if error.lines else "the same as above"
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # the check's own
            message = (
                "this check can make nothing of what your function returned "
                f"({type(error).__name__}: {error}). Compare it with what the exercise asks for."
            )
            evidence, topic, again = (), message, "the same as above"
            reason = topic
        else:
            findings.append(Finding(prop.name, prop.points, prop.points))
            continue
        if topic in said:
            message, evidence = again, ()
        said.add(topic)
        findings.append(Finding(prop.name, prop.points, 0, message, evidence, reason))
    return None if unwritten == len(own) else findings


def results_of_earlier(exercise: Exercise) -> dict[str, tuple[str, ...]]:
    """What the earlier functions that ``exercise`` may call return, where that is several."""
    known = chapters.references(exercise)
    return {name: known[name].results for name in exercise.uses if known[name].results}
