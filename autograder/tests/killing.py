"""Kills graders at random moments, runs them again and says what was left: for test_killing.py.

A process of its own, because it forks: most runs of the grader are children that have imported
everything already. It adopts whatever its children leave behind, so nothing can hide from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

import toy_class  # type: ignore[import-not-found]  # it stands beside this script
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.grade import grade_assignment
from attend_grader.grading import processes
from attend_grader.sandbox import warm

KINDS = {
    "main": "the process that was started, at any moment",
    "worker": "one of the two that grade, at any moment",
    "jail": "bubblewrap around submissions, at any moment",
    "start": "bubblewrap when it has started the jail's first process, which waits for it",
    "answer": "a worker when it has written half of its answer",
    "all": "main process, workers and jails, at any moment",
    "command: worker": "as above, of `attend grade` with all that it imports",
    "command: all": "same",
    "command: main": "same",
}
LAST = "nothing"
SCRIPT = Path(__file__).name
SEED = "11"
MISSES = 20
"""So often in a row there may be nothing to kill; each time one looks sooner."""

HANGS = 60.0
"""Seconds: no run takes as long, even on a busy machine, unless it hangs."""

_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Arguments: a folder to work in, how many kills, the seed of when and whom."""
    place, kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3])
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("this kernel has no subreapers")
    faulthandler.register(signal.SIGUSR1)  # children inherit it
    warm.PRELOAD = ("numpy", "IPython.core.interactiveshell")  # type: ignore[misc]  # less to start
    processes.get_context = lambda method: get_context("fork")  # type: ignore[assignment]  # the test's own start
    toy_class.make(place / "class")  # its place is in its config
    shutil.copytree(place / "class", place / "fresh")
    start = time.monotonic()
    finish(begin(place / "class", LAST))
    took = time.monotonic() - start
    undisturbed = state(place / "class")
    done = dict.fromkeys(KINDS, 0)
    left: list[str] = []
    different: list[Any] = []
    coming = schedule(kills, chance)
    ended, missed = True, 0
    while coming:
        if ended:
            shutil.rmtree(place / "class")
            shutil.copytree(place / "fresh", place / "class")
        kind, whole, begun = coming.pop(0), ended, time.monotonic()
        pid = begin(place / "class", kind)
        struck = strike(pid, kind, chance, took * 0.8**missed)
        print(f"{time.monotonic() - start:.1f} s: {kind}, {struck=}", file=sys.stderr)
        if struck:
            done[kind] += 1
            missed = 0
            ended = not kind.endswith(("main", "all"))
        else:
            if whole and not kind.startswith("command"):
                took = min(took, time.monotonic() - begun)  # the very first run is a slow one
            ended = True
            if kind != LAST:
                missed += 1
                coming.insert(0, kind)
            if missed > MISSES:
                raise RuntimeError(f"{MISSES} times in a row, there was nothing to kill: {kind}")
        left += [f"{kind}: {what}" for what in remains(kind, ended)]
        if ended and (found := state(place / "class")) != undisturbed:
            different.append({kind: {k: [undisturbed[k], v] for k, v in found.items()}})
    result = {"kills": done, "left": left, "different": different, "undisturbed": undisturbed}
    print(json.dumps(result))


def schedule(kills: int, chance: random.Random) -> list[str]:
    """Kinds of kills in the order in which they are to come; at the end a run without."""
    commands = [kind for kind in KINDS if kind.startswith("command")]
    others = [kind for kind in KINDS if kind not in commands]
    rounds = -(-(kills - len(commands)) // len(others))
    coming = others * rounds
    chance.shuffle(coming)
    return [*coming, *commands, LAST]


def begin(root: Path, kind: str) -> int:
    """Start a grader; its process."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    status = 1
    try:
        if kind.startswith("command"):
            words = ["grade", toy_class.CHAPTER, "--course", str(root), "--seed", SEED]
            words += ["--workers", "2", "--quiet"]
            run = "from attend.cli import app; app()"
            os.execv(sys.executable, [sys.executable, "-c", run, *words])
        if kind == "answer":
            die_halfway(root.parent / "half")
        grade_assignment(Course.open(root), toy_class.CHAPTER, workers=2, seed=int(SEED))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def die_halfway(flag: Path) -> None:
    """Let the first worker that answers kill itself when half of it is written."""
    starter, send = os.getpid(), connection.Connection._send  # type: ignore[attr-defined]  # its one way to write
    flag.touch()

    def half(self: Any, content: Any, **how: Any) -> None:
        if os.getpid() != starter and len(content) > 1000:
            with contextlib.suppress(FileNotFoundError):
                flag.unlink()
                send(self, content[: len(content) // 2], **how)
                kill(os.getpid())
        send(self, content, **how)

    connection.Connection._send = half  # type: ignore[attr-defined]  # same


def strike(pid: int, kind: str, chance: random.Random, within: float) -> bool:
    """Kill something of a grader's within so many seconds, and let the rest come to its end.

    Returns:
        whether there was something to kill.
    """
    if kind == "answer":
        finish(pid)
        return True
    whom = kind.rpartition(" ")[2]
    moment = time.monotonic()
    if kind.startswith("command"):
        meanwhile(pid, lambda: find(pid, "worker"))  # it imports for a second or two
        moment = time.monotonic() + chance.uniform(0, 4 * within)
    elif kind != "start":
        moment += chance.uniform(0, within)
    pause = 0.001 if kind == "start" else 0.01
    victims = meanwhile(pid, lambda: find(pid, whom) if time.monotonic() > moment else [], pause)
    if not victims:
        finish(pid)
        return False
    while kind == "start" and is_jail(victims[0]) and not children(victims[0]):
        pass
    for victim in victims if whom == "all" else [chance.choice(victims)]:
        kill(victim)
    finish(pid, killed=pid in victims)
    return True


def meanwhile(pid: int, look: Callable[[], list[int]], pause: float = 0.01) -> list[int]:
    """Wait for a grader's end or for what ``look`` finds, and return this."""
    until = time.monotonic() + HANGS
    while not (found := look()) and not ended(pid):
        fail_at(until)
        time.sleep(pause)
    return found


def find(pid: int, kind: str) -> list[int]:
    """Processes of a grader's that may be killed."""
    workers = [child for child in children(pid) if is_worker(child)]
    jails = [jail for worker in workers for jail in children(worker) if is_jail(jail)]
    match kind:
        case "main":
            return [pid]
        case "worker":
            return workers
        case "jail":
            return jails
        case "start":
            return [jail for jail in jails if not children(jail)][:1]
        case "all":
            return [pid, *workers, *jails]
    return []


def is_worker(pid: int) -> bool:
    """Whether it is a process that grades, forked by this script's graders or spawned."""
    return SCRIPT in words(pid) or "spawn_main" in words(pid)


def is_jail(pid: int) -> bool:
    """Whether it is bubblewrap, alive, and not what is about to become it."""
    return words(pid).partition(" ")[0].endswith("/bwrap")


def words(pid: int) -> str:
    """The command that a process runs."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def children(pid: int) -> list[int]:
    """Processes that ``pid`` started."""
    with contextlib.suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def kill(pid: int) -> None:
    """As by the kernel, out of memory."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def finish(pid: int, *, killed: bool = False) -> None:
    """Wait for a grader's end, by itself or by being killed."""
    until = time.monotonic() + HANGS
    while not ended(pid):
        fail_at(until)
        time.sleep(0.005)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code and not (killed and code == -signal.SIGKILL):
        raise RuntimeError(f"a grader ended with {code}")


def ended(pid: int) -> bool:
    """Whether a grader has come to its end; it can still be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def fail_at(moment: float) -> None:
    """Say what hangs, if it is so late."""
    if time.monotonic() > moment:
        dump()
        raise RuntimeError("a grader hangs; see above where")


def remains(kind: str, ended: bool, seconds: float = 10.0) -> list[str]:
    """What still runs ``seconds`` after its grader is gone; nothing, as soon as nothing does.

    Where all was killed, a jail that was being set up is left out: it hangs, and the next run ends
    it. After a run that came to its end also files are found.
    """
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        running = children(os.getpid())
        if kind.endswith("all"):
            running = [pid for pid in running if not hangs(pid)]
        files = os.listdir(tempfile.gettempdir()) if ended else []
        if not running or time.monotonic() > until:
            return [described(pid) for pid in running] + files
        time.sleep(0.01)


def hangs(pid: int) -> bool:
    """Whether it is a bubblewrap that waits for the one that started it."""
    with contextlib.suppress(OSError):
        links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        return is_jail(pid) and not children(pid) and links.count("anon_inode:[eventfd]") == 2
    return False


def described(pid: int) -> str:
    """A process in words."""
    said = [f"process {pid}, parent and state:"]
    with contextlib.suppress(OSError):
        said += Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        said += [Path(f"/proc/{pid}/wchan").read_text(), words(pid)[:60], words(pid)[-60:]]
    return " ".join(said)


def dump() -> None:
    """Say of all that this process started, and that they started, what they wait for."""
    known = children(os.getpid())
    for pid in known:  # it grows as it is read
        known += children(pid)
    for pid in known:
        print(described(pid), file=sys.stderr)
        with contextlib.suppress(OSError):
            files = sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda path: int(path.name))
            print(*(f"{f.name}→{os.readlink(f)}" for f in files), sep="  ", file=sys.stderr)
            print(Path(f"/proc/{pid}/stack").read_text(), file=sys.stderr)
    sys.stderr.flush()
    for pid in known:
        if SCRIPT in words(pid):  # forked: it says where its Python is
            os.kill(pid, signal.SIGUSR1)
            time.sleep(0.2)
    for pid in known:
        kill(pid)


def state(root: Path) -> dict[str, Any]:
    """What grading left, as it reads from JSON."""
    return json.loads(json.dumps(toy_class.state(Course.open(root))))


if __name__ == "__main__":
    main()
