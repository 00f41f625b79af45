"""The side of a subject that runs submitted code: one request in, one answer out.

The executor lives in the learner's process: the notebook's kernel (local subject) or a sandbox
(remote subject). It knows nothing of checks, oracles or points. A request is a plain dict and so
is the answer; :mod:`attend_grader.inside.codec` carries them where a process boundary lies between.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import io
import itertools
import linecache
import sys
import textwrap
import tracemalloc
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attend_grader.inside import codec
from attend_grader.inside.origins import origins

MAX_PRINTED = 2_000
"""Characters kept of what a submission prints in one call, and of an exception's text."""

MAX_WARNINGS = 20
"""Different warnings kept of one call."""

MAX_LINES = 20
"""Lines kept of an exception's way: its beginning and its end."""

MAX_NAMES = 200
"""Names kept of a function's variables and of what it uses; and characters of a name."""


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
    """

    def __init__(self, candidate: Any, ask_reference: AskReference) -> None:
        self.candidate = candidate
        self.ask_reference = ask_reference
        self.instances: list[Any] = []

    @property
    def namespace(self) -> dict[str, Any]:
        """The globals in which the candidate's own code looks names up."""
        owner = inspect.unwrap(self.candidate) if callable(self.candidate) else self.candidate
        members = vars(owner).values() if isinstance(owner, type) else (owner,)
        spaces = (getattr(member, "__globals__", None) for member in members)
        return next((space for space in spaces if space is not None), {})

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request: ``describe``, ``build`` or ``call``."""
        match request["op"]:
            case "describe":
                return self._describe()
            case "build":
                return self._run(request, self._build)
            case "call":
                return self._run(request, self._call)
        raise codec.ProtocolError(f"unknown request {request['op']!r}")

    def _describe(self) -> dict[str, Any]:
        candidate = self.candidate
        source, first = _source(candidate)
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
        instance = self.candidate(*args, **kwargs)
        parameters = request.get("parameters")
        if parameters is not None:
            if hasattr(instance, "load_state_dict"):
                _expect_parameters(instance, parameters)
                instance.load_state_dict(parameters)
            else:
                for name, value in parameters.items():
                    setattr(instance, name, value)
        self.instances.append(instance)
        return {"value": len(self.instances) - 1}

    def _call(self, args: tuple, kwargs: dict, request: dict[str, Any]) -> dict[str, Any]:
        target = self.candidate
        if request.get("instance") is not None:
            target = self.instances[request["instance"]]
        if request.get("method"):
            target = getattr(target, request["method"])
        if request.get("gradients") is not None:
            from attend_grader.inside.torch_gradients import gradients

            return gradients(target, args, kwargs, request["gradients"])
        take = request.get("take")
        if not request.get("measure"):
            return {"value": _taken(target(*args, **kwargs), take)}
        with _measured(self.namespace) as cost:
            value = _taken(target(*args, **kwargs), take)
        return {"value": value, "cost": cost}

    def _run(self, request: dict[str, Any], action: Callable[..., dict]) -> dict[str, Any]:
        args, kwargs = request.get("args", ()), request.get("kwargs", {})
        before = [_bits(value) for value in (*args, *kwargs.values())]
        printed = Beginning(MAX_PRINTED)
        answer: dict[str, Any] = {"value": None, "error": None}
        with (
            self._references(request.get("references", ())),
            contextlib.redirect_stdout(printed),
            _no_input(),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            try:
                answer |= action(args, kwargs, request)
                codec.encode(answer["value"], [])  # a value nested without end fails here
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
        said = dict.fromkeys(str(w.message)[:MAX_PRINTED] for w in caught)
        answer["warnings"] = list(said)[:MAX_WARNINGS]
        return answer

    @contextlib.contextmanager
    def _references(self, names: tuple[str, ...]) -> Iterator[None]:
        """Put references in the place of the learner's earlier functions, then restore."""

        def stand_in(name: str) -> Callable[..., Any]:
            return lambda *args, **kwargs: self.ask_reference(name, args, kwargs)

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
        trace, frames = error.__traceback__, []
        namespace = self.namespace
        while trace is not None:
            if trace.tb_frame.f_globals is namespace:
                frames.append((trace.tb_frame, trace.tb_lineno))
            trace = trace.tb_next
        if len(frames) > MAX_LINES:  # recursion without end
            frames = frames[: MAX_LINES // 2] + frames[-MAX_LINES // 2 :]
        lines = []
        for frame, number in frames:
            code = frame.f_code
            text = _line(frame, number)[:MAX_PRINTED]
            lines.append([code.co_name[:MAX_NAMES], number - code.co_firstlineno + 1, text])
        last = frames[-1][0] if frames else None
        shapes = {} if last is None else _shapes(last)
        own = getattr(inspect.unwrap(self.candidate), "__code__", None)
        return {
            "type": type(error).__name__[:MAX_NAMES],
            "message": _text_of(error),
            "lines": lines,
            "shapes": shapes,
            "own": last is not None and (own is None or last.f_code is own),
        }


def _taken(value: Any, count: int | None) -> Any:
    """The first ``count`` values of a generator, which may have no end; None: the value itself.

    Raises:
        TypeError: it is no generator.
    """
    if count is None:
        return value
    if not isinstance(value, Iterator):
        raise TypeError(
            f"expected a generator (a function with `yield`), got {type(value).__name__}"
        )
    return list(itertools.islice(value, count))


def _expect_parameters(module: Any, parameters: dict[str, Any]) -> None:
    """Check that a torch module has parameters (and buffers) of these names and shapes.

    Raises:
        ValueError: it has others; the message names the differences.
    """
    wanted = {name: tuple(value.shape) for name, value in parameters.items()}
    got = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    missing = [f"{n} {s}" for n, s in wanted.items() if n not in got]
    unknown = [f"{n} {s}" for n, s in got.items() if n not in wanted]
    other = [f"{n} {got[n]} instead of {s}" for n, s in wanted.items() if got.get(n, s) != s]
    told = [
        f"{what}: {', '.join(names)}"
        for what, names in (("missing", missing), ("not expected", unknown), ("wrong shape", other))
        if names
    ]
    if told:
        raise ValueError(
            f"the module's parameters are not those of the exercise; {'; '.join(told)}"
        )


def _source(candidate: Any) -> tuple[str | None, int]:
    """The source of a function or class and its first line, also of a class from a notebook.

    Before Python 3.13 ``inspect`` finds a class only through its module's file, and a notebook
    has none; its methods know where they were written.
    """
    try:
        if isinstance(candidate, type):
            code = next(m.__code__ for m in vars(candidate).values() if inspect.isfunction(m))
            lines = linecache.getlines(code.co_filename)
            around = [
                node
                for node in ast.walk(ast.parse("".join(lines)))
                if isinstance(node, ast.ClassDef) and node.name == candidate.__name__
                if node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
            ]
            first, last = around[-1].lineno, around[-1].end_lineno
            lines = lines[first - 1 : last]
        else:
            lines, first = inspect.getsourcelines(candidate)
    except (OSError, TypeError, StopIteration, IndexError, SyntaxError):
        return None, 0
    return textwrap.dedent("".join(lines)), first


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_PRINTED]
    except BaseException:  # submitted code may define exceptions that cannot be shown
        return ""


def _line(frame: types.FrameType, number: int) -> str:
    """A line of a frame's source; not by inspect, which asks every module of torch for its file."""
    return linecache.getline(frame.f_code.co_filename, number).strip()


def _shapes(frame: types.FrameType) -> dict[str, list[int] | str]:
    """Shapes of arrays; of a tuple that holds arrays, how many things it holds; what is None."""
    variables, code = frame.f_locals, frame.f_code
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    torch = sys.modules.get("torch")
    arrays: tuple[type, ...] = (np.ndarray,)  # no subclasses: these may do anything when asked
    if torch is not None:
        arrays = (np.ndarray, torch.Tensor, torch.nn.Parameter)
    found: dict[str, list[int] | str] = {}
    for name, value in variables.items():
        if len(found) == MAX_NAMES or len(name) > MAX_NAMES:
            continue
        if type(value) in arrays:
            found[name] = list(value.shape)
        elif type(value) is tuple and any(type(item) in arrays for item in value):
            found[name] = f"a tuple of {len(value)}"
        elif value is None:
            found[name] = "None in this call" if name in arguments else "None"
    return found


def _bits(value: Any) -> tuple[Any, list[bytes]]:
    buffers: list[bytes] = []
    return codec.encode(value, buffers), buffers


@contextlib.contextmanager
def _no_input() -> Iterator[None]:
    def refuse(prompt: object = "") -> str:
        del prompt
        raise RuntimeError("input() was called: a checked function gets all it needs as arguments")

    saved, builtins.input = builtins.input, refuse
    try:
        yield
    finally:
        builtins.input = saved


@contextlib.contextmanager
def _measured(namespace: dict[str, Any]) -> Iterator[dict[str, int]]:
    """Count bytecode steps in the candidate's own code, and peak memory in bytes."""
    cost = {"steps": 0, "peak_bytes": 0}

    def count(frame: types.FrameType, event: str, arg: Any) -> Any:
        del arg
        if frame.f_globals is not namespace:
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            cost["steps"] += 1
        return count

    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    tracemalloc.reset_peak()
    start = tracemalloc.get_traced_memory()[0]
    previous = sys.gettrace()
    sys.settrace(count)
    try:
        yield cost
    finally:
        sys.settrace(previous)
        cost["peak_bytes"] = tracemalloc.get_traced_memory()[1] - start
        if not running:
            tracemalloc.stop()
