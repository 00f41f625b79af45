"""Charts of a results file, as Vega-Lite 5 files that hold their data: JupyterLab opens them.

``tflops``: attention's rate against length. ``ceiling``: how near the ceiling every case comes.
``roofline``: rate against operations a byte, under the two measured ceilings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attend_kernels.bench.report import OURS, Document, floor_ms, measured

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # the version JupyterLab 4 draws
# Okabe and Ito, Color Universal Design, 2008; dashes tell the peers apart without colour.
COLORS = ["#D55E00", "#0072B2", "#009E73", "#7B3F98", "#56B4E9", "#E69F00", "#000000"]
DASHES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 3], [1, 3]]


def write(document: Document, stem: Path) -> list[Path]:
    """Write each chart there is data for beside the results file; return their paths.

    Raises:
        ImportError: Altair is not installed.
    """
    made = {
        "tflops": tflops(document),
        "ceiling": ceiling(document),
        "roofline": roofline(document),
    }
    paths = []
    for name, chart in made.items():
        if chart is not None:
            path = stem.with_name(f"{stem.name}-{name}.vl.json")
            spec = {**chart.to_dict(), "$schema": SCHEMA}
            path.write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")
            paths.append(path)
    return paths


def tflops(document: Document) -> Any:
    """Attention: TFLOP/s against length, a panel for each direction, width and mask."""
    import altair as alt

    points = [
        {
            "N": row["size"]["N"],
            "peer": row["peer"],
            "panel": f"{row['direction']}, {row['name']}, D={row['size']['D']}",
            "tflops": row["flops"] / row["median_ms"] / 1e9,
            "low": row["flops"] / row["high_ms"] / 1e9,
            "high": row["flops"] / row["low_ms"] / 1e9,
        }
        for row in measured(document)
        if row["family"] == "flash"
    ]
    if not points:
        return None
    peers = _peers(document)
    x = alt.X("N:Q", title="length N (tokens)", scale=alt.Scale(type="log", base=2))
    color = alt.Color("peer:N", scale=_scale(peers, COLORS))
    line = (
        alt.Chart()
        .mark_line(point=True)
        .encode(
            x=x,
            y=alt.Y("tflops:Q", title="TFLOP/s"),
            color=color,
            strokeDash=alt.StrokeDash("peer:N", scale=_scale(peers, DASHES)),
            tooltip=["peer:N", "N:Q", alt.Tooltip("tflops:Q", format=".0f")],
        )
        .properties(width=230, height=170)
    )
    spread = alt.Chart().mark_rule().encode(x=x, y="low:Q", y2="high:Q", color=color)
    top = alt.Chart().mark_rule(strokeDash=[2, 2]).encode(
        y=alt.datum(document["ceilings"]["matmul_tflops"])
    )  # fmt: skip
    data = alt.Data(values=points)
    layers = alt.LayerChart(layer=[line, spread, top], data=data)
    return layers.facet(facet=alt.Facet("panel:N", title=None), columns=4).properties(
        title=_title(document, "Attention (dashed: bf16 matrix product; bars: middle 60%)")
    )


def ceiling(document: Document) -> Any:
    """Each case's share of the time its ceiling allows, peers beside each other."""
    import altair as alt

    points = [
        {
            "case": _label(row),
            "peer": row["peer"],
            "share": floor_ms(row, document["ceilings"]) / row["median_ms"],
        }
        for row in measured(document)
    ]
    if not points:
        return None
    return (
        alt.Chart(alt.Data(values=points))
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X("share:Q", title="share of the ceiling", axis=alt.Axis(format="%")),
            y=alt.Y("case:N", title=None, sort=None, axis=alt.Axis(labelLimit=420)),
            color=alt.Color("peer:N", scale=_scale(_peers(document), COLORS)),
            shape="peer:N",
            tooltip=["case:N", "peer:N", alt.Tooltip("share:Q", format=".0%")],
        )
        .properties(width=420, title=_title(document, "How near the ceiling"))
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
            "case": _label(row),
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
    x = alt.X("intensity:Q", title="operations a byte (FLOP/B, at least)", scale=log)
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=alt.Scale(type="log"))
    line = alt.Chart(alt.Data(values=roof)).mark_line(color="#666666").encode(x=x, y=y)
    dots = (
        alt.Chart(alt.Data(values=points))
        .mark_point(filled=True, size=60)
        .encode(
            x=x,
            y=y,
            color=alt.Color("family:N", scale=alt.Scale(range=COLORS)),
            shape="family:N",
            tooltip=["case:N", alt.Tooltip("tflops:Q", format=".3g")],
        )
    )
    return alt.LayerChart(layer=[line, dots]).properties(
        width=480,
        height=300,
        title=_title(document, f"Roofline (ceilings meet at {bend:.0f} FLOP/B)"),
    )


def _label(row: Any) -> str:
    sizes = " ".join(f"{key}{value}" for key, value in row["size"].items() if key not in "BH")
    return f"{row['family']} {row['name']} {sizes}, {row['direction']}"


def _peers(document: Document) -> list[str]:
    names = dict.fromkeys(row["peer"] for row in measured(document))
    return sorted(names, key=lambda name: (name != OURS, name))


def _scale(names: Sequence[str], values: Sequence[Any]) -> Any:
    import altair as alt

    repeated = list(values) * math.ceil(len(names) / len(values))
    return alt.Scale(domain=list(names), range=repeated[: len(names)])


def _title(document: Document, text: str) -> dict[str, Any]:
    return {"text": text, "subtitle": f"{document['device']['name']}, {document['date']}"}
