"""Pictures for who only reads a notebook: they are there, they are not stale, Lab goes without."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path

import nbformat
import pytest
from attend import build, chapter, start, widgets, workspace
from attend.book import signature
from attend.curriculum import CHAPTERS

from .documentation import of_the_tables

READY = [each for each in CHAPTERS if each.is_ready()]
SVG = "{http://www.w3.org/2000/svg}"
TWO = (
    '<div><svg viewBox="0 0 700 90" aria-label="One. It is seen. {long}" font-family="F, serif">'
    '<desc>no</desc><rect fill="var(--jp-border-color2, #d8dee4)" x="1"/></svg>'
    '<p>between</p><svg viewBox="0 0 400 50" aria-label="Two &quot;x&quot;">'
    '<circle r="3"><title>a hover</title></circle></svg></div>'
)


@pytest.mark.parametrize("planned", READY, ids=[each.id for each in READY])
def test_each_notebook_shows_a_picture_to_who_only_reads(planned):
    text = signature.place(planned.id).read_text(encoding="utf-8")
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    assert 30 < len(root.get("aria-label", "")) <= 4 * signature.LETTERS
    assert len(list(root.iter(f"{SVG}rect"))) > 1
    assert not [word for word in ("var(", "<script", "href", "<image") if word in text]
    assert len(text) < 150_000
    cells = nbformat.read(planned.notebook(), as_version=4).cells
    (place,) = (i for i, cell in enumerate(cells) if cell.id == start.PICTURE)
    name = signature.widget(chapter.read(chapter.source_path(planned.id)))
    assert f"widgets.{name}()" in cells[place - 1].source
    assert cells[place].source == signature.link(planned.id)
    assert cells[place].source.endswith(f"]({planned.id}.svg)")
    assert place <= 4, "on the first screen"


@of_the_tables
@pytest.mark.slow
def test_no_picture_is_stale(capsys: pytest.CaptureFixture[str]):
    assert signature.main(check=True) == 0, capsys.readouterr().err


def test_a_stale_picture_is_named_and_drawn_again(tmp_path: Path, monkeypatch, capsys):
    path = tmp_path / "a.svg"
    monkeypatch.setattr(signature, "place", lambda _: path)
    monkeypatch.setattr(chapter, "chapter_ids", lambda: ["03_attention"])
    assert signature.main(check=True) == 1
    assert "a.svg is stale: run make pictures" in capsys.readouterr().err
    assert signature.main() == 0
    drawn = path.read_text()
    assert drawn == signature.document(widgets.drag_query().static())
    assert signature.main(check=True) == 0
    path.write_text(drawn.replace("cat", "dog"))
    assert signature.main(check=True) == 1
    monkeypatch.setattr(signature, "picture", lambda _: None)
    assert signature.main() == 0
    assert not path.exists()


def test_a_picture_holds_all_panels():
    made = signature.document(TWO.format(long="Word " * 60 + "end."))
    root = ET.fromstring(made)
    assert root.get("viewBox") == "0 0 700 150"
    assert root.get("font-family") == "F, serif"
    assert unescape(signature.words(made)) == 'One. It is seen. Two "x".'
    one, two = root.findall(f"{SVG}svg")
    assert (one.get("x"), one.get("y"), two.get("x"), two.get("y")) == ("0", "0", "0", "100")
    assert next(one.iter(f"{SVG}rect")).get("fill") == "#d8dee4"
    assert not list(two.iter(f"{SVG}title"))
    beside = signature.document(TWO.format(long="").replace(" 700 ", " 500 "))
    assert ET.fromstring(beside).get("viewBox") == "0 0 910 90"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('<r x="1.25" fill="#440154"/>', '<r x="1.26" fill="#440154"/>', True),
        ('<r x="1.25" fill="#440154"/>', '<r x="1.25" fill="#450253"/>', True),
        ('<r x="12"/>', '<r x="12.01"/>', True),
        ('<r x="1.25"/>', '<r x="1.28"/>', False),
        ('<r x="1.25"/>', '<s x="1.25"/>', False),
        ('<r fill="#440154"/>', '<r fill="#550154"/>', False),
        ('<r x="1"/>', '<r x="1"/><r x="2"/>', False),
        ("<t>e−31</t>", "<t>e−33</t>", False),
        ('x="9.87929"', 'x="9.87931"', True),
        ('x="9.87929"', 'x="9.87959"', False),
    ],
)
def test_pictures_may_differ_by_rounding_alone(one: str, other: str, same: bool):
    assert signature.same(one, other) is same


def test_a_widget_with_the_learners_functions_is_no_signature(tmp_path: Path):
    path = tmp_path / "01_x.py"
    path.write_text("# %%\nwidgets.dk_explorer(1)\n# %%\nwidgets.drag_query()\n")
    assert signature.widget(chapter.read(path)) is None
    path.write_text("# %%\nx = 1\n# %%\nshown(widgets.drag_query())\n")
    assert signature.widget(chapter.read(path)) == "drag_query"


def test_learners_get_the_notebook_without_the_picture(tmp_path: Path):
    planned = next(each for each in READY if each.id == "03_attention")
    copied = json.loads(workspace.newest(planned.notebook()))
    whole = json.loads(planned.notebook().read_text(encoding="utf-8"))
    assert [c["id"] for c in whole["cells"] if c not in copied["cells"]] == [start.PICTURE]
    assert copied["metadata"] == whole["metadata"]
    workspace.prepare(tmp_path)
    assert json.loads((tmp_path / "03_attention.ipynb").read_bytes()) == copied
    assert workspace.same_course(tmp_path / "03_attention.ipynb", planned.notebook(), tmp_path)
    plain = tmp_path / "plain.ipynb"
    for content in (b'{"cells": []}', b"no notebook", b'{"cells": 3}'):
        plain.write_bytes(content)
        assert workspace.newest(plain) == content


def test_links_between_chapters_lead_to_neighbours(tmp_path: Path):
    folders, flat = "see [16](../16_flash/16_flash.ipynb#x)", "see [16](16_flash.ipynb#x)"
    for source in (folders, [folders, " ../16_flash/16_flash.ipynb"]):
        (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [{"source": source}]}))
        (cell,) = json.loads(workspace.newest(tmp_path / "a.ipynb"))["cells"]
        assert cell["source"] in (flat, [flat, " ../16_flash/16_flash.ipynb"])


def test_a_chapter_without_a_picture_has_no_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(signature, "place", lambda _: tmp_path / "none.svg")
    made = build.release_notebook("03_attention")
    assert not [cell for cell in made.cells if cell.id == start.PICTURE]
