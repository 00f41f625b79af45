"""The cheat: a character model is trained under the mask that one paints; what does it write?

A click on a cell of the weights shows or hides its whole diagonal, one distance between query and
key, and the model is trained anew. With a look one letter ahead the loss collapses, and so does
what it writes, since there is nothing ahead of a letter that is not written yet.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import traitlets

from attend.data import number_words as data
from attend.theme import INK, MUTED, PAPER, SHADE, UNSCALED
from attend.widgets.kit.learner import ask
from attend.widgets.kit.live import Live, sentence
from attend.widgets.kit.svg import beside, element, hover, panel, readable, text, viridis
from attend.widgets.kit.view import note

EXERCISE = "self_attention"
SAMPLE = "sixty-one two hundred"[: data.PLACES]
AHEAD = data.PLACES - data.GUESSES
PAST = tuple(range(1 - data.GUESSES, 1))
LINES = 5
CELL, LEFT, TOP, BAR, MOST_BITS = 20.0, 46.0, 74.0, 130.0, 2.5
MONO = "ui-monospace, 'DejaVu Sans Mono', monospace"

SEE = (
    "Each row guesses the next letter from the letters it may see. Click the first cell to the "
    "right of the staircase: every row may now see one letter ahead, and the model is trained "
    "anew, which takes about a second. Compare the loss with what it writes."
)


@dataclass(frozen=True)
class Reading:
    """What was measured after training under one mask.

    Attributes:
        bits: loss at each place, under the mask it was trained with, (GUESSES,).
        alone: the same, with nothing ahead, as when it writes.
        weights: on SAMPLE, (PLACES, PLACES).
        lines: what it wrote.
    """

    bits: np.ndarray
    alone: np.ndarray
    weights: np.ndarray
    lines: tuple[str, ...]


class TheCheat(Live, module=__file__):
    """The widget: which diagonals are shown, and what to say of the model trained with them."""

    offsets = traitlets.List(list(PAST)).tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)
    ahead = traitlets.Int(AHEAD).tag(sync=True)
    past = traitlets.List(list(PAST)).tag(sync=True)

    def static(self) -> str:
        """Both pictures, without and with a look ahead, for a page that nobody can click."""
        if not self.both:
            return super().static()
        return f'<div class="attend-{self.name}">{sentence(self.see)}{self.both}</div>'

    both = ""


def the_cheat(attention: Callable[..., Any] | None = None) -> TheCheat:
    """Train a character model under a mask whose diagonals can be clicked, and let it write.

    `attention(x, w_q, w_k, w_v, mask) -> (output, weights)` is the learner's `self_attention`;
    without one the widget has its own. Mouse: click a cell. Keys: the slider chooses a distance
    between key and query, the button beside it shows or hides that diagonal. Raises ValueError
    when `attention` is not a function.
    """
    if attention is not None and not callable(attention):
        raise ValueError(
            f"the_cheat: attention must be your function {EXERCISE}, or nothing; got"
            f" {type(attention).__name__}. Pass the function itself, without parentheses."
        )
    seen: dict[frozenset[int], tuple[str, str]] = {}

    def shown(offsets: Sequence[int]) -> tuple[str, str]:
        key = frozenset(offsets)
        if key not in seen:
            found = measure(key, attention)
            picture = note(found) if isinstance(found, str) else draw(key, found)
            seen[key] = picture, found if isinstance(found, str) else words(key, found)
        return seen[key]

    widget = TheCheat(see=SEE)
    widget.picture, widget.said = shown(PAST)
    widget.both = widget.picture + shown((*PAST, 1))[0]

    def follow(change: dict[str, Any]) -> None:
        widget.picture, widget.said = shown(change["new"])

    widget.observe(follow, names="offsets")
    return widget


def measure(offsets: frozenset[int], attention: Callable[..., Any] | None = None) -> Reading | str:
    """Train under the mask of `offsets`; or say in a sentence why that did not go."""
    mask = data.diagonals(offsets)
    if attention is not None:
        x = np.random.default_rng(0).standard_normal((2, data.PLACES, data.WIDTH))
        shapes = {"an output": x.shape, "weights": (2, data.PLACES, data.PLACES)}
        matrix = np.eye(data.WIDTH)
        answer = ask(attention, EXERCISE, (x, matrix, matrix, matrix, mask), shapes)
        if answer.problem:
            return answer.problem
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = data.train(attention or data.plain_attention, mask)
            return Reading(
                data.bits(model),
                data.bits(model, mask & data.causal()),
                data.weights(model, SAMPLE),
                tuple(data.write(model, lines=LINES)),
            )
    except Exception as error:  # a learner's function may raise anything: report it as words
        told = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
        return f"Training stopped with {told}. Run check({EXERCISE}) to see what to fix."


def words(offsets: frozenset[int], found: Reading) -> str:
    """What the status line says of one model."""
    ahead = sorted(o for o in offsets if o > 0)
    sees = f"It sees {' and '.join(map(str, ahead))} ahead" if ahead else "It sees nothing ahead"
    return (
        f"{sees}. Loss as trained: {_bits(found.bits.mean())} bits a letter; with nothing ahead, "
        f"as when it writes: {_bits(found.alone.mean())}. Of the words it wrote here, "
        f"{data.real_words(list(found.lines)):.0%} are words of numbers."
    )


def draw(offsets: frozenset[int], found: Reading) -> str:
    """Return both panels: weights with the loss of each row, and what the model writes."""
    told = words(offsets, found)
    return beside(_table(offsets, found, told), _written(found, told), widest="1040px")


def _table(offsets: frozenset[int], found: Reading, told: str) -> str:
    x_bars = LEFT + CELL * data.PLACES + 30
    body = [
        text(LEFT, 46, "letters it may see →", font_size=12, fill=MUTED),
        text(x_bars, 46, "loss (bits a letter)", font_size=12, fill=MUTED),
    ]
    for j, letter in enumerate(SAMPLE):
        body.append(_letter(LEFT + (j + 0.5) * CELL, TOP - 8, letter))
    for i in range(data.GUESSES):
        y = TOP + i * CELL
        body.append(_letter(LEFT - 14, y + 15, SAMPLE[i]))
        for j in range(min(i + AHEAD + 1, data.PLACES)):
            body.append(_cell(i, j, offsets, float(found.weights[i, j])))
        wide = BAR * min(float(found.bits[i]) / MOST_BITS, 1.0)
        target = f"after “{SAMPLE[: i + 1]}”: {_bits(found.bits[i])} bits"
        style = {"height": CELL - 6, "fill": UNSCALED}
        body.append(element("rect", hover(target), x=x_bars, y=y + 3, width=wide, **style))
        body.append(text(x_bars + wide + 5, y + 15, _bits(found.bits[i]), font_size=12))
    bottom = TOP + CELL * data.GUESSES
    mean = f"mean: {_bits(found.bits.mean())} bits"
    body.append(text(x_bars, bottom + 20, mean, font_size=14, font_weight=700))
    body.append(text(LEFT, bottom + 20, "grey: hidden · colour: weight, dark 0 to bright 1",
                     font_size=12, fill=MUTED))  # fmt: skip
    return panel(
        "weights", x_bars + BAR + 46, bottom + 34, "What each letter may see, and its loss", told,
        *body,
    )  # fmt: skip


def _letter(x: float, y: float, letter: str) -> str:
    return text(x, y, readable(letter), text_anchor="middle", font_family=MONO, font_size=14)


def _cell(i: int, j: int, offsets: frozenset[int], weight: float) -> str:
    offset = j - i
    seen = offset in offsets
    where = f"{abs(offset)} {'ahead' if offset > 0 else 'back'}" if offset else "itself"
    told = f"{where}: weight {weight:.2f}" if seen else f"{where}: hidden"
    return element(
        "rect",
        hover(f"{told}; click to {'hide' if seen else 'show'} this diagonal"),
        x=LEFT + j * CELL,
        y=TOP + i * CELL,
        width=CELL,
        height=CELL,
        fill=viridis(weight) if seen else SHADE,
        stroke=PAPER,
        stroke_width=1,
        data_offset=offset,
        cursor="pointer",
    )


def _written(found: Reading, told: str) -> str:
    body = [text(12, 46, "underlined: no word of a number", font_size=12, fill=MUTED)]
    for number, line in enumerate(found.lines):
        body.append(_line(12, 76 + 26 * number, line))
    y = 76 + 26 * LINES + 14
    for label, bits in (("as trained", found.bits), ("with nothing ahead", found.alone)):
        body.append(text(12, y, f"loss {label}:", font_size=13, fill=MUTED))
        body.append(text(176, y, f"{_bits(bits.mean())} bits a letter", font_weight=700))
        y += 26
    return panel("written", 400, 262, "What it writes, letter by letter", told, *body)


def _line(x: float, y: float, line: str) -> str:
    """One written line; words that are none are underlined, but not what is cut at the end."""
    parts = re.split("([ -])", line)
    spans = []
    for place, part in enumerate(parts):
        cut = place == len(parts) - 1 and any(word.startswith(part) for word in data.WORDS)
        odd = part not in data.WORDS and part not in ("", " ", "-") and not cut
        style = {"text_decoration": "underline", "fill": UNSCALED} if odd else {"fill": INK}
        spans.append(element("tspan", escape(part), **style) if part else "")
    style = {"font_size": 13, "font_family": MONO, "style": "white-space: pre"}
    return element("text", *spans, x=x, y=y, **style)


def _bits(value: float) -> str:
    return f"{value:.2f}" if value >= 0.005 else "0.00"
