"""A chapter's page: its solved run, with the learner's stub where an answer stood."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import nbformat
from attend_grader import chapters
from nbformat import NotebookNode

from attend.charts import MIME
from attend.widgets.kit import states as tables
from attend.workspace import LINK

WIDGET = "application/vnd.jupyter.widget-view+json"
STATES = "application/vnd.jupyter.widget-state+json"
DROPPED = ("check-", "hint-")
"""Beginnings of the ids of cells that are for working, not for reading."""

_IMAGE = re.compile(r'<img[^>]* src="data:image/svg\+xml;base64,([^"]+)"[^>]*>')
_MATHS = re.compile(r"```.*?```|`[^`]*`|\$\$.*?\$\$|(\$[^$]*\$)", re.DOTALL)
_START = re.compile(r"\]\(start\.ipynb")


def page(
    chapter_id: str, ran: NotebookNode, released: NotebookNode, repository: str = ""
) -> NotebookNode:
    """The page as a notebook that MyST-NB reads.

    Args:
        chapter_id: such as ``"03_attention"``.
        ran: the solved notebook with outputs and the states of its widgets.
        released: the learner's notebook.
        repository: ``owner/name`` on GitHub; empty: no links to Binder and Colab.
    """
    asked = {exercise.name for exercise in chapters.chapter(chapter_id).exercises}
    stubs = {cell.id: cell.source for cell in released.cells if cell.id in asked}
    states = ran.metadata.get("widgets", {}).get(STATES, {}).get("state", {})
    cells: list[NotebookNode] = []
    for cell in ran.cells:
        if cell.id.startswith(DROPPED):
            continue
        if cell.cell_type == "markdown":
            text = _MATHS.sub(_one_line, cell.source)
            text = LINK.sub(r"](\1.ipynb", _START.sub("](index.md", text))
            made = nbformat.v4.new_markdown_cell(text, id=cell.id)
            cells.append(made)
            if len(cells) == 1:
                about = _about(chapter_id, repository)
                cells.append(nbformat.v4.new_markdown_cell(about, id="about"))
            continue
        made = nbformat.v4.new_code_cell(stubs.get(cell.id, cell.source), id=cell.id)
        # what is to be repaired may be read: so a tag says, as in the notebook
        made.metadata.tags = [t for t in cell.metadata.get("tags", ()) if t.startswith("repair-")]
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            made.metadata.tags.append("hide-input")
        if cell.id not in stubs:
            made.outputs = _joined([shown for o in cell.outputs if (shown := _output(o, states))])
        cells.append(made)
    metadata = {name: ran.metadata[name] for name in ("kernelspec", "language_info")}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def _one_line(found: re.Match[str]) -> str:
    """A formula within a line without line breaks: what follows one could begin a list."""
    return found[0].replace("\n", " ") if found[1] else found[0]


def _about(chapter_id: str, repository: str) -> str:
    """What a reader finds under the first words: the time it takes, and where to do it."""
    exercises = chapters.chapter(chapter_id).exercises
    minutes = sum(exercise.minutes for exercise in exercises)
    words = (
        f"*{len(exercises)} exercises, about {minutes} minutes. On this page the answers are left "
        f"out; to write them and have them checked, open `{chapter_id}.ipynb` with `attend lab`"
    )
    if not repository:
        return f"{words}.*"
    path = f"course/{chapter_id}/{chapter_id}.ipynb"
    binder = f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab%2Ftree%2Fwork%2F"
    colab = f"https://colab.research.google.com/github/{repository}/blob/main/{path}"
    return f"{words}, on [Binder]({binder}{chapter_id}.ipynb) or in [Colab]({colab}).*"


def _joined(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """What was printed piece by piece, in one piece."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    for output in joined:
        if output.output_type == "stream":
            output.text = _last_written(output.text)
    return [output for output in joined if output.get("text", "-")]


def _last_written(text: str) -> str:
    """What a terminal would show: of a bar that counted on in its line, the last state."""
    if "\r" not in text:
        return text
    lines = [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]
    return "\n".join(lines).lstrip("\n")


def _output(output: NotebookNode, states: Mapping[str, Any]) -> NotebookNode | None:
    """An output as the page shows it; None for what is meant for a running notebook only."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    data = output.get("data", {})
    if MIME in data:
        shown = {"text/html": _chart(data[MIME])}
    elif WIDGET in data:
        shown = {"text/html": _widget(data, states)}
    elif "text/html" in data:
        shown = {"text/html": inlined(_text(data["text/html"]))}
    elif "image/png" in data:
        shown = {"image/png": data["image/png"]}
    else:
        shown = {"text/plain": data.get("text/plain", "")}
    if not any(shown.values()):
        return None
    return nbformat.v4.new_output("display_data", data=shown)


def _chart(spec: Mapping[str, Any]) -> str:
    spec = {**spec, "$schema": alt.SCHEMA_URL}  # the version that vl-convert brings
    said = html.escape(str(spec.get("description", "chart")))
    return f'<div class="attend-chart" role="img" aria-label="{said}">{_data(spec)}</div>'


def _widget(data: Mapping[str, Any], states: Mapping[str, Any]) -> str:
    """The still picture, and what brings it to life in the page.

    That is the widget's own module, where it can compute what it shows (a widget that could ask
    Python instead says so in ``asks``), or a table of its pictures.
    """
    still = inlined(_text(data.get("text/html", "")))
    state = states.get(data[WIDGET]["model_id"], {}).get("state", {})
    if "_esm" in state and "asks" in state:
        kept = {key: value for key, value in state.items() if key == "_esm" or key[0] != "_"}
        return f'<div class="attend-alive">{still}{_data(kept | {"asks": False})}</div>'
    if tables.MIME in data:
        packed = base64.b64encode(tables.packed(data[tables.MIME])).decode()
        table = f'<script type="text/plain">{packed}</script>'
        return f'<div class="attend-leaf">{still}{table}</div>'
    return still and f'<div class="attend-still">{still}</div>'


def _data(value: Any) -> str:
    """JSON for a page's script; what could end the element is escaped."""
    text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'


def inlined(text: str) -> str:
    """The same HTML with its SVG images in the page, where they follow its theme."""
    return _IMAGE.sub(lambda found: base64.b64decode(found[1]).decode(), text)


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)
