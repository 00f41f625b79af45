"""The wall of clocks: RoPE's pairs as hands, the angles that training showed them, and the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import EDGE, GRID, INK, MUTED, PAPER, ROLE, SHADE, UNSCALED
from attend.widgets.kit.learner import ask
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View, note

PAIRS, TRAINED = 8, 64
LENGTHS = (64, 128, 256, 512, 1024)
PLAIN, PI, NTK, YARN = WAYS = ("as it was", "PI", "NTK", "YaRN")
BETA = 8.0
EXERCISES = {PI: "position_interpolation", NTK: "ntk_scale", YARN: "yarn_frequencies"}
BASE = 10_000

SEE = (
    "Grey is what training on 64 letters showed a clock, orange what is new. In a longer text the"
    " slow clocks enter the orange and the loss climbs; PI, NTK and YaRN slow clocks down."
)

Losses = Mapping[str, Mapping[int, Sequence[float]]]
"""By way (or "none", a model without positions) and length: the loss of each run."""


@dataclass(frozen=True)
class ClockState:
    """What the controls say."""

    length: int = TRAINED
    way: str = PLAIN
    base: int = BASE


def wall_of_clocks(
    own: Mapping[str, Callable[..., Any]] | None = None,
    losses: Mapping[str, Mapping[int, float]] | None = None,
) -> View:
    """Show the eight clocks of a small reader's RoPE, and what it pays in longer texts.

    Without arguments the page's own gears, and the course's readers: ten runs at each of three
    bases. With ``own``, the learner's functions by the names in EXERCISES, these set the gears;
    ``losses``, by way and length, are then those of one reader with base 10,000. Raises ValueError
    where something else is handed in.
    """
    if own is not None and not (isinstance(own, Mapping) and all(map(callable, own.values()))):
        raise ValueError(
            "wall_of_clocks: own must be a dict of your functions, by their names"
            f" {', '.join(EXERCISES.values())}; got {type(own).__name__}."
        )
    if losses is None:
        table = _measured()
    else:
        table = {BASE: {way: {n: [one] for n, one in row.items()} for way, row in losses.items()}}
    wide = ipywidgets.Layout(width="min(420px, 98%)")
    words = {"description_width": "70px"}
    length = ipywidgets.SelectionSlider(
        options=[(f"{n:,} letters", n) for n in LENGTHS],
        value=TRAINED,
        description="length",
        style=words,
        layout=wide,
    )
    base = ipywidgets.SelectionSlider(
        options=[(f"{b:,}", b) for b in table],
        value=BASE,
        description="base",
        style=words,
        layout=wide,
    )
    way = ipywidgets.ToggleButtons(options=WAYS, value=PLAIN)  # a name would take a line
    way.style.button_width = "84px"
    controls = [length, way, *([base] if len(table) > 1 else [])]

    def picture() -> str:
        state = ClockState(length.value or TRAINED, way.value or PLAIN, base.value or BASE)
        return draw(state, table[state.base], own)

    view = View("wall-of-clocks", SEE, controls, picture)
    for control in controls:
        control.observe(view.refresh, names="value")
    return view


def _measured() -> dict[int, Losses]:
    """The course's table, by base."""
    from attend.data import position_arms as arms  # it takes torch

    rows = arms.table()["letters"]
    none = _by_length(rows["none"]["runs"])
    found: dict[int, Losses] = {}
    for arm, base in arms.ROPE.items():
        ways = {way: _by_length([run[way] for run in rows[arm]["ways"]]) for way in WAYS[1:]}
        found[base] = {PLAIN: _by_length(rows[arm]["runs"]), **ways, "none": none}
    return found


def _by_length(runs: Sequence[Mapping[str, Sequence[float]]]) -> dict[int, list[float]]:
    return {length: [run[str(length)][0] for run in runs] for length in LENGTHS}


def gears(state: ClockState, own: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """Radians a step of each pair (8,) as it turns now; or the sentence to show."""
    width, factor = 2 * PAIRS, max(1.0, state.length / TRAINED)
    plain = _frequencies(state.base)
    if state.way == PLAIN:
        return plain
    name = EXERCISES[state.way]
    if own is None or name not in own:
        return _slowed(state.way, state.base, factor)
    if state.way == PI:
        arguments: tuple[Any, ...] = (np.array([0, 1]), TRAINED, state.length)
        shape: tuple[int, ...] = (2,)
    elif state.way == NTK:
        arguments, shape = (width, float(state.base), factor), ()
    else:
        arguments, shape = (width, float(state.base), factor, TRAINED, 1.0, BETA), (PAIRS,)

    def call(*given: Any) -> Any:
        import torch

        where = [torch.from_numpy(g) if g.ndim else g.item() for g in given]
        found = own[name](*where)
        return found[0] if state.way == YARN else found

    answer = ask(call, name, tuple(np.asarray(a) for a in arguments), {"a result": shape})
    if answer.problem:
        return answer.problem
    (found,) = answer.arrays
    if state.way == PI:
        return plain * (found[1] - found[0])
    return _frequencies(float(found)) if state.way == NTK else found


def _frequencies(base: float) -> np.ndarray:
    return base ** (-np.arange(PAIRS) / PAIRS)


def _slowed(way: str, base: int, factor: float) -> np.ndarray:
    """As the page computes it. Not the solution's: that is missing where submissions are run."""
    plain = _frequencies(base)
    if way == PI:
        return plain / factor
    if way == NTK:
        return _frequencies(base * factor ** (PAIRS / (PAIRS - 1)))
    kept = np.clip((TRAINED * plain / (2 * math.pi) - 1) / (BETA - 1), 0, 1)
    return plain * (kept + (1 - kept) / factor)


def draw(
    state: ClockState, losses: Losses, own: Mapping[str, Callable[..., Any]] | None = None
) -> str:
    """Return the clocks and the loss by length, or one sentence where there is nothing to show."""
    turning = gears(state, own)
    if isinstance(turning, str):
        return note(turning)
    return beside(_wall(state, turning), _curve(state, losses))


_RADIUS, _ACROSS, _DOWN = 46.0, 128.0, 152.0


def _wall(state: ClockState, turning: np.ndarray) -> str:
    """Draw eight clocks in two rows, the fast ones first."""
    plain, body, fresh = _frequencies(state.base), [], 0
    for i in range(PAIRS):
        x, y = 72 + _ACROSS * (i % 4), 92 + _DOWN * (i // 4)
        seen = TRAINED * plain[i]
        reach = (state.length - 1) * turning[i]
        new = seen < 2 * math.pi and reach > seen
        fresh += new
        told = f"clock {i}: {reach / (2 * math.pi):.2f} turns, {seen / (2 * math.pi):.2f} trained"
        marks = [element("circle", cx=x, cy=y, r=_RADIUS, fill="none", stroke=EDGE)]
        marks.append(_sector(x, y, 0.0, min(seen, 2 * math.pi), fill=SHADE, stroke=EDGE))
        if new:
            style = {"fill": UNSCALED, "fill_opacity": 0.45, "stroke": UNSCALED}
            marks.append(_sector(x, y, seen, min(reach, 2 * math.pi), **style))
        tip = _at(x, y, reach, 0.9)
        style = {"stroke": UNSCALED if new else INK, "stroke_width": 4, "stroke_linecap": "round"}
        marks.append(element("line", x1=x, y1=y, x2=tip[0], y2=tip[1], **style))
        marks.append(element("circle", cx=x, cy=y, r=4, fill=INK))
        body.append(element("g", hover(told), *marks, data_clock=i, data_new=int(new)))
        style = {"font_size": 13, "text_anchor": "middle"}
        turns = f"{reach / (2 * math.pi):.{1 if reach > 60 else 2}f} turns"
        body.append(text(x, y + _RADIUS + 18, turns, **style))
        slower = plain[i] / turning[i]
        word = "new" if new else "all seen"
        word += f", × 1/{slower:.{0 if slower > 9.95 else 1}f}" if slower > 1.005 else ""
        weight = 700 if new else 400
        body.append(text(x, y + _RADIUS + 35, word, fill=INK, font_weight=weight, **style))
    way = "" if state.way == PLAIN else f", {state.way}"
    title = f"{state.length:,} letters, base {state.base:,}{way}: where the hands end"
    said = f"{fresh} of {PAIRS} clocks show angles that training never did."
    return panel("clocks", 528, 346, title, said, *body)


def _at(x: float, y: float, angle: float, share: float = 1.0) -> tuple[float, float]:
    """The place of a hand's tip: clockwise from the top."""
    long = share * _RADIUS
    return x + long * math.sin(angle), y - long * math.cos(angle)


def _sector(x: float, y: float, start: float, end: float, **style: object) -> str:
    """Draw the part of a clock between two angles."""
    if end - start >= 2 * math.pi - 1e-9:
        return element("circle", cx=x, cy=y, r=_RADIUS, **style)
    (x1, y1), (x2, y2) = _at(x, y, start), _at(x, y, end)
    far = int(end - start > math.pi)
    arc = f"M {x:.1f} {y:.1f} L {x1:.1f} {y1:.1f} A {_RADIUS:g} {_RADIUS:g} 0 {far} 1"
    return element("path", d=f"{arc} {x2:.1f} {y2:.1f} Z", **style)


_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 376.0, 74.0, 286.0


def _curve(state: ClockState, losses: Losses) -> str:
    """Draw the loss by length: the chosen gears, as it was, and without positions."""
    every = [one for row in losses.values() for runs in row.values() for one in runs]
    low, high = min(every) - 0.05, max(every) + 0.05

    def spot(length: int, loss: float) -> tuple[float, float]:
        across = math.log2(length / LENGTHS[0]) / math.log2(LENGTHS[-1] / LENGTHS[0])
        up = (loss - low) / (high - low)
        return _LEFT + across * (_RIGHT - _LEFT), _BOTTOM - up * (_BOTTOM - _TOP)

    body = []
    for length in LENGTHS:
        x, _ = spot(length, low)
        here = length == state.length
        style = {"stroke": INK if here else GRID, "stroke_dasharray": "3 3" if here else "1 0"}
        body.append(element("line", x1=x, y1=_TOP, x2=x, y2=_BOTTOM, **style))
        style = {"font_size": 13, "fill": MUTED, "text_anchor": "middle"}
        body.append(text(x, _BOTTOM + 18, f"{length:,}", **style))
    for tick in np.arange(math.ceil(5 * low), math.floor(5 * high) + 1) / 5:
        _, y = spot(LENGTHS[0], float(tick))
        style = {"font_size": 13, "fill": MUTED, "text_anchor": "end"}
        body.append(text(_LEFT - 8, y + 4, f"{tick:.1f}", **style))
    kinds = [("none", "no positions", MUTED, "2 4"), (PLAIN, PLAIN, UNSCALED, "7 3")]
    if state.way != PLAIN:
        kinds.append((state.way, state.way, ROLE["Q"], "1 0"))
    shown = [kind for kind in kinds if kind[0] in losses]
    for row, (kind, label, colour, dash) in enumerate(shown):
        runs = {length: losses[kind][length] for length in LENGTHS}
        tops = [spot(length, max(some)) for length, some in runs.items()]
        ends = [spot(length, min(some)) for length, some in runs.items()]
        band = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*tops, *reversed(ends)))
        body.append(element("polygon", points=band, fill=colour, fill_opacity=0.18))
        means = {length: float(np.mean(some)) for length, some in runs.items()}
        points = [spot(length, mean) for length, mean in means.items()]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        style = {"fill": "none", "stroke": colour, "stroke_width": 3, "stroke_dasharray": dash}
        body.append(element("polyline", points=line, **style))
        x = _LEFT - 20 + 122 * row
        style = {"stroke": colour, "stroke_width": 3, "stroke_dasharray": dash}
        body.append(element("line", x1=x, y1=50, x2=x + 24, y2=50, **style))
        body.append(text(x + 29, 55, label, font_size=13))
        for (length, mean), (px, py) in zip(means.items(), points, strict=True):
            said = hover(f"{label}, {length:,} letters: {mean:.2f} nats")
            size = 7 if length == state.length else 3.5
            body.append(element("circle", said, cx=px, cy=py, r=size, fill=colour, stroke=PAPER))
    here = losses[state.way][state.length]
    mean, first = float(np.mean(here)), float(np.mean(losses[state.way][TRAINED]))
    body.append(text(_RIGHT, _BOTTOM + 38, "letters in the text", fill=MUTED, font_size=13,
                     text_anchor="end"))  # fmt: skip
    upright = {"text_anchor": "middle", "transform": "rotate(-90 16 180)"}
    body.append(text(16, 180, "loss (nats a letter)", font_size=13, fill=MUTED, **upright))
    runs = f", mean of {len(here)} runs" if len(here) > 1 else ""
    said = f"At {state.length:,} letters {mean:.2f} nats a letter{runs}; at 64 it was {first:.2f}."
    return panel("loss", 400, 346, f"What it costs: {mean:.2f} nats a letter", said, *body)
