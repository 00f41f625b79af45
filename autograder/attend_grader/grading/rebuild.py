"""A submission rebuilt from the released notebook and the answers of the learner.

Every cell of the release is there, in its order, with its own type, metadata and tags:

- a solution cell holds the learner's source, found by ``grade_id``, else by cell id, else (where
  its cell is gone) in the extra cell that defines the same function;
- test cells and locked cells are the release's;
- other code cells that were given are the release's. Where the learner edited one, theirs follows
  as a cell of its own: the course's set-up cannot break, and what their answers need still runs;
- given text is the learner's: it may hold their notes, and no score depends on it.

The learner's own cells stay where they were, without metadata or tags: they run, ungraded.
Whatever was tampered with becomes a flag: one short sentence that quotes nothing they wrote.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from attend_grader.judging.reading import bound

SKIP_TAG = "skip-execution"
"""nbclient leaves out cells with this tag, and nbgrader gives full marks to what did not run."""

_NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/svg+xml")
_BASE64, _PLAIN_NAME = re.compile(r"[A-Za-z0-9+/=\s]*"), re.compile(r"[\w.-]+")
_ATTACHED = re.compile(r"(?<=\()attachment:([\w.-]+)(?=[) \t\n])|attachment(?=\\?:)")
_SCHEMES = re.compile(
    "|".join(r"[\t\r\n]*".join(name) for name in ("javascript", "vbscript", "data", "file"))
    + r"(?=\s*\\?:)",
    re.IGNORECASE,
)
"""Browsers skip tabs and ends of lines within a scheme."""


def rebuild(submission: NotebookNode, release: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """Make the notebook to grade.

    Args:
        submission: what the learner handed in; not modified.
        release: the notebook they were given; not modified.

    Returns:
        The rebuilt notebook and its flags. They stand in ``metadata.attend.flags`` too, and in
        ``metadata.attend.given`` how many cells there are before the first code of the learner's.
    """
    rebuilt = copy.deepcopy(release)
    skeleton = rebuilt.cells
    places, extras, flags = _sort(submission.cells, skeleton)
    cells = _adopt(extras[-1])
    for index, given in enumerate(skeleton):
        theirs, name = places.get(index), graded_name(given)
        if given.cell_type == "code":
            given.outputs, given.execution_count = [], None
        if name is None:
            cells += _given(given, theirs)
        else:
            if _nbgrader(given).get("solution"):
                flags += _answer(given, theirs, extras, name)
            else:
                flags += _restored(given, theirs, name)
            cells.append(given)
        cells += _adopt(extras[index])
    order = [index for index in places if graded_name(release.cells[index])]
    if order != sorted(order):
        flags.append("Graded cells had been moved; they were put back in order.")
    if _language(submission) not in ("", _language(release)):
        flags.append("The notebook is one for another language; the course's own kernel was used.")
    flags = list(dict.fromkeys(flags))
    ours = {id(cell) for cell in skeleton if not _nbgrader(cell).get("solution")}
    code = [n for n, cell in enumerate(cells) if cell.cell_type == "code" and id(cell) not in ours]
    rebuilt.cells = _with_ids(cells)
    said = rebuilt.metadata.setdefault("attend", NotebookNode())
    said.flags, said.given = flags, min(code, default=len(cells))
    return rebuilt, flags


def _sort(
    submitted: Sequence[NotebookNode], skeleton: list[NotebookNode]
) -> tuple[dict[int, NotebookNode], defaultdict[int, list[NotebookNode]], list[str]]:
    """Give each submitted cell its place: in the skeleton, or after the cell it stood behind."""
    by_grade_id = {graded_name(cell): n for n, cell in enumerate(skeleton) if graded_name(cell)}
    by_cell_id = {cell.id: n for n, cell in enumerate(skeleton)}
    kept = {cell.get("id") for cell in submitted}
    by_text: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for n, cell in enumerate(skeleton):
        if graded_name(cell) is None and cell.id not in kept:
            by_text[cell.cell_type, _text(cell)].append(n)
    places: dict[int, NotebookNode] = {}
    extras: defaultdict[int, list[NotebookNode]] = defaultdict(list)
    flags: list[str] = []
    last = -1
    for cell in submitted:
        by_id = by_cell_id.get(cell.get("id"))
        index = by_grade_id.get(_grade_id(cell), by_id)
        if index is None:  # Colab and formats before 4.5 have no ids of cells
            alike = by_text.get((cell.cell_type, _text(cell)), [])
            index = next((n for n in alike if n not in places), None)
        if index is None:
            extras[last].append(cell)
            if _nbgrader(cell).get("grade") or _nbgrader(cell).get("solution"):
                flags.append("A cell was marked as graded that the course does not know.")
            continue
        if index not in places:
            places[index] = cell
            last = index
            continue
        name = graded_name(skeleton[index])
        if name:
            flags.append(f"`{name}` was there more than once; it was graded once.")
        if name and not _nbgrader(skeleton[index]).get("solution"):
            continue
        if index == by_id:  # the cell with its own id is the answer; a pasted copy has another
            extras[index - 1].append(places[index])
            places[index] = cell
        else:
            extras[last].append(cell)
    return places, extras, flags


def _answer(
    given: NotebookNode,
    theirs: NotebookNode | None,
    extras: defaultdict[int, list[NotebookNode]],
    name: str,
) -> list[str]:
    """Put the learner's answer into a solution cell; return flags."""
    if theirs is not None:
        flags = _differences(given, theirs, name)
        if given.cell_type == "code":
            given.source = whole(theirs.source)
        elif _text(theirs) != _text(given):
            _say(given, theirs)
        return flags
    wanted = _defined(given)
    for index in sorted(extras, reverse=True):  # the last definition is the one that holds
        for cell in reversed(extras[index]):
            if cell.cell_type == "code" and wanted & _defined(cell):
                given.source = whole(cell.source)
                extras[index].remove(cell)
                return [f"The cell of `{name}` was gone; the one that defines it was taken."]
    return [f"`{name}` was deleted; it counts as not started."]


def _restored(given: NotebookNode, theirs: NotebookNode | None, name: str) -> list[str]:
    """Flags for a test cell or another locked cell, which stays as it was released."""
    if theirs is None:
        return [f"`{name}` was deleted; it was put back."]
    flags = _differences(given, theirs, name)
    if _text(theirs) != _text(given):
        flags.append(f"`{name}` was edited; the original was put back.")
    return flags


def _differences(given: NotebookNode, theirs: NotebookNode, name: str) -> list[str]:
    """Flags for a cell whose type, nbgrader metadata or tags are not as released."""
    flags = []
    if theirs.cell_type != given.cell_type:
        flags.append(f"`{name}` was turned into another type of cell; it was turned back.")
    mine, released = _nbgrader(theirs), _nbgrader(given)
    if any(mine.get(key) != value for key, value in released.items()):
        flags.append(f"The grading metadata of `{name}` was changed; it was restored.")
    tags = _mapping(theirs.get("metadata")).get("tags")
    if isinstance(tags, list) and SKIP_TAG in tags:
        flags.append(f"`{name}` was tagged to be skipped; it was run.")
    return flags


def _given(given: NotebookNode, theirs: NotebookNode | None) -> list[NotebookNode]:
    """A cell that is not graded, as released; then the learner's edition of it, if it has one."""
    if theirs is None or _text(theirs) == _text(given):
        return [given]
    if given.cell_type == "code":
        return [given, *_adopt([theirs])]
    if theirs.cell_type == given.cell_type:
        _say(given, theirs)
    return [given]


def _adopt(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Cells of the learner's own, ungraded and without what they say about themselves."""
    adopted = []
    for cell in cells:
        own = _NEW.get(cell.cell_type, new_raw_cell)()
        if cell.cell_type == "code":
            own.source = whole(cell.get("source", ""))
        else:
            _say(own, cell)
        own.id = ""
        adopted.append(own)
    return adopted


def _say(cell: NotebookNode, theirs: NotebookNode) -> None:
    """Put a learner's text, and the pictures pasted into it, in a cell that is not code."""
    pictures = _pictures(theirs) if cell.cell_type == "markdown" else {}
    cell.source = harmless(theirs.get("source", ""), pictures)
    cell.pop("attachments", None)
    if pictures:
        cell.attachments = pictures


def _pictures(cell: NotebookNode) -> dict[str, dict[str, str]]:
    """Attachments that can be nothing but pictures."""
    found: dict[str, dict[str, str]] = {}
    for name, forms in _mapping(cell.get("attachments")).items():
        for kind, content in _mapping(forms).items():
            sound = isinstance(content, str) and _BASE64.fullmatch(content)
            if kind in _PICTURES and sound and _PLAIN_NAME.fullmatch(str(name)):
                found.setdefault(name, {})[kind] = content
    return found


def whole(text: str) -> str:
    """Text that can be written to a file: halves of surrogate pairs become question marks."""
    return str(text).encode("utf-8", "replace").decode()


def harmless(text: str, pictures: Collection[str] = ()) -> str:
    """Markdown of the learner's own, in which nothing can act; it reads as before.

    Feedback and formgrader show it in somebody else's browser. What begins a tag or an entity, and
    schemes that run or embed code, get a space of no width behind them, which no browser follows.
    So do attachments that are not among ``pictures``: nbconvert gives up on a page that misses one.
    """
    plain = re.sub(r"&(?=#|[A-Za-z]+;)", "&\u200b", whole(text))
    plain = re.sub(r"<(?=[A-Za-z/!?])", "<\u200b", plain)
    plain = _SCHEMES.sub("\\g<0>\u200b", plain)

    def attached(match: re.Match[str]) -> str:
        return match[0] if match[1] in pictures else f"attachment\u200b{match[0][10:]}"

    return _ATTACHED.sub(attached, plain)


def _with_ids(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Number the learner's own cells, so that the same submission gives the same notebook."""
    number = 0
    for cell in cells:
        if not cell.id:
            number += 1
            cell.id = f"own-{number}"
    return cells


def _language(notebook: NotebookNode) -> str:
    """The notebook's language in small letters; empty where it does not tell.

    A kernel's name tells nothing: conda and VS Code name it after an environment.
    """
    metadata = _mapping(notebook.get("metadata"))
    told = (
        _mapping(metadata.get("kernelspec")).get("language"),
        _mapping(metadata.get("language_info")).get("name"),
    )
    return next((text.lower() for text in told if isinstance(text, str) and text), "")


def _defined(cell: NotebookNode) -> set[str]:
    """Functions and classes that a code cell defines at its top level."""
    return {name for name, text in (bound(cell.source) or {}).items() if text is not None}


def _text(cell: NotebookNode) -> str:
    return str(cell.get("source", "")).strip()


def graded_name(cell: NotebookNode) -> str | None:
    """The grade_id of a solution, test, task or locked cell; None for any other."""
    marks = _nbgrader(cell)
    roles = ("grade", "solution", "locked", "task")
    return _grade_id(cell) if any(marks.get(role) is True for role in roles) else None


def _grade_id(cell: NotebookNode) -> str | None:
    value = _nbgrader(cell).get("grade_id")
    return value if isinstance(value, str) and value else None


def _nbgrader(cell: NotebookNode) -> dict[str, Any]:
    return _mapping(_mapping(cell.get("metadata")).get("nbgrader"))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
