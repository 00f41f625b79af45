"""Drag the query, as a learner does: by mouse, by keys, with the page's numbers and one's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attend.widgets import drag_query
from attend.widgets.drag_query import CENTRE, UNIT, measure
from nbformat.v4 import new_code_cell, new_output
from playwright.sync_api import Locator

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = pytest.mark.browser

LOOKS = Path(__file__).with_name("looks.js").read_text()
HOOK = "from attend import widgets\n\nwidgets.drag_query()"
OWN = """
import numpy as np

def attend(q, k, v):
    "Hard attention: all weight on the best key."
    weights = (np.arange(len(k)) == (q @ k.T).argmax()).astype(float)[None]
    return weights @ v, weights

widgets.drag_query(attend)
"""


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("drag.ipynb", HOOK, OWN, "widgets.drag_query(lambda q, k, v: None)")
    for index in range(3):
        lab.cell(index).get_by_role("slider", name="query").wait_for()
    return lab


def status(lab: Lab, index: int) -> str:
    return lab.cell(index).get_by_role("status").inner_text()


def numbers(said: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", said)]


def drag(lab: Lab, handle: Locator, x: float, y: float) -> None:
    """Pull a handle to a point of the plane."""
    handle.scroll_into_view_if_needed()
    place = handle.evaluate(
        """(node, [x, y]) => {
            const at = new DOMPoint(x, y).matrixTransform(node.ownerSVGElement.getScreenCTM());
            return [at.x, at.y]; }""",
        [CENTRE[0] + UNIT * x, CENTRE[1] - UNIT * y],
    )
    box = handle.bounding_box()
    assert box is not None
    lab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    lab.page.mouse.down()
    lab.page.mouse.move(*place, steps=6)
    lab.page.mouse.up()


def test_it_works_before_anything_is_written(opened: Lab):
    cell = opened.cell(0)
    query = cell.get_by_role("slider", name="query")
    drag(opened, query, -0.5, 0.7)
    said = opened.until("arrow", lambda: status(opened, 0))
    q = [float(part) for part in (query.get_attribute("aria-valuetext") or "").split(",")]
    assert q == pytest.approx([-0.5, 0.7], abs=0.02)
    expected = measure(q, 1.0)
    wanted = [*expected["weights"], *expected["output"]]
    assert numbers(said)[:5] == pytest.approx(wanted, abs=0.02)
    query.focus()
    opened.page.keyboard.press("Shift+ArrowRight")
    assert (query.get_attribute("aria-valuetext") or "").startswith(f"{q[0] + 0.5 + 1e-9:.2f}")
    opened.assert_quiet()


def test_stretched_scores_end_in_a_corner_and_the_arrow_vanishes(opened: Lab):
    cell = opened.cell(0)
    drag(opened, cell.get_by_role("slider", name="query"), 1.6, 0.4)
    arrow = cell.locator("[data-part=pull]")
    assert arrow.get_attribute("visibility") == "visible"
    stretch = cell.get_by_role("slider", name="stretch the scores")
    stretch.focus()
    opened.page.keyboard.press("End")
    said = opened.until("cat 1.00", lambda: status(opened, 0))
    assert numbers(said)[-1] < 1e-6
    assert arrow.get_attribute("visibility") == "hidden"
    assert stretch.get_attribute("aria-valuetext") == "× 64"
    opened.page.keyboard.press("Home")
    opened.assert_quiet()


def test_ones_own_function_answers_from_python(opened: Lab):
    query = opened.cell(1).get_by_role("slider", name="query")
    drag(opened, query, -1.0, 1.2)
    opened.until("cat 0.00, sat 1.00, mat 0.00", lambda: status(opened, 1))
    drag(opened, query, -0.4, -1.5)
    opened.until("cat 0.00, sat 0.00, mat 1.00", lambda: status(opened, 1))
    assert "should return" in status(opened, 2)
    assert "run check(scaled_dot_product_attention)" in status(opened, 2).lower()
    opened.assert_quiet()


@pytest.mark.deep
def test_it_can_be_read_in_both_themes_wide_and_narrow(opened: Lab):
    for width in (1280, 800):
        opened.resize(width)
        if width == 800:
            opened.show_files()
        for theme in ("Dark", "Light"):
            opened.theme(theme)
            seen = opened.page.evaluate(LOOKS)
            assert seen["texts"] > 40
            assert seen["faint"] == [], (width, theme)
            assert seen["cut"] == [], (width, theme)
            area = opened.cell(0).locator(".jp-OutputArea")
            opened.screenshot(f"drag-query-{width}-{theme.lower()}", area)
    opened.script("app.shell.collapseLeft()")
    opened.resize(1280)


@pytest.mark.deep
def test_without_a_kernel_the_picture_stands_still(opened: Lab):
    data = drag_query()._repr_mimebundle_()
    bundle = data[0] if isinstance(data, tuple) else data
    output = new_output("display_data", data=bundle)
    opened.show_saved("still.ipynb", new_code_cell("", outputs=[output]))
    images = opened.cell(0).locator("img")
    images.first.wait_for()
    assert images.count() == 2
    assert min(images.evaluate_all("all => all.map(image => image.naturalWidth)")) > 0
    assert "Weights: cat" in (images.first.get_attribute("alt") or "")
    opened.screenshot("drag-query-still", opened.cell(0))
