"""Which Triton kernels belong to a function, and their text.

An exercise about a kernel is a plain function that launches it: ``vector_add(x, y)`` makes the
output and starts ``vector_add_kernel``. Kernel and launch stand in one cell and are one answer.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from attend_grader.inside.compiling import python_function


def is_kernel(value: Any) -> bool:
    """Whether ``value`` is a ``@triton.jit`` function of somebody's own, not one of Triton's."""
    inner = python_function(value)
    return inner is not value and not str(inner.__module__).startswith("triton.")


def interprets(namespace: dict[str, Any]) -> bool:
    """Whether functions of this namespace may launch kernels that are interpreted here.

    The kernels are its own, or those of a module that a function of it was imported from.
    """
    if "triton.runtime.interpreter" not in sys.modules:
        return False
    named = list(namespace.values())
    spaces = {id(f.__globals__): f.__globals__ for f in named if inspect.isfunction(f)}
    spaces[id(namespace)] = namespace
    found = (v for space in spaces.values() for v in list(space.values()))
    return any(type(v).__name__ == "InterpretedFunction" and is_kernel(v) for v in found)


def kernels_of(candidate: Any) -> list[Any]:
    """The kernels that a function or class names, and those that these call, as they are defined.

    A kernel itself has those that it calls.
    """
    found: dict[str, Any] = {}
    pending = list(_functions(candidate))
    while pending:
        function = pending.pop()
        for name in sorted(_names(function.__code__)):
            value = function.__globals__.get(name)
            if name not in found and value is not candidate and is_kernel(value):
                found[name] = value
                pending.append(python_function(value))
    codes = {name: python_function(kernel).__code__ for name, kernel in found.items()}
    order = sorted(found, key=lambda name: (codes[name].co_filename, codes[name].co_firstlineno))
    return [found[name] for name in order]


def launches(candidate: Any) -> bool:
    """Whether a function or class names a kernel, or a function that does, and so on."""
    pending, seen = list(_functions(candidate)), set[int]()
    while pending:
        function = pending.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        found = [function.__globals__.get(name) for name in _names(function.__code__)]
        if any(is_kernel(value) for value in found):
            return True
        pending += [value for value in found if inspect.isfunction(value)]
    return False


def definitions(candidate: Any) -> list[str]:
    """The text of each kernel that belongs to a candidate, then its own.

    Raises:
        OSError: a text cannot be found.
    """
    parts = [*map(python_function, kernels_of(candidate)), python_function(candidate)]
    return [textwrap.dedent(inspect.getsource(part)).rstrip() for part in parts]


def whole_source(candidate: Any) -> str:
    """A candidate's text with the kernels it launches in front."""
    return "\n\n\n".join(definitions(candidate)) + "\n"


def _functions(candidate: Any) -> Iterator[Callable[..., Any]]:
    plain = python_function(candidate)
    plain = inspect.unwrap(plain) if callable(plain) else plain
    members = vars(plain).values() if isinstance(plain, type) else (plain,)
    for member in members:
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function):
            yield function


def _names(code: types.CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


_TYPES = {
    **{f"float{n}": f"fp{n}" for n in (16, 32, 64)},
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{"bfloat16": "bf16", "uint8": "u8", "bool": "i1"},
}


def type_name(value: Any) -> str:
    """How Triton names the type of an argument; empty for what it cannot take."""
    if hasattr(value, "data_ptr"):
        return "*" + _TYPES.get(str(value.dtype).removeprefix("torch."), "")
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "fp32" if isinstance(value, float) else ""


def plain_constant(value: Any) -> Any:
    """A compile-time argument as plain data: Triton's types as text, ``"tl.float32"``."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {f"fp{n}": f"tl.float{n}" for n in (16, 32, 64)}.get(str(value), f"tl.{value}"[:200])
