"""``attend update``: a chapter's newest version with the learner's answers in it.

The learner's notebook is kept under a dated name, whatever happens; answers go by exercise into a
fresh copy. What does not fit any more is named.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import nbformat
from attend_grader.checks.files import write_whole
from nbformat import NotebookNode

from attend import workspace
from attend.curriculum import ROOT
from attend.errors import AttendError

STUB_ENDS = "# YOUR CODE HERE\n    raise NotImplementedError()"
"""The last lines of nbgrader's stub of a function."""


@dataclass(frozen=True)
class Carried:
    """What became of a learner's answers.

    Attributes:
        kept: exercises whose answers stand in the new notebook.
        changed: of these, those whose stub begins in another way now: name and new first lines.
        gone: exercises that the chapter does not have any more.
        own: cells of the learner's own that are in the old notebook only.
    """

    kept: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]
    gone: tuple[str, ...]
    own: int


def update(work: Path, chapter: str, root: Path = ROOT, now: datetime | None = None) -> list[str]:
    """Bring one chapter up to date; sentences that say what was done.

    Args:
        work: the learner's folder.
        chapter: its number or id: ``"03"`` or ``"03_attention"``.
        root: where the course is.
        now: dates the name of what is kept; by default the present.

    Raises:
        AttendError: no such chapter, the learner's file is no notebook, or nothing can be written.
    """
    planned = workspace.ready_chapter(chapter, root)
    mine = work / f"{planned.id}.ipynb"
    if not mine.is_file():
        return workspace.prepare(work, root)
    old = _read(mine)
    new = nbformat.reads(workspace.newest(planned.notebook(root)).decode(), as_version=4)
    if workspace.same_course(mine, planned.notebook(root), work):
        return [f"{mine.name} has the newest version of the chapter already."]
    copied = workspace.as_copied(mine)
    carried = carry(old, new, _read(copied) if copied.is_file() else None)
    said = workspace.reset(work, planned.id, root, now)
    write_whole(mine, nbformat.writes(new, indent=1, ensure_ascii=False).encode() + b"\n")
    workspace.remove_offered(mine, planned.notebook(root))
    return [*said[:1], *_told(carried)]


def carry(old: NotebookNode, new: NotebookNode, copied: NotebookNode | None = None) -> Carried:
    """Put the answers of ``old`` into ``new``, which is changed.

    Args:
        old: the learner's.
        new: the chapter's newest version.
        copied: the version that ``old`` was copied from; None where that is not known.
    """
    mine, stubs = _answers(old), _answers(new)
    before = {} if copied is None else _answers(copied)
    kept, changed, gone = [], [], []
    for name, cell in mine.items():
        untouched = copied is None and cell.source.rstrip().endswith(STUB_ENDS)
        if untouched or _same(cell, stubs.get(name)) or _same(cell, before.get(name)):
            continue
        if name not in stubs:
            gone.append(name)
        else:
            kept.append(name)
            first = signature(stubs[name].source, name)
            asked = signature(before[name].source, name) if name in before else ""
            if first not in ("", asked) and _plain(cell.source, name) != _plain(first, name):
                changed.append((name, first))
            stubs[name].source = cell.source
    ids = {cell.get("id") for cell in (*new.cells, *(copied.cells if copied else ()))}
    own = [c for c in old.cells if c.get("id") not in ids and not c.metadata.get("nbgrader")]
    code = [cell for cell in own if cell.cell_type == "code" and cell.source.strip()]
    return Carried(tuple(kept), tuple(changed), tuple(gone), len(code))


def signature(source: str, name: str) -> str:
    """How a function or class of this name begins, on one line; empty where there is none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            methods = [signature(ast.unparse(item), "__init__") for item in node.body]
            return " ".join(["class", name, *filter(None, methods)])
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return f"def {name}({ast.unparse(node.args)})"
    return ""


def _plain(source: str, name: str) -> str:
    """A definition's first line without the types of its arguments, which a learner may leave out.

    Args:
        source: code, or a first line as :func:`signature` gives it.
        name: of the function or class.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        try:
            tree = ast.parse(f"{source}: ...")
        except SyntaxError:
            return signature(source, name) or source
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
    return signature(ast.unparse(tree), name)


def _same(one: NotebookNode, other: NotebookNode | None) -> bool:
    return other is not None and one.source.strip() == other.source.strip()


def _answers(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """The cells where exercises are written, by their names."""
    found = {}
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and marks.get("solution") and not marks.get("grade"):
            found[marks.get("grade_id", "")] = cell
    return found


def _read(path: Path) -> NotebookNode:
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises what it likes
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AttendError(
            f"{path} is no notebook that can be read ({told}). It was left as it is; "
            f"attend reset {path.stem} keeps it under another name and begins anew."
        ) from error


def _told(carried: Carried) -> list[str]:
    said = []
    if carried.kept:
        said.append(f"Your answers are in the new one: {', '.join(carried.kept)}.")
    else:
        said.append("It had no answers of yours to carry over.")
    said += [
        f"{name} begins in another way now: {first}. Change yours to fit."
        for name, first in carried.changed
    ]
    if carried.gone:
        said.append(
            f"Not in the chapter any more, in your old notebook only: {', '.join(carried.gone)}."
        )
    if carried.own:
        many = "s" if carried.own > 1 else ""
        said.append(f"{carried.own} code cell{many} of your own stayed in the old notebook.")
    return said
