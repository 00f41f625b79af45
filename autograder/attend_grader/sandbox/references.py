"""References that answer a submission's calls to earlier exercises, in a process of their own.

A submission chooses their arguments: sizes that would take all memory, or loops of 10¹² steps.
What such a call costs is bounded here, and the grader itself runs none of them.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

from attend_grader.inside import codec
from attend_grader.sandbox.remote import ProcessChannel, SubjectDied

MEMORY = 2 * 2**30
"""Bytes that references may hold."""

STARTING = 60.0
"""Seconds in which the module of another reference is to be imported."""

_BOUNDED = f"""
import ctypes, resource, runpy, warnings
warnings.simplefilter("ignore")  # of a submission's arguments
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # end when the grader does
resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY}, {MEMORY}))
runpy.run_module("attend_grader.inside.worker", run_name="__main__")
"""


REMEMBERED = 1_000
"""Answers that are kept: a check asks the same again, with other functions in place."""

LONGEST = 32 * 2**10
"""Bytes of a question, and of the numbers of an answer, that is kept."""


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
            command = (sys.executable, "-c", _BOUNDED)
            self._channel = ProcessChannel(source, name, command=command)
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
