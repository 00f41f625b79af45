"""Jinja filters of the report: names, code, numbers and colours as the page shows them.

Templates escape every value by themselves, after `plain` has made control characters visible.
What these filters return as `Markup` is escaped already.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from urllib.parse import quote

from attend_grader.grading.submission import Verdict
from markupsafe import Markup, escape

from attend.text import visible

CIVIDIS = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
"""Six of matplotlib's cividis, in equal steps (Nuñez, Anderton and Renslow 2018)."""

STEPS = 10
"""Shades of a score."""

PALE = 0.45
"""How much white is mixed into them, so that black numbers can be read on all."""


def plain(value: object) -> object:
    """Make control characters visible in every text that a template prints (Jinja's finalize)."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def name(student: str) -> Markup:
    """A student's name; whatever script it is in, it reverses nothing beside it."""
    return Markup("<bdi>{}</bdi>").format(visible(student))


def names(students: Iterable[str], most: int = 60) -> Markup:
    """Several, with commas; the JSON file has all."""
    chosen = list(students)
    more = Markup(" and {} more").format(len(chosen) - most) if len(chosen) > most else ""
    return Markup(", ").join(map(name, chosen[:most])) + more


def quoted(student: str) -> str:
    """An id as a part of an address."""
    return quote(student.encode("utf-8", "surrogatepass"), safe="")


def digest(script: str) -> str:
    """What a Content-Security-Policy calls a script: its SHA-256 (W3C, CSP Level 3, 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def shade(verdict: Verdict) -> Markup:
    """The class of a score's colour; none for full marks, which most have."""
    share = verdict.score / verdict.points if verdict.points else 0.0
    step = min(max(int(share * STEPS), 0), STEPS)
    return Markup("") if step == STEPS else Markup(" class=k{}").format(step)


def inline(source: str) -> Markup:
    """Text in which code stands between backquotes."""
    parts = visible(source).split("`")
    if len(parts) % 2 == 0:  # a backquote without its partner
        return escape(visible(source))
    coded = Markup("<code>{}</code>")
    return Markup("").join(coded.format(p) if i % 2 else p for i, p in enumerate(parts))


def called(exercise: str) -> Markup:
    """An exercise's name, which may be broken at its underscores."""
    return Markup("<code>{}</code>").format(
        Markup("_<wbr>").join(visible(exercise).split("_")),
    )


def code(source: str, most: int) -> Markup:
    """The first ``most`` lines of a cell."""
    lines = source.strip().split("\n")
    more = f"\n… {len(lines) - most} more lines" if len(lines) > most else ""
    return Markup("<pre>{}{}</pre>").format(visible("\n".join(lines[:most])), more)


def count(number: int, noun: str, plural: str = "") -> str:
    """As in "1 student", "2 students"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def number(value: float | None) -> str:
    """With two digits; a dash where it is not defined."""
    return "–" if value is None else f"{value:.2f}".replace("-", "−")


def colour(share: float) -> str:
    """Pale cividis at ``share`` of its way, 0 (dark) to 1 (light)."""
    at = min(max(share, 0.0), 1.0) * (len(CIVIDIS) - 1)
    low = min(int(at), len(CIVIDIS) - 2)
    mixed = []
    for k in (1, 3, 5):
        a, b = (int(CIVIDIS[low + i][k : k + 2], 16) for i in (0, 1))
        mixed.append(round((a + (b - a) * (at - low)) * (1 - PALE) + 255 * PALE))
    return "#" + "".join(f"{value:02x}" for value in mixed)
