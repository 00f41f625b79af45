"""Right notebooks of chapter 03 in the forms in which other programs save them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from .case import FILE

Form = dict[str, Any]


def _lines(form: Form) -> None:
    """Sources as lists of lines, as every program but nbformat's own writer may leave them."""
    for cell in form["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)


def vscode(form: Form) -> None:
    """VS Code: the kernel goes by its environment; a pasted cell has metadata of its own."""
    _lines(form)
    form["metadata"]["kernelspec"] = {
        "display_name": ".venv (3.11.2)",
        "language": "python",
        "name": "python3",
    }
    form["metadata"]["language_info"] = {"name": "python", "version": "3.11.2"}
    own = {"vscode": {"languageId": "plaintext"}}
    form["cells"].append({"cell_type": "raw", "id": "4f3c2b1a", "metadata": own, "source": ["x"]})


def colab(form: Form) -> None:
    """Colab: format 4.0, ids in the metadata, no language, an empty cell at the end."""
    _lines(form)
    form["nbformat_minor"] = 0
    form["metadata"] = {
        "colab": {"provenance": [], "toc_visible": True},
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(form["cells"]):
        del cell["id"]
        cell["metadata"] |= {"id": f"aB3_{number:08}", "colab": {"base_uri": "https://localhost"}}
    empty = {"cell_type": "code", "metadata": {"id": "z"}, "source": [], "outputs": []}
    form["cells"].append({**empty, "execution_count": None})


def conda(form: Form) -> None:
    """A conda environment's kernel in the classic notebook."""
    form["metadata"]["kernelspec"] = {
        "display_name": "Python [conda env:attend]",
        "language": "python",
        "name": "conda-env-attend-py",
    }


def old_format(form: Form) -> None:
    """Format 4.2: cells have no ids."""
    form["nbformat_minor"] = 2
    for cell in form["cells"]:
        del cell["id"]


PROGRAMS: Mapping[str, Callable[[Form], None]] = {
    "vscode": vscode,
    "colab": colab,
    "conda": conda,
    "4.2": old_format,
}


def saved(notebook: NotebookNode, program: str) -> str:
    """The notebook as this program saves it."""
    form: Form = json.loads(json.dumps(notebook))
    PROGRAMS[program](form)
    return json.dumps(form, indent=1)


def hand_in(folder: Path, notebook: NotebookNode, program: str) -> None:
    """Put it where a submission is expected."""
    (folder / FILE).write_text(saved(notebook, program), encoding="utf-8")
