"""The kernel of a diagonal system as its rates and its step size move (chapter 23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import EDGE, GRID, INK, MUTED, ROLE, UNSCALED
from attend.widgets.kit.learner import Answer, ask
from attend.widgets.kit.svg import beside, element, hover, number, panel, text
from attend.widgets.kit.view import View, note

TAPS = 64
SEE = (
    "Each dot is one Ā = e^(Δa) in the complex plane. How near it is to the circle says how long "
    "the kernel lasts; its angle, how fast it swings. Δ moves both at once."
)
KINDS = {"one": "one pair", "lin": "s4d_init, lin, 8 pairs", "inv": "s4d_init, inv, 8 pairs"}


def kernel_shapes(s4d_init: Callable[..., Any], s4d_kernel: Callable[..., Any]) -> View:
    """Show Ā in the unit circle and the kernel beside it, by the learner's two functions."""
    wide = ipywidgets.Layout(width="min(440px, 98%)")
    style = {"description_width": "104px"}

    def slider(value: float, least: float, most: float, step: float, words: str) -> Any:
        return ipywidgets.FloatSlider(
            value=value,
            min=least,
            max=most,
            step=step,
            description=words,
            layout=wide,
            style=style,
            readout_format=".2f",
        )

    kind = ipywidgets.Dropdown(
        options=[(said, name) for name, said in KINDS.items()],
        description="rates a",
        layout=wide,
        style=style,
    )
    fade = slider(0.5, 0.0, 4.0, 0.1, "fades, −Re a")
    turn = slider(3.0, 0.0, 12.0, 0.25, "turns, Im a")
    delta = ipywidgets.FloatLogSlider(
        value=0.1,
        base=10,
        min=-2,
        max=0,
        step=0.05,
        description="step Δ",
        readout_format=".2f",
        layout=wide,
        style=style,
    )

    def picture() -> str:
        chosen = str(kind.value)
        fade.disabled = turn.disabled = chosen != "one"
        a = np.array([complex(-max(fade.value, 1e-6), turn.value)])
        if chosen != "one":
            a = np.asarray(s4d_init(8, chosen))
        return draw(shape(a, delta.value, s4d_kernel), a, delta.value)

    view = View("kernel-shapes", SEE, [kind, fade, turn, delta], picture)
    for control in (kind, fade, turn, delta):
        control.observe(view.refresh, names="value")
    return view


def shape(a: np.ndarray, delta: float, s4d_kernel: Callable[..., Any]) -> Answer:
    """The kernel (TAPS,) of rates a, with b = 1 and c such that all add up at the start."""
    ones = np.ones(len(a), dtype=complex)

    def kernel(step: np.ndarray) -> Any:
        return s4d_kernel(a, ones, ones / len(a), step, TAPS)

    return ask(kernel, "s4d_kernel", (np.array(delta),), {"a kernel": (TAPS,)})


def draw(answer: Answer, a: np.ndarray, delta: float) -> str:
    """Return both panels, or the sentence that stands in their place."""
    if answer.problem:
        return note(answer.problem)
    above = note(answer.remark) if answer.remark else ""
    return above + beside(_circle(np.exp(delta * a)), _taps(answer.arrays[0]))


def _circle(moved: np.ndarray) -> str:
    middle, unit = (150.0, 172.0), 116.0
    ring = {"cx": middle[0], "cy": middle[1], "r": unit, "fill": "none", "stroke": EDGE}
    x, y = middle
    body = [
        element("line", x1=x - unit, x2=x + unit, y1=y, y2=y, stroke=GRID),
        element("line", x1=x, x2=x, y1=y - unit, y2=y + unit, stroke=GRID),
        element("circle", **ring),
        text(x + unit + 6, y + 5, "1", font_size=13, fill=MUTED),
        text(x + 6, y - unit - 6, "i", font_size=13, fill=MUTED),
    ]
    for value in moved:
        words = f"Ā = {number(value.real)} + {number(value.imag)} i, size {number(abs(value))}"
        for twin, fill in ((value, ROLE["Q"]), (np.conj(value), "none")):
            spot = {"cx": x + unit * twin.real, "cy": y - unit * twin.imag}
            mark = {"r": 6, "fill": fill, "stroke": ROLE["Q"], "stroke_width": 2}
            body.append(element("circle", hover(words), **spot, **mark))
    sizes = ", ".join(f"{number(abs(v))} at {np.degrees(np.angle(v)):.0f}°" for v in moved)
    told = f"Sizes and angles of Ā: {sizes}. Hollow: their twins."
    return panel("circle", 300.0, 306.0, "Ā in the unit circle", told, *body)


def _taps(kernel: np.ndarray) -> str:
    left, middle, wide, tall = 52.0, 164.0, 5.8, 110.0
    most = max(float(np.abs(kernel).max()), 1e-12)
    right = left + wide * TAPS
    body = [
        element("line", x1=left, x2=right, y1=middle, y2=middle, stroke=GRID),
        text(left - 6, middle - tall + 5, number(most), font_size=12, text_anchor="end"),
        text(left - 6, middle + 5, "0", font_size=12, text_anchor="end"),
        text(left - 6, middle + tall + 5, number(-most), font_size=12, text_anchor="end"),
        text(left, middle + tall + 28, "now", font_size=13, fill=MUTED),
        text(
            right, middle + tall + 28, "63 tokens ago", font_size=13, fill=MUTED, text_anchor="end"
        ),
    ]
    for j, value in enumerate(kernel):
        high = tall * float(value) / most
        x = left + wide * (j + 0.5)
        stem = {"x1": x, "x2": x, "y1": middle, "y2": middle - high, "stroke": UNSCALED}
        body.append(element("line", **stem, stroke_width=2, data_value=f"{value:.5f}"))
        dot = {"cx": x, "cy": middle - high, "r": 2.2, "fill": INK}
        body.append(element("circle", hover(f"K_{j} = {number(value)}"), **dot))
    last = np.flatnonzero(np.abs(kernel) > most / 10)
    told = f"Largest {number(most)}; the last above a tenth of it is {last.max()} tokens ago."
    return panel("taps", 444.0, 306.0, "The kernel: what an input is worth later", told, *body)
