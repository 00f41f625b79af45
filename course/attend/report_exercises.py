"""The parts of ``attend report`` on exercises: points lost, misconceptions, indices, effort."""

from __future__ import annotations

import statistics

from attend_grader import chapters
from attend_grader.gradebook.gather import Gathered
from attend_grader.grading.analysis import EASY, HARD, WEAK, Analysis, Misconception

from attend.report_charts import dots
from attend.report_html import called, code, count, fold, inline, name, names, number, table, text

CODE_LINES = 40
FIRST = 12
"""Rows of a long table that are shown; the others are folded."""


def losses(analysis: Analysis) -> str:
    """Where the class loses points, by property."""
    if not analysis.losses:
        return "<p>No points were lost.</p>" if analysis.totals else "<p>Nothing is graded yet.</p>"
    begun = {item.exercise: item.started for item in analysis.items}
    most = analysis.losses[0].mean or 1.0
    rows = [
        (
            inline(loss.property),
            called(loss.exercise),
            f'<span class="bar" style="width:{6 * loss.mean / most:.2f}em"></span>'
            f"{loss.mean:.2f} of {loss.points:g}",
            f"{len(loss.students)} of {begun[loss.exercise]}",
        )
        for loss in analysis.losses
    ]
    heads = ("property", "exercise", "points lost on average", "missed by")
    shown = table("Points lost by property", heads, rows[:FIRST], (2, 3))
    if len(rows) > FIRST:
        more = table("Points lost by the other properties", heads, rows[FIRST:], (2, 3))
        shown += fold(f"{count(len(rows) - FIRST, 'more property')}".replace("ys", "ies"), more)
    return (
        "<p>What the checks test, with what it cost those who began the exercise. The longest bar "
        f"is where the class loses most.</p>{shown}"
    )


def misconceptions(gathered: Gathered, analysis: Analysis) -> str:
    """Which known slips the class shows, how often, with examples."""
    if not analysis.misconceptions:
        return "<p>None of the known misconceptions was seen.</p>"
    begun = {item.exercise: item.started for item in analysis.items}
    many = [found for found in analysis.misconceptions if len(found.students) > 1]
    single = [found for found in analysis.misconceptions if len(found.students) == 1]
    rows = [
        (
            text(found.name),
            called(found.exercise),
            f"{len(found.students)} of {begun[found.exercise]}",
        )
        for found in analysis.misconceptions
    ]
    heads = ("misconception", "exercise", "shown by")
    parts = [
        "<p>Answers that behave just as a known slip does, on inputs drawn at random. Counted "
        "among those who began the exercise.</p>",
        table("Misconceptions", heads, rows, (2,)),
        *(_misconception(gathered, found) for found in many),
    ]
    if single:
        rest = "".join(_misconception(gathered, found) for found in single)
        parts.append(fold(f"{len(single)} seen in one submission only", rest) if many else rest)
    return "".join(parts)


def _misconception(gathered: Gathered, found: Misconception) -> str:
    answers = gathered.answers.get(found.exercise, {})
    sources = {
        answers[student].strip(): student
        for student in reversed(found.students)
        if student in answers
    }
    shortest = sorted(sources, key=len)[:2]
    examples = "".join(
        fold(f"example: {name(sources[source])}", code(source, CODE_LINES)) for source in shortest
    )
    said = f"<p>Learners are told: “{inline(found.explanation)}”</p>" if found.explanation else ""
    return (
        f"<h3>{called(found.exercise)}: {text(found.name)} · "
        f"{count(len(found.students), 'student')}</h3>{said}"
        f'<p class="quiet">{names(found.students)}</p>{examples}'
    )


def items(analysis: Analysis) -> str:
    """Facility and discrimination of each exercise, in numbers and in words."""
    if not analysis.items:
        return "<p>Nothing is graded yet.</p>"
    rows = [
        (
            called(item.exercise),
            f"{item.mean:.1f} of {item.points:g}",
            number(item.facility),
            number(item.discrimination),
            "–" if item.interval is None else "{} to {}".format(*map(number, item.interval)),
            f"{item.graded - item.started}",
            f"{item.solved}",
            f"<strong>{item.reading}</strong>" if item.odd else item.reading,
        )
        for item in analysis.items
    ]
    heads = ("exercise", "mean", "p", "r", "r, 95%", "not started", "all points", "in words")
    about = fold(
        "how p and r are worked out",
        "<p>Facility p = mean score / points. Discrimination r = corr(x, T − x), with x the scores "
        "of the exercise and T those of the assignment: the corrected item-total correlation "
        "(Crocker and Algina, <i>Introduction to Classical and Modern Test Theory</i>, 1986, "
        "chapter 14). Exercises not started count as 0. “–”: not defined, as scores do not vary or "
        "there are fewer than three. The interval is Fisher's. Called too easy: p ≥ "
        f"{EASY}; too hard: p ≤ {HARD}; saying little: r &lt; {WEAK} (after Ebel and Frisbie, "
        "<i>Essentials of Educational Measurement</i>, 1991, chapter 13).</p>",
    )
    return (
        "<p><strong>Facility p</strong> is the share of points the class has: near 1 everybody can "
        "do it, near 0 nobody. <strong>Discrimination r</strong> says whether those who do well in "
        "the other exercises do well in this one: near 1 yes; near 0 it has little to do with "
        "them; below 0 rather the other way round, which often means that the text or the check is "
        "not clear. In a small class both are rough: mind the interval.</p>"
        + table("Exercises", heads, rows, (1, 2, 3, 4, 5, 6))
        + about
        + dots(analysis)
    )


def effort(gathered: Gathered) -> str:
    """Hints and time, where learners shared them."""
    about = (
        "<p>As the learners' notebooks say, which they can edit; no score depends on it. Time is "
        "at least what is said: pauses of more than half an hour are not counted.</p>"
    )
    how = (
        "<p>Learners share them with a cell <code>from attend_grader import share; "
        f'share("{text(gathered.assignment)}")</code> in the notebook that they hand in.</p>'
    )
    if not gathered.shared:
        return f"<p>Nobody shared them.</p>{how}"
    planned = {
        exercise.name: exercise.minutes
        for exercise in (
            chapters.chapter(gathered.assignment).exercises
            if gathered.assignment in chapters.INDEX
            else ()
        )
    }
    rows = []
    for exercise, by in gathered.shared.items():
        efforts = list(by.values())
        rows.append(
            (
                called(exercise),
                str(len(efforts)),
                f"{sum(effort.hints > 0 for effort in efforts)}",
                f"{statistics.fmean(effort.hints for effort in efforts):.1f}",
                f"{sum(effort.solution_shown for effort in efforts)}",
                f"{statistics.median(effort.minutes for effort in efforts):g}",
                str(planned.get(exercise, "–")),
            )
        )
    heads = (
        "exercise",
        "shared by",
        "took hints",
        "hints on average",
        "saw the solution",
        "minutes, median",
        "minutes planned",
    )
    return about + table("Hints and time", heads, rows, range(1, 7))
