"""The three files of a report: gather, analyse, write."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attend_grader.checks.files import write_whole
from attend_grader.gradebook.directory import Course, CourseError
from attend_grader.gradebook.gather import Gathered, gather
from attend_grader.gradebook.tables import to_csv
from attend_grader.grading import similar
from attend_grader.grading.analysis import Analysis, analyse, exercise_of
from attend_grader.grading.record import Record, fields_of

from attend.errors import AttendError
from attend.report.page import page

HEAD = (
    "student",
    "exercise",
    "score",
    "points",
    "outcome",
    "misconception",
    "flags",
    "hints shared",
    "minutes shared",
    "grading seconds",
)


def main(assignment: str, course: Path, out: Path | None) -> int:
    """Write the report; the exit code.

    Args:
        assignment: its name.
        course: the course directory.
        out: the page's file, ending in .html; None for reports/ASSIGNMENT.html in the course.

    Raises:
        AttendError: one sentence on what prevents it.
    """
    try:
        opened = Course.open(course)
        gathered = gather(opened, assignment)
    except CourseError as error:
        raise AttendError(str(error), error.exit_code) from None
    path = opened.root / "reports" / f"{assignment}.html" if out is None else out.absolute()
    if path.suffix != ".html":
        raise AttendError(f"--out: the page's name should end in .html, got {path.name}", 2)
    analysis = analyse(gathered.records)
    alike = near_identical(gathered)
    links = _links(gathered, path.parent)
    files = {
        path: page(gathered, analysis, alike, date.today().isoformat(), path.stem, links),
        path.with_suffix(".csv"): table(gathered),
        path.with_suffix(".json"): to_json(gathered, analysis, alike),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            write_whole(file, text.encode())
    except OSError as error:
        raise AttendError(f"{path.parent} cannot be written: {error.strerror}") from None
    students = len(analysis.students)
    print(f"{students} student{'' if students == 1 else 's'} in {path}; beside it .csv and .json.")
    if gathered.waiting:
        print(
            f"{len(gathered.waiting)} more are not graded as they stand: run `attend grade "
            f"{assignment}`, then this again."
        )
    return 0


def _links(gathered: Gathered, folder: Path) -> tuple[str, str]:
    """Addresses of a student's page and graded copy, seen from the report; empty for none."""
    found = [
        "" if place is None else quote(os.path.relpath(place, folder)) for place in gathered.places
    ]
    return found[0], found[1]


def near_identical(gathered: Gathered) -> list[similar.Group]:
    """Groups of near-identical answers, over all exercises."""
    return [
        group
        for name, answers in gathered.answers.items()
        for group in similar.groups(name, answers, gathered.stubs[name], gathered.own.get(name))
    ]


def _without_answers(record: Record) -> dict[str, Any]:
    return {name: value for name, value in fields_of(record).items() if name != "answers"}


def table(gathered: Gathered) -> str:
    """CSV: a line for each student and exercise."""
    rows = []
    for record in sorted(gathered.records, key=lambda record: record.student.casefold()):
        for verdict in record.verdicts:
            name = exercise_of(record, verdict)
            slip = verdict.report.diagnosis if verdict.report is not None else None
            effort = gathered.shared.get(name, {}).get(record.student)
            rows.append(
                (
                    record.student,
                    name,
                    verdict.score,
                    verdict.points,
                    verdict.reason,
                    slip or "",
                    len(record.flags),
                    effort and effort.hints,
                    effort and effort.minutes,
                    round(verdict.seconds, 3),
                )
            )
    return to_csv(HEAD, rows)


def to_json(gathered: Gathered, analysis: Analysis, alike: list[similar.Group]) -> str:
    """All that the page says, for programs."""
    return json.dumps(
        {
            "assignment": gathered.assignment,
            "not_graded_as_they_stand": gathered.waiting,
            **fields_of(analysis),
            "shared": gathered.shared,
            "near_identical": alike,
            "near_identical_pairs": list(similar.pairs(alike)),
            "by_hand": gathered.by_hand,
            "records": [_without_answers(record) for record in gathered.records],
        },
        default=fields_of,
        ensure_ascii=False,
    )
