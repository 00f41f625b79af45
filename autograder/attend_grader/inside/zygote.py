"""The warm parent, inside the jail: it has imported what notebooks need, and forks children.

Requests come over a control socket, each a line of JSON: ``fork`` (with the child's own channel
as a file descriptor beside it), ``end`` and ``quit``. A child cannot reach this process: it runs
under another user where the grader is root, in process and user namespaces of its own, and this
process cannot be traced. Whatever a child starts dies with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from importlib import import_module
from typing import Any

from attend_grader.inside import calls, notebook

NOBODY = 65534
OUT_OF_MEMORY = 77
"""Exit code of a submission whose processes together took more memory than they may."""
_LATER = {
    "torch": (
        "torch.fx.experimental.symbolic_shapes",  # by the first gradient, in 0.3 s
        "attend_grader.inside.torch_bans",
        "attend_grader.inside.torch_gradients",
        "attend_grader.inside.torch_memory",
    ),
    "triton": (
        "numpy.ma",
        "torch._subclasses.schema_check_mode",
        "triton.compiler.code_generator",
        "triton.experimental.gluon",
        "triton.language.extra.libdevice",
        "attend_grader.inside.views",
    ),
}
"""What is imported where these modules are used: once here, and not in each child."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,  # counters and local sockets with abstract names belong to one
)
_NAMESPACES = _CLONE_NEWUSER | _CLONE_NEWPID | _CLONE_NEWIPC | _CLONE_NEWNS | _CLONE_NEWNET
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC = 2, 4, 4096, 16384
_CAPABILITY_VERSION_3 = 0x20080522


def main() -> None:
    """Serve the control socket whose descriptor is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, 65536, 1)
        if not text:
            return
        request: dict[str, Any] = json.loads(text)
        match request["op"]:
            case "preload":
                preload(request["modules"])
                answer = {}
            case "fork":
                pid = _fork(control, descriptors[0], request)
                answer = {"pid": pid}
            case "end":
                status, peak = _end(request["pid"], request["wait"])
                answer = {"status": status, "peak": peak}
            case _:
                return
        control.send(json.dumps(answer).encode())


def preload(modules: list[str]) -> None:
    """Import modules once, for all children."""
    gc.disable()  # there is nothing to collect in what modules make
    for name in ("attend_grader.inside.lean", *modules):
        _import(name)
    for name, later in _LATER.items():
        for module in later if name in sys.modules else ():
            _import(module)
    if "attend_grader.inside.torch_bans" in sys.modules:
        sys.modules["attend_grader.inside.torch_bans"].operators()
    notebook.shell_made()
    gc.collect()
    gc.freeze()  # a child's collector would look at all of it, and so copy all its pages: 0.2 s
    gc.enable()


def _import(name: str) -> None:
    with contextlib.suppress(Exception):  # it is raised, and told, again where a cell imports it
        import_module(name)


def _fork(control: socket.socket, channel: int, request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        os.close(channel)
        return pid
    status = 70
    try:
        control.close()
        if request["jailed"]:
            status = _leave(channel, request["limits"], request["kept"])
        else:
            os.setsid()
            _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            _run(channel, request["limits"])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _leave(channel: int, limits: dict[str, int], kept: list[str]) -> int:
    """Become nobody in namespaces of its own; wait there for what runs the submission.

    Args:
        channel: the child's own.
        limits: sizes.
        kept: directories below /tmp that hold Python: they stay when /tmp becomes private.
    """
    libc = _libc()
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    user, group = os.getuid(), os.getgid()
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else its own uid_map would be root's to write
    _expect(libc.unshare(_NAMESPACES), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    init = os.fork()
    if init:
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        os.close(channel)
        return _exit_code(os.waitpid(init, 0)[1])
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    size = f"mode=1777,size={limits['tmp_bytes']},nr_inodes={limits['files']}".encode()
    held = {path: os.open(path, os.O_PATH) for path in kept}
    for place in (b"/tmp", b"/dev/shm"):  # private: nothing is left for the next submission
        _expect(libc.mount(b"tmpfs", place, b"tmpfs", _MS_NOSUID | _MS_NODEV, size), "mount")
    for path, descriptor in held.items():
        os.makedirs(path, 0o755)
        below = f"/proc/self/fd/{descriptor}".encode()
        _expect(libc.mount(below, path.encode(), None, _MS_BIND | _MS_REC, None), "bind")
        os.close(descriptor)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.chdir("/tmp")
    runner = os.fork()  # not process 1 itself: that one ignores signals
    if runner == 0:
        _give_up_rights(libc)
        calls.refuse(libc, _expect)
        _run(channel, limits)
    os.close(channel)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, 0.1)
        pid, status = os.waitpid(-1, os.WNOHANG)
        while pid > 0:
            if pid == runner:
                os._exit(_exit_code(status))  # and the kernel ends all that is left here
            pid, status = os.waitpid(-1, os.WNOHANG)
        if _in_use() > limits["all_memory"]:
            os._exit(OUT_OF_MEMORY)  # the kernel ends all that is left here


def _in_use() -> int:
    """Bytes in use by all processes of the jail but its first two, which are the grader's own."""
    pages = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) > 2:
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{name}/statm", encoding="ascii") as file,
            ):
                pages += int(file.read().split()[1])
    return pages * resource.getpagesize()


def _expect(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _give_up_rights(libc: Any) -> None:
    """Drop every capability, as a process gets all of them in a user namespace it makes."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _expect(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def _run(channel: int, limits: dict[str, int]) -> None:
    space = _mapped() + limits["memory"]
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_AS, space),
    ):
        # The soft limit sends SIGXCPU, which means a timeout; the hard one SIGKILL, as a crash may.
        hard = value + 5 if kind == resource.RLIMIT_CPU else value
        with contextlib.suppress(ValueError):  # a lower limit is in force already
            resource.setrlimit(kind, (value, hard))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file too large is an error in the write
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    notebook.serve(channel)
    os._exit(0)


def _end(pid: int, wait: float) -> tuple[int | None, int]:
    """Kill a child and all it started.

    Args:
        pid: the child.
        wait: seconds to let it end by itself first.

    Returns:
        how it had ended by itself, or None if it had not; and the most memory that one of its
        processes had in use, in bytes.
    """
    until = time.monotonic() + wait
    done, status, usage = os.wait4(pid, os.WNOHANG)
    while not done and time.monotonic() < until:
        time.sleep(0.005)
        done, status, usage = os.wait4(pid, os.WNOHANG)
    if not done:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # without a jail there is only the session
    if not done:
        _, status, usage = os.wait4(pid, 0)
    return (_exit_code(status) if done else None), usage.ru_maxrss * 1024


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _mapped() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    main()
