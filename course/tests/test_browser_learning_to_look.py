"""Chapter 02's first picture in a browser: its slider, its buttons, in two windows."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    shown = ("widgets.learning_to_look()", "widgets.look_back()")
    lab.show("look.ipynb", "from attend import widgets", *shown)
    lab.cell(1).locator("svg[data-panel]").first.wait_for()
    return lab


def until(lab: Lab, words: str, panel: str = "matrix") -> str:
    """Wait until the picture says `words`; return all it says."""
    return lab.until(words, lambda: lab.said(panel, 1))


def test_arrow_keys_go_back_in_training(opened: Lab):
    until(opened, "After 160 steps, 6 of 6 largest weights lie on the ring.")
    opened.cell(1).locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowLeft")
    until(opened, "After 100 steps")
    opened.page.keyboard.press("ArrowRight")
    until(opened, "After 160 steps")
    opened.assert_quiet()


def test_a_click_hides_a_word(opened: Lab):
    button = opened.cell(1).get_by_role("button", name="2004")
    button.click()
    until(opened, "5 of 6 largest weights")
    until(opened, "with attention: 1 wrong", "written")
    button.click()
    until(opened, "with attention: all right", "written")
    opened.assert_quiet()


def test_a_sentence_is_typed(opened: Lab):
    field = opened.cell(1).locator("input[type=text]").first
    field.fill("june 9 2010")
    field.press("Enter")
    until(opened, "3 of 3 largest weights")
    field.fill("saturday the 7th of march 1987 and may 2 2004")
    field.press("Enter")
    until(opened, "6 of 6 largest weights")
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_fit_the_window(opened: Lab, width: int):
    opened.resize(width)
    for cell in (1, 2):
        opened.assert_fits(opened.cell(cell))
        opened.screenshot(f"learning-to-look-{width}-{cell}", opened.cell(cell))
    opened.assert_quiet()
