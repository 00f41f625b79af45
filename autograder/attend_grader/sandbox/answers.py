"""The form of an executor's answers: what came from a submission's process must have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attend_grader.inside.codec import ProtocolError

MAX_SOURCE, MAX_TEXT, MAX_ITEMS = 2**20, 2_000, 200
"""Characters of a source and of any other text, and items of a list or dict, that no honest answer
has: the executor keeps to all of these.

Messages are searched for what may have gone wrong, each text for each name: 20,000 names took a
minute of the grader's own time.
"""

MAX_GRADIENTS = 2_000
"""A module may have that many parameters."""

Test = Callable[[Any], bool]


def _is(*types: type) -> Test:
    return lambda value: type(value) in types


def _text(value: Any) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT


def _source(value: Any) -> bool:
    return type(value) is str and len(value) <= MAX_SOURCE


def _each(test: Test) -> Test:
    return lambda value: (
        type(value) in (list, tuple) and len(value) <= MAX_ITEMS and all(map(test, value))
    )


def _row(*tests: Test) -> Test:
    """A list of as many items as there are tests."""
    return lambda value: (
        type(value) in (list, tuple)
        and len(value) == len(tests)
        and all(test(item) for test, item in zip(tests, value, strict=True))
    )


def _by_name(test: Test) -> Test:
    return lambda value: (
        type(value) is dict
        and len(value) <= MAX_ITEMS
        and all(_text(key) and test(v) for key, v in value.items())
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


_TRUTH = _is(bool)

_ERROR = _record(
    type=_text,
    message=_text,
    lines=_each(_row(_text, _count, _text)),
    shapes=_by_name(lambda value: _text(value) or _each(_count)(value)),
    own=_TRUTH,
    bases=_each(_text),
)
_DESCRIPTION = {
    "name": _text,
    "type": _text,
    "callable": _TRUTH,
    "parameters": _or_none(_each(_row(_text, _text, _TRUTH))),
    "source": _or_none(_source),
    "first_line": _count,
    "origins": _by_name(_row(_text, _text, _is(int))),
}
_OUTCOME = {
    "value": _anything,
    "error": _or_none(_ERROR),
    "mutated": _each(_is(int, str)),
    "printed": _text,
    "warnings": _each(_text),
}
_EVENT = _record(
    kind=_text,
    buffer=_text,
    programs=_each(_each(_count)),
    count=_count,
    first=_each(_is(int)),
    last=_each(_is(int)),
    line=_count,
    text=_text,
    whole=_TRUTH,
)
_BUFFER = _record(
    shape=_each(_count),
    elements=_count,
    itemsize=_count,
    storage=_count,
    written=_count,
    read=_count,
    again=_count,
    fresh=_TRUTH,
    never=_each(_each(_count)),
)
_LAUNCH = _record(
    kernel=_text,
    types=_by_name(_text),
    constants=_by_name(lambda value: _text(value) or _is(type(None), bool, int, float)(value)),
    warps=_count,
    stages=_count,
    grid=_each(_count),
    bytes_read=_count,
    bytes_written=_count,
    sectors=_count,
    busiest=_count,
    accesses=_count,
    idle=_each(_each(_count)),
    unfilled=_each(_row(_count, _text)),
    by_kernel=_each(_TRUTH),
    buffers=_by_name(_BUFFER),
    events=_each(_EVENT),
    log=lambda value: value == [],  # pictures ask for it, in the learner's own process
)
_NOT_COMPILED = _record(error=_text, line=_count)
_NOT_COMPILED_THERE = _record(error=_text, line=_count, text=_text)
_NAMED = _by_name(_count)
_COMPILED = _record(
    registers=_count, spilled=_count, shared=_count, products=_NAMED, instructions=_NAMED
)


def _report(value: Any) -> bool:
    return _COMPILED(value) or _NOT_COMPILED(value) or _NOT_COMPILED_THERE(value)


_EXTRAS: dict[str, Test] = {
    "gradients": lambda value: (
        type(value) is dict and len(value) <= MAX_GRADIENTS and all(map(_is(int, str), value))
    ),
    "cost": _record(steps=_count, peak_bytes=_count, tensor_bytes=_count),
    "trace": _each(_LAUNCH),
    "loose": _each(_count),
    "overwritten": _TRUTH,
}


def checked_answer(request: dict[str, Any], answer: Any) -> dict[str, Any]:
    """Return ``answer`` if it has the form that an executor gives to ``request``.

    Raises:
        ProtocolError: it has another; the message says where.
    """
    if type(answer) is not dict:
        raise ProtocolError("an answer must be a dict")
    if request["op"] == "many":
        calls, found = request["requests"], answer.get("answers")
        if answer.keys() != {"answers"} or type(found) is not list or len(found) != len(calls):
            raise ProtocolError("an answer to another number of calls")
        return {"answers": [checked_answer(*pair) for pair in zip(calls, found, strict=True)]}
    forms: dict[str, Test] = {"error": _or_none(_text)}
    extras: dict[str, Test] = {}
    match request["op"]:
        case "describe":
            forms = _DESCRIPTION
        case "build" | "reload":
            forms = _OUTCOME | {"value": _or_none(_count)}
        case "call":
            forms, extras = _OUTCOME, _EXTRAS
        case "compile":
            forms = {"report": _report}
            if request["ahead"]:
                forms = {"report": lambda value: value == {} or _report(value)}
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
