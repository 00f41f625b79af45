"""From a chapter as written to the notebooks people open.

The solved edition is the chapter with each exercise's import replaced by the answer and its
locked check; the learner's edition is what nbgrader's own ``generate_assignment`` makes of that.
Both are the same to the byte for the same sources.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import logging
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from attend_grader import chapters
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.slips import Slips
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attend import chapter as chapter_source
from attend import start, stub
from attend.book import signature
from attend.chapter import Cell, Source
from attend.errors import AttendError
from attend.readme import repository

DISTINCTIVE = 24
"""Characters (without spaces) from which a statement of an answer is told from everyday code."""

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def main(chapter_ids: list[str], check: bool = False, solved_to: Path | None = None) -> int:
    """Write the learners' notebooks, or with ``check`` only say which are stale.

    Args:
        chapter_ids: which chapters; none means all that are written.
        check: write nothing.
        solved_to: write the solved editions into this folder instead (for instructors).

    Returns:
        0; with ``check`` 1 where a notebook is stale.
    """
    stale = 0
    for chapter_id in chapter_ids or chapter_source.chapter_ids():
        path = chapter_source.source_path(chapter_id).with_suffix(".ipynb")
        make = release_notebook
        if solved_to is not None:
            solved_to.mkdir(parents=True, exist_ok=True)
            path, make = solved_to / path.name, solved_notebook
        text = to_text(make(chapter_id))
        fresh = path.is_file() and path.read_text(encoding="utf-8") == text
        if check and not fresh:
            print(f"{path.name} is stale: run `attend build {chapter_id}`", file=sys.stderr)
            stale = 1
        elif not check and not fresh:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")
        else:
            print(f"{path.name} is up to date")
    return stale


def to_text(notebook: NotebookNode) -> str:
    """A notebook as text, always in the same order."""
    return nbformat.writes(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def solved_notebook(chapter_id: str) -> NotebookNode:
    """The instructor's edition: answers in place, in nbgrader's source format.

    Raises:
        AttendError: the chapter breaks a rule of the build; names file and line.
    """
    return solved(chapter_source.read(chapter_source.source_path(chapter_id)))


def release_notebook(chapter_id: str) -> NotebookNode:
    """The learner's edition: stubs, locked checks, no outputs, no answers.

    Raises:
        AttendError: the chapter breaks a rule of the build; names file and line.
    """
    source = chapter_source.read(chapter_source.source_path(chapter_id))
    notebook = release(solved(source), chapter_id)
    refuse_leaks(notebook, source)
    signature.show(notebook, chapter_id)
    way = start.way(chapter_id, chapter_source.chapter_ids())
    for place, where in ((0, "way-in"), (len(notebook.cells) + 1, "way-out")):
        notebook.cells.insert(place, new_markdown_cell(way, id=where))
    setup = new_code_cell(start.setup(repository()), id="setup")
    setup.metadata.jupyter = {"source_hidden": True}
    notebook.cells.insert(0, setup)
    return notebook


def solved(source: Source) -> NotebookNode:
    """Put the answers and checks into a chapter's cells."""
    asked = _exercises(source)
    _refuse_borrowed(source, asked)
    chapter_source.refuse_broken_lists(source)
    cells: list[NotebookNode] = []
    defined: set[str] = set()
    for cell in source.cells:
        if "exercise" in cell.tags:
            exercise = asked[chapter_source.exercise_import(cell)[1]]
            added = _exercise_cells(exercise, cell, defined)
        elif cell.kind == "markdown":
            text = chapter_source.HEADER.sub(lambda m: _header(asked[m[1]], source.id), cell.text)
            for name in chapter_source.HEADER.findall(cell.text):
                text = _with_contract(text, asked[name])
            added = [new_markdown_cell(text)]
        else:
            metadata: dict[str, Any] = {"tags": list(cell.tags)}
            if cell.folded:
                metadata["jupyter"] = {"source_hidden": True}
            added = [new_code_cell(cell.text, metadata=metadata)]
        for new in added:
            if new.cell_type == "code":
                defined |= stub.names_defined(ast.parse(new.source))
            if not new.metadata.get("tags", True):
                del new.metadata["tags"]
        cells += added
    _set_ids(cells, source)
    metadata = {
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
        "attend": {"chapter": source.id},
    }
    return new_notebook(cells=cells, metadata=metadata)


def release(notebook: NotebookNode, chapter_id: str) -> NotebookNode:
    """What nbgrader's ``generate_assignment`` makes of a solved notebook."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config
    from traitlets.log import get_logger

    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "source", chapter_id)
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{chapter_id}.ipynb")
        config = Config()
        config.CourseDirectory.root = root
        config.CourseDirectory.assignment_id = chapter_id
        config.CourseDirectory.notebook_id = chapter_id
        config.GenerateAssignment.no_database = True  # the class's gradebook is made elsewhere
        config.SaveCells.enabled = False
        converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
        with _quiet(get_logger()):
            converter.start()
        path = Path(root, "release", chapter_id, f"{chapter_id}.ipynb")
        made = nbformat.read(path, as_version=4)
    made.metadata = notebook.metadata
    return made


@contextlib.contextmanager
def _quiet(log: logging.Logger | Any) -> Iterator[None]:
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def refuse_leaks(notebook: NotebookNode, source: Source) -> None:
    """Refuse a learner's notebook in which part of an answer can be read.

    Raises:
        AttendError: a distinctive statement of an answer stands in it; names the chapter's line.
    """
    for cell in source.cells:
        if "exercise" not in cell.tags:
            continue
        exercise = _registered(source, cell)
        given = f"repair-{exercise.name}"  # tag of a cell with the answer as it is to be repaired
        texts = [
            (made.id, _squeeze(made.source))
            for made in notebook.cells
            if given not in made.metadata.get("tags", ())
        ]
        for statement in stub.solution_statements(exercise.reference):
            squeezed = _squeeze(statement)
            if len(squeezed) < DISTINCTIVE:
                continue
            for cell_id, text in texts:
                if squeezed in text:
                    where = _line_of(source, squeezed)
                    raise AttendError(
                        f"{source.path.name}:{where}: the answer of {exercise.name} leaks into the "
                        f"learner's notebook (cell {cell_id}): {statement}"
                    )


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text).replace('"', "'")


def _line_of(source: Source, squeezed: str) -> int:
    for cell in source.cells:
        for offset, line in enumerate(cell.text.split("\n"), 1):
            if squeezed in _squeeze(line):
                return cell.line + offset
        if squeezed in _squeeze(cell.text):
            return cell.line
    return 1


def _registered(source: Source, cell: Cell) -> Exercise:
    module, name = chapter_source.exercise_import(cell)
    try:
        exercise = chapters.exercise(f"{source.id}/{name}")
    except KeyError:
        raise cell.refuse(
            f"{name} is marked as an exercise but chapter {source.id} has no checks for it "
            "in attend_grader.chapters"
        ) from None
    if exercise.reference.__module__ != module:
        raise cell.refuse(f"{name} comes from {module}, but its checks compare with another answer")
    stale = exercise.misconceptions.stale() if isinstance(exercise.misconceptions, Slips) else []
    if stale:
        raise cell.refuse(f"stale slips of {exercise.id}: {'; '.join(stale)}")
    return exercise


def _exercises(source: Source) -> dict[str, Exercise]:
    """The chapter's exercises by name, each once, each with a header and with checks."""
    asked: dict[str, Exercise] = {}
    for cell in source.cells:
        if "exercise" in cell.tags:
            exercise = _registered(source, cell)
            if exercise.name in asked:
                raise cell.refuse(f"duplicate id: {exercise.id} is asked twice")
            asked[exercise.name] = exercise
    expected = chapters.INDEX.get(source.id, ())
    for name in expected:
        if name not in asked:
            raise AttendError(
                f"{source.path.name}:1: checks without an exercise: attend_grader has checks for "
                f"{source.id}/{name}, but no cell tagged `exercise` imports it"
            )
    if tuple(asked) != tuple(expected):
        order = ", ".join(expected)
        raise AttendError(f"{source.path.name}:1: exercises must stand in the order {order}")
    headed: list[str] = []
    for cell in source.cells:
        for name in chapter_source.HEADER.findall(cell.text) if cell.kind == "markdown" else ():
            if name not in asked or name in headed:
                raise cell.refuse(f"a header for {name}, which is no exercise or has one already")
            headed.append(name)
        if "exercise" in cell.tags:
            name = chapter_source.exercise_import(cell)[1]
            if name not in headed:
                raise cell.refuse(f"{name} needs a line `<!-- exercise: {name} -->` above it")
    return asked


def _refuse_borrowed(source: Source, asked: dict[str, Exercise]) -> None:
    """Refuse imports of answers that the learner is still to write."""
    order = list(chapters.INDEX)
    for cell in source.cells:
        if cell.kind != "code" or "exercise" in cell.tags:
            continue
        for node in ast.walk(cell.tree):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] != "attend_solutions":
                continue
            for alias in node.names:
                homes = [i.split("/")[0] for i in chapters.named(alias.name)]
                if alias.name in asked:
                    raise cell.refuse(f"{alias.name} is an exercise of this chapter: tag it", node)
                if homes and all(h not in order or h > source.id for h in homes):
                    raise cell.refuse(
                        f"{alias.name} is an exercise of the later chapter {homes[0]}", node
                    )
    for exercise in asked.values():
        for name in exercise.uses:
            homes = [i.split("/")[0] for i in chapters.named(name)]
            if all(home > source.id for home in homes):
                raise AttendError(
                    f"{source.path.name}:1: {exercise.name} uses {name}, an exercise of a later "
                    "chapter or of none"
                )


def _exercise_cells(exercise: Exercise, cell: Cell, defined: set[str]) -> list[NotebookNode]:
    """Helpers it needs, the answer, the locked check, and the way to a hint."""
    name, text = exercise.name, stub.solution_text(exercise.reference, defined)
    helpers = []
    for needed in sorted(stub.names_needed(text) - defined):
        helper = None
        if not chapters.named(needed):  # an exercise is never brought along: it is an answer
            helper = stub.helper_text(exercise.reference, needed)
        if helper is None:
            raise cell.refuse(
                f"the answer of {name} uses `{needed}`, which no cell above defines or imports"
            )
        helpers.append(new_code_cell(helper))
    recurs = len(chapters.named(name)) > 1
    call = f'check({name}, "{exercise.id}")' if recurs else f"check({name})"
    answer = new_code_cell(text, metadata={"nbgrader": _nbgrader(name, solution=True)})
    test = new_code_cell(
        call, metadata={"nbgrader": _nbgrader(f"check-{name}", points=exercise.points)}
    )
    way = "# Stuck? Remove the leading # below and run; each run gives the next hint."
    hints = new_code_cell(f"{way}\n# " + (f'hint("{exercise.id}")' if recurs else f"hint({name})"))
    answer.id, test.id, hints.id = name, f"check-{name}", f"hint-{name}"
    return [*helpers, answer, test, hints]


def _nbgrader(grade_id: str, *, solution: bool = False, points: int | None = None) -> dict:
    metadata = {
        "grade": points is not None,
        "grade_id": grade_id,
        "locked": points is not None,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    return metadata if points is None else {**metadata, "points": points}


def _header(exercise: Exercise, chapter_id: str) -> str:
    number = list(chapters.INDEX[chapter_id]).index(exercise.name) + 1

    def of_five(value: int) -> str:
        return "●" * value + "○" * (5 - value)

    return (
        f"### Exercise {int(chapter_id[:2])}.{number} · {exercise.title}\n\n"
        f"**Goal.** {exercise.goal}\n\n"
        f"`{exercise.name}` · difficulty {of_five(exercise.difficulty)} · importance "
        f"{of_five(exercise.importance)} · about {exercise.minutes} minutes · "
        f"{exercise.points} points"
    )


def _with_contract(text: str, exercise: Exercise) -> str:
    """The text with the exercise's promises and bans under its first table, or at its end.

    Tables above the exercise's header are not its own.
    """
    sentence = exercise.statement
    if not sentence:
        return text
    line = f"**What is checked.** {sentence}"
    lines = text.split("\n")
    title = f" · {exercise.title}"
    headers = [n for n, row in enumerate(lines) if row.startswith("### ") and row.endswith(title)]
    first = headers[0] if headers else 0
    rows = [number for number, row in enumerate(lines) if row.startswith("|") and number > first]
    ends = [number for number in rows if number + 1 == len(lines) or not lines[number + 1].strip()]
    if not ends:
        return f"{text.rstrip()}\n\n{line}"
    return "\n".join([*lines[: ends[0] + 1], "", line, *lines[ends[0] + 1 :]])


def _set_ids(cells: list[NotebookNode], source: Source) -> None:
    """Stable cell ids: an exercise's by name, others by what they say."""
    seen: dict[str, int] = {}
    for cell in cells:
        if "nbgrader" in cell.metadata or cell.id.startswith("hint-"):
            key = cell.id
        else:
            key = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[key] = seen.get(key, 0) + 1
        cell.id = key if seen[key] == 1 else f"{key}-{seen[key]}"
        if seen[key] > 1 and "nbgrader" in cell.metadata:
            raise AttendError(f"{source.path.name}:1: duplicate id {key}")
