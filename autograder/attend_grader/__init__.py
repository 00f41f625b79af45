"""Checks that explain what went wrong, and scores that can be trusted.

In a notebook: ``check(softmax)``, ``hint(softmax)``, ``solution("softmax")``, ``ready(softmax)``,
``share("03_attention")``.
For grading: ``grade(candidate, "03_attention/softmax", seed=…)`` and ``exercises()``.

Names load on first use, so that a sandboxed worker imports neither checks nor answers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attend_grader.chapters import exercises
    from attend_grader.checks.exercise import Exercise
    from attend_grader.judging.report import Finding, Report
    from attend_grader.session import check, grade, hint, ready, solution
    from attend_grader.sharing import share

__all__ = [
    "Exercise",
    "Finding",
    "Report",
    "check",
    "exercises",
    "grade",
    "hint",
    "ready",
    "share",
    "solution",
]

_HOMES = {
    "Exercise": "checks.exercise",
    "Finding": "judging.report",
    "Report": "judging.report",
    "check": "session",
    "exercises": "chapters",
    "grade": "session",
    "hint": "session",
    "ready": "session",
    "share": "sharing",
    "solution": "session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
