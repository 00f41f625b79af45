"""The hook of chapter 24: what a fading state keeps of a text, with one Δ or with two."""

from __future__ import annotations

import math

import ipywidgets

from attend.theme import GRID, GROUPS, INK, MUTED
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View

SEE = (
    "With the same step size for all tokens the noise wears the symbols away, wherever you put the "
    "slider. With the step size 0 for noise, only a symbol fades a symbol."
)
TEXT = "··7····4······2·····"
SYMBOL, NOISE = GROUPS[0], GROUPS[5]


def shares(delta: float, selective: bool) -> list[float]:
    """What share of the state at the end each token has: it writes Δ and fades by exp(−Δ)."""
    steps = [delta if letter != "·" or not selective else 0.0 for letter in TEXT]
    left, found = 1.0, []
    for step in reversed(steps):
        found.append(step * left)
        left *= math.exp(-step)
    total = sum(found)
    return [share / total for share in reversed(found)]


def what_is_kept() -> View:
    """Show the shares of symbols and noise in two states, with a slider for Δ."""
    delta = ipywidgets.FloatLogSlider(
        value=0.3,
        base=10,
        min=-2,
        max=0.5,
        step=0.05,
        description="step size Δ",
        readout_format=".2f",
        layout=ipywidgets.Layout(width="min(420px, 100%)"),
        style={"description_width": "84px"},
    )
    view = View("what-is-kept", SEE, [delta], lambda: draw(delta.value))
    delta.observe(view.refresh, names="value")
    return view


def draw(delta: float) -> str:
    """Return both panels for a step size."""
    same = _bars("fixed", f"The same Δ = {delta:.2f} for every token", shares(delta, False))
    chosen = _bars("chosen", f"Δ = {delta:.2f} for symbols, 0 for noise", shares(delta, True))
    return beside(same, chosen)


def _bars(name: str, label: str, found: list[float]) -> str:
    left, wide, base, tall = 14.0, 440.0 / len(TEXT), 150.0, 90.0
    body = [element("line", x1=left, x2=left + 440, y1=base, y2=base, stroke=GRID)]
    symbols = 0.0
    for place, (letter, share) in enumerate(zip(TEXT, found, strict=True)):
        x, symbol = left + wide * place, letter != "·"
        symbols += share * symbol
        high = max(tall * share, 0.5)
        box = {"x": x + 3, "y": base - high, "width": wide - 6, "height": high}
        words = hover(f"token {place + 1}, {letter}: {100 * share:.1f} % of the state")
        fill = SYMBOL if symbol else NOISE
        body.append(element("rect", words, **box, fill=fill, data_share=f"{share:.4f}"))
        look = {"text_anchor": "middle", "font_weight": 700 if symbol else 400}
        body.append(text(x + wide / 2, base + 18, letter, fill=INK if symbol else MUTED, **look))
    told = f"{100 * symbols:.0f} % of the state at the end is symbols, the rest is noise."
    body.append(text(left, 48, told, font_size=13))
    return panel(name, 470.0, 182.0, label, told, *body)
