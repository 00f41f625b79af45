"""Chapter 24's widgets as a learner sees them: drawn, moved by keys, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

SETUP = """
from attend import charts, widgets
from attend.data import mamba_words
from attend.widgets.delta_explorer import NEEDED
from attend_solutions import mamba
functions = {name: getattr(mamba, name) for name in NEEDED}
"""
KEPT = "widgets.what_is_kept()"
EXPLORER = "widgets.delta_explorer(mamba_words.weights(), **functions)"
CELLS = (SETUP, KEPT, EXPLORER)
KEPT_AT, EXPLORER_AT = 1, 2


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("mamba.ipynb", *CELLS)
    for index in (KEPT_AT, EXPLORER_AT):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def test_every_picture_is_drawn(opened: Lab):
    counts = [opened.cell(i).locator("svg[data-panel]").count() for i in (KEPT_AT, EXPLORER_AT)]
    assert counts == [2, 2]
    assert opened.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0
    opened.assert_quiet()


def test_the_step_size_follows_the_keyboard(opened: Lab):
    cell = opened.cell(KEPT_AT)
    cell.scroll_into_view_if_needed()
    before = opened.said("fixed", KEPT_AT)
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.changed(before, lambda: opened.said("fixed", KEPT_AT))


def test_the_box_follows_the_keyboard(opened: Lab):
    cell = opened.cell(KEPT_AT)
    before = opened.said("fixed", KEPT_AT)
    cell.locator("input[type=checkbox]").focus()
    opened.page.keyboard.press("Space")
    assert "noise: 0 %" in opened.changed(before, lambda: opened.said("fixed", KEPT_AT))


def test_the_explorer_follows_the_token_and_the_layer(opened: Lab):
    cell = opened.cell(EXPLORER_AT)
    cell.scroll_into_view_if_needed()
    before = opened.said("left", EXPLORER_AT)
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowLeft")
    moved = opened.changed(before, lambda: opened.said("left", EXPLORER_AT))
    cell.locator("select").select_option(label="second")
    opened.changed(moved, lambda: opened.said("left", EXPLORER_AT))
