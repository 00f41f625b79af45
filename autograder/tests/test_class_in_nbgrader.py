"""What nbgrader shows of a class that `attend grade` graded: formgrader, penalties, feedback."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from attend_grader.gradebook.directory import Course
from attend_grader.grading.record import Record, Store
from bs4 import BeautifulSoup
from nbformat.v4 import new_markdown_cell, new_notebook, new_output, new_raw_cell
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.preprocessors import AssignLatePenalties

from . import toy_class
from .command import (
    BROKEN,
    LATE,
    MISNAMED,
    PROBLEMS,
    RULE,
    STUDENTS,
    Class,
    attend,
    configure,
    date,
    grade,
    graded,
    here,
    refused,
    root,
    state,
)
from .pages import active
from .toy_class import CHAPTER, SCORES, SOFTMAX, UNSCALED

__all__ = ["graded", "here", "root"]  # fixtures
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # nbgrader's own queries
]
OURS = "c.GenerateFeedback.exporter_class = 'attend_grader.feedback.FeedbackPage'"
FULL = sum(map(toy_class.points, toy_class.EXERCISES))


def api(root: Path) -> NbGraderAPI:
    """What formgrader and nbgrader's commands ask."""
    course = Course.open(root)
    return NbGraderAPI(course.places, config=course.config)


def submissions(root: Path) -> dict[str, dict[str, Any]]:
    """Formgrader's list, by student."""
    return {found["student"]: found for found in api(root).get_submissions(CHAPTER)}


def records(root: Path) -> dict[str, Record]:
    return {r.student: r for r in Store(root / ".attend" / "records" / CHAPTER).all()}


def submitted(gradebook: Gradebook, student: str) -> Any:
    return gradebook.find_submission_notebook(CHAPTER, CHAPTER, student)


def give(root: Path, student: str, score: float) -> None:
    """Score an exercise by hand, as in formgrader."""
    with Course.open(root).gradebook() as gradebook:
        cell: Any = gradebook.find_grade("check-softmax", CHAPTER, CHAPTER, student)
        cell.manual_score = score
        gradebook.db.commit()


def due(root: Path, when: Any) -> None:
    """Set the due date."""
    with Course.open(root).gradebook() as gradebook:
        gradebook.update_or_create_assignment(CHAPTER, duedate=when)


class TestFormgrader:
    def test_it_shows_every_submission_as_graded_with_its_score(self, graded: Class) -> None:
        found = submissions(graded.root)
        assert sorted(found) == STUDENTS
        for student, record in records(graded.root).items():
            shown = found[student]
            assert (shown["score"], shown["max_score"]) == (record.score, FULL)
            assert shown["autograded"]
            assert shown["needs_manual_grade"] == bool(record.problem)
            assert shown["last_name"], "formgrader's page of students would say None"
        assert found[LATE]["timestamp"] == "2030-01-03T12:00:00"
        books = api(graded.root).get_notebook_submissions(CHAPTER, CHAPTER)
        assert len(books) == len(STUDENTS), "each has a copy to look at"

    def test_comments_tell_what_the_engine_knows_and_feedback_shows_no_flag(
        self, root: Path
    ) -> None:
        date(root, "ann", "yesterday")
        assert grade(root, "--force", "--students", "ann").code == 0
        with Course.open(root).gradebook() as gradebook:
            first = {
                student: gradebook.find_comment("softmax", CHAPTER, CHAPTER, student).comment
                for student in ("ann", BROKEN, "bob")
            }
        assert first["ann"].startswith("Flagged (for instructors): timestamp.txt holds no time")
        assert first[BROKEN].startswith("Nothing could be graded: the file is not a notebook")
        assert first["bob"] is None
        assert self._flagged(root) == {"ann"}
        configure(root, OURS)
        assert "Flagged" not in str(page(root, "ann"))
        with Course.open(root).gradebook() as gradebook:
            book: Any = gradebook.find_submission_notebook(CHAPTER, CHAPTER, "bob")
            book.flagged = True  # as with the button in formgrader
            gradebook.db.commit()
        date(root, "ann", "2030-01-03 12:00:00 UTC")
        grade(root, "--force", "--students", "ann,bob")
        assert self._flagged(root) == {"bob"}, "an instructor's own stays"

    @staticmethod
    def _flagged(root: Path) -> set[str]:
        with Course.open(root).gradebook() as gradebook:
            books: Any = gradebook.notebook_submissions(CHAPTER, CHAPTER)
            return {book.student.id for book in books if book.flagged}

    def test_a_manual_score_stays_and_is_to_be_looked_at_again(self, root: Path) -> None:
        give(root, "eve", 5.0)
        assert grade(root, "--force", "--students", "eve").code == 0
        eve = submissions(root)["eve"]
        assert (eve["score"], eve["needs_manual_grade"]) == (5.0, True)

    def test_a_submission_that_is_undated_now_is_not_dated_as_before(self, root: Path) -> None:
        (root / "submitted" / LATE / CHAPTER / "timestamp.txt").unlink()
        grade(root)
        assert submissions(root)[LATE]["timestamp"] is None
        assert submissions(root)[LATE]["autograded"]

    def test_a_timestamp_that_is_none_is_flagged_though_nothing_is_graded(self, root: Path) -> None:
        date(root, "ann", "yesterday")
        said = grade(root)
        assert "0 graded in" in said.out
        assert "1 flagged" in said.out


class TestLatePenalties:
    @pytest.fixture
    def late(self, root: Path) -> Path:
        """A class with a due date two and a half days before LATE handed in; half is lost."""
        (root / "late_rule.py").write_text(RULE)
        configure(root, "c.AssignLatePenalties.plugin_class = 'late_rule.Half'")
        due(root, "2030-01-01 00:00:00 UTC")
        return root

    def penalties(self, root: Path) -> dict[str, float]:
        with Course.open(root).gradebook() as gradebook:
            found: Any = gradebook.assignment_submissions(CHAPTER)
            return {s.student_id: s.late_submission_penalty for s in found}

    def test_they_are_nbgraders_and_need_no_grading(self, late: Path) -> None:
        said = grade(late)
        assert "0 graded in" in said.out
        ours = self.penalties(late)
        assert ours == {**dict.fromkeys(STUDENTS, 0.0), LATE: FULL / 2}
        course = Course.open(late)
        for student in ("ann", LATE):
            ids = {"student": student, "assignment": CHAPTER, "notebook": CHAPTER}
            resources: Any = {"nbgrader": {**ids, "db_url": course.places.db_url}}
            AssignLatePenalties(config=course.config).preprocess(new_notebook(), resources)
        assert self.penalties(late) == ours, "its own step decides the same"
        out = late / "scores.csv"
        assert attend("export", CHAPTER, "--course", late, "--out", out).code == 0
        with out.open() as file:
            row = next(row for row in csv.DictReader(file) if row["student_id"] == LATE)
        assert float(row["late_submission_penalty"]) == float(row["score"]) == FULL / 2
        assert f"Late submission penalty (Score: -{FULL / 2})" in page(late, LATE).get_text()

    def test_they_follow_time_due_date_and_manual_scores(self, late: Path) -> None:
        grade(late)
        give(late, LATE, 0.0)
        grade(late)
        assert self.penalties(late)[LATE] == toy_class.points("attention_scores") / 2
        date(late, LATE, "2029-12-31 23:00:00 UTC")  # the same notebook, handed in again
        grade(late)
        assert self.penalties(late)[LATE] == 0
        assert submissions(late)[LATE]["timestamp"] == "2029-12-31T23:00:00"
        due(late, "2029-12-31 00:00:00 UTC")
        grade(late)
        assert self.penalties(late)[LATE] > 0

    def test_a_penalty_is_within_the_score(self, late: Path) -> None:
        rule = late / "late_rule.py"
        for factor, penalty in (("* 9", FULL), ("* -1", 0.0)):
            (late / f"rule{penalty:.0f}.py").write_text(rule.read_text().replace("/ 2", factor))
            name = f"rule{penalty:.0f}.Half"
            configure(late, f"c.AssignLatePenalties.plugin_class = {name!r}")
            grade(late)
            assert self.penalties(late)[LATE] == penalty

    def test_a_rule_that_fails_is_one_sentence_and_loses_nothing(self, late: Path) -> None:
        before = state(late)
        (late / "late_broken.py").write_text(RULE.replace("score / 2", "score / 0"))
        kept = (late / "nbgrader_config.py").read_text()
        configure(late, "c.AssignLatePenalties.plugin_class = 'late_broken.Half'")
        sentence = refused(grade(late, "--quiet", "--students", "ann"))
        assert f"fails for {LATE}: ZeroDivisionError" in sentence
        (late / "late_broken.py").unlink()
        (late / "nbgrader_config.py").write_text(kept)
        grade(late, "--quiet")
        after = state(late)
        assert after["records"] == before["records"]
        assert after["copies"] == before["copies"]
        assert self.penalties(late)[LATE] == FULL / 2


def page(root: Path, student: str) -> BeautifulSoup:
    """Feedback as `nbgrader generate_feedback` writes it now."""
    course = Course.open(root)
    done = NbGraderAPI(course.places, config=course.config).generate_feedback(CHAPTER, student)
    assert done["success"], done["log"]
    written = course.feedback(student, CHAPTER) / f"{CHAPTER}.html"
    return BeautifulSoup(written.read_text(encoding="utf-8"), "html.parser")


SCRIPT = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"
HOSTILE = f"""
def softmax(scores, axis=-1):
    print({SCRIPT!r}, scores)
    raise ValueError({SCRIPT!r})
"""


def hostile() -> nbformat.NotebookNode:
    """Scripts wherever a notebook can hold them."""
    notebook = toy_class.notebook(HOSTILE, UNSCALED)
    texts = (
        SCRIPT,
        "[a](javascript:alert(1)) <a href='javascript:alert(1)'>b</a> $\\href{javascript:x}{y}$",
        "![p](attachment:none.png) ![q](attachment:a.png)",
        "<style>* { display: none }</style><iframe src='https://example.org'></iframe>",
    )
    notebook.cells += [new_markdown_cell(text) for text in texts]
    kind = 'image/png" onerror="alert(1)'
    notebook.cells[-2]["attachments"] = {"a.png": {kind: SCRIPT}}
    notebook.cells.append(new_raw_cell(SCRIPT, metadata={"raw_mimetype": "text/html"}))
    forms = {"text/html": SCRIPT, "application/javascript": "alert(1)", "image/svg+xml": SCRIPT}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                new_output("display_data", forms),
                new_output("stream", name="stdout", text="huge " * 10**6),
                new_output("error", ename=SCRIPT, evalue=SCRIPT, traceback=[SCRIPT]),
            ]
    notebook.metadata.update(title=SCRIPT, authors=[{"name": SCRIPT}])
    return notebook


class TestFeedback:
    def test_nothing_of_a_hostile_submission_is_alive(self, root: Path) -> None:
        toy_class.hand_in(root, "bob", hostile())
        assert grade(root, "--students", "bob").code == 0
        found, honest = page(root, "bob"), page(root, "ann")
        assert sorted(active(found)) == sorted(active(honest)), "nbgrader's own, and nothing more"
        assert "window.stolen" in found.get_text(), "it is there to be read"
        assert len(str(found)) < len(str(honest)) + 20_000, "no output that was handed in"

    def test_inputs_are_shown_only_where_the_instructor_wants_them(self, root: Path) -> None:
        printing = UNSCALED.replace("    return", "    print(q)\n    return")
        toy_class.hand_in(root, "cleo", toy_class.notebook(SOFTMAX, printing))
        grade(root, "--seed", "1")
        text = page(root, "cleo").get_text()
        assert "Looks like: forgot 1/√D." in text
        assert "called with" not in text
        assert "Your function printed" not in text
        configure(root, "c.RunChecks.show_inputs = True")
        grade(root, "--force", "--seed", "1", "--students", "cleo")
        text = page(root, "cleo").get_text()
        assert "called with" in text
        assert "Your function printed" in text

    def test_it_names_the_exercises_where_the_class_says_so(self, root: Path) -> None:
        stock = [link.text for link in page(root, "bob").select("#toc a")]
        assert stock == ["Test cell", "Test cell"], "nbgrader's own"
        shutil.rmtree(root / "feedback")
        configure(root, OURS)
        made = page(root, "bob")
        links = made.select("nav a")
        assert [link.text for link in links] == list(toy_class.EXERCISES)
        targets = {f"#{part['id']}" for part in made.select("[id]")}
        assert all(link["href"] in targets for link in made.select("a[href^='#']"))
        assert made.title is not None
        assert made.title.text == f"{CHAPTER}: feedback"

    def test_a_new_version_gets_new_feedback(self, root: Path) -> None:
        assert "softmax: 0 of 8 points" in page(root, "eve").get_text()
        toy_class.hand_in(root, "eve", toy_class.notebook(SOFTMAX, SCORES))
        grade(root)
        assert not (root / "feedback" / "eve" / CHAPTER).exists(), "none that is out of date"
        assert "softmax: 8 of 8 points" in page(root, "eve").get_text()

    def test_who_could_not_be_graded_is_told_why(self, root: Path) -> None:
        configure(root, OURS)
        found = page(root, MISNAMED)
        told = f"Nothing could be graded: {PROBLEMS[MISNAMED]}. Put that right"
        assert (
            found.get_text().count("Nothing could be graded") == found.get_text().count(told) == 1
        )
        assert not found.select(".attend-card"), "the reason once, not for each exercise"
        assert "Your answers" not in found.get_text(), "there are none"
        assert [cell.get_text() for cell in found.select("nav th")] == list(toy_class.EXERCISES)


class TestPlainAutograde:
    def test_no_score_of_an_earlier_version_is_kept(self, root: Path) -> None:
        configure(
            root,
            'c.Autograde.exporter_class = "attend_grader.preprocessors.SubmissionReader"',
        )
        path = root / "submitted" / "ann" / CHAPTER / f"{CHAPTER}.ipynb"
        path.rename(path.with_name("final.ipynb"))
        (root / "submitted" / "bob" / CHAPTER / f"{CHAPTER}.ipynb").unlink()
        done: Any = api(root).autograde(CHAPTER, "*", force=False)
        assert f"bob: there is no {CHAPTER}.ipynb in" in done["log"]
        with Course.open(root).gradebook() as gradebook:
            scores = {name: submitted(gradebook, name).score for name in ("ann", "bob", "cleo")}
        assert scores == {"ann": 0.0, "bob": 0.0, "cleo": records(root)["cleo"].score}
        for student in ("ann", "bob"):
            assert not (root / "autograded" / student / CHAPTER / f"{CHAPTER}.ipynb").exists()


def test_one_of_two_notebooks_missing(root: Path) -> None:
    """The other keeps its score and its copy, and a second run has nothing to do."""
    course, second = Course.open(root), "second"
    release = course.root / "release" / CHAPTER
    shutil.copy(release / f"{CHAPTER}.ipynb", release / f"{second}.ipynb")
    for student in {*STUDENTS} - {"ann", "cleo"}:
        shutil.rmtree(root / "submitted" / student)
    for made in (".attend", "autograded"):
        shutil.rmtree(root / made)
    theirs = course.submitted("ann", CHAPTER)
    shutil.copy(theirs / f"{CHAPTER}.ipynb", theirs / f"{second}.ipynb")
    with course.gradebook() as gradebook:
        gradebook.remove_assignment(CHAPTER)
        toy_class.register(gradebook, CHAPTER, second)
    said = grade(root)
    assert said.code == 3
    assert f"cleo: there is no {second}.ipynb in the folder; it holds {CHAPTER}.ipynb" in said.out
    found = submissions(root)
    assert found["ann"]["score"] == 2 * FULL
    assert found["cleo"]["score"] > toy_class.points("softmax")
    copies = sorted(path.name for path in course.autograded("cleo", CHAPTER).glob("*.ipynb"))
    assert copies == [f"{CHAPTER}.ipynb", f"{second}.ipynb"]
    before = state(root)
    assert "0 graded in" in grade(root).out
    assert state(root) == before
