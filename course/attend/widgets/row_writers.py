"""Who writes which rows of the gradients: two passes beside one, as planned or from a trace.

Rows of a panel are programs, columns are tiles of rows of dQ, and of dK and dV. In two passes each
tile belongs to one program. In one pass programs own keys, and all of them add to dQ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import ipywidgets

from attend.theme import GRID, INK, MUTED, ROLE
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View, note

SEE = (
    "Choose a tile of dQ and compare the two forms: on the left one program writes it, on the right"
    " every program that owns a key it may see adds its share."
)
TILE, COUNT, WIDTH = 16, 4, 16
MASKS = {"none": False, "causal": True}
CELL = 40.0
WRONG = "#D55E00"
NAMES = ("dq", "dk", "dv")

Writes = Mapping[tuple[int, str, int], tuple[int, int]]
"""(program, buffer, tile) → how often it was stored to and added to, by a launch."""


class TraceError(Exception):
    """A learner's kernel cannot be shown; the message is the sentence to show instead."""


def pairs(causal: bool) -> list[tuple[int, int]]:
    """(tile of queries, tile of keys) with a visible pair."""
    return [(i, j) for i in range(COUNT) for j in range(COUNT) if j <= i or not causal]


def plan(causal: bool) -> tuple[Sequence[Writes], Sequence[Writes]]:
    """What the launches of the two forms write, if they do as they should."""
    own = {(j, name, j): (1, 0) for name in NAMES[1:] for j in range(COUNT)}
    shares = {(j, "dq", i): (0, 1) for i, j in pairs(causal)}
    return [own, {(i, "dq", i): (1, 0) for i in range(COUNT)}], [{**own, **shares}]


def traced_writes(functions: Sequence[Callable[..., Any]], causal: bool) -> list[Writes]:
    """What the kernels behind functions write, launch by launch.

    Raises:
        TraceError: one is not started, raises, or writes no gradient.
    """
    import torch
    from attend_grader.inside.tracer import traced

    draw = torch.Generator().manual_seed(0)
    q, k, v, d_out = (torch.randn((1, COUNT * TILE, WIDTH), generator=draw) for _ in range(4))
    lse, delta = torch.full((2, 1, COUNT * TILE), 5.0)
    found: list[Writes] = []
    for function in functions:
        try:
            with traced(log=True) as tracer:
                function(q, k, v, d_out, lse, delta, causal, None, TILE, TILE)
        except Exception as error:  # a learner's kernel may raise anything: report it as words
            raise TraceError(_told(function.__name__, error)) from None
        for launch in tracer.launches:
            counted: dict[tuple[int, str, int], tuple[int, int]] = {}
            for place, kind, name, touched in launch.log:
                for tile in {number // (WIDTH * TILE) for number in touched}:
                    if kind != "load" and name in NAMES and 0 <= tile < COUNT:
                        stores, adds = counted.get((place[0], name, tile), (0, 0))
                        more = (stores, adds + 1) if kind == "atomic" else (stores + 1, adds)
                        counted[place[0], name, tile] = more
            if counted:
                found.append(counted)
    if not found:
        raise TraceError(f"{functions[0].__name__} launched no kernel that writes a gradient.")
    return found


def _told(name: str, error: BaseException) -> str:
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, NotImplementedError):
        return (
            f"This picture waits for the exercise {name}, which is not started yet: write it, then"
            " run this cell again."
        )
    words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
    return f"Your {name} stopped with {words}. Run check({name}) to see what to fix."


def row_writers(
    two_passes: Sequence[Callable[..., Any]] = (), one_pass: Callable[..., Any] | None = None
) -> View:
    """Choose a mask and a tile of dQ; see which programs write it, in two passes and in one.

    Args:
        two_passes: the exercises ``grad_keys_values`` and ``grad_queries``, whose kernels are
            traced; without both arguments, the plan is shown.
        one_pass: the exercise of that name.
    """

    @cache
    def writes(causal: bool) -> tuple[Sequence[Writes], Sequence[Writes]]:
        if one_pass is None or not two_passes:
            return plan(causal)
        return traced_writes(two_passes, causal), traced_writes([one_pass], causal)

    layout = ipywidgets.Layout(width="min(460px, 98%)")
    mask = ipywidgets.SelectionSlider(
        options=list(MASKS), value="none", description="mask", layout=layout
    )
    tile = ipywidgets.IntSlider(
        value=1, min=0, max=COUNT - 1, description="tile of dQ", layout=layout
    )
    whose = "the plan" if one_pass is None else "your kernels"
    view = View(
        "row-writers",
        SEE,
        [mask, tile],
        lambda: draw(mask.value or "none", tile.value, writes, whose),
    )
    for control in (mask, tile):
        control.observe(view.refresh, names="value")
    return view


def draw(
    mask: str,
    tile: int,
    writes: Callable[[bool], tuple[Sequence[Writes], Sequence[Writes]]],
    whose: str,
) -> str:
    """Both forms beside each other, or a sentence about the learner's kernel."""
    try:
        two, one = writes(MASKS[mask])
    except TraceError as problem:
        return note(str(problem))
    label = f"{'causal' if MASKS[mask] else 'no mask'}, {whose}"
    return beside(
        _form("two-passes", f"Two passes: {label}", two, tile),
        _form("one-pass", f"One pass: {label}", one, tile),
        widest="1000px",
    )


def _form(name: str, heading: str, launches: Sequence[Writes], tile: int) -> str:
    left, top, gap = 112.0, 76.0, 14.0
    right = left + CELL * COUNT + gap
    body = [
        text(left, 50, "rows of dQ", font_size=12),
        text(right, 50, "rows of dK and dV", font_size=12),
    ]
    middle = {"text_anchor": "middle", "font_size": 12, "fill": MUTED}
    for j in range(COUNT):
        body.append(text(left + CELL * (j + 0.5), 68, f"{j}", **middle))
        body.append(text(right + CELL * (j + 0.5), 68, f"{j}", **middle))
    y = top
    chosen: list[str] = []
    owner = ""
    races = 0
    for number, written in enumerate(launches, 1):
        kind = "queries" if {where for _, where, _ in written} == {"dq"} else "keys"
        body.append(text(12, y + 16, f"launch {number}", font_size=12, fill=MUTED))
        y += 22
        stored: dict[tuple[str, int], set[int]] = {}
        for (program, where, at), (stores, _) in written.items():
            if stores:
                stored.setdefault((where, at), set()).add(program)
        races += sum(len(programs) > 1 for programs in stored.values())
        for program in range(COUNT):
            body.append(text(12, y + 25, f"{kind} {program}", font_size=13, font_weight=600))
            for at in range(COUNT):
                cells = ((left, ("dq",), "Q"), (right, ("dk", "dv"), "K"))
                for x, names, role in cells:
                    made = [written.get((program, each, at), (0, 0)) for each in names]
                    torn = any(
                        stores and len(stored.get((each, at), ())) > 1
                        for each, (stores, _) in zip(names, made, strict=True)
                    )
                    words = f"program {program}, rows {TILE * at} to {TILE * at + TILE - 1} of "
                    body += _cell(x + CELL * at, y, max(made), role, words + names[0], torn=torn)
            stores, adds = written.get((program, "dq", tile), (0, 0))
            if stores or adds:
                chosen.append(f"{program}")
                owner = kind
            y += CELL
        y += 6
    frame = {"fill": "none", "stroke": INK, "stroke_width": 2, "stroke_dasharray": "2 3"}
    body.append(
        element("rect", x=left + CELL * tile, y=top, width=CELL, height=y - top, rx=4, **frame)
    )
    rows = f"Rows {TILE * tile} to {TILE * tile + TILE - 1} of dQ: "
    if len(chosen) == 1:
        told = f"{rows}1 program writes them ({owner} {chosen[0]})."
    else:
        told = f"{rows}{len(chosen)} programs write them ({owner} {', '.join(chosen)})."
    more = f"A race: {races} tiles are stored to by several programs." if races else ""
    more = more or "■ stored once; + added to, in whatever order programs come."
    body.append(text(12, y + 18, told, font_size=13))
    body.append(text(12, y + 38, more, font_size=13, font_weight=600 if races else 400))
    wide = right + CELL * COUNT + 12
    return panel(name, max(wide, 470.0), y + 52, heading, f"{told} {more}", *body)


def _cell(
    x: float, y: float, made: tuple[int, int], role: str, words: str, *, torn: bool
) -> list[str]:
    """One tile by one program: stored, added to, or let alone."""
    stores, adds = made
    box: dict[str, Any] = {"x": x + 2, "y": y + 2, "width": CELL - 4, "height": CELL - 4, "rx": 3}
    if not stores and not adds:
        return [element("rect", hover(f"{words}: not written"), **box, fill="none", stroke=GRID)]
    how = f"stored {stores} ×" if stores else f"added to {adds} ×"
    sign = {"text_anchor": "middle", "font_size": 15, "font_weight": 700}
    centre = (x + CELL / 2, y + CELL / 2 + 5)
    if torn:
        edge = {"stroke": WRONG, "stroke_width": 2.5}
        return [
            element("rect", hover(f"{words}: {how}, others too"), **box, fill="none", **edge),
            text(*centre, "×", fill=INK, **sign),
        ]
    if adds:
        edge = {"stroke": ROLE[role], "stroke_width": 2}
        return [
            element("rect", hover(f"{words}: {how}"), **box, fill="none", **edge),
            text(*centre, "+", fill=INK, **sign),
        ]
    shade = {"fill": ROLE[role], "fill_opacity": 0.75, "stroke": ROLE[role]}
    return [element("rect", hover(f"{words}: {how}"), **box, **shade)]
