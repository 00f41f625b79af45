"""What a page could do in a browser."""

from __future__ import annotations

import re
from typing import Any, cast

from bs4 import BeautifulSoup
from nbconvert import HTMLExporter
from nbformat import NotebookNode


def shown(cell: NotebookNode) -> BeautifulSoup:
    """A cell's text as feedback and formgrader show it."""
    page = HTMLExporter().markdown2html(cast(Any, {"cell": cell}), cell.source)
    return BeautifulSoup(page, "html.parser")


def active(page: BeautifulSoup) -> list[str]:
    """What could act in a browser."""
    found = [str(tag) for tag in page.find_all(["script", "iframe", "object", "embed", "form"])]
    for tag in page.find_all():
        for name, value in tag.attrs.items():
            scheme = re.match(r"(?i)\s*(javascript|vbscript|data|file)\s*:", str(value))
            picture = tag.name == "img" and str(value).startswith("data:image/")
            if name.startswith("on") or (scheme and not picture):
                found.append(f"{tag.name} {name}={value}")
    return found + re.findall(r"\\href\{java\s*script:", page.get_text())  # for MathJax
