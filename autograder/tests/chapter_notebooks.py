"""Any chapter's notebook, solved, with some of its answers left out or spoilt."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from attend import stub
from attend.build import release_notebook
from attend_grader import chapters
from attend_grader.grading.handed_in import imported
from attend_grader.grading.rebuild import rebuild
from attend_grader.grading.submission import Verdict, grade_notebook
from attend_grader.sandbox.jail import Limits
from attend_grader.sandbox.warm import WarmParent
from nbformat import NotebookNode

LIMITS = Limits(check_seconds=60, submission_seconds=600, cpu_seconds=600)

SPOILT = """

def spoilt(value):
    if isinstance(value, tuple):
        return tuple(spoilt(part) for part in value)
    if isinstance(value, dict):
        return {key: spoilt(part) for key, part in value.items()}
    if hasattr(value, "dtype") and "bool" in str(value.dtype):
        return ~value
    return value * 3 + 1 if not hasattr(value, "detach") else value.detach() * 3 + 1

"""
FUNCTION = """
right_one = {name}


def {name}(*args, **kwargs):
    return spoilt(right_one(*args, **kwargs))
"""
CLASS = """
class {name}({name}):
    def forward(self, *args, **kwargs):
        return spoilt(super().forward(*args, **kwargs))
"""


class Notebooks:
    """One chapter's release, and a warm parent for it."""

    def __init__(self, chapter_id: str) -> None:
        self.exercises = {e.name: e for e in chapters.chapter(chapter_id).exercises}
        self.chapter_id = chapter_id
        self.release = release_notebook(chapter_id)
        self.parent = WarmParent(chapter_id, LIMITS, modules=imported(self.release))

    def solved(self) -> NotebookNode:
        """The release with all answers."""
        notebook = copy.deepcopy(self.release)
        for name, exercise in self.exercises.items():
            self.cell(notebook, name).source = stub.solution_text(exercise.reference)
        return notebook

    def unwritten(self, name: str) -> NotebookNode:
        """All but one exercise solved."""
        notebook = self.solved()
        self.cell(notebook, name).source = self.cell(self.release, name).source
        return notebook

    def wrong(self, name: str) -> NotebookNode:
        """One exercise returns wrong numbers without a gradient; the others are right."""
        notebook = self.solved()
        form = CLASS if isinstance(self.exercises[name].reference, type) else FUNCTION
        self.cell(notebook, name).source += SPOILT + form.format(name=name)
        return notebook

    def with_answers(self, answers: Mapping[str, str]) -> NotebookNode:
        """The solved notebook with these cells instead."""
        notebook = self.solved()
        for name, source in answers.items():
            self.cell(notebook, name).source = source
        return notebook

    def cell(self, notebook: NotebookNode, name: str) -> NotebookNode:
        """The cell of an exercise."""
        return next(cell for cell in notebook.cells if cell.id == name)

    def grade(
        self, notebook: NotebookNode, tell: Callable[[str], None] = lambda flag: None
    ) -> dict[str, Verdict]:
        """The verdicts by exercise."""
        rebuilt, _ = rebuild(notebook, self.release)
        verdicts = grade_notebook(rebuilt, self.chapter_id, self.parent, 7, tell)
        return {verdict.name.removeprefix("check-"): verdict for verdict in verdicts}
