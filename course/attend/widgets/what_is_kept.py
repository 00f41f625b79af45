"""The hook of chapter 24: what a fading state keeps of two texts, with one Δ or with two.

Both texts have the same symbols, at another spacing.
"""

from __future__ import annotations

import math

import ipywidgets

from attend.theme import GRID, GROUPS, INK, MUTED
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View

SEE = (
    "Both texts have the symbols 7, 4, 2. With one step size for all tokens, what is left of them "
    "depends on the spacing, even if noise writes nothing. With the step size 0 for noise, the "
    "spacing makes no difference."
)
TEXTS = ("··7····4······2·····", "··········7·4·2·····")
SYMBOL, NOISE = GROUPS[0], GROUPS[5]
_LEFT, _WIDE, _TALL = 14.0, 440.0 / len(TEXTS[0]), 62.0


def shares(words: str, delta: float, selective: bool, quiet: bool = False) -> list[float]:
    """What share of the state at the end each token has: it writes Δ and fades by exp(−Δ).

    Args:
        words: one character a token; "·" is noise.
        delta: the step size.
        selective: noise has the step size 0.
        quiet: noise writes nothing, whatever its step size.
    """
    left, found = 1.0, []
    for letter in reversed(words):
        noise = letter == "·"
        step = 0.0 if noise and selective else delta
        found.append(0.0 if noise and quiet else step * left)
        left *= math.exp(-step)
    total = sum(found)
    return [share / total for share in reversed(found)]


def what_is_kept() -> View:
    """Show what each token has of two states, with a slider for Δ and a box that quiets noise."""
    delta = ipywidgets.FloatLogSlider(
        value=0.3,
        base=10,
        min=-2,
        max=0.5,
        step=0.05,
        description="step size Δ",
        readout_format=".2f",
        layout=ipywidgets.Layout(width="min(420px, 98%)"),
        style={"description_width": "84px"},
    )
    quiet = ipywidgets.Checkbox(
        value=False, description="noise writes nothing", indent=False, layout={"width": "auto"}
    )
    view = View("what-is-kept", SEE, [delta, quiet], lambda: draw(delta.value, quiet.value))
    for control in (delta, quiet):
        control.observe(view.refresh, names="value")
    return view


def draw(delta: float, quiet: bool = False) -> str:
    """Return both panels for a step size."""
    same = _panel("fixed", f"The same Δ = {delta:.2f} for every token", delta, False, quiet)
    chosen = _panel("chosen", f"Δ = {delta:.2f} for symbols, 0 for noise", delta, True, quiet)
    return beside(same, chosen)


def _panel(name: str, label: str, delta: float, selective: bool, quiet: bool) -> str:
    body, told = [], []
    both = [shares(words, delta, selective, quiet) for words in TEXTS]
    for row, (words, found) in enumerate(zip(TEXTS, both, strict=True)):
        parts = {letter: share for letter, share in zip(words, found, strict=True) if letter != "·"}
        said = ", ".join(f"{letter}: {100 * share:.0f} %" for letter, share in parts.items())
        told.append(f"{said}, noise: {100 * max(0.0, 1 - sum(parts.values())):.0f} %")
        base = 118.0 + 112.0 * row
        body.append(text(_LEFT, base - _TALL - 10, told[-1], font_size=13))
        body += _bars(words, found, base, max(map(max, both)))
    heard = f"Of the state at the end, in the first text, {told[0]}; in the second, {told[1]}."
    return panel(name, 470.0, 258.0, label, heard, *body)


def _bars(words: str, found: list[float], base: float, largest: float) -> list[str]:
    body = [element("line", x1=_LEFT, x2=_LEFT + 440, y1=base, y2=base, stroke=GRID)]
    for place, (letter, share) in enumerate(zip(words, found, strict=True)):
        x, symbol = _LEFT + _WIDE * place, letter != "·"
        high = max(_TALL * share / largest, 0.5)
        box = {"x": x + 3, "y": base - high, "width": _WIDE - 6, "height": high}
        title = hover(f"token {place + 1}, {letter}: {100 * share:.1f} % of the state")
        fill = SYMBOL if symbol else NOISE
        body.append(element("rect", title, **box, fill=fill, data_share=f"{share:.4f}"))
        look = {"text_anchor": "middle", "font_weight": 700 if symbol else 400}
        body.append(text(x + _WIDE / 2, base + 18, letter, fill=INK if symbol else MUTED, **look))
    return body
