"""Grading in several processes of this machine, none of which outlives or takes down another.

Each worker has a pipe of its own, and nothing else in common with the others: no queue and no lock
that a killed one could leave half written or held.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from pathlib import Path

from attend_grader import chapters
from attend_grader.grading import work
from attend_grader.grading.record import Record
from attend_grader.grading.work import Job
from attend_grader.sandbox import jail, references, warm
from attend_grader.sandbox.folder import Folder
from attend_grader.sandbox.jail import SandboxMissing

STARTS = 5
"""Workers in a row that may end before they are ready."""

_METHOD = "forkserver"
"""Workers are forked from a process that does nothing but import what they share."""

_AHEAD: list[_Team] = []
"""Workers that were started ahead, until a batch takes them."""


def default_workers() -> int:
    """As many as there are processors to use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Expected:
    """The batch that workers are started ahead for, so that they can get ready for it.

    Attributes:
        course: the course directory.
        assignment: what is to be graded.
        unsafe: without a jail.
    """

    course: Path
    assignment: str
    unsafe: bool = False

    def make_ready(self) -> None:
        """Start this worker's sandbox, where the release is in its usual place."""
        folder = self.course / "release" / self.assignment
        found = [path.read_bytes() for path in folder.glob("[!.]*.ipynb")]
        if len(found) == 1:
            work.expect(self.assignment, found[0], self.unsafe)


@contextlib.contextmanager
def ahead(
    workers: int | None, here: bool = True, expected: Expected | None = None
) -> Iterator[int]:
    """Start workers now, for the first batch in this ``with``: they import while this process does.

    Gives their number: ``workers``, or one for each processor. None is left at its end, also where
    there was nothing to grade. Nothing is started where there can be no sandbox, nor for a batch
    that is not graded ``here``.

    Args:
        workers: how many; None: one for each processor.
        here: whether the batch is graded on this machine.
        expected: that batch, where it is known.
    """
    count = default_workers() if workers is None else workers
    if sys.platform != "linux" or not here:
        yield count
        return
    if expected is not None:
        known = expected.assignment in chapters.INDEX
        names = chapters.modules(expected.assignment) if known else ()
        get_context(_METHOD).set_forkserver_preload([__name__, "attend.cli", *names])
    with _Team(expected) as team:
        team.grow(min(count, default_workers()))
        _AHEAD.append(team)
        try:
            yield count
        finally:
            _AHEAD.clear()


def in_processes(jobs: Sequence[Job], workers: int) -> Iterator[Record]:
    """Grade jobs in ``workers`` processes; records come as they are done.

    A worker that dies takes nothing with it but what it was grading, which is graded again: once
    more beside others, then alone, and only what dies there too counts as a crash.

    Raises:
        SandboxMissing: submissions cannot be run safely here.
    """
    lost = yield from _grade(jobs, workers, tries=2)
    for job in (yield from _grade(lost, 1, tries=1)):
        yield work.given_up(job, "the grader's own process died each time it was graded")


def _grade(jobs: Sequence[Job], workers: int, tries: int) -> Generator[Record, None, list[Job]]:
    """Yields records as they are done; returns the jobs that were lost with ``tries`` workers."""
    waiting, losses = deque(jobs), Counter[str]()
    lost: list[Job] = []
    left = len(jobs)
    with _AHEAD.pop() if _AHEAD else _Team() as team:
        team.grow(min(workers, left) - len(team))
        while left:
            for worker in team.heard():
                job, worker.job = worker.job, None
                try:
                    answer = worker.connection.recv()
                except (EOFError, OSError):
                    team.replace(worker)
                    if job is not None:
                        losses[job.record.key] += 1
                        again = losses[job.record.key] < tries
                        left -= not again
                        (waiting if again else lost).append(job)
                    continue
                worker.ready = True
                if isinstance(answer, SandboxMissing):
                    raise answer
                if waiting:
                    worker.give(waiting)
                if answer is not None:
                    left -= 1
                    yield answer
    return lost


class _Worker:
    """One process, and what it is grading."""

    def __init__(self, files: Path, expected: Expected | None = None) -> None:
        context = get_context(_METHOD)
        self.connection, theirs = context.Pipe()
        self.job: Job | None = None
        self.ready = False
        with theirs:  # open in the worker alone: it ends, and there is an end of the file
            self.process = context.Process(
                target=_serve, args=(theirs, files, expected), daemon=True
            )
            with _one_thread():
                self.process.start()

    def give(self, waiting: deque[Job]) -> None:
        """Let it grade the first of what waits."""
        with contextlib.suppress(OSError):  # it is gone, and will be heard to be
            self.connection.send(waiting[0].loaded())
            self.job = waiting.popleft()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join()
        self.connection.close()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started here calculate in one thread, unless the environment says otherwise.

    There is a worker for each processor, and PyTorch's other threads wait by spinning: on two
    processors two workers took twice as long with two threads each.
    """
    missing = [name for name in jail.THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


class _Team:
    """Workers, and a folder for their temporary files; all of them go with it."""

    def __init__(self, expected: Expected | None = None) -> None:
        self._expected = expected
        self._folder = Folder()
        self._workers: list[_Worker] = []
        self._failed = 0

    def __enter__(self) -> _Team:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._workers:
            self._workers.pop().end()
        self._folder.remove()

    def __len__(self) -> int:
        return len(self._workers)

    def grow(self, count: int) -> None:
        """Start workers."""
        for _ in range(count):
            self._workers.append(_Worker(self._folder.path, self._expected))

    def heard(self) -> list[_Worker]:
        """Workers that said something or ended, as soon as there are any."""
        by_connection = {worker.connection: worker for worker in self._workers}
        return [by_connection[c] for c in connection.wait(list(by_connection))]  # type: ignore[index]  # given back as they are

    def replace(self, worker: _Worker) -> None:
        """Start another in the place of one that ended.

        Raises:
            SandboxMissing: all end before they are ready.
        """
        worker.end()
        self._workers.remove(worker)
        self._failed = 0 if worker.ready else self._failed + 1
        if self._failed == STARTS:
            raise SandboxMissing("the grader's own processes end as they start; see above why.")
        self.grow(1)


def _serve(pipe: connection.Connection, files: Path, expected: Expected | None) -> None:
    """What a worker does: say that it is ready, then grade what comes."""
    try:
        tempfile.tempdir = tempfile.mkdtemp(dir=files)
    except FileNotFoundError:  # the starter is gone already, and the other workers
        return
    references.start_ahead()
    follower = threading.Thread(target=_follow, args=(Path(tempfile.tempdir),), daemon=True)
    follower.start()
    signal.signal(signal.SIGINT, _leave_it)
    with contextlib.suppress(EOFError, OSError):  # nobody is at the other end any more
        pipe.send(None)
        if expected is not None:
            with contextlib.suppress(Exception):  # it is told where it is needed
                expected.make_ready()
        pipe.send(_answer(pipe.recv()))
        gc.collect()
        gc.freeze()  # what a chapter needs is imported: to look at it again and again takes 8 %
        while True:
            pipe.send(_answer(pipe.recv()))
    follower.join()


def _answer(job: Job) -> Record | SandboxMissing:
    try:
        return work.grade(job)
    except SandboxMissing as missing:
        return missing


def _leave_it(*signal: object) -> None:
    """Let the process that started this one decide what becomes of an interrupt."""


def _follow(files: Path) -> None:
    """End this worker when the process that started it is gone, even where that was killed."""
    starter = parent_process()
    assert starter is not None
    connection.wait([starter.sentinel])
    sys.stdout = sys.stderr = io.StringIO()  # things go wrong in the other thread now
    warm.STARTING.acquire()
    try:
        jail.end(files)
        shutil.rmtree(files, ignore_errors=True)
        files.parent.rmdir()  # the last worker can
    finally:
        os._exit(1)
