"""Functions that an exercise forbids raise while its candidate runs, however they are reached.

Reading source finds ``F.softmax(x)``; it does not find the same function behind a default argument,
a closure, ``getattr`` with a joined name or a module that a cell wrote. So the functions themselves
refuse:

- a Python function gets other code for as long as the exercise is checked (its references, old
  and new, all call it), and a class's methods likewise;
- a function of torch's is seen by a :class:`torch.overrides.TorchFunctionMode`, and in the jail its
  operators refuse in the dispatcher too (:mod:`.torch_bans`), which TorchScript cannot avoid;
- a module that is forbidden as a whole cannot be imported.

What a library's own function calls by name is its own affair: ``np.linalg.matrix_power`` may call
``np.linalg.inv`` where the latter is forbidden. This runs beside submitted code, which could undo
it all: that takes reaching for Python's own parts, which is flagged.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import os
import sys
import sysconfig
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attend_grader.inside.settings import torch_if_imported
from attend_grader.inside.telling import NotAllowed

_PLACES = tuple(
    os.path.join(path, "")
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    for path in (sysconfig.get_path(name), os.path.realpath(sysconfig.get_path(name)))
)
"""Folders of libraries: frames of other files are taken for the learner's own."""

_MOST_FUNCTIONS = 5_000
_MARK = 987_654_321_012


class Bans:
    """What an exercise forbids; a context manager, in force within ``with``.

    Args:
        names: dotted names of functions, classes and modules; a name without a dot may also be a
            function of the learner's own.
        namespace: the globals of the learner's code.
    """

    def __init__(self, names: tuple[str, ...], namespace: Mapping[str, Any]) -> None:
        self.names = names
        self.depth = 0
        self._swapped: list[tuple[types.FunctionType, types.CodeType]] = []
        self._mode: Any = None
        self._entered = False
        self._finder = _Finder(self)
        self._operators: Any = None
        self._codes: set[types.CodeType] = set()
        self._torch = frozenset(name for name in names if name.partition(".")[0] == "torch")
        seen: set[int] = set()
        codes: dict[types.CodeType, str] = {}
        for name in names:
            for function in _functions(name, namespace):
                if id(function) not in seen and len(seen) < _MOST_FUNCTIONS:
                    seen.add(id(function))
                    codes[function.__code__] = name
                    self._swap(function, name)
        for value in list(namespace.values()):  # a function of their own that was given such code
            if type(value) is types.FunctionType and value.__code__ in codes:
                self._swap(value, codes[value.__code__])

    def close_dispatcher(self) -> None:
        """Refuse in torch's dispatcher until :meth:`lift`; for a process without other work."""
        if self._torch and torch_if_imported():
            from attend_grader.inside.torch_bans import Operators

            self._operators = Operators(self._torch)

    def lift(self) -> None:
        """Undo everything; the object is of no further use."""
        for function, code in self._swapped:
            function.__code__ = code
        self._swapped.clear()
        if self._operators is not None:
            self._operators.lift()
            self._operators = None

    def __enter__(self) -> Bans:
        self.depth += 1
        if self.depth == 1:
            if self._torch and torch_if_imported():
                if self._mode is None:
                    from attend_grader.inside.torch_bans import mode

                    self._mode = mode(self._torch)
                self._mode.__enter__()
                self._entered = True
            if self.names:
                sys.meta_path.insert(0, self._finder)
        return self

    def __exit__(self, *exception: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            if self._entered:
                self._entered = False
                with contextlib.suppress(Exception):  # submitted code may have left it already
                    self._mode.__exit__(None, None, None)
            if self.names:
                with contextlib.suppress(ValueError):
                    sys.meta_path.remove(self._finder)

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Not in force within: the course's own functions may call anything."""
        depth, self.depth = self.depth, min(self.depth, 1)
        if depth:
            self.__exit__()
        try:
            yield
        finally:
            if depth:
                self.__enter__()
                self.depth = depth

    def expect_allowed(self, candidate: Any) -> None:
        """Look at the candidate's own code: a forbidden function's may have been put there.

        Raises:
            NotAllowed: it was.
        """
        code = getattr(candidate, "__code__", None)
        if isinstance(code, types.CodeType) and code in self._codes:
            raise NotAllowed(code.co_name)

    def _swap(self, function: types.FunctionType, ban: str) -> None:
        code, name = function.__code__, function.__name__
        original = types.FunctionType(
            code,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        original.__kwdefaults__ = function.__kwdefaults__

        def gate(*args: Any, **kwargs: Any) -> Any:
            if self.depth and (name == "forward" or not _called_by_a_library(name)):
                raise NotAllowed(ban)
            return original(*args, **kwargs)

        with contextlib.suppress(ValueError, TypeError):  # a kind of code that takes no other
            function.__code__ = _code_that_calls(gate, code.co_freevars)
            self._swapped.append((function, code))
            self._codes.add(code)


class _Finder(importlib.abc.MetaPathFinder):
    """Refuses imports of forbidden modules."""

    def __init__(self, bans: Bans) -> None:
        self._bans = bans

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raise for a forbidden module; leave all others to those who come after."""
        for ban in self._bans.names:
            if name == ban or name.startswith(f"{ban}."):
                raise ModuleNotFoundError(f"{name} is not allowed in this exercise", name=name)


def _called_by_a_library(name: str) -> bool:
    """Whether the nearest frame that names the function is a library's, not the learner's.

    A library's frame that only passes a function on (``np.apply_along_axis``) does not name it.
    """
    frame = sys._getframe(3)  # behind this one: the gate and the code that calls it
    while frame is not None and frame.f_code.co_filename.startswith(_PLACES):
        if name in frame.f_code.co_names:
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return False


def _code_that_calls(gate: Callable[..., Any], freevars: tuple[str, ...]) -> types.CodeType:
    """Code of a function that passes all its arguments to ``gate``."""
    constants = tuple(gate if value == _MARK else value for value in _template().co_consts)
    return _template().replace(co_consts=constants, co_freevars=freevars)


@functools.cache
def _template() -> types.CodeType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a number is not callable: not yet one
        space: dict[str, Any] = {}
        exec(f"def forbidden(*args, **kwargs):\n    return ({_MARK})(*args, **kwargs)\n", space)
    return space["forbidden"].__code__


def _functions(name: str, namespace: Mapping[str, Any]) -> Iterator[types.FunctionType]:
    """The Python functions behind a dotted name, as far as they have been imported."""
    if "." not in name:  # a whole package is not in the jail, and its imports are refused
        if isinstance(namespace.get(name), types.FunctionType):
            yield namespace[name]
        return
    found = _resolved(name)
    if not isinstance(found, types.ModuleType):
        yield from _of(found)
        return
    below = f"{name}."
    known = [k for k in list(sys.modules) if isinstance(k, str) and k.startswith(below)]
    for module in [found, *(sys.modules[key] for key in known)]:
        for value in list(vars(module).values()) if isinstance(module, types.ModuleType) else ():
            if isinstance(value, (types.FunctionType, type)) and _below(value.__module__, name):
                yield from _of(value)


def _below(key: object, name: str) -> bool:
    return isinstance(key, str) and (key == name or key.startswith(f"{name}."))


def _resolved(name: str) -> Any:
    """What a dotted name stands for, without importing anything; None where there is nothing."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        value = sys.modules.get(".".join(parts[:count]))
        if value is not None:
            for part in parts[count:]:
                known = isinstance(value, (types.ModuleType, type))
                value = vars(value).get(part) if known else None
            return value
    return None


def _of(value: Any) -> Iterator[types.FunctionType]:
    """Functions that run where ``value`` is called."""
    seen = 0
    while not isinstance(value, types.FunctionType) and hasattr(value, "__wrapped__") and seen < 9:
        value, seen = value.__wrapped__, seen + 1  # np.linalg.inv dispatches to such a one
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, type):
        members = vars(value)
        chosen = ("forward",) if "forward" in members else tuple(members)
        for name in chosen:
            member = getattr(members[name], "__func__", members[name])
            public = not name.startswith("_") or name in ("__init__", "__call__")
            if public and isinstance(member, types.FunctionType):
                yield member
