"""Which program reads which tiles of keys, and when: as planned, or from a learner's own trace.

Rows are programs, one for each tile of queries; columns are tiles of keys. On a GPU the programs
run at the same time; a turn is one pass through the loop of each. Without a function the picture
shows a plan that reads what is needed; with one, what its kernel loaded under the tracer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import GRID, INK, MUTED, ROLE
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View, note

SEE = (
    "Step through the turns: all programs start at once, and the causal mask keeps the last one at"
    " work eight times as long as the first. Then narrow the window."
)
EXERCISE = "causal_flash"
TOKENS, TILE, WIDTH = 128, 16, 16
COUNT = TOKENS // TILE
WINDOWS: Mapping[str, int | None] = {"0": 0, "8": 8, "16": 16, "40": 40, "64": 64, "none": None}
CELL = 46.0
WRONG = "#D55E00"

Rows = Sequence[Sequence[Sequence[int]]]
"""By program, by turn: the tiles of keys that it reads then."""


class TraceError(Exception):
    """A learner's kernel cannot be shown; the message is the sentence to show instead."""


@dataclass(frozen=True)
class TilesState:
    """The window's name in WINDOWS, and how many turns are over."""

    window: str = "none"
    turn: int = 3


def visible(window: int | None) -> np.ndarray:
    """How many pairs of each tile may be looked at. Shape: (COUNT, COUNT)."""
    behind = np.arange(TOKENS)[:, None] - np.arange(TOKENS)
    seen = (behind >= 0) & (behind <= (TOKENS if window is None else window))
    return seen.reshape(COUNT, TILE, COUNT, TILE).sum(axis=(1, 3))


def plan(window: int | None) -> Rows:
    """What is needed, tile after tile."""
    return [[[int(j)] for j in np.flatnonzero(row)] for row in visible(window)]


def traced_rows(function: Callable[..., Any], window: int | None) -> Rows:
    """What the kernel behind ``function`` loads of the keys, by program and turn.

    Raises:
        TraceError: it is not started, raises, or launches no kernel with a buffer ``k``.
    """
    import torch
    from attend_grader.inside.tracer import traced

    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn((TOKENS, WIDTH), generator=draw) for _ in range(3))
    try:
        with traced(log=True) as tracer:
            function(q, k, v, window, TILE, TILE)
    except Exception as error:  # a learner's kernel may raise anything: report it as words
        raise TraceError(_told(error)) from None
    log = [entry for launch in tracer.launches for entry in launch.log]
    loads = [(place[0], touched) for place, kind, name, touched in log if (kind, name) == LOADED]
    if not loads:
        raise TraceError(f"Your {EXERCISE} launched no kernel that loads from k.")
    rows: list[list[list[int]]] = [[] for _ in range(COUNT)]
    for program, touched in loads:
        tiles = sorted({element // (WIDTH * TILE) for element in touched})
        if program < COUNT and tiles:
            rows[program].append([tile for tile in tiles if 0 <= tile < COUNT])
    return rows


LOADED = ("load", "k")


def _told(error: BaseException) -> str:
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, NotImplementedError):
        return (
            f"This picture waits for the exercise {EXERCISE}, which is not started yet: write it,"
            " then run this cell again."
        )
    words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
    return f"Your {EXERCISE} stopped with {words}. Run check({EXERCISE}) to see what to fix."


def program_tiles(function: Callable[..., Any] | None = None) -> View:
    """Step through the turns of eight programs, for causal masks with windows of several sizes.

    Args:
        function: the exercise ``causal_flash``, whose own kernel is traced; without it, the plan.
    """

    @cache
    def rows(window: int | None) -> Rows:
        return plan(window) if function is None else traced_rows(function, window)

    layout = ipywidgets.Layout(width="min(460px, 98%)")
    window = ipywidgets.SelectionSlider(
        options=list(WINDOWS), value="none", description="window", layout=layout
    )
    turn = ipywidgets.IntSlider(value=3, min=0, max=COUNT, description="turn", layout=layout)
    whose = "the plan" if function is None else f"your {EXERCISE}"
    view = View(
        "program-tiles",
        SEE,
        [window, turn],
        lambda: draw(TilesState(window.value or "none", turn.value), rows, whose),
    )
    for control in (window, turn):
        control.observe(view.refresh, names="value")
    return view


def draw(state: TilesState, rows: Callable[[int | None], Rows], whose: str) -> str:
    """The grid of programs and tiles after some turns, or a sentence about the learner's kernel."""
    window = WINDOWS[state.window]
    try:
        reads = rows(window)
    except TraceError as problem:
        return note(str(problem))
    needed = visible(window)
    left, top = 96.0, 74.0
    body = [
        text(left, 48, "tile of keys", font_size=12),
        text(12, top - 8, "program", font_size=12),
    ]
    for j in range(COUNT):
        middle = {"text_anchor": "middle", "font_size": 12, "fill": MUTED}
        body.append(text(left + CELL * (j + 0.5), top - 8, f"{j}", **middle))
    vain = missing = done = 0
    for i, turns in enumerate(reads):
        y = top + CELL * i
        when: dict[int, int] = {}
        for number, tiles in enumerate(turns, 1):
            for tile in tiles:
                when.setdefault(tile, number)
        body.append(text(30, y + 28, f"{i}", font_weight=600))
        busy = state.turn < len(turns)
        body.append(text(48, y + 28, "" if busy else "done", font_size=12, fill=MUTED))
        for j in range(COUNT):
            body += _cell(left + CELL * j, y, (i, j), when.get(j), int(needed[i, j]), state.turn)
        vain += sum(not needed[i, j] for j in when)
        missing += sum(bool(needed[i, j]) and j not in when for j in range(COUNT))
        done += sum(number <= state.turn for number in when.values())
    busy = sum(state.turn < len(turns) for turns in reads)
    least, longest = (pick(len(turns) for turns in reads) for pick in (min, max))
    told = f"After turn {state.turn}, {busy} of {COUNT} programs are at work; {done} of"
    told += f" {int((needed > 0).sum())} needed tiles are read."
    more = f"The shortest program takes {least} turn{'s' * (least != 1)}, the longest {longest}."
    wrong = f" Read in vain: {vain}. Needed, but never read: {missing}."
    if vain or missing:
        more += wrong
    foot = top + CELL * COUNT + 24
    body.append(text(12, foot, told, font_size=13))
    body.append(text(12, foot + 20, more, font_size=13, font_weight=600 if vain + missing else 400))
    shape = f"no window, {whose}" if window is None else f"window {window}, {whose}"
    heading = f"{TOKENS} tokens in tiles of {TILE}: causal, {shape}"
    grid = panel("programs", 620, foot + 36, heading, f"{told} {more}", *body)
    return beside(grid, _legend(), widest="980px")


def _cell(
    x: float, y: float, at: tuple[int, int], turn: int | None, pairs: int, over: int
) -> list[str]:
    """One tile: read already, to be read, not needed; or read in vain, or missing."""
    words = f"program {at[0]}, keys {TILE * at[1]} to {TILE * at[1] + TILE - 1}: "
    words += f"{pairs} of {TILE * TILE} pairs visible, "
    words += "never read" if turn is None else f"read in turn {turn}"
    box: dict[str, Any] = {"x": x + 2, "y": y + 2, "width": CELL - 4, "height": CELL - 4, "rx": 3}
    middle = {"text_anchor": "middle", "font_size": 13}
    centre = (x + CELL / 2, y + CELL / 2 + 5)
    if turn is None and not pairs:
        return [element("rect", hover(words), **box, fill="none", stroke=GRID)]
    if turn is None:
        edge = {"stroke": WRONG, "stroke_width": 2.5, "stroke_dasharray": "4 3"}
        mark = text(*centre, "?", fill=INK, font_weight=700, **middle)
        return [element("rect", hover(words), **box, fill="none", **edge), mark]
    if not pairs:
        edge = {"stroke": WRONG, "stroke_width": 2.5}
        mark = text(*centre, f"× {turn}", fill=INK, font_weight=700, **middle)
        return [element("rect", hover(words), **box, fill="none", **edge), mark]
    filled = turn <= over
    shade = {"fill": ROLE["K"], "fill_opacity": 0.75 if filled else 0.0}
    made = [element("rect", hover(words), **box, **shade, stroke=ROLE["K"])]
    if pairs < TILE * TILE:
        ends = {"x1": x + 6, "y1": y + CELL - 6, "x2": x + CELL - 6, "y2": y + 6}
        made.append(element("line", **ends, stroke=INK, stroke_width=1, stroke_opacity=0.6))
    colour = "#000000" if filled else INK
    return [*made, text(x + 8, y + 19, f"{turn}", font_size=13, fill=colour)]


def _legend() -> str:
    lines = (
        (8, 256, 8, "read by now, in that turn"),
        (3, 256, 0, "will be read"),
        (3, 100, 8, "line: cut by the mask"),
        (None, 0, 8, "skipped: nobody may look"),
        (5, 0, 8, "read in vain"),
        (None, 9, 8, "needed, but never read"),
    )
    body = []
    for number, (turn, pairs, over, words) in enumerate(lines):
        y = 40 + 50.0 * number
        body += _cell(12, y, (0, 0), turn, pairs, over)
        body.append(text(70, y + 28, words, font_size=13))
    return panel(
        "legend",
        260,
        350,
        "Marks",
        "Full: read by now. Line: cut by the mask. Cross: read in vain. Question mark: missing.",
        *body,
    )
