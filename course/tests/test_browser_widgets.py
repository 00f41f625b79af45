"""Widgets and charts as a learner sees them: drawn, moved by mouse and keys, offline."""

from __future__ import annotations

import pytest
from attend.widgets import dk_explorer
from nbformat.v4 import new_code_cell, new_output

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

SETUP = """
import numpy as np
from attend import charts, widgets
charts.use()

def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def scaled_dot_product_attention(q, k, v):
    weights = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    return weights @ v, weights

tokens = ["cat", "sat", "mat"]
"""
TABLE = """
widgets.attention_table(scaled_dot_product_attention, tokens, [[1, 0], [0, 1], [1, 1]])
"""
EXPLORER = """
words = "the cat sat on the mat as it rained".split()
x = np.random.default_rng(1).normal(size=(2, 9, 6))
widgets.attention_explorer(words, scaled_dot_product_attention(x, x, x)[1])
"""
CHART = """
rng = np.random.default_rng(0)
rows = [
    {"d_k": d, "way": way, "loss": 0.5 + slope * np.log2(d) + 0.1 * rng.random()}
    for d in (1, 4, 16, 64, 256)
    for way, slope in (("unscaled", 0.2), ("scaled", 0.02))
    for run in range(4)
]
charts.bands(
    rows, "d_k", "loss", "way", title="Loss after 200 steps", log_x=2,
    description="Loss against d_k, with and without the scale.",
    x_title="d_k", y_title="loss (nats)",
    colors={"unscaled": charts.UNSCALED, "scaled": charts.SCALED},
)
"""
CELLS = (SETUP, "widgets.dk_explorer()", TABLE, EXPLORER, CHART)
DK, TABLE_AT, EXPLORER_AT, CHART_AT = 1, 2, 3, 4


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("widgets.ipynb", *CELLS)
    for index in (DK, TABLE_AT, EXPLORER_AT):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def picture(lab: Lab, index: int) -> str:
    return lab.cell(index).locator(".attend-panels").inner_html()


def changed(lab: Lab, index: int, before: str) -> str:
    return lab.changed(before, lambda: picture(lab, index))


def test_every_widget_and_chart_is_drawn(opened: Lab):
    counts = [
        opened.cell(i).locator("svg[data-panel]").count() for i in (DK, TABLE_AT, EXPLORER_AT)
    ]
    assert counts == [4, 4, 2]
    chart = opened.cell(CHART_AT).locator("svg.marks")
    chart.wait_for()
    box = chart.bounding_box()
    assert box is not None
    assert box["width"] > 300
    assert box["height"] > 200
    assert opened.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0
    opened.assert_quiet()


def test_d_k_slider_moves_by_keys_and_by_mouse(opened: Lab):
    cell = opened.cell(DK)
    cell.scroll_into_view_if_needed()
    handle = cell.locator(".noUi-handle")
    before = picture(opened, DK)
    handle.focus()
    opened.page.keyboard.press("ArrowRight")
    after_key = changed(opened, DK, before)
    assert 'data-here="128"' in after_key
    track = cell.locator(".noUi-target").bounding_box()
    knob = handle.bounding_box()
    assert track is not None
    assert knob is not None
    opened.page.mouse.move(knob["x"] + knob["width"] / 2, knob["y"] + knob["height"] / 2)
    opened.page.mouse.down()
    opened.page.mouse.move(track["x"] + 1, knob["y"] + knob["height"] / 2, steps=8)
    opened.page.mouse.up()
    assert "q·k at D = 1<" in settled(opened, DK)
    opened.assert_quiet()


def settled(lab: Lab, index: int) -> str:
    """Return a cell's picture once it has stopped changing."""
    before = ""
    for _ in range(40):
        now = picture(lab, index)
        if now == before:
            return now
        before = now
        lab.page.wait_for_timeout(250)
    raise AssertionError("the picture did not settle within 10 s")


def test_editing_a_number_moves_the_weights(opened: Lab):
    cell = opened.cell(TABLE_AT)
    weights = cell.locator("svg[data-panel=weights]")
    assert "0.40, 0.20, 0.40" in (weights.get_attribute("aria-label") or "")
    before = picture(opened, TABLE_AT)
    field = cell.locator("input[type=number]").first
    field.fill("3")
    field.press("Enter")
    changed(opened, TABLE_AT, before)
    label = cell.locator("svg[data-panel=weights]").get_attribute("aria-label") or ""
    assert "0.40, 0.20, 0.40" not in label
    cell.get_by_role("button", name="Start again").click()
    settled(opened, TABLE_AT)
    label = cell.locator("svg[data-panel=weights]").get_attribute("aria-label") or ""
    assert "0.40, 0.20, 0.40" in label
    cell.locator("select").select_option(index=2)
    changed(opened, TABLE_AT, before)
    assert "output of mat" in cell.locator(".attend-sum").inner_text()
    opened.assert_quiet()


def test_explorer_follows_slider_and_dropdown(opened: Lab):
    cell = opened.cell(EXPLORER_AT)
    before = picture(opened, EXPLORER_AT)
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    moved = changed(opened, EXPLORER_AT, before)
    assert "Where “cat” looks" in moved
    cell.locator("select").select_option(label="head 2 of 2")
    assert "head 2" in changed(opened, EXPLORER_AT, moved)
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_fit_the_window(opened: Lab, width: int):
    opened.resize(width)
    names = {DK: "dk", TABLE_AT: "table", EXPLORER_AT: "explorer", CHART_AT: "chart"}
    for index, name in names.items():
        cell = opened.cell(index)
        opened.assert_fits(cell, "svg[data-panel], svg.marks")
        opened.screenshot(f"widgets-{width}-{name}", cell)
    opened.cell(0).scroll_into_view_if_needed()
    opened.screenshot(f"widgets-{width}-window")
    opened.assert_quiet()


def test_a_notebook_that_is_not_trusted_shows_images(opened: Lab):
    view = dk_explorer()
    output = new_output("display_data", data=view._repr_mimebundle_())
    opened.show_saved("reopened.ipynb", new_code_cell("", outputs=[output]))
    cell = opened.cell(0)
    cell.locator("img").first.wait_for()
    opened.assert_fits(cell, "img")
    assert cell.locator("img").count() == 4
    drawn = cell.locator("img").evaluate_all("all => all.map(image => image.naturalWidth)")
    assert min(drawn) > 0
    said = cell.locator(".jp-OutputArea").inner_text()
    assert said.strip().startswith("What to see.")
    assert view.see in said
    assert len(said) < len(view.see) + 50, "nothing but the sentence is text"
    opened.screenshot("widgets-not-trusted", cell)
    opened.assert_quiet()
