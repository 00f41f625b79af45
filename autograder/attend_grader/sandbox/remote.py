"""A subject in another process, reached only by JSON and raw array buffers.

This is the door, not the sandbox: :class:`ProcessChannel` starts a plain worker. A jail around
it is the business of whoever grades hostile code.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from attend_grader.checks.subject import Subject
from attend_grader.inside import codec
from attend_grader.sandbox.answers import checked_answer
from attend_grader.sandbox.stream import Stream


class SubjectDied(RuntimeError):
    """The worker ended, hung or spoke nonsense; the message says which."""


class Process(Protocol):
    """What is used of a process that was started."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        ...

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        ...


def _started(command: Sequence[str]) -> tuple[Process, socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=theirs.fileno(), start_new_session=True
        )
    return process, ours


class ProcessChannel:
    """Starts a worker, loads a candidate in it, and carries requests.

    Args:
        source: Python text that defines the candidate (the learner's cells, in order).
        name: the candidate's name in it.
        references: earlier exercises' references; they stay here and are asked over the channel.
        timeout: seconds one request may take before the worker is killed.
        command: how to start the worker (a sandbox puts itself in front).
        ready: a worker that runs already, in a session of its own, and the socket to it.
    """

    def __init__(
        self,
        source: str,
        name: str,
        references: Mapping[str, Callable[..., Any]] | None = None,
        *,
        timeout: float = 60.0,
        command: Sequence[str] = (sys.executable, "-m", "attend_grader.inside.worker"),
        ready: tuple[Process, socket.socket] | None = None,
    ) -> None:
        self.references = references or {}
        self.timeout = timeout
        self.deadline = float("inf")
        self.process, self._socket = ready or _started(command)
        self._stream = Stream(self._socket, self)
        loaded = self.request({"op": "load", "source": source, "name": name})
        if loaded.get("error"):
            self.close()
            raise SubjectDied(f"the submission could not be loaded: {loaded['error']}")

    def __enter__(self) -> ProcessChannel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send ``message``; serve questions for references until the answer comes.

        Raises:
            SubjectDied: no valid answer came; the worker is gone.
        """
        with self._in_time() as stream:
            codec.write_frame(stream, message)
            while True:
                answer = codec.read_frame(stream)
                if type(answer) is not dict or answer.get("op") != "reference":
                    return checked_answer(message, answer)
                codec.write_frame(stream, self._reference(answer))

    def carry(self, message: codec.Sealed) -> codec.Sealed:
        """Send a message as it is; the answer as it comes, which is not looked at.

        Raises:
            SubjectDied: none came; the worker is gone.
        """
        with self._in_time() as stream:
            codec.write_sealed(stream, message)
            return codec.read_sealed(stream, most_text=codec.MAX_FRAME_BYTES)

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[Any]:
        """The stream, for one request; the worker is ended where that fails."""
        self.deadline = time.monotonic() + self.timeout
        try:
            yield self._stream
        except TimeoutError:
            self.close()
            raise SubjectDied(f"no answer within {self.timeout:g} s") from None
        except (OSError, EOFError, codec.ProtocolError) as error:
            self.close()
            raise SubjectDied(str(error)[:2_000]) from None

    def close(self) -> None:
        """End the worker and everything it started."""
        self._kill()
        self.process.wait()
        self._socket.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _reference(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer a submission's call to an earlier exercise; its bad arguments are its own."""
        try:
            reference = self.references[question["name"]]
            if question.get("gradients") is not None:
                from attend_grader.inside.torch_gradients import gradients

                args, kwargs = question["args"], question["kwargs"]
                found = gradients(reference, args, kwargs, question["gradients"])
                return {"value": found["gradients"]}
            return {"value": reference(*question["args"], **question["kwargs"])}
        except Exception as error:  # whatever a reference raises goes back to the caller
            return {"error": f"{type(error).__name__}: {error}"}


def remote(
    source: str, name: str, references: Mapping[str, Callable[..., Any]] | None = None
) -> Subject:
    """A subject whose candidate ``name`` is defined by ``source`` in a fresh process."""
    return Subject(ProcessChannel(source, name, references))
