"""Which cells ran in this notebook: whether a function is still what the learner sees.

A cell with a syntax error defines nothing, and a cell in which a function was renamed leaves the
old one behind. Then the previous definition is still there, and a check would judge that one.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from attend_grader.judging.reading import bound

_runs: list[tuple[str | None, str]] = []
"""Cells in the order in which they ran: id (None where the front end sends none), and source."""


def watch(shell: Any) -> None:
    """Note every cell that IPython runs from now on; those that ran before are taken over."""
    _runs[:] = [(None, source) for source in shell.user_ns.get("In", [])]
    shell.events.register("pre_run_cell", _note)


def _note(info: Any) -> None:
    _runs.append((getattr(info, "cell_id", None), info.raw_cell))


def outdated(name: str) -> str:
    """Why what ``name`` stands for is not what its cell says now; empty where it is.

    Knows cells that :func:`watch` noted only.
    """
    written = re.compile(rf"^[ \t]*(?:async\s+def|def|class)\s+{re.escape(name)}\b", re.MULTILINE)
    places = [place for place, (_, source) in enumerate(_runs) if written.search(source)]
    if not places:
        return ""
    last = places[-1]
    cell, source = _runs[last]
    if bound(source) is None:
        return (
            f"The last cell that defines {name} could not be read{_why(source)}. So {name} is "
            "still what it was before: correct the cell, run it, and check again."
        )
    later = [text for other, text in _runs[last + 1 :] if cell is not None and other == cell]
    if not later:
        return ""
    names = [n for n, definition in (bound(later[-1]) or {}).items() if definition is not None]
    now = f" It defines {names[0]}: is that a new name for it?" if names else ""
    return (
        f"The cell that defined {name} does so no longer.{now} So {name} is still what it was "
        "before: give the function its name back, run the cell, and check again."
    )


def _why(source: str) -> str:
    """What Python says of a cell that it cannot read."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return f" ({type(error).__name__} in line {error.lineno}: {error.msg})"
    except (ValueError, RecursionError, MemoryError):  # text that trips the parser
        return ""
    return ""
