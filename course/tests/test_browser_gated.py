"""Chapter 22's picture as a learner sees it: drawn, moved by keys, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

CELLS = (
    "from attend import widgets\nfrom attend_solutions import gated_recurrence as made",
    "widgets.fading_memory(made.retention_recurrent)",
    "widgets.fading_gates(made.token_shift, made.gated_linear_attention)",
)
DECAYS_AT, GATES_AT = 1, 2


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("gated_recurrence.ipynb", *CELLS)
    for index in (DECAYS_AT, GATES_AT):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def test_every_picture_is_drawn_and_fits(opened: Lab):
    for width in (1280, 800, 470):
        opened.resize(width)
        for index in (DECAYS_AT, GATES_AT):
            assert opened.cell(index).locator("svg[data-panel]").count() == 1
            opened.assert_fits(opened.cell(index))
    opened.resize(1280)
    opened.assert_quiet()


def test_the_character_follows_the_keyboard(opened: Lab):
    cell = opened.cell(DECAYS_AT)
    cell.scroll_into_view_if_needed()
    before = opened.said("fading", DECAYS_AT)
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.changed(before, lambda: opened.said("fading", DECAYS_AT))


def test_decays_and_layers_can_be_chosen(opened: Lab):
    cell = opened.cell(DECAYS_AT)
    cell.scroll_into_view_if_needed()
    cell.locator("select").select_option(label="none: chapter 15's sum")
    opened.until("decay 1 100 %", lambda: opened.said("fading", DECAYS_AT))
    cell = opened.cell(GATES_AT)
    before = opened.said("fading", GATES_AT)
    cell.locator("select").select_option(label="second")
    opened.changed(before, lambda: opened.said("fading", GATES_AT))
