"""Chapter 23's widgets as a learner sees them: drawn on, moved by keys, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

SETUP = """
from attend import widgets
from attend_solutions.state_spaces import (
    discretize, hippo_legs, hippo_reconstruct, s4d_init, s4d_kernel, ssm_recurrent
)
"""
HOOK = "widgets.curve_memory()"
OWN = "widgets.curve_memory(discretize, ssm_recurrent, hippo_legs, hippo_reconstruct)"
KERNEL = "widgets.kernel_shapes(s4d_init, s4d_kernel)"
CELLS = (SETUP, HOOK, OWN, KERNEL)
HOOK_AT, OWN_AT, KERNEL_AT = 1, 2, 3


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("state_spaces.ipynb", *CELLS)
    for index in (HOOK_AT, OWN_AT):
        lab.cell(index).get_by_role("slider", name="pen").wait_for()
    lab.cell(KERNEL_AT).locator("svg[data-panel]").first.wait_for()
    return lab


def status(lab: Lab, index: int) -> str:
    return lab.cell(index).get_by_role("status").first.inner_text()


def test_every_picture_is_drawn(opened: Lab) -> None:
    counts = [opened.cell(i).locator("svg[data-panel]").count() for i in range(1, 4)]
    assert counts == [2, 2, 2]
    assert status(opened, HOOK_AT) == status(opened, OWN_AT)
    opened.assert_quiet()


@pytest.mark.parametrize("index", [HOOK_AT, OWN_AT])
def test_a_stroke_of_the_pen_changes_what_is_drawn_back(opened: Lab, index: int) -> None:
    cell = opened.cell(index)
    cell.scroll_into_view_if_needed()
    before = status(opened, index)
    box = cell.locator("[data-part=field]").bounding_box()
    assert box is not None
    x, y = box["x"], box["y"]
    opened.page.mouse.move(x + 20, y + 0.3 * box["height"])
    opened.page.mouse.down()
    opened.page.mouse.move(x + 0.6 * box["width"], y + 0.8 * box["height"], steps=8)
    opened.page.mouse.up()
    opened.changed(before, lambda: status(opened, index))
    assert cell.locator("select").input_value() == ""


@pytest.mark.parametrize("index", [HOOK_AT, OWN_AT])
def test_the_keyboard_does_all_of_it(opened: Lab, index: int) -> None:
    cell = opened.cell(index)
    cell.locator("select").select_option("hill")
    said = opened.until("off by 0.00", lambda: status(opened, index))
    pen = cell.get_by_role("slider", name="pen")
    pen.focus()

    def place() -> int:
        words = pen.get_attribute("aria-valuetext") or ""
        return int(words.removeprefix("place ").split()[0])

    before = place()
    opened.page.keyboard.press("Shift+ArrowRight")
    assert place() == before + 10
    opened.page.keyboard.press("Shift+ArrowDown")
    said = opened.changed(said, lambda: status(opened, index))
    numbers = cell.get_by_role("slider", name="numbers N")
    numbers.focus()
    opened.page.keyboard.press("Home")
    opened.until("1 number draws", lambda: status(opened, index))
    cell.get_by_role("slider", name="time that passes").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.changed(said, lambda: status(opened, index))
    opened.assert_quiet()


def test_the_kernel_follows_the_keyboard(opened: Lab) -> None:
    cell = opened.cell(KERNEL_AT)
    cell.scroll_into_view_if_needed()
    for place in range(3):
        before = opened.said("taps", KERNEL_AT) + opened.said("circle", KERNEL_AT)
        cell.locator(".noUi-handle").nth(place).focus()
        opened.page.keyboard.press("ArrowRight")
        opened.changed(
            before, lambda: opened.said("taps", KERNEL_AT) + opened.said("circle", KERNEL_AT)
        )


@pytest.mark.parametrize("width", [1280, 470])
def test_pictures_fit_wide_and_narrow(opened: Lab, width: int) -> None:
    opened.resize(width)
    for index in range(1, 4):
        opened.cell(index).scroll_into_view_if_needed()
        opened.assert_fits(opened.cell(index))
    opened.resize(1280)
