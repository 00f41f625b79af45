"""The jail: bubblewrap around the warm parent, with what it may see and how much it may use.

No network, a read-only root that holds Python and the packages of :mod:`.tree`, a small private
/tmp, a cleared environment, namespaces of its own. Nothing of the course directory (submissions,
gradebook, releases) or of the grader's checks is in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attend_grader.sandbox import tree

TREE = "/attend"
"""Where the packages of :mod:`.tree` are in the jail."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that say in how many threads NumPy and PyTorch calculate."""

MIB = 2**20


class SandboxMissing(RuntimeError):
    """Submissions cannot be run safely here; the message says what to install."""


@dataclass(frozen=True)
class Limits:
    """How much one submission may use.

    Attributes:
        cell_seconds: one cell of the notebook, wall clock.
        check_seconds: all calls of one exercise's check together, wall clock.
        submission_seconds: all cells and checks together, wall clock.
        cpu_seconds: processor time of one process.
        memory: bytes of address space of one process, beyond what the warm parent has mapped.
        all_memory: bytes in use by all processes together.
        processes: processes and threads at a time.
        file_bytes: one file.
        tmp_bytes: all of /tmp, and of /dev/shm.
        files: in each of them; an empty one takes 1 KB of the kernel's memory all the same.
    """

    cell_seconds: float = 20.0
    check_seconds: float = 20.0
    submission_seconds: float = 300.0
    cpu_seconds: int = 60
    memory: int = 2048 * MIB
    all_memory: int = 4096 * MIB
    processes: int = 64
    file_bytes: int = 32 * MIB
    tmp_bytes: int = 64 * MIB
    files: int = 4096


def available() -> str:
    """The path of bubblewrap.

    Raises:
        SandboxMissing: it is not installed.
    """
    found = shutil.which("bwrap")
    if not found:
        raise SandboxMissing(
            "bubblewrap is missing, and without it submitted code would run with your rights: "
            "install it (Debian, Ubuntu: apt install bubblewrap), or say --unsafe-no-sandbox if "
            "you trust every submission."
        )
    return found


def command(packages: Path, descriptor: int, options: int, *, unsafe: bool = False) -> list[str]:
    """The command that starts the warm parent.

    Args:
        packages: what :func:`.tree.write` wrote.
        descriptor: the control socket's, inherited.
        options: descriptor of a file, inherited, that holds :func:`options`. On the command line,
            which the jail can read as that of its process 1, they would show this machine's paths.
        unsafe: without a jail.

    Raises:
        SandboxMissing: bubblewrap is not installed.
    """
    module = ["-P", "-m", "attend_grader.inside.zygote", str(descriptor)]
    if unsafe:
        return [sys.executable, *module]
    python = os.path.abspath(sys.executable)  # its ".." may lead through what is not there
    return [
        available(),
        "--setenv",
        _SIGN,
        _places(packages),
        "--args",
        str(options),
        python,
        *module,
    ]


def options(packages: Path, limits: Limits) -> bytes:
    """What bubblewrap is told of the jail.

    Args:
        packages: what :func:`.tree.write` wrote.
        limits: sizes of the private file systems.
    """
    words = [
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        "--unshare-cgroup-try",
        *_identity(),
        *("--die-with-parent", "--new-session", "--hostname", "jail"),
        *_system(),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--dev-bind", "/dev/full", "/dev/zero"),  # zeros as well, but none to map as memory
        *("--perms", "1777", "--size", str(limits.tmp_bytes), "--tmpfs", "/tmp"),
        *("--perms", "1777", "--size", str(limits.tmp_bytes), "--tmpfs", "/dev/shm"),
        *_python(packages),  # after /tmp: it may lie there
        *("--ro-bind", str(packages), TREE),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--clearenv", "--chdir", "/tmp"),
        *(word for pair in environment(TREE).items() for word in ("--setenv", *pair)),
    ]
    return b"".join(os.fsencode(word) + b"\0" for word in words)


_SIGN = "ATTEND_JAIL"
"""A variable, for bubblewrap alone, by which :func:`running` knows whose jail a process is."""


def _places(path: Path) -> str:
    """A path and all above it as digests: they can be recognised, and not be read."""
    return ":".join(map(_place, (path, *path.parents)))


def _place(path: Path) -> str:
    return hashlib.sha256(bytes(path)).hexdigest()[:16]


def end(folder: Path, seconds: float = 5.0) -> None:
    """Kill the jails whose packages are in ``folder``, and wait until they are gone.

    ``--die-with-parent`` does not reach one that is still being set up: where its first process is
    killed in that moment, the second waits for it forever, holding the control socket.
    """
    until = time.monotonic() + seconds
    while (found := list(running(folder))) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def running(folder: Path) -> Iterator[int]:
    """Processes of bubblewrap started by :func:`command` with packages in ``folder``."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text(errors="replace").split("\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        for first in (1, 2):  # 2: where bwrap is a script, behind its interpreter
            sign = words[first : first + 2] == ["--setenv", _SIGN]
            if sign and _place(folder) in words[first + 2].split(":"):
                yield int(process.name)


def environment(packages: str) -> dict[str, str]:
    """The whole environment of a submission."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": packages,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **dict.fromkeys(THREADS, "1"),
        "TRITON_INTERPRET": "1",  # no GPU is in the jail
    }


def _identity() -> tuple[str, ...]:
    """Root gives the warm parent the right to become nobody; others get a user namespace."""
    if os.getuid() == 0:
        rights = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL")
        return ("--cap-drop", "ALL", *(word for right in rights for word in ("--cap-add", right)))
    return ("--unshare-user", "--cap-drop", "ALL")


def _system() -> Iterator[str]:
    """Programs and libraries of the system, read-only."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        path = Path(name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), name)
        elif path.is_dir():
            yield from ("--ro-bind", name, name)
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        yield from ("--ro-bind-try", name, name)


def prefixes() -> list[Path]:
    """Directories that hold Python and its packages, none within another."""
    paths = (sys.base_prefix, sys.prefix, sysconfig.get_path("purelib"))
    found = {Path(path).resolve() for path in paths}
    return sorted(p for p in found if not any(p != o and p.is_relative_to(o) for o in found))


def _python(packages: Path) -> Iterator[str]:
    """Python and its packages, read-only, with those masked that a submission must not find."""
    outer = prefixes()
    for prefix in outer:
        if not prefix.is_relative_to("/usr"):
            for parent in reversed(prefix.parents[:-1]):  # else only root may pass through them
                if str(parent) != "/tmp":
                    yield from ("--perms", "0755", "--dir", str(parent))
            yield from ("--ro-bind", str(prefix), str(prefix))
    for name in ("attend", "attend_grader", "attend_solutions", "attend_kernels"):
        place = tree.package(name).resolve()
        if any(place.is_relative_to(prefix) for prefix in (*outer, Path("/usr"))):
            yield from ("--tmpfs", str(place))
    for mask in sorted((packages / tree.MASKS).glob("*")):
        yield from ("--ro-bind", str(mask), str(tree.package(mask.name).resolve()))
