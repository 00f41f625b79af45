"""Reading a chapter as it was written: cells with their place in the file.

A chapter is ``course/NN_topic/NN_topic.py`` in jupytext's py:percent form. An exercise is a code
cell tagged ``exercise`` that imports exactly one name from ``attend_solutions``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from attend_grader.inside import lean  # noqa: F401  # first, or jupytext takes 0.9 s more

# isort: split

import jupytext

from attend.errors import AttendError

COURSE = Path(__file__).resolve().parents[1]
"""Where the chapters lie: the folder that holds this package."""

HEADER = re.compile(r"^<!-- exercise: (\w+) -->$", re.MULTILINE)
"""Stands in a markdown cell where the exercise's generated header goes."""


@dataclass(frozen=True)
class Cell:
    """One cell: ``kind`` is ``"code"`` or ``"markdown"``; ``line`` is its marker's, from 1.

    ``folded``: JupyterLab shows a code cell's input folded (``jupyter={"source_hidden": true}``).
    """

    kind: str
    text: str
    tags: tuple[str, ...]
    line: int
    path: Path
    folded: bool = False

    @property
    def tree(self) -> ast.Module:
        """The code, parsed.

        Raises:
            AttendError: it has a syntax error; says file and line.
        """
        try:
            return ast.parse(self.text)
        except SyntaxError as error:
            line = self.line + (error.lineno or 1)
            raise AttendError(f"{self.path.name}:{line}: {error.msg}") from None

    def refuse(self, what: str, node: ast.AST | None = None) -> AttendError:
        """An error about this cell that names file and line."""
        inner = getattr(node, "lineno", 0)
        return AttendError(f"{self.path.name}:{self.line + inner}: {what}")


@dataclass(frozen=True)
class Source:
    """A chapter's cells, in order."""

    id: str
    path: Path
    cells: tuple[Cell, ...]


def chapter_ids() -> list[str]:
    """Chapters that have been written: folders ``NN_topic`` with a source of the same name."""
    paths = sorted(COURSE.glob("[0-9][0-9]_*"))
    return [path.name for path in paths if (path / f"{path.name}.py").is_file()]


def source_path(chapter_id: str) -> Path:
    """Where a chapter's source is.

    Raises:
        AttendError: there is no such chapter; names those there are.
    """
    path = COURSE / chapter_id / f"{chapter_id}.py"
    if not path.is_file():
        known = ", ".join(chapter_ids()) or "none"
        raise AttendError(f"there is no chapter {chapter_id!r}; written so far: {known}", 2)
    return path


def read(path: Path) -> Source:
    """Read a chapter's source.

    Raises:
        AttendError: a code cell has a syntax error, or the file is not py:percent.
    """
    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("# %%")]
    if len(lines) != len(notebook.cells):
        where = f"{path.name}:{lines[0] if lines else 1}"
        raise AttendError(
            f"{where}: found {len(lines)} cell markers (# %%) but {len(notebook.cells)} cells; "
            "does text stand before the first marker, or a marker inside a string?"
        )
    cells = tuple(
        Cell(
            cell.cell_type,
            cell.source,
            tuple(cell.metadata.get("tags", ())),
            line,
            path,
            folded=bool(cell.metadata.get("jupyter", {}).get("source_hidden")),
        )
        for cell, line in zip(notebook.cells, lines, strict=True)
    )
    for cell in cells:
        if cell.kind == "code":
            _ = cell.tree  # a syntax error is named now, with file and line
    return Source(path.stem, path, cells)


def exercise_import(cell: Cell) -> tuple[str, str]:
    """The (module, name) an exercise cell imports.

    Raises:
        AttendError: the cell is anything but one import of one name from ``attend_solutions``.
    """
    match cell.tree.body:
        case [ast.ImportFrom(module=str(module), names=[ast.alias(name=name, asname=None)])]:
            if module.startswith("attend_solutions."):
                return module, name
    raise cell.refuse(
        "an exercise cell holds exactly one import of one name, such as "
        "`from attend_solutions.attention import softmax`"
    )


def refuse_broken_lists(source: Source) -> None:
    """Refuse a paragraph's line that begins like "1. ": it would be shown as a list."""
    for cell in source.cells:
        if cell.kind != "markdown":
            continue
        block, fenced = "", False
        for offset, line in enumerate(cell.text.split("\n"), 1):
            text = re.sub(r"^(> ?)+", "", line)  # the same rule applies to a quote
            fence = text.lstrip().startswith("```")
            fenced ^= fence
            if fenced or fence or not text.strip() or text.startswith("#"):
                block = ""
            elif block == "paragraph" and re.match(r" {0,3}\d+\. ", text):
                raise AttendError(
                    f"{source.path.name}:{cell.line + offset}: a paragraph's line begins with "
                    f"{text.split()[0]!r} and would be shown as a list: break the lines "
                    "elsewhere, or put an empty line above a list"
                )
            elif re.match(r"\s|[-+*] |\d+\. ", text):
                block = "list"
            elif not block:
                block = "other" if text[0] in "|<" else "paragraph"
