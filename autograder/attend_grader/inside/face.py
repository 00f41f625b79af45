"""What a notebook imports from ``attend_grader`` in the jail, where nothing is decided."""

from typing import Any


def check(candidate: Any = None, exercise_id: str | None = None) -> None:
    """Do nothing: checks run outside."""


def hint(candidate_or_name: Any = None) -> None:
    """Do nothing."""


def share(chapter_id: str | None = None) -> None:
    """Do nothing: what was shared is in the notebook that was handed in."""


def solution(candidate_or_name: Any = None) -> None:
    """Do nothing."""


def ready(*functions: Any) -> bool:
    """Say no: pictures and experiments are not part of grading."""
    return False


def explain_missing_names(shell: Any) -> None:
    """Do nothing."""
