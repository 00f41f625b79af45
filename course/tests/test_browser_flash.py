"""Chapter 16's pictures in a browser: slider and stepper follow the keys."""

from __future__ import annotations

import pytest
from attend import build

from .browser import Lab, lab
from .test_browser_themes import sights

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

CELLS = (
    "import numpy as np\n"
    "from attend import widgets\n"
    "from attend_solutions.flash import online_softmax\n"
    "q = np.array([[1, 0], [0, 2], [2, 1], [1, 1]])\n"
    "k = np.array([[1, 0], [0, 1], [2, 0], [1, 2], [3, 1], [0, 0]])\n"
    "v = np.array([[1, 0], [0, 1], [2, 0], [0, 2], [3, 0], [0, 3]])",
    "widgets.score_memory()",
    "widgets.tile_stepper(online_softmax, q, k, v)",
)
MEMORY, STEPPER = 1, 2


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("flash.ipynb", *CELLS)
    for index in (MEMORY, STEPPER):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def test_keys_move_the_number_of_tokens(opened: Lab):
    assert "At 65,536 tokens the scores take 8.59 GB" in opened.said("memory")
    opened.cell(MEMORY).locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.until("At 131,072 tokens the scores take 34.4 GB", lambda: opened.said("memory"))
    opened.assert_quiet()


def test_keys_step_through_the_tiles(opened: Lab):
    assert "40 bytes read" in opened.said("slow")
    opened.cell(STEPPER).locator(".noUi-handle").focus()
    for _ in range(2):
        opened.page.keyboard.press("ArrowRight")
    opened.until("56 bytes read from slow memory so far, 12 written", lambda: opened.said("slow"))
    opened.cell(STEPPER).locator("select").nth(1).select_option(label="6")
    opened.until("On chip are", lambda: opened.said("chip"))
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_fit_the_window(opened: Lab, width: int):
    opened.resize(width)
    for index, name in {MEMORY: "memory", STEPPER: "stepper"}.items():
        opened.assert_fits(opened.cell(index))
        opened.screenshot(f"flash-{width}-{name}", opened.cell(index))
    opened.resize(1280)
    opened.assert_quiet()


def test_the_solved_chapter_can_be_read_in_both_themes(lab: Lab):
    lab.write("16_flash.ipynb", build.solved_notebook("16_flash"))
    lab.open("16_flash.ipynb")
    lab.run_all(300)
    lab.page.locator(".vega-embed svg.marks").last.wait_for()
    for name, seen in sights(lab, "16_flash"):
        assert seen["texts"] > 100
        assert seen["faint"] == [], name
        assert seen["cut"] == [], name
    lab.resize(800)
    lab.assert_text_fits()
    lab.assert_quiet()
