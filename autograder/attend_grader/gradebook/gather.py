"""What a report is made from: the current records, the answers' sources, effort where shared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from attend_grader import sharing
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.grade import planned
from attend_grader.grading import handed_in
from attend_grader.grading.rebuild import graded_name
from attend_grader.grading.record import Record
from attend_grader.sharing import Effort


@dataclass(frozen=True)
class Gathered:
    """A class's assignment as it stands.

    Attributes:
        assignment: its name.
        records: of submissions graded as they stand.
        waiting: students whose submission is not graded as it stands.
        answers: exercise → student → the source of their solution cell.
        stubs: exercise → the cell as it was released.
        shared: exercise → student → what their notebook says it took; empty where nobody shared it.
    """

    assignment: str
    records: tuple[Record, ...]
    waiting: tuple[str, ...]
    answers: dict[str, dict[str, str]]
    stubs: dict[str, str]
    shared: dict[str, dict[str, Effort]]


def gather(course: Course, assignment: str) -> Gathered:
    """Read all of it; nothing is changed and nothing that was handed in is run.

    Raises:
        CourseError: the assignment is unknown or not released.
    """
    plan = planned(course, assignment)
    stubs: dict[str, str] = {}
    for notebook, content in plan.released.items():
        stubs |= dict(_cells(handed_in.parse(content), notebook, assignment))
    answers: dict[str, dict[str, str]] = {name: {} for name in stubs}
    shared: dict[str, dict[str, Effort]] = {}
    for record in plan.unchanged:
        if not record.problem:
            graded = course.autograded(record.student, assignment) / f"{record.notebook}.ipynb"
            try:
                copy = handed_in.parse(graded.read_bytes())
            except (FileNotFoundError, ValueError):
                continue  # `attend grade` writes it again
            for name, source in _cells(copy, record.notebook, assignment):
                if name in stubs and source.strip() != stubs[name].strip():
                    answers[name][record.student] = source
            folder = course.submitted(record.student, assignment)
            handed = handed_in.read(folder, record.notebook).content
            for name, effort in sharing.read(handed, record.chapter).items():
                name = _called(name, record.notebook, assignment)
                shared.setdefault(name, {})[record.student] = effort
    waiting = tuple(sorted({job.record.student for job in plan.jobs}))
    return Gathered(assignment, plan.unchanged, waiting, answers, stubs, shared)


def _cells(notebook: NotebookNode, name: str, assignment: str) -> Iterator[tuple[str, str]]:
    """(exercise, source) of the solution cells."""
    for cell in notebook.cells:
        exercise = graded_name(cell)
        if exercise and cell.cell_type == "code" and cell.metadata.nbgrader.get("solution"):
            yield _called(exercise, name, assignment), cell.source


def _called(exercise: str, notebook: str, assignment: str) -> str:
    """Its name; the notebook's before it where that is not the assignment's."""
    return exercise if notebook == assignment else f"{notebook}/{exercise}"
