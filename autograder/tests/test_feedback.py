"""The pages that learners read: small, safe, whole without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from attend import stub
from attend.build import release_notebook
from attend_grader import chapters
from attend_grader import grade as check
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.feedback import MOST_BYTES, FeedbackPage, Maths, _html
from bs4 import BeautifulSoup
from nbformat.v4 import new_markdown_cell, new_output

from .command import STUDENTS, attend, configure, graded, here, root
from .pages import active
from .toy_class import CHAPTER, EXERCISES

__all__ = ["graded", "here", "root"]  # fixtures

PAGE = "c.GenerateFeedback.exporter_class = 'attend_grader.gradebook.feedback.FeedbackPage'"


def page(chapter_id: str, right: bool, **facts: Any) -> str:
    """The feedback on a chapter of which all answers are right, or all show a slip."""
    notebook = release_notebook(chapter_id)
    cells = {cell.id: cell for cell in notebook.cells}
    for exercise in chapters.chapter(chapter_id).exercises:
        slip = next(iter(exercise.misconceptions.values()))
        report = check(exercise.reference if right else slip, exercise.id, 1)
        cells[exercise.name].source = stub.solution_text(exercise.reference)
        data = {"text/plain": f"{report.score:g}", "text/html": report._repr_html_()}
        tested = cells[f"check-{exercise.name}"]
        tested.outputs = [new_output("execute_result", data=data, execution_count=1)]
        tested.metadata.nbgrader.score = float(report.score)
    about = {"notebook": chapter_id, "score": 1.0, "max_score": 2.0, "late_penalty": 0, **facts}
    made, _ = FeedbackPage().from_notebook_node(notebook, {"nbgrader": about})
    return made


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
@pytest.mark.parametrize(
    "chapter_id",
    [
        pytest.param(name, marks=() if name == "03_attention" else pytest.mark.deep)
        for name in chapters.INDEX
    ],
)
def test_a_page_is_small_and_whole_without_a_network(chapter_id: str, right: bool) -> None:
    text = page(chapter_id, right)
    assert len(text.encode()) <= MOST_BYTES
    found = BeautifulSoup(text, "html.parser")
    assert active(found) == []
    assert not found.select("[src]:not([src^='data:'])")
    assert "default-src 'none'" in text
    names = [exercise.name for exercise in chapters.chapter(chapter_id).exercises]
    assert [link.text for link in found.select("nav a")] == names
    places = {str(part["id"]) for part in found.select("[id]")}
    assert {str(a["href"]) for a in found.select("a[href^='#']")} <= {f"#{p}" for p in places}
    top, _, below = text.partition('id="notebook"')
    assert top.count('class="attend-card"') == len(names)
    assert "def " not in re.sub(r"<pre.*?</pre>", "", top, flags=re.DOTALL)
    assert all(f'id="answer-{name}"' in below for name in names)
    assert not re.search(r"\$[^$<]{1,40}\$", below.partition("<pre>")[0]), "no formula is left raw"


def test_formulas_are_drawn_by_the_browser_or_stay_text() -> None:
    drawn = _html(r"So $p_s$ is $$\frac{1}{2} < 1$$ and", Maths())
    assert drawn.count("<math") == 2
    assert "<mfrac>" in drawn
    assert "$" not in drawn
    text = _html(r"So $p_s$ is $$\frac{1}{2} < 1$$ and", Maths(inline=False, block=False))
    assert "<math" not in text
    assert "\\frac" in text
    unknown = _html(r"A $x_a_b$ b", Maths())  # two subscripts are an error
    assert "<math" not in unknown
    assert "x_a_b" in unknown
    for tex in (r"\text{<script>alert(1)</script>}", r"\text{<mi onclick='a()'>x</mi>}"):
        hostile = _html(f"${tex}$", Maths())
        assert active(BeautifulSoup(hostile, "html.parser")) == []
        assert "&lt;" in hostile
    assert "<a" not in _html(r"$\href{javascript:alert(1)}{x}$", Maths())


def test_what_was_asked_is_folded_with_its_formulas() -> None:
    found = BeautifulSoup(page("03_attention", right=False), "html.parser")
    fold = found.select("#answer-softmax details")[0]
    assert "Exercise 3.1" in fold.get_text()
    assert not fold.has_attr("open")
    assert fold.select("math mfrac") or "\\frac" in fold.get_text()


def test_a_score_by_hand_a_penalty_and_a_notice_are_told() -> None:
    notebook = release_notebook("03_attention")
    tested = next(cell for cell in notebook.cells if cell.id == "check-softmax")
    data = {"text/plain": "3", "text/html": "<p>card</p>"}
    tested.outputs = [new_output("execute_result", data=data, execution_count=1)]
    tested.metadata.nbgrader.score = 7.5
    answer = next(cell for cell in notebook.cells if cell.id == "softmax")
    answer.metadata.nbgrader.comment = "<b>good</b> idea\nFlagged (for instructors): secret"
    notebook.cells.insert(0, new_markdown_cell("**Graded from a copy**", id="attend-flags"))
    about = {"notebook": "x", "score": 5.5, "max_score": 8.0, "late_penalty": 2.0}
    text, _ = FeedbackPage().from_notebook_node(notebook, {"nbgrader": about})
    assert "An instructor gave 7.5 of 8 points" in text
    assert "2 taken off as it was late" in text
    assert "<strong>Graded from a copy</strong>" in text
    assert "&lt;b&gt;good&lt;/b&gt; idea" in text
    assert "secret" not in text


def test_a_page_a_student_lists_all_assignments_with_links(root: Path) -> None:
    configure(root, PAGE)
    attend("regrade", "bob", "softmax", "--score", "6.5", "--note", "x", "--course", root)
    said = attend("feedback", CHAPTER, "--course", root)
    assert said.code == 0, said
    assert f"{len(STUDENTS)} students' own in" in said.out
    folder = Course.open(root).feedback("bob", CHAPTER).parent
    found = BeautifulSoup((folder / "index.html").read_text(), "html.parser")
    assert active(found) == []
    rows = [[cell.get_text() for cell in row.select("th, td")] for row in found.select("tr")]
    assert [row[0] for row in rows] == list(EXERCISES)
    assert rows[0][1::2] == ["6.5 of 8", "by hand"]
    (link,) = found.select("main p a")
    assert (folder / str(link["href"])).is_file()
    back = BeautifulSoup((folder / str(link["href"])).read_text(), "html.parser")
    assert back.select("a[href='../index.html']")
    assert "An instructor gave 6.5 of 8 points" in back.get_text()
    for other in STUDENTS:
        assert other == "bob" or other not in found.get_text(), "nobody else is in it"
