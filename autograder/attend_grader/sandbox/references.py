"""References that answer a submission's calls to earlier exercises, in a process of their own.

A submission chooses their arguments: sizes that would take all memory, or loops of 10¹² steps.
What such a call costs is bounded here, and the grader itself runs none of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from typing import Any

from attend_grader.inside import codec, worker
from attend_grader.sandbox.remote import Process, ProcessChannel, SubjectDied

MEMORY = 2 * 2**30
"""Bytes that references may hold."""

STARTING = 60.0
"""Seconds in which the module of another reference is to be imported."""

_BOUNDED = "from attend_grader.sandbox import references; references.serve()"

_PR_SET_PDEATHSIG = 1

_AHEAD: list[tuple[Process, socket.socket]] = []
"""Forked by :func:`start_ahead`, until somebody asks."""


REMEMBERED = 1_000
"""Answers that are kept: a check asks the same again, with other functions in place."""

LONGEST = 32 * 2**10
"""Bytes of a question, and of the numbers of an answer, that is kept."""


def serve() -> None:
    """Answer on standard input and output, bounded, until the grader ends."""
    import resource  # not on Windows, where there is no sandbox either

    warnings.simplefilter("ignore")  # of a submission's arguments
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    worker.main()


def start_ahead() -> None:
    """Fork the process for references from this one: what is imported here is not again there.

    To be called before this process has threads, or anything that is not for others' eyes.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        _AHEAD.append((_Forked(pid), ours))
        return
    try:
        os.setsid()
        for descriptor in (0, 1):
            os.dup2(theirs.fileno(), descriptor)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                with contextlib.suppress(OSError):  # that of the listing itself
                    os.close(int(name))
        serve()
    finally:
        os._exit(0)


def _ready() -> tuple[Process, socket.socket] | None:
    """The process that was forked ahead, where there is one and it runs still."""
    while _AHEAD:
        process, connection = _AHEAD.pop()
        if process.poll() is None:
            return process, connection
        connection.close()
    return None


class _Forked:
    """A process that this one forked, with what is used of :class:`subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._look(os.WNOHANG)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        code = self._look(0)
        assert code is not None
        return code

    def _look(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


class References:
    """One process for all references, started at the first question: to import PyTorch takes long.

    A reference is a function of its arguments alone: what was asked before is not asked again.
    """

    def __init__(self) -> None:
        self._channel: ProcessChannel | None = None
        self._loaded: set[Callable[..., Any]] = set()  # what the channel answers for
        self._answers: dict[tuple[Callable[..., Any], bytes], codec.Sealed] = {}

    def answer(
        self, reference: Callable[..., Any], question: codec.Sealed, seconds: float
    ) -> codec.Sealed:
        """The reference's ``value``, or its ``error`` in words: bad arguments are the caller's own.

        Question and answer pass through the grader as they are: their values are made in the
        references' process and in the submission's.

        Args:
            reference: the course's own function.
            question: forms of ``args`` and ``kwargs``, and of ``gradients``: None, or ``wrt`` and
                ``cotangents`` as in :func:`attend_grader.inside.torch_gradients.gradients`, to ask
                for these in place of the value.
            seconds: that it may take.

        Raises:
            TimeoutError: no answer within ``seconds``.
        """
        text = question.text()
        key = reference, hashlib.sha256(text + question.body).digest()
        if key in self._answers:
            return self._answers[key]
        answer = self._ask(reference, question, seconds)
        if max(len(text) + len(question.body), len(answer.body)) <= LONGEST:
            if len(self._answers) == REMEMBERED:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def _ask(
        self, reference: Callable[..., Any], question: codec.Sealed, seconds: float
    ) -> codec.Sealed:
        fields = {"op": "answer", "source": _source(reference), **question.form}
        try:
            channel = self._loading(reference)
            channel.timeout = max(seconds, 0.01)
            return channel.carry(question._replace(form={"$map": fields}))
        except SubjectDied as death:
            self._channel, self._loaded = None, set()
            if "no answer within" in str(death):
                raise TimeoutError from None
            return codec.sealed(
                {"error": f"RuntimeError: the course's own function ended: {death}"}
            )

    def close(self) -> None:
        """End the process."""
        if self._channel is not None:
            self._channel.close()
        self._channel, self._loaded = None, set()

    def _loading(self, reference: Callable[..., Any]) -> ProcessChannel:
        """The channel, which answers for this reference too."""
        source, name = _source(reference), reference.__name__
        if self._channel is None:
            ready = _ready()
            command = (sys.executable, "-c", _BOUNDED)
            self._channel = ProcessChannel(source, name, command=command, ready=ready)
        elif reference not in self._loaded:
            self._channel.timeout = STARTING
            loaded = self._channel.request({"op": "load", "source": source, "name": name})
            if loaded["error"]:
                raise SubjectDied(loaded["error"])
        self._loaded.add(reference)
        return self._channel


def _source(reference: Callable[..., Any]) -> str:
    """Text that defines a reference."""
    return f"from {reference.__module__} import {reference.__name__}"
