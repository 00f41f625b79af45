"""What a report is made from: the current records, the answers' sources, hints where shared."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from attend_grader.classes import handed_in
from attend_grader.classes.directory import Course
from attend_grader.classes.grade import planned
from attend_grader.classes.record import Record
from attend_grader.rebuild import graded_name

PROGRESS = (Path(".attend", "progress.json"), Path("progress.json"))
"""Where a folder that was handed in may hold what `.attend/progress.json` holds for a learner."""


@dataclass(frozen=True)
class Gathered:
    """A class's assignment as it stands.

    Attributes:
        assignment: its name.
        records: of submissions graded as they stand.
        waiting: students whose submission is not graded as it stands.
        answers: exercise → student → the source of their solution cell.
        stubs: exercise → the cell as it was released.
        hints: exercise → student → how many hints they took; empty where nobody shared it.
    """

    assignment: str
    records: tuple[Record, ...]
    waiting: tuple[str, ...]
    answers: dict[str, dict[str, str]]
    stubs: dict[str, str]
    hints: dict[str, dict[str, int]]


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
    hints: dict[str, dict[str, int]] = {}
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
        for name, count in _hints(course.submitted(record.student, assignment), assignment):
            hints.setdefault(name, {})[record.student] = count
    waiting = tuple(sorted({job.record.student for job in plan.jobs}))
    return Gathered(assignment, plan.unchanged, waiting, answers, stubs, hints)


def _cells(notebook: NotebookNode, name: str, assignment: str) -> Iterator[tuple[str, str]]:
    """(exercise, source) of the solution cells."""
    for cell in notebook.cells:
        exercise = graded_name(cell)
        if exercise and cell.cell_type == "code" and cell.metadata.nbgrader.get("solution"):
            yield (exercise if name == assignment else f"{name}/{exercise}"), cell.source


def _hints(folder: Path, assignment: str) -> Iterator[tuple[str, int]]:
    """(exercise, hints taken) from a progress file that was handed in, if there is a sound one."""
    for place in PROGRESS:
        records = _progress(folder / place)
        for identifier, kept in records.items():
            chapter, _, name = identifier.partition("/")
            count = kept.get("hints") if isinstance(kept, dict) else None
            if chapter == assignment and isinstance(count, int) and 0 <= count < 100:
                yield name, count
        if records:
            return


def _progress(path: Path) -> dict[str, Any]:
    """The exercises in a progress file; links, pipes and large files are not read."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            facts = os.fstat(file.fileno())
            if path.parent.is_symlink() or not stat.S_ISREG(facts.st_mode) or facts.st_size > 2**20:
                return {}
            records = json.loads(file.read())["exercises"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return records if isinstance(records, dict) else {}
