"""Vectors in the plane, and the output as their weighted sum laid tip to tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attend.theme import GRID, INK, MUTED, PAPER, ROLE
from attend.widgets.kit.svg import element, hover, number, panel, readable, text

Spot = tuple[float, float]

_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 392.0, 76.0, 400.0  # of the drawing, inside a panel 404 × 424
_PAD = 34.0  # room for labels beside the outermost tips


@dataclass(frozen=True)
class _Frame:
    """From numbers to places in the panel: the same scale both ways."""

    centre: np.ndarray
    unit: float  # panel units per number

    @classmethod
    def around(cls, points: np.ndarray) -> _Frame:
        low, high = points.min(axis=0), points.max(axis=0)
        room = np.array([_RIGHT - _LEFT, _BOTTOM - _TOP]) - 2 * _PAD
        spans = np.maximum(high - low, 1e-9)
        return cls((low + high) / 2, float((room / spans).min()))

    def place(self, point: np.ndarray) -> Spot:
        x = (_LEFT + _RIGHT) / 2 + (point[0] - self.centre[0]) * self.unit
        y = (_TOP + _BOTTOM) / 2 - (point[1] - self.centre[1]) * self.unit
        return float(x), float(y)

    def reach(self, axis: int) -> tuple[float, float]:
        half = ((_RIGHT - _LEFT) if axis == 0 else (_BOTTOM - _TOP)) / 2 / self.unit
        return float(self.centre[axis] - half), float(self.centre[axis] + half)


def plane(
    vectors: np.ndarray, output: np.ndarray, weights: np.ndarray, tokens: Sequence[str], query: int
) -> str:
    """Draw each token's vector, and the query's output as Σ weights[j] · vectors[j], a step per
    token.

    Shapes: vectors (T, 2), output (2,) and weights (T,) of the chosen query.
    """
    steps = np.vstack([np.zeros(2), np.cumsum(weights[:, None] * vectors, axis=0)])
    frame = _Frame.around(np.vstack([vectors, output[None], steps]))
    origin = frame.place(np.zeros(2))
    body = [_grid(frame), _legend(readable(tokens[query]))]
    for token, vector in zip(tokens, vectors, strict=True):
        words = f"{readable(token, 30)}: {pair(vector)}"
        body.append(_arrow(origin, frame.place(vector), words))
    for j, token in enumerate(tokens):
        start, end = frame.place(steps[j]), frame.place(steps[j + 1])
        words = f"{weights[j]:.3f} · {readable(token, 30)}"
        style = {"stroke": ROLE["V"], "stroke_width": 4, "stroke_dasharray": "6 3"}
        body.append(_line(start, end, hover(words), **style))
        body.append(element("circle", cx=end[0], cy=end[1], r=3, fill=ROLE["V"]))
    for i, (token, vector) in enumerate(zip(tokens, vectors, strict=True)):
        body.append(
            _label(frame.place(vector), origin, readable(token), 700 if i == query else 400)
        )
    x, y = frame.place(output)
    said = f"output of {readable(tokens[query], 30)}: {pair(output)}"
    ring = {"fill": PAPER, "stroke": ROLE["V"], "stroke_width": 3.5}
    body.append(element("circle", hover(said), cx=x, cy=y, r=7, **ring))
    description = f"The {said}, where each vector times its weight leads, laid tip to tail."
    return panel("plane", 404, 424, "4. The same in the plane", description, *body)


def pair(vector: np.ndarray) -> str:
    """Return a vector as `(0.60, 0.80)`."""
    return "(" + ", ".join(number(value) for value in vector) + ")"


def _legend(name: str) -> str:
    ring = {"fill": PAPER, "stroke": ROLE["V"], "stroke_width": 3}
    return (
        _line((14, 47), (34, 47), stroke=INK, stroke_width=2.5)
        + text(40, 52, "vector", font_size=13)
        + _line((98, 47), (124, 47), stroke=ROLE["V"], stroke_width=4, stroke_dasharray="6 3")
        + text(130, 52, "weight · vector", font_size=13)
        + element("circle", cx=250, cy=47, r=6, **ring)
        + text(262, 52, f"output of {name}", font_size=13)
    )


def _grid(frame: _Frame) -> str:
    """Draw lines at round numbers, numbered at the edge; the axes through 0 are darker."""
    widest = max(high - low for low, high in (frame.reach(0), frame.reach(1)))
    power = 10.0 ** math.floor(math.log10(widest))
    step = next(
        power * factor for factor in (0.1, 0.2, 0.5, 1, 2, 5) if widest / (power * factor) <= 7
    )
    drawn = []
    for axis in (0, 1):
        low, high = frame.reach(axis)
        for n in range(math.ceil(low / step), math.floor(high / step) + 1):
            point = np.zeros(2)
            point[axis] = n * step
            x, y = frame.place(point)
            ends = ((x, _TOP), (x, _BOTTOM)) if axis == 0 else ((_LEFT, y), (_RIGHT, y))
            drawn.append(_line(*ends, stroke=MUTED if n == 0 else GRID))
            words = f"{n * step:.4g}".replace("-", "−")
            if axis == 0:
                drawn.append(
                    text(x, _BOTTOM + 15, words, font_size=12, fill=MUTED, text_anchor="middle")
                )
            else:
                drawn.append(
                    text(_LEFT - 5, y + 4, words, font_size=12, fill=MUTED, text_anchor="end")
                )
    return "".join(drawn)


def _arrow(start: Spot, end: Spot, words: str) -> str:
    """Draw a line with a solid head; a vector of almost no length is a dot."""
    long = math.dist(start, end)
    if long < 6:
        return element("circle", hover(words), cx=end[0], cy=end[1], r=4, fill=INK)
    along = ((end[0] - start[0]) / long, (end[1] - start[1]) / long)
    base = (end[0] - 11 * along[0], end[1] - 11 * along[1])
    corners = [
        end,
        (base[0] - 5 * along[1], base[1] + 5 * along[0]),
        (base[0] + 5 * along[1], base[1] - 5 * along[0]),
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    shaft = _line(start, base, hover(words), stroke=INK, stroke_width=2.5)
    return shaft + element("polygon", points=points, fill=INK)


def _label(tip: Spot, origin: Spot, words: str, weight: int) -> str:
    """Write a name beyond an arrow's tip, inside the panel, haloed against the lines."""
    long = math.dist(tip, origin) or 1.0
    x = tip[0] + 13 * (tip[0] - origin[0]) / long
    y = tip[1] + 13 * (tip[1] - origin[1]) / long + 5
    half = 4.2 * len(words)
    x = min(max(x, _LEFT + half), _RIGHT - half)
    halo = {"stroke": PAPER, "stroke_width": 4, "paint_order": "stroke"}
    return text(x, y, words, text_anchor="middle", font_weight=weight, **halo)


def _line(start: Spot, end: Spot, *children: str, **style: object) -> str:
    return element("line", *children, x1=start[0], y1=start[1], x2=end[0], y2=end[1], **style)
