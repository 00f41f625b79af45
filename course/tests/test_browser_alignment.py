"""Chapter 02's alignment matrix in a browser: chosen, typed, moved by keys, in two windows."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

SETUP = """
import numpy as np
from attend import widgets
from attend.data import dates

def translate(words):
    dates.source_numbers(words)
    places = dates.aligned(words)
    weights = np.full((len(places) + 1, len(words)), 0.02)
    weights[np.arange(len(places)), places] = 1.0
    return [words[p] for p in places] + ["end"], weights / weights.sum(-1, keepdims=True)
"""
WIDGET = """
widgets.alignment_matrix(translate, [
    "saturday the 7th of march 1987 and may 2 2004",
    "1987 march 7 and friday 2 may 2003 and the 7th of march 1987",
])
"""


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("alignment.ipynb", SETUP, WIDGET)
    lab.cell(1).locator("svg[data-panel]").first.wait_for()
    return lab


def until(lab: Lab, words: str) -> str:
    """Wait until the picture (or the message in its place) says `words`; return all it says."""
    place = lab.cell(1).locator("svg[data-panel=sentences], .attend-note").first
    return lab.until(words, lambda: lab.words(place))


def test_arrow_keys_choose_the_written_word(opened: Lab):
    until(opened, "For 1987 the model looks most at 1987")
    opened.cell(1).locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    until(opened, "For march the model looks most at march")
    opened.page.keyboard.press("ArrowRight")
    until(opened, "For 7th the model looks most at 7th")
    opened.assert_quiet()


def test_a_sentence_is_chosen_or_typed(opened: Lab):
    cell = opened.cell(1)
    cell.locator("select").select_option(index=1)
    until(opened, "For 7 the model looks most at 7")
    assert cell.locator("svg[data-panel=matrix] rect title").count() == 10 * 14
    field = cell.locator("input[type=text]").first
    field.fill("9 june 2010")
    field.press("Enter")
    until(opened, "For 9 the model looks most at 9")
    field.fill("9 smarch 2010")
    field.press("Enter")
    until(opened, "does not know 'smarch'")
    field.fill("9 june 2010")
    field.press("Enter")
    until(opened, "For ")
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_fit_the_window(opened: Lab, width: int):
    opened.resize(width)
    cell = opened.cell(1)
    field = cell.locator("input[type=text]").first
    for number, sentence in enumerate(
        ("saturday the 7th of march 1987 and may 2 2004", "7 march 1987")
    ):
        field.fill(sentence)
        field.press("Enter")
        until(opened, f"weight 0.{'85' if number == 0 else '96'}")
        opened.assert_fits(cell)
        opened.screenshot(f"alignment-{width}-{number}", cell)
    opened.assert_quiet()
