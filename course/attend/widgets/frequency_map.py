"""The frequency map: what an encoding of positions looks like, and which positions look alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import GRID, INK, MUTED
from attend.widgets.kit.heatmap import heat_map
from attend.widgets.kit.learner import ask
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View, note

EXERCISE = "sinusoidal_encoding"
BASES = (10, 100, 1_000, 10_000, 100_000)
FIRSTS = (0, 20, 1_000, 100_000)
SHOWN, WIDTH = 32, 24

SEE = (
    "Columns on the left change from row to row, columns on the right hardly at all; a larger base"
    " makes more of them slow. The curve is the same wherever you are: only the distance counts."
)


@dataclass(frozen=True)
class MapState:
    """What the controls say: the base, the first position shown, and the chosen one (its row)."""

    base: int = 10_000
    first: int = 0
    row: int = 8


def frequency_map(sinusoidal_encoding: Callable[..., Any]) -> View:
    """Show `sinusoidal_encoding(positions, width, base)` as a heat map of 32 positions.

    Sliders (mouse or arrow keys) set the base, the first position and the chosen one, whose dot
    products with all positions shown are drawn beside. When the learner's function is not started
    or returns something else, a sentence naming the exercise takes the picture's place. Raises
    ValueError when `sinusoidal_encoding` is no function.
    """
    if not callable(sinusoidal_encoding):
        raise ValueError(
            f"frequency_map: sinusoidal_encoding must be your function {EXERCISE}; got"
            f" {type(sinusoidal_encoding).__name__}. Pass the function itself:"
            f" frequency_map({EXERCISE})."
        )
    wide = ipywidgets.Layout(width="min(460px, 98%)")
    words = {"description_width": "110px"}
    start = MapState()
    base, first = (
        ipywidgets.SelectionSlider(
            options=[(f"{o:,}", o) for o in options],
            value=value,
            description=name,
            style=words,
            layout=wide,
        )
        for name, options, value in (
            ("base", BASES, start.base),
            ("first position", FIRSTS, start.first),
        )
    )
    row = ipywidgets.IntSlider(
        value=start.row, min=0, max=SHOWN - 1, description="chosen row", style=words, layout=wide
    )
    controls = [base, first, row]

    def state() -> MapState:
        return MapState(base.value or start.base, first.value or 0, row.value)

    view = View("frequency-map", SEE, controls, lambda: draw(state(), sinusoidal_encoding))
    for control in controls:
        control.observe(view.refresh, names="value")
    return view


def draw(state: MapState, sinusoidal_encoding: Callable[..., Any]) -> str:
    """Return the map and the dot products, or one sentence where there is nothing to show."""
    import torch  # only this widget needs it, and only when drawn

    def call(positions: np.ndarray) -> Any:
        with torch.no_grad():
            return sinusoidal_encoding(torch.from_numpy(positions), WIDTH, base=float(state.base))

    places = state.first + np.arange(SHOWN)
    answer = ask(call, EXERCISE, (places,), {"a table": (SHOWN, WIDTH)})
    if answer.problem:
        return note(answer.problem)
    (table,) = answer.arrays
    alike = table @ table[state.row] / (WIDTH / 2)
    chosen = f"{places[state.row]:,}"
    shown = heat_map(
        "map",
        f"Encodings at base {state.base:,}, from position {state.first:,}",
        f"Rows are positions {places[0]:,} to {places[-1]:,}, columns alternate sine and cosine of"
        f" ever slower angles, from θ = 1 to {state.base ** (-(WIDTH - 2) / WIDTH):.2g}.",
        table,
        [f"{p}" if p < 1_000 else f"…{p % 1_000:03d}" for p in places],
        ["·" if c % 2 else str(c) for c in range(WIDTH)],
        chosen=state.row,
        low=-1.0,
        high=1.0,
        axes=("p", "column"),
        width=520.0,
    )
    return (note(answer.remark) if answer.remark else "") + beside(
        shown, _curve(places, alike, state.row, chosen)
    )


_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 412.0, 70.0, 300.0


def _curve(places: np.ndarray, alike: np.ndarray, row: int, chosen: str) -> str:
    """Draw how much each position's encoding resembles the chosen one's."""
    step = (_RIGHT - _LEFT) / (SHOWN - 1)
    low = min(-0.5, float(alike.min()))
    high = max(1.0, float(alike.max()))

    def up(value: float) -> float:
        return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)

    body = []
    for value in (-0.5, 0.0, 0.5, 1.0):
        style = {"stroke": INK if value == 0 else GRID}
        body.append(element("line", x1=_LEFT, y1=up(value), x2=_RIGHT, y2=up(value), **style))
        words = f"{value:g}".replace("-", "−")
        body.append(text(_LEFT - 8, up(value) + 4, words, font_size=12, text_anchor="end"))
    spots = [(_LEFT + i * step, up(float(a))) for i, a in enumerate(alike)]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
    body.append(element("path", d=path, fill="none", stroke=MUTED, stroke_width=2))
    for i, (x, y) in enumerate(spots):
        said = hover(f"position {places[i]:,}, distance {abs(i - row)}: {alike[i]:.3f}")
        here = i == row
        style = {"fill": INK if here else MUTED}
        body.append(element("circle", said, cx=x, cy=y, r=6.0 if here else 3.0, **style))
    for i in range(0, SHOWN, 8):
        x = _LEFT + i * step
        body.append(text(x, _BOTTOM + 20, f"{places[i]:,}", font_size=12, text_anchor="middle"))
    body.append(text(_RIGHT, _BOTTOM + 40, "position", font_size=13, fill=MUTED, text_anchor="end"))
    words = f"dot product with position {chosen}, 1 for itself"
    body.append(text(_LEFT, 50, words, font_size=13, fill=MUTED))
    nearest = alike[row - 1] if row else alike[row + 1]
    description = (
        f"The encoding of {chosen} has a dot product of {nearest:.2f} with its neighbour's, as a"
        f" share of that with itself; {alike.min():.2f} is the least."
    ).replace("-", "−")
    return panel("alike", 430, 350, "Which positions look alike", description, *body)
