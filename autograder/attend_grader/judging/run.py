"""Running an exercise's properties on a subject: what each earned, and what to say of a failure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from attend_grader import chapters
from attend_grader.checks.calls import parameters_of
from attend_grader.checks.compare import CALLED, Miss
from attend_grader.checks.contract import GRADIENTS, UNCHANGED
from attend_grader.checks.exercise import Exercise, Probe, Property, Test
from attend_grader.checks.outcomes import Logged
from attend_grader.checks.probe import call_of
from attend_grader.checks.promises import CHANGES, OVERWRITES, changes
from attend_grader.checks.replay import describe_call
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.trials import KEPT
from attend_grader.inside.kernels import kernels_of
from attend_grader.judging.explain import explain
from attend_grader.judging.last_look import look
from attend_grader.judging.reading import parameter_names
from attend_grader.judging.report import Finding

NEEDED = 1 / 3
"""Share of an exercise's own points from which its promises count. They compare the candidate with
itself, and what returns zeros keeps every promise."""

AGAIN = "the same as above"
LAST_LOOK = "a last look"
NOT_YET = "this counts once a third of the points above are earned."


def run_properties(
    subject: Subject,
    exercise: Exercise,
    seed: int,
    *,
    extra: bool,
    slow: bool = True,
    kept: Sequence[Finding] = (),
    changing: Sequence[Logged] = (),
) -> list[Finding] | None:
    """Test every property on its own random numbers; without ``slow``, only those that are quick.

    Those that hold among the findings ``kept`` are not tested again; the calls ``changing``, which
    changed an argument before, are made again.

    Returns:
        A finding for each; None where each call ended at a ``raise NotImplementedError``.
    """
    findings: list[Finding] = []
    said: set[str] = set()
    unwritten = 0
    tried = [prop for prop in exercise.properties if slow or not prop.slow]
    own = [prop for prop in tried if not prop.promise]
    needed = NEEDED * sum(prop.points for prop in own)
    held = {finding.property: finding for finding in kept if finding.passed}
    subject.log.clear()

    def probe(name: str) -> Probe:
        return _probe(exercise, name, seed, extra)

    begun: dict[str, Test] = {}
    quiet = replace(subject, printed=[])  # it is told of usual calls what they print
    for prop in tried:
        if prop.begin is not None and prop.name not in held:
            with suppress(Miss, SubjectError):  # the test itself will tell
                begun[prop.name] = prop.begin(quiet, probe(prop.name))

    for prop in (*own, *(prop for prop in tried if prop.promise)):
        if prop.promise and sum(f.earned for f in findings[: len(own)]) < needed:
            findings.append(Finding(prop.name, prop.points, 0, NOT_YET, reason=NOT_YET))
            continue
        if prop.name in held:
            findings.append(held[prop.name])
            continue
        test, made = begun.get(prop.name, prop.test), probe(prop.name)
        loss = _tested(lambda test=test, made=made: test(subject, made), exercise)
        if loss is None:
            findings.append(Finding(prop.name, prop.points, prop.points))
            continue
        unwritten += loss.unwritten
        findings.append(loss.finding(prop, said))
    if unwritten == len(own):
        return None
    places = {prop.name: place for place, prop in enumerate(exercise.properties)}
    subject.many([call_of(each) for each in changing])
    changed = _changed(subject, exercise)
    for place, finding in enumerate(findings):
        if changed is not None and finding.passed and finding.property == UNCHANGED:
            prop = exercise.properties[places[finding.property]]
            findings[place] = changed.finding(prop, said)
    kernels = kernels_of(exercise.reference)  # traced, their properties look at every call
    alike = not kernels and not exercise.open_ended  # of a design, several results are right
    if own and alike and all(finding.passed for finding in findings):
        loss = _tested(lambda: look(subject, exercise, probe(LAST_LOOK)), exercise)
        if loss is not None:
            place = _most_fitting([finding.property for finding in findings], own, loss.topic)
            told = f"{LAST_LOOK}, at other inputs: {loss.message}"
            loss = replace(loss, message=told, reason=f"{LAST_LOOK}: {loss.reason}")
            prop = exercise.properties[places[findings[place].property]]
            findings[place] = loss.finding(prop, said)
    return findings


def _most_fitting(names: Sequence[str], own: Sequence[Property], topic: str) -> int:
    """Which property is lost where the last look finds something: the last about values, mostly."""
    if topic in (CHANGES, OVERWRITES, KEPT) and UNCHANGED in names:
        return names.index(UNCHANGED)
    reach = [place for place, name in enumerate(names) if name.startswith(GRADIENTS)]
    if reach and ("gradient" in topic or "graph" in topic):
        return reach[0]
    for kind in (True, None):
        places = [place for place, prop in enumerate(own) if prop.fresh is kind]
        if places:
            return places[-1]
    return len(own) - 1


def passes(
    subject: Subject, exercise: Exercise, names: Collection[str], seed: int, *, extra: bool
) -> bool:
    """Whether a subject passes the named properties; the first that it does not ends the search."""
    return all(
        _tested(
            lambda prop=prop: prop.test(subject, _probe(exercise, prop.name, seed, extra)), exercise
        )
        is None
        for prop in exercise.properties
        if prop.name in names
    )


def loss(subject: Subject, exercise: Exercise, name: str, seed: int, *, extra: bool) -> str:
    """Why a subject loses a property, or ""."""
    prop = next(prop for prop in exercise.properties if prop.name == name)
    probe = _probe(exercise, name, seed, extra)
    found = _tested(lambda: prop.test(subject, probe), exercise)
    return "" if found is None else found.reason


def _probe(exercise: Exercise, name: str, seed: int, extra: bool) -> Probe:
    """Random numbers for a property, its own."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    names = parameter_names(exercise.reference)
    return Probe(rng, exercise.reference, extra, names, exercise.results)


@dataclass(frozen=True)
class Loss:
    """Why a property is lost.

    Attributes:
        message: for the card.
        evidence: for the card.
        topic: losses of one topic are told once.
        again: said the next time.
        reason: as in :class:`.report.Finding`.
        unwritten: whether a call ended at the stub's own ``raise NotImplementedError``.
    """

    message: str
    evidence: tuple[tuple[str, str], ...]
    topic: str
    again: str
    reason: str
    unwritten: bool = False

    def finding(self, prop: Property, said: set[str]) -> Finding:
        """The property's line; ``said`` are the topics so far."""
        message, evidence = self.message, self.evidence
        if self.topic in said:
            message, evidence = self.again, ()
        said.add(self.topic)
        return Finding(prop.name, prop.points, 0, message, evidence, self.reason)


def _tested(test: Callable[[], None], exercise: Exercise) -> Loss | None:
    """Run a test; None where it passes."""
    try:
        test()
    except Miss as miss:
        return _missed(miss)
    except SubjectError as failure:
        error = failure.error
        message, evidence = explain(error, results_of_earlier(exercise))
        if failure.given:
            evidence = ((CALLED, failure.given), *evidence)
        topic = f"{error.type} {list(error.lines)[-1:]}" if error.lines else message
        again = "the same error, in the same line" if error.lines else AGAIN
        stub = error.type == "NotImplementedError" and error.own
        return Loss(message, evidence, topic, again, f"raises {error.type}", stub)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # the check's own
        message = (
            "this check can make nothing of what your function returned "
            f"({type(error).__name__}: {error}). Compare it with what the exercise asks for."
        )
        return Loss(message, (), message, AGAIN, message)
    return None


def _missed(miss: Miss) -> Loss:
    topic = miss.topic or miss.message
    return Loss(miss.message, miss.evidence, topic, AGAIN, topic)


def _changed(subject: Subject, exercise: Exercise) -> Loss | None:
    """Of all calls that were made, one that changed an argument; None where there is none."""
    for logged in subject.log:
        if logged.outcome.mutated:
            names = parameters_of(exercise.reference, logged.method)
            named = [names[i] if isinstance(i, int) else i for i in logged.outcome.mutated]
            name = exercise.name if logged.method is None else f"{exercise.name}.{logged.method}"
            given = describe_call(name, names, logged.args, logged.kwargs)
            return _missed(changes(named).on(given, ""))
    return None


def results_of_earlier(exercise: Exercise) -> dict[str, tuple[str, ...]]:
    """What the earlier functions that ``exercise`` may call return, where that is several."""
    known = chapters.references(exercise)
    return {name: known[name].results for name in exercise.uses if known[name].results}
