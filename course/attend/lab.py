"""``attend lab``: the learner's folder brought up to date, JupyterLab on the start page."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path
from types import FrameType

from attend import start, workspace
from attend.curriculum import LAB, ROOT
from attend.errors import AttendError

FIRST_PORT = 8888  # JupyterLab's own
PORTS_TRIED = 50
SECONDS_TO_START = 60
CONFIG = Path(__file__).parent / "jupyter"


def main(port: int | None, browser: bool, root: Path = ROOT) -> None:
    """Prepare the learner's folder, run JupyterLab there until it is stopped.

    Raises:
        AttendError: work/ cannot be written, the port is taken or the server does not start.
    """
    work = workspace.home() if root == ROOT else root / "work"
    for sentence in workspace.prepare(work, root):
        print(sentence)
    chosen = choose_port(port)
    token = secrets.token_hex(24)
    url = f"http://127.0.0.1:{chosen}/lab/tree/{start.NAME}?token={token}"
    log = work / ".attend" / "jupyter.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command(work, chosen), env=environment(work, token), stdout=out, stderr=out
        )
    for signum in (signal.SIGINT, signal.SIGTERM):  # a script's background job ignores SIGINT
        signal.signal(signum, _stop)
    try:
        wait_until_up(server, chosen, log)
        print(f"\nThe course is open at\n\n    {url}\n", flush=True)
        if browser and not open_browser(url):
            print("There is no browser to open here: open this address in one yourself.")
        print("Press Ctrl-C to stop.", flush=True)
        if server.wait() != 0:
            raise AttendError(f"JupyterLab stopped unexpectedly; its messages are in {log}.")
    except KeyboardInterrupt:
        print(f"\nStopped. Your work is saved in {work.name}/; {LAB} continues.")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # pressed again: it is stopping already
        stop(server)


def command(work: Path, port: int) -> list[str]:
    """The command line of the learner's JupyterLab; nothing secret in it."""
    arguments = [sys.executable, "-m", "jupyterlab", "--no-browser", "-y"]
    arguments += [f"--ServerApp.root_dir={work}", "--ServerApp.ip=127.0.0.1"]
    arguments += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--allow-root")  # in a container: it listens on this machine alone
    return arguments


def environment(work: Path, token: str) -> dict[str, str]:
    """The server's environment: its token, and the course's settings before the user's own.

    Open tabs are remembered in ``work``: those of other projects have no place here.
    """
    paths = [str(CONFIG), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    return {
        **os.environ,
        "JUPYTER_TOKEN": token,
        "JUPYTERLAB_WORKSPACES_DIR": str(work / ".attend" / "workspaces"),
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, paths)),
        "PYTHONSTARTUP": os.environ.get("PYTHONSTARTUP", str(CONFIG / "kernel.py")),
    }


def choose_port(wanted: int | None) -> int:
    """Return ``wanted`` if it is free; without a wish, the first free port from 8888.

    Raises:
        AttendError: ``wanted`` is taken, or no port near 8888 is free.
    """
    ports = [wanted] if wanted is not None else range(FIRST_PORT, FIRST_PORT + PORTS_TRIED)
    for port in ports:
        with socket.socket() as probe:
            if os.name != "nt":  # a port just given up counts as free, as it will to the server
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return port
    if wanted is not None:
        raise AttendError(
            f"Port {wanted} cannot be used: another program has it, or it needs special rights. "
            f"Name another, or leave out --port to let attend find a free one.",
            exit_code=2,
        )
    raise AttendError(
        f"All ports from {FIRST_PORT} to {FIRST_PORT + PORTS_TRIED - 1} are in use. "
        f"Name a free one: .venv/bin/attend lab --port PORT"
    )


def wait_until_up(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when the server answers.

    Raises:
        AttendError: it ended, or did not answer in time.
    """
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise AttendError(f"JupyterLab did not start: {_last_line(log)} (all of it: {log})")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AttendError(
        f"JupyterLab did not answer within {SECONDS_TO_START} s; its messages are in {log}."
    )


def open_browser(url: str) -> bool:
    """Open ``url`` in a graphical browser; tell whether there was one."""
    windows = sys.platform in {"darwin", "win32"}
    named = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if not windows and not any(os.environ.get(name) for name in named):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and its kernels: politely, then by force."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _stop(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
