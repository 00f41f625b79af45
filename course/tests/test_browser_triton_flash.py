"""Chapter 18 in a browser: the tiles of programs follow the keys; the chapter in both themes."""

from __future__ import annotations

import pytest
from attend import build

from .browser import Lab, lab
from .test_browser_themes import sights

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]
pytest.importorskip("attend_solutions.triton_flash")

CELLS = (
    "import attend.kernels\n"
    "from attend import widgets\n"
    "from attend_solutions.triton_flash import causal_flash",
    "widgets.program_tiles(causal_flash)",
)
TILES = 1


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("tiles.ipynb", *CELLS)
    lab.cell(TILES).locator("svg[data-panel]").first.wait_for()
    return lab


def test_keys_move_the_turn_and_the_window(opened: Lab) -> None:
    assert "After turn 3, 5 of 8 programs are at work" in opened.said("programs")
    sliders = opened.cell(TILES).locator(".noUi-handle")
    sliders.nth(1).focus()
    opened.page.keyboard.press("ArrowRight")
    opened.until("After turn 4, 4 of 8 programs", lambda: opened.said("programs"))
    sliders.nth(0).focus()
    opened.page.keyboard.press("ArrowLeft")
    opened.until("of 30 needed tiles", lambda: opened.said("programs"))
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_the_picture_fits_the_window(opened: Lab, width: int) -> None:
    opened.resize(width)
    opened.assert_fits(opened.cell(TILES))
    opened.screenshot(f"triton-flash-{width}", opened.cell(TILES))
    opened.resize(1280)
    opened.assert_quiet()


def test_the_solved_chapter_can_be_read_in_both_themes(lab: Lab) -> None:
    lab.write("18_triton_flash.ipynb", build.solved_notebook("18_triton_flash"))
    lab.open("18_triton_flash.ipynb")
    lab.run_all(300)
    lab.page.locator("svg[data-panel=programs]").last.wait_for()
    for name, seen in sights(lab, "18_triton_flash"):
        assert seen["texts"] > 100
        assert seen["faint"] == [], name
        assert seen["cut"] == [], name
    lab.resize(800)
    lab.assert_text_fits()
    lab.assert_quiet()
