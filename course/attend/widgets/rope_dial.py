"""The RoPE dial: a query and a key of two numbers, turned by their positions, and their score."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import GRID, INK, MUTED, PAPER, ROLE
from attend.widgets.kit.learner import Answer, ask
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View, note

EXERCISE = "apply_rope"
FREQUENCIES = (1.0, 0.316, 0.1, 0.0316)
SHIFTS = (0, 1, 10, 100, 1_000, 10_000, 100_000)
LAST = 40  # the sliders' largest position

QUERY, KEY = np.array([0.95, 0.3]), np.array([0.6, 0.75])

SEE = (
    "Moving one position turns one arrow and changes the score; moving both by the same number"
    " turns both arrows alike, and the score stays: it depends on m − n alone."
)


@dataclass(frozen=True)
class DialState:
    """What the controls say: positions of query and key, what is added to both, the frequency."""

    m: int = 7
    n: int = 3
    shift: int = 0
    frequency: float = 0.316


def rope_dial(apply_rope: Callable[..., Any]) -> View:
    """Show how `apply_rope(x, positions, frequencies)` turns a query and a key of one pair.

    Sliders (mouse or arrow keys) set the query's position m, the key's position n, and a number
    that is added to both. When the learner's function is not started or returns something else, a
    sentence naming the exercise takes the picture's place. Raises ValueError when `apply_rope` is
    no function.
    """
    if not callable(apply_rope):
        raise ValueError(
            f"rope_dial: apply_rope must be your function {EXERCISE}; got"
            f" {type(apply_rope).__name__}. Pass the function itself: rope_dial({EXERCISE})."
        )
    wide = ipywidgets.Layout(width="min(460px, 98%)")
    words = {"description_width": "110px"}
    start = DialState()
    query, key = (
        ipywidgets.IntSlider(
            value=value, min=0, max=LAST, description=name, style=words, layout=wide
        )
        for name, value in (("query at m", start.m), ("key at n", start.n))
    )
    shift = ipywidgets.SelectionSlider(
        options=[(f"{s:,}", s) for s in SHIFTS],
        value=start.shift,
        description="move both by",
        style=words,
        layout=wide,
    )
    frequency = ipywidgets.Dropdown(
        options=[(f"θ = {f:g} radians a step", f) for f in FREQUENCIES],
        value=start.frequency,
        description="frequency",
        style=words,
        layout=ipywidgets.Layout(width="min(340px, 98%)"),
    )
    controls = [query, key, shift, frequency]

    def state() -> DialState:
        return DialState(query.value, key.value, shift.value or 0, frequency.value or 1.0)

    view = View("rope-dial", SEE, controls, lambda: draw(state(), apply_rope))
    for control in controls:
        control.observe(view.refresh, names="value")
    return view


def draw(state: DialState, apply_rope: Callable[..., Any]) -> str:
    """Return the dial and the score by offset, or one sentence where there is nothing to show."""
    offsets = np.arange(-LAST, LAST + 1)
    places = np.concatenate([state.n + state.shift + offsets, [state.m + state.shift]])
    queries = _turn(apply_rope, QUERY, places, state.frequency)
    keys = _turn(apply_rope, KEY, np.array([state.n + state.shift]), state.frequency)
    for answer in (queries, keys):
        if answer.problem:
            return note(answer.problem)
    (turned,), (key,) = queries.arrays, keys.arrays
    query, scores = turned[-1], turned[:-1] @ key[0]
    remark = queries.remark or keys.remark
    return (note(remark) if remark else "") + beside(
        _dial(state, query, key[0]), _curve(state, offsets, scores, float(query @ key[0]))
    )


def _turn(
    apply_rope: Callable[..., Any], vector: np.ndarray, places: np.ndarray, frequency: float
) -> Answer:
    """Turn one vector as if it stood at each of `places`, by the learner's function."""
    import torch  # only this widget needs it, and only when drawn

    def call(x: np.ndarray, positions: np.ndarray, frequencies: np.ndarray) -> Any:
        with torch.no_grad():
            return apply_rope(*(torch.from_numpy(a) for a in (x, positions, frequencies)))

    rows = np.tile(vector.astype(np.float32), (len(places), 1))
    shapes = {"turned vectors": rows.shape}
    return ask(call, EXERCISE, (rows, places.astype(np.int64), np.array([frequency])), shapes)


_SIZE, _MIDDLE, _RADIUS = 380.0, (190.0, 246.0), 128.0


def _dial(state: DialState, query: np.ndarray, key: np.ndarray) -> str:
    """Draw both vectors: as they are at position 0 (thin, dashed), and turned."""
    x, y = _MIDDLE
    body = [element("circle", cx=x, cy=y, r=_RADIUS, fill="none", stroke=GRID)]
    body.append(_line((x - _RADIUS - 14, y), (x + _RADIUS + 14, y), stroke=GRID))
    body.append(_line((x, y - _RADIUS - 14), (x, y + _RADIUS + 14), stroke=GRID))
    sides = (
        ("q", ROLE["Q"], QUERY, query, state.m, "1 0"),
        ("k", ROLE["K"], KEY, key, state.n, "9 4"),
    )
    for name, colour, before, after, place, dash in sides:
        at = place + state.shift
        said = f"{name} at position {at:,}: ({after[0]:.3f}, {after[1]:.3f})"
        tip = _spot(after)
        style = {"stroke": colour, "stroke_width": 1.5, "stroke_dasharray": "2 4"}
        body.append(_line(_MIDDLE, _spot(before), hover(f"{name} at position 0"), **style))
        style = {"stroke": colour, "stroke_width": 5, "stroke_dasharray": dash}
        body.append(_line(_MIDDLE, tip, hover(said), **style))
        body.append(element("circle", hover(said), cx=tip[0], cy=tip[1], r=6, fill=colour))
        long = max(math.hypot(*after), 1e-9)
        label = _spot(after * (1 + 0.16 / long))
        halo = {"stroke": PAPER, "stroke_width": 4, "paint_order": "stroke"}
        style = {"font_weight": 700, "font_size": 16, "text_anchor": "middle"}
        body.append(text(label[0], label[1] + 5, name, **style, **halo))
    for row, (name, colour, _, _, place, dash) in enumerate(sides):
        y = 48 + 20 * row
        style = {"stroke": colour, "stroke_width": 5, "stroke_dasharray": dash}
        body.append(_line((16, y - 4), (48, y - 4), **style))
        kind = "query" if name == "q" else "key"
        angle = (place + state.shift) * state.frequency
        words = f"{kind} at {place + state.shift:,}: turned by {angle:,.2f} rad"
        body.append(text(56, y, words, font_size=13))
    body.append(text(56, 88, "dotted: before turning, as at 0", font_size=13, fill=MUTED))
    apart = (state.m - state.n) * state.frequency
    description = (
        f"The query at {state.m + state.shift:,} and the key at {state.n + state.shift:,}; the turn"
        f" between them is {state.m - state.n} · {state.frequency:g} = {apart:.2f} radians."
    ).replace("-", "−")
    return panel("dial", _SIZE, 400, "One pair of numbers, turned", description, *body)


def _spot(vector: np.ndarray) -> tuple[float, float]:
    return _MIDDLE[0] + _RADIUS * float(vector[0]), _MIDDLE[1] - _RADIUS * float(vector[1])


_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 452.0, 84.0, 330.0


def _curve(state: DialState, offsets: np.ndarray, scores: np.ndarray, score: float) -> str:
    """Draw the score of a query at every offset from the key, and mark the present one."""
    most = 1.15 * float(np.hypot(*QUERY) * np.hypot(*KEY))
    here = state.m - state.n

    def spot(offset: float, value: float) -> tuple[float, float]:
        across = (offset + LAST) / (2 * LAST)
        up = (min(max(value, -most), most) + most) / (2 * most)
        return _LEFT + across * (_RIGHT - _LEFT), _BOTTOM - up * (_BOTTOM - _TOP)

    body = []
    for value in (-1.0, 0.0, 1.0):
        y = spot(0, value)[1]
        body.append(_line((_LEFT, y), (_RIGHT, y), stroke=INK if value == 0 else GRID))
        words = f"{value:g}".replace("-", "−")
        body.append(text(_LEFT - 8, y + 4, words, font_size=12, text_anchor="end"))
    for offset in range(-LAST, LAST + 1, 20):
        x = spot(offset, 0)[0]
        body.append(_line((x, _BOTTOM), (x, _BOTTOM + 5), stroke=INK))
        words = f"{offset}".replace("-", "−")
        body.append(text(x, _BOTTOM + 20, words, font_size=12, text_anchor="middle"))
    spots = [spot(o, v) for o, v in zip(offsets.tolist(), scores.tolist(), strict=True)]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
    body.append(element("path", d=path, fill="none", stroke=MUTED, stroke_width=1.5))
    for offset, value, (x, y) in zip(offsets.tolist(), scores.tolist(), spots, strict=True):
        said = hover(f"offset {offset}: score {value:.4f}")
        body.append(element("circle", said, cx=x, cy=y, r=2, fill=MUTED))
    x, y = spot(here, score)
    body.append(_line((x, _TOP), (x, _BOTTOM), stroke=INK, stroke_dasharray="3 3"))
    said = hover(f"offset {here}: score {score:.5f}")
    ring = {"fill": PAPER, "stroke": ROLE["V"], "stroke_width": 4}
    body.append(element("circle", said, cx=x, cy=y, r=8, data_offset=here, **ring))
    words = f"m − n = {here}: score {score:.5f}".replace("-", "−")
    body.append(text(_LEFT, 52, words, font_size=16, font_weight=700))
    body.append(text(_RIGHT, _BOTTOM + 40, "m − n", font_size=13, fill=MUTED, text_anchor="end"))
    upright = {"text_anchor": "middle", "transform": "rotate(-90 16 207)"}
    body.append(text(16, 207, "score q · k", font_size=13, fill=MUTED, **upright))
    description = (
        f"The score at every offset m − n from −{LAST} to {LAST}; at {here} it is {score:.5f}."
    ).replace("-", "−")
    title = "The score depends on the offset alone"
    return panel("score", 470, 400, title, description, *body)


def _line(
    start: tuple[float, float], end: tuple[float, float], *children: str, **style: object
) -> str:
    return element("line", *children, x1=start[0], y1=start[1], x2=end[0], y2=end[1], **style)
