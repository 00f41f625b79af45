"""CSV that a spreadsheet shows and does not run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

_LIVE = ("=", "+", "-", "@", "\t", "\r", "\n")


def defused(value: object) -> str:
    """Text for a cell: what a spreadsheet would take for a formula gets an apostrophe before it.

    Numbers stay numbers. Source: OWASP, CSV Injection.

        >>> defused("=1+1"), defused(-2.5), defused("ann")
        ("'=1+1", '-2.5', 'ann')
    """
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    text = str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_LIVE) else text


def to_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV (RFC 4180), each cell defused."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(head)
    writer.writerows([defused(value) for value in row] for row in rows)
    return out.getvalue()
