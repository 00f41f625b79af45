"""Grading one notebook: its cells run in the jail, its checks out here.

Cells run in order, up to the last check. Where a check stands, the trusted side asks the jail for
values of the learner's function and decides. What ends a process (time, memory, a crash) costs the
exercise during which it happened, and no other: the cells before run again in a fresh process,
without the one that did it.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbformat import NotebookNode

from attend_grader import chapters
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.plain import plain
from attend_grader.checks.subject import Subject
from attend_grader.grading.names import origins, with_kernels
from attend_grader.grading.rebuild import graded_name
from attend_grader.grading.trusting import Trusting
from attend_grader.judging.judge import judge, references_for
from attend_grader.judging.reading import MAX_SOURCE, bound
from attend_grader.judging.report import Report, Status, empty_report
from attend_grader.sandbox.jail import SandboxMissing
from attend_grader.sandbox.patience import patience
from attend_grader.sandbox.warm import Child, SubmissionDied, WarmParent

MAX_TEXT = 4_000
"""Characters of one message or piece of evidence on a card."""


@dataclass(frozen=True)
class Verdict:
    """What became of one graded cell.

    Attributes:
        name: the cell's ``grade_id``.
        points: the most it can give.
        report: of a check; None for a test of an instructor's own, made of assertions.
        error: why a test of an instructor's own failed; None where it passed.
        seconds: how long it took.
    """

    name: str
    points: float
    report: Report | None
    error: str | None = None
    seconds: float = 0.0

    @property
    def score(self) -> float:
        """Points earned."""
        if self.report is None:
            return 0.0 if self.error else self.points
        return float(min(self.report.score, self.points))

    @property
    def reason(self) -> str:
        """One word for the outcome, in capitals: PASSED, PARTIAL, TIMEOUT, …"""
        if self.report is None:
            return "FAILED" if self.error else "PASSED"
        return self.report.status.upper().replace(" ", "_")


def _is_test(cell: NotebookNode) -> bool:
    marks = cell.metadata.get("nbgrader", {})
    return bool(cell.cell_type == "code" and marks.get("grade") and not marks.get("solution"))


def called_by_check(cell: NotebookNode) -> str | None:
    """The name in ``check(name)``, where that is all a graded test cell holds; else None.

    Tests of an instructor's own, made of assertions, give None.
    """
    if not _is_test(cell):
        return None
    try:
        body = ast.parse(cell.source).body
    except SyntaxError:  # an instructor's own test may hold IPython's magics
        return None
    match body:
        case [ast.Expr(value=ast.Call(func=ast.Name(id="check"), args=[ast.Name(id=name), *_]))]:
            return name
    return None


def grade_notebook(
    notebook: NotebookNode,
    chapter_id: str,
    parent: WarmParent,
    seed: int,
    tell: Callable[[str], None] = lambda flag: None,
) -> list[Verdict]:
    """Grade every test of a rebuilt notebook.

    Args:
        notebook: from :func:`attend_grader.grading.rebuild.rebuild`; not modified.
        chapter_id: such as ``"03_attention"``.
        parent: a warm parent for this chapter.
        seed: draws all random inputs.
        tell: called with what an instructor should know besides.

    Returns:
        one verdict for each graded test cell, in order.

    Raises:
        SandboxMissing: the jail cannot start processes any more.
    """
    run = _Run(notebook, parent)
    verdicts = []
    tests = [index for index, cell in enumerate(notebook.cells) if _is_test(cell)]
    try:
        for index, cell in enumerate(notebook.cells[: max(tests, default=-1) + 1]):
            if cell.cell_type != "code":
                continue
            marks = cell.metadata.get("nbgrader", {})
            if index not in tests:
                run.reach(index)
                continue
            start = time.monotonic()
            name = called_by_check(cell)
            if name is None:
                verdict = run.instructors_own(index)
            else:
                exercise = chapters.exercise(f"{chapter_id}/{name}")
                report = run.check(index, exercise, seed)
                verdict = Verdict(marks["grade_id"], float(marks["points"]), report)
            verdicts.append(replace(verdict, seconds=time.monotonic() - start))
    finally:
        run.end()
    for flag in run.flags():
        tell(plain(flag))
    return [cleaned(verdict) for verdict in verdicts]


def cleaned(verdict: Verdict) -> Verdict:
    """The same verdict, with text from the submission fit to be shown anywhere."""

    def fit(text: str) -> str:
        return plain(text, MAX_TEXT, lines=True)

    error = None if verdict.error is None else fit(verdict.error)
    report = verdict.report
    if report is not None:
        findings = tuple(
            replace(
                finding,
                message=fit(finding.message),
                evidence=tuple((label, fit(text)) for label, text in finding.evidence),
            )
            for finding in report.findings
        )
        said = {"note": fit(report.note), "printed": fit(report.printed)}
        report = replace(report, findings=findings, explanation=fit(report.explanation), **said)
    return replace(verdict, error=error, report=report)


class _Run:
    """The notebook's cells in one process after another."""

    def __init__(self, notebook: NotebookNode, parent: WarmParent) -> None:
        self.cells = notebook.cells
        self.given = notebook.metadata.get("attend", {}).get("given", 0)
        self.parent = parent
        self.child: Child | None = None
        self.done: list[int] = []  # cells that have run in the child, in order
        self.wanted: list[int] = []  # cells that have been reached
        self.deadly: dict[int, SubmissionDied] = {}
        self.errors: dict[int, str | None] = {}  # of cells that have run
        self.start = time.monotonic()

    @property
    def until(self) -> float:
        """When the time for the whole submission is used up."""
        return self.start + self.parent.limits.submission_seconds * patience()

    @property
    def late(self) -> bool:
        """Whether the time for the whole submission is used up."""
        return time.monotonic() >= self.until

    def flags(self) -> list[str]:
        """What became of cells that are no exercise's."""
        flags = []
        for index in range(self.given):
            error = self.errors.get(index)
            if error and "raises-exception" not in self.cells[index].metadata.get("tags", ()):
                flags.append(
                    f"A cell of the course's own failed ({error[:200]}) before any code of the "
                    "submission ran: its scores may be wrong."
                )
        for index, death in sorted(self.deadly.items()):
            if graded_name(self.cells[index]) is None:
                flags.append(f"A cell that is not graded was stopped ({death}); it was left out.")
        if self.late:
            flags.append("The time for the whole submission was used up; the rest did not run.")
        return flags

    def reach(self, index: int) -> None:
        """Run a cell after all those before it; remember if it ends the process."""
        self.wanted.append(index)
        self.process()

    def process(self) -> Child:
        """A process in which all reached cells have run, but for the deadly ones."""
        while True:
            if self.child is None:
                self.child, self.done = self.parent.child(), []
                timeouts = [d for d in self.deadly.values() if d.reason == "timeout"]
                self.child.hurried = bool(timeouts)
            self.child.until = self.until
            for index in self.wanted:
                if index in self.done or index in self.deadly or self.late:
                    continue
                try:
                    self.errors[index], _ = self.child.run_cell(self.cells[index].source)
                except SubmissionDied as death:
                    self.deadly[index] = death
                    self.child = None
                    break
                self.done.append(index)
            if self.child is not None:
                return self.child

    def check(self, index: int, exercise: Exercise, seed: int) -> Report:
        """Judge the exercise's function as it is when its check's turn has come."""
        worth = [(p.name, p.points) for p in exercise.properties]
        home = self._home(exercise.name)
        if home in self.deadly:
            return _ended(exercise, worth, self.deadly[home], "its cell was run", seed)
        child = self.process()
        child.references = references_for(exercise, chapters.references(exercise))
        child.allow(self.parent.limits.check_seconds)
        channel = self._channel(child, exercise)
        try:
            if not child.candidate(exercise.name):
                note = self._not_defined(exercise.name, home)
                return replace(empty_report(exercise.id, worth, "invalid", note), seed=seed)
            report = judge(Subject(channel), exercise, seed, extra=True)
        except SubmissionDied as died:
            death = SubmissionDied("memory", "it used up its memory") if channel.starved else died
            self.child = None
            report = self._given_right_parts(exercise, seed)
            if report is not None:
                return report
            if home is not None:  # later exercises are checked without it, given what they need
                self.deadly[home] = death
            return _ended(exercise, worth, death, "it was checked", seed)
        except SandboxMissing:
            raise
        except Exception as error:  # whatever a submission answers, grading goes on
            self.end()
            self.child = None
            death = SubmissionDied("protocol", f"judging it raised {type(error).__name__}")
            return _ended(exercise, worth, death, "it was checked", seed)
        if channel.starved:
            self._replace(child)
            right = None if report.status == "passed" else self._given_right_parts(exercise, seed)
            if right is not None and right.score > report.score:
                return right
        if not report.score and _out_of_memory(report):
            note = "It asked for more memory than there is for one submission."
            return replace(report, status="memory", note=note)
        return report

    def _given_right_parts(self, exercise: Exercise, seed: int) -> Report | None:
        """Judge once more, with references in the place of earlier exercises it may call.

        Where one of these ended the process, this exercise is not to blame.
        """
        if not exercise.uses:
            return None
        child = self.process()
        child.references = references_for(exercise, chapters.references(exercise))
        child.allow(self.parent.limits.check_seconds)
        try:
            if not child.candidate(exercise.name):
                return None
            channel = self._channel(child, exercise)
            subject = Subject(channel).with_references(exercise.uses)
            report = judge(subject, exercise, seed, extra=True)
        except SubmissionDied:
            self.child = None
            return None
        if channel.starved:
            self._replace(child)
        return replace(report, fix_first=exercise.uses) if report.score else None

    def _replace(self, child: Child) -> None:
        """Go on in a fresh process: in this one memory ran out, and may be held still."""
        child.close()
        self.child = None

    def instructors_own(self, index: int) -> Verdict:
        """Run a test made of assertions: it passes where it raises nothing."""
        cell = self.cells[index]
        marks = cell.metadata.nbgrader
        try:
            error, _ = self.process().run_cell(cell.source)
        except SubmissionDied as death:
            self.child, error = None, f"{death.reason}: {death}"
        return Verdict(marks["grade_id"], float(marks["points"]), None, error)

    def end(self) -> None:
        """End the process that is left."""
        if self.child is not None:
            self.child.close()

    def _home(self, name: str) -> int | None:
        """The exercise's own solution cell."""
        for index, cell in enumerate(self.cells):
            if cell.cell_type == "code" and graded_name(cell) == name:
                return index
        return None

    def _not_defined(self, name: str, home: int | None) -> str:
        """Why there is nothing of this name to check, as far as is known."""
        error = None if home is None else self.errors.get(home)
        if home is None or error is None:
            return f"{name} is not defined after the cells above the check have run."
        told = error
        if error.startswith(("SyntaxError", "IndentationError", "TabError")):
            told = _syntax_error(self.cells[home].source) or error
        return f"{name} is not defined: its cell ended with {told}"

    def _channel(self, child: Child, exercise: Exercise) -> Trusting:
        name = exercise.name
        read = origins([self.cells[index].source for index in self.done], name, exercise.uses)
        return Trusting(child, self._definition(name), read)

    def _definition(self, name: str) -> tuple[str, int] | None:
        """The last definition of ``name`` in the cells that ran: (source, its first line).

        None where the name stands for something else by then, or that is unclear: then the
        process's own description counts.
        """
        found = None
        for index in self.done:
            source = self.cells[index].source
            names = bound(source)
            if names is None:
                found = None if name in source else found
            elif name in names:
                found = names[name]
        if found is None:
            return None
        return with_kernels(found[0], [self.cells[i].source for i in self.done]), found[1]


_ENDED: Mapping[str, tuple[Status, str]] = {
    "timeout": ("timeout", "Stopped: it did not come to an end. Is there a loop that never ends?"),
    "memory": ("memory", "Stopped: {death}."),
    "crash": ("crash", "Its process is gone: {death}."),
    "protocol": ("crash", "The process answered what no right answer looks like ({death})."),
}


def _ended(exercise: Exercise, worth: Any, death: SubmissionDied, when: str, seed: int) -> Report:
    status, text = _ENDED[death.reason]
    note = f"{text.format(death=death)} This happened while {when}; other exercises are graded."
    return replace(empty_report(exercise.id, worth, status, note), seed=seed)


def _syntax_error(source: str) -> str:
    """What Python says of a text it cannot read, or "" where it can: IPython only says a part."""
    if len(source) > MAX_SOURCE:
        return ""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return f"{type(error).__name__}: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError):  # a source made to trip the parser
        return ""
    return ""


def _out_of_memory(report: Report) -> bool:
    """Whether every property was lost to memory running out."""
    said = [f.message for f in report.findings if f.message]
    return any("MemoryError" in text for text in said)
