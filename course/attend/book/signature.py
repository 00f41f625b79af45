"""A chapter's first widget as a picture beside its notebook, for where notebooks are only read.

``make pictures`` writes ``course/NN_slug/NN_slug.svg``; ``attend build`` puts a link to it under
the widget's cell. Learners' copies have no such link: there the widget itself runs.
"""

from __future__ import annotations

import ast
import re
import sys
from html import unescape
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from attend import chapter, start, widgets
from attend.chapter import Source
from attend.widgets.kit.svg import element

WIDE, GAP = 1000.0, 10.0
"""Of a picture, and between its panels."""
LETTERS = 300
"""Of a picture's words, at most."""

_PANEL = re.compile(r"<svg\b([^>]*)>(.*?)</svg>", re.DOTALL)
_GIVEN = re.compile(r'\b(viewBox|aria-label)="([^"]*)"')
_VARIABLE = re.compile(r"var\(--[\w-]+, ?([^()]+)\)")
_HOVER = re.compile(r"<title>.*?</title>", re.DOTALL)
_NUMBER = re.compile(r"#[0-9a-f]{6}\b|-?\d+(?:\.\d+)?")


def main(check: bool = False) -> int:
    """Write the pictures of all chapters, or with ``check`` only say which are stale.

    Returns:
        0; with ``check`` 1 where one is stale.
    """
    stale = 0
    for chapter_id in chapter.chapter_ids():
        path, drawn = place(chapter_id), picture(chapter_id)
        kept = path.read_text(encoding="utf-8") if path.is_file() else ""
        if (drawn or "") == kept or (kept and drawn and same(kept, drawn)):
            continue
        if check:
            print(f"{path.name} is stale: run make pictures", file=sys.stderr)
            stale = 1
        elif drawn:
            path.write_text(drawn, encoding="utf-8")
            print(f"wrote {path.name}")
        else:
            path.unlink()
            print(f"removed {path.name}")
    return stale


def place(chapter_id: str) -> Path:
    """Where a chapter's picture is."""
    return chapter.source_path(chapter_id).with_suffix(".svg")


def widget(source: Source) -> str | None:
    """The name of the first widget that a chapter shows, where it needs nothing of the learner's.

    Returns:
        Such as ``"drag_query"``; None where the first widget takes arguments, or there is none.
    """
    for cell in source.cells:
        for node in ast.walk(cell.tree) if cell.kind == "code" else ():
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="widgets"), attr=name),
                    args=arguments,
                    keywords=keywords,
                ):
                    return None if arguments or keywords else name
    return None


def picture(chapter_id: str) -> str | None:
    """A chapter's first widget as an SVG document; None where there is none."""
    name = widget(chapter.read(chapter.source_path(chapter_id)))
    return document(getattr(widgets, name)().static()) if name else None


def document(html: str) -> str:
    """The panels of a widget's HTML in one SVG: side by side, and below each other where full."""
    panels, words = [], []
    x = y = row = wide = 0.0
    for head, body in _PANEL.findall(html):
        given = dict(_GIVEN.findall(head))
        width, height = map(float, given["viewBox"].split()[2:])
        if x and x + width > WIDE:
            x, y, row = 0.0, y + row + GAP, 0.0
        box = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        panels.append(f'<svg {box} viewBox="{given["viewBox"]}">{_HOVER.sub("", body)}</svg>')
        words.append(given["aria-label"])
        x, row = x + width + GAP, max(row, height)
        wide = max(wide, x - GAP)
    size = {"width": f"{wide:g}", "height": f"{y + row:g}", "viewBox": f"0 0 {wide:g} {y + row:g}"}
    font = re.search(r'font-family="([^"]*)"', html)
    root = element("svg", xmlns="http://www.w3.org/2000/svg", role="img", **size)
    label = " ".join(map(_short, words))
    said = f' font-family="{font[1] if font else "sans-serif"}" aria-label="{label}"'
    drawn = _VARIABLE.sub(r"\1", "\n".join(panels))
    return f"{root[:-2]}{said}>\n{drawn}\n</svg>\n"


def words(svg: str) -> str:
    """What a picture says of itself."""
    found = re.search(r'aria-label="([^"]*)"', svg)
    return found[1] if found else ""


def link(chapter_id: str) -> str | None:
    """The picture as Markdown, for the notebook beside it; None where there is none."""
    path = place(chapter_id)
    if not path.is_file():
        return None
    said = re.sub(r"[][]", "", unescape(words(path.read_text(encoding="utf-8"))))
    return f"![{said}]({path.name})"


def show(notebook: NotebookNode, chapter_id: str) -> None:
    """Put the picture under the cell of the widget, for where notebooks are only read."""
    text = link(chapter_id)
    if text is None:
        return
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and "widgets." in cell.source:
            notebook.cells.insert(number + 1, new_markdown_cell(text, id=start.PICTURE))
            return


def same(one: str, other: str) -> bool:
    """Whether two pictures are the same but for rounding, which differs between machines.

    Numbers may differ by one in the last digit that either has, or by 0.001 %; colours by a little.
    """
    if _NUMBER.sub("", one) != _NUMBER.sub("", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(a == b or _near(a, b) for a, b in pairs)


def _near(one: str, other: str) -> bool:
    if one[0] == other[0] == "#":
        parts = [[int(each[i : i + 2], 16) for i in (1, 3, 5)] for each in (one, other)]
        return max(abs(a - b) for a, b in zip(*parts, strict=True)) <= 3
    digits = max(len(each.partition(".")[2]) for each in (one, other))
    if "#" in one + other:
        return False
    allowed = max(1.1 * 10**-digits, 1e-5 * abs(float(one)))
    return abs(float(one) - float(other)) < allowed


def _short(label: str) -> str:
    """A panel's heading and as many sentences of its words as fit; its attribute is escaped."""
    sentences = re.split(r"(?<=[.!?]) ", label)
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + len(sentence) >= LETTERS / 2:
            break
        kept += f" {sentence}"
    return kept if kept.endswith((".", "!", "?")) else f"{kept}."
