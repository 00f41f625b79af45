"""What a report is made from: the current records, the answers' sources, effort where shared."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from attend_grader import sharing
from attend_grader.gradebook.by_hand import Entry, in_force
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.grade import planned
from attend_grader.gradebook.student_pages import path
from attend_grader.grading import handed_in
from attend_grader.grading.record import Record
from attend_grader.grading.work import solutions
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
        own: exercise → student → the tokens of the answer that are their own.
        by_hand: scores given by hand, with notes.
        places: where students' pages and graded copies lie, with ``STUDENT`` in the place of an
            id; None where there are none.
    """

    assignment: str
    records: tuple[Record, ...]
    waiting: tuple[str, ...]
    answers: dict[str, dict[str, str]]
    stubs: dict[str, str]
    shared: dict[str, dict[str, Effort]]
    own: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    by_hand: tuple[Entry, ...] = ()
    places: tuple[Path | None, Path | None] = (None, None)


def gather(course: Course, assignment: str) -> Gathered:
    """Read all of it; nothing is changed and nothing that was handed in is run.

    Raises:
        CourseError: the assignment is unknown or not released.
    """
    plan = planned(course, assignment)
    stubs: dict[str, str] = {}
    for notebook, content in plan.released.items():
        for name, source in solutions(handed_in.parse(content)):
            stubs[_called(name, notebook, assignment)] = source
    answers: dict[str, dict[str, str]] = {name: {} for name in stubs}
    own: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in stubs}
    shared: dict[str, dict[str, Effort]] = {}
    for record in plan.unchanged:
        if not record.problem:
            for name, (source, written) in record.answers.items():
                exercise = _called(name, record.notebook, assignment)
                if exercise in stubs:
                    answers[exercise][record.student] = source
                    own[exercise][record.student] = written
            folder = course.submitted(record.student, assignment)
            handed = handed_in.read(folder, record.notebook).content
            for name, effort in sharing.read(handed, record.chapter).items():
                name = _called(name, record.notebook, assignment)
                shared.setdefault(name, {})[record.student] = effort
    waiting = tuple(sorted({job.record.student for job in plan.jobs}))
    graded = course.autograded("STUDENT", assignment) / f"{next(iter(plan.released))}.ipynb"
    page = path(course, "STUDENT")
    made = next(page.parent.parent.glob(f"*/{page.name}"), None)
    places = (page if made else None, graded)
    by_hand = tuple(in_force(course, assignment).values())
    return Gathered(
        assignment, plan.unchanged, waiting, answers, stubs, shared, own, by_hand, places
    )


def _called(exercise: str, notebook: str, assignment: str) -> str:
    """Its name; the notebook's before it where that is not the assignment's."""
    return exercise if notebook == assignment else f"{notebook}/{exercise}"
