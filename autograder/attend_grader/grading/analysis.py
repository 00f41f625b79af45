"""What a class's results say: pure functions of its records.

Facility of an exercise: p = (mean score) / (points), 0 to 1; high is easy. Discrimination: the
corrected item-total correlation, r = corr(x, T − x), with x the scores of the exercise and T those
of the whole assignment: whether those who do well elsewhere do well here. Both as in Crocker and
Algina, Introduction to Classical and Modern Test Theory (1986), chapter 14. r is not defined where
x or T − x does not vary, nor for fewer than three students. Its interval is Fisher's, by the
hyperbolic tangent, which takes scores for normally distributed: a rough one.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from attend_grader.grading.record import Record
from attend_grader.grading.submission import Verdict

EASY, HARD = 0.95, 0.3
"""An exercise of a facility beyond these tells little about who can do it."""

WEAK, GOOD = 0.2, 0.4
"""A discrimination below the first is called poor, from the second on very good (Ebel and Frisbie,
Essentials of Educational Measurement, 5th ed., 1991, chapter 13, for their index D)."""

ENOUGH = 8
"""Fewer students than this have no outliers: there is nothing to lie outside of."""


@dataclass(frozen=True)
class Item:
    """One exercise over the class; ``facility`` and ``discrimination`` are None if undefined."""

    exercise: str
    points: float
    mean: float
    facility: float | None
    discrimination: float | None
    started: int
    solved: int
    graded: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the discrimination may well lie (95 %); None where that cannot be said."""
        if self.discrimination is None or self.graded < 4:
            return None
        middle = math.atanh(min(max(self.discrimination, -0.999999), 0.999999))
        reach = 1.96 / math.sqrt(self.graded - 3)
        return math.tanh(middle - reach), math.tanh(middle + reach)

    @property
    def reading(self) -> str:
        """Both indices in plain words."""
        p, r = self.facility, self.discrimination
        if p is None:
            return "worth no points"
        if p >= EASY:
            return "too easy to tell learners apart"
        if p <= HARD:  # who did not begin has no points, which says nothing of hard or easy
            return (
                "most did not begin it" if 2 * self.started < self.graded else "too hard for most"
            )
        ease = "easy" if p >= 0.8 else "hard" if p < 0.5 else "neither easy nor hard"
        if r is None:
            return ease
        if r < 0:
            return f"{ease}; who does well elsewhere does worse here: see whether it is clear"
        if r < WEAK:
            return f"{ease}; says little about the rest: see whether it is clear"
        return f"{ease}; who does well elsewhere {'clearly ' if r >= GOOD else ''}does better here"

    @property
    def odd(self) -> bool:
        """Whether an instructor might look at it."""
        p, r = self.facility, self.discrimination
        return p is not None and (p >= EASY or p <= HARD or (r is not None and r < WEAK))


@dataclass(frozen=True)
class Loss:
    """Points lost by one property: ``mean`` per submission in which the exercise was begun."""

    exercise: str
    property: str
    points: float
    mean: float
    students: tuple[str, ...]


@dataclass(frozen=True)
class Misconception:
    """A named slip and who shows it."""

    exercise: str
    name: str
    explanation: str
    students: tuple[str, ...]


@dataclass(frozen=True)
class Remark:
    """Something about one student."""

    student: str
    text: str


@dataclass(frozen=True)
class Analysis:
    """All of it, in the order in which the page shows it."""

    students: tuple[str, ...]
    points: float
    totals: dict[str, float]
    items: tuple[Item, ...]
    losses: tuple[Loss, ...]
    misconceptions: tuple[Misconception, ...]
    outliers: tuple[Remark, ...]
    stopped: tuple[Remark, ...]
    flags: tuple[Remark, ...]


def analyse(records: Sequence[Record]) -> Analysis:
    """Everything at once; ``records`` are the current ones, one for each student and notebook."""
    graded = [record for record in records if not record.problem]
    totals: dict[str, float] = defaultdict(float)
    for record in graded:
        totals[record.student] += record.score
    items = _items(graded, totals)
    return Analysis(
        students=tuple(sorted({record.student for record in records}, key=str.casefold)),
        points=sum(item.points for item in items),
        totals=dict(totals),
        items=items,
        losses=_losses(graded),
        misconceptions=_misconceptions(graded),
        outliers=_outliers(graded, totals, items),
        stopped=_stopped(records),
        flags=tuple(
            Remark(record.student, flag)
            for record in sorted(records, key=lambda record: record.student.casefold())
            for flag in record.flags
        ),
    )


def exercise_of(record: Record, verdict: Verdict) -> str:
    """How the exercise is called: its check's name; the notebook's before it where they differ."""
    name = verdict.name.removeprefix("check-")
    return name if record.notebook == record.assignment else f"{record.notebook}/{name}"


def discrimination(scores: Sequence[float], totals: Sequence[float]) -> float | None:
    """The corrected item-total correlation, or None where it is not defined."""
    rests = [total - score for score, total in zip(scores, totals, strict=True)]
    if len(scores) < 3 or len(set(scores)) == 1 or max(rests) - min(rests) < 1e-9:
        return None
    return statistics.correlation(scores, rests)


def _verdicts(records: Sequence[Record]) -> dict[str, list[tuple[str, Verdict]]]:
    found: dict[str, list[tuple[str, Verdict]]] = {}
    for record in records:
        for verdict in record.verdicts:
            found.setdefault(exercise_of(record, verdict), []).append((record.student, verdict))
    return found


def _items(records: Sequence[Record], totals: dict[str, float]) -> tuple[Item, ...]:
    items = []
    for exercise, verdicts in _verdicts(records).items():
        scores = [verdict.score for _, verdict in verdicts]
        points = max(verdict.points for _, verdict in verdicts)
        mean = statistics.fmean(scores)
        items.append(
            Item(
                exercise,
                points,
                mean,
                mean / points if points else None,
                discrimination(scores, [totals[student] for student, _ in verdicts]),
                sum(verdict.reason != "NOT_STARTED" for _, verdict in verdicts),
                sum(verdict.reason == "PASSED" for _, verdict in verdicts),
                len(verdicts),
            )
        )
    return tuple(items)


def _losses(records: Sequence[Record]) -> tuple[Loss, ...]:
    losses = []
    for exercise, verdicts in _verdicts(records).items():
        begun = [(s, v.report) for s, v in verdicts if v.report and v.reason != "NOT_STARTED"]
        missed: dict[str, dict[str, float]] = {}
        worth: dict[str, float] = {}
        for student, report in begun:
            for finding in report.findings:
                worth[finding.property] = finding.points
                if not finding.passed:
                    lost = finding.points - finding.earned
                    missed.setdefault(finding.property, {})[student] = lost
        for name, by in missed.items():
            mean = sum(by.values()) / len(begun)
            losses.append(
                Loss(exercise, name, worth[name], mean, tuple(sorted(by, key=str.casefold)))
            )
    return tuple(sorted(losses, key=lambda loss: -loss.mean))


def _misconceptions(records: Sequence[Record]) -> tuple[Misconception, ...]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    explained: dict[tuple[str, str], str] = {}
    for exercise, verdicts in _verdicts(records).items():
        for student, verdict in verdicts:
            if verdict.report is not None and verdict.report.diagnosis:
                key = exercise, verdict.report.diagnosis
                found[key].append(student)
                explained[key] = verdict.report.explanation
    named = [
        Misconception(*key, explained[key], tuple(sorted(who, key=str.casefold)))
        for key, who in found.items()
    ]
    return tuple(sorted(named, key=lambda m: -len(m.students)))


def _outliers(
    records: Sequence[Record], totals: dict[str, float], items: Sequence[Item]
) -> tuple[Remark, ...]:
    """Who began nothing; totals beyond Tukey's fences; exercises unlike a student's others."""
    idle = {r.student for r in records} - {
        r.student for r in records if any(v.reason != "NOT_STARTED" for v in r.verdicts)
    }
    found = [Remark(student, "began nothing") for student in idle]
    if len(totals) >= ENOUGH:
        found += _far(totals, idle, sum(item.points for item in items))
        found += _unlike(records, totals, {item.exercise: item for item in items})
    return tuple(sorted(found, key=lambda remark: remark.student.casefold()))


def _far(totals: dict[str, float], idle: set[str], points: float) -> list[Remark]:
    low, _, high = statistics.quantiles(totals.values(), n=4, method="inclusive")
    reach = max(1.5 * (high - low), 0.1 * points)  # in a class of equals one point is not far
    return [
        Remark(student, f"{total:g} points: far {where} the middle half, {low:g} to {high:g}")
        for student, total in totals.items()
        for where, far in (("below", total < low - reach), ("above", total > high + reach))
        if far and student not in idle
    ]


def _unlike(
    records: Sequence[Record], totals: dict[str, float], items: dict[str, Item]
) -> list[Remark]:
    found = []
    points = sum(item.points for item in items.values())
    for exercise, verdicts in _verdicts(records).items():
        p, rest = items[exercise].facility, points - items[exercise].points
        for student, verdict in verdicts:
            if p is None or not rest or verdict.reason == "NOT_STARTED":
                continue
            elsewhere = totals[student] - verdict.score
            said = f"{elsewhere:g} of {rest:g} points elsewhere, but"
            if p >= 0.7 and not verdict.score and elsewhere >= 0.75 * rest:
                found.append(Remark(student, f"{said} nothing for `{exercise}` (p = {p:.2f})"))
            if p <= 0.5 and verdict.reason == "PASSED" and elsewhere <= 0.4 * rest:
                found.append(Remark(student, f"{said} all of `{exercise}` (p = {p:.2f})"))
    return found


def _stopped(records: Sequence[Record]) -> tuple[Remark, ...]:
    found = [Remark(r.student, f"Not graded: {r.problem}") for r in records if r.problem]
    for exercise, verdicts in _verdicts([r for r in records if not r.problem]).items():
        for student, verdict in verdicts:
            if verdict.reason in ("TIMEOUT", "MEMORY", "CRASH", "INVALID"):
                note = verdict.report.note if verdict.report else verdict.error
                found.append(
                    Remark(student, f"`{exercise}`: {verdict.reason}. {note or ''}".strip())
                )
    return tuple(sorted(found, key=lambda remark: remark.student.casefold()))
