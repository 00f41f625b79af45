"""A small class for tests of grading: two exercises of chapter 03, a handful of submissions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import nbformat
from attend_grader import chapters
from attend_grader.gradebook.directory import Course
from attend_grader.grading.record import Record, Store
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.api import Gradebook

CHAPTER = "03_attention"
EXERCISES = ("softmax", "attention_scores")
SOFTMAX = """def softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
UNSTABLE = SOFTMAX.replace(" - scores.max(axis=axis, keepdims=True)", "")
SCORES = """def attention_scores(q, k, scaled=True):
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / np.sqrt(q.shape[-1]) if scaled else scores
"""
UNSCALED = "def attention_scores(q, k, scaled=True):\n    return q @ np.swapaxes(k, -1, -2)\n"
LEAVES = "import os\ndef softmax(scores, axis=-1):\n    os._exit(0)\n"
ANSWERS = {
    "ann": (SOFTMAX, SCORES),
    "bob": (UNSTABLE, SCORES),
    "cleo": (SOFTMAX, UNSCALED),
    "dan": (LEAVES, SCORES),
    "eve": ("", ""),
}
"""Who hands in what for the two exercises; eve leaves both as they were."""


def points(name: str) -> float:
    """What an exercise is worth."""
    return float(chapters.exercise(f"{CHAPTER}/{name}").points)


def notebook(*answers: str) -> NotebookNode:
    """The release, with these answers in its cells where they are not empty."""
    setup = new_code_cell("import numpy as np\nfrom attend_grader import check", id="setup")
    cells = [setup]
    for name, answer in zip(EXERCISES, answers or ("", ""), strict=True):
        marks = {"schema_version": 3, "cell_type": "code", "task": False}
        solution = {"grade": False, "solution": True, "locked": False, "grade_id": name}
        test = {"grade": True, "solution": False, "locked": True, "grade_id": f"check-{name}"}
        test["points"] = points(name)
        stub = f"def {name}(*args):\n    raise NotImplementedError\n"
        own = {"nbgrader": {**marks, **solution}}
        cells.append(new_code_cell(answer or stub, id=name, metadata=own))
        own = {"nbgrader": {**marks, **test}}
        cells.append(new_code_cell(f"check({name})", id=f"check-{name}", metadata=own))
    return new_notebook(cells=cells, metadata={"attend": {}})


def make(root: Path, db: str = "") -> Course:
    """A course directory with a release, a gradebook and all submissions."""
    db = db or f"sqlite:///{root}/gradebook.db"
    config = f"c = get_config()\nc.CourseDirectory.db_url = {db!r}\n"
    config += "c.CourseDirectory.course_id = 'toy'\n"
    config += "c.RunChecks.limits = {'cell_seconds': 5.0, 'check_seconds': 5.0}\n"
    write(root / "nbgrader_config.py", config)
    write(root / "release" / CHAPTER / f"{CHAPTER}.ipynb", nbformat.writes(notebook()))
    for student, answers in ANSWERS.items():
        hand_in(root, student, notebook(*answers))
    course = Course.open(root)
    with course.gradebook() as gradebook:
        register(gradebook, CHAPTER)
    return course


def register(gradebook: Gradebook, *notebooks: str) -> None:
    """Make the assignment known, as `nbgrader generate_assignment` does."""
    gradebook.add_assignment(CHAPTER)
    for notebook in notebooks:
        gradebook.add_notebook(notebook, CHAPTER)
        for name in EXERCISES:
            facts: Any = {"max_score": points(name), "cell_type": "code"}
            gradebook.add_grade_cell(f"check-{name}", notebook, CHAPTER, **facts)
            gradebook.add_solution_cell(name, notebook, CHAPTER)


def hand_in(root: Path, student: str, submitted: NotebookNode | str) -> Path:
    """Put a submission in its place."""
    path = root / "submitted" / student / CHAPTER / f"{CHAPTER}.ipynb"
    write(path, submitted if isinstance(submitted, str) else nbformat.writes(submitted))
    return path


def write(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def state(course: Course) -> dict[str, Any]:
    """All that grading left: the gradebook, the records, the graded copies, every file's name.

    Times and memory are left out, and identifiers that are drawn anew each time.
    """
    with course.gradebook() as gradebook:
        grades = sorted(_grades(gradebook))
    files = (p.relative_to(course.root) for p in course.root.rglob("*") if p.is_file())
    copies = sorted((course.root / "autograded").rglob("*.ipynb"))
    return {
        "grades": grades,
        "records": [lasting(r) for r in Store(course.records / CHAPTER).all()],
        "copies": {p.parts[-3]: p.read_text(encoding="utf-8") for p in copies},
        "files": sorted(str(path) for path in files),
    }


def lasting(record: Record) -> dict[str, Any]:
    """What a record says but for times and memory."""
    form = asdict(record)
    for changing in ("seconds", "peak_memory"):
        del form[changing]
    for verdict in form["verdicts"]:
        del verdict["seconds"]
    return json.loads(json.dumps(form))


def _grades(gradebook: Gradebook) -> Iterator[list[Any]]:
    submissions: Any = gradebook.assignment_submissions(CHAPTER)
    for submission in submissions:
        for submitted in submission.notebooks:
            for grade in submitted.grades:
                yield [
                    submission.student_id,
                    grade.name,
                    grade.auto_score,
                    grade.manual_score,
                    bool(grade.needs_manual_grade),
                    submitted.late_submission_penalty,
                ]
