"""What nbgrader runs for us: its ``Autograde`` step with these in its settings.

``SubmissionReader`` opens what was handed in (:mod:`attend_grader.grading.handed_in`).
``RebuildFromRelease`` stands first among the sanitizers: what is graded is made from the released
notebook and the learner's answers (:mod:`attend_grader.grading.rebuild`). ``RunChecks`` takes the
place of nbgrader's ``Execute``: submitted code runs in a jail (:mod:`attend_grader.sandbox`),
verdicts are made here (:mod:`attend_grader.grading.submission`), and nbgrader's own rules (an error
or any stderr: no points; a number: that many; anything else: full marks) can only read what is
written here.
"""

from __future__ import annotations

import secrets
from glob import glob
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Dict, Integer

from attend_grader import chapters
from attend_grader.gradebook import scores
from attend_grader.gradebook.directory import CourseError, limits_from
from attend_grader.grading import handed_in
from attend_grader.grading.reach import reached
from attend_grader.grading.rebuild import harmless, rebuild
from attend_grader.grading.submission import Verdict, grade_notebook
from attend_grader.grading.work import warm_parent
from attend_grader.sandbox.jail import SandboxMissing


class SubmissionReader(NotebookExporter):
    """Read what was handed in without trusting it: ``Autograde.exporter_class``.

    Where there is no notebook to read, an empty one says why, and a score of 0 takes the place of
    an earlier version's. Folders without the notebook are passed over by nbgrader, so their scores
    are set as it begins.
    """

    def __init__(self, config: Any = None, **kw: Any) -> None:
        super().__init__(config=config, **kw)
        if isinstance(self.parent, Autograde):
            _clear_missing(self.parent)

    def from_file(
        self, file_stream: Any, resources: dict[str, Any] | None = None, **kw: Any
    ) -> Any:
        """Convert the notebook in an opened file."""
        path = Path(file_stream.name)
        found = handed_in.read(path.parent, path.stem)
        problem, notebook = found.problem, new_notebook()
        try:
            if self._is_ours(path):
                notebook = handed_in.parse(found.content)
            elif not problem:
                notebook = handed_in.submitted(found.content)
        except ValueError as error:
            problem = str(error)
        if problem:
            notebook = new_notebook(metadata={"attend": {"problem": problem}})
        return self.from_notebook_node(notebook, resources=resources, **kw)

    def _is_ours(self, path: Path) -> bool:
        """Whether it is the rebuilt copy, which nbgrader reads once more: what it says is ours."""
        if not isinstance(self.parent, Autograde):
            return False
        course: Any = self.parent.coursedir
        place = course.format_path(course.autograded_directory, path.parents[1].name, ".")
        return path.resolve().is_relative_to(Path(place).resolve())


def _clear_missing(converter: Autograde) -> None:
    """Give 0 for notebooks that an earlier version had, and the folder has no more."""
    course: Any = converter.coursedir
    assignment = course.assignment_id
    folders = course.format_path(course.submitted_directory, course.student_id, assignment)
    with Gradebook(course.db_url, course.course_id) as gradebook:
        for folder in map(Path, sorted(glob(folders))):
            student = folder.parent.name
            for name in scores.without_file(gradebook, folder, student, assignment):
                step = course.format_path(course.autograded_directory, student, assignment)
                Path(step, f"{name}.ipynb").unlink(missing_ok=True)
                converter.log.warning("%s: there is no %s.ipynb in %s", student, name, folder)


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
        release = released(self, ids["assignment"], ids["notebook"])
        problem = nb.metadata.get("attend", {}).get("problem")
        rebuilt, flags = rebuild(release if problem else nb, release)
        for flag in (*flags, *reached(rebuilt), *([str(problem)] if problem else ())):
            self.log.warning("%s, %s: %s", ids["student"], ids["notebook"], flag)
        if problem:
            rebuilt.cells.insert(0, not_graded(problem))
        elif flags:
            rebuilt.cells.insert(0, notice(flags))
        return rebuilt, resources


def released(step: NbGraderPreprocessor, assignment: str, notebook: str) -> NotebookNode:
    """The released notebook of the class directory that nbgrader works in.

    Raises:
        NbGraderException: it is missing.
    """
    converter: Any = step.parent and step.parent.parent  # a step's is the exporter, its nbgrader
    course = converter.coursedir
    folder = course.format_path(course.release_directory, ".", assignment)
    path = Path(folder, f"{notebook}.ipynb")
    if not path.is_file():
        raise NbGraderException(
            f"{path} is missing, and submissions are rebuilt from it: run "
            f"`nbgrader generate_assignment {assignment} --force` first"
        )
    return nbformat.read(path, as_version=4)


def not_graded(problem: str) -> NotebookNode:
    """A cell that tells why there is no score."""
    text = (
        f"**Nothing could be graded:** {harmless(problem)}. Put that right and hand it in again, "
        "or ask your instructor."
    )
    return new_markdown_cell(text, id="attend-problem")


def notice(flags: list[str]) -> NotebookNode:
    """A cell that tells what was put back before grading."""
    lines = "\n".join(f"- {flag}" for flag in flags)
    text = (
        "**Graded from a restored copy.** What was handed in differed from the released notebook; "
        f"only answers are taken from a submission, so this changed no score.\n\n{lines}"
    )
    notice = new_markdown_cell(text)
    notice.id = "attend-flags"
    return notice


class RunChecks(NbGraderPreprocessor):
    """Run a notebook's cells in a jail and write what its checks decide, out here, into it.

    A check's cell ends with its score and its card. A test of an instructor's own, made of
    assertions, ends with its error or with nothing, as nbgrader's own rules want it. All other
    cells stay without outputs: nothing that a submission shows reaches anybody's browser.
    """

    unsafe_no_sandbox = Bool(
        False, help="Run submissions without a jail: only where you trust every one of them."
    ).tag(config=True)
    limits = Dict(
        help="How much a submission may use, by name: see attend_grader.sandbox.jail.Limits."
    ).tag(config=True)
    show_inputs = Bool(
        False, help="Show learners, in feedback, the inputs that their answers were checked with."
    ).tag(config=True)
    seed = Integer(
        None, allow_none=True, help="Draw the same inputs for all; None: fresh ones for each."
    ).tag(config=True)

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Grade one rebuilt notebook.

        Raises:
            NbGraderException: submissions cannot be run safely here.
        """
        ids = resources["nbgrader"]
        chapter_id = chapters.first_known(ids["notebook"], ids["assignment"])
        seed = secrets.randbits(32) if self.seed is None else self.seed
        try:
            limits = limits_from(self.limits)
            modules = handed_in.imported(released(self, ids["assignment"], ids["notebook"]))
            parent = warm_parent(chapter_id, self.unsafe_no_sandbox, limits, modules)
            verdicts = grade_notebook(nb, chapter_id, parent, seed, self.log.warning)
        except (CourseError, SandboxMissing) as error:
            raise NbGraderException(str(error)) from None
        write_verdicts(nb, verdicts, show_inputs=self.show_inputs)
        return nb, resources


def write_verdicts(
    notebook: NotebookNode, verdicts: list[Verdict], *, show_inputs: bool = False
) -> None:
    """Write outputs that give each graded test just its score, and clear all other outputs."""
    by_name = {verdict.name: verdict for verdict in verdicts}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        verdict = by_name.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        if verdict is not None:
            cell.outputs = outputs(verdict, show_inputs=show_inputs)


def outputs(verdict: Verdict, *, show_inputs: bool = False) -> list[NotebookNode]:
    """What a graded test's cell shows: nbgrader reads the score from it, people the card."""
    if verdict.report is not None:
        card = verdict.report if show_inputs else verdict.report.without_inputs()
        data = {"text/plain": f"{verdict.score:g}", "text/html": card._repr_html_()}
        return [new_output("execute_result", data=data, execution_count=1)]
    if verdict.error is None:
        return []
    name, _, text = verdict.error.partition(": ")
    return [new_output("error", ename=name, evalue=text, traceback=[verdict.error])]
