"""Killed at any moment and run again, grading ends in the same gradebook and the same records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from attend_grader.sandbox import jail, warm
from attend_grader.sandbox.folder import Folder
from attend_grader.sandbox.warm import JailKilled, WarmParent

KILLS = 50

needs_bubblewrap = pytest.mark.skipif(
    not shutil.which("bwrap"), reason="bubblewrap is not installed"
)


@pytest.mark.deep
@pytest.mark.slow
@needs_bubblewrap
def test_killed_at_random_moments_nothing_is_lost(tmp_path: Path) -> None:
    """Graders, their workers and their sandboxes are killed, alone and all at once."""
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("killing.py"), tmp_path, str(KILLS), "1"],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,  # it ends itself where a grader hangs
        check=False,
    )
    assert done.returncode == 0, done.stderr[-20_000:]
    result = json.loads(done.stdout)
    assert [r["reason"] for r in result["undisturbed"]["records"]] == [
        *("PASSED", "PARTIAL", "PARTIAL", "CRASH", "NOT_STARTED"),
    ]
    assert len(result["undisturbed"]["grades"]) == 10
    assert result["different"] == []
    assert result["left"] == [], "processes or files outlived their grader"
    assert all(result["kills"].values()), result["kills"]
    assert sum(result["kills"].values()) >= KILLS


_DIES = """#!{python}
import os, signal, time
if os.fork():
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(1000)
"""


def test_a_jail_that_waits_for_a_killed_bubblewrap_is_noticed_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What bubblewrap does when it is killed between its first process and its word to that one.

    The process that is left holds the control socket and waits: a socket that stays open.
    """
    program = tmp_path / "bwrap"
    program.write_text(_DIES.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    seen, end = set[int](), jail.end

    def looked(folder: Path) -> None:
        seen.update(jail.running(folder))
        end(folder)

    monkeypatch.setattr(jail, "end", looked)
    start = time.monotonic()
    with pytest.raises(JailKilled, match="the jail did not start: it ended"):
        WarmParent("03_attention")
    assert time.monotonic() - start < warm.START_SECONDS / 2
    assert len(seen) == 1, "the process that waits was not there to be ended"
    assert list(jail.running(tmp_path)) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_folders_go_when_nobody_holds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, alive = Folder(), Folder()
    os.close(killed._lock)  # as the kernel does
    killed._lock = -1
    new = Folder()
    assert not killed.path.exists()
    assert sorted(tmp_path.iterdir()) == sorted([alive.path, new.path])
    for folder in (alive, new):
        folder.remove()
    assert list(tmp_path.iterdir()) == []


_WORKERS = """
import os, signal
from dataclasses import replace
from multiprocessing import active_children, get_context

import nbformat
from attend_grader.grading import processes, work
from attend_grader.grading.record import Record
from attend_grader.sandbox import jail
from attend_grader.sandbox.jail import SandboxMissing

def grade(job):
    if job.record.student == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.record.student == "homeless":
        raise SandboxMissing("there is no jail.")
    return replace(job.record, reason="PASSED")

def run(*students):
    release = nbformat.writes(nbformat.v4.new_notebook()).encode()
    jobs = [work.Job(Record(s, "a", "a", "", "", 0), b"", release) for s in students]
    try:
        for record in processes.in_processes(jobs, 2):
            print(record.student, record.reason, record.problem)
    except SandboxMissing as missing:
        print(missing)

processes.get_context = lambda method: get_context("fork")
work.grade = grade
run("ann", "deadly", "bob", "deadly", "cleo")
run("homeless")
with processes.ahead(2):
    run("dan", "eve")
    run("fay")
with processes.ahead(1):
    pass
print(active_children())
for name in jail.THREADS:
    os.environ.pop(name, None)
os.environ["MKL_NUM_THREADS"] = "3"
processes._serve = lambda pipe, *more: pipe.send([os.environ.get(name) for name in jail.THREADS])
one = processes._Worker(None)
print(*one.connection.recv(), "OMP_NUM_THREADS" in os.environ)
one.end()
processes._serve = lambda *what: os._exit(1)
run("ann")
"""


def test_what_ends_its_worker_each_time_is_a_crash_and_costs_no_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WORKERS], capture_output=True, text=True, timeout=120, check=True
    )
    lines = done.stdout.splitlines()
    assert sorted(lines[:3]) == ["ann PASSED ", "bob PASSED ", "cleo PASSED "]
    given_up = "deadly CRASH the grader's own process died each time it was graded"
    assert sorted(lines[6:8]) == ["dan PASSED ", "eve PASSED "]
    assert [*lines[3:6], *lines[8:]] == [
        *(given_up, given_up),
        "there is no jail.",
        "fay PASSED ",
        "[]",
        "1 1 3 False",
        "the grader's own processes end as they start; see above why.",
    ]
