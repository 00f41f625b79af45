"""A page a student: all assignments, points by exercise, and links to the feedback on each.

It lies beside the feedback, in ``feedback/STUDENT/index.html``, and is the student's own: nothing
of anybody else is in it, and no flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nbgrader.api import (
    Assignment,
    BaseCell,
    Grade,
    Gradebook,
    GradeCell,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    TaskCell,
)
from sqlalchemy import func
from sqlalchemy.orm import with_polymorphic

from attend_grader import chapters
from attend_grader.checks.files import write_whole
from attend_grader.checks.plain import plain
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.feedback import environment


@dataclass(frozen=True)
class Exercise:
    """Points for one graded cell; ``by_hand`` where an instructor gave them."""

    name: str
    score: float
    points: float
    by_hand: bool

    @property
    def share(self) -> float:
        """Of the points, 0 to 1."""
        return min(max(self.score / self.points, 0.0), 1.0) if self.points else 0.0


@dataclass
class Done:
    """One assignment of one student.

    Attributes:
        name: its name.
        title: the chapter's; empty where it is none.
        penalty: taken off for being late.
        exercises: points by exercise, in the chapter's order.
        pages: title and address of each feedback page that is there.
    """

    name: str
    title: str
    penalty: float = 0.0
    exercises: list[Exercise] = field(default_factory=list)
    pages: list[tuple[str, str]] = field(default_factory=list)

    @property
    def points(self) -> float:
        """The most there is."""
        return sum(exercise.points for exercise in self.exercises)

    @property
    def score(self) -> float:
        """What counts."""
        return max(0.0, sum(exercise.score for exercise in self.exercises) - self.penalty)


def path(course: Course, student: str) -> Path:
    """Where a student's page lies."""
    return course.feedback(student, ".").parent / student / "index.html"


def write(course: Course, gradebook: Gradebook, titles: Mapping[str, str]) -> int:
    """Write the page of everybody who has any feedback; how many.

    Args:
        course: the course directory.
        gradebook: of the course, opened.
        titles: assignment → its chapter's title.

    Raises:
        OSError: a page cannot be written.
    """
    template = environment().get_template("student.html")
    count = 0
    for student, (name, done) in _all(gradebook, titles).items():
        for each in done.values():
            folder = course.feedback(student, each.name)
            each.pages = [
                (f"feedback on {page.stem}", f"{quote(each.name)}/{quote(page.name)}")
                for page in sorted(folder.glob("*.html"))
            ]
        shown = [each for each in done.values() if each.pages]
        if not shown:
            continue
        score, points = sum(each.score for each in shown), sum(each.points for each in shown)
        text = template.render(name=name, assignments=shown, score=score, points=points)
        place = path(course, student)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, text.encode())
        count += 1
    return count


def _all(gradebook: Gradebook, titles: Mapping[str, str]) -> dict[str, tuple[str, dict[str, Done]]]:
    """Student → name and assignments, in one query: the models would ask for each grade."""
    cell: Any = with_polymorphic(BaseCell, [GradeCell, TaskCell])
    book: Any = SubmittedNotebook
    grade: Any = Grade
    known: Any = Assignment
    columns: Any = (
        Student.id,
        Student.first_name,
        Student.last_name,
        known.name,
        book.id,
        book.late_submission_penalty,
        cell.name,
        grade.score,
        func.coalesce(cell.GradeCell.max_score, cell.TaskCell.max_score),
        grade.manual_score,
    )
    rows = (
        gradebook.db.query(*columns)
        .select_from(grade)
        .join(book, book.id == grade.notebook_id)
        .join(SubmittedAssignment, SubmittedAssignment.id == book.assignment_id)
        .join(Student, Student.id == SubmittedAssignment.student_id)
        .join(cell, cell.id == grade.cell_id)
        .join(Notebook, Notebook.id == book.notebook_id)
        .join(known, known.id == Notebook.assignment_id)
        .order_by(Student.id, known.name, Notebook.name, cell.name)
    )
    found: dict[str, tuple[str, dict[str, Done]]] = {}
    penalised: set[str] = set()
    for student, first, last, assignment, one, penalty, graded, score, points, manual in rows:
        name = " ".join(part for part in (first, last) if part) or student
        _, done = found.setdefault(student, (plain(name, 200), {}))
        each = done.setdefault(assignment, Done(assignment, titles.get(assignment, "")))
        if one not in penalised:
            penalised.add(one)
            each.penalty += penalty or 0.0
        exercise = graded.removeprefix("check-")
        each.exercises.append(Exercise(exercise, score or 0.0, points or 0.0, manual is not None))
    for _, done in found.values():
        for each in done.values():
            order = [*chapters.INDEX.get(each.name, ())]
            each.exercises.sort(
                key=lambda e: order.index(e.name) if e.name in order else len(order)
            )
    return found
