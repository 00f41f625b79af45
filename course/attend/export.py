"""``attend export``: the gradebook's scores of one assignment, as another system imports them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from attend_grader.checks.files import write_whole
from attend_grader.gradebook.directory import Course, CourseError
from attend_grader.gradebook.export import FORMATS, exported, lines

from attend.errors import AttendError
from attend.text import visible

LEFT_OUT = 3
"""Exit code where somebody has a score that is not in the file; a message names them."""

NAMED = 12
"""Students that a message names; how many more there are it says."""


def main(assignment: str, form: str, course: Path, out: Path | None) -> int:
    """Write the file; the exit code.

    Raises:
        AttendError: one sentence on what prevents it.
    """
    if form not in FORMATS:
        raise AttendError(f"--format: one of {', '.join(FORMATS)}, got {form!r}", 2)
    try:
        opened = Course.open(course)
        with opened.gradebook() as gradebook:
            try:
                rows = lines(gradebook, assignment)
            except CourseError:
                opened.check(assignment)  # a name that nothing has is worth another sentence
                raise
    except CourseError as error:
        raise AttendError(str(error), error.exit_code) from None
    ending = "json" if form == "lti" else "csv"
    path = out.absolute() if out else opened.root / "exports" / f"{assignment}-{form}.{ending}"
    made = exported(form, assignment, rows, datetime.now(UTC))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, made.text.encode())
    except OSError as error:
        raise AttendError(f"{path} cannot be written: {error.strerror}") from None
    print(f"{made.students} student{'' if made.students == 1 else 's'} in {path}.")
    if made.unscored:
        print(f"Without a score yet, and not in it: {_named(made.unscored)}.")
    if made.left_out:
        print(f"Not in it: {_named(made.left_out)}: {made.why}.", file=sys.stderr)
        return LEFT_OUT
    return 0


def _named(students: Sequence[str]) -> str:
    more = f" and {len(students) - NAMED} more" if len(students) > NAMED else ""
    return ", ".join(map(visible, students[:NAMED])) + more
