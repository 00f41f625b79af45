"""Grading on a Dask cluster: a real scheduler, workers in processes of their own, one killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attend_grader.gradebook.grade import Event, grade_assignment
from attend_grader.grading import cluster
from attend_grader.grading.cluster import ClusterError, what_lacks
from attend_grader.judging import version

from . import toy_class

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed"),
]
Worker = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start ``dask`` commands, which end with the test."""
    with ExitStack() as stack:

        def start(*words: str, **environment: str) -> subprocess.Popen[bytes]:
            program = Path(sysconfig.get_path("scripts"), "dask")
            with (tmp_path / "dask.log").open("ab") as log:
                process = subprocess.Popen(
                    [program, *words],
                    env={**os.environ, **environment},
                    cwd=tmp_path,
                    stdout=log,
                    stderr=log,
                )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def scheduler(processes: Worker, tmp_path: Path) -> str:
    """The address of a scheduler without workers."""
    log = tmp_path / "dask.log"
    processes("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for word in (log.read_text() if log.exists() else "").split():
            if word.startswith("tcp://127.0.0.1:"):
                return word
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture
def worker(processes: Worker, scheduler: str) -> Worker:
    """Start a worker without a nanny, so that none takes its place when it is killed."""
    one = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0")
    return lambda **environment: processes("worker", scheduler, *one, **environment)


@pytest.mark.deep
def test_a_worker_killed_loses_nothing_and_nothing_is_graded_twice(
    scheduler: str, worker: Worker, tmp_path: Path
) -> None:
    alone = toy_class.make(tmp_path / "alone")
    grade_assignment(alone, toy_class.CHAPTER, workers=1, seed=5)
    course = toy_class.make(tmp_path / "class")
    first, _ = worker(), worker()
    done: list[str] = []

    def watch(event: Event) -> None:
        if event.kind == "done":
            if not done:
                first.kill()
            done.append(event.student)

    records = grade_assignment(course, toy_class.CHAPTER, scheduler=scheduler, seed=5, show=watch)
    assert first.wait() == -9
    assert sorted(done) == sorted(toy_class.ANSWERS)
    assert [r.student for r in records] == sorted(toy_class.ANSWERS)
    assert len({r.key for r in records}) == len(toy_class.ANSWERS)
    assert toy_class.state(course) == toy_class.state(alone)


def test_a_worker_without_bubblewrap_is_named(
    scheduler: str, worker: Worker, tmp_path: Path
) -> None:
    worker(PATH=str(tmp_path))
    course = toy_class.make(tmp_path / "class")
    with pytest.raises(ClusterError, match=r"^the worker at tcp://.* bubblewrap is missing"):
        grade_assignment(course, toy_class.CHAPTER, scheduler=scheduler)


def test_a_scheduler_without_workers(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "SECONDS", 1)
    course = toy_class.make(tmp_path / "class")
    with pytest.raises(ClusterError, match="has no workers: start some with `dask worker tcp"):
        grade_assignment(course, toy_class.CHAPTER, scheduler=scheduler)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere"])
def test_no_scheduler_answers(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "SECONDS", 1)
    course = toy_class.make(tmp_path / "class")
    with pytest.raises(ClusterError, match=f"^no Dask scheduler answers at {address}: "):
        grade_assignment(course, toy_class.CHAPTER, scheduler=address)


def test_a_worker_of_another_version_is_refused() -> None:
    assert what_lacks(True, version.of_course()) == ""
    assert f"grader version {version.of_course()}, and this is 0" in what_lacks(True, "0")
