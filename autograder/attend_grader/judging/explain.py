"""Explaining an exception to the person who caused it: their lines, the shapes, what to try.

Advice is given only where it holds whatever the cause; a guess that points the wrong way costs
more than silence.
"""

from __future__ import annotations

import re

from attend_grader.checks.outcomes import CallError
from attend_grader.judging.advice_arrays import about_kinds, about_shapes
from attend_grader.judging.advice_names import (
    Results,
    about_names,
    about_none,
    about_unpacking,
    is_none,
)
from attend_grader.judging.advice_torch import about_torch


def explain(
    error: CallError, results: Results | None = None
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """One sentence about ``error``, and evidence: the learner's lines and the shapes alive there.

    Args:
        error: what the candidate raised.
        results: earlier functions that it may call and that return several values.

    Returns:
        (message, ((label, text), …)).
    """
    lines = [line for line in error.lines if line[2]] or list(error.lines)
    where = f" in line {lines[-1][1]} of {lines[-1][0]}" if lines else ""
    first = "" if error.type == "SystemExit" else _plain(error.message.strip().split("\n")[0])
    kind = error.type.removeprefix("_")
    kind = "UFuncTypeError" if kind.startswith("UFunc") else kind
    message = f"your function raised {kind}{where}{': ' if first else ''}{first}"
    evidence: list[tuple[str, str]] = []
    line = lines[-1][2] if lines else ""
    if lines:
        evidence.append(("your line", line))
        used = set(re.findall(r"[A-Za-z_]\w*", line))
        shapes = {n: s for n, s in error.shapes.items() if n in used} or {
            n: s for n, s in error.shapes.items() if not is_none(s)
        }
        if shapes:
            each = [f"{n} is {s if isinstance(s, str) else tuple(s)}" for n, s in shapes.items()]
            evidence.append(("shapes there", ", ".join(each)))
        if lines[0][0] != lines[-1][0]:
            evidence.append(("called in", f"{lines[0][2]} (line {lines[0][1]} of {lines[0][0]})"))
    advice = (
        about_none(error, line)
        or about_unpacking(error, line, results or {})
        or about_names(error)
        or about_shapes(error, line)
        or about_kinds(error)
        or about_torch(error, line)
    )
    if advice:
        evidence.append(("try", advice))
    return message, tuple(evidence)


def _plain(message: str) -> str:
    """NumPy's wording where it says less than it could, in plain words."""
    pattern = r"mismatch in its core dimension.*\(size (\d+) is different from (\d+)\)"
    inner = re.search(pattern, message)
    if inner:
        right, left = inner.groups()
        return (
            f"matrix product of shapes that do not fit (rows on the left have length {left}, "
            f"columns on the right {right})"
        )
    return message
