"""Scores in the shapes that other systems import.

- ``nbgrader``: the columns of nbgrader 0.9's own ``nbgrader export`` (nbgrader.plugins.export).
- ``canvas``: the gradebook import of Canvas (Instructors' Guide, "How do I import grades in the
  Gradebook?"): Student, ID, SIS User ID, SIS Login ID, Section, the assignment; a line of points
  possible first.
- ``moodle``: grade import from CSV (Moodle documentation, "Grade import"): an identifier to be
  mapped to the user, the grade, a feedback text.
- ``lti``: scores as LTI Assignment and Grade Services 2.0 takes them (1EdTech, section 3.4, Score
  publish service), one object for each student.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nbgrader.api import Gradebook, MissingEntry

from attend_grader.classes.directory import CourseError
from attend_grader.classes.tables import to_csv

FORMATS = ("nbgrader", "canvas", "moodle", "lti")
NBGRADER = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)


@dataclass(frozen=True)
class Line:
    """One student's result, as the gradebook has it; a score is None where nothing was graded."""

    student: str
    last_name: str | None
    first_name: str | None
    email: str | None
    lms_user_id: str | None
    raw_score: float | None
    penalty: float
    score: float | None
    points: float
    complete: bool
    due: datetime | None
    handed_in: datetime | None


def lines(gradebook: Gradebook, assignment: str) -> list[Line]:
    """Every student of the gradebook, with the manual scores and penalties that it has.

    Raises:
        CourseError: the gradebook does not know the assignment.
    """
    try:
        known: Any = gradebook.find_assignment(assignment)
    except MissingEntry:
        raise CourseError(f"the gradebook does not know {assignment}: grade it first.") from None
    found = []
    people: Any = gradebook.students
    for person in sorted(people, key=lambda person: person.id):
        try:
            done: Any = gradebook.find_submission(assignment, person.id)
        except MissingEntry:
            done = None
        penalty = done.late_submission_penalty or 0.0 if done else 0.0
        found.append(
            Line(
                person.id,
                person.last_name,
                person.first_name,
                person.email,
                person.lms_user_id,
                done.score if done else None,
                penalty,
                max(0.0, done.score - penalty) if done else None,
                known.max_score,
                bool(done) and not done.needs_manual_grade,
                known.duedate,
                done.timestamp if done else None,
            )
        )
    return found


def exported(form: str, assignment: str, rows: Sequence[Line], now: datetime) -> str:
    """The text of the file; ``now`` is when scores are published, for ``lti``."""
    makers = {"nbgrader": _nbgrader, "canvas": _canvas, "moodle": _moodle}
    if form == "lti":
        return _lti(rows, now)
    return makers[form](assignment, rows)


def _nbgrader(assignment: str, rows: Sequence[Line]) -> str:
    table = []
    for r in rows:
        person = (r.student, r.last_name, r.first_name, r.email)
        scores = (r.raw_score or 0.0, r.penalty, r.score or 0.0, r.points)
        table.append((assignment, r.due, r.handed_in, *person, *scores))
    return to_csv(NBGRADER, table)


def _canvas(assignment: str, rows: Sequence[Line]) -> str:
    head = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment)
    points = ("    Points Possible", "", "", "", "", rows[0].points if rows else None)
    table = [(_name(r), r.lms_user_id, r.student, r.email or r.student, "", r.score) for r in rows]
    return to_csv(head, [points, *table])


def _moodle(assignment: str, rows: Sequence[Line]) -> str:
    head = ("Username", "Email address", assignment, f"{assignment} (feedback)")
    table = [
        (r.student, r.email, r.score, f"{r.score:g} of {r.points:g} points")
        for r in rows
        if r.score is not None
    ]
    return to_csv(head, table)


def _lti(rows: Sequence[Line], now: datetime) -> str:
    stamp = now.astimezone(UTC).isoformat(timespec="milliseconds")
    scores = [
        {
            "userId": r.lms_user_id or r.student,
            "scoreGiven": r.score,
            "scoreMaximum": r.points,
            "activityProgress": "Submitted",
            "gradingProgress": "FullyGraded" if r.complete else "PendingManual",
            "timestamp": stamp,
        }
        for r in rows
        if r.score is not None
    ]
    return json.dumps(scores, ensure_ascii=False, indent=1) + "\n"


def _name(line: Line) -> str:
    names = [line.last_name, line.first_name]
    known = [name for name in names if name]
    return ", ".join(known) or line.student
