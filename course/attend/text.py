"""Text that came from a student, made safe to be shown."""

from __future__ import annotations

from attend_grader.checks.plain import plain


def visible(source: str) -> str:
    """Replace control characters (direction marks, half surrogates …) by their numbers.

    >>> visible("a\\u202eb\\tc")
    'a‹U+202E›b\\tc'
    """
    return plain(source, len(source), lines=True)
