"""Text that came from a submission, made fit to be shown: the one function for all of it."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Categories of characters that a terminal acts on, that reorder a line, or no file can hold."""


def plain(text: object, most: int = 300, *, lines: bool = False) -> str:
    """Text without control characters, of bounded length: for terminals, files and pages.

    Control codes, direction marks, halves of surrogate pairs and the like are replaced by their
    numbers; every kind of space becomes a plain one.

    Args:
        text: anything; converted with ``str``.
        most: characters kept; ``…`` says that more followed.
        lines: keep ends of lines and tabs.

    Examples:
        >>> plain("a\\x1b[31m b\\u00a0c\\u202e")
        'a‹U+001B›[31m b c‹U+202E›'
        >>> plain("x" * 9, 4)
        'xxxx…'
    """
    whole = str(text)
    kept = whole[:most]
    if not kept.isprintable():
        kept = "".join(_fit(letter, lines) for letter in kept)
    return kept if len(whole) <= most else f"{kept}…"


def _fit(letter: str, lines: bool) -> str:
    if lines and letter in "\n\t":
        return letter
    kind = unicodedata.category(letter)
    if kind == "Zs":
        return " "
    return f"‹U+{ord(letter):04X}›" if kind in _HIDDEN else letter
