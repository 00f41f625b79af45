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

from attend_grader.checks.loads import Asked, asked, built_as, loads, size_of
from attend_grader.checks.outcomes import CallError, Logged, Made, Outcome
from attend_grader.inside import codec
from attend_grader.inside.executor import Executor
from attend_grader.inside.stand_ins import raised


class Channel(Protocol):
    """Carries one request to an executor and brings its answer back."""

    def request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send ``message``; return the executor's answer."""
        ...


class SubjectError(Exception):
    """Raised by ``subject(...)`` where the candidate raised; holds a :class:`CallError`.

    ``given`` describes the arguments, for the message; it may be empty.
    """

    def __init__(self, error: CallError, given: str = "") -> None:
        super().__init__(f"{error.type}: {error.message}")
        self.error = error
        self.given = given


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
    made: Made | None = None
    log: list[Logged] = field(default_factory=list, compare=False)
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
        trace: Literal["", "events", "log", "zeros"] = "",
        graph: bool = True,
        again: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Call the candidate and return all that happened; never raises for its errors.

        Args:
            args: positional arguments, arrays and plain values.
            kwargs: keyword arguments.
            method: call this method of the built instance instead of the instance itself.
            measure: also count bytecode steps in the candidate's own code and peak bytes.
            take: of the generator it returns, so many values, as a list.
            launcher: as in :class:`.probe.Call`.
            trace: record what the Triton kernels that it launches do to memory
                (:mod:`attend_grader.inside.tracer`); with ``"log"``, each access; with
                ``"zeros"``, masked lanes without ``other`` hold 0 and not NaN.
            graph: if not, under ``torch.no_grad()``.
            again: call so, more than once, as :func:`.calling.thrice`, :func:`.calling.passed_back`
                or, with ``parameters`` and a ``method``, :func:`.calling.after_change`.
        """
        more: dict[str, Any] = {"measure": measure, "take": take, "graph": graph}
        more |= {"launcher": launcher, "trace": trace} if launcher or trace else {}
        more |= {} if again is None else {"again": dict(again)}
        outcome = self._send("call", args, kwargs, method=method, **more)
        if not (launcher or trace or measure) and graph and take is None and again is None:
            self._note(args, kwargs or {}, method, self.made, outcome)
        return outcome

    def _note(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        method: str | None,
        made: Made | None,
        outcome: Outcome,
        *judged: Any,
    ) -> None:
        """Remember a small call as it was made: what a card says has to fit to all of them."""
        small = size_of((*args, *kwargs.values())) <= LARGEST_LOGGED
        if small and len(self.log) < MOST_LOGGED:  # a property may write into its arrays later
            again, named = codec.copied(tuple(args)), codec.copied(dict(kwargs))
            self.log.append(Logged(again, named, method, made, self.references, outcome, *judged))

    def judged(self, call: Asked, outcome: Outcome, want: Any, wrong: bool) -> None:
        """Remember a traced call of a kernel, which would take too long to judge again."""
        asked = call.args, call.kwargs, call.method, None
        self._note(*asked, outcome, call.launcher, want, wrong)

    def many(
        self,
        calls: Sequence[Asked],
        on: Sequence[Subject] = (),
        *,
        graph: bool = True,
        gradients: Sequence[Mapping[str, Any]] = (),
        again: Sequence[Mapping[str, Any]] = (),
    ) -> list[Outcome]:
        """What the candidate does on each of several calls, carried together.

        As :meth:`run` of each, at a fraction of the cost where another process answers. A call
        that says how to build an instance has one made for it alone.

        Args:
            calls: in this order.
            on: for each call the candidate or an instance of it; empty: all are its own.
            graph: if not, under ``torch.no_grad()``.
            gradients: for each call what :meth:`gradients` takes; empty: none are asked for.
            again: for each call what :meth:`run` takes; empty: all are called once.
        """
        subjects = on or [self] * len(calls)
        wanted: Sequence[Any] = gradients or [None] * len(calls)
        messages = [
            {**asked(call), "instance": subject.instance, "graph": graph, "gradients": pulled}
            for call, subject, pulled in zip(calls, subjects, wanted, strict=True)
        ]
        for message, more in zip(messages, again, strict=False):
            message["again"] = dict(more)
        outcomes = self._carried(calls, messages)
        for call, subject, outcome in zip(calls, subjects, outcomes, strict=True):
            apart = call.launcher or call.shared or not graph or again
            if not (apart or (gradients and not outcome.mutated)):
                made = subject.made if call.build is None else Made(**built_as(call))
                self._note(call.args, call.kwargs, call.method, made, outcome)
        return outcomes

    def built(self, calls: Sequence[Asked]) -> list[Subject | CallError]:
        """An instance as each call says, as :meth:`build` makes it, or why there is none."""
        outcomes = self._carried(calls, [{"op": "build", **built_as(call)} for call in calls])
        return [
            came.error
            or dataclasses.replace(self, instance=came.value, made=Made(**built_as(call)))
            for call, came in zip(calls, outcomes, strict=True)
        ]

    def _carried(self, calls: Sequence[Asked], messages: list[dict[str, Any]]) -> list[Outcome]:
        """What came of requests that belong to calls, carried in loads."""
        outcomes: list[Outcome] = []
        for some in loads(calls):
            requests = messages[len(outcomes) : len(outcomes) + len(some)]
            answer = self.channel.request(
                {"op": "many", "requests": requests, "references": self.references}
            )
            outcomes += [self._outcome(each) for each in answer["answers"]]
        return outcomes

    def compiled(
        self,
        types: Mapping[str, str],
        constants: Mapping[str, Any],
        *,
        architecture: int = 90,
        warps: int = 4,
        stages: int = 2,
        kernel: str = "",
        ahead: bool = False,
    ) -> dict[str, Any]:
        """What Triton's compiler makes of a kernel for a GPU that is not here.

        The kernel is the candidate, or the one of this name beside it. With ``ahead`` it only
        begins, and what is returned is empty. See
        :func:`attend_grader.inside.compiling.compiled`.
        """
        wanted = {"architecture": architecture, "warps": warps, "stages": stages, "ahead": ahead}
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
        computed: bool = False,
        method: str | None = None,
        launcher: str = "",
        trace: Literal["", "events", "log"] = "",
    ) -> Outcome:
        """Call a torch candidate and pull ``cotangents`` back to inputs and named parameters.

        With ``computed`` the inputs are no leaves of the graph; the rest as in :meth:`run`.
        """
        more = {"launcher": launcher, "trace": trace} if launcher or trace else {}
        wanted = {"wrt": list(wrt), "parameters": list(parameters)}
        wanted |= {"cotangents": list(cotangents), "computed": computed}
        outcome = self._send("call", args, kwargs, gradients=wanted, method=method, **more)
        if outcome.mutated and not launcher:
            self._note(args, kwargs or {}, method, self.made, outcome)
        return outcome

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
        made = Made(tuple(args), kwargs, loaded)
        return dataclasses.replace(self, instance=outcome.value, made=made)

    def anew(self) -> Subject:
        """Another instance, built as this one was.

        Raises:
            SubjectError: the constructor raised, or the parameters do not fit.
        """
        assert self.made is not None
        whole = dataclasses.replace(self, instance=None, made=None)
        return whole.build(*self.made.args, parameters=self.made.parameters, **self.made.kwargs)

    def reload(self, parameters: Mapping[str, Any]) -> Subject:
        """Load other parameters by name into the built instance, as a step of training would.

        Raises:
            SubjectError: they do not fit.
        """
        loaded = dict(parameters)
        outcome = self._send("reload", (), {}, parameters=loaded)
        if outcome.error is not None:
            raise SubjectError(outcome.error)
        made = None if self.made is None else dataclasses.replace(self.made, parameters=loaded)
        return dataclasses.replace(self, made=made)

    def with_references(self, names: Sequence[str]) -> Subject:
        """The same candidate, whose calls to the named earlier exercises reach references."""
        return dataclasses.replace(self, references=tuple(names), log=[])

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
        request = {"op": op, "args": tuple(args), "kwargs": dict(kwargs or {}), **more}
        about = {"references": self.references, "instance": self.instance}
        return self._outcome(self.channel.request({**request, **about}))

    def _outcome(self, answer: dict[str, Any]) -> Outcome:
        error, cost = answer.get("error"), answer.get("cost") or {}
        self.printed.extend([answer["printed"]] if answer["printed"] else [])
        return Outcome(
            value=answer["value"],
            error=None if error is None else CallError(**error),
            mutated=answer["mutated"],
            printed=answer["printed"],
            warnings=answer["warnings"],
            **{key: answer[key] for key in _EXTRAS if key in answer},
            **{key: cost[key] for key in ("steps", "peak_bytes", "tensor_bytes") if key in cost},
        )


_EXTRAS = ("overwritten", "gradients", "loose", "trace")
MOST_LOGGED, LARGEST_LOGGED = 400, 2**16
"""Calls that are remembered, and bytes of arguments of each."""


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
