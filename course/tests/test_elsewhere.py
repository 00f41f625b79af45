"""VS Code and Colab, as far as a machine without them can prove it: what they read is there.

VS Code draws `application/vnd.vegalite.v5+json` with an extension and images without one; Colab
draws HTML, and widgets once it is told that they are not its own. Both show a widget's and a
card's HTML where nothing else is there.
"""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from types import ModuleType
from typing import Any

import altair as alt
import pytest
from attend import build, chapter, charts
from attend.book import pages, site
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

SVG = "{http://www.w3.org/2000/svg}"
CELLS = (
    """
import attend
from attend import charts, widgets
from attend_grader import check
charts.line([{"x": 1, "y": 2}, {"x": 2, "y": 4}], "x", "y", title="Title", description="It rises.",
            x_title="x", y_title="y")
""",
    "widgets.drag_query()",
    "widgets.score_memory()",
    """
import numpy as np
def softmax(scores, axis=-1):
    return np.exp(scores) / np.exp(scores).sum(axis=axis, keepdims=True)
check(softmax)
""",
    """
from attend_grader import hint, ready
def softmax(scores, axis=-1):
    raise NotImplementedError
ready(softmax)
hint("softmax")
""",
)
COLAB = """
import sys, types
google, colab = types.ModuleType("google"), types.ModuleType("google.colab")
colab.output = types.ModuleType("google.colab.output")
colab.output._widgets = types.SimpleNamespace(_installed_url="https://colab.example/manager")
colab.output.enable_custom_widget_manager = lambda: print("widgets of others: on")
sys.modules |= {"google": google, "google.colab": colab, "google.colab.output": colab.output}
"""


def _outputs(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, *before: str) -> Any:
    """Run CELLS in a kernel of this environment: what each shows, and all that is printed."""
    for name in charts.EDITORS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    setup = build.release_notebook("03_attention").cells[0].source
    cells = [new_code_cell(text.strip()) for text in (*before, setup, *CELLS)]
    ran = NotebookClient(new_notebook(cells=cells), timeout=120, kernel_name="python3").execute()
    last = ran.cells[-len(CELLS) :]
    printed = [o.text for c in ran.cells for o in c.outputs if o.output_type == "stream"]
    return [[o.data for o in c.outputs if "data" in o][-1] for c in last], printed


def _assert_still(bundle: NotebookNode, panels: int) -> None:
    """A widget's bundle: alive where there is a manager of widgets, else images with words."""
    assert "model_id" in bundle["application/vnd.jupyter.widget-view+json"]
    images = re.findall(r'<img alt="([^"]{30,})" src="data:image/svg\+xml', bundle["text/html"])
    assert len(images) == panels


@pytest.mark.slow
def test_a_kernel_of_vs_code(monkeypatch: pytest.MonkeyPatch):
    (chart, live, view, card, hint), printed = _outputs({"VSCODE_PID": "1"}, monkeypatch)
    assert printed == []
    assert chart[charts.MIME]["$schema"].endswith("/v5.json")
    assert "Title" in {text.text for text in ET.fromstring(chart["image/svg+xml"]).iter()}
    _assert_still(live, 2)
    _assert_still(view, 1)
    assert "attend-card" in card["text/html"]
    assert card["text/plain"].isdigit()
    assert hint["text/plain"].startswith("Hint 1 of 3: ")
    assert re.fullmatch(r"<p style=\"[^\"]*\">Hint 1 of 3: [^<]*</p>", hint["text/html"])


@pytest.mark.slow
def test_a_kernel_of_colab(monkeypatch: pytest.MonkeyPatch):
    (chart, live, view, card, hint), printed = _outputs({}, monkeypatch, COLAB)
    assert {line for text in printed for line in text.splitlines()} == {"widgets of others: on"}
    assert set(chart) <= {"text/html", "text/plain"}
    assert "vega-embed" in chart["text/html"]
    assert '"It rises."' in chart["text/html"]
    _assert_still(live, 2)
    _assert_still(view, 1)
    assert "attend-card" in card["text/html"]
    assert ">Hint 1 of 3: " in hint["text/html"]


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("chapter_id", chapter.chapter_ids())
def test_every_chapters_outputs(chapter_id: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, charts.COLAB, ModuleType(charts.COLAB))
    shown = [
        o.data for c in site.ran(chapter_id).cells for o in c.get("outputs", []) if "data" in o
    ]
    specs = [bundle[charts.MIME] for bundle in shown if charts.MIME in bundle]
    widgets = [bundle for bundle in shown if pages.WIDGET in bundle]
    assert specs or widgets
    try:
        charts.use()
        for spec in specs:
            _assert_drawn(spec)
    finally:
        alt.renderers.enable("default")
        alt.theme.enable("default")
    for bundle in widgets:
        words = re.findall(r'<img alt="([^"]*)" src="data:image/svg\+xml', bundle["text/html"])
        assert words or "attend-note" in bundle["text/html"], bundle["text/plain"]
        assert all(len(each) > 15 for each in words)
    cards = [bundle for bundle in shown if "attend-card" in bundle.get("text/html", "")]
    assert all(bundle["text/plain"].isdigit() for bundle in cards)
    assert len(cards) >= len(build.chapters.chapter(chapter_id).exercises)


def _assert_drawn(spec: dict[str, Any]) -> None:
    """A chart of a chapter, as an image and as Colab's page."""
    root = ET.fromstring(charts.image(spec))
    said = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    title = spec["title"]
    for line in title if isinstance(title, list) else [title]:
        assert str(line) in said, (line, said[:200])
    assert len(list(root.iter(f"{SVG}path"))) > 3
    assert alt.renderers.active == "colab"
    draw: Any = alt.renderers.get()
    page = draw({**spec, "$schema": alt.SCHEMA_URL})
    page = page[0] if isinstance(page, tuple) else page
    assert "vega-embed" in page["text/html"]
    assert json.dumps(spec["description"])[1:40] in page["text/html"]
