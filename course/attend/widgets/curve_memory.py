"""Draw a curve: N numbers read it from left to right and draw it back (chapter 23).

They are HiPPO's state with a constant clock, h' = A h + b x. It holds the past as Legendre
polynomials of e^-τ, where τ is how long ago: sharp for what is new, blurred for what is old. The
slider of the clock says how much time passes while the curve is read: it trades one for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import traitlets
from numpy.polynomial.legendre import legvander

from attend.theme import EDGE, GRID, INK, MUTED, PAPER, ROLE, UNSCALED
from attend.widgets.kit.learner import ask
from attend.widgets.kit.live import Live
from attend.widgets.kit.svg import beside, element, number, panel, text

POINTS, MOST = 100, 24
"""Samples of a curve, and the most numbers that a state may have."""

SPANS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""How much of the state's time passes while the curve is read."""

START, NUMBERS, SPAN = "waves", 16, 2.0
LEFT, MIDDLE, WIDE, TALL = 24.0, 146.0, 396.0, 100.0
"""Of the drawing: where time begins, where 0 is, its width, and the height of 1."""

SEE = (
    "Draw another curve over the solid one. The dashed curve is what the numbers of the state still"
    " know once they have read it. Take fewer numbers, then let more time pass: the old end is lost"
    " first."
)

Functions = tuple[Callable[..., Any], ...]


class CurveMemory(Live, module=__file__):
    """The widget: the curve, the choices, and what Python answered."""

    curve = traitlets.List().tag(sync=True)
    size = traitlets.Int(NUMBERS).tag(sync=True)
    span = traitlets.Float(SPAN).tag(sync=True)
    asks = traitlets.Bool(False).tag(sync=True)
    """Whether functions of the learner's are asked; if not, the page computes by itself."""
    answer = traitlets.Dict().tag(sync=True)
    scene = traitlets.Dict().tag(sync=True)


def curve_memory(
    discretize: Callable[..., Any] | None = None,
    ssm_recurrent: Callable[..., Any] | None = None,
    hippo_legs: Callable[..., Any] | None = None,
    hippo_reconstruct: Callable[..., Any] | None = None,
) -> CurveMemory:
    """Show a curve that can be drawn over, and what N numbers draw back.

    With the learner's four functions they are asked at every change; without, the page computes.
    Raises ValueError when only some are given.
    """
    given = (discretize, ssm_recurrent, hippo_legs, hippo_reconstruct)
    functions = tuple(function for function in given if callable(function))
    if len(functions) not in (0, 4):
        raise ValueError(
            "curve_memory: pass all four functions (discretize, ssm_recurrent, hippo_legs, "
            "hippo_reconstruct), or none."
        )
    own = functions or None
    widget = CurveMemory(see=SEE, asks=own is not None, curve=curves()[START].tolist())
    widget.scene = {
        "left": LEFT,
        "middle": MIDDLE,
        "wide": WIDE,
        "tall": TALL,
        "most": MOST,
        "spans": list(SPANS),
        "curves": {name: values.tolist() for name, values in curves().items()},
        "steps": [[part.tolist() for part in _step(span)] for span in SPANS],
        "bar": {"left": BARS, "wide": BAR, "tall": BAR_TALL},
    }

    def answered() -> dict[str, Any]:
        return measure(widget.curve, widget.size, widget.span, own)

    widget.answer = answered()
    widget.picture = draw(widget.curve, widget.answer)
    if own is not None:
        names = ["curve", "size", "span"]
        widget.observe(lambda _: setattr(widget, "answer", answered()), names=names)
    return widget


def curves() -> dict[str, np.ndarray]:
    """Curves to begin with, POINTS numbers between −1 and 1 each."""
    t = np.linspace(0, 1, POINTS)
    noise = np.clip(0.45 * np.random.default_rng(23).standard_normal(POINTS), -1, 1)
    return {
        "waves": 0.8 * np.sin(5 * np.pi * t) * (1 - np.exp(-8 * t)),
        "hill": 0.9 * np.exp(-(((t - 0.6) / 0.18) ** 2)),
        "steps": np.select([t < 0.2, t < 0.5, t < 0.75], [0.0, 0.7, -0.5], 0.3),
        "noise": noise,
    }


def _step(span: float) -> tuple[np.ndarray, np.ndarray]:
    """Ā and b̄ of HiPPO, bilinear; of fewer numbers they are the upper left part."""
    n = np.arange(MOST)
    b = np.sqrt(2 * n + 1)
    a = np.tril(-np.outer(b, b), -1) - np.diag(n + 1.0)
    half = span / POINTS / 2 * a
    both = np.linalg.solve(np.eye(MOST) - half, np.column_stack([np.eye(MOST) + half, b]))
    return both[:, :-1], both[:, -1] * span / POINTS


def _places(span: float) -> np.ndarray:
    """e^-τ of the middle of each sample."""
    return np.exp(-span / POINTS * (np.arange(POINTS)[::-1] + 0.5))


def measure(
    curve: Sequence[float], size: int, span: float, functions: Functions | None = None
) -> dict[str, Any]:
    """Return the state (N) and the curve drawn back (POINTS); or `note`, the sentence to show."""
    asked = {"size": size, "span": span}

    def remembered(x: np.ndarray) -> Any:
        if functions is None:
            a_bar, b_bar = (part[:size] for part in _step(span))
            state = np.zeros(size)
            for value in x:
                state = a_bar[:, :size] @ state + b_bar * value
            basis = legvander(2 * _places(span) - 1, size - 1) * np.sqrt(2 * np.arange(size) + 1)
            return state, basis @ state
        discretize, ssm_recurrent, hippo_legs, hippo_reconstruct = functions
        a_bar, b_bar = discretize(*hippo_legs(size), span / POINTS)
        _, state = ssm_recurrent(a_bar, b_bar, np.ones(size), x)
        return state, hippo_reconstruct(state, _places(span))

    shapes = {"a state": (size,), "a curve": (POINTS,)}
    answer = ask(remembered, "hippo_reconstruct", (np.array(curve, dtype=float),), shapes)
    if answer.problem:
        return asked | {"note": answer.problem}
    state, drawn = answer.arrays
    return asked | {"state": state.tolist(), "drawn": drawn.tolist(), "note": answer.remark}


def missed(curve: Sequence[float], drawn: Sequence[float]) -> tuple[float, float]:
    """Root mean square of the difference, in the older and in the newer half."""
    wrong = (np.array(curve) - np.array(drawn)) ** 2
    half = len(wrong) // 2
    return float(wrong[:half].mean() ** 0.5), float(wrong[half:].mean() ** 0.5)


BARS, BAR, BAR_TALL = 24.0, 10.5, 200.0


def draw(curve: Sequence[float], answer: dict[str, Any]) -> str:
    """Return both panels; the module moves every part that has a name."""
    drawn, state = answer.get("drawn", [0.0] * POINTS), answer.get("state", [])
    older, newer = missed(curve, drawn)
    many = f"{answer['size']} number{'s draw' if answer['size'] > 1 else ' draws'}"
    said = f"{many} it back: off by {older:.2f} in its older half, by "
    said += f"{newer:.2f} in its newer half."
    edge = {"stroke": GRID}
    left = [
        element("line", x1=LEFT, x2=LEFT + WIDE, y1=MIDDLE, y2=MIDDLE, **edge),
        element(
            "rect",
            x=LEFT,
            y=MIDDLE - TALL - 8,
            width=WIDE,
            height=2 * TALL + 16,
            fill="transparent",
            stroke=EDGE,
            data_part="field",
        ),
        text(LEFT, MIDDLE + TALL + 28, "long ago", font_size=13, fill=MUTED),
        text(LEFT + WIDE, MIDDLE + TALL + 28, "now", font_size=13, fill=MUTED, text_anchor="end"),
        _line("curve", curve, stroke=INK, stroke_width=2.5),
        _line("drawn", drawn, stroke=UNSCALED, stroke_width=3, stroke_dasharray="7 4"),
        element(
            "circle",
            cx=LEFT + WIDE / 2,
            cy=_y(curve[POINTS // 2]),
            r=8,
            fill=PAPER,
            stroke=ROLE["Q"],
            stroke_width=3,
            data_part="pen",
        ),
    ]
    right = [
        element("line", x1=BARS, x2=BARS + BAR * MOST, y1=MIDDLE, y2=MIDDLE, **edge),
        text(BARS, MIDDLE + TALL + 28, "coarse", font_size=13, fill=MUTED),
        text(
            BARS + BAR * MOST,
            MIDDLE + TALL + 28,
            "fine",
            font_size=13,
            fill=MUTED,
            text_anchor="end",
        ),
    ]
    for n in range(MOST):
        value = state[n] if n < len(state) else 0.0
        right.append(_bar(n, value))
    listed = ", ".join(number(value) for value in state)
    return beside(
        panel("curve", 444.0, 286.0, "A curve, and what is left of it", said, *left),
        panel("numbers", 300.0, 286.0, "The numbers of the state", f"They are {listed}.", *right),
        widest="780px",
    )


def _y(value: float) -> float:
    return MIDDLE - TALL * value


def _line(part: str, values: Sequence[float], **style: object) -> str:
    step = WIDE / (POINTS - 1)
    spots = " ".join(
        f"{LEFT + step * i:.1f},{MIDDLE - TALL * min(max(v, -1.08), 1.08):.1f}"
        for i, v in enumerate(values)
    )
    look = {"fill": "none", "pointer_events": "none", "stroke_linejoin": "round"}
    return element("polyline", points=spots, data_part=part, **look, **style)


def _bar(n: int, value: float) -> str:
    high = min(abs(BAR_TALL * value), TALL)
    box = {"x": BARS + BAR * n + 1, "width": BAR - 2, "height": high}
    y = MIDDLE - high if value > 0 else MIDDLE
    return element("rect", **box, y=y, fill=ROLE["V"], data_part=f"number-{n}")
