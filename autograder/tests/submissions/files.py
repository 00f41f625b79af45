"""Files that are made to keep who reads them waiting, or to take their memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nbformat import NotebookNode

from .case import FILE, Case


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
)
