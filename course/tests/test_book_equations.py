"""Equations of the book: every one of the course is MathML, and a font says how it is laid out."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from attend import chapter
from attend.book import font
from attend_grader.gradebook.mathml import convert
from fontTools.ttLib import TTFont

EQUATION = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
OPTION = re.compile(r"(?:\\begin\{[a-z]+\}|\\\\)\s*\[")
"""A bracket behind a beginning or a line break: what is in it is not shown."""

INLINE = re.compile(r"(?<![\\$`])\$([^$`\n]+)\$")


@pytest.mark.parametrize("chapter_id", chapter.chapter_ids())
def test_every_equation_of_a_chapter_is_mathml(chapter_id: str):
    cells = chapter.read(chapter.source_path(chapter_id)).cells
    text = "\n".join(cell.text for cell in cells if cell.kind == "markdown")
    blocks = EQUATION.findall(text)
    assert blocks
    for tex in [*blocks, *INLINE.findall(EQUATION.sub("", text))]:
        made = convert(tex, display="block")
        root = ElementTree.fromstring(made)
        letters = "".join(root.itertext())
        assert "\\" not in letters.replace("\\", "", tex.count("setminus")), tex
        assert "&" not in letters, tex
        assert 'linebreak="newline"' not in made, tex
        assert not OPTION.search(tex), "MathJax takes what stands in [ ] for an option: " + tex


def test_the_font_says_how_far_down_a_subscript_goes(tmp_path: Path):
    font.write(tmp_path)
    made = TTFont(tmp_path / "math.woff")
    constants = made["MATH"].table.MathConstants
    assert constants.SubscriptShiftDown.Value == font.CONSTANTS["SubscriptShiftDown"]
    assert constants.ScriptPercentScaleDown == 73
    letters = made.getBestCmap() or {}
    assert {0x41, 0x3B1, 0x2211, 0x221E, 0x1D465} <= set(letters)
    named = {record.nameID: record.toUnicode() for record in made["name"].names}
    assert named[1] == named[4] == font.NAME
    assert "STI Pub" in named[0], "whose letters they are"
    assert "SIL Open Font License" in (tmp_path / "math-LICENSE.txt").read_text(errors="replace")
    assert (tmp_path / "math.woff").stat().st_size < 250_000
