"""The Δ explorer: what a trained Mamba does with each token of a text, by the learner's functions.

One panel shows the step size of the channels that vary most, the other what is left of each token
in the state of one layer once a chosen token has been read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ipywidgets

from attend.theme import GRID, INK, MUTED, ROLE
from attend.widgets.kit.svg import (
    beside,
    element,
    hover,
    number,
    panel,
    readable,
    text,
    viridis,
)
from attend.widgets.kit.view import View, note

if TYPE_CHECKING:  # torch is imported when a picture is drawn: other chapters do without it
    from torch import Tensor

SEE = (
    "Bright is a long step: the channel takes the token in and lets go of what it had. Move the "
    "token slider along the text: the bars say what is still left of each token."
)
START = 'The "assert" statement is\nused to insert'
CHANNELS, LONGEST = 14, 44
NEEDED = ("causal_conv1d", "selective_parameters", "discretize_selective", "selective_scan")
_LOW, _HIGH = -3.0, 0.0  # of the colours: Δ from 0.001 to 1

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Trace:
    """One layer's numbers for a text. Shapes: delta (T, E); left (T,), 1 for the last token."""

    delta: Tensor
    left: Tensor


def delta_explorer(weights: Mapping[str, Tensor], **functions: Callable[..., Any]) -> View:
    """Type a text; see Δ by token and channel, and what is left of each token.

    Args:
        weights: of ``attend.data.mamba_words.weights()``.
        **functions: the learner's, by the names of the exercises in ``NEEDED``.

    Raises:
        ValueError: a function is missing.
    """
    missing = [name for name in NEEDED if not callable(functions.get(name))]
    if missing:
        raise ValueError(f"delta_explorer: pass your function {missing[0]}={missing[0]}.")
    wide = ipywidgets.Layout(width="min(440px, 98%)")
    style = {"description_width": "84px"}
    words = ipywidgets.Text(
        value=START.replace("\n", " "),
        description="text",
        continuous_update=False,
        layout=wide,
        style=style,
    )
    layer = ipywidgets.Dropdown(
        options=[("first", 0), ("second", 1)], description="layer", layout=wide, style=style
    )
    token = ipywidgets.IntSlider(
        value=len(words.value), min=1, max=LONGEST, description="token", layout=wide, style=style
    )

    def picture() -> str:
        from attend.data.mamba_words import ALPHABET

        shown = "".join(letter for letter in words.value if letter in ALPHABET)[:LONGEST]
        return draw(weights, functions, shown, layer.value or 0, token.value)

    view = View("delta-explorer", SEE, [words, layer, token], picture)
    for control in (words, layer, token):
        control.observe(view.refresh, names="value")
    return view


def trace(
    weights: Mapping[str, Tensor], functions: Functions, shown: str, layer: int, token: int
) -> Trace:
    """Read ``shown`` with the learner's functions; ``token`` counts from 1."""
    import torch
    from torch.nn import functional

    from attend.data.mamba_words import encode

    x = weights["embedding"][encode(shown)][None]  # (1, T, C)
    for number_of in range(layer + 1):
        head = f"{number_of}."
        mine = {n.removeprefix(head): v for n, v in weights.items() if n.startswith(head)}
        normed = functional.rms_norm(x, x.shape[-1:], mine["norm"], eps=1e-5)
        u, z = (normed @ mine["input.weight"].T).chunk(2, dim=-1)
        u = functional.silu(functions["causal_conv1d"](u, mine["taps"], mine["taps_bias"]))
        delta, b, c = functions["selective_parameters"](
            u, mine["select"], mine["delta"], mine["delta_bias"]
        )
        a = -torch.exp(mine["a_log"])
        if number_of == layer:
            decay, gain = functions["discretize_selective"](delta, a, b)
            written = (gain * u[..., None])[0]  # (T, E, N)
            return Trace(delta[0], _left(decay[0], written, token))
        y, _ = functions["selective_scan"](u, delta, a, b, c, mine["skip"])
        x = x + (y * functional.silu(z)) @ mine["output.weight"].T
    raise ValueError(f"layer {layer} is not there")


def _left(decay: Tensor, written: Tensor, token: int) -> Tensor:
    """How large what each token wrote still is after ``token``, against when it was written."""
    left = written.new_zeros(len(written))
    kept = written.new_ones(written.shape[1:])
    for place in range(token - 1, -1, -1):
        left[place] = (kept * written[place]).norm() / written[place].norm().clamp(min=1e-12)
        kept = kept * decay[place]
    return left


def draw(
    weights: Mapping[str, Tensor], functions: Functions, shown: str, layer: int, token: int
) -> str:
    """Return both panels, or one sentence where there is nothing to draw."""
    if len(shown) < 2:
        return note("Type at least two characters of ASCII.")
    token = min(token, len(shown))
    try:
        found = trace(weights, functions, shown, layer, token)
        finite = found.delta.isfinite().all() and found.left.isfinite().all()
    except NotImplementedError:
        return note("This picture waits for an exercise that is not started yet.")
    except Exception as error:  # a learner's function may raise anything: report it as words
        words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
        return note(f"One of your functions stopped with {words}. Run its check to see why.")
    if not finite or found.delta.shape != (len(shown), len(weights["0.skip"])):
        return note("Your functions gave NaN, infinity or another shape. Run their checks.")
    return beside(_steps(shown, found.delta, token), _bars(shown, found.left, layer, token))


def _steps(shown: str, delta: Tensor, token: int) -> str:
    varied = delta.clamp(min=1e-6).log().std(dim=0).argsort(descending=True)[:CHANNELS]
    left, top, tall = 44.0, 60.0, 14.0
    wide = 520.0 / len(shown)
    body = [text(left, 46, "token →", font_size=13, fill=MUTED)]
    for row, channel in enumerate(varied.tolist()):
        y = top + tall * row
        label = {"font_size": 10, "fill": MUTED, "text_anchor": "end"}
        body.append(text(left - 5, y + 11, str(channel), **label))
        for place, step in enumerate(delta[:, channel].tolist()):
            words = hover(f"{readable(shown[place])}, channel {channel}: Δ = {number(step)}")
            share = (math.log10(max(step, 1e-9)) - _LOW) / (_HIGH - _LOW)
            box = {"x": left + wide * place, "y": y, "width": wide, "height": tall}
            body.append(
                element("rect", words, **box, fill=viridis(share), data_delta=f"{step:.5f}")
            )
    bottom = top + tall * len(varied)
    body += _letters(shown, left, wide, bottom + 16)
    frame = {"x": left + wide * (token - 1), "y": top, "width": wide, "height": bottom - top}
    body.append(element("rect", **frame, fill="none", stroke=INK, stroke_width=2))
    for step in range(9):
        share = step / 8
        box = {"x": left + 22 * step, "y": bottom + 30, "width": 22, "height": 10}
        body.append(element("rect", **box, fill=viridis(share)))
    key = "Δ from 0.001 (dark) to 1 (bright), logarithmic"
    body.append(text(left + 206, bottom + 39, key, font_size=11, fill=MUTED))
    means = delta[:, varied].mean(dim=1)
    most = int(means.argmax())
    told = (
        f"Step size Δ by channel and token. In these {len(varied)} channels the mean Δ is largest, "
        f"{number(float(means[most]))}, at token {most + 1}, {readable(shown[most])}."
    )
    return panel("steps", 580.0, bottom + 52, "Δ: the channels that vary most", told, *body)


def _bars(shown: str, kept: Tensor, layer: int, token: int) -> str:
    left, base, tall = 44.0, 160.0, 100.0
    wide = 520.0 / len(shown)
    body = []
    for share in (0.0, 0.5, 1.0):
        y = base - tall * share
        body.append(element("line", x1=left, x2=left + 520, y1=y, y2=y, stroke=GRID))
        label = {"font_size": 11, "fill": MUTED, "text_anchor": "end"}
        body.append(text(left - 5, y + 4, f"{100 * share:.0f} %", **label))
    for place, share in enumerate(kept.tolist()[:token]):
        words = hover(f"token {place + 1}, {readable(shown[place])}: {100 * share:.1f} % is left")
        high = tall * share
        box = {"x": left + wide * place + 1, "y": base - high, "width": max(wide - 2, 1.0)}
        fill = ROLE["Q"]
        body.append(element("rect", words, **box, height=high, fill=fill, data_left=f"{share:.4f}"))
    body += _letters(shown, left, wide, base + 16)
    half = sum(share >= 0.5 for share in kept.tolist()[:token])
    told = f"{half} of the {token} tokens read have half or more of what they wrote left."
    body.append(text(12, 46, told, font_size=13))
    label = f"What layer {layer + 1} has left of each token after token {token}"
    return panel("left", 580.0, 192.0, label, told, *body)


def _letters(shown: str, left: float, wide: float, y: float) -> list[str]:
    style = {"font_size": 12, "text_anchor": "middle"}
    return [
        text(left + wide * (place + 0.5), y, readable(letter), **style)
        for place, letter in enumerate(shown)
    ]
