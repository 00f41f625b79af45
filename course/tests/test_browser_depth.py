"""Chapter 07's widget as a learner sees it: drawn, moved by keys, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = pytest.mark.browser

CELLS = ("from attend import widgets", "widgets.depth_thermometer()")
PICTURE = 1


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("depth.ipynb", *CELLS)
    lab.cell(PICTURE).locator("svg[data-panel]").first.wait_for()
    return lab


def test_both_panels_are_drawn(opened: Lab):
    assert opened.cell(PICTURE).locator("svg[data-panel]").count() == 2
    assert opened.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0
    opened.assert_quiet()


def test_each_choice_redraws(opened: Lab):
    boxes = opened.cell(PICTURE).locator("select")
    for index, label in ((1, "6"), (0, "pre-norm")):
        before = opened.said("stream", PICTURE)
        boxes.nth(index).select_option(label=label)
        opened.changed(before, lambda: opened.said("stream", PICTURE))


def test_the_keyboard_moves_a_choice(opened: Lab):
    before = opened.said("stream", PICTURE)
    opened.cell(PICTURE).locator("select").first.focus()
    opened.page.keyboard.press("ArrowUp")
    opened.changed(before, lambda: opened.said("stream", PICTURE))
