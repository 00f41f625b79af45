"""The matrix memory of chapter 15: letters written into one matrix, and what is read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import INK, MUTED
from attend.widgets.kit.learner import Answer, ask
from attend.widgets.kit.svg import beside, element, hover, number, panel, text, viridis
from attend.widgets.kit.view import View, note

WIDTH, PIXELS = 16, 25
"""Numbers in a key, and in a value: a letter of 5 × 5 pixels."""

FONT = {
    "A": ".###. #...# ##### #...# #...#",
    "B": "####. #...# ####. #...# ####.",
    "C": ".#### #.... #.... #.... .####",
    "D": "####. #...# #...# #...# ####.",
    "E": "##### #.... ####. #.... #####",
    "F": "##### #.... ####. #.... #....",
    "G": ".#### #.... #..## #...# .####",
    "H": "#...# #...# ##### #...# #...#",
    "I": "##### ..#.. ..#.. ..#.. #####",
    "J": "..### ...#. ...#. #..#. .##..",
    "K": "#..#. #.#.. ##... #.#.. #..#.",
    "L": "#.... #.... #.... #.... #####",
    "M": "#...# ##.## #.#.# #...# #...#",
    "N": "#...# ##..# #.#.# #..## #...#",
    "O": ".###. #...# #...# #...# .###.",
    "P": "####. #...# ####. #.... #....",
    "Q": ".###. #...# #.#.# #..#. .##.#",
    "R": "####. #...# ####. #..#. #...#",
    "S": ".#### #.... .###. ....# ####.",
    "T": "##### ..#.. ..#.. ..#.. ..#..",
    "U": "#...# #...# #...# #...# .###.",
    "V": "#...# #...# #...# .#.#. ..#..",
    "W": "#...# #...# #.#.# ##.## #...#",
    "X": "#...# .#.#. ..#.. .#.#. #...#",
}
LETTERS = "".join(FONT)
RULES = {"sum": "add every pair", "delta": "delta rule"}
KEYS = {"random": "random directions", "orthogonal": "orthogonal, the first again from 17 on"}
SEE = (
    "Each pair is a key and a letter. The memory adds them all up in one matrix; reading at a key "
    "gives its letter, plus a little of all others. Write more and more pairs."
)
SEE_BOTH = (
    "With orthogonal keys the 17th letter comes under the first key again: adding gives both "
    "letters on top of each other, the delta rule the new one."
)


def values() -> np.ndarray:
    """The letters, −1 for paper and 1 for ink: (24, 25)."""
    return np.array([[2.0 * (p == "#") - 1 for p in FONT[x] if p != " "] for x in LETTERS])


def keys(kind: str) -> np.ndarray:
    """A key for each letter, of norm 1: (24, 16). Orthogonal ones repeat after 16."""
    drawn = np.random.default_rng(15).standard_normal((len(LETTERS), WIDTH))
    if kind == "orthogonal":
        turned = np.linalg.qr(drawn[:WIDTH])[0]
        return turned[np.arange(len(LETTERS)) % WIDTH]
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def written(
    pairs: int,
    kind: str,
    rule: str,
    recurrent_form: Callable[..., Any] | None,
    delta_rule_update: Callable[..., Any] | None,
) -> Answer:
    """The memory (16, 25) after ``pairs`` letters, by the learner's function if there is one."""
    k, v = keys(kind)[:pairs], values()[:pairs]
    shape = {"memory": (WIDTH, PIXELS)}
    if rule == "delta":
        assert delta_rule_update is not None

        def one_by_one(k: np.ndarray, v: np.ndarray) -> Any:
            state = np.zeros((WIDTH, PIXELS))
            for key, value in zip(k, v, strict=True):
                state = delta_rule_update(state, key, value)
            return state

        return ask(one_by_one, "delta_rule_update", (k, v), shape)
    if recurrent_form is None:
        return Answer((k.T @ v,))
    return ask(lambda k, v: recurrent_form(k, k, v)[1], "recurrent_form", (k, v), shape)


def matrix_memory(
    recurrent_form: Callable[..., Any] | None = None,
    delta_rule_update: Callable[..., Any] | None = None,
) -> View:
    """Write letters into a memory of 16 × 25 numbers, and read them all back.

    Args:
        recurrent_form: the learner's; without it the sum is made here.
        delta_rule_update: the learner's; with it the rule can be chosen.
    """
    wide = ipywidgets.Layout(width="min(440px, 98%)")
    style = {"description_width": "84px"}
    pairs = ipywidgets.IntSlider(
        value=4, min=1, max=len(LETTERS), description="pairs", layout=wide, style=style
    )
    kind = ipywidgets.Dropdown(
        options=[(said, name) for name, said in KEYS.items()],
        description="keys",
        layout=wide,
        style=style,
    )
    controls: list[Any] = [pairs, kind]
    rule = None
    if delta_rule_update is not None:
        rule = ipywidgets.Dropdown(
            options=[(said, name) for name, said in RULES.items()],
            description="rule",
            layout=wide,
            style=style,
        )
        controls.append(rule)
        pairs.value, kind.value = 20, "orthogonal"

    def picture() -> str:
        chosen = "sum" if rule is None else str(rule.value)
        named = str(kind.value)
        return draw(
            written(pairs.value, named, chosen, recurrent_form, delta_rule_update),
            pairs.value,
            named,
            chosen,
        )

    see = SEE if delta_rule_update is None else SEE_BOTH
    view = View("matrix-memory", see, controls, picture)
    for control in controls:
        control.observe(view.refresh, names="value")
    return view


def draw(answer: Answer, pairs: int, kind: str, rule: str) -> str:
    """Return both panels, or the sentence that stands in their place."""
    if answer.problem:
        return note(answer.problem)
    above = note(answer.remark) if answer.remark else ""
    (memory,) = answer.arrays
    return above + beside(_matrix(memory, pairs, rule), _letters(memory, pairs, kind))


def _matrix(memory: np.ndarray, pairs: int, rule: str) -> str:
    left, top, cell = 40.0, 60.0, 15.0
    most = float(np.abs(memory).max()) or 1.0
    body = [
        text(left, 48, "pixel of the letter →", font_size=12, fill=MUTED),
        text(12, top + 12, "key", font_size=12, fill=MUTED),
        text(16, top + 28, "↓", font_size=12, fill=MUTED),
    ]
    for (i, j), value in np.ndenumerate(memory):
        words = hover(f"row {i + 1}, column {j + 1}: {number(value)}")
        box = {"x": left + cell * j, "y": top + cell * i, "width": cell, "height": cell}
        fill = viridis((value / most + 1) / 2)
        body.append(element("rect", words, **box, fill=fill, data_value=f"{value:.4f}"))
    bottom = top + cell * WIDTH
    key = f"from −{number(most)} (dark) to {number(most)} (bright)"
    body.append(text(left, bottom + 20, key, font_size=12, fill=MUTED))
    count = f"{pairs} pair{'s' * (pairs > 1)}"
    told = f"{WIDTH} × {PIXELS} numbers after {count}, whatever the number of pairs. Rule: "
    label = f"The memory after {count}"
    return panel("memory", 430.0, bottom + 32, label, f"{told}{RULES[rule]}.", *body)


def _letters(memory: np.ndarray, pairs: int, kind: str) -> str:
    k, v = keys(kind)[:pairs], values()[:pairs]
    asked = [  # what a key was given last is what it should answer
        i for i in range(pairs) if kind == "random" or i + WIDTH >= pairs
    ]
    read = k @ memory
    errors = ((read - v) ** 2).mean(axis=1)  # values are ±1, so this is relative to ‖v‖²
    errors[errors < 1e-12] = 0.0  # rounding
    nearest = (read @ values()[:pairs].T).argmax(axis=1)
    left, top, cell, wide, tall = 16.0, 92.0, 11.0, 70.0, 104.0
    body = []
    for place, i in enumerate(asked):
        x, y = left + wide * (place % 8), top + tall * (place // 8)
        right = nearest[i] == i
        label = f"{LETTERS[i]} {'✓' if right else '✗ ' + LETTERS[nearest[i]]}"
        body.append(text(x, y - 6, label, font_size=14, fill=INK, font_weight=600))
        marks = [hover(f"{LETTERS[i]}: error {number(errors[i])}, read as {LETTERS[nearest[i]]}")]
        for pixel, value in enumerate(read[i]):
            box = {"x": x + cell * (pixel % 5), "y": y + cell * (pixel // 5)}
            fill = viridis((value + 1) / 2)
            marks.append(element("rect", **box, width=cell, height=cell, fill=fill))
        body.append(element("g", *marks, data_error=f"{errors[i]:.4f}"))
        body.append(text(x, y + 5 * cell + 14, number(errors[i]), font_size=11, fill=MUTED))
    found = sum(int(nearest[i] == i) for i in asked)
    mean = float(errors[asked].mean())
    told = f"Mean error {number(mean)} of a letter's own size; {found} of {len(asked)} are still"
    told += " nearest to what was written."
    body.append(text(12, 46, told, font_size=13))
    rows = -(-len(asked) // 8)
    return panel("letters", 580.0, top + tall * rows - 10, "What is read back", told, *body)
