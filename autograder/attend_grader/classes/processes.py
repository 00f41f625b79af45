"""Grading in several processes of this machine, none of which outlives or takes down another."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process

from attend_grader.classes import work
from attend_grader.classes.record import Record
from attend_grader.classes.work import Job

Lost = Generator[Record, None, list[Job]]
"""Yields records as they are done; returns the jobs that were lost with a worker."""


def in_processes(jobs: Sequence[Job], workers: int) -> Iterator[Record]:
    """Grade jobs in ``workers`` processes; records come as they are done.

    A worker that dies takes nothing with it: what was lost is graded again, after a second loss
    one submission at a time, and only what dies there once more counts as a crash.

    Raises:
        SandboxMissing: submissions cannot be run safely here.
    """
    lost = list(jobs)
    for _ in range(2):
        lost = yield from _together(lost, workers)
    while lost:
        lost = yield from _one_by_one(lost)


def _together(jobs: list[Job], workers: int) -> Lost:
    lost: list[Job] = []
    if not jobs:
        return lost
    with _Pool(min(workers, len(jobs))) as pool:
        tasks: dict[Future[Record], Job] = {}
        for job in jobs:
            try:
                tasks[pool.submit(work.grade, job)] = job
            except BrokenProcessPool:
                lost.append(job)
        for task in as_completed(tasks):
            try:
                yield task.result()
            except BrokenProcessPool:
                lost.append(tasks[task])
    return lost


def _one_by_one(jobs: list[Job]) -> Lost:
    """Up to the first that ends its worker; returns those behind it."""
    with _Pool(1) as pool:
        for done, job in enumerate(jobs, 1):
            try:
                yield pool.submit(work.grade, job).result()
            except BrokenProcessPool:
                yield work.given_up(job, "the grader's own process died each time it was graded")
                return jobs[done:]
    return []


class _Pool(ProcessPoolExecutor):
    """Workers whose temporary files are removed with the pool, however a worker ends."""

    def __init__(self, workers: int) -> None:
        self._files = tempfile.TemporaryDirectory(prefix="attend-grade-")
        context = get_context("spawn")
        super().__init__(
            workers, mp_context=context, initializer=_begin, initargs=(self._files.name,)
        )

    def __exit__(self, *exception: object) -> None:
        """Do not start what waits; remove the files."""
        self.shutdown(cancel_futures=True)
        self._files.cleanup()


def _begin(files: str) -> None:
    tempfile.tempdir = files
    threading.Thread(target=_follow, args=(files,), daemon=True).start()


def _follow(files: str) -> None:
    """End this worker when the process that started it is gone, even where that was killed."""
    starter = parent_process()
    assert starter is not None
    connection.wait([starter.sentinel])
    work.end_warm_parents()
    shutil.rmtree(files, ignore_errors=True)
    os._exit(1)
