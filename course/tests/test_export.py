"""Scores as other systems import them: the documented columns, and no live formulas."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attend import export
from attend.errors import AttendError
from attend_grader.gradebook.export import NBGRADER, Line, exported, lines
from attend_grader.gradebook.scripts import scripts_on_path
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ANN = Line("ann", "Lee", "Ann", "a@x.org", "77", 31.0, 1.0, 30.0, 40.0, True, None, None)
EVIL = replace(
    ANN, student="=1+1", last_name="@SUM(A1)", first_name=None, email="+x", lms_user_id=""
)
NONE = replace(ANN, student="zoe", raw_score=None, score=None, complete=False)


def table(form: str, *rows: Line) -> list[list[str]]:
    return list(csv.reader(io.StringIO(exported(form, "03", rows, NOW).text)))


def test_canvas():
    head, points, ann = table("canvas", ANN, NONE)
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "03"]
    assert points == ["    Points Possible", "", "", "", "", "40"]
    assert ann == ["Lee, Ann", "77", "ann", "ann", "", "30"]


def test_canvas_reads_no_number_of_somebody_else_out_of_an_lti_id():
    """Its importer takes the digits that an ID begins with for one of its own users."""
    lti = replace(ANN, lms_user_id="8f3a-21")
    assert table("canvas", lti)[2][1] == ""


def test_moodle():
    head, ann = table("moodle", ANN, NONE)
    assert head == ["Username", "Email address", "03", "03 feedback"]
    assert ann == ["ann", "a@x.org", "30", "30 of 40 points"]


@pytest.mark.parametrize("email", [None, "", "+1@x.org"])
def test_moodle_has_addresses_of_all_or_of_none(email: str | None):
    """An empty identifier could give a score to the user of the line before."""
    bob = replace(ANN, student="bob", email=email)
    head, *rows = table("moodle", ANN, bob)
    assert head == ["Username", "03", "03 feedback"]
    assert [row[0] for row in rows] == ["ann", "bob"]


def test_lti():
    made = exported("lti", "03", [ANN, NONE], NOW)
    (score,) = json.loads(made.text)
    assert score == {
        "userId": "77",
        "scoreGiven": 30.0,
        "scoreMaximum": 40.0,
        "activityProgress": "Completed",
        "gradingProgress": "FullyGraded",
        "timestamp": "2026-01-02T03:04:05.000+00:00",
    }
    assert made.unscored == ("zoe",)


def test_lti_says_what_is_still_open():
    open_ = replace(ANN, due=datetime(2026, 2, 1), complete=False)
    (score,) = json.loads(exported("lti", "03", [open_], NOW).text)
    assert score["activityProgress"] == "Submitted"
    assert score["gradingProgress"] == "PendingManual"


def test_lti_has_nobody_under_an_id_that_may_be_somebody_elses():
    made = exported("lti", "03", [ANN, replace(ANN, student="12", lms_user_id=None)], NOW)
    assert [score["userId"] for score in json.loads(made.text)] == ["77"]
    assert made.left_out == ("12",)
    assert "--lms-user-id" in made.why


@pytest.mark.parametrize("form", ["nbgrader", "canvas", "moodle"])
def test_no_formula_is_live(form: str):
    sly = replace(EVIL, student="sly")
    for row in table(form, EVIL, sly, ANN)[1:]:
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


@pytest.mark.parametrize("form", ["canvas", "moodle"])
@pytest.mark.parametrize("student", ["=1+1", "+1", "-ann", "@ann", " =1", "\tann"])
def test_an_id_that_would_no_longer_match_is_left_out_and_named(form: str, student: str):
    made = exported(form, "03", [ANN, replace(ANN, student=student)], NOW)
    assert student not in made.text
    assert (made.students, made.left_out) == (1, (student,))
    assert "by hand" in made.why
    assert exported("nbgrader", "03", [EVIL], NOW).left_out == ()


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's own queries
def test_the_command_names_who_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.CourseDirectory.db_url = 'sqlite:///{tmp_path}/g.db'\n"
    )
    with scripts_on_path():
        gradebook: Any = Gradebook(f"sqlite:///{tmp_path}/g.db", "")
    with gradebook:
        gradebook.add_assignment("03")
        for student in ("ann", "=1+1", "zoe"):
            gradebook.add_student(student)
        for student in ("ann", "=1+1"):
            gradebook.add_submission("03", student)
    assert export.main("03", "canvas", tmp_path, None) == export.LEFT_OUT
    said = capsys.readouterr()
    assert "1 student in" in said.out
    assert "zoe" in said.out
    assert "=1+1: their ids" in said.err
    assert export.main("03", "nbgrader", tmp_path, None) == 0


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's own queries
def test_nbgrader_has_the_columns_and_values_of_its_own_export(tmp_path: Path):
    with scripts_on_path():
        gradebook: Any = Gradebook(f"sqlite:///{tmp_path}/g.db", "c")
    with gradebook:
        gradebook.add_assignment("03")
        gradebook.add_notebook("n", "03")
        gradebook.add_grade_cell("g", "n", "03", max_score=40, cell_type="code")
        gradebook.add_student("ann", first_name="Ann", last_name="Lee", email="a@x.org")
        gradebook.add_student("zoe")
        gradebook.add_submission("03", "ann")
        gradebook.find_grade("g", "n", "03", "ann").auto_score = 31
        gradebook.db.commit()
        mine = exported("nbgrader", "03", lines(gradebook, "03"), NOW).text
        plugin = CsvExportPlugin(to=str(tmp_path / "theirs.csv"))
        plugin.export(gradebook)
    written = (tmp_path / "theirs.csv").read_text()
    theirs = sorted(csv.DictReader(io.StringIO(written)), key=lambda row: row["student_id"])
    ours = list(csv.DictReader(io.StringIO(mine)))
    assert written.splitlines()[0] == ",".join(NBGRADER)
    assert len(ours) == len(theirs) == 2
    numbers = ("raw_score", "late_submission_penalty", "score", "max_score")
    for a, b in zip(ours, theirs, strict=True):
        assert {k: float(v or 0) if k in numbers else v for k, v in a.items()} == {
            k: float(v or 0) if k in numbers else v for k, v in b.items()
        }


def test_another_format_is_refused(tmp_path: Path):
    with pytest.raises(AttendError, match="moodle"):
        export.main("03", "excel", tmp_path, None)
