"""The tile stepper: one pass over tiles of keys, with the learner's own online_softmax step.

Three lanes: slow memory (what is read and written, in bytes), on chip (the one tile of scores that
exists), and the running maximum, sum and accumulator. Scores and bytes are made here; every number
of the third lane and every output comes from the learner's function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import GRID, INK, MUTED, ROLE
from attend.widgets.kit.learner import ask
from attend.widgets.kit.svg import beside, element, hover, number, panel, text
from attend.widgets.kit.view import View, note

SEE = (
    "Step through the tiles: only one tile of scores exists at a time. When a later tile holds a"
    " larger score, the correction falls below 1 and shrinks what was summed before."
)
EXERCISE = "online_softmax"
ITEMSIZE = 2  # bytes of a float16 number
FIRST = 2  # the step that is shown at first: here the maximum moves
MOST_QUERIES, MOST_KEYS, MOST_WIDTH = 6, 8, 2
WIDTH = 330.0  # of a lane

State = tuple[np.ndarray, np.ndarray, np.ndarray]
"""running_max (n,), running_sum (n,) and accumulator (n, D_v) of the n queries of a tile."""


class StepError(Exception):
    """The learner's step cannot be shown; the message is the sentence to show instead."""


@dataclass(frozen=True)
class Moment:
    """One step of the walk.

    Attributes:
        rows: the queries of the present tile.
        columns: the keys of the present tile; None while only Q is read or the output written.
        before: the running state before this step; after: and after it.
        scores: the tile's scores (n, keys); None where there is no tile of keys.
        output: finished rows (T, D_v), NaN where not yet written.
        read: bytes read from slow memory so far.
        written: bytes written to it so far.
    """

    rows: slice
    columns: slice | None
    before: State
    after: State
    scores: np.ndarray | None
    output: np.ndarray
    read: int
    written: int


@dataclass(frozen=True)
class StepperState:
    """Which moment is shown, and the tile sizes."""

    moment: int = 0
    tile_q: int = 2
    tile_k: int = 2


def walk(
    step: Callable[..., Any], arrays: Sequence[np.ndarray], tile_q: int, tile_k: int
) -> list[Moment]:
    """Every moment of a forward pass over q, k and v, computed by ``step``.

    Shapes: q (T, D), k (S, D), v (S, D_v).

    Raises:
        StepError: ``step`` is not started, raises, or returns something else than a state.
    """
    q, k, v = arrays
    output = np.full((len(q), v.shape[1]), np.nan)
    moments, read, written = [], 0, 0
    for start in range(0, len(q), tile_q):
        rows = slice(start, min(start + tile_q, len(q)))
        q_tile = q[rows]
        read += q_tile.size * ITEMSIZE
        n = len(q_tile)
        state: State = np.full(n, -np.inf), np.zeros(n), np.zeros((n, v.shape[1]))
        moments.append(Moment(rows, None, state, state, None, output.copy(), read, written))
        for left in range(0, len(k), tile_k):
            columns = slice(left, min(left + tile_k, len(k)))
            read += (k[columns].size + v[columns].size) * ITEMSIZE
            scores = q_tile @ k[columns].T / q.shape[1] ** 0.5
            after = _stepped(step, state, scores, v[columns])
            moment = Moment(rows, columns, state, after, scores, output.copy(), read, written)
            moments.append(moment)
            state = after
        with np.errstate(divide="ignore", invalid="ignore"):  # a wrong step may leave a sum of 0
            output[rows] = state[2] / state[1][:, None]
        written += (output[rows].size + n) * ITEMSIZE
        moments.append(Moment(rows, None, state, state, None, output.copy(), read, written))
    return moments


def _stepped(
    step: Callable[..., Any], state: State, scores: np.ndarray, values: np.ndarray
) -> State:
    names = ("running_max", "running_sum", "accumulator")
    shapes = {name: part.shape for name, part in zip(names, state, strict=True)}
    answer = ask(step, EXERCISE, (*state, scores, values), shapes)
    if answer.problem:
        raise StepError(answer.problem)
    return answer.arrays[0], answer.arrays[1], answer.arrays[2]


def tile_stepper(step: Callable[..., Any], q: Any, k: Any, v: Any) -> View:
    """Step through a tiled forward pass, every running number made by the learner's ``step``.

    ``step(running_max, running_sum, accumulator, scores, values)`` is the exercise online_softmax.
    The slider takes the arrow keys. When the function is not started or returns something else,
    one sentence takes the picture's place.

    Shapes: q (T, D), k (S, D), v (S, D_v); T ≤ 6, S ≤ 8, D and D_v ≤ 2. Raises ValueError for
    anything else.
    """
    arrays = validate(q, k, v)
    queries, keys = len(arrays[0]), len(arrays[1])
    layout = ipywidgets.Layout(width="min(300px, 98%)")
    sizes = {
        name: ipywidgets.Dropdown(
            options=list(range(1, most + 1)), value=min(2, most), description=name, layout=layout
        )
        for name, most in (("tile_q", queries), ("tile_k", keys))
    }
    wide = ipywidgets.Layout(width="min(620px, 98%)")
    slider = ipywidgets.IntSlider(value=FIRST, min=0, max=FIRST, description="step", layout=wide)

    def state() -> StepperState:
        return StepperState(slider.value, sizes["tile_q"].value or 1, sizes["tile_k"].value or 1)

    view = View(
        "tile-stepper",
        SEE,
        [slider, ipywidgets.HBox(list(sizes.values()), layout={"flex_flow": "row wrap"})],
        lambda: draw(state(), arrays, step),
    )

    def resize(_change: object = None) -> None:
        now = state()
        slider.max = -(-queries // now.tile_q) * (-(-keys // now.tile_k) + 2) - 1
        view.refresh()

    resize()
    slider.observe(view.refresh, names="value")
    for dropdown in sizes.values():
        dropdown.observe(resize, names="value")
    return view


def validate(q: Any, k: Any, v: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three arrays as floats.

    Raises:
        ValueError: shapes that do not fit each other or the picture; says which.
    """
    arrays = tuple(np.array(x, dtype=float) for x in (q, k, v))
    if any(x.ndim != 2 for x in arrays):
        raise ValueError(f"q, k and v need two axes; got shapes {[x.shape for x in arrays]}")
    q, k, v = arrays
    if q.shape[1] != k.shape[1] or len(k) != len(v):
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit each other")
    if len(q) > MOST_QUERIES or len(k) > MOST_KEYS or max(q.shape[1], v.shape[1]) > MOST_WIDTH:
        limits = f"{MOST_QUERIES} queries, {MOST_KEYS} keys and width {MOST_WIDTH}"
        raise ValueError(f"the picture has room for {limits}; got {q.shape}, {k.shape}, {v.shape}")
    return q, k, v


def draw(state: StepperState, arrays: Sequence[np.ndarray], step: Callable[..., Any]) -> str:
    """The three lanes at one moment, or a sentence about the learner's step."""
    try:
        moments = walk(step, arrays, state.tile_q, state.tile_k)
    except StepError as problem:
        return note(str(problem))
    now = moments[min(state.moment, len(moments) - 1)]
    return beside(_slow(now, arrays), _on_chip(now, arrays), _running(now))


def _cells(
    x: float, y: float, count: int, down: bool, colour: str, chosen: slice | None, name: str
) -> list[str]:
    """A row or column of cells; those of the present tile are filled."""
    made = []
    for i in range(count):
        at = {"x": x + (0 if down else 27.0 * i), "y": y + (27.0 * i if down else 0)}
        now = chosen is not None and chosen.start <= i < chosen.stop
        words = hover(f"{name} {i + 1}{', being used' if now else ''}")
        fill = {"fill": colour, "fill_opacity": 1.0 if now else 0.18}
        edge = {"stroke": INK if now else colour, "stroke_width": 2.0 if now else 1.0}
        made.append(element("rect", words, **at, width=24, height=24, **fill, **edge))
    return made


def _slow(now: Moment, arrays: Sequence[np.ndarray]) -> str:
    q, k, _ = arrays
    left, top = 64.0, 118.0
    body = [
        text(left - 14, 62, "K", fill=INK, text_anchor="end"),
        text(left - 14, 90, "V", fill=INK, text_anchor="end"),
        text(30, top - 8, "Q", text_anchor="middle"),
        text(left + 27 * len(k) + 24, top - 8, "O", text_anchor="middle"),
        *_cells(left, 45, len(k), False, ROLE["K"], now.columns, "key"),
        *_cells(left, 73, len(k), False, ROLE["V"], now.columns, "value"),
        *_cells(18, top, len(q), True, ROLE["Q"], now.rows, "query"),
    ]
    for t in range(len(q)):
        for s in range(len(k)):
            inside = now.rows.start <= t < now.rows.stop
            here = inside and now.columns and now.columns.start <= s < now.columns.stop
            edge = {"stroke": INK if here else GRID, "stroke_width": 2.0 if here else 1.0}
            dash = {} if here else {"stroke_dasharray": "3 2"}
            at = {"x": left + 27 * s, "y": top + 27 * t, "width": 24, "height": 24}
            body.append(element("rect", **at, fill="none", **edge, **dash))
        done = bool(np.isfinite(now.output[t]).all())
        words = hover(f"output {t + 1}: {'written' if done else 'not yet'}")
        at = {"x": left + 27 * len(k) + 12, "y": top + 27 * t, "width": 24, "height": 24}
        body.append(element("rect", words, **at, fill=INK if done else "none", stroke=INK))
    foot = top + 27 * len(q) + 20
    body += [
        text(12, foot, "dashed: scores, never stored here", font_size=12, fill=MUTED),
        text(12, foot + 22, f"read {now.read} bytes, written {now.written} bytes"),
        text(12, foot + 42, f"all scores: {len(q) * len(k) * ITEMSIZE} bytes", fill=MUTED),
    ]
    told = f"{now.read} bytes read from slow memory so far, {now.written} written, in float16."
    return panel("slow", WIDTH, foot + 54, "1 · Slow memory", told, *body)


def _on_chip(now: Moment, arrays: Sequence[np.ndarray]) -> str:
    q, _, v = arrays
    n = now.rows.stop - now.rows.start
    body, top = [], 62.0
    held = q[now.rows].size + n * (2 + v.shape[1])
    if now.scores is None or now.columns is None:
        written = bool(np.isfinite(now.output[now.rows]).all())
        words = "a tile of queries was read" if not written else "outputs and LSE were written"
        body.append(text(12, top, words))
    else:
        body.append(text(12, top - 8, "scores q · k / √D of this tile", font_size=12, fill=MUTED))
        wide = min(56.0, (WIDTH - 70) / now.scores.shape[1])
        for j in range(now.scores.shape[1]):
            x = 64 + wide * (j + 0.5)
            name = f"k{now.columns.start + j + 1}"
            body.append(text(x, top + 12, name, text_anchor="middle", fill=MUTED, font_size=12))
        for i, row in enumerate(now.scores):
            y = top + 22 + 30 * i
            body.append(text(14, y + 18, f"q{now.rows.start + i + 1}", fill=MUTED, font_size=12))
            for j, score in enumerate(row):
                grows = score > now.before[0][i]
                largest = grows and score == row.max()
                box = {"x": 64 + wide * j, "y": y, "width": wide - 3, "height": 26}
                words = hover(f"score {number(score)}{', the new maximum' if largest else ''}")
                edge = {"stroke": INK, "stroke_width": 2.5 if largest else 0.75}
                body.append(element("rect", words, **box, fill="none", **edge))
                middle = {"text_anchor": "middle", "font_weight": 700 if largest else 400}
                x = 64 + wide * j + wide / 2 - 1
                body.append(text(x, y + 18, number(score), font_size=13, **middle))
        held += now.scores.shape[1] * (q.shape[1] + v.shape[1]) + now.scores.size
        y = top + 48 + 30 * len(now.scores)
        body.append(text(12, y, "thick frame: a new maximum", font_size=12, fill=MUTED))
    body.append(hover("What a program on the chip keeps at this moment."))
    foot = top + 76 + 30 * n
    body.append(text(12, foot, f"held at once: {held} numbers"))
    told = f"On chip are {held} numbers: tiles of Q, K and V, one tile of scores, running state."
    return panel("chip", WIDTH, foot + 14, "2 · On chip", told, *body)


def _running(now: Moment) -> str:
    top, body = 62.0, []
    heads = ("", "max", "correction", "sum", "accumulator")
    places = (12.0, 66.0, 128.0, 200.0, 276.0)
    for x, head in zip(places, heads, strict=True):
        anchor = {"text_anchor": "start" if not head else "middle"}
        body.append(text(x, top - 8, head, font_size=12, fill=MUTED, **anchor))
    corrections = []
    for i in range(now.rows.stop - now.rows.start):
        y = top + 14 + 46 * i
        old, new = (tuple(part[i] for part in state) for state in (now.before, now.after))
        moved = now.columns is not None
        correction = float(np.exp(old[0] - new[0])) if moved else 1.0
        corrections.append(correction)
        first = [f"q{now.rows.start + i + 1}", _n(old[0]), "", _n(old[1]), _pair(old[2])]
        then = ["", _n(new[0]), f"× {number(correction)}", _n(new[1]), _pair(new[2])]
        for line, words in enumerate((first, then) if moved else (first,)):
            style: dict[str, object] = {"fill": INK if line or not moved else MUTED}
            style["font_weight"] = 700 if line else 400
            for x, word in zip(places, words, strict=True):
                anchor = {"text_anchor": "start" if x == 12 else "middle"}
                body.append(text(x, y + 18 * line, word, font_size=12, **style, **anchor))
    foot = top + 14 + 46 * (now.rows.stop - now.rows.start) + 8
    body.append(text(12, foot, "grey: before this tile; bold: after it", font_size=12, fill=MUTED))
    for t in range(now.rows.start, now.rows.stop):
        if np.isfinite(now.output[t]).all():
            words = f"output {t + 1} = accumulator / sum = {_pair(now.output[t])}"
            foot += 20
            body.append(text(12, foot, words, font_size=13))
    least = number(min(corrections))
    told = f"Running maximum, sum and accumulator of each query; smallest correction {least}."
    body.append(hover("Every number in this lane is computed by your online_softmax."))
    return panel("running", WIDTH, foot + 16, "3 · Running state: your function", told, *body)


def _n(value: float) -> str:
    return "−∞" if value == -np.inf else number(value)


def _pair(values: np.ndarray) -> str:
    return ", ".join(number(value) for value in values)
