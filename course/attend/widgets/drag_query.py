"""Drag the query: three tokens in the plane, and what softmax attention makes of them.

A goal is set on one of the values. The arrow at the query is minus the gradient of
½‖output − goal‖² with respect to q: where gradient descent would move the query. From `START`,
stretched scores first make the arrow longer; then they put all weight on one key, the output stays
in that corner and the arrow vanishes. From elsewhere it may only shrink, or the output may end at
the goal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import traitlets

from attend.theme import EDGE, GRID, INK, MUTED, PAPER, ROLE, UNSCALED
from attend.widgets.kit.learner import ask
from attend.widgets.kit.live import Live
from attend.widgets.kit.svg import beside, element, panel, text

EXERCISE = "scaled_dot_product_attention"
TOKENS = ("cat", "sat", "mat")
KEYS = ((1.9, 0.5), (-1.3, 1.5), (-0.6, -1.8))
VALUES = ((-1.8, -1.3), (1.8, -1.1), (0.2, 1.8))
GOAL = 1  # the token whose value the output should reach
START = (0.6, 0.9)
UNIT, CENTRE, SIZE = 56.0, (150.0, 190.0), (300.0, 332.0)
REACH = 2.4  # of q, in x and in y
PULL = 10.0  # units of the picture for a gradient of norm 1
LONGEST = 84.0
STEP = 1e-5  # of the central differences

SEE = (
    "Stretch the scores: from here the arrow grows, then vanishes with the output in the wrong"
    " corner. From near sat's key, the output goes to the goal."
)

Attention = Callable[..., Any]


class DragQuery(Live, module=__file__):
    """The widget: what is dragged, what Python answered, and what stays as it is."""

    q = traitlets.List(list(START)).tag(sync=True)
    stretch = traitlets.Float(1.0).tag(sync=True)
    asks = traitlets.Bool(False).tag(sync=True)
    """Whether a function of the learner's is asked; if not, the page computes by itself."""
    answer = traitlets.Dict().tag(sync=True)
    """Of `measure`, for the q and the stretch that it names."""
    scene = traitlets.Dict().tag(sync=True)


def drag_query(attend: Attention | None = None) -> DragQuery:
    """Show three keys and three values in the plane, and a query that can be dragged.

    Mouse, finger and arrow keys move the query; a slider stretches all scores. Without a function
    the page itself computes softmax attention, so it also works before anything is written;
    `attend(q, k, v) -> (output, weights)` is asked at every move instead, with q (1, 2), k (3, 2),
    v (3, 2) and the stretched query. Raises ValueError when it is not a function.
    """
    if attend is not None and not callable(attend):
        raise ValueError(
            f"drag_query: attend must be your function {EXERCISE}, or nothing; got"
            f" {type(attend).__name__}. Pass the function itself, without parentheses."
        )
    widget = DragQuery(see=SEE, asks=attend is not None)
    widget.scene = {
        "tokens": list(TOKENS),
        "keys": [list(key) for key in KEYS],
        "values": [list(value) for value in VALUES],
        "goal": GOAL,
        "unit": UNIT,
        "centre": list(CENTRE),
        "reach": REACH,
        "pull": PULL,
        "longest": LONGEST,
    }

    def answered() -> dict[str, Any]:
        return measure(list(widget.q), widget.stretch, attend)

    widget.answer = answered()
    widget.picture = draw(list(widget.q), widget.answer)
    if attend is not None:
        widget.observe(lambda _: setattr(widget, "answer", answered()), names=["q", "stretch"])
    return widget


def measure(q: Sequence[float], stretch: float, attend: Attention | None = None) -> dict[str, Any]:
    """Return weights (3), output (2) and pull (2) for one query; or `note`, the sentence to show.

    The pull is minus the gradient of ½‖output − goal‖² with respect to q, by central differences.
    """
    asked = {"q": list(q), "stretch": stretch}

    def call(query: np.ndarray) -> Any:
        arguments = (stretch * query[None], np.array(KEYS), np.array(VALUES))
        shapes = {"an output": (1, 2), "weights": (1, 3)}
        return ask(attend or _attention, EXERCISE, arguments, shapes)

    here = np.array(q, dtype=float)
    found = [call(here), *(call(here + step) for step in STEP * np.array(_WAYS))]
    for answer in found:
        if answer.problem:
            return asked | {"note": answer.problem}
    output, weights = found[0].arrays
    misses = [0.5 * float(((a.arrays[0][0] - VALUES[GOAL]) ** 2).sum()) for a in found[1:]]
    pull = [(misses[1] - misses[0]) / (2 * STEP), (misses[3] - misses[2]) / (2 * STEP)]
    return asked | {
        "weights": weights[0].tolist(),
        "output": output[0].tolist(),
        "pull": pull,
        "note": found[0].remark,
    }


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As the page computes it. Not the solution's: that is missing where submissions are run."""
    scores = q @ k.T / math.sqrt(q.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights @ v, weights


_WAYS = ((1, 0), (-1, 0), (0, 1), (0, -1))


def draw(q: Sequence[float], answer: dict[str, Any]) -> str:
    """Return both panels; the module moves every part that has a name."""
    weights = answer.get("weights", [0.0] * 3)
    output = answer.get("output", [0.0, 0.0])
    pull = answer.get("pull", [0.0, 0.0])
    at = _spot(q)
    keys, values = [_spot(key) for key in KEYS], [_spot(value) for value in VALUES]
    looks = ", ".join(f"{t} {w:.2f}" for t, w in zip(TOKENS, weights, strict=True))
    left = [_axes()]
    for token, key in zip(TOKENS, keys, strict=True):
        left.append(_line(CENTRE, key, stroke=ROLE["K"], stroke_width=2.5))
        left.append(element("circle", cx=key[0], cy=key[1], r=6, fill=ROLE["K"], stroke=EDGE))
        left.append(_beyond(key, token))
    for i, (key, weight) in enumerate(zip(keys, weights, strict=True)):
        left.append(_ray(f"fan-{i}", at, key, weight))
    left.append(_line(CENTRE, at, stroke=ROLE["Q"], stroke_width=2.5, data_part="query-line"))
    left.append(_pull(at, pull))
    left.append(
        element("circle", cx=at[0], cy=at[1], r=11, fill=ROLE["Q"], data_part="query"),
    )
    left.append(text(16, 48, "blue: query · orange: keys", font_size=13, fill=MUTED))
    spot = _spot(output)
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in values)
    right = [
        element("polygon", points=corners, fill=ROLE["V"], fill_opacity=0.08, stroke=ROLE["V"]),
    ]
    for i, (value, weight) in enumerate(zip(values, weights, strict=True)):
        right.append(_ray(f"spoke-{i}", spot, value, weight))
    for i, (token, value, weight) in enumerate(zip(TOKENS, values, weights, strict=True)):
        right.append(element("circle", cx=value[0], cy=value[1], r=7, fill=ROLE["V"]))
        right.append(_beyond(value, f"{token} {weight:.2f}", data_part=f"weight-{i}"))
    x, y = values[GOAL]
    ring = {"fill": "none", "stroke": INK, "stroke_width": 1.5, "stroke_dasharray": "4 3"}
    right.append(element("circle", cx=x, cy=y, r=13, **ring))
    right.append(text(x - 18, y - 10, "goal", font_size=13, text_anchor="end"))
    ring = {"fill": PAPER, "stroke": INK, "stroke_width": 3.5, "data_part": "output"}
    right.append(element("circle", cx=spot[0], cy=spot[1], r=8, **ring))
    right.append(text(16, 48, "green: values · ring: output", font_size=13, fill=MUTED))
    return beside(
        panel("query", *SIZE, "The query and the keys", f"Weights: {looks}.", *left),
        panel("output", *SIZE, "The output among the values", f"Weights: {looks}.", *right),
        widest="760px",
    )


Spot = tuple[float, float]


def _spot(point: Sequence[float]) -> Spot:
    """Return where a point of the plane is in the picture."""
    return CENTRE[0] + UNIT * point[0], CENTRE[1] - UNIT * point[1]


def _axes() -> str:
    x, y = CENTRE
    across = _line((x - REACH * UNIT, y), (x + REACH * UNIT, y), stroke=GRID)
    return across + _line((x, y - REACH * UNIT), (x, y + REACH * UNIT), stroke=GRID)


def _ray(part: str, start: Spot, end: Spot, weight: float) -> str:
    """Draw a line as thick and as dense as its weight."""
    style = {"stroke": ROLE["Q"], "stroke_width": 0.5 + 9 * weight, "opacity": 0.35 + 0.5 * weight}
    return _line(start, end, data_part=part, **style)


def _pull(at: Spot, pull: Sequence[float]) -> str:
    """Draw the arrow at the query: nothing where the gradient has vanished."""
    length = min(PULL * math.hypot(*pull), LONGEST)
    angle = math.degrees(math.atan2(-pull[1], pull[0]))
    shaft = {"x1": 13, "y1": 0, "x2": 13 + length, "y2": 0, "stroke": UNSCALED, "stroke_width": 4}
    head = f"{23 + length:.1f},0 {11 + length:.1f},-7 {11 + length:.1f},7"
    return element(
        "g",
        element("line", data_part="pull-shaft", **shaft),
        element("polygon", points=head, fill=UNSCALED, data_part="pull-head"),
        transform=f"translate({at[0]:.1f} {at[1]:.1f}) rotate({angle:.1f})",
        visibility="visible" if length >= 1 else "hidden",
        data_part="pull",
    )


def _beyond(spot: Spot, words: str, **attributes: object) -> str:
    """Write a name outside of its point, seen from the middle."""
    away = 1 if spot[1] > CENTRE[1] else -1
    x = min(max(spot[0], 40.0), SIZE[0] - 40)
    halo = {"stroke": PAPER, "stroke_width": 4, "paint_order": "stroke", "text_anchor": "middle"}
    return text(x, spot[1] + 5 + 22 * away, words, **halo, **attributes)


def _line(start: Spot, end: Spot, **style: object) -> str:
    return element("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], **style)
