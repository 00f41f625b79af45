"""Chapter 17's memory viewer as a learner sees it: drawn, moved by keys, played, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

SETUP = """
import attend.kernels
import torch
from attend import widgets
from attend_solutions.triton import vector_add
"""
DEMO = "widgets.memory_viewer()"
OWN = "widgets.memory_viewer(vector_add, torch.ones(37), torch.ones(37), 16)"
DEMO_AT, OWN_AT = 1, 2


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("triton.ipynb", SETUP, DEMO, OWN)
    for index in (DEMO_AT, OWN_AT):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def test_both_viewers_are_drawn(opened: Lab):
    for index in (DEMO_AT, OWN_AT):
        assert opened.cell(index).locator("svg[data-panel=memory]").count() == 1
    assert opened.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0
    opened.screenshot("memory-viewer", opened.cell(DEMO_AT))
    opened.assert_quiet()


def test_without_the_mask_neighbours_glow(opened: Lab):
    cell = opened.cell(DEMO_AT)
    before = opened.said("memory", DEMO_AT)
    cell.locator("input[type=checkbox]").focus()
    opened.page.keyboard.press("Space")
    said = opened.changed(before, lambda: opened.said("memory", DEMO_AT))
    assert "9 cells outside their buffer were touched" in said
    opened.screenshot("memory-viewer-stray", cell)


def test_steps_follow_the_keyboard_and_the_order_the_list(opened: Lab):
    cell = opened.cell(OWN_AT)
    cell.scroll_into_view_if_needed()
    before = opened.said("memory", OWN_AT)
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    moved = opened.changed(before, lambda: opened.said("memory", OWN_AT))
    assert "Step 2 of 9: program 0 loads 16 of y" in moved
    cell.locator("select").select_option(label="backwards")
    said = opened.changed(moved, lambda: opened.said("memory", OWN_AT))
    assert "program 2 loads 5 of y" in said


def test_it_plays(opened: Lab):
    cell = opened.cell(OWN_AT)
    before = opened.said("memory", OWN_AT)
    cell.locator(".jupyter-widgets.widget-play button").first.click()
    opened.changed(before, lambda: opened.said("memory", OWN_AT))
