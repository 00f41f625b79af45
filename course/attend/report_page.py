"""The page of ``attend report``: HTML and pictures in one file, without a script or a request.

Charts are drawn beforehand, as SVG. Everything that came from a student is escaped, and the page
forbids itself all scripts and loads (Content-Security-Policy), so nothing in it can be alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from attend_grader.classes.analysis import EASY, ENOUGH, HARD, WEAK, Analysis, Remark, exercise_of
from attend_grader.classes.gather import Gathered
from attend_grader.classes.similar import SIMILARITY, TOKENS, Group
from attend_grader.grading import Verdict

from attend.report_charts import dots, histogram

CIVIDIS = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
"""Six of matplotlib's cividis, in equal steps (Nuñez, Anderton and Renslow 2018)."""

MARKS = {"TIMEOUT": "time", "MEMORY": "memory", "CRASH": "crash", "INVALID": "invalid"}
CODE_LINES = 40

STYLE = """
:root{color-scheme:light}
body{font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;color:#1d2329;
background:#fff;max-width:72rem;margin:0 auto;padding:1.2rem 1.5rem 4rem}
h1{font-size:1.7rem;margin:.2em 0}h2{font-size:1.25rem;margin:2.2em 0 .4em}
h3{font-size:1.02rem;margin:1.4em 0 .2em}p{max-width:46rem;margin:.4em 0}
nav a{margin-right:1em;white-space:nowrap}a{color:#0b5ea8}.quiet{color:#56606b}
.facts{display:flex;flex-wrap:wrap;gap:.5rem 2.2rem;margin:1em 0;padding:0}
.facts div{display:flex;flex-direction:column-reverse}.facts dt{color:#56606b}
.facts dd{margin:0;font-size:1.5rem;font-weight:600}
.scroll{overflow:auto;max-height:80vh;margin:.6em 0;border:1px solid #cfd5db}
table{border-collapse:collapse;width:100%}
th,td{padding:.28em .6em;text-align:left;vertical-align:top;border-bottom:1px solid #e3e7eb}
thead th{position:sticky;top:0;background:#f3f5f7;border-bottom:2px solid #b9c1c9;
vertical-align:bottom;z-index:1}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.heat td.n{text-align:center;border:1px solid #fff}.heat thead th.n{text-align:center;
white-space:normal;font-size:.86rem}.heat th[scope=row]{white-space:nowrap;background:#fff}
.none{background:repeating-linear-gradient(45deg,#fff 0 5px,#e9ecef 5px 10px);color:#56606b}
.key{display:flex;gap:.4em;align-items:center;flex-wrap:wrap}.key span{padding:0 .7em}
figure{margin:.8em 0;overflow-x:auto}p,h3,td{overflow-wrap:anywhere}td.n{overflow-wrap:normal}
pre{background:#f6f8fa;border:1px solid #e3e7eb;padding:.7em .9em;overflow:auto;font-size:13px;
line-height:1.4;margin:.4em 0;max-width:60rem}code{font-size:.93em}
details{margin:.4em 0}summary{cursor:pointer}
ul{padding-left:1.2em;margin:.4em 0}
@media print{.scroll{max-height:none}thead th{position:static}}
"""


def page(gathered: Gathered, analysis: Analysis, alike: Sequence[Group]) -> str:
    """The whole page.

    Raises:
        AttendError: what draws the charts is not installed.
    """
    parts = {
        "Scores": _scores(gathered, analysis),
        "Points lost": _losses(analysis),
        "Misconceptions": _misconceptions(gathered, analysis),
        "Exercises": _items(analysis),
        "Hints and time": _hints(gathered),
        "Outliers": _remarks(
            analysis.outliers,
            f"There are none, or fewer than {ENOUGH} students.",
            "Totals more than 1.5 interquartile ranges outside the middle half of the class "
            "(Tukey's fences), and exercises that do not fit the rest of a student's results. "
            "Reasons to look, nothing more.",
        ),
        "Stopped": _remarks(analysis.stopped, "Nothing was stopped; all could be graded.", ""),
        "Flags": _remarks(
            analysis.flags,
            "Nothing was flagged.",
            "What was restored or odd in a submission. Most flags have harmless causes: ask first.",
        ),
        "Near-identical answers": _alike(gathered, alike),
    }
    links = " ".join(f'<a href="#{_anchor(title)}">{title}</a>' for title in parts)
    sections = "".join(
        f'<section><h2 id="{_anchor(title)}">{title}</h2>{body}</section>'
        for title, body in parts.items()
    )
    name = escape(gathered.assignment)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width">'
        f"<title>{name}: report</title><style>{STYLE}</style></head><body>"
        f"<h1>{name}</h1>{_facts(gathered, analysis)}<nav>{links}</nav>{sections}</body></html>\n"
    )


def _facts(gathered: Gathered, analysis: Analysis) -> str:
    totals = sorted(analysis.totals.values())
    facts = {"students": str(len(analysis.students))}
    if totals:
        middle = totals[(len(totals) - 1) // 2] + totals[len(totals) // 2]
        facts |= {
            "points": f"{analysis.points:g}",
            "mean score": f"{sum(totals) / len(totals):.1f}",
            "median score": f"{middle / 2:g}",
            "flagged": str(len({remark.student for remark in analysis.flags})),
        }
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    waiting = ""
    if gathered.waiting:
        waiting = (
            f"<p><strong>{len(gathered.waiting)} not graded as they stand</strong>, so not in "
            f"here: {escape(', '.join(gathered.waiting))}.</p>"
        )
    versions = ", ".join(sorted({record.version for record in gathered.records}))
    made = f'<p class="quiet">Grader version {escape(versions)}.</p>' if versions else ""
    return f'<dl class="facts">{shown}</dl>{waiting}{made}'


def _scores(gathered: Gathered, analysis: Analysis) -> str:
    if not analysis.totals:
        return "<p>Nothing is graded yet.</p>"
    names = [item.exercise for item in analysis.items]
    head = "".join(f'<th class="n" scope="col">{_breakable(name)}</th>' for name in names)
    cells: dict[str, dict[str, Verdict]] = {student: {} for student in analysis.totals}
    for record in gathered.records:
        for verdict in record.verdicts:
            cells[record.student][exercise_of(record, verdict)] = verdict
    rows = "".join(
        f'<tr><th scope="row">{escape(student)}</th>'
        + "".join(_cell(cells[student].get(name)) for name in names)
        + f'<td class="n"><strong>{analysis.totals[student]:g}</strong></td></tr>'
        for student in sorted(analysis.totals, key=lambda s: (-analysis.totals[s], s))
    )
    steps = "".join(
        f'<span style="background:{CIVIDIS[i]};color:{_ink(i / 5)}">{20 * i} %</span>'
        for i in range(6)
    )
    return (
        f'{histogram(analysis)}<p class="key">Share of points: {steps}'
        '<span class="none">not started</span></p>'
        '<div class="scroll" tabindex="0"><table class="heat"><thead><tr><th scope="col">student'
        f'</th>{head}<th class="n" scope="col">total</th></tr></thead><tbody>{rows}</tbody>'
        "</table></div>"
    )


def _cell(verdict: Verdict | None) -> str:
    if verdict is None or verdict.reason == "NOT_STARTED":
        return '<td class="n none" title="not started">–</td>'
    share = verdict.score / verdict.points if verdict.points else 0.0
    mark = f"<br><small>{MARKS[verdict.reason]}</small>" if verdict.reason in MARKS else ""
    return (
        f'<td class="n" style="background:{colour(share)};color:{_ink(share)}" '
        f'title="{verdict.reason}">{verdict.score:g}{mark}</td>'
    )


def colour(share: float) -> str:
    """Cividis at ``share`` of its way, 0 (dark) to 1 (light)."""
    at = min(max(share, 0.0), 1.0) * (len(CIVIDIS) - 1)
    low = min(int(at), len(CIVIDIS) - 2)
    pairs = [(int(CIVIDIS[low + i][1 + k : 3 + k], 16)) for k in (0, 2, 4) for i in (0, 1)]
    mixed = [round(a + (b - a) * (at - low)) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _ink(share: float) -> str:
    return "#fff" if share < 0.48 else "#000"


def _losses(analysis: Analysis) -> str:
    if not analysis.losses:
        return "<p>No points were lost.</p>" if analysis.totals else "<p>Nothing is graded yet.</p>"
    rows = [
        (
            f"<code>{_breakable(loss.exercise)}</code>",
            escape(loss.property),
            f"{loss.mean:.2f} of {loss.points:g}",
            str(len(loss.students)),
        )
        for loss in analysis.losses
    ]
    heads = ("exercise", "property", "mean points lost", "students")
    return "<p>By property, over the submissions in which the exercise was begun.</p>" + _table(
        heads, rows, (2, 3)
    )


def _misconceptions(gathered: Gathered, analysis: Analysis) -> str:
    if not analysis.misconceptions:
        return "<p>None of the known misconceptions was seen.</p>"
    parts = [
        "<p>Answers that behave just as a known slip does. The example is one student's cell as it "
        "was handed in.</p>"
    ]
    for found in analysis.misconceptions:
        student = found.students[0]
        source = gathered.answers.get(found.exercise, {}).get(student, "")
        lines = source.strip().split("\n")
        shown = "\n".join(lines[:CODE_LINES])
        more = f"\n… {len(lines) - CODE_LINES} more lines" if len(lines) > CODE_LINES else ""
        example = (
            f"<details><summary>example: {escape(student)}</summary>"
            f"<pre>{escape(shown)}{more}</pre></details>"
            if source
            else ""
        )
        parts.append(
            f"<h3><code>{escape(found.exercise)}</code>: {escape(found.name)} · "
            f"{_count(len(found.students), 'student')}</h3><p>{escape(found.explanation)}</p>"
            f'<p class="quiet">{escape(", ".join(found.students))}</p>{example}'
        )
    return "".join(parts)


def _items(analysis: Analysis) -> str:
    if not analysis.items:
        return "<p>Nothing is graded yet.</p>"
    rows = [
        (
            f"<code>{_breakable(item.exercise)}</code>",
            f"{item.mean:.2f} of {item.points:g}",
            _number(item.facility),
            _number(item.discrimination),
            f"{item.graded - item.started}",
            f"{item.solved}",
            item.note,
        )
        for item in analysis.items
    ]
    heads = ("exercise", "mean score", "p", "r", "not started", "all points", "")
    return (
        "<p><strong>Facility</strong> p = mean score / points: high is easy. "
        "<strong>Discrimination</strong> r = corr(x, T − x), x the scores of the exercise and T "
        "those of the assignment: whether those who do well elsewhere do well here. Exercises not "
        "started count as 0. (Crocker and Algina, <i>Introduction to Classical and Modern Test "
        "Theory</i>, 1986, chapter 14.) “–”: not defined, as scores do not vary or there are fewer "
        f"than three. Noted are p ≥ {EASY}, p ≤ {HARD} and r &lt; {WEAK} (poor, in Ebel and "
        "Frisbie, <i>Essentials of Educational Measurement</i>, 1991, chapter 13). In a small "
        "class both are rough.</p>" + _table(heads, rows, (1, 2, 3, 4, 5)) + dots(analysis)
    )


def _hints(gathered: Gathered) -> str:
    time = "How long learners worked is recorded nowhere."
    if not gathered.hints:
        return (
            f"<p>Nobody shared them. Hints taken are kept with the learner, in "
            f"<code>.attend/progress.json</code>, and are in here for who hands that file in. "
            f"{time}</p>"
        )
    rows = [
        (
            f"<code>{_breakable(name)}</code>",
            str(len(by)),
            f"{sum(by.values()) / len(by):.1f}",
            str(sum(count > 0 for count in by.values())),
        )
        for name, by in gathered.hints.items()
    ]
    return (
        f"<p>Of those who handed in their <code>progress.json</code>, which is theirs to edit. "
        f"{time}</p>"
        + _table(("exercise", "shared by", "mean hints taken", "took some"), rows, (1, 2, 3))
    )


def _remarks(remarks: Sequence[Remark], empty: str, about: str) -> str:
    if not remarks:
        return f"<p>{empty}</p>"
    by: dict[str, list[str]] = {}
    for remark in remarks:
        by.setdefault(remark.student, []).append(remark.text)
    rows = [(escape(who), "<br>".join(map(_inline, texts))) for who, texts in by.items()]
    return (f"<p>{about}</p>" if about else "") + _table(("student", ""), rows)


def _alike(gathered: Gathered, alike: Sequence[Group]) -> str:
    about = (
        f"<p>Answers whose tokens agree to {SIMILARITY:.0%} or more once layout, comments and "
        "docstrings are left out, chosen names are numbered and the released stub is taken away; "
        f"answers of fewer than {TOKENS} tokens are not compared. <strong>A pointer for a human, "
        "never a verdict</strong>: people who learn together write alike, and what most of a class "
        "shares is likely the plain way to write it.</p>"
    )
    if not alike:
        return f"{about}<p>There are none.</p>"
    parts = [about]
    for group in alike:
        first, second = group.students[:2]
        answers = gathered.answers.get(group.exercise, {})
        pair = "".join(
            f"<p>{escape(who)}</p><pre>{escape(answers.get(who, '').strip())}</pre>"
            for who in (first, second)
        )
        parts.append(
            f"<h3><code>{escape(group.exercise)}</code>: {len(group.students)} of {group.answered} "
            f"answers, from {group.similarity:.0%} alike, {group.tokens} tokens</h3>"
            f"<p>{escape(', '.join(group.students))}</p>"
            f"<details><summary>two of them</summary>{pair}</details>"
        )
    return "".join(parts)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """A table; ``rows`` hold HTML, ``numbers`` are the columns of numbers."""
    kind = dict.fromkeys(numbers, ' class="n"')
    head = "".join(f'<th scope="col"{kind.get(i, "")}>{h}</th>' for i, h in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{kind.get(i, '')}>{c}</td>" for i, c in enumerate(row)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _inline(text: str) -> str:
    """Escaped, with `code` between backquotes set as such."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


def _breakable(name: str) -> str:
    return escape(name).replace("_", "_<wbr>")


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
