"""Chapter 15's matrix memory as a learner sees it: drawn, moved by keys, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

SETUP = """
from attend import widgets
from attend_solutions.linear_attention import delta_rule_update, recurrent_form
"""
CELLS = (
    SETUP,
    "widgets.matrix_memory()",
    "widgets.matrix_memory(recurrent_form, delta_rule_update)",
)
SUM_AT, BOTH_AT = 1, 2


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("linear_attention.ipynb", *CELLS)
    for index in (SUM_AT, BOTH_AT):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def test_every_picture_is_drawn_and_fits(opened: Lab):
    for width in (1280, 800, 470):
        opened.resize(width)
        for index in (SUM_AT, BOTH_AT):
            assert opened.cell(index).locator("svg[data-panel]").count() == 2
            opened.assert_fits(opened.cell(index))
    opened.resize(1280)
    opened.assert_quiet()


def test_the_number_of_pairs_follows_the_keyboard(opened: Lab):
    cell = opened.cell(SUM_AT)
    cell.scroll_into_view_if_needed()
    before = opened.said("letters", SUM_AT)
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.changed(before, lambda: opened.said("letters", SUM_AT))


def test_the_rule_and_the_keys_can_be_chosen(opened: Lab):
    cell = opened.cell(BOTH_AT)
    cell.scroll_into_view_if_needed()
    assert "12 of 16" in opened.said("letters", BOTH_AT)
    cell.locator("select").nth(1).select_option(label="delta rule")
    opened.until("16 of 16", lambda: opened.said("letters", BOTH_AT))
    cell.locator("select").nth(0).select_option(label="random directions")
    opened.until("of 20", lambda: opened.said("letters", BOTH_AT))
