"""The start page: what the course is, how to work, the chapters, and the learner's progress.

Written as JSON: importing nbformat would make every start a second longer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attend.curriculum import CHAPTERS, title

if TYPE_CHECKING:
    from attend.progress import Progress

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

The bars above are as they were when the course was opened. Run the cell below (click it, then
<kbd>Shift</kbd>+<kbd>Enter</kbd>) to see them as they are, exercise by exercise; it also shows that
Python works here. All this stays with you, unless you choose otherwise: in a class, a cell with
`from attend_grader import share; share("03_attention")` at a chapter's end puts your hints and time
into that notebook, for your instructor. No score depends on it.
"""


GENERATED = "chapters"
"""Id of the cell that shows progress: written anew at each start, it is nobody's work."""


FIRST = "03_attention"
"""The chapter that one can begin with as well."""

PICTURE = "picture"
"""Id of a chapter's cell that is for where notebooks are only read: a picture of its widget."""


def page(ready: Sequence[str], shown: Progress | None = None) -> bytes:
    """The start page as a notebook; the same bytes for the same progress.

    Args:
        ready: ids of the chapters that are linked.
        shown: the learner's progress; None: nothing is done yet.
    """
    code = {"cell_type": "code", "execution_count": None, "outputs": []}
    cells: list[dict[str, Any]] = [
        {"id": "welcome", "cell_type": "markdown", "source": _WELCOME},
        {"id": GENERATED, "cell_type": "markdown", "source": _chapters(ready, shown)},
        {"id": "progress-text", "cell_type": "markdown", "source": _PROGRESS},
        {"id": "progress", "source": "from attend import progress\n\nprogress.show()"} | code,
    ]
    return notebook(cells)


def notebook(cells: Sequence[Mapping[str, Any]]) -> bytes:
    """Cells as a notebook's file."""
    made = {
        "cells": [{**cell, "metadata": {}, "source": cell["source"].rstrip()} for cell in cells],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


def setup(repository: str) -> str:
    """The first cell of a chapter, for kernels that know nothing of the course: Colab's, say.

    Args:
        repository: ``owner/name`` on GitHub, to install from.
    """
    return f"""# Says how to install the course, where the kernel does not have it.
try:
    import attend
except ModuleNotFoundError:
    print("This kernel does not have the course. Run this in a cell, then restart the kernel:")
    print('%pip install "attend-course @ git+https://github.com/{repository}"')"""


def way(chapter_id: str, ready: Sequence[str]) -> str:
    """Links to the start page, the chapter before and the one after, among those in ``ready``."""
    place = ready.index(chapter_id)
    titles = {chapter.id: f"{chapter.number} {chapter.title}" for chapter in CHAPTERS}
    links = [f"[Start]({NAME})", "[Glossary](glossary.ipynb)"]
    links += [f"← [{titles[id]}]({id}.ipynb)" for id in ready[max(place - 1, 0) : place]]
    links += [f"[{titles[id]}]({id}.ipynb) →" for id in ready[place + 1 : place + 2]]
    return " · ".join(links)


def _chapters(ready: Sequence[str], shown: Progress | None) -> str:
    rows = ["## Chapters", ""]
    part = shown.to_continue if shown else None
    if part is not None and part.next is not None:
        link = f"[{title(part.id)}]({part.id}.ipynb)"
        rows += [f"**Continue with {link}**: next is `{part.next.name}`.", ""]
    elif len(ready) > 1 and not (shown and any(known.begun for known in shown.parts.values())):
        rows += [f"**New here?** {_begin(ready)}", ""]
    rows += ["| | Chapter | What it answers | Exercises done |", "|---|---|---|---|"]
    for chapter in CHAPTERS:
        if chapter.id in ready:
            known = shown.parts.get(chapter.id) if shown else None
            done = f"{known.bar} {known.said}".replace(" ", "\N{NO-BREAK SPACE}") if known else ""
            link = f"[{chapter.title}]({chapter.id}.ipynb)"
            rows.append(f"| {chapter.number} | {link} | {chapter.question} | {done} |")
    planned = [chapter for chapter in CHAPTERS if chapter.id not in ready]
    if planned:
        rows += ["", "<details><summary>Planned</summary>", "", "| | | |", "|---|---|---|"]
        rows += [f"| {c.number} | {c.title} | {c.question} |" for c in planned]
        rows += ["", "</details>"]
    return "\n".join(rows)


def _begin(ready: Sequence[str]) -> str:
    """Where to begin; chapter 03 is for who wants attention at once, and needs no other."""
    first = f"Begin with [{title(ready[0])}]({ready[0]}.ipynb)"
    if FIRST not in ready[1:]:
        return f"{first}."
    return f"{first}; or with [{title(FIRST)}]({FIRST}.ipynb), which needs no other chapter."
