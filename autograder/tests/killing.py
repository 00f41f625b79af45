"""Kills graders at random moments, runs them again and says what was left: for test_killing.py.

A process of its own, because it forks: each run of the grader is a child that has imported
everything already. It adopts whatever its children leave behind, so nothing can hide from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import toy_class  # type: ignore[import-not-found]  # it stands beside this script
from attend_grader.classes import processes
from attend_grader.classes.directory import Course
from attend_grader.classes.grade import grade_assignment
from attend_grader.sandbox import warm

_PR_SET_CHILD_SUBREAPER = 36
SEED = 11


def main() -> None:
    """Arguments: a folder to work in, how many kills, the seed of when and whom."""
    place, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("this kernel has no subreapers")
    warm.PRELOAD = ("numpy", "IPython.core.interactiveshell")  # type: ignore[misc]  # less to start
    processes.get_context = lambda method: get_context("fork")  # type: ignore[assignment]  # same
    chance = random.Random(seed)
    toy_class.make(place / "class")  # its place is in its config
    shutil.copytree(place / "class", place / "fresh")
    start = time.monotonic()
    finish(begin(place / "class"))
    took = time.monotonic() - start
    undisturbed = state(place / "class")
    done: dict[str, int] = {"main": 0, "worker": 0, "jail": 0, "all": 0}
    left: list[str] = []
    different: list[Any] = []
    while sum(done.values()) < kills:
        shutil.rmtree(place / "class")
        shutil.copytree(place / "fresh", place / "class")
        pid = begin(place / "class")
        while kill_one(pid, chance, took, done):
            left += survivors()
            pid = begin(place / "class")
        left += survivors()
        found = state(place / "class")
        if found != undisturbed:
            different.append({k: [undisturbed[k], v] for k, v in found.items()})
    result = {"kills": done, "left": left, "different": different, "undisturbed": undisturbed}
    print(json.dumps(result))


def begin(root: Path) -> int:
    """Start a grader; its process."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    status = 1
    try:
        grade_assignment(Course.open(root), toy_class.CHAPTER, workers=2, seed=SEED)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def finish(pid: int) -> None:
    """Let a grader come to its end."""
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"a grader that nobody killed ended with {status}")


def kill_one(pid: int, chance: random.Random, took: float, done: dict[str, int]) -> bool:
    """Kill something of a grader's at a random moment; whether the grader must be run again."""
    whom = chance.choice(("main", "main", "worker", "jail", "all"))
    until = time.monotonic() + chance.uniform(0, took)
    while time.monotonic() < until:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.005)
    workers = children(pid)
    jails = [jail for worker in workers for jail in children(worker)]
    if whom in ("worker", "jail"):
        victims = workers if whom == "worker" else jails
        if victims:
            kill(chance.choice(victims))
            done[whom] += 1
        finish(pid)
        return False
    for victim in [pid, *(workers + jails if whom == "all" else ())]:
        kill(victim)
    os.waitpid(pid, 0)
    done[whom] += 1
    return True


def kill(pid: int) -> None:
    """As by the kernel, out of memory."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """Processes that ``pid`` started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in text.split()]


def survivors(seconds: float = 10.0) -> list[str]:
    """What still runs ``seconds`` after its grader is gone; nothing, as soon as nothing does."""
    until = time.monotonic() + seconds
    while True:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return []
        if found:
            continue
        if time.monotonic() > until:
            running = children(os.getpid())
            return [Path(f"/proc/{p}/cmdline").read_text().replace("\0", " ") for p in running]
        time.sleep(0.01)


def state(root: Path) -> dict[str, Any]:
    """What grading left, as it reads from JSON."""
    return json.loads(json.dumps(toy_class.state(Course.open(root))))


if __name__ == "__main__":
    main()
