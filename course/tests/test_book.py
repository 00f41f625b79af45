"""The book: no answer in it, nothing from the network, pictures that live or stand still."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import nbformat
import pytest
from attend import build, chapter, widgets
from attend.book import pages, site
from attend.charts import MIME
from attend.errors import AttendError
from attend.widgets.kit import states, svg
from attend_grader import chapters
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, ViewportSize, sync_playwright

from .browser import CHROMIUM

CHAPTER = "03_attention"
SPEC = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "description": "A line that rises.",
    "title": "A line",
    "data": {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
    "mark": "line",
    "encoding": {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative"},
    },
}


def _ran() -> nbformat.NotebookNode:
    """The solved chapter with outputs as a run gives them, made by hand: a run takes long."""
    notebook = build.solved_notebook(CHAPTER)
    picture = widgets.drag_query()
    state = {name: getattr(picture, name) for name in ("see", "picture", "q", "stretch", "asks")}
    state |= {"answer": picture.answer, "scene": picture.scene, "_esm": str(picture._esm)}
    notebook.metadata["widgets"] = {pages.STATES: {"state": {"m1": {"state": state}}}}
    still = picture._repr_mimebundle_()
    still = (still[0] if isinstance(still, tuple) else still)["text/html"]
    memory = widgets.score_memory()
    leaves = {states.MIME: states.table(memory), "text/html": svg.still(memory.static())}
    shown = iter(
        (
            [{pages.WIDGET: {"model_id": "m1"}, "text/html": still}],
            [{MIME: SPEC, "text/plain": "[chart]"}],
            [{pages.WIDGET: {"model_id": "unknown"}, "text/html": still}],
            [{pages.WIDGET: {"model_id": "m2"}, **leaves}],
        )
    )
    asked = {cell.id for cell in notebook.cells if "nbgrader" in cell.metadata}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                nbformat.v4.new_output("stream", name="stdout", text="one\n"),
                nbformat.v4.new_output("stream", name="stdout", text="two\n"),
                nbformat.v4.new_output("stream", name="stderr", text="a warning\n"),
            ]
            if cell.id not in asked and not cell.id.startswith("hint-"):
                data = next(shown, [])
                cell.outputs += [nbformat.v4.new_output("display_data", data=d) for d in data]
    return notebook


@pytest.fixture(scope="module")
def made() -> nbformat.NotebookNode:
    return pages.page(CHAPTER, _ran(), build.release_notebook(CHAPTER), "owner/name")


def test_stubs_stand_where_answers_stood(made):
    build.refuse_leaks(made, chapter.read(chapter.source_path(CHAPTER)))
    cells = {cell.id: cell for cell in made.cells}
    assert "raise NotImplementedError" in cells["softmax"].source
    assert cells["softmax"].outputs == []
    assert not [cell.id for cell in made.cells if cell.id.startswith(("check-", "hint-"))]
    nbformat.validate(made)


def test_of_a_bar_that_counts_the_last_state_is_shown():
    assert pages._last_written("0 %\r50 %\r     \rloss 2\n1 %\r2 %\n") == "loss 2\n2 %\n"
    assert pages._last_written("a\n\nb  \n") == "a\n\nb  \n"
    bar = nbformat.v4.new_output("stream", name="stdout", text="0 %\r   ")
    assert pages._joined([bar]) == []


def test_a_formula_that_goes_on_in_the_next_line_begins_no_list():
    text = "so $a\n+ 1$ and `$x\n+ $`\n\n$$b\n+ 2$$\n```\n$c\n- $\n```"
    wanted = "so $a + 1$ and `$x\n+ $`\n\n$$b\n+ 2$$\n```\n$c\n- $\n```"
    assert pages._MATHS.sub(pages._one_line, text) == wanted


def test_what_is_to_be_repaired_may_be_read_though_it_holds_most_of_the_answer():
    solved, released = build.solved_notebook("16_flash"), build.release_notebook("16_flash")
    shown = pages.page("16_flash", solved, released)
    tags = [tag for cell in shown.cells for tag in cell.metadata.get("tags", ())]
    assert "repair-stream_attention" in tags
    build.refuse_leaks(shown, chapter.read(chapter.source_path("16_flash")))


def test_an_answer_that_stands_elsewhere_is_refused(made):
    wrong: Any = nbformat.from_dict(made)
    answers = [c.source for c in build.solved_notebook(CHAPTER).cells if c.id == "softmax"]
    wrong.cells.append(nbformat.v4.new_code_cell(answers[0]))
    with pytest.raises(AttendError, match="leaks"):
        build.refuse_leaks(wrong, chapter.read(chapter.source_path(CHAPTER)))


def test_outputs_are_what_a_page_can_show(made):
    outputs = [output for cell in made.cells for output in cell.get("outputs", [])]
    printed = [output.text for output in outputs if output.output_type == "stream"]
    assert set(printed) == {"one\ntwo\n"}
    pictures = [output.data["text/html"] for output in outputs if "data" in output]
    kinds = ("alive", "chart", "still", "leaf")
    assert [[k for k in kinds if f"attend-{k}" in p] for p in pictures] == [[k] for k in kinds]
    assert all("<svg" in p for p in (pictures[0], *pictures[2:]))
    assert '"asks": false' in pictures[0]
    assert "data:image" not in "".join(pictures)


def test_what_ends_a_script_element_is_escaped():
    text = pages._data({"words": "</script><script>alert(1)</script>"})
    assert text.count("<") == 2
    content = text.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert json.loads(content)["words"].startswith("</script>")


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "work.txt").write_text("mine")
    with pytest.raises(AttendError, match="name another folder"):
        site.main(tmp_path, [CHAPTER])
    with pytest.raises(AttendError, match="Unknown chapter 99_none"):
        site.main(tmp_path / "new", ["99_none"])
    assert [path.name for path in tmp_path.iterdir()] == ["work.txt"]


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            del format, args

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _harmless(message: ConsoleMessage) -> bool:
    """Whether it is no complaint, or about the icon that browsers ask for by themselves."""
    asked = message.location["url"].endswith("/favicon.ico")
    return asked or message.type not in ("error", "warning")


def _problems(page: Page, here: str, path: str) -> list[str]:
    """What is wrong with a page: requests elsewhere, console messages, serious axe findings."""
    said: list[str] = []
    own = (here, "data:", "blob:")
    page.on("request", lambda r: None if r.url.startswith(own) else said.append(r.url))
    page.on("console", lambda m: None if _harmless(m) else said.append(m.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{here}/{path}.html")
    page.wait_for_function(
        "document.querySelectorAll('.attend-chart').length"
        " === document.querySelectorAll('.attend-chart svg.marks').length"
        " && !document.querySelector('.attend-alive > script, .attend-leaf > script')"
        " && document.fonts.status === 'loaded'"
    )
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        said.append("wider than the window")
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    said += [f"{each['id']}: {each['nodes'][0]['html']}" for each in serious]
    return said


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_the_site_in_a_browser(made, tmp_path, monkeypatch):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: apt install chromium")
    monkeypatch.setattr(site, "ran", lambda chapter_id: _ran())
    assert site.main(tmp_path / "book", [CHAPTER]) == 0
    with _served(tmp_path / "book") as here, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM))
        for scheme in ("light", "dark"):
            for width in (1280, 400):
                size = ViewportSize(width=width, height=900)
                context = browser.new_context(viewport=size, color_scheme=scheme)
                for path in (CHAPTER, "index", "glossary"):
                    page = context.new_page()
                    assert _problems(page, here, path) == [], (path, scheme, width)
                    page.close()
                context.close()
        page = browser.new_page()
        page.goto(f"{here}/{CHAPTER}.html")
        before = page.locator(".attend-live [role=status]").inner_text()
        page.locator(".attend-live input[type=range]").press("ArrowRight")
        assert page.locator(".attend-live [role=status]").inner_text() != before
        slider = page.locator(".attend-leaf input[type=range]")
        said = page.locator(".attend-leaf svg").get_attribute("aria-label")
        drawn = page.locator(".attend-leaf svg").inner_html()
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "131,072"
        assert page.locator(".attend-leaf svg").inner_html() != drawn
        slider.press("ArrowLeft")
        assert page.locator(".attend-leaf svg").inner_html() == drawn
        assert page.locator(".attend-leaf [role=status]").text_content() == said
        page.goto(f"{here}/search.html?q=softmax")
        page.wait_for_selector("#search-results li a")
        browser.close()


ALIVE = dict.fromkeys(chapter.chapter_ids(), ".attend-leaf, .attend-alive")
ALIVE["04_self_attention"] = ".attend-still"  # it trains a model for each choice
"""What a chapter's first picture is in the book; those alive have a slider."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book as it is published, from runs of all chapters."""
    out = tmp_path_factory.mktemp("whole") / "book"
    assert site.main(out) == 0
    return out


@pytest.mark.browser
@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("path", [*chapter.chapter_ids(), "index", "glossary"])
def test_each_page_of_the_whole_book(path: str, whole: Path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: apt install chromium")
    with _served(whole) as here, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM))
        looks: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1280), ("dark", 400))
        for scheme, width in looks:
            size = ViewportSize(width=width, height=900)
            context = browser.new_context(viewport=size, color_scheme=scheme)
            page = context.new_page()
            assert _problems(page, here, path) == [], (path, scheme, width)
            if path in ALIVE:
                _assert_reads_well(page, path)
            context.close()
        browser.close()


def _assert_reads_well(page: Page, path: str) -> None:
    """A chapter's page: stubs for all exercises, pictures with words, the first one alive."""
    text = page.locator("article").inner_text()
    for exercise in chapters.chapter(path).exercises:
        assert exercise.name in text
    stubs = page.locator("article pre", has_text="YOUR CODE HERE").count()
    repairs = text.count("repair") > 0
    assert stubs + repairs >= 1
    assert page.locator("merror, .math-error").count() == 0
    silent = "article img:not([alt]), article svg[data-panel]:not([aria-label])"
    assert page.locator(silent).count() == 0
    first = page.locator(".attend-leaf, .attend-alive, .attend-still").first
    assert first.evaluate("(node, kinds) => node.matches(kinds)", ALIVE[path])
    if ALIVE[path] == ".attend-still":
        return
    slider = first.locator("input[type=range]").first
    before = first.locator("svg").first.evaluate("svg => svg.parentNode.innerHTML")
    at = slider.input_value()
    slider.press("ArrowRight" if at != slider.get_attribute("max") else "ArrowLeft")
    assert first.locator("svg").first.evaluate("svg => svg.parentNode.innerHTML") != before
