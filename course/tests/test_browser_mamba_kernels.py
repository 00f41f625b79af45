"""Chapter 25's widget as a learner sees it: drawn, moved by keys, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

SETUP = """
from attend import widgets
from attend_solutions.mamba_kernels import ssd_chunked
"""
CELLS = (SETUP, "widgets.semiseparable()", "widgets.semiseparable(ssd_chunked)")


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("kernels.ipynb", *CELLS)
    for index in (1, 2):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def test_both_pictures_are_drawn(opened: Lab):
    assert [opened.cell(i).locator("svg[data-panel]").count() for i in (1, 2)] == [2, 2]
    assert opened.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0
    opened.assert_quiet()


@pytest.mark.parametrize("index", [1, 2])
def test_chunk_and_decay_follow_the_keyboard(opened: Lab, index: int):
    cell = opened.cell(index)
    cell.scroll_into_view_if_needed()
    before = opened.said("costs", index)
    cell.locator(".noUi-handle").first.focus()
    opened.page.keyboard.press("ArrowRight")
    assert "chunks of 5" in opened.changed(before, lambda: opened.said("costs", index))
    before = opened.said("blocks", index)
    cell.locator(".noUi-handle").last.focus()
    opened.page.keyboard.press("ArrowLeft")
    assert "0.80 a step" in opened.changed(before, lambda: opened.said("blocks", index))
