"""Subjects: the only way from a check to the code being checked.

A check may call its subject with arrays and plain values, build a module and load named
parameters, ask for gradients, and read the source. It cannot reach the function itself, so it
cannot tell whether that runs in the notebook (:func:`local`) or in another process
(:class:`attend_grader.sandbox.remote.ProcessChannel`). Both answer through
:mod:`attend_grader.inside.codec`: inputs are fresh copies for every call, outputs exact types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from attend_grader.inside import codec
from attend_grader.inside.executor import Executor
from attend_grader.inside.stand_ins import raised


class Channel(Protocol):
    """Carries one request to an executor and brings its answer back."""

    def request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send ``message``; return the executor's answer."""
        ...


@dataclass(frozen=True)
class CallError:
    """An exception raised by the candidate, cut to its own lines.

    ``lines`` holds (function, line within it, text), outermost first; ``shapes`` the arrays that
    were alive where it failed, and words: "a tuple of 2", "None"; ``own`` is true where the
    innermost line is the candidate's own rather than that of another function it calls; ``bases``
    are the names of the types that its own is derived from.
    """

    type: str
    message: str
    lines: Sequence[Sequence[Any]] = ()
    shapes: Mapping[str, Sequence[int] | str] = field(default_factory=dict)
    own: bool = False
    bases: Sequence[str] = ()

    def is_a(self, name: str) -> bool:
        """Whether it is an exception of this name, or of a type derived from it."""
        return name == self.type or name in self.bases


class SubjectError(Exception):
    """Raised by ``subject(...)`` where the candidate raised; holds a :class:`CallError`.

    ``given`` describes the arguments, for the message; it may be empty.
    """

    def __init__(self, error: CallError, given: str = "") -> None:
        super().__init__(f"{error.type}: {error.message}")
        self.error = error
        self.given = given


@dataclass(frozen=True)
class Outcome:
    """What one call did: its value or error, and what it did besides."""

    value: Any
    error: CallError | None = None
    mutated: Sequence[int | str] = ()
    gradients: Mapping[int | str, Any] | None = None
    steps: int = 0
    peak_bytes: int = 0
    trace: Sequence[Mapping[str, Any]] = ()
    printed: str = ""
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Description:
    """What can be read of a candidate without running it.

    ``parameters`` holds (name, kind, has a default); ``origins`` what
    :func:`attend_grader.inside.origins.origins` found.
    """

    name: str
    type: str
    callable: bool
    parameters: Sequence[Sequence[Any]] | None
    source: str | None
    first_line: int
    origins: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Subject:
    """A candidate behind a channel."""

    channel: Channel
    references: tuple[str, ...] = ()
    instance: int | None = None
    printed: list[str] = field(default_factory=list, compare=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the candidate; return its value.

        Raises:
            SubjectError: the candidate raised.
        """
        outcome = self.run(args, kwargs)
        if outcome.error is not None:
            raise SubjectError(outcome.error)
        return outcome.value

    def run(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        method: str | None = None,
        measure: bool = False,
        take: int | None = None,
        launcher: str = "",
        trace: Literal["", "events", "log"] = "",
    ) -> Outcome:
        """Call the candidate and return all that happened; never raises for its errors.

        Args:
            args: positional arguments, arrays and plain values.
            kwargs: keyword arguments.
            method: call this method of the built instance instead of the instance itself.
            measure: also count bytecode steps in the candidate's own code and peak bytes.
            take: of the generator it returns, take so many values, as a list.
            launcher: ``"module:function"`` of the course that is called with the candidate, a
                Triton kernel, in front of the arguments.
            trace: record what the Triton kernels that it launches do to memory
                (:mod:`attend_grader.inside.tracer`); with ``"log"``, each access.
        """
        more = {"launcher": launcher, "trace": trace} if launcher or trace else {}
        return self._send("call", args, kwargs, method=method, measure=measure, take=take, **more)

    def compiled(
        self,
        types: Mapping[str, str],
        constants: Mapping[str, Any],
        *,
        architecture: int = 90,
        warps: int = 4,
        stages: int = 2,
        kernel: str = "",
    ) -> dict[str, Any]:
        """What Triton's compiler makes of a kernel for a GPU that is not here.

        The kernel is the candidate, or the one of this name beside it. See
        :func:`attend_grader.inside.compiling.compiled`.
        """
        wanted = {"architecture": architecture, "warps": warps, "stages": stages}
        request = {"op": "compile", "types": dict(types), "constants": dict(constants), **wanted}
        request["kernel"] = kernel
        return self.channel.request(request)["report"]

    def gradients(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        wrt: Sequence[int] = (),
        parameters: Sequence[str] = (),
        cotangents: Sequence[Any],
        method: str | None = None,
    ) -> Outcome:
        """Call a torch candidate and pull ``cotangents`` back to inputs and named parameters."""
        wanted = {
            "wrt": list(wrt),
            "parameters": list(parameters),
            "cotangents": list(cotangents),
        }
        return self._send("call", args, kwargs, gradients=wanted, method=method)

    def build(
        self, *args: Any, parameters: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Subject:
        """Construct the candidate class, load ``parameters`` by name; a subject of its own.

        Raises:
            SubjectError: the constructor raised, or the parameters do not fit.
        """
        loaded = None if parameters is None else dict(parameters)
        outcome = self._send("build", args, kwargs, parameters=loaded)
        if outcome.error is not None:
            raise SubjectError(outcome.error)
        return dataclasses.replace(self, instance=outcome.value)

    def with_references(self, names: Sequence[str]) -> Subject:
        """The same candidate, whose calls to the named earlier exercises reach references."""
        return dataclasses.replace(self, references=tuple(names))

    def forbid(self, names: Sequence[str]) -> None:
        """Let functions of these dotted names raise while the candidate runs; () lifts it."""
        self.channel.request({"op": "forbid", "names": tuple(names)})

    @cached_property
    def description(self) -> Description:
        """Name, signature, source text and the origins of the names it uses."""
        return Description(**self.channel.request({"op": "describe"}))

    def _send(
        self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None, **more: Any
    ) -> Outcome:
        answer = self.channel.request(
            {
                "op": op,
                "args": tuple(args),
                "kwargs": dict(kwargs or {}),
                "references": self.references,
                "instance": self.instance,
                **more,
            }
        )
        error = answer.get("error")
        cost = answer.get("cost") or {}
        if answer["printed"]:
            self.printed.append(answer["printed"])
        return Outcome(
            value=answer["value"],
            error=None if error is None else CallError(**error),
            mutated=answer["mutated"],
            gradients=answer.get("gradients"),
            steps=cost.get("steps", 0),
            peak_bytes=cost.get("peak_bytes", 0),
            trace=answer.get("trace", ()),
            printed=answer["printed"],
            warnings=answer["warnings"],
        )


@dataclass(frozen=True)
class LocalChannel:
    """Runs requests in this process, through the same encoding as a remote one."""

    executor: Executor

    def request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer ``message`` here."""
        return codec.copied(self.executor.handle(codec.copied(message)))


def local(candidate: Any, references: Mapping[str, Callable[..., Any]] | None = None) -> Subject:
    """A subject for ``candidate`` in this process.

    Args:
        candidate: function or class (or anything else: the description says what it is).
        references: earlier exercises' references by name, for follow-through marks.
    """
    known = references or {}

    def ask(name: str, args: tuple, kwargs: dict) -> Any:
        try:
            return known[name](*args, **kwargs)
        except Exception as error:  # as a remote subject tells it: the caller's mistake, in words
            raise raised(f"{type(error).__name__}: {error}") from None

    return Subject(LocalChannel(Executor(candidate, ask)))
