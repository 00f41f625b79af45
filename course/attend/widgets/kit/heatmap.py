"""A heat map with its numbers: the picture both attention widgets share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attend.theme import INK, MUTED, PAPER, SHADE
from attend.widgets.kit.svg import element, hover, ink_on, number, panel, readable, text, viridis

HIDDEN = SHADE  # a cell that a mask hides: no colour of the scale
_LINE = 15.0  # the room a label needs, in units of the panel


@dataclass(frozen=True)
class _Layout:
    """Where the cells are: `left` and `top` of the first, and the size of each."""

    left: float
    top: float
    cell: float
    tall: float
    slanted: bool

    @classmethod
    def fit(cls, rows: Sequence[str], columns: Sequence[str], width: float) -> _Layout:
        left = max(24 + 8.2 * max(len(readable(token)) for token in rows), 74.0)
        longest = 9.0 * max(len(readable(token)) for token in columns)
        cell = min((width - left - 12) / len(columns), 58.0)
        slanted = len(columns) > 1 and longest > cell
        if slanted:  # the last label leans out of the matrix
            cell = min((width - left - 12 - 0.6 * longest) / len(columns), 58.0)
        return cls(left, 76 + (0.75 * longest if slanted else 0), cell, min(cell, 46.0), slanted)


def heat_map(
    name: str,
    label: str,
    description: str,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    chosen: int,
    low: float = 0.0,
    high: float = 1.0,
    axes: tuple[str, str] = ("query", "key"),
    width: float = 470.0,
    hidden: np.ndarray | None = None,
) -> str:
    """Draw `values` in viridis from `low` to `high`, and frame the row `chosen`.

    Cells wide enough hold their number; otherwise a colour key stands below. Every cell tells its
    row, column and value on hover. Where `hidden` is True the cell is grey and says so; a value
    other than 0 still shows.

    Shapes: values (len(rows), len(columns)); hidden the same, boolean.
    """
    at = _Layout.fit(rows, columns, width)
    numbered = at.cell >= 42
    body = [
        text(at.left, 48, f"{axes[1]} →", font_size=13, fill=MUTED),
        text(
            at.left - 10, at.top - 10, f"{axes[0]} ↓", font_size=13, fill=MUTED, text_anchor="end"
        ),
        _names(at, rows, columns, chosen),
    ]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            value = float(values[i, j])
            colour = viridis((value - low) / (high - low) if high > low else 0.5)
            place = f"{axes[0]} {readable(row, 30)}, {axes[1]} {readable(column, 30)}"
            covered = hidden is not None and bool(hidden[i, j])
            colour = HIDDEN if covered else colour
            words = f"{place}: {'hidden, ' if covered else ''}{value:.4g}"
            body.append(_cell(at, i, j, colour, words))
            if numbered and not (covered and value == 0):
                x, y = at.left + (j + 0.5) * at.cell, at.top + (i + 0.5) * at.tall + 5
                style = {"text_anchor": "middle", "pointer_events": "none"}
                body.append(
                    text(x, y, _short(value), fill=INK if covered else ink_on(colour), **style)
                )
    body.append(
        element(
            "rect",
            x=at.left,
            y=at.top + chosen * at.tall,
            width=at.cell * len(columns),
            height=at.tall,
            fill="none",
            stroke=INK if at.cell > 14 else PAPER,
            stroke_width=3 if at.cell > 14 else 1.5,
            pointer_events="none",
            data_chosen=chosen,
        )
    )
    bottom = at.top + at.tall * len(rows)
    if not numbered:
        body.append(_colour_key(at.left, bottom + 14, low, high))
    height = bottom + (14 if numbered else 52)
    return panel(name, width, height, label, description, *body)


def _short(value: float) -> str:
    """Return `number(value)`, or where that is too wide for a cell one digit: 9e−3."""
    words = number(value)
    if len(words) <= 6:
        return words
    digit, _, power = f"{value:.0e}".partition("e")
    return f"{digit}e{int(power)}".replace("-", "−")


def _names(at: _Layout, rows: Sequence[str], columns: Sequence[str], chosen: int) -> str:
    """Write as many names of rows and columns as there is room for, and always the chosen row's."""
    drawn = []
    for j in range(0, len(columns), 1 + int(_LINE // at.cell)):
        x, y = at.left + (j + 0.5) * at.cell, at.top - 10
        style = {"text_anchor": "middle"}
        if at.slanted:
            style = {"transform": f"rotate(-50 {x:.1f} {y:.1f})"}
        drawn.append(text(x, y, readable(columns[j]), **style))
    for i in range(len(rows)):
        near = 0 < abs(i - chosen) * at.tall < _LINE
        if i != chosen and (i % (1 + int(_LINE // at.tall)) or near):
            continue
        y = at.top + (i + 0.5) * at.tall + 5
        weight = 700 if i == chosen else 400
        word = readable(rows[i])
        drawn.append(text(at.left - 10, y, word, text_anchor="end", font_weight=weight))
        if i == chosen:
            drawn.append(text(5, y - 1, "▶", font_size=12))
    return "".join(drawn)


def _cell(at: _Layout, i: int, j: int, colour: str, words: str) -> str:
    return element(
        "rect",
        hover(words),
        x=at.left + j * at.cell,
        y=at.top + i * at.tall,
        width=at.cell,
        height=at.tall,
        fill=colour,
        stroke=PAPER,
        stroke_width=1.0 if at.cell > 14 else 0.3,
    )


def _colour_key(x: float, y: float, low: float, high: float) -> str:
    """Draw what the colours mean, from low to high."""
    steps, wide = 24, 7.0
    strip = "".join(
        element("rect", x=x + i * wide, y=y, width=wide + 0.5, height=12, fill=viridis(i / 23))
        for i in range(steps)
    )
    ends = text(x, y + 27, number(low), font_size=12)
    return (
        strip + ends + text(x + steps * wide, y + 27, number(high), font_size=12, text_anchor="end")
    )
