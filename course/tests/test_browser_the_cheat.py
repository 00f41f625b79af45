"""The cheat, as a learner pokes it: a click and the keys train anew; both themes, both widths."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

HOOK = "from attend import widgets\n\nwidgets.the_cheat()"
OWN = """
from attend import widgets
from attend_solutions.self_attention import self_attention

widgets.the_cheat(self_attention)
"""


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("cheat.ipynb", HOOK, OWN, "widgets.the_cheat(lambda *a: None)")
    lab.cell(1).locator("svg[data-panel=written]").wait_for()
    return lab


def status(lab: Lab, index: int) -> str:
    return lab.cell(index).get_by_role("status").last.inner_text()


@pytest.mark.parametrize("index", [0, 1])
def test_a_click_opens_a_diagonal_and_trains_anew(opened: Lab, index: int):
    cell = opened.cell(index)
    opened.until("It sees nothing ahead", lambda: status(opened, index))
    cell.locator("[data-offset='1']").nth(4).click()
    said = opened.until("It sees 1 ahead", lambda: status(opened, index))
    assert "as trained: 0.00 bits" in said
    cell.get_by_role("button", name="only the past").click()
    opened.until("It sees nothing ahead", lambda: status(opened, index))
    opened.assert_quiet()


def test_keys_alone_do_it(opened: Lab):
    cell = opened.cell(0)
    slider = cell.get_by_role("slider")
    slider.focus()
    opened.page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "2 ahead"
    cell.get_by_role("button", name="show or hide it").focus()
    opened.page.keyboard.press("Enter")
    opened.until("It sees 2 ahead", lambda: status(opened, 0))
    opened.page.keyboard.press("Enter")
    opened.until("It sees nothing ahead", lambda: status(opened, 0))
    opened.assert_quiet()


def test_a_wrong_function_is_told(opened: Lab):
    opened.until("should return an output", lambda: status(opened, 2))


@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_it_fits_and_can_be_read(opened: Lab, width: int, theme: str):
    opened.theme(theme)
    opened.resize(width)
    opened.assert_fits(opened.cell(0))
    opened.screenshot(f"the-cheat-{width}-{theme.lower()}", opened.cell(0))
    opened.assert_quiet()
