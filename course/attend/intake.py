"""``attend collect`` and ``attend roster``: submissions and lists from a learning platform."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from attend_grader.gradebook import intake
from attend_grader.gradebook import roster as lists
from attend_grader.gradebook.directory import Course, CourseError

from attend.errors import AttendError
from attend.text import visible

NOT_TAKEN = 3
"""Exit code where something was refused; each is named with its reason."""

NAMED = 12
"""Students that one line names; how many more there are it says."""


def collect(assignment: str, archive: Path, course: Path, *, dated: bool) -> int:
    """Take an archive's submissions into the course directory; the exit code.

    Raises:
        AttendError: one sentence on what prevents it.
    """
    try:
        done = intake.collect(Course.open(course), assignment, archive, dated=dated)
    except CourseError as error:
        raise AttendError(str(error), error.exit_code) from None
    except OSError as error:
        raise AttendError(f"{archive} cannot be taken in: {error.strerror or error}") from None
    print(
        f"{_students(len(done.new))} new, {len(done.newer)} with a newer version, "
        f"{len(done.unchanged)} unchanged, {len(done.refused)} refused."
    )
    if done.not_known:
        print(
            f"Not in the gradebook, so listed by name: {_named(done.not_known)}. "
            "`attend roster FILE.csv` before this gives them their ids."
        )
    for student, notes in sorted(done.notes.items()):
        print(f"    {visible(student)}: {'; '.join(map(visible, notes))}")
    for who, why in sorted(done.refused.items()):
        print(f"Refused: {visible(who)}: {visible(why)}.", file=sys.stderr)
    return NOT_TAKEN if done.refused else 0


def roster(file: Path, course: Path) -> int:
    """Enter a list of students into the gradebook; the exit code.

    Raises:
        AttendError: one sentence on what prevents it.
    """
    try:
        opened = Course.open(course)
        lines = lists.read(file)
        with opened.gradebook() as gradebook:
            done = lists.enter(gradebook, lines)
    except CourseError as error:
        raise AttendError(str(error), error.exit_code) from None
    print(
        f"{_students(len(done.new))} new, {len(done.changed)} changed, "
        f"{len(done.unchanged)} unchanged."
    )
    for why in done.left_out:
        print(f"Left out: {visible(why)}.", file=sys.stderr)
    return NOT_TAKEN if done.left_out else 0


def _students(count: int) -> str:
    return f"{count} student{'' if count == 1 else 's'}"


def _named(students: Sequence[str]) -> str:
    more = f" and {len(students) - NAMED} more" if len(students) > NAMED else ""
    return ", ".join(map(visible, students[:NAMED])) + more
