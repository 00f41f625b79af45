"""Charts: Vega-Lite 5 for JupyterLab without a network; means and bands are right; errors help."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from types import ModuleType
from typing import Any

import altair as alt
import pytest
from attend import charts

SVG = "{http://www.w3.org/2000/svg}"
WORDS: dict[str, Any] = {
    "title": "Loss",
    "description": "Loss against width.",
    "x_title": "d_k",
    "y_title": "nats",
}
ROWS = [
    {"d_k": d_k, "way": way, "loss": base + run}
    for d_k in (1, 2, 4)
    for way, base in (("scaled", 1.0), ("unscaled", 5.0))
    for run in (0.0, 1.0, 2.0)
]


@pytest.fixture(autouse=True)
def _course_style():
    charts.use()
    yield
    alt.renderers.enable("default")
    alt.theme.enable("default")


@pytest.fixture(autouse=True)
def _no_editor(monkeypatch: pytest.MonkeyPatch):
    for name in charts.EDITORS:
        monkeypatch.delenv(name, raising=False)


def bundle(chart: alt.LayerChart | alt.Chart) -> dict:
    both: Any = chart._repr_mimebundle_()
    shown, metadata = both
    assert metadata[charts.MIME]["embed_options"]["renderer"] == "svg"
    return shown


def points(chart: alt.LayerChart) -> list[dict]:
    spec = chart.to_dict()
    assert all("data" not in layer for layer in spec["layer"]), "one copy of the data"
    return spec["data"]["values"]


def test_jupyter_gets_vega_lite_5_and_words():
    shown = bundle(charts.bands(ROWS, "d_k", "loss", "way", **WORDS))
    assert set(shown) == {"application/vnd.vegalite.v5+json", "text/plain"}
    spec = shown["application/vnd.vegalite.v5+json"]
    assert spec["$schema"] == "https://vega.github.io/schema/vega-lite/v5.json"
    assert shown["text/plain"] == "[chart] Loss: Loss against width."
    json.loads(json.dumps(spec, allow_nan=False))


def test_colab_gets_altairs_own_page(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    charts.use()
    shown: Any = charts.bands(ROWS, "d_k", "loss", "way", **WORDS)._repr_mimebundle_()
    assert "vega-embed" in shown["text/html"]
    assert '"fontSize": 15' in shown["text/html"], "the course's theme"


@pytest.mark.parametrize("name", charts.EDITORS)
def test_an_editor_gets_an_image_beside_it(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(name, "1")
    shown = bundle(charts.bands(ROWS, "d_k", "loss", "way", **WORDS))
    root = ET.fromstring(shown["image/svg+xml"])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.get("width", 0)) == pytest.approx(charts.WIDTH + 60, abs=20)
    assert {"Loss", "nats", "scaled"} <= {text.text for text in root.iter(f"{SVG}text")}
    assert "#ffffff" in shown["image/svg+xml"]


def test_an_editor_without_vl_convert_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VSCODE_PID", "1")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    shown = bundle(charts.line([{"x": 1, "y": 1}], "x", "y", **WORDS))
    assert "image/svg+xml" not in shown
    assert shown["text/plain"].endswith("pip install vl-convert-python)")


def test_any_altair_chart_is_rendered_offline():
    chart = alt.Chart(alt.Data(values=[{"a": 1}])).mark_point().encode(x="a:Q")
    shown = bundle(chart.properties(width="container"))
    spec = shown[charts.MIME]
    assert spec["width"] == charts.WIDTH
    assert spec["config"]["title"]["anchor"] == "start"
    assert "no description" in shown["text/plain"]


def test_a_chart_takes_the_width_there_is_unless_its_author_chose_one():
    chart = alt.Chart(alt.Data(values=[{"a": 1}])).mark_point().encode(x="a:Q")
    asked = bundle(chart.properties(width=charts.WIDTH))[charts.MIME]
    assert asked["autosize"]["type"] == "fit-x"
    assert asked["params"][-1]["name"] == "width"
    fixed = bundle(chart.properties(width=200))[charts.MIME]
    assert fixed["width"] == 200
    assert "autosize" not in fixed


def test_a_long_title_takes_two_lines():
    long: Any = "Mean norm of the gradient with respect to the queries, by the width of a query"
    shown = bundle(charts.line([{"x": 1, "y": 1}], "x", "y", **WORDS | {"title": long}))
    assert len(shown[charts.MIME]["title"]) == 2
    assert shown["text/plain"].startswith(f"[chart] {long}:")


@pytest.mark.parametrize(
    ("spread", "low", "high"),
    [("range", 1.0, 3.0), ("std", 2 - math.sqrt(2 / 3), 2 + math.sqrt(2 / 3))],
)
def test_bands_are_mean_and_spread_over_runs(spread, low, high):
    drawn = points(charts.bands(ROWS, "d_k", "loss", "way", spread=spread, **WORDS))
    assert len(drawn) == 6
    first = drawn[0]
    assert (first["x"], first["group"], first["mean"], first["runs"]) == (1, "scaled", 2.0, 3)
    assert first["low"] == pytest.approx(low)
    assert first["high"] == pytest.approx(high)


def test_the_line_may_be_the_median_of_the_runs():
    rows = [{"x": 1, "y": y, "g": "a"} for y in (1.0, 10.0, 1000.0)]
    (first,) = points(charts.bands(rows, "x", "y", "g", middle="median", log_y=10, **WORDS))
    assert (first["mean"], first["low"], first["high"]) == (10.0, 1.0, 1000.0)


def test_groups_differ_in_colour_dash_and_shape():
    colors = {"unscaled": charts.UNSCALED}
    chart = charts.bands(ROWS, "d_k", "loss", "way", colors=colors, log_x=2, **WORDS)
    layers = chart.to_dict()["layer"]
    kinds = ("line", "point", "area")
    by_mark = {kind: [e for e in layers if e["mark"]["type"] == kind] for kind in kinds}
    (lines,) = by_mark["line"]
    for channel in ("color", "strokeDash"):
        scale = lines["encoding"][channel]["scale"]
        assert scale["domain"] == ["scaled", "unscaled"]
        assert len({str(value) for value in scale["range"]}) == 2
    colours = [charts.GROUPS[0], charts.UNSCALED]
    assert lines["encoding"]["color"]["scale"]["range"] == colours
    assert [layer["mark"]["color"] for layer in by_mark["point"]] == colours
    assert [layer["mark"]["color"] for layer in by_mark["area"]] == colours[::-1]
    assert len({layer["mark"]["shape"] for layer in by_mark["point"]}) == 2
    encodings = [layer["encoding"] for layer in layers]
    assert encodings[0]["x"]["axis"]["values"] == [1, 2, 4]
    assert encodings[0]["x"]["scale"] == {"type": "log", "base": 2}


def test_the_palettes_are_long_enough_and_distinct():
    assert len(set(charts.GROUPS)) == len(charts.DASHES) == len(charts.SHAPES)
    assert charts.ROLE == {"Q": "#0072B2", "K": "#E69F00", "V": "#009E73"}


def test_a_line_without_groups_has_no_legend_and_no_band():
    rows = [{"x": i, "y": i * i} for i in range(5)]
    spec = charts.line(rows, "x", "y", **WORDS).to_dict()
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line", "point"]
    lines = spec["layer"][0]["encoding"]
    assert lines["color"]["legend"] is lines["strokeDash"]["legend"] is None


def test_long_lines_carry_no_markers():
    rows = [{"x": i, "y": i} for i in range(400)]
    spec = charts.line(rows, "x", "y", **WORDS).to_dict()
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line"]


@pytest.mark.parametrize(
    ("rows", "change", "message"),
    [
        ([{"x": 1}], {}, "row 0 has no column 'y'"),
        ([{"x": 1, "y": math.nan}], {}, "needs finite numbers"),
        ([], {}, "no rows"),
        ([{"x": 1, "y": 1}, {"x": 1, "y": 2}], {}, "Use bands"),
        ([{"x": 1, "y": 1}], {"title": " "}, "needs a title"),
        ([{"x": 1, "y": 1}], {"description": ""}, "needs a description"),
        ([{"x": i, "y": 1} for i in range(4097)], {}, "more than the 4096"),
        ([{"x": 1, "y": 1, "g": i} for i in range(9)], {"group": "g"}, "at most 7"),
    ],
    ids=["column", "nan", "empty", "repeated", "title", "description", "marks", "groups"],
)
def test_bad_input_says_what_to_do(rows, change, message):
    with pytest.raises(ValueError, match=message):
        charts.line(rows, "x", "y", **(WORDS | change))


def test_a_band_below_zero_has_no_logarithm():
    rows = [{"x": 1, "y": y, "g": "a"} for y in (0.1, 0.1, 5.0)]
    with pytest.raises(ValueError, match="linear axis"):
        charts.bands(rows, "x", "y", "g", spread="std", log_y=10, **WORDS)


def test_charts_need_no_pandas():
    code = "import sys; from attend import charts; charts.use(); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
