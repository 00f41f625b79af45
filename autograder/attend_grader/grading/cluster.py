"""Grading on the workers of a Dask scheduler: several machines, the same function."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from attend_grader.grading import work
from attend_grader.grading.record import Record
from attend_grader.grading.work import Job
from attend_grader.judging import version
from attend_grader.sandbox import jail

AHEAD = 4
"""Submissions that a worker's thread has in its queue: more would only fill memory."""

SECONDS = 20
"""To wait for the scheduler, and then for a first worker."""


class ClusterError(RuntimeError):
    """The cluster cannot grade; one sentence says what to do."""


def on_scheduler(jobs: Sequence[Job], address: str) -> Iterator[Record]:
    """Grade jobs on a scheduler's workers; what is lost with a worker is graded on another.

    Raises:
        ClusterError: no scheduler or no worker answers, or a worker has not what it needs.
    """
    try:
        from distributed import Client, KilledWorker
        from distributed import as_completed as completed
    except ModuleNotFoundError:
        raise ClusterError(
            "--scheduler needs the Python package distributed: pip install distributed"
        ) from None
    try:
        client = Client(address, timeout=SECONDS)
    except (OSError, ValueError):
        raise ClusterError(
            f"no Dask scheduler answers at {address}: start one with `dask scheduler`, or check "
            "the address, which looks like tcp://host:8786."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=SECONDS)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {address} has no workers: start some with "
                f"`dask worker {address}`."
            ) from None
        unsafe = any(job.unsafe for job in jobs)
        answers: Any = client.run(what_lacks, unsafe, version.of_course(), on_error="return")
        for worker, lack in answers.items():
            if lack:
                raise ClusterError(f"the worker at {worker} cannot grade: {lack}")
        tasks: dict[Any, Job] = {}
        waiting = deque(jobs)

        def submitted(count: int) -> list[Any]:
            """Futures of the next jobs: contents are read when their turn is near."""
            chosen = [waiting.popleft() for _ in range(min(count, len(waiting)))]
            made = {client.submit(work.grade, job.loaded(), pure=False): job for job in chosen}
            tasks.update(made)
            return [*made]

        threads: Any = client.nthreads()
        done = completed(submitted(AHEAD * max(1, sum(threads.values()))))
        for task in done:
            job = tasks.pop(task)
            try:
                yield task.result()
            except KilledWorker:
                yield work.given_up(job, "each worker that graded it died")
            done.update(submitted(1))


def what_lacks(unsafe: bool, wanted: str) -> str:
    """What this worker lacks to grade for a client of this version; empty where nothing."""
    if wanted != (here := version.of_course()):
        return f"it has grader version {here}, and this is {wanted}; install the same."
    try:
        if not unsafe:
            jail.available()
    except jail.SandboxMissing as missing:
        return str(missing)
    return ""
