"""Chapter 01's first picture: change one token, and see how far four networks feel it.

The networks learned the copy task (:mod:`attend.data.knock`). A strip a network: units × time, lit
by how much each state differs once the token is another; and a lamp, whether the answer is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import ipywidgets
import numpy as np
from attend_solutions import recurrence

from attend.data import knock as data
from attend.theme import INK, MUTED, ROLE, UNSCALED
from attend.widgets.kit.learner import ask
from attend.widgets.kit.svg import element, hover, panel, text, viridis
from attend.widgets.kit.view import View, note

STEPS = {"plain": "rnn_step", "plain, orthogonal": "rnn_step", "GRU": "gru_cell"}
STEPS |= {"LSTM": "lstm_cell"}
UNITS, OTHERS, PLACES = 14, 100, data.LAG + 1
"""Rows of a strip: the units that move most. Sequences that are counted. Places to change."""
FAINTEST = 1e-3
"""The difference that is dark."""

SEE = (
    "Each text begins with a letter; at the question mark the network must say which. Bright: this "
    "part of the state differs because one token was changed. A changed letter glows to the end, a "
    "changed digit usually fades."
)
_LEFT, _WIDE, _TALL, _TOP = 150.0, 14.0, 4.0, 78.0


def knock(
    rnn_step: Callable[..., Any] | None = None,
    gru_cell: Callable[..., Any] | None = None,
    lstm_cell: Callable[..., Any] | None = None,
) -> View:
    """Show what four trained networks still know of one token, and let gates be shut.

    Args:
        rnn_step: the learner's; without it the course's.
        gru_cell: likewise.
        lstm_cell: likewise.
    """
    given = {"rnn_step": rnn_step, "gru_cell": gru_cell, "lstm_cell": lstm_cell}
    steps = {name: own or getattr(recurrence, name) for name, own in given.items()}
    wide, style = ipywidgets.Layout(width="min(440px, 98%)"), {"description_width": "110px"}
    place = ipywidgets.IntSlider(
        value=1, min=1, max=PLACES, description="changed token", layout=wide, style=style
    )
    gates = ipywidgets.FloatSlider(
        value=0.0,
        min=-6.0,
        max=2.0,
        step=0.5,
        description="gates' bias +",
        readout_format=".1f",
        layout=wide,
        style=style,
    )
    text_number = ipywidgets.IntSlider(
        value=1, min=1, max=12, description="text", layout=wide, style=style
    )
    controls = [place, gates, text_number]
    view = View(
        "knock",
        SEE,
        controls,
        lambda: draw(int(place.value), float(gates.value), int(text_number.value), steps),
    )
    for control in controls:
        control.observe(view.refresh, names="value")
    return view


def draw(place: int, shift: float, number: int, steps: dict[str, Callable[..., Any]]) -> str:
    """Return the panel, with a sentence for each function that is not there yet.

    Raises ValueError for a place outside the text.
    """
    if not 1 <= place <= PLACES:
        raise ValueError(f"knock: the place must be between 1 and {PLACES}; got {place}.")
    tokens, answers = data.sequences(number, OTHERS)
    changed = data.exchanged(tokens[0], place - 1)
    asked = np.concatenate([tokens, changed[None]])  # (OTHERS + 1, T); the first is the text
    right = np.append(answers, answers[0] if place > 1 else changed[0])
    body, said, problems = _texts(tokens[0], changed, place), [], []
    for row, network in enumerate(data.NETWORKS):
        exercise = STEPS[network]
        run = partial(_run, network, shift, steps[exercise])
        n = len(data.weights(network)["w_h"])
        shapes = {"states": (len(asked), asked.shape[1], n), "scores": (len(asked), 8)}
        answer = ask(run, exercise, (asked,), shapes)
        top = _TOP + (_TALL * UNITS + 16) * row
        body.append(text(_LEFT - 8, top + 24, network, text_anchor="end", font_weight=600))
        if answer.problem:
            problems.append(answer.problem)
            continue
        states, scores = answer.arrays
        difference = np.abs(states[-1] - states[0])  # (T, N)
        body += _strip(difference, top, network)
        says, share = scores.argmax(axis=-1), float((scores.argmax(axis=-1) == right)[:-1].mean())
        good = bool(says[-1] == right[-1])
        body += _lamp(good, data.LETTERS[says[-1]], share, top)
        verdict = "right" if good else "wrong"
        said.append(f"{network} says {data.LETTERS[says[-1]]}, {verdict}, {share:.0%} of 100 texts")
    after = f"Token {place} changed from {data.LETTERS[tokens[0][place - 1]]} to "
    after += f"{data.LETTERS[changed[place - 1]]}; right is {data.LETTERS[right[-1]]}. "
    bottom = _TOP + (_TALL * UNITS + 16) * len(data.NETWORKS)
    body += _key(bottom)
    picture = panel(
        "knock",
        734.0,
        bottom + 22,
        "What changes in the state when one token does",
        after + "; ".join(said) + ".",
        *body,
    )
    return "".join(note(problem) for problem in dict.fromkeys(problems)) + picture


def _run(
    network: str, shift: float, step: Callable[..., Any], tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return data.read(network, tokens, step, shift)


def _texts(tokens: np.ndarray, changed: np.ndarray, place: int) -> list[str]:
    """The text, and what stands in it now."""
    body = [text(_LEFT - 8, 66, "text", text_anchor="end", font_size=13, fill=MUTED)]
    for column, token in enumerate(changed):
        hit = column == place - 1
        x = _LEFT + _WIDE * (column + 0.5)
        look = {"text_anchor": "middle", "font_size": 14, "font_weight": 700 if hit else 400}
        if hit:
            was = data.LETTERS[tokens[column]]
            body.append(text(x, 48, was, **look, fill=MUTED, text_decoration="line-through"))
            box = {"x": x - 7, "y": 53, "width": 14, "height": 17, "rx": 3}
            body.append(element("rect", **box, fill="none", stroke=INK, stroke_width=1.5))
        body.append(text(x, 66, data.LETTERS[token], **look))
    return body


def _strip(difference: np.ndarray, top: float, network: str) -> list[str]:
    """The units that move most, those that move longest on top: (T, N) -> rectangles."""
    order = np.argsort(-difference.sum(axis=0))[:UNITS]
    body = []
    for column, states in enumerate(difference[:, order]):
        x = _LEFT + _WIDE * column
        for row, value in enumerate(states):
            box = {"x": x, "y": top + _TALL * row, "width": _WIDE - 0.6, "height": _TALL}
            body.append(element("rect", **box, fill=viridis(_glow(float(value)))))
        largest = float(difference[column].max())
        words = hover(f"{network}, after token {column + 1}: at most {largest:.2g}")
        cover = {"x": x, "y": top, "width": _WIDE, "height": _TALL * UNITS}
        body.append(
            element("rect", words, **cover, fill="transparent", data_largest=f"{largest:.4f}")
        )
    return body


def _glow(difference: float) -> float:
    """Brightness: 0 for FAINTEST or less, 1 for 1 or more, equal steps for equal factors."""
    return 1 - math.log(max(min(difference, 1.0), FAINTEST)) / math.log(FAINTEST)


def _lamp(good: bool, says: str, share: float, top: float) -> list[str]:
    """Whether the answer to the changed text is right, by colour, sign and word."""
    x, colour = _LEFT + _WIDE * (data.LAG + 2) + 16, ROLE["V"] if good else UNSCALED
    return [
        element("circle", cx=x, cy=top + 16, r=8.0, fill=colour, data_right=int(good)),
        text(x + 14, top + 21, f"“{says}” {'✓ right' if good else '✗ wrong'}", font_size=13),
        text(x - 8, top + 42, f"{share:.0%} of 100", font_size=12, fill=MUTED),
    ]


def _key(bottom: float) -> list[str]:
    cells = [
        element("rect", x=_LEFT + 14 * i, y=bottom, width=14, height=9, fill=viridis(i / 8))
        for i in range(9)
    ]
    words = "difference of a unit: 0.001 or less (dark) to 1 or more (bright), log scale"
    return [*cells, text(_LEFT + 134, bottom + 9, words, font_size=11, fill=MUTED)]
