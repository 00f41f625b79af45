"""Text that came from a student, made safe to be shown."""

from __future__ import annotations

import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Kinds of characters that change how others look, or cannot be written at all."""


def visible(source: str) -> str:
    """Replace control characters (direction marks, half surrogates …) by their names.

    >>> visible("a\\u202eb\\tc")
    'a‹U+202E›b\\tc'
    """
    return "".join(
        f"‹U+{ord(c):04X}›" if c not in "\n\t" and unicodedata.category(c) in _HIDDEN else c
        for c in source
    )
