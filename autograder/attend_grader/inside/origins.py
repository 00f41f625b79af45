"""Where the names a function uses come from: how forbidden calls are found behind an alias."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from attend_grader.inside.compiling import python_function

_OWN = ("__main__", "attend_solutions")
"""Where candidates are written: a notebook, or the course's own answers when they are checked."""


def origins(candidate: Any, namespace: dict[str, Any]) -> dict[str, list[Any]]:
    """Map each global or imported name that ``candidate`` can reach to where it comes from.

    Follows helper functions defined in the same namespace, so that hiding a call one function
    deeper changes nothing.

    Returns:
        written name (``"sm"``, ``"np.exp"``) → [the ``module.name`` it stands for, the function
        that uses it, the line within that function].
    """
    found: dict[str, list[Any]] = {}
    pending, seen = _codes(candidate, namespace), set()
    inner = _inside(candidate)
    home, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", None)
    if isinstance(home, str) and isinstance(name, str) and home.split(".")[0] not in _OWN:
        found[f"{home}.{name}"] = [f"{home}.{name}", name, 1]
    pending += _codes(inner, namespace)
    while pending:
        code = pending.pop()
        if code in seen:
            continue
        seen.add(code)
        pending += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        for written, origin, line, value in _uses(code, namespace):
            found.setdefault(written, [origin, code.co_name, line - code.co_firstlineno + 1])
            pending += _codes(value, namespace)
    return found


def _uses(code: types.CodeType, namespace: dict[str, Any]) -> Iterator[tuple[str, str, int, Any]]:
    """(written, origin, line, value) of every global, module attribute and import in ``code``."""
    line, written, home, value = code.co_firstlineno, "", "", None
    for step in dis.get_instructions(code):
        if step.positions is not None and step.positions.lineno:
            line = step.positions.lineno
        name = str(step.argval)
        match step.opname:
            case "LOAD_GLOBAL" | "LOAD_NAME" if name in namespace:
                written, home, value = name, "", namespace[name]
            case "LOAD_ATTR" | "LOAD_METHOD" if isinstance(value, types.ModuleType):
                written, home = f"{written}.{name}", value.__name__
                value = getattr(value, name, None)
            case "IMPORT_NAME":
                written, home, value = name, name, None
                yield name, name, line, None
            case "IMPORT_FROM":
                yield name, f"{home}.{name}", line, None
            case "CACHE" | "PUSH_NULL" | "PRECALL" | "STORE_FAST" | "STORE_NAME":
                pass
            case _:
                value = None
        if isinstance(value, types.ModuleType):
            yield written, value.__name__, line, value
        elif callable(value):
            module = getattr(value, "__module__", None) or home
            yield written, f"{module}.{getattr(value, '__name__', name)}", line, value
            value = None


def _inside(candidate: Any) -> Any:
    """What a ``functools.partial`` or a bound method stands for; else the candidate itself."""
    while True:
        if isinstance(candidate, functools.partial):
            candidate = candidate.func
        elif isinstance(candidate, types.MethodType):
            candidate = candidate.__func__
        else:
            return candidate


def _codes(value: Any, namespace: dict[str, Any]) -> list[types.CodeType]:
    """Code objects of ``value`` where it is written in ``namespace``: a function or a class."""
    if isinstance(value, type):
        members = [member for member in vars(value).values() if not isinstance(member, type)]
        return [code for member in members for code in _codes(member, namespace)]
    value = python_function(value)
    code = getattr(value, "__code__", None)
    owned = getattr(value, "__globals__", None) is namespace
    return [code] if owned and isinstance(code, types.CodeType) else []
