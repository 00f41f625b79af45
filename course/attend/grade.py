"""``attend grade``: what people and scripts see of grading a class."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Literal

from attend_grader.checks.plain import plain
from attend_grader.gradebook.directory import Course, CourseError
from attend_grader.gradebook.grade import Event, grade_assignment, named, replay
from attend_grader.grading.cluster import ClusterError
from attend_grader.grading.record import Record
from attend_grader.sandbox.jail import SandboxMissing
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from attend.errors import AttendError

Mode = Literal["rich", "quiet", "json"]

NOT_GRADED = 3
"""Exit code where submissions could not be graded at all; their records say why."""

UNSAFE = (
    "Submissions run without a sandbox, with your rights: --unsafe-no-sandbox. Limits on time, "
    "files and the memory of one process hold; nothing bounds what several processes take together."
)
LIMITS = (
    "Limits are kept without cgroups, some of them less strictly than others: see “Limits” in "
    "autograder/README.md."
)

STYLES = {
    "PASSED": "green",
    "PARTIAL": "yellow",
    "NOT_STARTED": "dim",
    "FAILED": "red",
    "INVALID": "bold red",
    "TIMEOUT": "magenta",
    "MEMORY": "magenta",
    "CRASH": "magenta",
}


def main(
    assignment: str,
    *,
    course: Path,
    students: str | None,
    workers: int,
    scheduler: str,
    force: bool,
    seed: int | None,
    unsafe: bool,
    mode: Mode,
) -> int:
    """Grade an assignment; the exit code.

    Raises:
        AttendError: one sentence on what prevents it.
    """
    if workers < 1:
        raise AttendError(f"--workers: at least 1 is needed, got {workers}", 2)
    if seed is not None and seed < 0:
        raise AttendError(f"--seed: 0 or more is needed, got {seed}", 2)
    chosen = None if students is None else [s.strip() for s in students.split(",") if s.strip()]
    if chosen == []:
        raise AttendError("--students: name at least one, or leave it out to grade all", 2)
    show = {"rich": Lines, "quiet": Quiet, "json": JsonLines}[mode]()
    if unsafe:
        show.warn(UNSAFE)
    try:
        opened = Course.open(course)
        with show:
            records = grade_assignment(
                opened,
                assignment,
                students=chosen or (),
                workers=workers,
                scheduler=scheduler,
                force=force,
                seed=seed,
                unsafe=unsafe,
                show=show.event,
            )
        lost = [] if chosen else opened.misplaced(assignment, opened.release(assignment))
    except CourseError as error:
        raise AttendError(str(error), error.exit_code) from None
    except (ClusterError, SandboxMissing) as error:
        raise AttendError(str(error)) from None
    except OSError as error:
        raise AttendError(
            f"grading stopped: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}. What is graded is kept: run the "
            "same command again to go on."
        ) from None
    except KeyboardInterrupt:
        raise AttendError(
            "interrupted. What is graded is kept: run the same command again to go on.", 130
        ) from None
    show.summary(records)
    if lost:
        show.warn(
            f"Not graded, as no submission is looked for there: {named(lost)}. Move each to "
            f"{opened.submitted('STUDENT', assignment)}."
        )
    return NOT_GRADED if lost or any(record.problem for record in records) else 0


def show_replay(assignment: str, student: str, exercise: str, course: Path, unsafe: bool) -> int:
    """Print one verdict again, with the inputs it was made from.

    Raises:
        AttendError: it was not graded, or there is no such exercise.
    """
    if unsafe:
        Display().warn(UNSAFE)
    try:
        record = replay(Course.open(course), assignment, student, exercise, unsafe=unsafe)
    except CourseError as error:
        raise AttendError(str(error), error.exit_code) from None
    except SandboxMissing as error:
        raise AttendError(str(error)) from None
    exercise = exercise.removeprefix("check-")
    names = {verdict.name.removeprefix("check-"): verdict for verdict in record.verdicts}
    if exercise not in names:
        known = ", ".join(names) or "none"
        raise AttendError(f"{assignment} has no exercise {exercise!r}; it has: {known}", 2)
    print(f"{plain(student)}, {assignment}, seed {record.seed}, grader version {record.version}")
    print(names[exercise].report or names[exercise].error or "passed")
    return 0


class Display:
    """What is shown while grading; made to be used in a ``with``."""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def warn(self, text: str) -> None:
        """Say something that must be seen in every mode."""
        print(text, file=sys.stderr)

    def event(self, event: Event) -> None:
        """Something happened."""

    def summary(self, records: list[Record]) -> None:
        """All is done."""


class Quiet(Display):
    """Nothing but warnings and what could not be graded."""

    def event(self, event: Event) -> None:
        """Tell what could not be graded."""
        if event.record is not None and event.record.problem:
            self.warn(f"{plain(event.student)}: {event.record.problem}")


class JsonLines(Display):
    """One JSON object a line, for scripts."""

    def event(self, event: Event) -> None:
        """Print the event."""
        line: dict[str, object] = {
            "event": event.kind,
            "student": event.student,
            "notebook": event.notebook,
        }
        if event.record is not None:
            line |= _facts(event.record)
        text = json.dumps(line, ensure_ascii=False)
        print(text if text.isprintable() else json.dumps(line), flush=True)

    def summary(self, records: list[Record]) -> None:
        """Print how many ended how."""
        reasons = Counter(record.reason for record in records)
        print(json.dumps({"event": "summary", "submissions": len(records), "reasons": reasons}))


class Lines(Display):
    """A line for each submission, a bar below, a table at the end."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.bar = Progress(
            TextColumn("grading"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("grading", total=0)
        self.unchanged = self.waiting = 0
        self.stopped = False
        self.start = time.monotonic()

    def __enter__(self) -> Lines:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def event(self, event: Event) -> None:
        """Show it."""
        if event.kind == "unchanged" and event.record is not None:
            self.unchanged += 1
            if event.record.problem:
                self.console.print(_line(event.record), soft_wrap=True)
            return
        if event.kind == "waiting":
            self.waiting += 1
            self.bar.update(self.task, total=self.waiting)
            return
        assert event.record is not None
        self.bar.advance(self.task)
        self.console.print(_line(event.record), soft_wrap=True)
        reasons = {verdict.reason for verdict in event.record.verdicts}
        self.stopped |= not reasons.isdisjoint(("TIMEOUT", "MEMORY"))
        for flag in event.record.flags:
            self.console.print(f"    flagged: {flag}", style="yellow", markup=False, soft_wrap=True)

    def summary(self, records: list[Record]) -> None:
        """Show how many ended how."""
        table = Table(title="Submissions by outcome", title_justify="left")
        table.add_column("outcome")
        table.add_column("submissions", justify="right")
        table.add_column("mean score", justify="right")
        for reason, style in STYLES.items():
            mine = [record for record in records if record.reason == reason]
            if mine:
                mean = sum(record.score for record in mine) / len(mine)
                table.add_row(f"[{style}]{reason}[/]", str(len(mine)), f"{mean:.1f}")
        self.console.print(table)
        seconds = time.monotonic() - self.start
        flagged = sum(bool(record.flags) for record in records)
        lost = sum(bool(record.problem) for record in records)
        self.console.print(
            f"{self.waiting} graded in {seconds:.1f} s, {self.unchanged} unchanged, "
            f"{flagged} flagged{' (`attend report` lists them)' if flagged else ''}."
            + (f" {lost} could not be graded: see INVALID above." if lost else ""),
            soft_wrap=True,
        )
        if self.stopped:
            self.console.print(LIMITS, style="dim", soft_wrap=True)


def _line(record: Record) -> str:
    style, student = STYLES[record.reason], plain(record.student)
    if record.problem:
        return f"[{style}]{record.reason:11}[/] {escape(f'{student}: {record.problem}')}"
    score = f"{record.score:g} / {record.points:g}"
    memory = f"{record.peak_memory / 2**20:.0f} MiB"
    return (
        f"[{style}]{record.reason:11}[/] {escape(f'{student:24}')} {score:>9}  "
        f"{record.seconds:5.1f} s  {memory:>8}"
    )


def _facts(record: Record) -> dict[str, object]:
    return {
        "reason": record.reason,
        "score": record.score,
        "points": record.points,
        "problem": record.problem,
        "flags": record.flags,
        "seconds": record.seconds,
        "peak_memory": record.peak_memory,
        "seed": record.seed,
        "submission": record.submission,
        "grader_version": record.version,
        "exercises": {v.name: {"score": v.score, "reason": v.reason} for v in record.verdicts},
    }
