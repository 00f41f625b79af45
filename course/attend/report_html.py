"""What the page of ``attend report`` is put together from: text made safe, tables, folds, style.

Everything that came from a student goes through :func:`text`, :func:`name` or :func:`code`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

CIVIDIS = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
"""Six of matplotlib's cividis, in equal steps (Nuñez, Anderton and Renslow 2018)."""

PALE = 0.45
"""How much white is mixed into them, so that black numbers can be read on all."""

STYLE = """
:root{color-scheme:light}
body{font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;color:#1d2329;
background:#fff;max-width:72rem;margin:0 auto;padding:1.2rem 1.5rem 4rem}
h1{font-size:1.6rem;margin:.2em 0}h2{font-size:1.25rem;margin:0 0 .4em}
h3{font-size:1.02rem;margin:1.4em 0 .2em}p{max-width:48rem;margin:.4em 0}
section{border-top:1px solid #cfd5db;margin-top:2.2em;padding-top:1em}
nav a{margin-right:1em;white-space:nowrap}a{color:#0b5ea8}.quiet{color:#56606b}
.facts{display:flex;flex-wrap:wrap;gap:.5rem 2.2rem;margin:1em 0;padding:0}
.facts div{display:flex;flex-direction:column-reverse}.facts dt{color:#56606b}
.facts dd{margin:0;font-size:1.5rem;font-weight:600}
.beside{display:flex;flex-wrap:wrap;gap:.5rem 2.5rem;align-items:flex-start}
.beside>*{flex:1 1 24rem;min-width:0}.beside>figure{flex:0 1 auto}
.scroll{overflow:auto;max-height:85vh;margin:.6em 0;border:1px solid #cfd5db}
.all{max-height:none}
table{border-collapse:collapse;width:100%}caption,.unseen{position:absolute;width:1px;height:1px;
overflow:hidden;clip-path:inset(50%);white-space:nowrap}
th,td{padding:.28em .6em;text-align:left;vertical-align:top;border-bottom:1px solid #e3e7eb}
tbody th{font-weight:500}thead th{position:sticky;top:0;background:#f3f5f7;z-index:1;
border-bottom:2px solid #b9c1c9;vertical-align:bottom}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
thead th.n{white-space:normal}
.heat td.n,.heat thead th.n,.heat tfoot td{text-align:center}.heat td.n{border:1px solid #fff}
.heat thead th.n{font-size:.86rem}.heat small{font-size:.78rem}
.heat{border-collapse:separate;border-spacing:0}
.heat th:first-child{position:sticky;left:0;background:#fff;z-index:1;max-width:11rem}
.heat thead th:first-child{z-index:2;background:#f3f5f7}
.heat tfoot th,.heat tfoot td{position:sticky;bottom:0;border-top:2px solid #b9c1c9;
background:#f3f5f7;font-weight:500}.heat tfoot th{z-index:2}
.heat tbody th,.heat td{vertical-align:middle}.heat td.n{color:#000}
.heat td.none,.none{color:#4a535c;
background:repeating-linear-gradient(45deg,#fff 0 5px,#e9ecef 5px 10px)}
.key{display:flex;gap:.4em;align-items:center;flex-wrap:wrap}.key span{padding:0 .7em}
.bar{display:inline-block;height:.7em;background:#0072b2;margin-right:.5em;min-width:1px}
.warn{background:#fff4e0;border-left:4px solid #b35c00;padding:.4em .8em}
figure{margin:.4em 0;overflow-x:auto}p,h3,td,th,li,summary{overflow-wrap:break-word}
pre{background:#f6f8fa;border:1px solid #e3e7eb;padding:.7em .9em;overflow:auto;font-size:13px;
line-height:1.4;margin:.4em 0;max-height:40em}.beside pre{white-space:pre-wrap}code{font-size:.93em}
details{margin:.4em 0}summary{cursor:pointer}
ul{padding-left:1.2em;margin:.4em 0;max-width:48rem}
@media print{.scroll{max-height:none}thead th,.heat th:first-child{position:static}}
"""

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Kinds of characters that change how others look, or cannot be written at all."""


def visible(source: str) -> str:
    """Source with control characters (text turned round, half surrogates …) named, not obeyed.

    >>> visible("a\\u202eb\\tc")
    'a‹U+202E›b\\tc'
    """
    return "".join(
        f"‹U+{ord(c):04X}›" if c not in "\n\t" and unicodedata.category(c) in _HIDDEN else c
        for c in source
    )


def text(source: str) -> str:
    """Escaped, with everything in it visible."""
    return escape(visible(source))


def name(student: str) -> str:
    """A student's name; whatever script it is in turns nothing round beside it."""
    return f"<bdi>{text(student)}</bdi>"


def names(students: Iterable[str]) -> str:
    """Several, with commas."""
    return ", ".join(map(name, students))


def inline(source: str) -> str:
    """Escaped, with `code` between backquotes set as such."""
    parts = text(source).split("`")
    if len(parts) % 2 == 0:
        return text(source)
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


def called(exercise: str) -> str:
    """An exercise's name, which may be broken at its underscores."""
    return "<code>" + text(exercise).replace("_", "_<wbr>") + "</code>"


def code(source: str, most: int) -> str:
    """The first ``most`` lines of a cell."""
    lines = source.strip().split("\n")
    more = f"\n… {len(lines) - most} more lines" if len(lines) > most else ""
    return f"<pre>{text(chr(10).join(lines[:most]))}{more}</pre>"


def fold(summary: str, body: str) -> str:
    """A part that opens on a click, or with the keyboard."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int] = (),
) -> str:
    """A table of HTML cells, the first of each row its head; ``numbers`` are columns of numbers."""
    kind = dict.fromkeys(numbers, ' class="n"')
    head = "".join(f'<th scope="col"{kind.get(i, "")}>{h}</th>' for i, h in enumerate(heads))
    body = "".join(
        f'<tr><th scope="row">{first}</th>'
        + "".join(f"<td{kind.get(i, '')}>{c}</td>" for i, c in enumerate(rest, 1))
        + "</tr>"
        for first, *rest in rows
    )
    return scroll(
        caption,
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>",
        "scroll all",
    )


def scroll(label: str, body: str, kind: str = "scroll") -> str:
    """A part that scrolls by itself where it does not fit, with the keyboard too."""
    return (
        f'<div class="{kind}" tabindex="0" role="region" aria-label="{escape(label)}">{body}</div>'
    )


def count(number: int, noun: str) -> str:
    """As in "1 student", "2 students"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
