"""What nbgrader runs for us: its ``Autograde`` step with these two in its lists of preprocessors.

``RebuildFromRelease`` stands first among the sanitizers: what is graded is made from the released
notebook and the learner's answers (:mod:`attend_grader.rebuild`). ``RunChecks`` stands in the place
of nbgrader's ``Execute``: it runs the notebook and then settles each check's outputs, so that
nbgrader's own rules (an error or any stderr: no points; a number: that many; anything else: full
marks) can only read a score that a check gave.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import Execute, NbGraderPreprocessor

from attend_grader.rebuild import rebuild

CHECK = "check"
"""The function a test cell calls; what it returns is the score."""

_SCORE = re.compile(r"\d+(\.\d+)?")


class RebuildFromRelease(NbGraderPreprocessor):
    """Replace the submission, in the copy to be graded, by its rebuilt edition."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Rebuild one notebook.

        Raises:
            NbGraderException: the released notebook is missing.
        """
        ids = resources["nbgrader"]
        release = self._release(ids["assignment"], ids["notebook"])
        rebuilt, flags = rebuild(nb, nbformat.read(release, as_version=4))
        for flag in flags:
            self.log.warning("%s, %s: %s", ids["student"], ids["notebook"], flag)
        if flags:
            rebuilt.cells.insert(0, _notice(flags))
        return rebuilt, resources

    def _release(self, assignment: str, notebook: str) -> Path:
        converter: Any = self.parent and self.parent.parent  # ours is the exporter, its the step
        course = converter.coursedir
        folder = course.format_path(course.release_directory, ".", assignment)
        path = Path(folder, f"{notebook}.ipynb")
        if not path.is_file():
            raise NbGraderException(
                f"{path} is missing, and submissions are rebuilt from it: run "
                f"`nbgrader generate_assignment {assignment} --force` first"
            )
        return path


def _notice(flags: list[str]) -> NotebookNode:
    lines = "\n".join(f"- {flag}" for flag in flags)
    text = (
        "**Graded from a restored copy.** What was handed in differed from the released notebook; "
        f"only answers are taken from a submission, so this changed no score.\n\n{lines}"
    )
    notice = new_markdown_cell(text)
    notice.id = "attend-flags"
    return notice


class RunChecks(Execute):
    """Run a notebook; a check's cell ends with the check's score, or with an error that says why.

    A test cell runs the course's own ``check``, whatever else the notebook called by that name.
    When the kernel dies, what was checked before keeps its points.
    """

    def preprocess(
        self, nb: NotebookNode, resources: Any = None, km: Any = None
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Run all cells in place, then settle the checks."""
        died = ""
        try:
            nb, resources = super().preprocess(nb, resources, km)
        except DeadKernelError:
            self.log.warning("The kernel died; checks that had not run get no points")
            died = "the notebook ended its own kernel before this check was done"
        for cell in nb.cells:
            if is_check(cell):
                settle(cell, died or "the check gave no score")
        return nb, resources

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> Any:
        """Run one cell; a check's with its own import."""
        if not is_check(cell):
            return super().preprocess_cell(cell, resources, index)
        released = cell.source
        cell.source = f"from attend_grader import {CHECK}\n{released}"
        try:
            return super().preprocess_cell(cell, resources, index)
        finally:
            cell.source = released


def is_check(cell: NotebookNode) -> bool:
    """Whether a cell is a graded test whose source is one call of ``check`` and nothing else.

    Tests of an instructor's own, made of assertions, keep nbgrader's usual rules.
    """
    marks = cell.metadata.get("nbgrader", {})
    if cell.cell_type != "code" or not marks.get("grade") or marks.get("solution"):
        return False
    try:
        body = ast.parse(cell.source).body
    except SyntaxError:  # an instructor's own test may hold IPython's magics
        return False
    match body:
        case [ast.Expr(value=ast.Call(func=ast.Name(id=name)))]:
            return name == CHECK
    return False


def settle(cell: NotebookNode, otherwise: str) -> None:
    """Leave a check's cell with its one score from 0 to its points, or with an error.

    Args:
        cell: a check's cell, after it ran; its outputs are replaced.
        otherwise: what the error says where there is neither a score nor an error.
    """
    points = float(cell.metadata.nbgrader.points)
    results = [o for o in cell.outputs if o.output_type == "execute_result"]
    errors = [o for o in cell.outputs if o.output_type == "error"]
    shown = [o for o in cell.outputs if o.output_type in ("stream", "display_data")]
    if not errors and len(results) == 1:
        score = _score(results[0])
        if score is not None and score <= points:
            quiet = [o for o in shown if o.get("name") != "stderr"]
            cell.outputs = [results[0], *quiet]
            return
        otherwise = f"the check's result is not a score from 0 to {points:g}"
    elif results and not errors:
        otherwise = f"the check gave {len(results)} results instead of one score"
    cell.outputs = [*errors, *shown] if errors else [_refusal(otherwise), *shown]


def _score(result: NotebookNode) -> float | None:
    text = result.get("data", {}).get("text/plain", "")
    text = "".join(text) if isinstance(text, list) else str(text)
    return float(text) if _SCORE.fullmatch(text) else None


def _refusal(reason: str) -> NotebookNode:
    line = f"NoScore: {reason}: 0 points."
    return new_output("error", ename="NoScore", evalue=f"{reason}: 0 points.", traceback=[line])
