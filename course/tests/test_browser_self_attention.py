"""Chapter 04 in a browser: every picture drawn; the mask painted by mouse and by keys; offline."""

from __future__ import annotations

import pytest
from attend import build
from attend_grader import chapters

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.deep]

CHAPTER = "04_self_attention"


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.write(f"{CHAPTER}.ipynb", build.solved_notebook(CHAPTER))
    lab.open(f"{CHAPTER}.ipynb")
    lab.run_all()
    lab.cell(painter()).locator("svg[data-panel]").first.wait_for()
    lab.page.locator(".vega-embed svg.marks").last.wait_for()
    return lab


def showing(*words: str) -> list[int]:
    """Where the code cells are that hold one of `words`, counting all cells from 0."""
    cells = enumerate(build.solved_notebook(CHAPTER).cells)
    code = [(i, c.source) for i, c in cells if c.cell_type == "code"]
    return [i for i, source in code if any(word in source for word in words)]


def painter() -> int:
    (index,) = showing("widgets.mask_painter")
    return index


def until(lab: Lab, panel: str, words: str) -> str:
    return lab.until(words, lambda: lab.said(panel, painter()))


def test_every_card_and_picture_is_there(opened: Lab):
    points = [e.points for e in chapters.chapter(CHAPTER).exercises]
    for card, full in zip(opened.page.locator(".attend-card").all(), points, strict=True):
        assert f"{full} of {full} points" in card.inner_text()
    for index in showing("charts.bands"):
        box = opened.cell(index).locator(".vega-embed svg.marks").first.bounding_box()
        assert box is not None
        assert box["width"] > 300
    assert opened.page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    assert opened.page.locator("[data-mime-type*=stderr]").all_inner_texts() == []
    opened.assert_quiet()


def test_a_cell_is_painted_with_the_mouse(opened: Lab):
    cell = opened.cell(painter())
    cell.get_by_role("button", name="causal", exact=True).click()
    until(opened, "weights", "21 of 36 pairs may look")
    grid = cell.locator(".widget-gridbox button")
    assert grid.count() == 36
    grid.nth(2).click()  # the first token may now look at the third
    until(opened, "weights", "22 of 36 pairs may look")
    assert grid.nth(2).inner_text() == "1"
    grid.nth(2).click()
    until(opened, "weights", "21 of 36 pairs may look")
    opened.assert_quiet()


def test_a_cell_is_painted_with_keys_alone(opened: Lab):
    cell = opened.cell(painter())
    grid = cell.locator(".widget-gridbox button")
    grid.nth(0).focus()
    opened.page.keyboard.press("Tab")
    opened.page.keyboard.press("Space")
    until(opened, "weights", "22 of 36 pairs may look")
    opened.page.keyboard.press("Space")
    until(opened, "weights", "21 of 36 pairs may look")
    query, key, follow, layers = cell.locator(".noUi-handle").all()
    key.focus()
    opened.page.keyboard.press("End")
    cell.get_by_role("button", name="turn this cell").focus()
    opened.page.keyboard.press("Enter")
    until(opened, "weights", "22 of 36 pairs may look")
    assert grid.nth(5).inner_text() == "1"
    opened.page.keyboard.press("Enter")
    until(opened, "weights", "21 of 36 pairs may look")
    follow.focus()
    opened.page.keyboard.press("ArrowRight")
    until(opened, "flow", "Who can know of “2 · cat”")
    layers.focus()
    opened.page.keyboard.press("ArrowRight")
    until(opened, "flow", "after 4 layers")
    assert query.is_visible()
    opened.assert_quiet()


def test_presets_change_mask_and_flow(opened: Lab):
    cell = opened.cell(painter())
    follow = cell.locator(".noUi-handle").nth(2)
    follow.focus()
    opened.page.keyboard.press("Home")
    cell.get_by_role("button", name="window", exact=True).click()
    until(opened, "flow", "after 1 layer 1 · the, 2 · cat; after 2 layers 1 · the, 2 · cat, 3")
    cell.get_by_role("button", name="self", exact=True).click()
    assert "2 · cat" not in until(opened, "flow", "after 3 layers 1 · the")
    cell.get_by_role("button", name="padding left").click()
    until(opened, "weights", "24 of 36 pairs may look")
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_fit_the_window(opened: Lab, width: int):
    opened.resize(width)
    opened.assert_text_fits()
    names = ("causal", "padding left", "window")
    for name in names:
        opened.cell(painter()).get_by_role("button", name=name, exact=True).click()
        opened.page.wait_for_timeout(400)
        opened.screenshot(f"chapter04-{width}-{name.replace(' ', '-')}", opened.cell(painter()))
    for number, index in enumerate(showing("charts.bands", "widgets.")):
        cell = opened.cell(index)
        opened.assert_fits(cell, "svg[data-panel], svg.marks, .widget-gridbox")
        opened.screenshot(f"chapter04-{width}-{number}", cell)
    opened.assert_quiet()
