"""Colours of the course's pictures, on JupyterLab's light ground (#fff) and on its dark one (#111).

What belongs to the page (ink, grid, ground) is one of JupyterLab's own CSS variables and follows
its theme by itself; the value behind the comma holds where there is no JupyterLab. What carries a
meaning keeps its colour in both themes: Okabe-Ito (Okabe and Ito, Color Universal Design, 2008),
but for purple and grey, which had to be lighter to be seen on both grounds. Nothing is said by
colour alone: lines differ in dash and marker too.
"""

from __future__ import annotations

from typing import Any

INK = "var(--jp-content-font-color1, #1f2328)"
MUTED = "var(--jp-content-font-color2, #57606a)"
GRID = "var(--jp-border-color2, #d8dee4)"
PAPER = "var(--jp-layout-color0, #ffffff)"
SHADE = "var(--jp-layout-color2, #eceff2)"  # a ground that is set off from the paper

ROLE = {"Q": "#0072B2", "K": "#E69F00", "V": "#009E73"}
UNSCALED, SCALED = "#D55E00", "#8E4FAF"  # vermillion against purple
GROUPS = ("#0072B2", "#D55E00", "#009E73", "#8E4FAF", "#56B4E9", "#E69F00", "#767676")
EDGE = "#888888"  # a thin line that must be seen on both grounds, where no variable can be used

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MOST = 620  # px that a chart takes: more would shrink too far when the window does
WIDTH = 470  # of a chart's plot where it cannot learn how much room there is


def vega() -> dict[str, Any]:
    """Return the Vega-Lite config: readable sizes, quiet grid, legend on top, no ground of its own.

    Text is `currentColor`: drawn as SVG it takes the page's ink in either theme; in the PNG that
    JupyterLab saves beside a chart it is black.
    """
    ink, line = "currentColor", {"domainColor": EDGE, "tickColor": EDGE, "gridColor": EDGE}
    return {
        "background": "transparent",
        "font": FONT,
        "title": {
            "anchor": "start",
            "color": ink,
            "fontSize": 15,
            "fontWeight": 600,
            "offset": 10,
            "subtitleColor": ink,
            "subtitleFontSize": 12,
        },
        "axis": {
            **line,
            "gridOpacity": 0.3,
            "labelColor": ink,
            "labelFontSize": 12,
            "titleColor": ink,
            "titleFontSize": 13,
            "titleFontWeight": 500,
            "titlePadding": 8,
        },
        "legend": {
            "orient": "top",
            "labelColor": ink,
            "labelFontSize": 12,
            "labelLimit": 240,
            "symbolSize": 600,  # the length of a piece of line, squared
            "symbolStrokeWidth": 2.5,
            "titleColor": ink,
            "titleFontSize": 12,
        },
        "header": {"labelColor": ink, "titleColor": ink},
        "text": {"color": ink},
        "line": {"strokeWidth": 2.25},
        "point": {"size": 55, "filled": True, "opacity": 1},
        "range": {"category": list(GROUPS)},  # magnitude: Vega-Lite's default is viridis
        "view": {"continuousWidth": WIDTH, "continuousHeight": 280, "stroke": None},
    }


FRAME = f"""
.vega-embed {{ display: block; position: relative; max-width: {MOST}px; }}
.vega-embed svg.marks {{ max-width: 100% !important; height: auto; }}
"""
"""The space around a chart in JupyterLab, in place of Vega-Embed's own style: that one makes it an
inline block, which is as wide as the chart in it. A page takes the style of its first chart."""

ROOM = f"(containerSize()[0] > 300 ? min(containerSize()[0], {MOST}) : {WIDTH + 60})"
"""Vega's expression for the width that a chart gets, axes and padding included."""

EMBED: dict[str, Any] = {"renderer": "svg", "defaultStyle": FRAME, "actions": False}
"""Options of Vega-Embed, for the output's metadata: JupyterLab takes them from there. Without the
menu of actions, as its button has no name that a screen reader could say."""


def responsive(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the chart's specification, drawn as SVG and as wide as there is room for it.

    `width: "container"` would follow every change of the window, but it hangs JupyterLab 4.6 where
    Vega-Embed's own style is in force: the chart widens its container, which widens the chart. So
    the width is asked once; after that, the style above shrinks the chart as a whole.
    """
    options = {**spec.get("usermeta", {}).get("embedOptions", {}), "renderer": "svg"}
    spec = {**spec, "usermeta": {**spec.get("usermeta", {}), "embedOptions": options}}
    if spec.get("width") == "container":
        spec["width"] = WIDTH
    if spec.get("width") != WIDTH:  # the author's own width; or several charts beside each other
        return spec
    spec["params"] = [*spec.get("params", []), {"name": "width", "expr": ROOM}]
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec
