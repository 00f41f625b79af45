"""Grading submissions in several processes, or on several machines: one function, many callers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing import get_context

from attend_grader.chapters import INDEX
from attend_grader.classes import handed_in
from attend_grader.classes.record import Record, overall
from attend_grader.grading import Verdict, grade_notebook
from attend_grader.rebuild import rebuild
from attend_grader.report import Report
from attend_grader.sandbox.jail import Limits
from attend_grader.sandbox.warm import WarmParent


@dataclass(frozen=True)
class Job:
    """All that is needed to grade one submission anywhere.

    Attributes:
        record: says whose it is, which version and which seed; without a result yet.
        content: the submitted notebook.
        release: the released notebook.
        unsafe: without a jail.
        limits: how much it may use.
    """

    record: Record
    content: bytes
    release: bytes
    unsafe: bool = False
    limits: Limits = field(default_factory=Limits)


def grade(job: Job) -> Record:
    """Grade one submission; its record is complete.

    Raises:
        SandboxMissing: submissions cannot be run safely here.
    """
    start = time.monotonic()
    release = handed_in.parse(job.release)
    record = job.record
    if record.problem:
        return replace(record, reason="INVALID", verdicts=nothing_earned(job, record.problem))
    notebook, flags = rebuild(handed_in.parse(job.content), release)
    chapter_id = next((i for i in (record.notebook, record.assignment) if i in INDEX), "")
    parent = warm_parent(chapter_id, job.unsafe, job.limits)
    verdicts = tuple(grade_notebook(notebook, chapter_id, parent, record.seed, flags.append))
    return replace(
        record,
        reason=overall(verdicts),
        verdicts=verdicts,
        flags=(*record.flags, *flags),
        seconds=round(time.monotonic() - start, 3),
        peak_memory=parent.peak_memory(),
    )


@cache
def warm_parent(chapter_id: str, unsafe: bool, limits: Limits) -> WarmParent:
    """This process's warm parent for a chapter; it serves all its submissions."""
    return WarmParent(chapter_id, limits, unsafe=unsafe)


def nothing_earned(job: Job, why: str) -> tuple[Verdict, ...]:
    """A verdict of 0 points for each graded test of the release."""
    verdicts = []
    for cell in handed_in.parse(job.release).cells:
        marks = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and marks.get("grade") and not marks.get("solution"):
            report = Report(None, (), "invalid", why)
            verdicts.append(Verdict(marks["grade_id"], float(marks["points"]), report))
    return tuple(verdicts)


def in_processes(jobs: Iterable[Job], workers: int) -> Iterator[Record]:
    """Grade jobs in ``workers`` processes; records come as they are done.

    A worker that dies takes nothing with it: what it was grading is graded once more, each
    submission in a process of its own, and only what dies there again counts as a crash.
    """
    waiting = list(jobs)
    lost: list[Job] = []
    with _pool(workers) as pool:
        tasks: dict[Future[Record], Job] = {pool.submit(grade, job): job for job in waiting}
        for task in as_completed(tasks):
            try:
                yield task.result()
            except BrokenProcessPool:
                lost.append(tasks[task])
    for job in lost:
        with _pool(1) as pool:
            try:
                yield pool.submit(grade, job).result()
            except BrokenProcessPool:
                why = "the grader's own process died twice while grading this submission"
                yield replace(
                    job.record, reason="CRASH", problem=why, verdicts=nothing_earned(job, why)
                )


def on_scheduler(jobs: Iterable[Job], address: str) -> Iterator[Record]:
    """Grade jobs on the workers of a Dask scheduler; a worker that is lost loses nothing.

    Raises:
        OSError: no scheduler answers at ``address``.
    """
    from distributed import Client
    from distributed import as_completed as completed

    with Client(address, timeout=20) as client:
        tasks = client.map(grade, list(jobs), pure=False, retries=2)
        for task in completed(tasks):
            yield task.result()


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
