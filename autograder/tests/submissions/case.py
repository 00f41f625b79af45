"""What a bad submission is, and the ways to make one from a right notebook of chapter 03."""

from __future__ import annotations

import copy
import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attend import stub
from attend_grader import chapters
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

CHAPTER = "03_attention"
EXERCISES = {e.name: e for e in chapters.chapter(CHAPTER).exercises}
TOTAL = sum(e.points for e in EXERCISES.values())
FILE = f"{CHAPTER}.ipynb"

Make = Callable[[Path, NotebookNode, NotebookNode], None]
"""Hands in: (the submission's folder, the solved notebook, the released one)."""

Edit = Callable[[NotebookNode], None]


@dataclass(frozen=True)
class Case:
    """One bad submission.

    Attributes:
        number: those up to 56 are the ones every grader should know; a letter tells variants apart.
        does: what the submission does, in a few words.
        outcome: what becomes of it, in one sentence.
        make: hands it in.
        reasons: exercise → reason; all others are PASSED with full marks.
        scores: exercise → points, where they are neither all nor none.
        flags: words of each flag that the instructor sees; no other flag is there.
        problem: words of the problem, where the whole submission cannot be graded.
        says: words in the report of the first exercise of ``reasons``.
        stock: graded by plain ``nbgrader autograde`` too, with the same scores.
    """

    number: str
    does: str
    outcome: str
    make: Make
    reasons: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    problem: str = ""
    says: str = ""
    stock: bool = False

    @property
    def student(self) -> str:
        """Whose submission it is."""
        return f"case-{self.number}"

    def reason(self, exercise: str) -> str:
        """The exercise's reason."""
        return "INVALID" if self.problem else self.reasons.get(exercise, "PASSED")

    def score(self, exercise: str) -> float:
        """The exercise's points."""
        full = EXERCISES[exercise].points if self.reason(exercise) == "PASSED" else 0
        return self.scores.get(exercise, full)


def at(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    """The cell with this id."""
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def solved(release: NotebookNode) -> NotebookNode:
    """A copy with the reference answers in their cells."""
    notebook = copy.deepcopy(release)
    for name, exercise in EXERCISES.items():
        at(notebook, name).source = stub.solution_text(exercise.reference)
    return notebook


def write(folder: Path, notebook: NotebookNode) -> None:
    """Write the notebook, as it is, where a submission is expected; @ROOT@ is the course's."""
    for cell in notebook.cells:
        cell.source = cell.source.replace("@ROOT@", str(folder.parents[2]))
    (folder / FILE).write_text(json.dumps(notebook))  # nbformat would repair it


def edited(*edits: Edit) -> Make:
    """Hand in the solved notebook, changed by ``edits``."""

    def make(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
        for edit in edits:
            edit(notebook)
        write(folder, notebook)

    return make


def content(data: bytes) -> Make:
    """Hand in a file of these bytes."""

    def make(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
        (folder / FILE).write_bytes(data)

    return make


def answer(name: str, source: str) -> Edit:
    """Put ``source`` into an exercise's cell."""

    def edit(notebook: NotebookNode) -> None:
        at(notebook, name).source = textwrap.dedent(source).strip("\n")

    return edit


def top(name: str, source: str) -> Edit:
    """Let an exercise's cell begin with ``source``; its right answer follows."""

    def edit(notebook: NotebookNode) -> None:
        cell = at(notebook, name)
        cell.source = textwrap.dedent(source).strip("\n") + "\n\n\n" + cell.source

    return edit


def own(source: str, before: str = "softmax") -> Edit:
    """Put a cell of the learner's own in front of a cell."""

    def edit(notebook: NotebookNode) -> None:
        place = notebook.cells.index(at(notebook, before))
        notebook.cells.insert(place, new_code_cell(textwrap.dedent(source).strip("\n")))

    return edit


RIGHT = """
def _right(scores, axis=-1):
    shifted = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)
"""


def softmax(body: str, above: str = "") -> Edit:
    """A softmax with this body, which may ask ``_right``, and code above it."""
    inner = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    head = textwrap.dedent(above).strip("\n")
    return answer("softmax", f"{head}\n{RIGHT}\n\ndef softmax(scores, axis=-1):\n{inner}\n")
