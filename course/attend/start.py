"""The start page: what the course is, how to work, the chapters, and the learner's progress."""

from __future__ import annotations

from collections.abc import Sequence

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attend.curriculum import CHAPTERS

NAME = "start.ipynb"

_WELCOME = """\
# Attention from scratch through Mamba

You build every piece of a modern sequence model yourself: first in NumPy, then in PyTorch, then as
GPU kernels. Each exercise is checked by code that says what went wrong and why.

**How to work.** Open a chapter below. Read, predict, write the function, run the check under it
(<kbd>Shift</kbd>+<kbd>Enter</kbd> runs a cell). The card shows each property that holds and each
that does not; `hint(...)` gives the next of up to three hints. Your notebooks and your progress
stay in this folder: a newer version of a chapter is put beside your file, never over it.
"""

_PROGRESS = """\
## Your progress

Run the cell below (click it, then <kbd>Shift</kbd>+<kbd>Enter</kbd>). It also shows that Python
works here.
"""


def page(ready: Sequence[str]) -> bytes:
    """The start page as a notebook linking the chapters in ``ready``; the same bytes every time."""
    cells = [
        new_markdown_cell(_WELCOME.rstrip(), id="welcome"),
        new_markdown_cell(_chapters(ready), id="chapters"),
        new_markdown_cell(_PROGRESS.rstrip(), id="progress-text"),
        new_code_cell("from attend import progress\n\nprogress.show()", id="progress"),
    ]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return (nbformat.writes(new_notebook(cells=cells, metadata=metadata)) + "\n").encode()


def _chapters(ready: Sequence[str]) -> str:
    rows = ["## Chapters", "", "| | Chapter | What it answers |", "|---|---|---|"]
    rows += [
        f"| {chapter.number} | [{chapter.title}]({chapter.id}.ipynb) | {chapter.question} |"
        for chapter in CHAPTERS
        if chapter.id in ready
    ]
    planned = [chapter for chapter in CHAPTERS if chapter.id not in ready]
    if planned:
        rows += ["", "<details><summary>Planned</summary>", "", "| | | |", "|---|---|---|"]
        rows += [f"| {c.number} | {c.title} | {c.question} |" for c in planned]
        rows += ["", "</details>"]
    return "\n".join(rows)
