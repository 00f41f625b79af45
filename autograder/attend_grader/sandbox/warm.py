"""Outside the jail: start the warm parent, ask it for children, speak with them."""

from __future__ import annotations

import atexit
import contextlib
import json
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from attend_grader.inside import codec
from attend_grader.sandbox import jail, questions, tree
from attend_grader.sandbox.answers import checked_answer
from attend_grader.sandbox.folder import Folder
from attend_grader.sandbox.jail import Limits, SandboxMissing
from attend_grader.sandbox.patience import patience
from attend_grader.sandbox.references import References
from attend_grader.sandbox.stream import Stream

START_SECONDS = 120.0
"""Importing torch and the course takes 2 to 5 s; a busy machine must not fail."""

LOOK_SECONDS = 0.1
"""While it does not answer, look this often whether it has ended."""

PAUSES = (0.2, 2.0)
"""Seconds before a process for a submission is tried again, where the machine refused it one."""

STARTING = threading.Lock()
"""Take this lock before killing a worker, so that no jail starts meanwhile."""

HURRIED_SECONDS = 5.0
"""After a first timeout half of each limit is left, but no less than this: honest checks take a
second or two, and a submission of endless loops would keep a worker for minutes."""

SIGXCPU, OUT_OF_MEMORY = 128 + 24, 77
"""Exit codes of a child: out of processor time; and as in :mod:`.zygote`."""

MAX_ERROR, MAX_OUTPUT = 2_000, 20_000
"""Characters kept of a cell's error and output; :mod:`.notebook` cuts them, if it is still ours."""

PRELOAD = ("numpy", "IPython.core.interactiveshell", "altair", "ipywidgets", "tqdm", "attend")


class SubmissionDied(RuntimeError):
    """A child is gone or talked nonsense; ``reason`` is timeout, memory, crash or protocol."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class JailKilled(SandboxMissing):
    """The jail was ended from outside as it started: another try may do."""


class NotSetUp(SandboxMissing):
    """The machine refused what a process for a submission needs: another try may do."""


class WarmParent:
    """A jail for one chapter, whose parent process has imported what its notebooks need.

    Args:
        chapter_id: decides what the jail can see.
        limits: for every child.
        modules: imported before any fork.
        unsafe: no jail (a person asked for that).

    Raises:
        JailKilled: the jail was ended from outside as it started.
        SandboxMissing: bubblewrap is not installed, or the jail does not start.
    """

    def __init__(
        self,
        chapter_id: str,
        limits: Limits | None = None,
        *,
        modules: tuple[str, ...] = (),
        unsafe: bool = False,
    ) -> None:
        self.limits = limits or Limits()
        self.unsafe = unsafe
        self._peak = 0
        self._gone = False
        self.references = References()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        self._folder = Folder()
        self.packages = self._folder.path
        self.packages.chmod(0o755)
        atexit.register(self.close)
        tree.write(self.packages, chapter_id, modules)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(LOOK_SECONDS)
        try:
            with theirs, STARTING, tempfile.TemporaryFile() as told:
                told.write(jail.options(self.packages, self.limits))
                told.seek(0)
                self.process = subprocess.Popen(
                    jail.command(self.packages, theirs.fileno(), told.fileno(), unsafe=unsafe),
                    stdin=subprocess.DEVNULL,
                    stderr=self._said,
                    env=jail.environment(str(self.packages)) if unsafe else {},
                    cwd="/",
                    pass_fds=(theirs.fileno(), told.fileno()),
                )
            self._ask({"op": "preload", "modules": [*PRELOAD, *modules]})
            if not self.is_alive():  # bubblewrap is gone, and what it started is not bound to it
                raise EOFError("it ended")
        except (OSError, EOFError) as error:
            said = self._last_words()
            kind = JailKilled if self._was_killed() else SandboxMissing
            self.close()
            raise kind(f"the jail did not start: {said or error}") from None

    def __enter__(self) -> WarmParent:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def child(self) -> Child:
        """A fresh process for one submission, ready to run its cells.

        Raises:
            SandboxMissing: the warm parent is gone, or such a process cannot be set up.
        """
        for pause in PAUSES:
            with contextlib.suppress(NotSetUp):
                return self._child()
            time.sleep(pause)
        return self._child()

    def _child(self) -> Child:
        ours, theirs = socket.socketpair()
        sizes = {k: v for k, v in asdict(self.limits).items() if isinstance(v, int)}
        kept = [str(prefix) for prefix in jail.prefixes() if prefix.is_relative_to("/tmp")]
        request = {"op": "fork", "limits": sizes, "jailed": not self.unsafe, "kept": kept}
        with theirs:
            try:
                answer = self._ask(request, theirs.fileno())
            except (OSError, EOFError) as error:
                ours.close()
                raise SandboxMissing(f"the warm parent is gone: {error}") from None
        child = Child(self, ours, answer["pid"])
        try:
            child.greet()
        except SubmissionDied as died:  # nothing of a submission has run yet
            if not self.is_alive():
                raise SandboxMissing(f"the warm parent is gone: {died}") from None
            why = self._said_last().rpartition("\n")[2] or died
            raise NotSetUp(
                f"the jail can set up no process for a submission: {why}. No score was made of "
                "this: fix it, then grade again."
            ) from None
        return child

    def end(self, pid: int, wait: float) -> int | None:
        """End a child; its exit code if it ended by itself within ``wait`` seconds."""
        answer = self._ask({"op": "end", "pid": pid, "wait": wait})
        self._peak = max(self._peak, answer["peak"])
        return answer["status"]

    def is_alive(self) -> bool:
        """Whether it still answers, as far as is known."""
        return not self._gone and self.process.poll() is None

    def peak_memory(self) -> int:
        """Bytes, the most that a child had in use, of those that ended since the last call."""
        peak, self._peak = self._peak, 0
        return peak

    def close(self) -> None:
        """End the parent, all children and the files it was given."""
        atexit.unregister(self.close)
        self.references.close()
        process = getattr(self, "process", None)
        if process is not None:
            process.kill()
            process.wait()
        if hasattr(self, "control"):
            self.control.close()
        self._said.close()
        self._folder.remove()

    def _ask(self, request: dict[str, Any], descriptor: int | None = None) -> dict[str, Any]:
        descriptors = [] if descriptor is None else [descriptor]
        try:
            socket.send_fds(self.control, [json.dumps(request).encode()], descriptors)
            return json.loads(self._answer())
        except (OSError, EOFError):
            self._gone = True
            raise

    def _answer(self) -> bytes:
        """What comes over the control socket.

        A socket that is open is no sign of life: see :func:`.jail.end`.
        """
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                answer = self.control.recv(65536)
            except TimeoutError:
                if self.process.poll() is not None:
                    raise EOFError("it ended") from None
                if time.monotonic() > until:
                    raise
                continue
            if not answer:
                raise EOFError("it closed its socket")
            return answer

    def _was_killed(self) -> bool:
        process = getattr(self, "process", None)
        code = 0 if process is None else process.poll()
        return code is not None and (code < 0 or code > 128)  # bubblewrap's own, or its child's

    def _last_words(self) -> str:
        process = getattr(self, "process", None)
        if process is None:
            return ""
        try:
            process.wait(1)  # it may have closed its socket first
        except subprocess.TimeoutExpired:
            return ""
        return self._said_last()

    def _said_last(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()[-500:]


class Child:
    """One process in the jail: a channel for a subject, and a place to run cells."""

    def __init__(self, parent: WarmParent, connection: socket.socket, pid: int) -> None:
        self.parent = parent
        self.pid = pid
        self.references: Mapping[str, Callable[..., Any]] = {}
        self.until = float("inf")  # no request may last longer, whatever it is allowed
        self.hurried = False  # a timeout of this submission has cost time already
        self._left = 0.0
        self._asked: float | None = None
        self._patience = 1.0  # of the request that is under way
        self._socket = connection
        self._stream = Stream(connection, self)
        self._number = 0
        self._closed = False

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def allow(self, seconds: float) -> None:
        """Let all requests from now on take this long together, or less where time was lost.

        What the grader works out between two requests does not count, and on a machine that is
        busy with other work it is longer by :func:`patience`.
        """
        if self.hurried:
            seconds = min(seconds, max(seconds / 2, HURRIED_SECONDS))
        self._left = seconds

    @property
    def deadline(self) -> float:
        """When the request that is under way, or one that began now, has to be answered."""
        if self._asked is None:
            return min(time.monotonic() + self._left * patience(), self.until)
        return min(self._asked + self._left * self._patience, self.until)

    def greet(self) -> None:
        """Wait until the process is set up.

        Raises:
            SubmissionDied: it is gone, or takes too long; whose doing that is, the caller knows.
        """
        self.allow(START_SECONDS)
        self._send({"op": "greet"})

    def run_cell(self, source: str) -> tuple[str | None, str]:
        """Run a cell; its error in a line (or None) and what it printed.

        Raises:
            SubmissionDied: it took too long, or its process is gone.
        """
        self.allow(self.parent.limits.cell_seconds)
        answer = self._send({"op": "cell", "source": source})
        if (
            type(answer) is not dict
            or answer.keys() != {"error", "printed"}
            or type(answer["printed"]) is not str
            or type(answer["error"]) not in (str, type(None))
        ):
            raise self._died("protocol", "an answer that is not of the form agreed")
        error = answer["error"]
        return error and error[:MAX_ERROR], answer["printed"][:MAX_OUTPUT]

    def candidate(self, name: str) -> bool:
        """Point requests at what the notebook calls ``name``; whether there is such a thing."""
        answer = self._send({"op": "candidate", "name": name})
        if type(answer) is not dict or type(answer.get("found")) is not bool:
            raise self._died("protocol", "an answer that is not of the form agreed")
        return answer["found"]

    def request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Carry a subject's request.

        Raises:
            SubmissionDied: no valid answer came in time.
        """
        try:
            return checked_answer(message, self._send(message))
        except codec.ProtocolError as error:
            raise self._died("protocol", str(error)) from None

    def close(self, wait: float = 0.5) -> int | None:
        """End the process and all it started; its exit code if it ended by itself in time.

        It ends by itself where it waits for a request: the channel is closed.
        """
        if self._closed:
            return None
        self._closed = True
        self._socket.close()
        try:
            return self.parent.end(self.pid, wait)
        except (OSError, EOFError):  # the parent is gone, and with it every child
            return None

    def _send(self, request: dict[str, Any]) -> Any:
        if self._closed:
            raise SubmissionDied("crash", "its process is gone")
        self._number += 1
        self._asked, self._patience = time.monotonic(), patience()
        try:
            codec.write_frame(self._stream, {"number": self._number, "request": request})  # type: ignore[arg-type]  # it has what is used of a stream
            while True:
                came = codec.read_sealed(self._stream)  # type: ignore[arg-type]  # it has what is used of a stream
                question = questions.found(came.form, self._number)
                if question is not None:
                    self._reference(question, came, request.get("references", ()))
                    continue
                frame = codec.opened(came)
                if type(frame) is not dict or frame.keys() != {"number", "answer"}:
                    raise codec.ProtocolError("an answer without its number")
                if frame["number"] != self._number:
                    raise codec.ProtocolError("an answer to another question")
                return frame["answer"]
        except TimeoutError:
            raise self._died("timeout", "it did not end in time") from None
        except codec.ProtocolError as error:
            raise self._died("protocol", str(error)) from None
        except (OSError, EOFError):
            raise self._died("crash", "it ended") from None
        finally:
            self._left -= (time.monotonic() - self._asked) / self._patience
            self._asked = None

    def _reference(
        self, question: dict[str, Any], came: codec.Sealed, offered: Sequence[str]
    ) -> None:
        """Answer a submission's call to an earlier exercise that this request offers."""
        name, asked = questions.asked(question, offered)
        left = self.deadline - time.monotonic()
        reference = self.references[name]
        reply = self.parent.references.answer(reference, came._replace(form=asked), left)
        numbered = {"$map": {"number": self._number, "request": reply.form}}
        codec.write_sealed(self._stream, reply._replace(form=numbered))  # type: ignore[arg-type]  # it has what is used of a stream

    def _died(self, reason: str, message: str) -> SubmissionDied:
        status = self.close(wait=1.0 if reason == "crash" else 0.0)
        if reason == "crash" and status == SIGXCPU:
            return SubmissionDied("timeout", "it used up its processor time")
        if reason == "crash" and status == OUT_OF_MEMORY:
            return SubmissionDied("memory", "its processes took too much memory together")
        if reason == "crash" and status is not None and status >= 128:
            return SubmissionDied("crash", f"it was ended by signal {status - 128}")
        if reason == "crash" and status is not None:
            return SubmissionDied("crash", f"it ended itself with exit code {status}")
        return SubmissionDied(reason, message[:MAX_ERROR])
