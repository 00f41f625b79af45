"""Chapter 19 in a browser: the writers of rows follow the keys; the chapter in both themes."""

from __future__ import annotations

import pytest
from attend import build

from .browser import Lab, lab
from .test_browser_themes import sights

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]
pytest.importorskip("attend_solutions.triton_flash_backward")

CELLS = (
    "import attend.kernels\n"
    "from attend import widgets\n"
    "from attend_solutions.triton_flash_backward import grad_keys_values, grad_queries, one_pass",
    "widgets.row_writers((grad_keys_values, grad_queries), one_pass)",
)
ROWS = 1


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("rows.ipynb", *CELLS)
    lab.cell(ROWS).locator("svg[data-panel]").first.wait_for()
    return lab


def test_keys_move_the_tile_and_the_mask(opened: Lab) -> None:
    assert "Rows 16 to 31 of dQ: 4 programs write them" in opened.said("one-pass")
    sliders = opened.cell(ROWS).locator(".noUi-handle")
    sliders.nth(1).focus()
    opened.page.keyboard.press("ArrowRight")
    opened.until("Rows 32 to 47 of dQ: 4", lambda: opened.said("one-pass"))
    sliders.nth(0).focus()
    opened.page.keyboard.press("ArrowRight")
    opened.until("Rows 32 to 47 of dQ: 3", lambda: opened.said("one-pass"))
    assert "1 program writes them (queries 2)" in opened.said("two-passes")
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_the_picture_fits_the_window(opened: Lab, width: int) -> None:
    opened.resize(width)
    opened.assert_fits(opened.cell(ROWS))
    opened.screenshot(f"triton-flash-backward-{width}", opened.cell(ROWS))
    opened.resize(1280)
    opened.assert_quiet()


def test_the_solved_chapter_can_be_read_in_both_themes(lab: Lab) -> None:
    name = "19_triton_flash_backward"
    lab.write(f"{name}.ipynb", build.solved_notebook(name))
    lab.open(f"{name}.ipynb")
    lab.run_all(300)
    lab.page.locator("svg[data-panel=one-pass]").last.wait_for()
    for sight, seen in sights(lab, name):
        assert seen["texts"] > 100
        assert seen["faint"] == [], sight
        assert seen["cut"] == [], sight
    lab.resize(800)
    lab.assert_text_fits()
    lab.assert_quiet()
