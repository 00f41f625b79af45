"""Chapter 06's widgets in a browser: moved by keys and by mouse, in narrow and wide windows."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

CELLS = (
    "from attend import widgets\n"
    "from attend_solutions.positions import apply_rope, sinusoidal_encoding",
    "widgets.rope_dial(apply_rope)",
    "widgets.frequency_map(sinusoidal_encoding)",
    "widgets.wall_of_clocks()",
)
DIAL, MAP, WALL = 1, 2, 3


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("positions.ipynb", *CELLS)
    for index in (DIAL, MAP, WALL):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def until(lab: Lab, panel: str, words: str) -> str:
    return lab.until(words, lambda: lab.said(panel))


def press(lab: Lab, index: int, slider: int, *keys: str) -> None:
    lab.cell(index).locator(".noUi-handle").nth(slider).focus()
    for key in keys:
        lab.page.keyboard.press(key)


def test_keys_turn_the_query_and_the_score_follows(opened: Lab):
    before = until(opened, "score", "at 4 it is ")
    press(opened, DIAL, 0, "ArrowRight")
    until(opened, "dial", "The query at 8 and the key at 3")
    assert until(opened, "score", "at 5 it is ").split("it is ")[1] != before.split("it is ")[1]
    press(opened, DIAL, 1, "ArrowRight")
    after = until(opened, "score", "at 4 it is ")
    assert after == before, "the offset is the same again"
    opened.assert_quiet()


def test_moving_both_leaves_the_score(opened: Lab):
    before = opened.said("score")
    press(opened, DIAL, 2, *["ArrowRight"] * 6)
    until(opened, "dial", "The query at 100,008 and the key at 100,004")
    assert opened.said("score") == before
    opened.assert_quiet()


def test_another_frequency_is_chosen_from_the_list(opened: Lab):
    opened.cell(DIAL).locator("select").select_option(label="θ = 1 radians a step")
    until(opened, "dial", "4 · 1 = 4.00 radians")
    opened.assert_quiet()


def test_the_map_follows_keys_and_mouse(opened: Lab):
    press(opened, MAP, 0, "ArrowLeft")
    until(opened, "map", "Encodings at base 1,000")
    press(opened, MAP, 2, "ArrowRight")
    until(opened, "alike", "The encoding of 9 ")
    cell = opened.cell(MAP)
    cell.scroll_into_view_if_needed()
    track = cell.locator(".noUi-target").nth(1).bounding_box()
    knob = cell.locator(".noUi-handle").nth(1).bounding_box()
    assert track is not None
    assert knob is not None
    y = knob["y"] + knob["height"] / 2
    opened.page.mouse.move(knob["x"] + knob["width"] / 2, y)
    opened.page.mouse.down()
    opened.page.mouse.move(track["x"] + track["width"] - 1, y, steps=8)
    opened.page.mouse.up()
    until(opened, "map", "Rows are positions 100,000 to 100,031")
    opened.assert_quiet()


def test_a_longer_text_brings_new_angles_and_gears_take_them_away(opened: Lab):
    until(opened, "clocks", "0 of 8 clocks")
    before = opened.said("loss")
    press(opened, WALL, 0, "End")
    until(opened, "clocks", "5 of 8 clocks")
    assert until(opened, "loss", "At 1,024 letters") != before
    opened.cell(WALL).get_by_role("button", name="YaRN").click()
    until(opened, "clocks", "0 of 8 clocks")
    opened.cell(WALL).get_by_role("button", name="as it was").click()
    press(opened, WALL, 1, "Home")
    until(opened, "clocks", "base 10: where the hands end. 0 of 8 clocks")
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_fit_the_window(opened: Lab, width: int):
    opened.resize(width)
    for index, name in {DIAL: "rope-dial", MAP: "frequency-map", WALL: "wall-of-clocks"}.items():
        cell = opened.cell(index)
        opened.assert_fits(cell)
        opened.screenshot(f"positions-{width}-{name}", cell)
    opened.assert_quiet()
