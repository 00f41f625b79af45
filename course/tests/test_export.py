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
from attend.classroom import _scripts_on_path
from attend.errors import AttendError
from attend_grader.classes.export import NBGRADER, Line, exported, lines
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ANN = Line("ann", "Lee", "Ann", "a@x.org", "77", 31.0, 1.0, 30.0, 40.0, True, None, None)
EVIL = replace(
    ANN, student="=1+1", last_name="@SUM(A1)", first_name=None, email="+x", lms_user_id=""
)
NONE = replace(ANN, student="zoe", raw_score=None, score=None, complete=False)


def table(form: str, *rows: Line) -> list[list[str]]:
    return list(csv.reader(io.StringIO(exported(form, "03", rows, NOW))))


def test_canvas():
    head, points, ann, zoe = table("canvas", ANN, NONE)
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "03"]
    assert points == ["    Points Possible", "", "", "", "", "40"]
    assert ann == ["Lee, Ann", "77", "ann", "a@x.org", "", "30"]
    assert zoe[-1] == ""


def test_moodle():
    head, ann = table("moodle", ANN, NONE)
    assert head == ["Username", "Email address", "03", "03 (feedback)"]
    assert ann == ["ann", "a@x.org", "30", "30 of 40 points"]


def test_lti():
    (score,) = json.loads(exported("lti", "03", [ANN, NONE], NOW))
    assert score == {
        "userId": "77",
        "scoreGiven": 30.0,
        "scoreMaximum": 40.0,
        "activityProgress": "Submitted",
        "gradingProgress": "FullyGraded",
        "timestamp": "2026-01-02T03:04:05.000+00:00",
    }


@pytest.mark.parametrize("form", ["nbgrader", "canvas", "moodle"])
def test_no_formula_is_live(form: str):
    for row in table(form, EVIL)[1:]:
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)
    assert any("'=1+1" in row for row in table(form, EVIL))


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's own queries
def test_nbgrader_has_the_columns_and_values_of_its_own_export(tmp_path: Path):
    with _scripts_on_path():
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
        mine = exported("nbgrader", "03", lines(gradebook, "03"), NOW)
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
