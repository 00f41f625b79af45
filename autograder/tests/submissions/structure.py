"""Submissions whose notebook, file or folder is not what was released."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from .case import CHAPTER, EXERCISES, FILE, Case, Edit, Make, at, content, edited, write

TEST = "check-softmax"
NOT_STARTED = {"softmax": "NOT_STARTED"}


def unanswered(*edits: Edit) -> Make:
    """All solved but softmax, whose answer is as released; then ``edits``."""

    def make(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
        at(notebook, "softmax").source = at(release, "softmax").source
        edited(*edits)(folder, notebook, release)

    return make


def source_of(name: str, source: str) -> Edit:
    """Replace a cell's source."""
    return lambda notebook: at(notebook, name).update(source=source)


def marks(name: str, **changes: object) -> Edit:
    """Change a cell's nbgrader metadata; None takes a key away."""

    def edit(notebook: NotebookNode) -> None:
        metadata = at(notebook, name).metadata.nbgrader
        for key, value in changes.items():
            metadata[key] = value
            if value is None:
                del metadata[key]

    return edit


def deleted(notebook: NotebookNode) -> None:
    """Take the test away."""
    notebook.cells.remove(at(notebook, TEST))


def stripped(notebook: NotebookNode) -> None:
    """Take all metadata away."""
    for cell in notebook.cells:
        cell.metadata = {}


def doubled(name: str, new_id: str, source: str | None = None) -> Edit:
    """Put a copy of a cell behind it."""

    def edit(notebook: NotebookNode) -> None:
        cell = at(notebook, name)
        twin: Any = nbformat.from_dict({**cell, "id": new_id})
        twin.source = cell.source if source is None else source
        notebook.cells.insert(notebook.cells.index(cell) + 1, twin)

    return edit


def retyped(name: str, kind: str) -> Edit:
    """Turn a cell into another type."""

    def edit(notebook: NotebookNode) -> None:
        cell = at(notebook, name)
        cell.cell_type = kind
        del cell["outputs"], cell["execution_count"]

    return edit


def skipped(notebook: NotebookNode) -> None:
    """Tag the test so that nbclient leaves it out."""
    at(notebook, TEST).metadata["tags"] = ["skip-execution"]


def reordered(notebook: NotebookNode) -> None:
    """Turn the notebook upside down."""
    notebook.cells.reverse()


def other_kernel(notebook: NotebookNode) -> None:
    """Ask for a kernel that runs anything."""
    notebook.metadata.kernelspec = {"name": "bash", "display_name": "Bash", "language": "bash"}


def truncated(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in the first half of the file."""
    write(folder, notebook)
    data = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(data[: len(data) // 2])


def misnamed(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in under another name."""
    write(folder, notebook)
    (folder / FILE).rename(folder / "homework final (2).ipynb")


def misdated(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in with a time that is none."""
    write(folder, notebook)
    (folder / "timestamp.txt").write_text("the day before yesterday, \x00 honest")


def others(folder: Path) -> Path:
    """An honest student's submission."""
    return folder.parents[1] / "honest-b" / CHAPTER


def linked_file(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in a link to another's notebook."""
    (folder / FILE).symlink_to(others(folder) / FILE)


def linked_folder(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in a link to another's folder."""
    folder.rmdir()
    folder.symlink_to(others(folder))


def linked_student(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Be a link to another student."""
    folder.rmdir()
    folder.parent.rmdir()
    folder.parent.symlink_to(others(folder).parent)


def zip_bomb(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in an archive of 200 MiB of zeros under the notebook's name."""
    with zipfile.ZipFile(folder / FILE, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(FILE, bytes(200 * 2**20))


def traversal(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in only an archive whose members climb out of the folder."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../../escaped.txt", "out")
    (folder / "submission.zip").write_bytes(archive.getvalue())


STRUCTURE = (
    Case(
        "19",
        "a test edited",
        "The original test is put back and decides; flagged.",
        unanswered(source_of(TEST, "print(8)")),
        NOT_STARTED,
        flags=("`check-softmax` was edited; the original was put back.",),
        stock=True,
    ),
    Case(
        "20",
        "a test deleted",
        "Put back, and decides; flagged.",
        unanswered(deleted),
        NOT_STARTED,
        flags=("`check-softmax` was deleted; it was put back.",),
        stock=True,
    ),
    Case(
        "21",
        "all metadata stripped",
        "Cells are found by their ids, metadata restored; graded in full, flagged.",
        edited(stripped),
        flags=("metadata of",) * 2 * len(EXERCISES),
        stock=True,
    ),
    Case(
        "22",
        "a test cell duplicated",
        "Graded once; flagged.",
        edited(doubled(TEST, TEST)),
        flags=("`check-softmax` was there more than once; it was graded once.",),
        stock=True,
    ),
    Case(
        "23",
        "a solution cell duplicated",
        "The cell with its own id is the answer, a pasted copy is not; graded once, flagged.",
        edited(doubled("softmax", "pasted", "softmax = None")),
        {"softmax": "INVALID"},
        flags=("`softmax` was there more than once; it was graded once.",),
    ),
    Case(
        "24",
        "`grade` set to false on a test",
        "Restored, and decides; flagged.",
        unanswered(marks(TEST, grade=False)),
        NOT_STARTED,
        flags=("The grading metadata of `check-softmax` was changed; it was restored.",),
        stock=True,
    ),
    Case(
        "25",
        "`solution` set to true on a test, and the test emptied",
        "Restored, and decides; flagged twice.",
        unanswered(marks(TEST, solution=True), source_of(TEST, "")),
        NOT_STARTED,
        flags=("metadata of `check-softmax` was changed", "`check-softmax` was edited"),
        stock=True,
    ),
    Case(
        "26",
        "a test's `grade_id` renamed",
        "Found by its cell id and restored; flagged.",
        unanswered(marks(TEST, grade_id="check-sofmax")),
        NOT_STARTED,
        flags=("metadata of `check-softmax` was changed",),
        stock=True,
    ),
    Case(
        "27",
        "points raised to 800",
        "The released points hold; flagged.",
        edited(marks(TEST, points=800)),
        flags=("metadata of `check-softmax` was changed",),
        stock=True,
    ),
    Case(
        "28",
        "points missing",
        "The released points hold; flagged.",
        edited(marks(TEST, points=None)),
        flags=("metadata of `check-softmax` was changed",),
    ),
    Case(
        "29",
        "an unknown `schema_version`",
        "Restored; flagged.",
        edited(marks(TEST, schema_version=99)),
        flags=("metadata of `check-softmax` was changed",),
        stock=True,
    ),
    Case(
        "30",
        "tests turned into markdown and raw cells",
        "Turned back, and decide; flagged.",
        unanswered(retyped(TEST, "markdown"), retyped("check-attention_scores", "raw")),
        NOT_STARTED,
        flags=(
            "`check-softmax` was turned into another type of cell",
            "`check-attention_scores` was turned into another type of cell",
        ),
        stock=True,
    ),
    Case(
        "31",
        "a test tagged `skip-execution`",
        "It runs all the same, and decides; flagged.",
        unanswered(skipped),
        NOT_STARTED,
        flags=("`check-softmax` was tagged to be skipped; it was run.",),
        stock=True,
    ),
    Case(
        "32",
        "all cells reordered",
        "Put back in the released order; graded in full, flagged.",
        edited(reordered),
        flags=("Graded cells had been moved; they were put back in order.",),
        stock=True,
    ),
    Case(
        "33",
        "another language's kernel",
        "The course's kernel is used; graded in full, flagged.",
        edited(other_kernel),
        flags=("The notebook is one for another language; the course's own kernel was used.",),
        stock=True,
    ),
    Case(
        "34a",
        "a truncated file",
        "INVALID, with the reason.",
        truncated,
        problem="is not a notebook, or only a part of one",
        stock=True,
    ),
    Case("34b", "an empty file", "INVALID, with the reason.", content(b""), problem="is empty"),
    Case(
        "34c",
        "a file that is no notebook",
        "INVALID, with the reason.",
        content(b'{"answer": 42}'),
        problem="it holds no cells",
    ),
    Case(
        "34d",
        "a binary file",
        "INVALID, with the reason.",
        content(bytes(range(256)) * 9),
        problem="the file is not text",
        stock=True,
    ),
    Case(
        "35",
        "a wrong file name",
        "INVALID; the report names the file that is there.",
        misnamed,
        problem="it holds homework final (2).ipynb",
    ),
    Case(
        "36",
        "a timestamp that is none",
        "Graded; flagged.",
        misdated,
        flags=("timestamp.txt holds no time",),
    ),
    Case(
        "37a",
        "a symbolic link to another's notebook",
        "INVALID: links are not followed.",
        linked_file,
        problem="is a link",
        stock=True,
    ),
    Case(
        "37b",
        "a symbolic link to another's folder",
        "INVALID: links are not followed.",
        linked_folder,
        problem="is a link",
        stock=True,
    ),
    Case(
        "37c",
        "a student's directory that is a link to another's",
        "INVALID: links are not followed.",
        linked_student,
        problem="is a link",
    ),
    Case(
        "38a",
        "a zip bomb under the notebook's name",
        "INVALID: nothing is ever unpacked.",
        zip_bomb,
        problem="the file is not text",
    ),
    Case(
        "38b",
        "an archive whose members climb out of the folder",
        "INVALID: nothing is ever unpacked; the report names the archive.",
        traversal,
        problem="it holds submission.zip",
    ),
    Case(
        "39",
        "a null byte in a cell's source",
        "0 for that exercise.",
        edited(lambda notebook: at(notebook, "softmax").update(source="def softmax(a):\n  \0 1")),
        {"softmax": "INVALID"},
        stock=True,
    ),
)
