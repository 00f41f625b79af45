"""The head explorer: where one token looks in every head, by the learner's own attention."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.charts import DASHES, MAX_MARKS
from attend.theme import GROUPS, INK, MUTED
from attend.widgets.kit.heatmap import heat_map
from attend.widgets.kit.svg import beside, element, hover, panel, readable, text
from attend.widgets.kit.view import View, note

SEE = (
    "Each arc is one head's weight from the chosen token to another, thicker for more; compare the"
    " rows of the second picture: do the heads look at different places?"
)
MAX_HEADS = 16
FAINT = 0.02  # weights below this are not drawn as arcs


@dataclass(frozen=True)
class HeadsState:
    """Which example, query and head are chosen (all counted from 0)."""

    example: int = 0
    query: int = 0
    head: int = 0


def head_explorer(
    attention: Callable[..., Any],
    x: Any,
    tokens: Sequence[Sequence[str]],
    *,
    marks: Mapping[str, Any] | None = None,
    exercise: str = "MultiHeadAttention",
) -> View:
    """Show the weights of every head of `attention` on examples that can be chosen.

    `attention(x) -> (output, weights)` is the learner's module, called with one example at a time,
    (1, T, C), whenever another example is chosen; weights have the shape (1, H, T, T). `marks`
    (optional) says for each query where it would be right to look: name → places (N, T).

    Choose example, query and head; sliders take the arrow keys. When the module is not started or
    returns something else, one sentence naming `exercise` takes the picture's place.

    Shapes: x (N, T, C), a tensor; tokens N lists of T words. Raises ValueError for anything else.
    """
    rows, places = validate(attention, x, tokens, marks or {})
    first = _weights(attention, x[:1], exercise)
    heads = 1 if isinstance(first, str) else len(first)
    layout = ipywidgets.Layout(width="min(330px, 98%)")
    style = {"description_width": "70px"}
    example = ipywidgets.Dropdown(
        options=[(f"{n + 1} of {len(rows)}", n) for n in range(len(rows))],
        description="example",
        layout=layout,
        style=style,
    )
    query = ipywidgets.IntSlider(
        value=1, min=1, max=len(rows[0]), description="query", layout=layout, style=style
    )
    head = ipywidgets.IntSlider(
        value=1, min=1, max=heads, description="head", layout=layout, style=style
    )
    bar = ipywidgets.HBox([example, query, head], layout=ipywidgets.Layout(flex_flow="row wrap"))

    def picture() -> str:
        state = HeadsState(example.index or 0, query.value - 1, head.value - 1)
        here = slice(state.example, state.example + 1)
        weights = _weights(attention, x[here], exercise)
        if isinstance(weights, str):
            return note(weights)
        right = {name: place[state.example] for name, place in places.items()}
        return draw(state, rows[state.example], weights, right)

    view = View("head-explorer", SEE, [bar], picture)
    for control in (example, query, head):
        control.observe(view.refresh, names="value")
    return view


def validate(
    attention: object, x: Any, tokens: Sequence[Sequence[str]], marks: Mapping[str, Any]
) -> tuple[list[list[str]], dict[str, np.ndarray]]:
    """Return tokens and marks as lists and arrays; raise ValueError saying what is wrong."""
    if not callable(attention):
        raise ValueError(
            "head_explorer: attention must be your module; got"
            f" {type(attention).__name__}. Build it first: MultiHeadAttention(width, heads)."
        )
    shape = tuple(getattr(x, "shape", ()))
    rows = [[str(token) for token in row] for row in tokens]
    if len(shape) != 3 or 0 in shape or not hasattr(x, "detach"):
        raise ValueError(f"head_explorer: x must be a tensor (N, T, C); got shape {shape}.")
    if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
        raise ValueError(
            f"head_explorer: x of shape {shape} needs {shape[0]} lists of {shape[1]} tokens; got"
            f" {[len(row) for row in rows]}."
        )
    if shape[1] ** 2 > MAX_MARKS // 4:
        raise ValueError(f"head_explorer: {shape[1]} tokens are too many to draw; pass fewer.")
    places = {}
    for name, given in marks.items():
        place = np.asarray(given)
        if place.shape != shape[:2]:
            raise ValueError(
                f"head_explorer: marks {name!r} must have shape {shape[:2]}, a place for each"
                f" query; got {place.shape}."
            )
        places[name] = place
    return rows, places


def _weights(attention: Callable[..., Any], x: Any, exercise: str) -> np.ndarray | str:
    """The weights (H, T, T) of one example, or the sentence to show in their place."""
    advice = f"Run check({exercise}) to see what to fix."
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")
        try:
            result = attention(x.clone())
        except NotImplementedError:
            return (
                f"This picture waits for the exercise {exercise}, which is not started yet: write"
                " it, then run this cell again."
            )
        except Exception as error:  # a learner's module may raise anything: report it as words
            words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
            return f"Your {exercise} stopped with {words}. {advice}"
    tokens = x.shape[1]
    weights: Any = result[1] if isinstance(result, tuple | list) and len(result) == 2 else None
    shape = tuple(getattr(weights, "shape", ()))
    if not hasattr(weights, "detach") or len(shape) != 4 or shape[2:] != (tokens, tokens):
        what = f"shape {shape}" if shape else "no shape"
        return (
            f"Your {exercise} should return output and weights (1, H, {tokens}, {tokens}); the"
            f" weights have {what}. {advice}"
        )
    found = weights.detach().numpy().astype(float)[0]
    if len(found) > MAX_HEADS:
        return f"{len(found)} heads are more than the {MAX_HEADS} that can be drawn legibly."
    if not np.isfinite(found).all():
        return f"Your {exercise} returned weights with NaN or infinity. {advice}"
    if found.min() < -1e-6 or found.max() > 1 + 1e-6:
        return f"Your {exercise} returned weights outside 0 … 1. {advice}"
    return found


def draw(
    state: HeadsState,
    tokens: Sequence[str],
    weights: np.ndarray,
    marks: Mapping[str, np.ndarray] | None = None,
) -> str:
    """Return arcs, one row of weights for each head, and the chosen head's matrix.

    Shapes: weights (H, T, T); marks name → (T,), where each query should look.
    """
    head = min(state.head, len(weights) - 1)
    mine = weights[:, state.query]  # (H, T)
    name = readable(tokens[state.query], 20)
    best = int(mine[head].argmax())
    told = (
        f"In head {head + 1}, {name} gives its largest weight, {mine[head, best]:.2f}, to"
        f" {readable(tokens[best], 20)}."
    )
    right = {word: int(place[state.query]) for word, place in (marks or {}).items()}
    titles = [str(h + 1) for h in range(len(weights))]
    rows = heat_map(
        "heads",
        f"Where “{readable(name, 12)}” looks in each head",
        told,
        mine,
        titles,
        tokens,
        chosen=head,
        axes=("head", "key"),
    )
    matrix = heat_map(
        "matrix",
        f"All queries in head {head + 1}",
        told,
        weights[head],
        tokens,
        tokens,
        chosen=state.query,
    )
    arcs = _arcs(state.query, head, tokens, mine, right, told)
    return beside(arcs) + beside(rows, matrix)


def _arcs(
    query: int,
    head: int,
    tokens: Sequence[str],
    weights: np.ndarray,
    right: Mapping[str, int],
    told: str,
) -> str:
    """Draw the tokens in a row and an arc for each head and weight; the chosen head in full."""
    width, left, ground = 760.0, 38.0, 216.0
    step = (width - 2 * left) / max(len(tokens) - 1, 1)
    spots = [left + step * i for i in range(len(tokens))]
    body = []
    order = [h for h in range(len(weights)) if h != head] + [head]  # the chosen one on top
    for h in order:
        for key, weight in enumerate(weights[h]):
            if weight >= FAINT:
                words = f"head {h + 1}: {tokens[query]} → {tokens[key]}: {weight:.4f}"
                body.append(
                    _arc(spots[query], spots[key], ground - 14, h, weight, h == head, words)
                )
    for i, token in enumerate(tokens):
        weight = 700 if i == query else 400
        if i == query:
            box = {"x": spots[i] - 32, "y": ground - 14, "width": 64, "height": 30, "rx": 6}
            body.append(
                element(
                    "rect",
                    **box,
                    fill=GROUPS[0],
                    fill_opacity=0.12,
                    stroke=GROUPS[0],
                    stroke_width=2,
                )
            )
        style = {"text_anchor": "middle", "font_weight": weight}
        body.append(text(spots[i], ground + 6, readable(token, 7), **style))
    for line, (word, place) in enumerate(right.items()):
        y = ground + 36 + 18 * line
        body.append(text(spots[place], y, f"▲ {word}", font_size=12, text_anchor="middle"))
    body += _legend(len(weights), head, 48.0)
    label = f"Arcs from “{readable(tokens[query], 12)}”: head {head + 1} in full, others pale"
    height = ground + 28 + 18 * len(right)
    return panel("arcs", width, height, label, told, *body)


def _arc(
    start: float, end: float, ground: float, head: int, weight: float, full: bool, words: str
) -> str:
    """Draw one arc; to the token itself, a loop."""
    style = {
        "fill": "none",
        **_look(head),
        "stroke_width": 0.75 + 8.0 * weight,
        "opacity": 0.85 if full else 0.28,
        "data_head": head + 1,
        "data_weight": f"{weight:.4f}",
    }
    if start == end:
        path = f"M{start - 8:.1f} {ground:.1f}c-34 -52 50 -52 16 0"
    else:
        rise = min(30 + 0.33 * abs(end - start), 128)
        path = f"M{start:.1f} {ground:.1f}C{start:.1f} {ground - 1.33 * rise:.1f}"
        path += f" {end:.1f} {ground - 1.33 * rise:.1f} {end:.1f} {ground:.1f}"
    return element("path", hover(words), d=path, **style)


def _look(head: int) -> dict[str, str]:
    """Return a head's colour and dash; no two of the first 49 heads share both."""
    turn, place = divmod(head, len(GROUPS))
    dash = DASHES[(place + turn) % len(DASHES)]
    return {"stroke": GROUPS[place], "stroke_dasharray": " ".join(map(str, dash))}


def _legend(heads: int, chosen: int, y: float) -> list[str]:
    """Name the heads' colours and dashes, as many as fit."""
    drawn = []
    for h in range(heads):
        x = 14 + 46 * h
        line = {**_look(h), "stroke_width": 3}
        drawn.append(element("line", x1=x, x2=x + 22, y1=y - 4, y2=y - 4, **line))
        weight = 700 if h == chosen else 400
        fill = INK if h == chosen else MUTED
        drawn.append(text(x + 26, y, str(h + 1), font_size=13, fill=fill, font_weight=weight))
    return drawn
