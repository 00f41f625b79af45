"""Chapter 07's widget as a learner sees it: drawn, moved by keys, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

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


def test_a_choice_redraws(opened: Lab):
    before = opened.said("stream", PICTURE)
    opened.cell(PICTURE).locator("select").select_option(label="pre-norm")
    opened.changed(before, lambda: opened.said("stream", PICTURE))


@pytest.mark.parametrize(("slider", "key"), [(0, "ArrowLeft"), (1, "ArrowRight")])
def test_keys_move_depth_and_training(opened: Lab, slider: int, key: str):
    before = opened.said("stream", PICTURE)
    opened.cell(PICTURE).locator("[role=slider]").nth(slider).focus()
    opened.page.keyboard.press(key)
    opened.changed(before, lambda: opened.said("stream", PICTURE))
