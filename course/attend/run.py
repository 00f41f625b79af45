"""``attend feedback`` and ``attend run``: pages for all learners, and all that follows grading."""

from __future__ import annotations

import copy
import logging
from pathlib import Path

from attend_grader.gradebook import student_pages
from attend_grader.gradebook.directory import Course, CourseError
from attend_grader.gradebook.scripts import scripts_on_path

from attend import export, grade, report
from attend.curriculum import CHAPTERS
from attend.errors import AttendError


def feedback(assignment: str, course: Path, force: bool) -> int:
    """Write the feedback pages of all graded submissions, and a page a student; the exit code.

    Args:
        assignment: its name.
        course: the course directory.
        force: write also those that are there, as after changes in formgrader.

    Raises:
        AttendError: one sentence on what prevents it.
    """
    from nbgrader.apps.api import NbGraderAPI

    try:
        opened = Course.open(course)
        opened.check(assignment)
        graded = [
            s for s in opened.students(assignment) if opened.autograded(s, assignment).is_dir()
        ]
    except CourseError as error:
        raise AttendError(str(error), error.exit_code) from None
    if not graded:
        raise AttendError(
            f"nothing of {assignment} is graded yet: run `attend grade {assignment}`."
        )
    config = copy.deepcopy(opened.config)
    config.NbGrader.logfile = ""
    config.FeedbackPage.overview = True
    level = logging.getLogger("traitlets").level
    logging.getLogger("traitlets").setLevel(logging.ERROR)
    try:
        with scripts_on_path():
            done = NbGraderAPI(opened.places, config=config).generate_feedback(
                assignment, force=force
            )
    finally:
        logging.getLogger("traitlets").setLevel(level)
    if not done["success"]:
        last = str(done.get("error") or done.get("log") or "nbgrader does not say why").strip()
        raise AttendError(f"feedback could not be written: {last.splitlines()[-1][:300]}")
    try:
        with opened.gradebook() as gradebook:
            pages = student_pages.write(opened, gradebook, {c.id: c.title for c in CHAPTERS})
    except OSError as error:
        raise AttendError(f"{error.filename} cannot be written: {error.strerror}") from None
    print(
        f"{len(graded)} pages in {opened.feedback('STUDENT', assignment)}; {pages} students' own "
        f"in {student_pages.path(opened, 'STUDENT')}."
    )
    return 0


def everything(assignment: str, course: Path, form: str, workers: int, unsafe: bool) -> int:
    """Grade, then write the report, the feedback and the export; the highest exit code.

    Raises:
        AttendError: one sentence on what prevents the rest; what is done by then stays.
    """
    codes = [
        grade.main(
            assignment,
            course=course,
            students=None,
            workers=workers,
            scheduler="",
            force=False,
            seed=None,
            unsafe=unsafe,
            mode="rich",
        ),
        feedback(assignment, course, force=False),  # first: the report links to it
        report.main(assignment, course, None),
        export.main(assignment, form, course, None),
    ]
    return max(codes)
