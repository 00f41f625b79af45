"""A record's scores in nbgrader's gradebook."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import (
    Assignment,
    Grade,
    Gradebook,
    MissingEntry,
    Notebook,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task
from sqlalchemy import func
from sqlalchemy.exc import SQLAlchemyError

from attend_grader.gradebook.database import CourseError, first_line
from attend_grader.gradebook.late import Penalties
from attend_grader.grading.record import Record

FLAGGED, LOST = "Flagged (for instructors):", "Nothing could be graded:"
"""How a line of a comment begins that feedback leaves out."""


def held(
    gradebook: Gradebook, assignment: str
) -> dict[tuple[str, str], tuple[float, datetime | None]]:
    """(student, notebook) → the checks' score and the time of handing in, as they are now.

    One query, as the models would ask for each submission: 6 s for a class of 2,000.

    Raises:
        CourseError: the gradebook cannot be read.
    """
    book: Any = SubmittedNotebook
    grade: Any = Grade
    known: Any = Assignment
    columns: Any = (
        SubmittedAssignment.student_id,
        Notebook.name,
        func.coalesce(func.sum(grade.auto_score), 0.0),
        SubmittedAssignment.timestamp,
    )
    try:
        rows = (
            gradebook.db.query(*columns)
            .select_from(book)
            .join(SubmittedAssignment, SubmittedAssignment.id == book.assignment_id)
            .join(Notebook, Notebook.id == book.notebook_id)
            .join(known, known.id == Notebook.assignment_id)
            .outerjoin(grade, grade.notebook_id == book.id)
            .filter(known.name == assignment)
            .group_by(book.id, columns[0], Notebook.name, columns[3])
        )
        return {(student, name): (float(score), when) for student, name, score, when in rows}
    except SQLAlchemyError as error:
        raise CourseError(f"the gradebook cannot be read: {first_line(error)}.") from None


def dated(gradebook: Gradebook, assignment: str) -> list[Any]:
    """Submitted notebooks that may be late, or were: all others have no penalty to renew."""
    book: Any = SubmittedNotebook
    whole: Any = SubmittedAssignment
    known: Any = Assignment
    return (
        gradebook.db.query(book)
        .join(whole, whole.id == book.assignment_id)
        .join(known, known.id == whole.assignment_id)
        .filter(known.name == assignment)
        .filter(
            book.late_submission_penalty.is_not(None)
            | (whole.timestamp.is_not(None) & known.duedate.is_not(None))
        )
        .all()
    )


def without_file(
    gradebook: Gradebook, folder: Path, student: str, assignment: str
) -> Iterator[str]:
    """Set the checks' scores to 0 where ``folder`` lacks a notebook that had some; its names."""
    try:
        books: Any = gradebook.find_submission(assignment, student).notebooks
    except MissingEntry:
        return
    for book in books:
        if not os.path.lexists(folder / f"{book.name}.ipynb"):
            for grade in book.grades:
                grade.auto_score = 0.0
                grade.needs_manual_grade = grade.manual_score is not None
            book.late_submission_penalty = None
            gradebook.db.commit()
            yield book.name


def save(
    gradebook: Gradebook,
    record: Record,
    notebook: NotebookNode,
    timestamp: datetime | None,
    penalties: Penalties,
) -> None:
    """Write a record's scores, its late penalty among them, in one transaction.

    Raises:
        MissingEntry: the gradebook does not know the assignment.
    """
    given: Any = gradebook.find_notebook(record.notebook, record.assignment)
    person: Any = gradebook.update_or_create_student(record.student)
    if person.first_name is None and person.last_name is None:
        person.last_name, person.first_name = record.student, ""  # formgrader shows "None, None"
    submission: Any = gradebook.update_or_create_submission(record.assignment, record.student)
    submission.timestamp = timestamp
    submitted: Any = gradebook.find_submission_notebook(
        record.notebook, record.assignment, record.student
    )
    names = {c.id: c.name for c in (*given.grade_cells, *given.task_cells, *given.solution_cells)}
    earned = {verdict.name: verdict.score for verdict in record.verdicts}
    cells = {} if record.problem else _marked(notebook)
    for grade in submitted.grades:
        name = names.get(grade.cell_id)
        cell = cells.get(name or "")
        if name in earned:
            grade.auto_score = earned[name]
        elif cell is not None and is_grade(cell):
            grade.auto_score = determine_grade(cell)[0]
        else:
            grade.auto_score = 0.0
        manual = grade.manual_score is not None or grade.auto_score is None
        grade.needs_manual_grade = manual or bool(record.problem)
    remarks = _remarks(record)
    by_us = any(FLAGGED in (comment.auto_comment or "") for comment in submitted.comments)
    submitted.flagged = bool(record.flags) or bool(submitted.flagged and not by_us)
    first = next((n for n, cell in _marked(notebook).items() if is_solution(cell)), None)
    for comment in submitted.comments:
        name = names.get(comment.cell_id)
        cell = cells.get(name or "")
        empty = (
            cell is not None
            and is_solution(cell)
            and not is_task(cell)
            and cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
        )
        said = (["No response."] if empty else []) + (remarks if name == first else [])
        comment.auto_comment = "\n".join(said) or None
    penalties.renew(gradebook, submission, submitted)
    gradebook.db.commit()


def _remarks(record: Record) -> list[str]:
    """What an instructor should know of the whole submission, for formgrader."""
    problem = [f"{LOST} {record.problem}."] if record.problem else []
    return [*problem, *(f"{FLAGGED} {flag}" for flag in record.flags)]


def _marked(notebook: NotebookNode) -> dict[str, NotebookNode]:
    return {
        cell.metadata.nbgrader.grade_id: cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id")
    }
