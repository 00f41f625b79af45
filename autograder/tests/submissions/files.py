"""Files that are made to keep who reads them waiting, or to take their memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nbformat import NotebookNode

from .case import FILE, Case, write


def pipe(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in a named pipe: who opens it to read, waits for ever."""
    os.mkfifo(folder / FILE)


def odd_cells(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in cells that are no cells."""
    form = json.loads(json.dumps(notebook))
    form["cells"][3:3] = [7, None, "text", {"cell_type": "code"}, {"cell_type": ["code"]}]
    (folder / FILE).write_text(json.dumps(form))


def flood(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in 300,000 empty cells."""
    notebook.cells = []
    form = json.loads(json.dumps(notebook))
    form["cells"] = [{"cell_type": "raw", "id": "a", "metadata": {}, "source": ""}] * 300_000
    (folder / FILE).write_text(json.dumps(form, separators=(",", ":")))


def outputs(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in 200,000 outputs of one cell."""
    form = json.loads(json.dumps(notebook))
    out = {"output_type": "stream", "name": "stdout", "text": ""}
    next(c for c in form["cells"] if c["cell_type"] == "code")["outputs"] = [out] * 200_000
    (folder / FILE).write_text(json.dumps(form, separators=(",", ":")))


def in_its_place(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in a folder that is called as the notebook should be."""
    (folder / FILE).mkdir()


def long_date(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in a right notebook, and a timestamp of 16 MiB."""
    write(folder, notebook)
    (folder / "timestamp.txt").write_bytes(bytes(2**24))


def worksheets(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in 100,000 cells in the form of an old format, whose limit was another."""
    cell = {"cell_type": "code", "input": "", "outputs": [], "language": "python", "metadata": {}}
    form = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}}
    sheets = [{"cells": [cell] * 50_000}] * 2
    (folder / FILE).write_text(json.dumps({**form, "worksheets": sheets}))


def commands(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in a notebook whose format is 1 MB of text that a terminal obeys."""
    form = json.loads(json.dumps(notebook))
    form["nbformat"] = "\x1b]0;owned\x07" + "x" * 2**20
    (folder / FILE).write_text(json.dumps(form))


def excused(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in a right notebook that says, in the grader's own words, that it cannot be graded."""
    notebook.metadata["attend"] = {"problem": "\x1b[31mnot today", "flags": ["\x1b[31m"]}
    write(folder, notebook)


FILES = (
    Case(
        "57",
        "a named pipe in the notebook's place",
        "INVALID; nobody waits for it.",
        pipe,
        problem="is not a file",
    ),
    Case(
        "58",
        "numbers, nulls and half cells among the cells",
        "INVALID, with the reason.",
        odd_cells,
        problem="cannot be read",
        stock=True,
    ),
    Case(
        "59",
        "300,000 empty cells",
        "INVALID before anything is made of them.",
        flood,
        problem="cells",
    ),
    Case(
        "60",
        "200,000 outputs in one cell",
        "Outputs are never read: graded in full.",
        outputs,
    ),
    Case(
        "98",
        "a folder in the notebook's place",
        "INVALID; nobody else's grading stops.",
        in_its_place,
        problem="is not a file",
    ),
    Case(
        "99",
        "a timestamp of 16 MiB",
        "Graded, undated; flagged. No more of it is read than a date has.",
        long_date,
        flags=("timestamp.txt holds no time",),
    ),
    Case(
        "100",
        "100,000 cells in the worksheets of an old format",
        "INVALID before they are converted.",
        worksheets,
        problem="100,000 cells",
    ),
    Case(
        "101",
        "a format that is 1 MB of text with control codes",
        "INVALID; the message is short and holds none.",
        commands,
        problem="Unsupported nbformat version ‹U+001B›]0;owned‹U+0007›xxx",
    ),
    Case(
        "102",
        "a problem that the notebook itself names in the grader's metadata",
        "Graded: it is not taken from a submission.",
        excused,
        stock=True,
    ),
)
