"""Charts of a results file, as Vega-Lite 5 files that hold their data: JupyterLab opens them.

``tflops``: attention's rate against length. ``ceiling-FAMILY``: how near the ceiling every case of
a family comes. ``roofline``: rate against operations a byte, under the two measured ceilings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attend_kernels.bench.report import OURS, Document, Row, floor_ms, measured

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # the version JupyterLab 4 draws
# Okabe and Ito, Color Universal Design, 2008. Shapes tell apart without colour, and as there are
# more of them than colours, no two names share both.
COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
SHAPES = (
    "circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
    "triangle-left",
)  # fmt: skip
DIRECTIONS = ["forward", "backward", "both"]
SHORT = "datum.value < 1024 ? datum.value : datum.value / 1024 + 'k'"  # 512, 1k, 2k


def write(document: Document, stem: Path) -> list[Path]:
    """Write each chart there is data for beside the results file; return their paths.

    Raises:
        ImportError: Altair is not installed.
    """
    made = {"tflops": tflops(document), "roofline": roofline(document)}
    for family in _ordered(row["family"] for row in measured(document)):
        made[f"ceiling-{family}"] = ceiling(document, family)
    paths = []
    for name, chart in made.items():
        if chart is not None:
            path = stem.with_name(f"{stem.name}-{name}.vl.json")
            spec = {**chart.to_dict(), "$schema": SCHEMA}
            path.write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")
            paths.append(path)
    return paths


def tflops(document: Document) -> Any:
    """Attention: TFLOP/s against length, a row for each direction, a column for width and mask.

    A width and mask of which one length was measured makes no line, and is left out.
    """
    import altair as alt

    rows = [row for row in measured(document) if row["family"] == "flash"]
    lengths: dict[str, set[int]] = {}
    for row in rows:
        lengths.setdefault(_panel(row), set()).add(row["size"]["N"])
    points = [
        {
            "N": row["size"]["N"],
            "peer": row["peer"],
            "panel": _panel(row),
            "direction": row["direction"],
            "tflops": row["flops"] / row["median_ms"] / 1e9,
            "low": row["flops"] / row["high_ms"] / 1e9,
            "high": row["flops"] / row["low_ms"] / 1e9,
        }
        for row in rows
        if len(lengths[_panel(row)]) > 1
    ]
    if not points:
        return None
    panels = sorted(dict.fromkeys(p["panel"] for p in points), key=_natural)
    ticks = sorted({point["N"] for point in points})
    x = alt.X(
        "N:Q",
        title="length N (tokens)",
        scale=alt.Scale(type="log", base=2, nice=False, padding=8),
        axis=alt.Axis(values=ticks, labelExpr=SHORT),
    )
    color, shape = _told_apart("peer", [point["peer"] for point in points])
    tooltip = ["peer:N", "N:Q", alt.Tooltip("tflops:Q", format=".0f")]
    thick = alt.condition(f"datum.peer == '{OURS}'", alt.value(3), alt.value(1.2))
    y = alt.Y("tflops:Q", title="TFLOP/s")
    line = alt.Chart().mark_line().encode(x=x, y=y, color=color, strokeWidth=thick)
    dots = alt.Chart().mark_point(filled=True, size=50, opacity=1).encode(
        x=x, y=y, color=color, shape=shape, tooltip=tooltip
    )  # fmt: skip
    spread = alt.Chart().mark_rule().encode(x=x, y="low:Q", y2="high:Q", color=color)
    top = alt.Chart().mark_rule(strokeDash=[3, 3]).encode(
        y=alt.datum(document["ceilings"]["matmul_tflops"])
    )  # fmt: skip
    layers = alt.LayerChart(layer=[top, spread, line, dots], data=alt.Data(values=points))
    return (
        layers.properties(width=190, height=170)
        .facet(
            row=alt.Row("direction:N", title=None, sort=DIRECTIONS),
            column=alt.Column("panel:N", title=None, sort=panels),
        )
        .properties(
            title=_title(
                document,
                "Attention: rate against length",
                "Dashed: the bf16 matrix product measured in the same run. "
                "Bars: the middle 60 % of the calls.",
            )
        )
    )


def ceiling(document: Document, family: str) -> Any:
    """Share of the time its ceiling allows, of each case of a family, a column a direction."""
    import altair as alt

    points = [
        {
            "case": _label(row),
            "peer": row["peer"],
            "direction": row["direction"],
            "share": floor_ms(row, document["ceilings"]) / row["median_ms"],
        }
        for row in measured(document)
        if row["family"] == family
    ]
    color, shape = _told_apart("peer", [point["peer"] for point in points])
    cases = sorted(dict.fromkeys(point["case"] for point in points), key=_natural)
    most = max(1.0, *(point["share"] for point in points))
    share = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    scale = alt.Scale(domain=[0, most])
    size = alt.condition(f"datum.peer == '{OURS}'", alt.value(110), alt.value(60))
    return (
        alt.Chart(alt.Data(values=points))
        .mark_point(filled=True, opacity=0.9)
        .encode(
            x=alt.X("share:Q", title="share of the ceiling", axis=share, scale=scale),
            y=alt.Y("case:N", title=None, sort=cases, axis=alt.Axis(labelLimit=420, grid=True)),
            color=color,
            shape=shape,
            size=size,
            tooltip=["case:N", "peer:N", alt.Tooltip("share:Q", format=".0%")],
            column=alt.Column("direction:N", title=None, sort=DIRECTIONS),
        )
        .properties(
            width=230,
            height=alt.Step(18),
            title=_title(
                document,
                f"{family}: how near the ceiling",
                "100 % is the least time that the measured bandwidth or matrix product allows.",
            ),
        )
    )


def roofline(document: Document) -> Any:
    """Rate of our kernels against operations a byte, under the two ceilings."""
    import altair as alt

    top, wide = document["ceilings"]["matmul_tflops"], document["ceilings"]["copy_gbps"] / 1000
    points = [
        {
            "intensity": row["flops"] / row["bytes"],
            "tflops": row["flops"] / row["median_ms"] / 1e9,
            "family": row["family"],
            "case": f"{row['family']} {_label(row)}, {row['direction']}",
        }
        for row in measured(document)
        if row["peer"] == OURS
    ]
    if not points:
        return None
    least = min(0.5, *(p["intensity"] for p in points))
    most = max(1e4, *(p["intensity"] for p in points))
    bend = top / wide  # FLOP a byte at which the ceilings meet
    roof = [{"intensity": i, "tflops": min(top, wide * i)} for i in (least, bend, most)]
    log = alt.Scale(type="log", nice=False)
    powers = alt.Axis(values=[10**n for n in range(-3, 7)], format=",~g")
    x = alt.X("intensity:Q", title="operations a byte (FLOP/B, at least)", scale=log, axis=powers)
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=alt.Scale(type="log"), axis=powers)
    line = alt.Chart(alt.Data(values=roof)).mark_line(color="#666666").encode(x=x, y=y)
    color, shape = _told_apart("family", [point["family"] for point in points])
    dots = (
        alt.Chart(alt.Data(values=points))
        .mark_point(filled=True, size=60, opacity=0.8)
        .encode(
            x=x, y=y, color=color, shape=shape,
            tooltip=["case:N", alt.Tooltip("tflops:Q", format=".3g")],
        )
    )  # fmt: skip
    return alt.LayerChart(layer=[line, dots]).properties(
        width=520,
        height=340,
        title=_title(
            document,
            "Roofline of our kernels",
            f"Slope: copy, {1000 * wide:,.0f} GB/s. Flat: bf16 matrix product, {top:,.0f} TFLOP/s. "
            f"They meet at {bend:,.0f} FLOP/B.",
        ),
    )


def _panel(row: Row) -> str:
    return f"{row['name']}, D = {row['size']['D']}"


def _label(row: Row) -> str:
    sizes = [f"{key} {value}" for key, value in row["size"].items() if key not in ("B", "H")]
    return ", ".join([row["name"], *sizes])


def _natural(text: str) -> list[str]:
    """Sort key under which D 64 comes before D 128."""
    return [part.zfill(12) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def _ordered(names: Iterable[str]) -> list[str]:
    """Names without repeats, ours first, else in the order in which they were measured."""
    return sorted(dict.fromkeys(names), key=lambda name: name != OURS)


def _told_apart(field: str, names: Sequence[str]) -> tuple[Any, Any]:
    """Color and shape of a field, in one legend."""
    import altair as alt

    found = _ordered(names)

    def scale(values: Sequence[str]) -> Any:
        return alt.Scale(domain=found, range=[values[i % len(values)] for i in range(len(found))])

    return alt.Color(f"{field}:N", scale=scale(COLORS)), alt.Shape(
        f"{field}:N", scale=scale(SHAPES)
    )


def _title(document: Document, text: str, more: str) -> dict[str, Any]:
    subtitle = [f"{document['device']['name']}, {document['date']}", more]
    return {"text": text, "subtitle": subtitle, "anchor": "start"}
