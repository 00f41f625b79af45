"""Where the names a function uses come from: how forbidden calls are found behind an alias."""

from __future__ import annotations

import types
from typing import Any


def origins(candidate: Any, namespace: dict[str, Any]) -> dict[str, str]:
    """Map each global name that ``candidate`` can reach to the ``module.name`` it stands for.

    Follows helper functions defined in the same namespace, so that hiding a call one function
    deeper changes nothing.
    """
    found: dict[str, str] = {}
    pending, seen = _codes(candidate), set()
    while pending:
        code = pending.pop()
        if code in seen:
            continue
        seen.add(code)
        pending += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        for name in code.co_names:
            if name in found or name not in namespace:
                continue
            value = namespace[name]
            if isinstance(value, types.ModuleType):
                found[name] = value.__name__
            elif callable(value):
                module, label = getattr(value, "__module__", None), getattr(value, "__name__", name)
                found[name] = f"{module}.{label}"
                if getattr(value, "__globals__", None) is namespace:
                    pending += _codes(value)
    return found


def _codes(candidate: Any) -> list[types.CodeType]:
    if isinstance(candidate, type):
        members = [inner for value in vars(candidate).values() for inner in _codes(value)]
        return members
    code = getattr(candidate, "__code__", None)
    return [code] if isinstance(code, types.CodeType) else []
