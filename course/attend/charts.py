"""Charts: one Altair theme for the course, and a renderer that needs no network.

JupyterLab 4 bundles Vega-Lite 5 and ignores the version-6 MIME type that Altair 6 would emit, and
Altair's own default renderer loads Vega from the web. `use()` registers the course's theme and a
renderer that emits `application/vnd.vegalite.v5+json`, which Lab draws offline (and for which it
saves a PNG next to the chart when the notebook is saved), and VS Code too, with its extension for
notebooks. In editors the same chart comes along as an SVG image, for where the type is unknown.
Colab draws neither version; there Altair's renderer for Colab serves, which loads Vega from the
web. Colours, and how a chart follows Lab's theme and width, are in `attend.theme`.
"""

from __future__ import annotations

import importlib.util
import math
import os
import statistics
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from attend_grader.inside import lean  # noqa: F401  # first, or altair takes 0.9 s more

# isort: split

import altair as alt

from attend.theme import EMBED, GROUPS, ROLE, ROOM, SCALED, UNSCALED, WIDTH, responsive, vega

__all__ = [
    "GROUPS",
    "ROLE",
    "SCALED",
    "UNSCALED",
    "WIDTH",
    "bands",
    "line",
    "render",
    "theme",
    "use",
]

COLAB = "google.colab"  # the module that Colab's kernels have loaded
EDITORS = ("VSCODE_PID", "VSCODE_CWD", "PYCHARM_HOSTED")
"""Variables of the environment by which a kernel knows that an editor started it."""
MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
MAX_MARKS = 4096
TITLE = 54  # letters of a title in a line: as many as fit beside a file browser at 800 px
AXES = 70  # px of a chart's width that its y axis and padding take
DASHES = ([1, 0], [7, 3], [4, 2], [9, 3, 2, 3], [5, 5], [12, 3], [2, 3])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
Row = Mapping[str, Any]


def use() -> None:
    """Make the course's theme and the offline renderer the current ones for every Altair chart."""
    alt.theme.register("attend", enable=True)(theme)
    alt.renderers.register("attend", render)
    alt.renderers.enable("colab" if COLAB in sys.modules else "attend")


def theme() -> alt.theme.ThemeConfig:
    """Return the course's look, as Altair takes it."""
    return {"config": vega()}  # pyright: ignore[reportReturnType]


def render(spec: dict[str, Any], **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Turn a specification into what Jupyter shows offline, and into words for a terminal.

    Returns:
        The MIME bundle, and its metadata.
    """
    bundle: dict[str, Any] = {MIME: {**responsive(spec), "$schema": SCHEMA}}
    bundle["text/plain"] = _words(spec)
    if any(name in os.environ for name in EDITORS):
        if importlib.util.find_spec("vl_convert"):
            bundle["image/svg+xml"] = image(spec)
        else:
            bundle["text/plain"] += "\n(If no chart is drawn here: pip install vl-convert-python)"
    return bundle, {MIME: {"embed_options": EMBED}}


def image(spec: Mapping[str, Any]) -> str:
    """Draw a specification as SVG on white, without a browser; needs vl-convert."""
    from vl_convert import vegalite_to_svg

    return vegalite_to_svg({"background": "#ffffff", **spec, "$schema": alt.SCHEMA_URL})


def _words(spec: Mapping[str, Any]) -> str:
    title = spec.get("title", "")
    if isinstance(title, Mapping):
        title = title.get("text", "")
    if isinstance(title, list):
        title = " ".join(title)
    return f"[chart] {title}: {spec.get('description', 'no description')}"


def line(
    rows: Iterable[Row],
    x: str,
    y: str,
    group: str | None = None,
    *,
    title: str,
    description: str,
    x_title: str,
    y_title: str,
    log_x: int | None = None,
    log_y: int | None = None,
    colors: Mapping[str, str] | None = None,
    height: int = 280,
) -> alt.LayerChart:
    """Draw y against x, one line per group.

    `rows` are dicts with one value of `y` for each (`x`, group); `log_x` and `log_y` are the bases
    of logarithmic axes (None: linear); `colors` maps a group's name to its colour. Axis titles
    carry units. Raises ValueError for missing columns, numbers that are not finite, or more than
    one `y` per point (use `bands` for repeated runs).
    """
    points = _points(rows, x, y, group, "range")
    for point in points:
        if point["runs"] > 1:
            raise ValueError(
                f"line: {point['runs']} values of {y!r} at {x} = {point['x']:g} for"
                f" {point['group']!r}; a line takes one. Use bands(...) to show the mean and the"
                " spread of repeated runs."
            )
    chart = _lines(points, x_title, y_title, group or "", log_x, log_y, colors, alone=group is None)
    return _finish(chart, title, description, height)


def bands(
    rows: Iterable[Row],
    x: str,
    y: str,
    group: str,
    *,
    title: str,
    description: str,
    x_title: str,
    y_title: str,
    spread: Literal["range", "std"] = "range",
    middle: Literal["mean", "median"] = "mean",
    log_x: int | None = None,
    log_y: int | None = None,
    colors: Mapping[str, str] | None = None,
    dashes: Mapping[str, Sequence[int]] | None = None,
    height: int = 280,
) -> alt.LayerChart:
    """Draw the middle of repeated runs, one line per group, inside a band of their spread.

    `rows` are dicts with one value of `y` per run: rows of equal (`x`, `group`) are one point.
    The line is their mean, or their median (`middle="median"`: for logarithmic axes, where the
    largest run would drag a mean along). The band runs from the smallest to the largest run
    (`spread="range"`) or one population standard deviation each way from the mean ("std").
    `dashes` maps a group's name to lengths of line and gap, where two groups are one thing seen in
    two ways and share a colour. Other arguments and errors as for `line`.
    """
    points = _points(rows, x, y, group, spread, middle)
    if log_y is not None and any(point["low"] <= 0 for point in points):
        raise ValueError(
            f"bands: the band of {y!r} reaches 0 or below, which a logarithmic axis cannot show."
            ' Use spread="range" for positive values, or a linear axis (log_y=None).'
        )
    band = "smallest to largest run" if spread == "range" else "mean ± one standard deviation"
    chart = _lines(points, x_title, y_title, group, log_x, log_y, colors, dashes, band=band)
    return _finish(chart, title, description, height)


def _points(
    rows: Iterable[Row], x: str, y: str, group: str | None, spread: str, middle: str = "mean"
) -> list[dict[str, Any]]:
    """Gather rows of equal (x, group) into one point with middle, low and high, as they appear."""
    runs: dict[tuple[str, float], list[float]] = {}
    for number, row in enumerate(rows):
        for column in (x, y, *([group] if group else [])):
            if column not in row:
                raise ValueError(
                    f"row {number} has no column {column!r}: it has {', '.join(map(repr, row))}."
                    " Name the columns as they are in the rows."
                )
        at, value = float(row[x]), float(row[y])
        if not (math.isfinite(at) and math.isfinite(value)):
            raise ValueError(
                f"row {number} has {x} = {at} and {y} = {value}; a chart needs finite numbers."
                " Drop the runs that diverged and say in the description how many there were."
            )
        runs.setdefault((str(row[group]) if group else "", at), []).append(value)
    if not runs:
        raise ValueError("there are no rows to draw: pass at least one dict.")
    if len(runs) > MAX_MARKS:
        raise ValueError(
            f"{len(runs)} points are more than the {MAX_MARKS} a chart may have: thin them out."
        )
    points = []
    for (name, at), values in runs.items():
        mean = statistics.fmean(values)
        low, high = min(values), max(values)
        if spread == "std":
            low, high = mean - statistics.pstdev(values), mean + statistics.pstdev(values)
        shown = statistics.median(values) if middle == "median" else mean
        points.append(
            {"x": at, "group": name, "mean": shown, "low": low, "high": high, "runs": len(values)}
        )
    return points


def _lines(
    points: Sequence[dict[str, Any]],
    x_title: str,
    y_title: str,
    group: str,
    log_x: int | None,
    log_y: int | None,
    colors: Mapping[str, str] | None,
    dashes: Mapping[str, Sequence[int]] | None = None,
    *,
    band: str = "",
    alone: bool = False,
) -> alt.LayerChart:
    """Layer bands, lines and markers; colour, dash and shape all tell the groups apart."""
    names = list(dict.fromkeys(point["group"] for point in points))
    if len(names) > len(GROUPS):
        raise ValueError(
            f"{len(names)} groups cannot be told apart: draw at most {len(GROUPS)} in one chart."
        )
    palette = dict(zip(names, GROUPS, strict=False)) | dict(colors or {})
    ticks = sorted({point["x"] for point in points})
    few = ticks if log_x is not None and len(ticks) <= 12 else alt.Undefined
    x = alt.X("x:Q", title=x_title, scale=_scale(log_x), axis=alt.Axis(values=few, grid=False))
    legend = None if alone else alt.Legend(title=group, columns=_columns(names))
    colours = _by_name(names, [palette[name] for name in names])
    color = alt.Color("group:N", scale=colours, legend=legend)
    lines = dict(zip(names, DASHES, strict=False)) | dict(dashes or {})
    gaps = _by_name(names, [list(lines[name]) for name in names])
    dash = alt.StrokeDash("group:N", scale=gaps, legend=legend)
    mean = alt.Y("mean:Q", title=y_title, scale=_scale(log_y))
    tips = [alt.Tooltip("x:Q", title=x_title), alt.Tooltip("mean:Q", title=y_title, format=".4g")]
    if not alone:
        tips.insert(0, alt.Tooltip("group:N", title=group))
    if band:
        tips += [
            alt.Tooltip("low:Q", title=f"low ({band})", format=".4g"),
            alt.Tooltip("high:Q", title="high", format=".4g"),
            alt.Tooltip("runs:Q", title="runs"),
        ]
    base = alt.Chart().encode(x=x)
    layers = [base.mark_line().encode(y=mean, color=color, strokeDash=dash)]
    # A layer per group, in a constant colour: so the legend shows pieces of lines and nothing else.
    for name, form in zip(names, SHAPES, strict=False):
        mine = base.transform_filter(alt.FieldEqualPredicate(field="group", equal=name))
        if len(points) <= 40 * len(names):  # more markers than that would hide the lines
            markers = mine.mark_point(color=palette[name], shape=form)
            layers.append(markers.encode(y=mean, tooltip=tips))
        if band:
            low = alt.Y("low:Q", title=y_title, scale=_scale(log_y))
            shade = mine.mark_area(color=palette[name], opacity=0.18)
            layers.insert(0, shade.encode(y=low, y2="high:Q"))
    return alt.LayerChart(data=alt.Data(values=list(points)), layer=layers)


def _columns(names: list[str]) -> Any:
    """As many columns of the legend as fit beside each other, in the room that the chart gets.

    Not in the plot's own `width`: that shrinks when the axes have been laid out, and a legend that
    then breaks into one row more pushes the title out of the picture.
    """
    entry = 50 + 7 * max(map(len, names))  # px: the piece of line, and a 12 px letter each
    return {"expr": f"max(1, floor(({ROOM} - {AXES}) / {entry}))"}


def _scale(log: int | None) -> alt.Scale:
    return alt.Scale(type="log", base=log) if log is not None else alt.Scale(zero=False)


def _by_name(names: list[str], values: Sequence[Any]) -> alt.Scale:
    return alt.Scale(domain=names, range=list(values[: len(names)]))


def _finish(chart: alt.LayerChart, title: str, description: str, height: int) -> alt.LayerChart:
    for name, words in {"title": title, "description": description}.items():
        if not words.strip():
            raise ValueError(f"a chart needs a {name}: say in words what it shows.")
    lines = textwrap.wrap(title, TITLE)
    title_lines = lines if len(lines) > 1 else title
    return chart.properties(title=title_lines, description=description, width=WIDTH, height=height)
