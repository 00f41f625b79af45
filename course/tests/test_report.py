"""The files of a report: its table, and the command that writes all three."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import nbformat
import pytest
from attend import report
from attend.errors import AttendError
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.grade import graded_copy, planned
from attend_grader.gradebook.tables import defused, to_csv
from attend_grader.grading import handed_in, work
from attend_grader.grading.record import Store
from attend_grader.sharing import MEDIA_TYPE, Effort
from nbformat.v4 import new_code_cell, new_notebook, new_output

from .toy_class import EVIL, LONG, SLIP, STUB, gathered, record, section, thirty, ungraded, verdict

UNREADABLE = "the file is not a notebook, or only a part of one"


class TestTables:
    @pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1"])
    def test_formulas_are_defused(self, text: str):
        assert defused(text) == f"'{text}"

    def test_numbers_and_words_stay(self):
        assert [defused(v) for v in (-2.5, 3, 0.0, None, "ann")] == ["-2.5", "3", "0", "", "ann"]

    def test_rows(self):
        assert to_csv(("a", "b"), [('x,"', 1.5)]) == 'a,b\r\n"x,""",1.5\r\n'

    def test_the_reports_table(self):
        shared = {"steady": {"s03": Effort(2, 11, False), "s04": Effort(0, 20, True)}}
        toy = gathered(thirty(), shared=shared)
        lines = report.table(toy).splitlines()
        assert lines[0] == ",".join(report.HEAD)
        assert f"s03,steady,1,10,PARTIAL,{SLIP},0,2,11,0" in lines
        assert "s11,easy,4,4,PASSED,,1,,,0" in lines
        assert len(lines) == 1 + 90

    def test_who_was_not_graded_has_a_line_for_each_exercise_too(self):
        lines = report.table(gathered([ungraded("zed")])).splitlines()
        assert lines[1:] == ["zed,easy,0,4,INVALID,,0,,,0"]

    def test_a_students_name_is_no_formula(self):
        rows = report.table(gathered([record("=1+1", verdict("easy", 1, 4))])).splitlines()
        assert rows[1].startswith("'=1+1,easy,1,4,")


class TestCommand:
    def test_no_course(self, tmp_path: Path):
        with pytest.raises(AttendError, match="no course directory"):
            report.main("toy", tmp_path, None)

    def test_an_assignment_without_submissions(self, tmp_path: Path):
        with pytest.raises(AttendError, match="nobody has handed in toy"):
            report.main("toy", course(tmp_path), None)

    def test_the_name_of_the_page(self, tmp_path: Path):
        folder = course(tmp_path)
        hand_in(folder, "ann")
        with pytest.raises(AttendError, match=r"\.html"):
            report.main("toy", folder, tmp_path / "toy.pdf")

    def test_what_is_not_graded_is_said(self, tmp_path: Path, capsys):
        folder = course(tmp_path)
        hand_in(folder, "ann")
        report.main("toy", folder, None)
        said = capsys.readouterr().out
        assert "0 students" in said
        assert "1 more are not graded" in said
        assert {p.name for p in (folder / "reports").iterdir()} == {
            "toy.html",
            "toy.csv",
            "toy.json",
        }

    def test_a_class_from_its_files_to_the_three_reports(self, tmp_path: Path, capsys):
        name, opened = "03_attention", Course.open(course(tmp_path))
        own = {"schema_version": 3, "cell_type": "code", "task": False, "locked": False}
        solution = {**own, "grade_id": "softmax", "solution": True, "grade": False}
        cell = new_code_cell(STUB, id="softmax", metadata={"nbgrader": solution})
        release = new_notebook(cells=[cell], metadata={"attend": {}})
        (opened.root / "release" / name).mkdir()
        (opened.root / "release" / name / f"{name}.ipynb").write_text(nbformat.writes(release))
        said = {"chapter": name, "exercises": {"softmax": asdict(Effort(1, 4, False))}}
        cell.source = f"{LONG}# {EVIL}"
        cell.outputs = [new_output("display_data", {MEDIA_TYPE: said})]
        for student, handed in (("=ann", nbformat.writes(release)), ("Zed", "{")):
            path = opened.submitted(student, name) / f"{name}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(handed)
        plan = planned(opened, name, seed=1)
        store = Store(opened.records / name)
        for job in (job.loaded() for job in plan.jobs):  # as `attend grade` would leave it
            graded = replace(job.record, verdicts=(verdict("softmax", 1, 4, SLIP),))
            whole = graded.student != "Zed"
            if whole:
                given = handed_in.released(job.release)
                answers = work.answers(handed_in.submitted(job.content), given)
                graded = replace(graded, answers=answers)
            store.put(graded if whole else ungraded("Zed", replace(graded, problem=UNREADABLE)))
            if whole:
                copy = graded_copy(graded, job.content, job.release)
                path = opened.autograded(graded.student, name) / f"{name}.ipynb"
                path.parent.mkdir(parents=True)
                path.write_text(nbformat.writes(copy))
        assert report.main(name, opened.root, None) == 0
        assert "2 students in" in capsys.readouterr().out
        page = (opened.root / "reports" / f"{name}.html").read_text()
        assert f"not graded: {UNREADABLE}" in page
        assert EVIL not in page
        assert "document.title" in section(page, "misconceptions").select("pre")[0].get_text()
        form = json.loads((opened.root / "reports" / f"{name}.json").read_text())
        assert form["shared"] == {"softmax": {"=ann": said["exercises"]["softmax"]}}
        rows = (opened.root / "reports" / f"{name}.csv").read_text().splitlines()
        assert rows[1] == f"'=ann,softmax,1,4,PARTIAL,{SLIP},0,1,4,0"
        assert rows[2] == "Zed,easy,0,4,INVALID,,0,,,0"


def course(directory: Path) -> Path:
    """A course directory with one released notebook that holds nothing."""
    folder = directory / "course"
    release = folder / "release" / "toy" / "toy.ipynb"
    release.parent.mkdir(parents=True)
    empty = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    release.write_text(json.dumps(empty))
    (folder / "nbgrader_config.py").write_text("c = get_config()\n")
    return folder


def hand_in(course: Path, student: str) -> None:
    """Hand in the release as it is."""
    handed = course / "submitted" / student / "toy" / "toy.ipynb"
    handed.parent.mkdir(parents=True)
    shutil.copy(course / "release" / "toy" / "toy.ipynb", handed)
