"""A submission's calls to earlier exercises: forms, of which no value has been made yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attend_grader.inside.codec import ProtocolError


def found(form: Any, number: int) -> dict[str, Any] | None:
    """The forms in a call to an earlier exercise; None where a frame holds something else.

    Raises:
        ProtocolError: it belongs to another request than that of this ``number``.
    """
    frame = _fields(form) or {}
    question = _fields(frame.get("answer")) or {}
    if question.get("op") != "reference" or frame.keys() != {"number", "answer"}:
        return None
    if type(frame["number"]) is not int or frame["number"] != number:
        raise ProtocolError("an answer to another question")
    return question


def asked(question: dict[str, Any], offered: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Which exercise is called, and the forms of its arguments.

    Raises:
        ProtocolError: this request does not offer that one, or the question has another form.
    """
    name = question.get("name")
    if type(name) is not str or name not in offered:
        raise ProtocolError("a question for what is not offered")
    forms = {key: question.get(key) for key in ("args", "kwargs", "gradients")}
    args = forms["args"]
    if type(args) is not dict or args.keys() != {"$tuple"} or _fields(forms["kwargs"]) is None:
        raise ProtocolError("a question without arguments")
    if forms["gradients"] is not None and _fields(forms["gradients"]) is None:
        raise ProtocolError("a question for gradients without saying which")
    return name, forms


def _fields(form: Any) -> dict[str, Any] | None:
    """The forms in the form of a dict whose keys are text."""
    if type(form) is not dict or form.keys() != {"$map"} or type(form["$map"]) is not dict:
        return None
    return form["$map"]
