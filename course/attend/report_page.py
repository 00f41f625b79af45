"""The page of ``attend report``: HTML and pictures in one file, without a script or a request.

Charts are drawn beforehand, as SVG. Everything that came from a student is escaped, and the page
forbids itself all scripts and loads (Content-Security-Policy), so nothing in it can be alive.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from attend_grader.gradebook.gather import Gathered
from attend_grader.grading.analysis import ENOUGH, Analysis, Remark, exercise_of
from attend_grader.grading.similar import Group
from attend_grader.grading.submission import Verdict

from attend.curriculum import CHAPTERS
from attend.report_alike import near_identical
from attend.report_charts import histogram
from attend.report_exercises import effort, items, losses, misconceptions
from attend.report_html import (
    STYLE,
    called,
    colour,
    count,
    inline,
    name,
    names,
    scroll,
    table,
    text,
)

MARKS = {"TIMEOUT": "time", "MEMORY": "memory", "CRASH": "crash", "INVALID": "invalid"}


def page(
    gathered: Gathered, analysis: Analysis, alike: Sequence[Group], made: str = "", stem: str = ""
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
    parts = {
        "In short": _short(gathered, analysis, alike),
        "Scores": _scores(gathered, analysis),
        "Points lost": losses(analysis),
        "Misconceptions": misconceptions(gathered, analysis),
        "Exercises": items(analysis),
        "Hints and time": effort(gathered),
        "Outliers": _remarks(
            "Outliers",
            analysis.outliers,
            f"There are none; totals are compared from {ENOUGH} students on.",
            "Who began nothing, totals more than 1.5 interquartile ranges outside the middle half "
            "of the class (Tukey's fences), and exercises unlike the rest of a student's results. "
            "Reasons to look, nothing more.",
        ),
        "Stopped": _remarks(
            "Stopped",
            analysis.stopped,
            "Nothing was stopped; all could be graded.",
            "What could not be graded, or only in part, and why. These are no accusations: an "
            "endless loop or a cell that does not run is mostly just that.",
        ),
        "Flags": _remarks(
            "Flags",
            analysis.flags,
            "Nothing was flagged.",
            "What was put back or odd in a submission; its score holds without the change. Most "
            "flags have harmless causes: ask first.",
        ),
        "Near-identical answers": near_identical(gathered, alike),
    }
    links = " ".join(f'<a href="#{_anchor(title)}">{title}</a>' for title in parts)
    sections = "".join(
        f'<section aria-labelledby="{_anchor(title)}"><h2 id="{_anchor(title)}">{title}</h2>'
        f"{body}</section>"
        for title, body in parts.items()
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width">'
        f"<title>{text(gathered.assignment)}: report</title><style>{STYLE}</style></head>"
        f"<body><header><h1>{_title(gathered.assignment)}</h1>"
        f"{_facts(gathered, analysis, made, stem)}"
        f'<nav aria-label="Sections">{links}</nav></header><main>{sections}</main></body></html>\n'
    )


def _title(assignment: str) -> str:
    title = next((chapter.title for chapter in CHAPTERS if chapter.id == assignment), "")
    return f"{text(assignment)}: {text(title)}" if title else text(assignment)


def _facts(gathered: Gathered, analysis: Analysis, made: str, stem: str) -> str:
    totals = list(analysis.totals.values())
    facts = {"students": f"{len(analysis.students)}"}
    if totals:
        facts |= {
            "graded": f"{len(totals)}",
            "points": f"{analysis.points:g}",
            "mean score": f"{statistics.fmean(totals):.1f}",
            "median score": f"{statistics.median(totals):g}",
            "flagged": f"{len({remark.student for remark in analysis.flags})}",
        }
    shown = "".join(f"<div><dt>{fact}</dt><dd>{value}</dd></div>" for fact, value in facts.items())
    waiting = ""
    if gathered.waiting:
        waiting = (
            f'<p class="warn"><strong>{len(gathered.waiting)} not graded as they stand</strong>, '
            f"so not in here: {names(gathered.waiting)}.</p>"
        )
    said = [f"Made {escape(made)}"] if made else []
    versions = sorted({record.version for record in gathered.records})
    said += [f"grader version {text(', '.join(versions))}"] if versions else []
    if stem:
        files = (f'<a href="{quote(stem)}.{end}">{end.upper()}</a>' for end in ("csv", "json"))
        said.append(f"the numbers as {' and '.join(files)}")
    line = f'<p class="quiet">{"; ".join(said)}.</p>' if said else ""
    return f'<dl class="facts">{shown}</dl>{waiting}{line}'


def _short(gathered: Gathered, analysis: Analysis, alike: Sequence[Group]) -> str:
    if not analysis.totals:
        return "<p>Nothing is graded yet.</p>"
    said = []
    begun = {item.exercise: item.started for item in analysis.items}
    worst = max(analysis.items, key=lambda item: item.points - item.mean, default=None)
    if worst is not None and worst.points > worst.mean:
        said.append(
            f"Most points are lost in {called(worst.exercise)}: "
            f"{worst.points - worst.mean:.1f} of {worst.points:g} on average."
        )
    said += [
        f"{len(found.students)} of the {begun[found.exercise]} who began "
        f"{called(found.exercise)} show the same slip: {text(found.name)}."
        for found in analysis.misconceptions[:3]
        if len(found.students) > 1
    ]
    said += [f"{called(item.exercise)}: {item.reading}." for item in analysis.items if item.odd]
    rare = sum(not group.common for group in alike)
    for what, remarks in (("stopped", analysis.stopped), ("flagged", analysis.flags)):
        who = len({remark.student for remark in remarks})
        if who:
            title = "Stopped" if what == "stopped" else "Flags"
            said.append(
                f'{count(who, "submission")} {what}: see <a href="#{_anchor(title)}">{title}</a>.'
            )
    if rare:
        said.append(
            f"{count(rare, 'group')} of "
            '<a href="#near-identical-answers">near-identical answers</a> to look at.'
        )
    points = "".join(f"<li>{sentence}</li>" for sentence in said)
    listed = f"<ul>{points}</ul>" if points else "<p>Nothing stands out.</p>"
    return f'<div class="beside">{histogram(analysis)}{listed}</div>'


def _scores(gathered: Gathered, analysis: Analysis) -> str:
    if not gathered.records:
        return "<p>Nothing is graded yet.</p>"
    columns = analysis.items
    head = "".join(
        f'<th class="n" scope="col">{called(item.exercise)}<br>'
        f"<small>of {item.points:g}</small></th>"
        for item in columns
    )
    cells: dict[str, dict[str, Verdict]] = {student: {} for student in analysis.students}
    problems: dict[str, str] = {}
    for record in gathered.records:
        if record.problem:
            problems[record.student] = record.problem
        for verdict in record.verdicts:
            cells[record.student][exercise_of(record, verdict)] = verdict
    flagged = {remark.student for remark in analysis.flags}
    rows = []
    for student in analysis.students:
        sign = ' <small><a href="#flags">flagged</a></small>' if student in flagged else ""
        row = f'<tr><th scope="row">{name(student)}{sign}</th>'
        if student in analysis.totals:
            row += "".join(_cell(cells[student].get(item.exercise)) for item in columns)
            row += f'<td class="n"><strong>{analysis.totals[student]:g}</strong></td></tr>'
        else:
            why = text(problems[student])
            row += f'<td colspan="{len(columns) + 1}" class="none">not graded: {why}</td></tr>'
        rows.append(row)
    mean = "".join(f"<td>{item.mean:.1f}</td>" for item in columns)
    overall = statistics.fmean(analysis.totals.values()) if analysis.totals else 0.0
    steps = "".join(f'<span style="background:{colour(i / 5)}">{20 * i}%</span>' for i in range(6))
    return (
        f'<p class="key">Share of points: {steps}<span class="none">not started</span></p>'
        + "<p>What the checks gave, before manual scores and late penalties: these are in the "
        "gradebook, and in what <code>attend export</code> writes.</p>"
        + scroll(
            "Scores by student and exercise",
            '<table class="heat"><caption>Scores by student and exercise</caption><thead><tr>'
            f'<th scope="col">student</th>{head}<th class="n" scope="col">total<br>'
            f"<small>of {analysis.points:g}</small></th></tr></thead><tbody>{''.join(rows)}"
            f'</tbody><tfoot><tr><th scope="row">mean of those graded</th>{mean}'
            f"<td>{overall:.1f}</td></tr></tfoot></table>",
        )
    )


def _cell(verdict: Verdict | None) -> str:
    if verdict is None or verdict.reason == "NOT_STARTED":
        return '<td class="n none">–<span class="unseen"> not started</span></td>'
    share = verdict.score / verdict.points if verdict.points else 0.0
    mark = f"<br><small>{MARKS[verdict.reason]}</small>" if verdict.reason in MARKS else ""
    return f'<td class="n" style="background:{colour(share)}">{verdict.score:g}{mark}</td>'


def _remarks(title: str, remarks: Sequence[Remark], empty: str, about: str) -> str:
    if not remarks:
        return f"<p>{empty}</p>"
    by: dict[str, list[str]] = {}
    for remark in remarks:
        by.setdefault(remark.student, []).append(remark.text)
    rows = [(name(who), "<br>".join(map(inline, said))) for who, said in by.items()]
    return f"<p>{about}</p>" + table(title, ("student", "what"), rows)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")
