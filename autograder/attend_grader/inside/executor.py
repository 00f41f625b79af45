"""The side of a subject that runs submitted code: one request in, one answer out.

The executor lives in the learner's process: the notebook's kernel (local subject) or a sandbox
(remote subject). It knows nothing of checks, oracles or points. A request is a plain dict and so
is the answer; :mod:`attend_grader.inside.codec` carries them where a process boundary lies between.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import itertools
import types
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from attend_grader.inside import codec
from attend_grader.inside.bans import Bans
from attend_grader.inside.calling import after_change, passed_back, shared, taken, thrice
from attend_grader.inside.compiling import python_function
from attend_grader.inside.kernels import interprets, kernels_of
from attend_grader.inside.measuring import measured
from attend_grader.inside.origins import origins
from attend_grader.inside.parameters import layers_undrawn, load
from attend_grader.inside.settings import graph, no_input, usual_settings
from attend_grader.inside.telling import (
    MAX_NAMES,
    MAX_PRINTED,
    line_of,
    shapes_of,
    source_of,
    text_of,
    within,
)

MAX_WARNINGS = 20
"""Different warnings kept of one call."""

MAX_BASES = 10
"""Types that are kept of those that an exception's is derived from."""

MAX_LINES = 20
"""Lines kept of an exception's way: its beginning and its end."""


class Beginning(io.TextIOBase):
    """A stream that keeps the first ``room`` characters of what is written, and no more."""

    def __init__(self, room: int) -> None:
        self._kept: list[str] = []
        self._room = room

    @property
    def text(self) -> str:
        """What was kept."""
        return "".join(self._kept)

    def write(self, text: str) -> int:
        """Keep what there is room for."""
        if self._room > 0:
            self._kept.append(text[: self._room])
            self._room -= len(text)
        return len(text)

    def writable(self) -> bool:
        """Say yes, as a stream for writing must."""
        return True


AskReference = Callable[[str, tuple, dict], Any]


class Executor:
    """Runs requests on one candidate function or class.

    Args:
        candidate: what is being checked.
        ask_reference: called as ``ask_reference(name, args, kwargs)`` where a request wants an
            earlier exercise answered by its reference (follow-through marks).
        jailed: this process does nothing but run submitted code.
    """

    def __init__(
        self, candidate: Any, ask_reference: AskReference, *, jailed: bool = False
    ) -> None:
        self.candidate = candidate
        self.ask_reference = ask_reference
        self.jailed = jailed
        self.instances: list[Any] = []
        self._returned: Any = None  # by the last call that raised nothing
        self.bans = Bans((), {})

    @functools.cached_property
    def namespace(self) -> dict[str, Any]:
        """The globals in which the candidate's own code looks names up."""
        plain = python_function(self.candidate)
        owner = inspect.unwrap(plain) if callable(plain) else plain
        members = vars(owner).values() if isinstance(owner, type) else (owner,)
        spaces = (getattr(member, "__globals__", None) for member in members)
        return next((space for space in spaces if space is not None), {})

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request, such as ``describe`` or ``call``; ``many`` holds several calls."""
        match request["op"]:
            case "forbid":
                self.forbid(tuple(request["names"]))
                return {"error": None}
            case "describe":
                return self._describe()
            case "build":
                return self._run(request, self._build)
            case "reload":
                return self._run(request, self._reload)
            case "call":
                return self._run(request, self._call)
            case "many":
                return {"answers": self._many(request)}
            case "compile":
                return self._compile(request)
        raise codec.ProtocolError(f"unknown request {request['op']!r}")

    def forbid(self, names: tuple[str, ...]) -> None:
        """Let functions of these dotted names raise while the candidate runs; () lifts it."""
        self.bans.lift()
        self.bans = Bans(names, self.namespace)
        if self.jailed:
            self.bans.close_dispatcher()

    def _describe(self) -> dict[str, Any]:
        candidate = python_function(self.candidate)
        source, first = source_of(candidate)
        kernels = kernels_of(self.candidate)
        if source is not None and kernels:
            texts = [source_of(python_function(kernel))[0] or "" for kernel in kernels]
            source = "\n\n".join([*texts, source])
        found = origins(candidate, self.namespace)
        try:
            parameters = [
                [p.name, p.kind.name, p.default is not p.empty]
                for p in inspect.signature(candidate).parameters.values()
            ]
        except (TypeError, ValueError):
            parameters = None
        return {
            "name": getattr(candidate, "__name__", type(candidate).__name__),
            "type": type(candidate).__name__,
            "callable": callable(candidate),
            "parameters": parameters,
            "source": source,
            "first_line": first,
            "origins": dict(itertools.islice(found.items(), MAX_NAMES)),
        }

    def _build(self, args: tuple, kwargs: dict, request: dict[str, Any]) -> dict[str, Any]:
        self.instances.append(self._instance(args, kwargs, request.get("parameters")))
        return {"value": len(self.instances) - 1}

    def _reload(self, args: tuple, kwargs: dict, request: dict[str, Any]) -> dict[str, Any]:
        del args, kwargs
        _load(self.instances[request["instance"]], request["parameters"])
        return {"value": None}

    def _instance(self, args: tuple, kwargs: dict, parameters: dict[str, Any] | None) -> Any:
        """The candidate, a class, constructed; ``parameters`` loaded by name."""
        if parameters is None:
            return self.candidate(*args, **kwargs)
        with layers_undrawn():
            instance = self.candidate(*args, **kwargs)
        _load(instance, parameters)
        return instance

    def _call(self, args: tuple, kwargs: dict, request: dict[str, Any]) -> dict[str, Any]:
        target, turned = self.candidate, bool(request.get("turned"))
        args = shared(args, request.get("shared", ()), turned=turned)
        if request.get("instance") is not None:
            target = self.instances[request["instance"]]
        if request.get("build"):
            target = self._instance(**request["build"])
        if request.get("method"):
            target = getattr(target, request["method"])
        if request.get("launcher"):  # of the course's own: it calls the candidate, a kernel
            module, _, name = request["launcher"].partition(":")
            target = functools.partial(getattr(importlib.import_module(module), name), target)
        if request.get("gradients") is not None:
            from attend_grader.inside.torch_gradients import gradients

            return gradients(target, args, kwargs, request["gradients"])
        if "parameters" in (request.get("again") or {}):
            again, instance = request["again"], self.instances[request["instance"]]
            then = getattr(instance, again["method"] or "__call__")
            change = functools.partial(_load, instance, again["parameters"])
            return {"value": after_change((target, then), args, kwargs, change)}
        if request.get("again") is not None:
            how = thrice if "others" in request["again"] else passed_back
            return {"value": how(target, args, kwargs, **request["again"])}
        take = request.get("take")
        if not request.get("measure"):
            return {"value": taken(target(*args, **kwargs), take)}
        with measured(self.namespace) as cost:
            value = taken(target(*args, **kwargs), take)
        return {"value": value, "cost": cost}

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        from attend_grader.inside.compiling import compiled

        wanted = {k: request[k] for k in ("architecture", "warps", "stages", "ahead")}
        name = request.get("kernel", "")
        named = [v for v in self.namespace.values() if isinstance(v, types.FunctionType)]
        spaces = (self.namespace, *(function.__globals__ for function in named))
        found = (space[name] for space in spaces if name in space)
        kernel = next(found, self.candidate)
        return {"report": compiled(kernel, request["types"], request["constants"], **wanted)}

    def _many(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Run several requests; an answer says whether a later call changed what it returned."""
        shared = {"references": request.get("references", ())}
        answers, kept = [], []
        for call in request["requests"]:
            self._returned = None
            action = self._build if call["op"] == "build" else self._call
            answer = self._run(shared | call, action)
            answers.append(answer)
            if answer["error"] is None and call["op"] == "call":
                kept.append((answer, self._returned, _bits(self._returned)))
        self._returned = None
        for answer, value, bits in kept:
            if _differs(value, bits):
                answer["overwritten"] = True
        return answers

    def _run(self, request: dict[str, Any], action: Callable[..., dict]) -> dict[str, Any]:
        args, kwargs = request.get("args", ()), request.get("kwargs", {})
        before = [_bits(value) for value in (*args, *kwargs.values())]
        printed = Beginning(MAX_PRINTED)
        answer: dict[str, Any] = {"value": None, "error": None}
        with (
            usual_settings(),
            self._references(request.get("references", ())),
            self.bans,
            contextlib.redirect_stdout(printed),
            no_input(),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            try:
                self.bans.expect_allowed(self.candidate)
                with self._guarded(request) as tracer, graph(request.get("graph", True)):
                    answer |= action(args, kwargs, request)
                if request.get("launcher") or request.get("trace"):
                    if tracer is not None:
                        tracer.returned(answer["value"])
                    answer["trace"] = [] if tracer is None else tracer.to_plain()
                self._returned = answer["value"]
                with self.bans.lifted():  # under torch's mode each attribute of a tensor is a call
                    answer = codec.copied(answer)  # a later call may change what it returned
            except KeyboardInterrupt:  # the learner's own, in a notebook
                raise
            except BaseException as error:  # submitted code may raise anything
                answer["value"] = None
                answer["error"] = self._error(error)
        after = [_bits(value) for value in (*args, *kwargs.values())]
        names = [*range(len(args)), *kwargs]
        answer["mutated"] = [
            n for n, old, new in zip(names, before, after, strict=True) if old != new
        ]
        answer["printed"] = printed.text
        numpys = [w.message for w in caught if issubclass(w.category, RuntimeWarning)]
        said = dict.fromkeys(str(message)[:MAX_PRINTED] for message in numpys)
        answer["warnings"] = list(said)[:MAX_WARNINGS]
        return answer

    @contextlib.contextmanager
    def _guarded(self, request: dict[str, Any]) -> Iterator[Any]:
        """A tracer where kernels may be launched: without it a stray store would end us."""
        if not (request.get("launcher") or interprets(self.namespace)):
            yield None
            return
        from attend_grader.inside.tracer import traced

        how = request.get("trace")
        with traced(log=how == "log", zeros=how == "zeros") as tracer:
            yield tracer

    @contextlib.contextmanager
    def _references(self, names: tuple[str, ...]) -> Iterator[None]:
        """Put references in the place of the learner's earlier functions, then restore."""
        if not names:
            yield
            return

        def stand_in(name: str) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                with self.bans.lifted():
                    return self.ask_reference(name, args, kwargs)

            return call

        namespace, absent = self.namespace, object()
        saved = {name: namespace.get(name, absent) for name in names}
        namespace.update({name: stand_in(name) for name in names})
        try:
            yield
        finally:
            for name, value in saved.items():
                if value is absent:
                    del namespace[name]
                else:
                    namespace[name] = value

    def _error(self, error: BaseException) -> dict[str, Any]:
        """The exception, cut to the candidate's own lines, with the shapes it saw."""
        frames, namespace = _frames(error, self.namespace), self.namespace
        for _ in range(MAX_LINES):  # Triton's interpreter wraps what happened in a kernel
            if type(error).__name__ != "InterpreterError" or error.__cause__ is None:
                break
            error = error.__cause__
            frames = frames[:1] + _frames(error, namespace)
        if len(frames) > MAX_LINES:  # recursion without end
            frames = frames[: MAX_LINES // 2] + frames[-MAX_LINES // 2 :]
        lines = []
        for frame, number in frames:
            text = line_of(frame, number)[:MAX_PRINTED]
            lines.append([frame.f_code.co_name[:MAX_NAMES], within(frame, number), text])
        last, own = frames[-1][0] if frames else None, self._codes()
        shapes = {} if last is None else shapes_of(last)
        return {
            "type": type(error).__name__[:MAX_NAMES],
            "message": text_of(error),
            "lines": lines,
            "shapes": shapes,
            "own": last is not None and (own is None or _place(last.f_code) in own),
            "bases": [base.__name__[:MAX_NAMES] for base in type(error).__mro__[1:][:MAX_BASES]],
        }

    def _codes(self) -> Collection[tuple[str, str, int]] | None:
        """Places of the code of the function, or of the class's own methods, with their kernels.

        None where there is none to tell.
        """
        candidate = inspect.unwrap(python_function(self.candidate))
        kernels = {_place(python_function(k).__code__) for k in kernels_of(self.candidate)}
        code = getattr(candidate, "__code__", None)
        if code is not None or not isinstance(candidate, type):
            return None if code is None else {_place(code), *kernels}
        members = [getattr(member, "__func__", member) for member in vars(candidate).values()]
        members += [member.fget for member in members if isinstance(member, property)]
        own = {_place(member.__code__) for member in members if inspect.isfunction(member)}
        return own | kernels


def _load(instance: Any, parameters: dict[str, Any]) -> None:
    """Give an instance these parameters: a module's in place, as training changes them."""
    if hasattr(instance, "load_state_dict"):
        load(instance, parameters)
        return
    for name, value in parameters.items():
        setattr(instance, name, value)


def _place(code: types.CodeType) -> tuple[str, str, int]:
    """Where code stands. The interpreter compiles a kernel again, from its line of ``def`` on."""
    return code.co_filename, code.co_name, code.co_nlocals


def _frames(error: BaseException, namespace: dict[str, Any]) -> list[tuple[types.FrameType, int]]:
    """The frames of an error that run code of a namespace, outermost first, and their lines."""
    trace, found = error.__traceback__, []
    while trace is not None:
        if trace.tb_frame.f_globals is namespace:
            found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _bits(value: Any) -> tuple[Any, Any, bool]:
    """What a caller finds in an argument: its form, its numbers, whether it can be written to."""
    if type(value) is np.ndarray and value.flags.c_contiguous and value.dtype.kind in "biufc":
        return (value.dtype.str, value.shape), value.tobytes(), value.flags.writeable
    if codec.plain_tensor(value):
        tensor: Any = value
        plain = tensor.detach()
        return (plain.dtype, plain.shape), plain.numpy().tobytes(), True
    buffers: list[bytes] = []
    writeable = not isinstance(value, np.ndarray) or value.flags.writeable
    return codec.encode(value, buffers), buffers, writeable


def _differs(value: Any, bits: tuple[Any, Any, bool]) -> bool:
    """Whether a value is another than when its bits were taken."""
    try:
        return _bits(value) != bits
    except Exception:  # submitted code has put something into it that cannot be encoded
        return True
