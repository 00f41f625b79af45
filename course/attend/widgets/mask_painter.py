"""The mask painter: edit who may look at whom; your own attention runs on it.

The mask is a table of buttons, 1 for "may look". Beside it stand the weights that the learner's
function gives under this mask, and how far one token's information can travel through layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.widgets.kit.flow import flow, reached
from attend.widgets.kit.heatmap import heat_map
from attend.widgets.kit.learner import ask
from attend.widgets.kit.svg import beside, readable
from attend.widgets.kit.view import View, note

EXERCISE = "self_attention"
MAX_TOKENS, MAX_LAYERS = 8, 6

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""x and the matrices w_q, w_k, w_v."""

MAY, MAY_NOT = "#b7d7ea", "#f1f3f5"  # the grounds of 1 and 0

SEE = (
    "Click a cell of the mask: the weights of that row are shared out anew among its 1s. Then"
    " follow a token in the second picture: one layer takes it to those who see it, each further"
    " layer on to those who see them."
)


@dataclass(frozen=True)
class PainterState:
    """The mask, row by row; the token that is followed (from 0); and through how many layers."""

    mask: tuple[tuple[bool, ...], ...]
    token: int = 0
    layers: int = 3


def preset(name: str, size: int, seed: int = 0) -> np.ndarray:
    """Return a mask (size, size) by name: one of `PRESETS`. `seed` chooses the random one."""
    query, key = np.arange(size)[:, None], np.arange(size)
    padded = max(size // 3, 1)
    if name == "random":
        rng = np.random.default_rng(seed)
        others = rng.permuted(np.broadcast_to(key, (size, size)), axis=1) < min(2, size)
        return others | (query == key)
    masks = {
        "all": np.ones((size, size), dtype=bool),
        "causal": key <= query,
        "window": abs(query - key) <= 1,
        "causal window": (key <= query) & (query - key <= 2),
        "padding left": (key >= padded) & (query >= 0),
        "padding right": (key < size - padded) & (query >= 0),
        "prefix": (key <= query) | (key < padded),
        "two texts": (key <= query) & ((key < size // 2) == (query < size // 2)),
        "self": query == key,
    }
    return masks[name]


PRESETS = {
    "all": "everyone sees everyone",
    "causal": "everyone sees itself and the past",
    "window": "everyone sees itself and its two neighbours",
    "causal window": "everyone sees itself and the two before",
    "random": "everyone sees itself and up to two others; each click draws anew",
    "padding left": "the first third is filling: no one may look at it",
    "padding right": "the last third is filling: no one may look at it",
    "prefix": "everyone sees the first third; beyond that, itself and the past",
    "two texts": "two texts packed in one row: everyone sees itself and the past of its own text",
    "self": "everyone sees only itself",
}


def mask_painter(
    attention: Callable[..., Any],
    tokens: Sequence[str],
    x: Any,
    w_q: Any = None,
    w_k: Any = None,
    w_v: Any = None,
) -> View:
    """Show weights of `attention` and the flow through layers for a mask that can be painted.

    `attention(x, w_q, w_k, w_v, mask) -> (output, weights)` is the learner's; matrices left out
    are the identity. Click a cell of the mask, or reach it with Tab and press Space. The same cell
    is chosen by the sliders "query" and "key" (arrow keys) and turned by the button beside them.

    Shapes: x (T, C), T = len(tokens) ≤ 8; w_q, w_k (C, D); w_v (C, C), since each layer's output
    is the next one's input. Raises ValueError for anything else.
    """
    names, arrays = validate(attention, tokens, x, (w_q, w_k, w_v))
    size, draws = len(names), [0]
    cells = [[_cell(query, key) for key in names] for query in names]
    choices = [(f"{i + 1} · {readable(token, 12)}", i) for i, token in enumerate(names)]
    token = _slider("follow", choices, "the token whose information is followed")
    layers = _slider("layers", [(str(n), n) for n in range(1, MAX_LAYERS + 1)], "how many layers")
    layers.value = PainterState.layers
    query = _slider("query", choices, "the row of the cell to turn")
    key = _slider("key", choices, "the column of the cell to turn")
    turn = ipywidgets.Button(description="turn this cell", layout=ipywidgets.Layout(width="auto"))

    def mask() -> tuple[tuple[bool, ...], ...]:
        return tuple(tuple(cell.description == "1" for cell in row) for row in cells)

    def picture() -> str:
        state = PainterState(mask(), token.index or 0, int(layers.value or 1))
        return draw(state, names, arrays, attention)

    grid = ipywidgets.GridBox(
        [_name("query ↓  key →"), *map(_name, names)]
        + [part for i, row in enumerate(cells) for part in (_name(f"{i + 1} · {names[i]}"), *row)],
        layout=ipywidgets.Layout(
            grid_template_columns=f"104px repeat({size}, 44px)", grid_gap="2px", width="auto"
        ),
    )
    presets = [
        ipywidgets.Button(description=name, tooltip=words, layout=ipywidgets.Layout(width="auto"))
        for name, words in PRESETS.items()
    ]
    wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="center")
    rows = [
        ipywidgets.HBox(presets, layout=wrap),
        grid,
        ipywidgets.HBox([query, key, turn], layout=wrap),
        ipywidgets.HBox([token, layers], layout=wrap),
    ]
    _paint(cells, preset("causal", size))
    view = View("mask-painter", SEE, rows, picture)

    def choose(button: ipywidgets.Button) -> None:
        draws[0] += button.description == "random"
        _paint(cells, preset(button.description, size, draws[0]))
        view.refresh()

    def flip(cell: ipywidgets.Button) -> None:
        _set(cell, cell.description != "1")
        view.refresh()

    for button in presets:
        button.on_click(choose)
    for cell in (cell for row in cells for cell in row):
        cell.on_click(flip)
    turn.on_click(lambda _: flip(cells[query.index or 0][key.index or 0]))
    for slider in (token, layers):
        slider.observe(view.refresh, names="value")
    return view


def _slider(name: str, options: list[tuple[str, int]], tooltip: str) -> ipywidgets.SelectionSlider:
    return ipywidgets.SelectionSlider(
        options=options,
        value=options[0][1],
        description=name,
        tooltip=tooltip,
        layout=ipywidgets.Layout(width="min(330px, 98%)"),
    )


def _name(words: str) -> ipywidgets.Label:
    return ipywidgets.Label(
        readable(words, 14), layout=ipywidgets.Layout(justify_content="center", width="auto")
    )


def _cell(query: str, key: str) -> ipywidgets.Button:
    button = ipywidgets.Button(
        description="0",
        tooltip=f"may {readable(query, 20)} look at {readable(key, 20)}?",
        layout=ipywidgets.Layout(width="44px", height="30px", padding="0", margin="0"),
    )
    button.style.text_color = "#000000"
    _set(button, False)
    return button


def _set(cell: ipywidgets.Button, allowed: bool) -> None:
    """Write 1 or 0 into a cell; whatever already stands there is not sent again."""
    cell.description = "1" if allowed else "0"
    cell.style.button_color = MAY if allowed else MAY_NOT


def _paint(cells: list[list[ipywidgets.Button]], mask: np.ndarray) -> None:
    for row, allowed in zip(cells, mask, strict=True):
        for cell, yes in zip(row, allowed, strict=True):
            _set(cell, bool(yes))


def validate(
    attention: object, tokens: Sequence[str], x: Any, matrices: tuple[Any, Any, Any]
) -> tuple[list[str], Arrays]:
    """Return tokens, and x with the three matrices; raise ValueError saying what is wrong."""
    if not callable(attention):
        raise ValueError(
            f"mask_painter: attention must be your function {EXERCISE}; got"
            f" {type(attention).__name__}. Pass the function itself, without parentheses."
        )
    names = [str(token) for token in tokens]
    array = np.asarray(x, dtype=float)
    if array.ndim != 2 or len(array) != len(names) or 0 in array.shape:
        raise ValueError(
            f"mask_painter: {len(names)} tokens need x of shape ({len(names)}, C), one row per"
            f" token; got {array.shape}."
        )
    if len(names) > MAX_TOKENS:
        raise ValueError(
            f"mask_painter: at most {MAX_TOKENS} tokens can be painted by hand; got {len(names)}."
        )
    width = array.shape[1]
    w_q, w_k, w_v = (np.eye(width) if w is None else np.asarray(w, dtype=float) for w in matrices)
    fits = w_q.ndim == 2 and w_q.shape == w_k.shape and len(w_q) == width
    if not fits or w_v.shape != (width, width):
        raise ValueError(
            f"mask_painter: tokens of width {width} need w_q and w_k of shape ({width}, D) and w_v"
            f" of shape ({width}, {width}); got {w_q.shape}, {w_k.shape}, {w_v.shape}."
        )
    return names, (array, w_q, w_k, w_v)


def draw(
    state: PainterState, tokens: Sequence[str], arrays: Arrays, attention: Callable[..., Any]
) -> str:
    """Return weights and flow for one mask, or one sentence saying why there are none."""
    mask = np.array(state.mask, dtype=bool)
    x, *matrices = arrays
    size, width = x.shape
    shapes = {"an output": (size, width), "weights": (size, size)}
    answer = ask(attention, EXERCISE, (x, *matrices, mask), shapes)
    if answer.problem:
        return note(answer.problem)
    weights = answer.arrays[1]
    remarks = [answer.remark, _leaks(mask, weights, tokens)]
    remarks.append(_measured(state, mask, arrays, attention, shapes, tokens))
    empty = [readable(token) for token, row in zip(tokens, mask, strict=True) if not row.any()]
    if empty and not np.abs(weights[~mask.any(axis=1)]).any():
        remarks.append(f"Nothing to look at, so weights and output are 0: {', '.join(empty)}.")
    seen = int(mask.sum())
    description = f"{seen} of {mask.size} pairs may look; hidden cells are grey and empty."
    numbered = [f"{i + 1} · {readable(token)}" for i, token in enumerate(tokens)]
    panels = [
        heat_map(
            "weights",
            "Weights, by your self_attention",
            description,
            weights,
            numbered,
            tokens,
            chosen=state.token,
            hidden=~mask,
        ),
        flow(mask, state.token, state.layers, numbered),
    ]
    said = " ".join(remark for remark in remarks if remark)
    return (note(said) if said else "") + beside(*panels)


def _leaks(mask: np.ndarray, weights: np.ndarray, tokens: Sequence[str]) -> str:
    """Say that a hidden key has weight, if one has."""
    stray = np.where(mask, 0.0, np.abs(weights))
    if not stray.any():
        return ""
    t, s = (int(i) for i in np.unravel_index(int(stray.argmax()), stray.shape))
    return (
        f"{readable(tokens[t], 20)} gives the weight {weights[t, s]:.2g} to"
        f" {readable(tokens[s], 20)}, which is hidden from it: run check({EXERCISE})."
    )


def _measured(
    state: PainterState,
    mask: np.ndarray,
    arrays: Arrays,
    attention: Callable[..., Any],
    shapes: dict[str, tuple[int, ...]],
    tokens: Sequence[str],
) -> str:
    """Change the followed token, let the function say who notices, and tell what is amiss."""
    x, *matrices = arrays
    changed = x.copy()
    changed[state.token] += np.random.default_rng(0).standard_normal(x.shape[1])
    walks = reached(mask, state.token, state.layers)
    for layer in range(1, state.layers + 1):
        outputs = []
        for version in (x, changed):
            answer = ask(attention, EXERCISE, (version, *matrices, mask), shapes)
            if answer.problem:
                return answer.problem
            outputs.append(answer.arrays[0])
        x, changed = outputs
        noticed = (x != changed).any(axis=1)
        wrong = noticed & ~walks[layer]
        if layer == 1:  # later on, what arrives may be smaller than rounding
            wrong = noticed != walks[layer]
        for t in np.flatnonzero(wrong)[:1]:
            name = readable(tokens[t], 20)
            told = (
                "changes, though no walk leads"
                if noticed[t]
                else "does not change, but a walk leads"
            )
            return f"Measured: after layer {layer}, {name} {told} there: run check({EXERCISE})."
    return ""
