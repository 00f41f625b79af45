"""The memory viewer: every load and store of the learner's own kernel, in the order of programs.

Fed by the trace of a launch. Cells are elements; each shows the program that touched it last. What
an access touches outside its buffer glows. Below: sectors of 32 bytes, the least that a GPU
fetches, against the bytes that were used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import GRID, GROUPS, INK, MUTED, UNSCALED
from attend.widgets.kit.svg import beside, element, hover, ink_on, panel, text
from attend.widgets.kit.view import View, note

SECTOR = 32
"""Bytes that memory hands out at once: the tracer's own."""

SEE = (
    "Step or play: one load or store of one program at a time. Cells show the program that touched"
    " them last. Change the order of the programs: the result may not depend on it."
)
DEMO = (
    "Twelve programs add two vectors of 45 numbers, four each. Change their order: every number is"
    " still written once. Then take the mask away and go to the last step."
)
MOST_ELEMENTS, MOST_PROGRAMS = 256, 16
ORDERS = ("as launched", "backwards", "shuffled", "shuffled again")
A_LINE, CELL, LEFT, WIDTH = 24, 24.0, 152.0, 760.0
BEYOND = 3
"""Cells drawn on either side of a buffer: they belong to somebody else."""

Access = tuple[int, str, str, list[int]]
"""Program, load, store or atomic, buffer, elements."""


@dataclass(frozen=True)
class Memory:
    """What a launch did.

    Attributes:
        sizes: buffer → its elements in memory, and bytes of one.
        log: every access, in order.
        problem: a sentence instead, where there is nothing to show.
    """

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    log: Sequence[Access] = ()
    problem: str = ""


@dataclass(frozen=True)
class ViewerState:
    """How many accesses have happened, and the order of programs."""

    step: int = 0
    order: str = ORDERS[0]
    masked: bool = True


def demo(masked: bool) -> Memory:
    """Twelve programs, four elements each, of which the last has one: 45 in all."""
    log: list[Access] = []
    for program in range(12):
        mine = [e for e in range(4 * program, 4 * program + 4) if e < 45 or not masked]
        log += [(program, "load", "x", mine), (program, "load", "y", mine)]
        log.append((program, "store", "out", mine))
    return Memory({"x": (45, 4), "y": (45, 4), "out": (45, 4)}, log)


def recorded(function: Callable[..., Any], args: Sequence[Any], launch: int) -> Memory:
    """The trace of one launch of a learner's function."""
    name = getattr(function, "__name__", "your function")
    try:
        from attend_grader.inside.tracer import traced  # with torch, which other widgets do without

        with traced(log=True) as tracer:
            function(*args)
    except Exception as error:  # the learner's code may raise anything
        cause = error.__cause__ or error
        if isinstance(cause, NotImplementedError):
            return Memory(problem=f"This picture waits for {name}: write it above.")
        return Memory(problem=f"{name} raises {type(cause).__name__}: {str(cause)[:200]}")
    if len(tracer.launches) <= launch:
        return Memory(problem=f"{name} launched {len(tracer.launches)} kernels.")
    found = tracer.launches[launch]
    sizes = {b: (facts["storage"], facts["itemsize"]) for b, facts in found.buffers.items()}
    programs, largest = int(np.prod(found.grid)), max(size for size, _ in sizes.values())
    if programs > MOST_PROGRAMS or largest > MOST_ELEMENTS:
        limits = f"{MOST_PROGRAMS} programs and {MOST_ELEMENTS} elements a buffer"
        return Memory(problem=f"There is room for {limits}; here are {programs} and {largest}.")
    numbered = [(int(np.ravel_multi_index(p, found.grid)), k, b, e) for p, k, b, e in found.log]
    return Memory(sizes, numbered)


def ordered(log: Sequence[Access], order: str) -> list[Access]:
    """The accesses with whole programs in another order."""
    programs = list(dict.fromkeys(access[0] for access in log))
    if order == "backwards":
        programs.reverse()
    elif order != ORDERS[0]:
        np.random.default_rng(ORDERS.index(order)).shuffle(programs)
    return [access for program in programs for access in log if access[0] == program]


def memory_viewer(function: Callable[..., Any] | None = None, *args: Any, launch: int = 0) -> View:
    """Step through a launch; without a function, through one that the course made up.

    Args:
        function: launches a kernel: an exercise's function.
        *args: its arguments: at most 256 elements a buffer and 16 programs.
        launch: which, where it launches several.
    """
    wide = ipywidgets.Layout(width="min(520px, 98%)")
    slider = ipywidgets.IntSlider(value=0, min=0, max=1, description="step", layout=wide)
    play = ipywidgets.Play(value=0, min=0, max=1, interval=350, description="play")
    ipywidgets.jslink((play, "value"), (slider, "value"))
    order = ipywidgets.Dropdown(options=ORDERS, description="order")
    mask = ipywidgets.Checkbox(value=True, description="mask", indent=False)
    made = {m: demo(m) for m in (True, False)} if function is None else {}
    if function is not None:
        made[True] = recorded(function, args, launch)

    def memory() -> Memory:
        return made[mask.value] if function is None else made[True]

    slider.max = play.max = max(len(memory().log), 1)
    slider.value = len(memory().log) if function is None else min(1, len(memory().log))
    row = [play, order, *([mask] if function is None else [])]
    view = View(
        "memory-viewer",
        DEMO if function is None else SEE,
        [slider, ipywidgets.HBox(row, layout={"flex_flow": "row wrap"})],
        lambda: draw(ViewerState(slider.value, str(order.value), mask.value), memory()),
    )
    for control in (slider, order, mask):
        control.observe(view.refresh, names="value")
    return view


def draw(state: ViewerState, memory: Memory) -> str:
    """Every buffer after so many accesses, or a sentence."""
    if memory.problem:
        return note(memory.problem)
    log = ordered(memory.log, state.order)
    done = log[: state.step]
    now = done[-1] if done else None
    body, y, stray = [], 44.0, 0
    for name, (size, itemsize) in memory.sizes.items():
        touched: dict[int, tuple[int, str]] = {}
        for program, kind, buffer, elements in done:
            if buffer == name:
                touched |= dict.fromkeys(elements, (program, kind))
        stray += sum(not 0 <= e < size for e in touched)
        bright = set(now[3]) if now is not None and now[2] == name else set()
        body.append(text(12, y + 16, name, font_weight=600))
        for index in range(-BEYOND, size + BEYOND):
            place = _place(index, y, SECTOR // itemsize)
            body.append(_cell(place, index, size, touched, bright))
        y += CELL * -(-(size + BEYOND) // A_LINE) + 14
    fetched, used = sectors(done, memory)
    share = f", {used / fetched:.0%} of it used" if fetched else ""
    said = "Nothing has happened yet."
    if now is not None:
        verb = {"load": "loads", "store": "stores", "atomic": "changes"}[now[1]]
        said = f"Step {len(done)} of {len(log)}: program {now[0]} {verb} {len(now[3])} of {now[2]}."
    outside = f" {stray} cells outside their buffer were touched." if stray else ""
    body += [
        text(12, y + 14, said),
        text(12, y + 34, f"{fetched // SECTOR} sectors of 32 bytes, {fetched} bytes{share}"),
        text(12, y + 54, outside.strip() or "Nothing outside a buffer was touched.",
             fill=INK if stray else MUTED, font_weight=700 if stray else 400),
    ]  # fmt: skip
    told = f"{said} {fetched} bytes fetched, {used} used.{outside}"
    return beside(panel("memory", WIDTH, y + 66, "Memory, element by element", told, *body))


def sectors(done: Sequence[Access], memory: Memory) -> tuple[int, int]:
    """Bytes of the sectors that accesses touch, one by one, and bytes asked for."""
    fetched = used = 0
    for _, _, buffer, elements in done:
        size = memory.sizes[buffer][1]
        fetched += SECTOR * len({element * size // SECTOR for element in elements})
        used += size * len(elements)
    return fetched, used


def _place(index: int, y: float, together: int) -> tuple[float, float]:
    """Where a cell is; those of one sector stand together."""
    line, column = divmod(max(index, 0), A_LINE)
    column = column if index >= 0 else index
    return LEFT + CELL * column + 6 * (column // together), y + CELL * line


def _cell(
    place: tuple[float, float],
    index: int,
    size: int,
    touched: dict[int, tuple[int, str]],
    bright: set[int],
) -> str:
    x, top = place
    outside, mark = not 0 <= index < size, touched.get(index)
    words = f"element {index}" if not outside else f"{index} is outside: somebody else's"
    fill, edge, thick = "none", GRID, 1.0
    if mark is not None:
        program, kind = mark
        fill = UNSCALED if outside else GROUPS[program % len(GROUPS)]
        words += f", {kind} by program {program}"
    if index in bright:
        edge, thick = INK, 2.5
    box: dict[str, Any] = {"x": x, "y": top, "width": CELL - 3, "height": CELL - 3}
    dash = {"stroke_dasharray": "3 2"} if outside else {}
    faint = {"fill_opacity": 0.45 if mark is not None and mark[1] == "load" else 1.0}
    made = element(
        "rect", hover(words), **box, fill=fill, stroke=edge, stroke_width=thick, **dash, **faint
    )
    if mark is None:
        return made
    glow = ""
    if outside:
        ring = {"x": x - 3, "y": top - 3, "width": CELL + 3, "height": CELL + 3}
        glow = element("rect", **ring, fill="none", stroke=UNSCALED, stroke_width=3, rx=4,
                       stroke_opacity=0.55, class_="attend-glow")  # fmt: skip
    label = f"{mark[0]}!" if outside else str(mark[0])
    ink = INK if mark[1] == "load" else ink_on(fill)
    middle = x + (CELL - 3) / 2
    return glow + made + text(middle, top + 16, label, font_size=11, text_anchor="middle", fill=ink)
