"""Scores in the shapes that other systems import.

- ``nbgrader``: the columns of nbgrader 0.9's own ``nbgrader export`` (nbgrader.plugins.export).
- ``canvas``: a gradebook import of Canvas, as its importer reads it (instructure/canvas-lms,
  lib/gradebook_importer.rb): Student, ID, SIS User ID, SIS Login ID, Section, the assignment; a
  line of points possible first. Canvas looks for a user by ID, a whole number of its own, then by
  SIS user id, login id and name; an empty score would take a score away.
- ``moodle``: a grade import from CSV (Moodle documentation, "Grade import"; moodle/moodle,
  grade/import/csv/classes/load_data.php): identifiers to be mapped to a user, the grade, a feedback
  text. One user that Moodle does not find ends the whole import, and a line whose identifier is
  empty can go to the user of the line before: the column of addresses is there where all are known.
- ``lti``: scores as LTI Assignment and Grade Services 2.0 takes them (1EdTech, "Learning Tools
  Interoperability Assignment and Grade Services Version 2.0", Score publish service; Canvas
  documentation, "Score API"): a list of objects, each the body of one POST
  of application/vnd.ims.lis.v1.score+json to LINE_ITEM/scores.

Who cannot be told to another system safely is left out and named: see :class:`Exported`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nbgrader.api import Gradebook, MissingEntry

from attend_grader.gradebook.directory import CourseError
from attend_grader.gradebook.tables import defused, to_csv

FORMATS = ("nbgrader", "canvas", "moodle", "lti")
LIVE_ID = (
    "their ids begin as formulas do, and with the apostrophe that keeps a spreadsheet from running "
    "them they would match nobody: enter these scores by hand"
)
NO_LMS_ID = (
    "the gradebook has no LMS user id for them: `nbgrader db student add ID --lms-user-id=…` "
    "sets one"
)
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


@dataclass(frozen=True)
class Exported:
    """A file, and who is not in it.

    Attributes:
        text: of the file.
        students: how many are in it.
        unscored: who is not in it, as there is no score yet.
        left_out: who has a score and is not in it; ``why`` says why, for all of them.
    """

    text: str
    students: int
    unscored: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    why: str = ""


def exported(form: str, assignment: str, rows: Sequence[Line], now: datetime) -> Exported:
    """The file in the format ``form``; ``now`` is when scores are published, for ``lti``."""
    if form == "nbgrader":
        return Exported(_nbgrader(assignment, rows), len(rows))
    scored = [row for row in rows if row.score is not None]
    unscored = tuple(row.student for row in rows if row.score is None)
    if form == "lti":
        told = [row for row in scored if row.lms_user_id]
        text, why = _lti(told, now), NO_LMS_ID
    else:
        told = [row for row in scored if defused(row.student) == row.student]
        text, why = {"canvas": _canvas, "moodle": _moodle}[form](assignment, told), LIVE_ID
    left_out = tuple(row.student for row in scored if row not in told)
    return Exported(text, len(told), unscored, left_out, why if left_out else "")


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
    table = [(_name(r), _canvas_id(r), r.student, r.student, "", r.score) for r in rows]
    return to_csv(head, [points, *table])


def _canvas_id(line: Line) -> str:
    """Canvas reads the digits that an ID begins with: an LTI id would name somebody else."""
    known = line.lms_user_id or ""
    return known if known.isascii() and known.isdigit() else ""


def _moodle(assignment: str, rows: Sequence[Line]) -> str:
    addresses = [r.email or "" for r in rows]
    sound = all(text and defused(text) == text for text in addresses)
    head = ("Username", *(["Email address"] if sound else []), assignment, f"{assignment} feedback")
    table = [
        (r.student, *([text] if sound else []), r.score, f"{r.score:g} of {r.points:g} points")
        for r, text in zip(rows, addresses, strict=True)
    ]
    return to_csv(head, table)


def _lti(rows: Sequence[Line], now: datetime) -> str:
    stamp = now.astimezone(UTC).isoformat(timespec="milliseconds")
    scores = [
        {
            "userId": r.lms_user_id,
            "scoreGiven": r.score,
            "scoreMaximum": r.points,
            "activityProgress": "Submitted" if _open(r, now) else "Completed",
            "gradingProgress": "FullyGraded" if r.complete else "PendingManual",
            "timestamp": stamp,
        }
        for r in rows
    ]
    return json.dumps(scores, ensure_ascii=False, indent=1) + "\n"


def _open(line: Line, now: datetime) -> bool:
    """Whether another version may be handed in; the gradebook's times are in UTC."""
    return line.due is not None and line.due.replace(tzinfo=UTC) > now


def _name(line: Line) -> str:
    names = [line.last_name, line.first_name]
    known = [name for name in names if name]
    return ", ".join(known) or line.student
