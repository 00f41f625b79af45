"""Cards, widgets and charts in JupyterLab's light and dark themes, in a wide and a narrow page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from attend import build
from attend import chapter as chapter_source

from .browser import Lab, lab
from .test_browser_widgets import CHART, EXPLORER, SETUP, TABLE

__all__ = ["lab"]  # the fixture
pytestmark = pytest.mark.browser

LOOKS = Path(__file__).with_name("looks.js").read_text()
CARD = """
from attend_grader import check

def softmax(scores, axis=-1):
    weights = np.exp(scores)
    return weights / weights.sum(axis=axis, keepdims=True)

check(softmax)
"""

LEGENDS = """
for groups, letters in ((2, 37), (3, 22), (4, 15)):
    rows = [
        {"D": d, "loss": d + group, "model": str(group).ljust(letters, "x")}
        for d in (16, 64, 256) for group in range(groups)
    ]
    display(charts.line(
        rows, "D", "loss", "model", title="Loss", description="Loss against width.",
        x_title="width", y_title="loss",
    ))
"""


def sights(lab: Lab, name: str) -> Iterator[tuple[str, dict]]:
    """Look at the page in both themes, wide, and narrow beside the file browser."""
    for width in (1280, 800):
        lab.resize(width)
        if width == 800:
            lab.show_files()
        for theme in ("Light", "Dark"):
            lab.theme(theme)
            yield f"{name}-{width}-{theme.lower()}", lab.page.evaluate(LOOKS)
    lab.theme("Light")
    lab.script("app.shell.collapseLeft()")
    lab.resize(1280)


def test_all_can_be_read_in_both_themes_and_nothing_is_cut(lab: Lab):
    cells = (SETUP, "widgets.dk_explorer()", TABLE, EXPLORER, CHART, CARD)
    lab.show("themes.ipynb", *cells)
    lab.page.locator(".vega-embed svg.marks").wait_for()
    lab.page.locator(".attend-card").wait_for()
    for name, seen in sights(lab, "themes"):
        assert seen["texts"] > 150, "widgets, chart and card were measured"
        assert seen["faint"] == [], name
        assert seen["cut"] == [], name
        lab.screenshot(name)
    lab.assert_quiet()


def test_sliders_and_fields_have_names_and_say_their_value(lab: Lab):
    lab.show("names.ipynb", SETUP, "widgets.dk_explorer()", TABLE)
    handle = lab.cell(1).get_by_role("slider", name="D")
    handle.wait_for()
    assert handle.get_attribute("aria-valuetext") == "64"
    handle.focus()
    lab.page.keyboard.press("ArrowRight")
    lab.until("128", lambda: handle.get_attribute("aria-valuetext") or "")
    fields = lab.cell(2).locator("input[type=number]")
    assert fields.count() == 6
    assert lab.cell(2).get_by_role("spinbutton", name="sat, number 2").input_value() == "1"
    lab.assert_quiet()


def test_a_chart_is_as_wide_as_there_is_room_for_when_it_is_drawn(lab: Lab):
    lab.resize(800)
    lab.show("narrow.ipynb", SETUP, CHART)
    chart = lab.page.locator(".vega-embed svg.marks")
    chart.wait_for()
    lab.show_files()
    lab.run_all()
    lab.page.wait_for_timeout(300)
    room, box = lab.cell(1).locator(".jp-OutputArea-output").bounding_box(), chart.bounding_box()
    assert room is not None
    assert box is not None
    assert 0.9 * room["width"] < box["width"] <= room["width"]
    assert chart.get_attribute("width") == f"{box['width']:.0f}", "drawn anew, not shrunk"
    lab.screenshot("chart-narrow", lab.cell(1))
    lab.script("app.shell.collapseLeft()")
    lab.resize(1280)


@pytest.mark.deep
def test_a_chart_keeps_its_title_where_its_legend_breaks_into_rows(lab: Lab):
    """Names that fit into fewer columns beside the y axis than in the whole width."""
    lab.show("legends.ipynb", SETUP, LEGENDS)
    charts = lab.page.locator(".vega-embed svg.marks")
    charts.nth(2).wait_for()
    for chart in charts.all():
        picture = chart.bounding_box()
        title = chart.locator(".role-title text").bounding_box()
        legend = chart.locator(".role-legend-label").first.bounding_box()
        assert picture is not None
        assert title is not None
        assert legend is not None
        assert picture["y"] <= title["y"]
        assert title["y"] + title["height"] <= legend["y"]
    lab.assert_quiet()


@pytest.mark.deep
@pytest.mark.parametrize("chapter", chapter_source.chapter_ids())
def test_a_solved_chapter_can_be_read_in_both_themes(lab: Lab, chapter: str):
    notebook = build.solved_notebook(chapter)
    lab.write(f"{chapter}.ipynb", notebook)
    lab.open(f"{chapter}.ipynb")
    lab.run_all(300)
    if any("charts." in cell.source for cell in notebook.cells):  # 18 and 19 have widgets only
        lab.page.locator(".vega-embed svg.marks").last.wait_for()
    for name, seen in sights(lab, chapter):
        assert seen["texts"] > 100
        assert seen["faint"] == [], name
        assert seen["cut"] == [], name
    lab.assert_quiet()
