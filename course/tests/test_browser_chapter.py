"""A chapter as a learner lives it: opened unsolved, got wrong, solved, looked at; no network."""

from __future__ import annotations

import pytest
from attend import build, start
from attend_grader import chapters
from nbformat import NotebookNode

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.deep]

CHAPTER = "03_attention"


def unsolved() -> NotebookNode:
    """As learners get it: their folder has no pictures for readers."""
    made = build.release_notebook(CHAPTER)
    made.cells = [cell for cell in made.cells if cell.id != start.PICTURE]
    return made


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Lab:
    lab.write(f"{CHAPTER}.ipynb", unsolved())
    lab.open(f"{CHAPTER}.ipynb")
    lab.run_all()
    return lab


def position(lab: Lab, cell_id: str) -> int:
    """Where a cell is, counting all cells from 0."""
    ids = lab.script("return panel.content.widgets.map(cell => cell.model.sharedModel.id)")
    return ids.index(cell_id)


def card(lab: Lab, name: str):
    return lab.cell(position(lab, f"check-{name}")).locator(".attend-card")


def run_cells(lab: Lab, *cell_ids: str) -> None:
    for cell_id in cell_ids:
        lab.script("panel.content.activeCellIndex = argument", position(lab, cell_id))
        lab.script("await app.commands.execute('notebook:run-cell')")
    lab.idle()


def answers() -> dict[str, str]:
    names = chapters.INDEX[CHAPTER]
    return {c.id: c.source for c in build.solved_notebook(CHAPTER).cells if c.id in names}


def test_unsolved_notebook_runs_to_its_end(opened: Lab):
    for name in chapters.INDEX[CHAPTER]:
        card(opened, name).wait_for()
        assert "not started" in card(opened, name).inner_text()
    waiting = opened.page.get_by_text("This cell waits for:")
    assert waiting.count() >= len(chapters.INDEX[CHAPTER])
    assert opened.page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    opened.screenshot("chapter03-unsolved", card(opened, "softmax"))
    opened.assert_quiet()


def test_a_slip_is_explained_on_the_card(opened: Lab):
    slip = answers()["softmax"].replace("axis=axis", "axis=0")
    opened.set_source(position(opened, "softmax"), slip)
    run_cells(opened, "softmax", "check-softmax")
    said = card(opened, "softmax").inner_text()
    exercise = chapters.exercise(f"{CHAPTER}/softmax")
    assert f"of {exercise.points} points" in said
    assert "expected" in said
    opened.screenshot("chapter03-slip", card(opened, "softmax"))
    opened.assert_quiet()


def test_the_verdict_stays_in_view_on_a_small_screen(opened: Lab):
    opened.page.set_viewport_size({"width": 1366, "height": 768})
    slip = answers()["softmax"].replace("axis=axis", "axis=0")
    opened.set_source(position(opened, "softmax"), slip)
    run_cells(opened, "softmax")
    opened.script("panel.content.activeCellIndex = argument", position(opened, "check-softmax"))
    opened.script("await app.commands.execute('notebook:run-cell-and-select-next')")
    opened.idle()
    opened.screenshot("chapter03-verdict-1366")
    shown = card(opened, "softmax").bounding_box()
    assert shown is not None
    verdict_at_the_end = shown["y"] + shown["height"]
    assert 0 < shown["y"] < 768 or 0 < verdict_at_the_end < 768, shown


def test_a_renamed_function_is_explained(opened: Lab):
    opened.set_source(
        position(opened, "softmax"), "def softmx(scores, axis=-1):\n    return scores"
    )
    opened.script("await panel.sessionContext.restartKernel()")
    opened.run_all()
    said = opened.cell(position(opened, "check-softmax")).inner_text()
    assert "softmax is not defined" in said
    assert "Rename it to softmax" in said
    assert "NameError" in said


def test_solved_notebook_shows_every_card_and_picture(opened: Lab):
    for name, source in answers().items():
        opened.set_source(position(opened, name), source)
    opened.script("await panel.sessionContext.restartKernel()")
    opened.run_all()
    for name in chapters.INDEX[CHAPTER]:
        points = chapters.exercise(f"{CHAPTER}/{name}").points
        assert f"{points} of {points} points" in card(opened, name).inner_text()
    opened.page.locator(".vega-embed svg.marks").last.wait_for()
    source = unsolved().cells
    for index, cell in enumerate(source):
        if cell.cell_type != "code":
            continue
        if "widgets." in cell.source and "import" not in cell.source:
            opened.cell(index).locator("svg[data-panel]").first.wait_for()
        if "charts." in cell.source and "import" not in cell.source:
            chart = opened.cell(index).locator(".vega-embed svg.marks").first
            chart.wait_for()
            box = chart.bounding_box()
            assert box is not None
            assert box["width"] > 300
    assert opened.page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    assert opened.page.locator("[data-mime-type*=stderr]").all_inner_texts() == []
    opened.assert_quiet()


@pytest.mark.parametrize("width", [1280, 800])
def test_pictures_of_the_chapter(opened: Lab, width: int):
    opened.resize(width)
    cells = unsolved().cells
    shown = [i for i, c in enumerate(cells) if "charts." in c.source or "widgets." in c.source]
    for number, index in enumerate(shown[1:], 1):
        path = opened.screenshot(f"chapter03-{width}-{number}", opened.cell(index))
        assert path.stat().st_size > 5_000
    opened.screenshot(f"chapter03-{width}-card", card(opened, "softmax"))
    opened.assert_quiet()


def test_the_dial_answers_to_a_key_in_the_chapter(opened: Lab):
    cells = unsolved().cells
    index = next(i for i, c in enumerate(cells) if "dk_explorer" in c.source)
    cell = opened.cell(index)
    cell.scroll_into_view_if_needed()
    before = cell.locator(".attend-panels").inner_html()
    cell.locator(".noUi-handle").focus()
    opened.page.keyboard.press("ArrowRight")
    for _ in range(100):
        if cell.locator(".attend-panels").inner_html() != before:
            break
        opened.page.wait_for_timeout(50)
    assert cell.locator(".attend-panels").inner_html() != before
    opened.assert_quiet()
