"""``attend regrade``: one exercise of one student again, by the check or by hand, with a note."""

from __future__ import annotations

import getpass
from pathlib import Path

from attend_grader import chapters
from attend_grader.gradebook import by_hand
from attend_grader.gradebook.directory import Course, CourseError
from attend_grader.gradebook.grade import grade_assignment
from attend_grader.sandbox.jail import SandboxMissing

from attend.errors import AttendError
from attend.text import visible


def main(
    student: str,
    exercise: str,
    *,
    note: str,
    score: float | None,
    withdraw: bool,
    by: str,
    assignment: str,
    course: Path,
    unsafe: bool,
) -> int:
    """Grade anew, or set or withdraw a manual score; the exit code.

    Args:
        student: whose.
        exercise: such as ``"softmax"`` or ``"03_attention/softmax"``.
        note: why.
        score: given by hand; None: the check decides anew, with fresh inputs.
        withdraw: take a manual score back.
        by: who; empty for the user at work.
        assignment: its name; empty where the exercise tells.
        course: the course directory.
        unsafe: without a jail.

    Raises:
        AttendError: one sentence on what prevents it.
    """
    if not note.strip():
        raise AttendError("--note: say why, as the learner and other instructors will ask", 2)
    if score is not None and withdraw:
        raise AttendError("--score and --withdraw exclude each other", 2)
    before, slash, name = exercise.rpartition("/")
    name = name.removeprefix("check-")
    try:
        opened = Course.open(course)
        assignment = assignment or (before if slash else _home(opened, name))
        opened.check(assignment)
        old, manual = by_hand.score_of(opened, assignment, student, name)
        who = by or getpass.getuser()
        if score is not None or withdraw:
            entry = by_hand.give(opened, assignment, student, name, score, note, who)
        else:
            records = grade_assignment(
                opened, assignment, students=[student], workers=1, force=True, unsafe=unsafe
            )
            for verdict in (v for record in records for v in record.verdicts):
                if verdict.name in (name, f"check-{name}"):
                    print(verdict.report or verdict.error or "passed")
            entry = by_hand.graded_anew(opened, assignment, student, name, old, note, who)
            if manual:
                print("A score given by hand counts; --withdraw lets the check's count again.")
    except CourseError as error:
        raise AttendError(str(error), error.exit_code) from None
    except SandboxMissing as error:
        raise AttendError(str(error)) from None
    print(f"{visible(student)}, {entry}")
    return 0


def _home(course: Course, exercise: str) -> str:
    """The assignment that has an exercise of this name.

    Raises:
        AttendError: none of the course's has, or several.
    """
    homes = [a for a in course.assignments if exercise in chapters.INDEX.get(a, ())]
    if len(homes) != 1:
        listed = ", ".join(homes or course.assignments) or "none"
        raise AttendError(f"--assignment: which one has {exercise!r}? This course has: {listed}", 2)
    return homes[0]
