"""Chapter 25's picture: one matrix in blocks, attention on the diagonal, the state below it.

The matrix has the entries (c_t · b_s) exp(a_{s+1} + … + a_t). Without a function it is worked out
here; with the learner's ``ssd_chunked`` it is what that makes of impulses, one for each step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import GRID, INK, MUTED, ROLE
from attend.widgets.kit.svg import beside, element, hover, number, panel, text, viridis
from attend.widgets.kit.view import View, note

SEE = (
    "Row t is what output t reads of each input. Inside the blue squares it is worked out as "
    "attention, below them it goes through the state. The chunk length moves the border and never "
    "a number."
)
STEPS, STATE, WIDTH = 16, 16, 16
"""T, and N and D of the costs."""
ATTENTION, RECURRENCE = ROLE["Q"], ROLE["K"]
_LEFT, _TOP, _CELL = 44.0, 62.0, 18.0


@cache
def vectors() -> tuple[np.ndarray, np.ndarray]:
    """b and c of the 16 steps, (T, N), of length 1."""
    draw = np.random.default_rng(25)
    b, c = draw.standard_normal((2, STEPS, STATE)) + 0.5
    return tuple(v / np.linalg.norm(v, axis=1, keepdims=True) for v in (b, c))  # type: ignore[return-value]


def matrix(decay: float) -> np.ndarray:
    """The matrix (T, T) for one decay at every step."""
    b, c = vectors()
    apart = np.subtract.outer(np.arange(STEPS), np.arange(STEPS))
    return np.where(apart >= 0, (c @ b.T) * decay ** np.maximum(apart, 0), 0.0)


def multiplications(chunk: int) -> int:
    """Of the chunked form, for one head; the last chunk may be shorter."""
    sizes = [min(chunk, STEPS - first) for first in range(0, STEPS, chunk)]
    within = sum(q * q * (STATE + WIDTH + 1) + 2 * q * WIDTH * (STATE + 1) for q in sizes)
    return within + len(sizes) * WIDTH * STATE


def numbers_moved(chunk: int) -> int:
    """To and from slow memory by the chapter's kernels: inputs, outputs, four times each state."""
    chunks = -(-STEPS // chunk)
    return STEPS * (3 * WIDTH + 3 * STATE + 3) + 4 * chunks * WIDTH * STATE


def semiseparable(ssd_chunked: Callable[..., Any] | None = None) -> View:
    """Show the matrix in blocks, with sliders for the chunk length and the decay.

    Args:
        ssd_chunked: the learner's function, which then makes the matrix.
    """
    layout, style = ipywidgets.Layout(width="min(420px, 98%)"), {"description_width": "100px"}
    chunk = ipywidgets.IntSlider(
        value=4, min=1, max=STEPS, description="chunk length", layout=layout, style=style
    )
    decay = ipywidgets.FloatSlider(
        value=0.85, min=0.3, max=1.0, step=0.05, description="decay a step", layout=layout,
        style=style,
    )  # fmt: skip
    view = View(
        "semiseparable", SEE, [chunk, decay], lambda: draw(chunk.value, decay.value, ssd_chunked)
    )
    for control in (chunk, decay):
        control.observe(view.refresh, names="value")
    return view


def draw(chunk: int, decay: float, ssd_chunked: Callable[..., Any] | None = None) -> str:
    """Return both panels, or one sentence where a function gives nothing to draw."""
    shown = matrix(decay)
    if ssd_chunked is not None:
        try:
            shown = _made_by(ssd_chunked, chunk, decay)
        except NotImplementedError:
            return note("This picture waits for the exercise ssd_chunked, which is not started.")
        except Exception as error:  # a learner's function may raise anything: report it as words
            words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
            return note(f"Your ssd_chunked stopped with {words}. Run check(ssd_chunked).")
        if shown.shape != (STEPS, STEPS) or not np.isfinite(shown).all():
            return note("Your ssd_chunked gave NaN, infinity or another shape. Run its check.")
    return beside(_blocks(shown, chunk, decay), _costs(chunk))


def _made_by(function: Callable[..., Any], chunk: int, decay: float) -> np.ndarray:
    import torch

    b, c = (torch.from_numpy(v)[None] for v in vectors())
    impulses = torch.eye(STEPS, dtype=b.dtype)[None, :, None]  # (1, T, 1, T): one a channel
    logs = torch.full((1, STEPS, 1), float(np.log(decay)), dtype=b.dtype)
    with torch.no_grad():
        y, _ = function(impulses, logs, b, c, chunk)
    return np.asarray(y[0, :, 0].numpy())


def _blocks(shown: np.ndarray, chunk: int, decay: float) -> str:
    body = [
        text(_LEFT, 48, "input s →", font_size=13, fill=MUTED),
        text(14, _TOP + 14, "t ↓", font_size=13, fill=MUTED),
    ]
    largest = max(float(np.abs(shown).max()), 1e-12)
    for t in range(STEPS):
        for s in range(STEPS):
            value = float(shown[t, s])
            if t < s and value == 0.0:
                continue
            own = t // chunk == s // chunk
            way = "attention" if own else "through the state"
            words = hover(f"output {t + 1}, input {s + 1}: {number(value)}, {way}")
            box = {"x": _LEFT + _CELL * s, "y": _TOP + _CELL * t, "width": _CELL, "height": _CELL}
            fill = viridis(abs(value) / largest)
            body.append(element("rect", words, **box, fill=fill, data_entry=f"{value:.6f}"))
    for first in range(0, STEPS, chunk):
        size = min(chunk, STEPS - first)
        if first:
            low = {"x": _LEFT, "y": _TOP + _CELL * first, "width": _CELL * first}
            look = {"fill": "none", "stroke": RECURRENCE, "stroke_width": 2}
            body.append(element("rect", **low, height=_CELL * size, **look, stroke_dasharray="5 3"))
        at = {"x": _LEFT + _CELL * first, "y": _TOP + _CELL * first}
        look = {"fill": "none", "stroke": ATTENTION, "stroke_width": 3}
        body.append(element("rect", **at, width=_CELL * size, height=_CELL * size, **look))
    bottom = _TOP + _CELL * STEPS
    for place, (colour, words, dash) in enumerate(
        ((ATTENTION, "attention, within a chunk", ""), (RECURRENCE, "through the state", "5 3"))
    ):
        y = bottom + 20 + 20.0 * place
        line = {"x1": _LEFT, "x2": _LEFT + 22, "y1": y, "y2": y, "stroke": colour}
        body.append(element("line", **line, stroke_width=3, stroke_dasharray=dash or "none"))
        body.append(text(_LEFT + 30, y + 4, words, font_size=12))
    key = "bright: a large entry; none above the diagonal"
    body.append(text(_LEFT, bottom + 64, key, font_size=11, fill=MUTED))
    count = -(-STEPS // chunk)
    told = (
        f"A lower triangular matrix of 16 × 16 entries that fade by {decay:.2f} a step, in "
        f"{count} square{'s' if count > 1 else ''} of {chunk} on the diagonal."
    )
    return panel("blocks", 350.0, bottom + 76, f"One matrix in chunks of {chunk}", told, *body)


def _costs(chunk: int) -> str:
    body: list[str] = []
    rows = (
        ("multiplications", multiplications, ATTENTION, ""),
        ("numbers to and from slow memory", numbers_moved, RECURRENCE, ""),
    )
    left, wide, tall = 20.0, 20.0, 92.0
    for row, (label, count, colour, _) in enumerate(rows):
        found = [count(q) for q in range(1, STEPS + 1)]
        base = 176.0 + 168.0 * row
        body.append(text(left, base - tall - 16, f"{label}: {found[chunk - 1]:,}", font_size=13))
        body.append(element("line", x1=left, x2=left + 320, y1=base, y2=base, stroke=GRID))
        for place, amount in enumerate(found):
            high = tall * amount / max(found)
            box = {"x": left + wide * place + 3, "y": base - high, "width": wide - 6.0}
            now = place + 1 == chunk
            look = {"fill": colour, "fill_opacity": 1.0 if now else 0.35}
            words = hover(f"chunks of {place + 1}: {amount:,}")
            body.append(element("rect", words, **box, height=high, **look, data_cost=str(amount)))
            mark = {"text_anchor": "middle", "font_size": 11, "font_weight": 700 if now else 400}
            x, fill = left + wide * (place + 0.5), INK if now else MUTED
            body.append(text(x, base + 15, str(place + 1), fill=fill, **mark))
        body.append(text(left, base + 32, "chunk length", font_size=11, fill=MUTED))
    best = min(range(1, STEPS + 1), key=multiplications)
    told = (
        f"For D = N = 16 and one head, chunks of {chunk} take {multiplications(chunk):,} "
        f"multiplications; kernels as in this chapter move {numbers_moved(chunk):,} numbers. "
        f"Chunks of {best} take the fewest multiplications, one chunk moves the fewest numbers."
    )
    return panel("costs", 360.0, 426.0, "What it costs (D = N = 16)", told, *body)
