"""Grading one submission: the function that runs in any process, on any machine."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from nbformat import NotebookNode

from attend_grader.checks.plain import plain
from attend_grader.grading import handed_in, similar
from attend_grader.grading.reach import reached
from attend_grader.grading.rebuild import graded_name, rebuild
from attend_grader.grading.record import Record, overall
from attend_grader.grading.submission import Verdict, grade_notebook
from attend_grader.judging.report import Report
from attend_grader.sandbox.jail import Limits, SandboxMissing
from attend_grader.sandbox.warm import JailKilled, WarmParent

_thread = threading.local()


@dataclass(frozen=True)
class Job:
    """All that is needed to grade one submission anywhere.

    Attributes:
        record: says whose it is, which version and which seed; without a result yet.
        content: the submitted notebook; empty until :meth:`loaded` where ``folder`` is given.
        release: the released notebook.
        unsafe: without a jail.
        limits: how much it may use.
        folder: the submission's, on the machine that has the course directory.
    """

    record: Record
    content: bytes
    release: bytes
    unsafe: bool = False
    limits: Limits = field(default_factory=Limits)
    folder: Path | None = None

    def loaded(self) -> Job:
        """With its content, as it is in its folder now: read when its turn comes, not before."""
        if self.folder is None or self.content or self.record.problem:
            return self
        found = handed_in.read(self.folder, self.record.notebook)
        record = replace(self.record, submission=found.sha256, problem=found.problem)
        return replace(self, record=record, content=found.content)


def grade(job: Job) -> Record:
    """Grade one submission; its record is complete, whatever the submission is.

    Raises:
        SandboxMissing: submissions cannot be run safely here.
    """
    try:
        return _grade(job)
    except SandboxMissing:
        raise
    except Exception as error:  # a submission that trips the grader must not stop the others
        traceback.print_exc()
        return given_up(job, f"the grader itself failed on it ({type(error).__name__}: {error})")


def given_up(job: Job, why: str) -> Record:
    """The record of a submission that the grader could not finish."""
    why = plain(why)
    return replace(job.record, reason="CRASH", problem=why, verdicts=nothing_earned(job, why))


def _grade(job: Job) -> Record:
    start = time.monotonic()
    release = handed_in.released(job.release)
    record = job.record
    if record.problem:
        return replace(record, reason="INVALID", verdicts=nothing_earned(job, record.problem))
    try:
        submitted = handed_in.submitted(job.content)
    except ValueError as error:
        why = str(error)
        verdicts = nothing_earned(job, why)
        return replace(record, reason="INVALID", problem=why, verdicts=verdicts)
    notebook, flags = rebuild(submitted, release)
    flags += reached(notebook)
    chapter_id = record.chapter
    modules = _imported(job.release)
    verdicts: tuple[Verdict, ...] = ()
    for _ in range(2):
        told: list[str] = []
        parent = warm_parent(chapter_id, job.unsafe, job.limits, modules)
        try:
            verdicts = tuple(grade_notebook(notebook, chapter_id, parent, record.seed, told.append))
        except SandboxMissing:
            if parent.is_alive():
                raise
        if parent.is_alive():  # else what it ended with is not the submission's doing
            break
    else:
        raise RuntimeError("its sandbox was ended from outside, twice")
    return replace(
        record,
        reason=overall(verdicts),
        verdicts=verdicts,
        flags=(*record.flags, *flags, *told),
        answers=answers(notebook, release),
        seconds=round(time.monotonic() - start, 3),
        peak_memory=parent.peak_memory(),
    )


@lru_cache(maxsize=4)
def _imported(release: bytes) -> tuple[str, ...]:
    """What a released notebook imports, the same for all its submissions."""
    return handed_in.imported(handed_in.released(release))


def answers(
    notebook: NotebookNode, release: NotebookNode
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Exercise → the learner's cell and what is their own of it, where they wrote anything."""
    stubs = dict(solutions(release))
    return {
        name: (source, similar.own(source, stubs[name]))
        for name, source in solutions(notebook)
        if name in stubs and source.strip() != stubs[name].strip()
    }


def solutions(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """(exercise, source) of the solution cells."""
    for cell in notebook.cells:
        name = graded_name(cell)
        if name and cell.cell_type == "code" and cell.metadata.nbgrader.get("solution"):
            yield name, cell.source


def warm_parent(
    chapter_id: str, unsafe: bool, limits: Limits, modules: tuple[str, ...]
) -> WarmParent:
    """This thread's warm parent for a chapter; it serves all its submissions.

    Args:
        chapter_id: such as ``"03_attention"``.
        unsafe: without a jail.
        limits: for every submission.
        modules: what the released notebook imports.
    """
    mine = _thread.__dict__.setdefault("parents", {})
    key = chapter_id, unsafe, limits, modules
    guess = _thread.__dict__.pop("expected", key)
    if guess != key and guess in mine:  # the course has limits of its own
        mine.pop(guess).close()
    if key in mine and not mine[key].is_alive():
        mine.pop(key).close()
    if key not in mine:
        try:
            mine[key] = WarmParent(chapter_id, limits, modules=modules, unsafe=unsafe)
        except JailKilled:
            mine[key] = WarmParent(chapter_id, limits, modules=modules, unsafe=unsafe)
    return mine[key]


def expect(chapter_id: str, release: bytes, unsafe: bool) -> None:
    """Start this thread's warm parent before its first job, as far as it can be told by then."""
    key = chapter_id, unsafe, Limits(), _imported(release)
    warm_parent(*key)
    _thread.expected = key


def nothing_earned(job: Job, why: str) -> tuple[Verdict, ...]:
    """A verdict of 0 points for each graded test of the release."""
    verdicts = []
    for cell in handed_in.released(job.release).cells:
        marks = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and marks.get("grade") and not marks.get("solution"):
            report = Report(None, (), "invalid", why)
            verdicts.append(Verdict(marks["grade_id"], float(marks["points"]), report))
    return tuple(verdicts)
