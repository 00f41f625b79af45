"""Chapter 01 as a learner sees it: its widgets moved by keys and lists, its charts drawn."""

from __future__ import annotations

import pytest
from attend import build
from attend_grader import chapters

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

CHAPTER = "01_recurrence"
SETUP = """
import numpy as np
from attend import charts, widgets
from attend_solutions.recurrence import gradient_norms, rnn_forward
charts.use()
"""
EXPLORER = "widgets.gradient_explorer(gradient_norms, rnn_forward, seed=1)"
DECAY = """
rows = []
for radius in (0.9, 1.0, 1.1):
    for seed in range(5):
        w_h = np.random.default_rng(seed).standard_normal((8, 8))
        w_h *= radius / np.abs(np.linalg.eigvals(w_h)).max()
        norms = gradient_norms(np.zeros((1, 41, 8)), w_h)[0, ::-1]
        rows += [
            {"distance": d, "norm": float(norms[d]), "radius": f"radius {radius}"}
            for d in range(41)
        ]
charts.bands(
    rows, "distance", "norm", "radius", title="At rest, the spectral radius decides", log_y=10,
    description="Norm against distance for three radii.",
    x_title="distance T − t (steps back)", y_title="norm (log scale)",
)
"""
KNOCK = "widgets.knock()"
DIAGRAMS = ("unrolled_network()", 'cell_diagram("lstm")', 'cell_diagram("gru")')
CELLS = (SETUP, EXPLORER, DECAY, KNOCK, *(f"widgets.{name}" for name in DIAGRAMS))
EXPLORER_AT, DECAY_AT, KNOCK_AT = 1, 2, 3


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("recurrence.ipynb", *CELLS)
    lab.cell(EXPLORER_AT).locator("svg[data-panel]").first.wait_for()
    return lab


def wait_for(lab: Lab, words: str) -> None:
    lab.until(words, lambda: lab.said("curve", EXPLORER_AT))


def test_the_explorer_follows_keys_and_lists(opened: Lab) -> None:
    cell = opened.cell(EXPLORER_AT)
    wait_for(opened, "At radius 0.9 (linear, no tanh)")
    cell.scroll_into_view_if_needed()
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    wait_for(opened, "At radius 1.0")
    opened.page.keyboard.press("ArrowRight")
    wait_for(opened, "At radius 1.1")
    cell.locator("select").nth(1).select_option(label="stretched rotation")
    wait_for(opened, f"the norm is {1.1**40:.2f}")
    cell.locator("select").nth(0).select_option(label="tanh, inputs of size 1")
    wait_for(opened, "tanh, inputs of size 1")
    opened.assert_quiet()


def test_the_first_picture_follows_keys(opened: Lab) -> None:
    cell = opened.cell(KNOCK_AT)
    cell.scroll_into_view_if_needed()
    opened.until("Token 1 changed", lambda: opened.said("knock", KNOCK_AT))
    cell.locator(".noUi-handle").first.focus()
    opened.page.keyboard.press("ArrowRight")
    opened.until("Token 2 changed", lambda: opened.said("knock", KNOCK_AT))
    before = opened.said("knock", KNOCK_AT)
    cell.locator(".noUi-handle").nth(1).focus()
    for _ in range(10):
        opened.page.keyboard.press("ArrowLeft")
    opened.changed(before, lambda: opened.said("knock", KNOCK_AT))
    opened.assert_quiet()


def test_charts_are_drawn(opened: Lab) -> None:
    chart = opened.cell(DECAY_AT).locator("svg.marks")
    chart.wait_for()
    box = chart.bounding_box()
    assert box is not None
    assert box["width"] > 300
    assert box["height"] > 200
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_fit_the_window(opened: Lab, width: int) -> None:
    opened.resize(width)
    names = {EXPLORER_AT: "gradient", DECAY_AT: "decay", KNOCK_AT: "knock"}
    names |= {KNOCK_AT + 1: "unrolled", KNOCK_AT + 2: "lstm", KNOCK_AT + 3: "gru"}
    for index, name in names.items():
        cell = opened.cell(index)
        opened.assert_fits(cell, "svg[data-panel], svg.marks")
        opened.screenshot(f"recurrence-{width}-{name}", cell)
    opened.assert_quiet()


@pytest.fixture(scope="module")
def whole(lab: Lab) -> Lab:
    """The solved chapter, run; only the training of section 4 is left to test_notebooks."""
    notebook = build.solved_notebook(CHAPTER)
    for cell in notebook.cells:
        if "char_writer.train(" in cell.source:
            cell.source = ""
    lab.write("whole.ipynb", notebook)
    lab.open("whole.ipynb")
    lab.run_all()
    lab.page.locator("svg[data-panel]").first.wait_for()
    return lab


@pytest.mark.slow
def test_the_whole_chapter_is_there(whole: Lab) -> None:
    points = [e.points for e in chapters.chapter(CHAPTER).exercises]
    for card, full in zip(whole.page.locator(".attend-card").all(), points, strict=True):
        assert f"{full} of {full} points" in card.inner_text()
    assert whole.page.locator("svg.marks").count() == 3
    assert whole.page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    assert whole.page.locator("[data-mime-type*=stderr]").all_inner_texts() == []
    whole.assert_quiet()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 800])
def test_equations_and_printed_lines_fit_the_window(whole: Lab, width: int) -> None:
    whole.resize(width)
    whole.assert_text_fits()
