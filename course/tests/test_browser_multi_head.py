"""Chapter 05's widgets as a learner sees them: drawn, moved by keys, offline."""

from __future__ import annotations

import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]

SETUP = """
import torch
from attend import charts, widgets
from attend.data.two_relations import two_relations
from attend_solutions.multi_head import MultiHeadAttention, kv_cache_bytes
torch.manual_seed(0)
data = two_relations(0, 3)
"""
HEADS = """
marks = {"friend": data.places[..., 0], "house": data.places[..., 1]}
names = [data.row(n) for n in range(3)]
widgets.head_explorer(MultiHeadAttention(48, 8), 4 * data.x, names, marks=marks)
"""
CACHE = "widgets.kv_cache_calculator(kv_cache_bytes)"
SURGERY = "widgets.head_surgery()"
CELLS = (SETUP, HEADS, CACHE, SURGERY)
HEADS_AT, CACHE_AT, SURGERY_AT = 1, 2, 3


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.show("heads.ipynb", *CELLS)
    for index in (HEADS_AT, CACHE_AT, SURGERY_AT):
        lab.cell(index).locator("svg[data-panel]").first.wait_for()
    return lab


def test_every_picture_is_drawn(opened: Lab):
    counts = [
        opened.cell(i).locator("svg[data-panel]").count() for i in (HEADS_AT, CACHE_AT, SURGERY_AT)
    ]
    assert counts == [3, 2, 2]
    assert opened.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0
    opened.assert_quiet()


def test_heads_follow_both_sliders_and_the_example(opened: Lab):
    cell = opened.cell(HEADS_AT)
    cell.scroll_into_view_if_needed()
    query, head = cell.locator(".noUi-handle").all()
    before = opened.said("arcs", HEADS_AT)
    assert "head 1 in full" in before
    query.focus()
    opened.page.keyboard.press("ArrowRight")
    moved = opened.changed(before, lambda: opened.said("arcs", HEADS_AT))
    head.focus()
    opened.page.keyboard.press("ArrowRight")
    other = opened.changed(moved, lambda: opened.said("arcs", HEADS_AT))
    assert "head 2 in full" in other
    assert "In head 2" in other
    cell.locator("select").select_option(label="3 of 3")
    opened.changed(other, lambda: opened.said("arcs", HEADS_AT))
    opened.assert_quiet()


def test_the_calculator_follows_model_tokens_and_bits(opened: Lab):
    cell = opened.cell(CACHE_AT)
    cell.scroll_into_view_if_needed()
    before = opened.said("models", CACHE_AT)
    assert "Llama 2 70B keeps 1.25 GiB" in before
    cell.locator(".noUi-handle").first.focus()
    opened.page.keyboard.press("ArrowRight")
    longer = opened.changed(before, lambda: opened.said("models", CACHE_AT))
    assert "Llama 2 70B keeps 2.5 GiB" in longer
    cell.locator("select").first.select_option(label="DeepSeek-V2")
    other = opened.changed(longer, lambda: opened.said("models", CACHE_AT))
    assert "DeepSeek-V2 keeps 540 MiB" in other
    cell.locator("select").nth(1).select_option(label="8 bits")
    assert "DeepSeek-V2 keeps 270 MiB" in opened.changed(
        other, lambda: opened.said("models", CACHE_AT)
    )
    assert "DeepSeek-V2 with other heads" in opened.said("variants", CACHE_AT)
    opened.assert_quiet()


def test_a_click_and_a_key_switch_heads_off_and_on(opened: Lab):
    cell = opened.cell(SURGERY_AT)
    cell.scroll_into_view_if_needed()
    whole = opened.said("answers", SURGERY_AT)
    assert "With all heads" in whole
    cell.get_by_role("button", name="head 6").click()
    without = opened.changed(whole, lambda: opened.said("answers", SURGERY_AT))
    assert "Without head 6: error of the friend 0.98" in without
    opened.page.keyboard.press("Space")  # the button has the focus
    assert opened.changed(without, lambda: opened.said("answers", SURGERY_AT)) == whole
    heads = opened.said("surgery", SURGERY_AT)
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    fewer = opened.changed(heads, lambda: opened.said("surgery", SURGERY_AT))
    assert "4 heads of keys and values" in fewer
    opened.page.keyboard.press("ArrowLeft")
    opened.changed(fewer, lambda: opened.said("surgery", SURGERY_AT))
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_fit_the_window(opened: Lab, width: int):
    opened.resize(width)
    for index, name in {HEADS_AT: "heads", CACHE_AT: "cache", SURGERY_AT: "surgery"}.items():
        cell = opened.cell(index)
        opened.assert_fits(cell)
        opened.screenshot(f"multi-head-{width}-{name}", cell)
    opened.assert_quiet()
