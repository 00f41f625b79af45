"""The charts of a report, drawn beforehand as SVG: the page needs no script for them."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
from attend_grader.grading.analysis import Analysis
from markupsafe import Markup

from attend.charts import GROUPS, WIDTH, theme
from attend.errors import AttendError
from attend.text import visible


def histogram(analysis: Analysis) -> Markup:
    """Students by total score."""
    width = max(1, -(-int(analysis.points) // 10))  # whole points; at most ten bars and a bit
    bins = max(1, -(-int(analysis.points) // width))
    counts = [0] * bins
    for total in analysis.totals.values():
        counts[min(max(int(total / width), 0), bins - 1)] += 1
    step = _round_step(max(counts) / 5)
    ticks = list(range(0, max(counts) + step, step))
    rows = [
        {"low": i * width, "high": (i + 1) * width, "students": n} for i, n in enumerate(counts)
    ]
    edges = [i * width for i in range(bins + 1)]
    chart = (
        alt.Chart(alt.Data(values=rows), title="Students by total score")
        .mark_bar(color=GROUPS[0], stroke="white")
        .encode(
            x=alt.X(
                "low:Q",
                title="total score (points)",
                axis=alt.Axis(grid=False, values=edges, format="d"),
                scale=alt.Scale(domain=[0, edges[-1]], nice=False),
            ).bin("binned"),
            x2="high:Q",
            y=alt.Y("students:Q", title="students", axis=alt.Axis(values=ticks, format="d")),
        )
        .properties(width=WIDTH - 70, height=160)
    )
    said = ", ".join(f"{r['low']} to {r['high']} points: {r['students']}" for r in rows)
    return _figure(chart, f"Bar chart: students by total score. {said}.")


def _round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 … that is no less."""
    power = 10 ** max(math.floor(math.log10(max(least, 1))), 0)
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def dots(analysis: Analysis) -> Markup:
    """Facility and discrimination of each exercise."""
    names = ["facility p", "discrimination r"]
    rows = [
        {"exercise": item.exercise, "measure": name, "value": value}
        for item in analysis.items
        for name, value in (
            ("facility p", item.facility),
            ("discrimination r", item.discrimination),
        )
        if value is not None
    ]
    low = min(0.0, *(float(row["value"] or 0) for row in rows))
    chart = (
        alt.Chart(alt.Data(values=rows), title="Facility and discrimination of the exercises")
        .mark_point(size=80)
        .encode(
            x=alt.X("value:Q", title="index", scale=alt.Scale(domain=[low, 1])),
            y=alt.Y("exercise:N", sort=None, title="", axis=alt.Axis(grid=True, labelLimit=260)),
            color=alt.Color("measure:N", title="").scale(domain=names, range=list(GROUPS[:2])),
            shape=alt.Shape("measure:N", title="", legend=alt.Legend(symbolSize=80)).scale(
                domain=names, range=["circle", "square"]
            ),
        )
        .properties(width=WIDTH - 60, height=26 * len(analysis.items))
    )
    said = ", ".join(f"{r['exercise']} {r['measure']} {r['value']:.2f}" for r in rows)
    return _figure(chart, f"Dot plot: {said}.")


def _figure(chart: alt.TopLevelMixin, description: str) -> Markup:
    try:
        from vl_convert import vegalite_to_svg
    except ModuleNotFoundError:
        raise AttendError(
            "the report's charts need vl-convert: pip install 'vl-convert-python>=1.7'"
        ) from None
    config: Any = theme()
    svg = vegalite_to_svg(chart.to_dict(), config=config["config"])
    figure = Markup('<figure role="img" aria-label="{}">{}</figure>')
    return figure.format(visible(description), Markup(svg))
