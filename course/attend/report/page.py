"""The page of a report: HTML and pictures in one file that asks for nothing else.

Charts are drawn beforehand, as SVG. Templates escape every value, and the page allows itself one
script, named by its digest, and no loads (Content-Security-Policy), so nothing that came from a
student can run in it. The script sorts and searches the table of scores and adds links to it, which
in the file would double its size; without it all else is there.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from importlib import resources
from typing import Any
from urllib.parse import quote

from attend_grader import chapters
from attend_grader.gradebook.gather import Gathered
from attend_grader.grading.analysis import (
    EASY,
    ENOUGH,
    HARD,
    WEAK,
    Analysis,
    Misconception,
    Remark,
    exercise_of,
)
from attend_grader.grading.similar import SIMILARITY, TOKENS, Group, pairs
from attend_grader.grading.submission import Verdict
from jinja2 import Environment, PackageLoader, StrictUndefined

from attend.curriculum import CHAPTERS
from attend.report import charts, wording

MARKS = {"TIMEOUT": "time", "MEMORY": "memory", "CRASH": "crash", "INVALID": "invalid"}

FEW, MOST, DETAILED = 30, 150, 12
"""Students whose remarks are not folded, and are listed at all; slips and groups with examples."""

SECTIONS = {
    "In short": "short",
    "Scores": "scores",
    "Points lost": "losses",
    "Misconceptions": "misconceptions",
    "Exercises": "exercises",
    "Hints and time": "effort",
    "Outliers": "outliers",
    "Stopped": "stopped",
    "Flags": "flags",
    "Near-identical answers": "alike",
}
"""Title → template, in the page's order."""


def page(
    gathered: Gathered,
    analysis: Analysis,
    alike: Sequence[Group],
    made: str = "",
    stem: str = "",
    links: tuple[str, str] = ("", ""),
) -> str:
    """The whole page.

    Args:
        gathered: what it is made from.
        analysis: of the same.
        alike: groups of near-identical answers.
        made: the date; empty for none.
        stem: name, without its ending, of the CSV and JSON files beside it; empty where there are
            none.

    Raises:
        AttendError: what draws the charts is not installed.
    """
    known = gathered.assignment in chapters.INDEX
    exercises = chapters.chapter(gathered.assignment).exercises if known else ()
    titles = {chapter.id: chapter.title for chapter in CHAPTERS}
    cells, problems = _verdicts(gathered)
    return (
        _environment()
        .get_template("page.html")
        .render(
            sections=SECTIONS,
            gathered=gathered,
            analysis=analysis,
            title=titles.get(gathered.assignment, ""),
            minutes={e.name: e.minutes for e in exercises},
            made=made,
            stem=quote(stem),
            links=links,
            script=_script(),
            versions=sorted({record.version for record in gathered.records}),
            totals=list(analysis.totals.values()),
            mean=statistics.fmean(analysis.totals.values()) if analysis.totals else 0.0,
            begun={item.exercise: item.started for item in analysis.items},
            worst=_worst(analysis),
            cells=cells,
            problems=problems,
            flagged={remark.student for remark in analysis.flags},
            stopped={remark.student for remark in analysis.stopped},
            examples={found: _examples(gathered, found) for found in analysis.misconceptions},
            alike=alike,
            pairs=pairs(alike),
            histogram=charts.histogram(analysis) if analysis.totals else "",
            dots=charts.dots(analysis) if analysis.items else "",
            by_student=_by_student,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("attend.report"),
        autoescape=True,
        finalize=wording.plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for form in (
        wording.name,
        wording.names,
        wording.inline,
        wording.called,
        wording.code,
        wording.count,
        wording.number,
        wording.colour,
        wording.plain,
        wording.quoted,
        wording.digest,
        wording.shade,
        _anchor,
    ):
        environment.filters[form.__name__.removeprefix("_")] = form
    environment.globals |= {
        "average": statistics.fmean,
        "median": statistics.median,
        "MARKS": MARKS,
        "FEW": FEW,
        "MOST": MOST,
        "DETAILED": DETAILED,
        "STEPS": wording.STEPS,
        "ENOUGH": ENOUGH,
        "EASY": EASY,
        "HARD": HARD,
        "WEAK": WEAK,
        "SIMILARITY": SIMILARITY,
        "TOKENS": TOKENS,
    }
    return environment


def _script() -> str:
    """The one script, in one line for each of its own."""
    return (
        resources.files("attend.report").joinpath("templates", "page.js").read_text("utf-8").strip()
    )


def _worst(analysis: Analysis) -> Any:
    """The exercise that loses most points on average, or None."""
    worst = max(analysis.items, key=lambda item: item.points - item.mean, default=None)
    return worst if worst is not None and worst.points > worst.mean else None


def _verdicts(gathered: Gathered) -> tuple[dict[str, dict[str, Verdict]], dict[str, str]]:
    """Student → exercise → verdict; and student → why nothing of theirs could be graded."""
    cells: dict[str, dict[str, Verdict]] = defaultdict(dict)
    problems: dict[str, str] = {}
    for record in gathered.records:
        if record.problem:
            problems[record.student] = record.problem
        for verdict in record.verdicts:
            cells[record.student][exercise_of(record, verdict)] = verdict
    return cells, problems


def _examples(gathered: Gathered, found: Misconception) -> list[tuple[str, str]]:
    """The two shortest different answers that show a slip: student and source."""
    answers = gathered.answers.get(found.exercise, {})
    sources = {answers[who].strip(): who for who in reversed(found.students) if who in answers}
    return [(sources[source], source) for source in sorted(sources, key=len)[:2]]


def _by_student(remarks: Sequence[Remark]) -> dict[str, list[str]]:
    """Student → what is remarked of them."""
    by: dict[str, list[str]] = {}
    for remark in remarks:
        by.setdefault(remark.student, []).append(remark.text)
    return by


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")
