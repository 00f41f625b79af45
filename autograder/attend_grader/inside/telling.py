"""What is told of a candidate and of its errors: source, lines, shapes."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import types
from typing import Any

import numpy as np

from attend_grader.inside.settings import torch_if_imported

MAX_PRINTED = 2_000
"""Characters kept of what a submission prints in one call, and of an exception's text."""

MAX_NAMES = 200
"""Names kept of a function's variables and of what it uses; and characters of a name."""


class NotAllowed(RuntimeError):
    """A function was called that the exercise forbids."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not allowed in this exercise: build it yourself")


def source_of(candidate: Any) -> tuple[str | None, int]:
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


def text_of(error: BaseException) -> str:
    """An exception's text, cut."""
    try:
        return str(error)[:MAX_PRINTED]
    except BaseException:  # submitted code may define exceptions that cannot be shown
        return ""


def line_of(frame: types.FrameType, number: int) -> str:
    """A line of a frame's source; not by inspect, which asks every module of torch for its file."""
    return linecache.getline(frame.f_code.co_filename, number).strip()


def within(frame: types.FrameType, number: int) -> int:
    """Which line of its function a line of a frame's file is, from the decorators on."""
    code = frame.f_code
    first = code.co_firstlineno
    while linecache.getline(code.co_filename, first - 1).lstrip().startswith("@"):
        first -= 1  # Triton's interpreter takes its decorator off
    return number - first + 1


def shapes_of(frame: types.FrameType) -> dict[str, list[int] | str]:
    """Shapes of arrays; of a tuple that holds arrays, how many things it holds; what is None."""
    variables, code = frame.f_locals, frame.f_code
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    torch = torch_if_imported()
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
