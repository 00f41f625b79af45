"""The course's terms, from ``data/glossary.toml``: a page beside the chapters."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attend import start
from attend.curriculum import CHAPTERS

NAME = "glossary.ipynb"
_SOURCE = Path(__file__).parent / "data" / "glossary.toml"

TEXT = """\
# Glossary

What the course's words mean, and the chapter in which you build the thing.
"""


@dataclass(frozen=True)
class Term:
    """One entry; ``symbol`` may be empty, ``chapter`` is an id such as ``"03_attention"``."""

    name: str
    meaning: str
    chapter: str
    symbol: str = ""


def terms() -> list[Term]:
    """All terms, by name."""
    found = tomllib.loads(_SOURCE.read_text(encoding="utf-8"))["term"]
    return sorted((Term(**entry) for entry in found), key=lambda term: term.name.casefold())


def table(ready: Sequence[str]) -> str:
    """The terms in Markdown, with links to the chapters in ``ready``."""
    numbers = {chapter.id: chapter.number for chapter in CHAPTERS}
    rows = ["| Term | Symbol | What it means | Chapter |", "|---|---|---|---|"]
    for term in terms():
        number = numbers[term.chapter]
        link = f"[{number}]({term.chapter}.ipynb)" if term.chapter in ready else number
        rows.append(f"| **{term.name}** | {term.symbol} | {term.meaning} | {link} |")
    return "\n".join(rows)


def page(ready: Sequence[str]) -> bytes:
    """The glossary as a notebook that links the chapters in ``ready``."""
    cells = [
        {"id": "way", "cell_type": "markdown", "source": f"[Start]({start.NAME})"},
        {"id": "glossary", "cell_type": "markdown", "source": TEXT},
        {"id": "terms", "cell_type": "markdown", "source": table(ready)},
    ]
    return start.notebook(cells)
