"""Scores given by hand, and exercises graded anew on purpose: who did it, when and why.

nbgrader's gradebook holds the score, which grading anew leaves as it is, and the note as a comment
that feedback shows. Who gave it, when, and what it was before stand in ``.attend/by_hand/``, a line
each, and nothing there is ever taken away.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from nbgrader.api import Gradebook, MissingEntry

from attend_grader.checks.plain import plain
from attend_grader.gradebook.database import CourseError, NotKnown, written
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.late import Penalties

Action = Literal["given by hand", "check's score counts again", "graded anew"]


@dataclass(frozen=True)
class Entry:
    """One line of what was done by hand.

    Attributes:
        student: whose.
        exercise: which.
        action: what was done.
        score: that counts from then on.
        before: that counted until then.
        points: the most there is.
        note: why.
        by: who.
        when: ISO 8601, with the zone.
    """

    student: str
    exercise: str
    action: Action
    score: float
    before: float
    points: float
    note: str
    by: str
    when: str

    def __str__(self) -> str:
        return (
            f"{self.exercise}: {self.score:g} of {self.points:g} ({self.action}; before, "
            f"{self.before:g}), by {self.by} on {self.when[:10]}: {self.note}"
        )


def entries(course: Course, assignment: str) -> list[Entry]:
    """All that was done by hand for an assignment, in order."""
    try:
        lines = _file(course, assignment).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(Entry(**json.loads(line)))
        except (ValueError, TypeError):  # a line that a full disk cut
            continue
    return found


def in_force(course: Course, assignment: str) -> dict[tuple[str, str], Entry]:
    """(student, exercise) → its last entry, where that gave a score."""
    last: dict[tuple[str, str], Entry] = {}
    for entry in entries(course, assignment):
        if entry.action != "graded anew":
            last[entry.student, entry.exercise] = entry
    return {key: entry for key, entry in last.items() if entry.action == "given by hand"}


def score_of(course: Course, assignment: str, student: str, exercise: str) -> tuple[float, bool]:
    """The score that counts, and whether it was given by hand.

    Raises:
        NotKnown: no such student, exercise or submission.
    """
    with course.gradebook() as gradebook:
        grade = _grade(gradebook, assignment, student, exercise)
        return float(grade.score), grade.manual_score is not None


def give(
    course: Course,
    assignment: str,
    student: str,
    exercise: str,
    score: float | None,
    note: str,
    by: str,
) -> Entry:
    """Set a score by hand, or take it back.

    Args:
        course: the course directory.
        assignment: its name.
        student: whose.
        exercise: which, such as ``"softmax"``.
        score: from 0 to the exercise's points; None: the check's score counts again.
        note: why; the learner's feedback shows it.
        by: who gives it.

    Raises:
        NotKnown: no such student, exercise or submission.
        CourseError: the score is out of range, or the gradebook cannot be written.
    """
    with course.gradebook() as gradebook:
        grade = _grade(gradebook, assignment, student, exercise)
        if score is not None and not 0 <= score <= grade.max_score:
            raise CourseError(f"{exercise} gives 0 to {grade.max_score:g} points, got {score:g}.")
        before = float(grade.score)
        with written(gradebook):
            grade.manual_score = score
            grade.needs_manual_grade = score is None and grade.auto_score is None
            gradebook.db.flush()
            gradebook.db.refresh(grade, ["score"])
            action: Action = "check's score counts again" if score is None else "given by hand"
            entry = _entry(grade, student, exercise, action, before, note, by)
            for comment in grade.notebook.comments:
                if comment.name == exercise:
                    comment.manual_comment = _comment(comment.manual_comment, entry)
            submission = grade.notebook.assignment
            Penalties(course.config, course.root).renew(gradebook, submission, grade.notebook)
            _append(_file(course, assignment), entry)  # a score without its reason would be worse
            gradebook.db.commit()
    shutil.rmtree(course.feedback(student, assignment), ignore_errors=True)
    return entry


def graded_anew(
    course: Course, assignment: str, student: str, exercise: str, before: float, note: str, by: str
) -> Entry:
    """Note that an exercise was graded again on purpose.

    Raises:
        NotKnown: no such student, exercise or submission.
        CourseError: it cannot be written.
    """
    with course.gradebook() as gradebook:
        grade = _grade(gradebook, assignment, student, exercise)
        entry = _entry(grade, student, exercise, "graded anew", before, note, by)
    _append(_file(course, assignment), entry)
    return entry


def _entry(
    grade: Any, student: str, exercise: str, action: Action, before: float, note: str, by: str
) -> Entry:
    when = datetime.now().astimezone().isoformat(timespec="seconds")
    score, points = float(grade.score), float(grade.max_score)
    said = plain(note, 1_000), plain(by, 100)
    return Entry(student, exercise, action, score, before, points, *said, when)


_SIGN = "Score by hand"


def _comment(there: str | None, entry: Entry) -> str | None:
    """The comment with what this entry says in the place of an earlier entry's."""
    lines = [line for line in (there or "").split("\n") if line and not line.startswith(_SIGN)]
    if entry.action == "given by hand":
        points = f"{entry.score:g} of {entry.points:g}"
        lines.append(f"{_SIGN} ({entry.by}): {points}. {entry.note}")
    return "\n".join(lines) or None


def _grade(gradebook: Gradebook, assignment: str, student: str, exercise: str) -> Any:
    """The gradebook's entry for an exercise.

    Raises:
        NotKnown: there is none.
    """
    try:
        submission: Any = gradebook.find_submission(assignment, student)
    except MissingEntry:
        raise NotKnown(f"{plain(student)} has no graded submission of {assignment}.") from None
    wanted = {exercise, f"check-{exercise}"}
    grades = [grade for book in submission.notebooks for grade in book.grades]
    for grade in grades:
        if grade.name in wanted:
            return grade
    known = ", ".join(grade.name.removeprefix("check-") for grade in grades) or "none"
    raise NotKnown(f"{assignment} has no exercise {exercise!r}; it has: {known}.")


def _append(path: Path, entry: Entry) -> None:
    """Add a line, and see it on the disk.

    Raises:
        CourseError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CourseError(f"{path} cannot be written: {error.strerror}.") from None


def _file(course: Course, assignment: str) -> Path:
    return course.root / ".attend" / "by_hand" / f"{assignment}.jsonl"
