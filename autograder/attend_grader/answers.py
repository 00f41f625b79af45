"""The form of an executor's answers: whatever came from a submission's process is held to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attend_grader.codec import ProtocolError

Test = Callable[[Any], bool]


def _is(*types: type) -> Test:
    return lambda value: type(value) in types


def _each(test: Test) -> Test:
    return lambda value: type(value) in (list, tuple) and all(map(test, value))


def _row(*tests: Test) -> Test:
    """A list of as many items as there are tests."""
    return lambda value: (
        type(value) in (list, tuple)
        and len(value) == len(tests)
        and all(test(item) for test, item in zip(tests, value, strict=True))
    )


def _by_name(test: Test) -> Test:
    return lambda value: (
        type(value) is dict and all(type(key) is str and test(v) for key, v in value.items())
    )


def _record(**tests: Test) -> Test:
    """A dict with just these keys."""
    return lambda value: (
        type(value) is dict
        and value.keys() == tests.keys()
        and all(test(value[key]) for key, test in tests.items())
    )


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _anything(value: Any) -> bool:
    del value
    return True


_TEXT, _TRUTH = _is(str), _is(bool)

_ERROR = _record(
    type=_TEXT,
    message=_TEXT,
    lines=_each(_row(_TEXT, _count, _TEXT)),
    shapes=_by_name(lambda value: _TEXT(value) or _each(_count)(value)),
    own=_TRUTH,
)
_DESCRIPTION = {
    "name": _TEXT,
    "type": _TEXT,
    "callable": _TRUTH,
    "parameters": _or_none(_each(_row(_TEXT, _TEXT, _TRUTH))),
    "source": _or_none(_TEXT),
    "first_line": _count,
    "origins": _by_name(_row(_TEXT, _TEXT, _is(int))),
}
_OUTCOME = {
    "value": _anything,
    "error": _or_none(_ERROR),
    "mutated": _each(_is(int, str)),
    "printed": _TEXT,
    "warnings": _each(_TEXT),
}
_EXTRAS: dict[str, Test] = {
    "gradients": lambda value: type(value) is dict and all(map(_is(int, str), value)),
    "cost": _record(steps=_count, peak_bytes=_count),
}


def hold_answer(request: dict[str, Any], answer: Any) -> dict[str, Any]:
    """Return ``answer`` if it has the form that an executor gives to ``request``.

    Raises:
        ProtocolError: it has another; the message says where.
    """
    if type(answer) is not dict:
        raise ProtocolError("an answer must be a dict")
    forms: dict[str, Test] = {"error": _or_none(_TEXT)}
    extras: dict[str, Test] = {}
    match request["op"]:
        case "describe":
            forms = _DESCRIPTION
        case "build":
            forms = _OUTCOME | {"value": _or_none(_count)}
        case "call":
            forms, extras = _OUTCOME, _EXTRAS
    missing, unknown = forms.keys() - answer.keys(), answer.keys() - forms.keys() - extras.keys()
    if missing or unknown:
        raise ProtocolError(f"an answer with keys that do not fit: {sorted(map(str, answer))}")
    for key, value in answer.items():
        if not (forms.get(key) or extras[key])(value):
            raise ProtocolError(f"an answer whose {key!r} is not of the form agreed")
    known = [*range(len(request.get("args", ()))), *request.get("kwargs", {})]
    if any(name not in known for name in answer.get("mutated", ())):
        raise ProtocolError("an answer that changed arguments there were not")
    return answer
