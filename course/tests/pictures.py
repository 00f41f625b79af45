"""What the widgets' tests read in a picture, and what holds for every widget."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from html import unescape

from attend.widgets import View

SVG = "{http://www.w3.org/2000/svg}"
IMAGE = re.compile(r'<img alt="([^"]+)" src="data:image/svg\+xml;base64,([^"]+)"')
MOST_MARKS = 4096
"""Elements of a picture: more are slow to redraw while a slider moves."""


def panels(html: str) -> dict[str, ET.Element]:
    """The panels by name; fails where the picture is not well-formed XML."""
    root = ET.fromstring(f"<body>{html}</body>")
    return {svg.get("data-panel", ""): svg for svg in root.iter(f"{SVG}svg")}


def controls(view: View, kind: type) -> list:
    """A widget's controls of one kind, in order."""
    found, queue = [], list(view.children)
    while queue:
        widget = queue.pop(0)
        queue = [*getattr(widget, "children", ()), *queue]
        if isinstance(widget, kind):
            found.append(widget)
    return found


def assert_shows_itself(view: View, *names: str) -> None:
    """Hold a widget to what all owe: panels of these names, alive or not, readable without eyes."""
    bundle = view._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert view.see in bundle["text/plain"]
    html = view.static()
    assert "<script" not in html
    drawn = panels(html)
    assert list(drawn) == list(names)
    for panel in drawn.values():
        assert panel.get("role") == "img"
        assert len(panel.get("aria-label", "")) > 30
        assert panel.find(f"{SVG}desc") is not None
        assert panel.get("viewBox", "").startswith("0 0 ")
        assert next(panel.iter(f"{SVG}title")).text, "marks tell their value on hover"
    assert sum(len(list(panel.iter())) for panel in drawn.values()) < MOST_MARKS
    still = bundle["text/html"]
    assert view.see in unescape(still)
    assert "<svg" not in still, "a notebook that is not trusted loses SVG, but not images"
    for (words, content), panel in zip(IMAGE.findall(still), drawn.values(), strict=True):
        assert unescape(words) == panel.get("aria-label")
        assert ET.fromstring(base64.b64decode(content)).get("data-panel") == panel.get("data-panel")
