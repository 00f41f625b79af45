"""The attention explorer: any weights, one query at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.charts import MAX_MARKS
from attend.theme import EDGE, INK, MUTED, ROLE, SHADE
from attend.widgets.kit.heatmap import heat_map
from attend.widgets.kit.svg import beside, element, hover, panel, readable, text
from attend.widgets.kit.view import View, note

SHOWN = 16  # keys listed for one query: the largest weights, in reading order

SEE = (
    "Each row of the matrix is one query's attention and sums to 1; the lines show where the"
    " chosen query looks, thicker for more weight."
)


@dataclass(frozen=True)
class ExplorerState:
    """Which query and head are chosen (both counted from 0)."""

    query: int = 0
    head: int = 0


def attention_explorer(
    tokens: Sequence[str], weights: Any, *, key_tokens: Sequence[str] | None = None
) -> View:
    """Show attention weights as a matrix, and one query's row as lines to the keys.

    Choose the query with the slider (arrow keys move it), the head from the list.

    Shapes: weights (T, S) or (H, T, S) with T = len(tokens) and S = len(key_tokens), or S = T when
    `key_tokens` is None. Raises ValueError for other shapes, values outside 0 … 1 (scores, not
    weights), values that are not finite, and more than 4,096 weights a head.
    """
    heads, rows, columns = validate(tokens, weights, key_tokens)
    slider = ipywidgets.SelectionSlider(
        options=[(f"{i + 1} · {readable(token, 14)}", i) for i, token in enumerate(rows)],
        value=0,
        description="query",
        tooltip="the token whose attention is shown",
        layout=ipywidgets.Layout(width="min(420px, 98%)"),
    )
    chooser = ipywidgets.Dropdown(
        options=[(f"head {h + 1} of {len(heads)}", h) for h in range(len(heads))],
        description="head",
        layout=ipywidgets.Layout(width="min(240px, 98%)"),
    )
    controls = [slider, chooser] if len(heads) > 1 else [slider]
    bar = ipywidgets.HBox(controls, layout=ipywidgets.Layout(flex_flow="row wrap"))
    view = View(
        "attention-explorer",
        SEE,
        [bar],
        lambda: draw(ExplorerState(slider.index or 0, chooser.index or 0), rows, heads, columns),
    )
    slider.observe(view.refresh, names="value")
    chooser.observe(view.refresh, names="value")
    return view


def validate(
    tokens: Sequence[str], weights: Any, key_tokens: Sequence[str] | None
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return weights (H, T, S), query and key tokens; raise ValueError saying what is wrong."""
    try:
        array = np.asarray(weights)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"attention_explorer: weights could not be read as an array ({error})."
            " Pass a NumPy array; from torch: weights.detach().cpu().numpy()."
        ) from error
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"attention_explorer: weights must be numbers; got an array of type {array.dtype}."
            " Pass the weights that your attention function returns second."
        )
    rows = [str(token) for token in tokens]
    columns = rows if key_tokens is None else [str(token) for token in key_tokens]
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise ValueError(
            f"attention_explorer: weights must have shape (T, S) or (H, T, S); got {array.shape}."
            " For a batch, choose one example: weights[0]."
        )
    heads = array[None] if array.ndim == 2 else array
    if heads.shape[1:] != (len(rows), len(columns)):
        raise ValueError(
            f"attention_explorer: {len(rows)} query and {len(columns)} key tokens need weights of"
            f" shape (…, {len(rows)}, {len(columns)}); got {array.shape}. Pass one token per row,"
            " and key_tokens=… when the keys are other tokens than the queries."
        )
    if len(rows) * len(columns) > MAX_MARKS:
        raise ValueError(
            f"attention_explorer: {len(rows)} × {len(columns)} weights are more than the"
            f" {MAX_MARKS} that can be drawn legibly. Pass a slice of tokens and weights."
        )
    heads = heads.astype(float)
    if not np.isfinite(heads).all():
        raise ValueError(
            "attention_explorer: some weights are NaN or infinite. A row whose keys are all"
            " masked gives NaN: let such rows be 0."
        )
    if heads.min() < -1e-6 or heads.max() > 1 + 1e-6:
        raise ValueError(
            f"attention_explorer: weights must lie between 0 and 1; got {heads.min():.3g} …"
            f" {heads.max():.3g}. Pass the weights after the softmax, not the scores before it."
        )
    return heads, rows, columns


def draw(
    state: ExplorerState, tokens: Sequence[str], heads: np.ndarray, key_tokens: Sequence[str]
) -> str:
    """Return matrix and lines for one query of one head. Shapes: heads (H, T, S), validated."""
    weights = heads[state.head]
    row = weights[state.query]
    name = readable(tokens[state.query], 20)
    best = int(row.argmax())
    of_head = f", head {state.head + 1}" if len(heads) > 1 else ""
    favourite = readable(key_tokens[best], 20)
    description = f"Query {name} gives its largest weight, {row[best]:.2f}, to key {favourite}."
    matrix = heat_map(
        "matrix",
        f"Attention weights{of_head}",
        description,
        weights,
        tokens,
        key_tokens,
        chosen=state.query,
        high=1.0 if weights.shape[1] <= 8 else float(weights.max()),
    )
    off = "" if abs(row.sum() - 1) < 1e-3 else _off_balance(name, float(row.sum()))
    return off + beside(matrix, _lines(name, row, key_tokens, description))


def _off_balance(name: str, total: float) -> str:
    if abs(total) < 1e-9:
        return note(
            f"The row of {name} is all 0: this query attends to nothing (every key is masked)."
        )
    return note(
        f"The row of {name} sums to {total:.3f}, not to 1: these are not softmax weights over keys."
    )


def _lines(name: str, row: np.ndarray, key_tokens: Sequence[str], description: str) -> str:
    """Draw the query left, its keys right, and each weight as a line between and a bar."""
    keys = np.sort(np.argsort(-row, kind="stable")[:SHOWN])
    rest = float(row.sum() - row[keys].sum())
    tall = 30.0 if len(keys) <= 10 else 24.0
    top, width = 62.0, 470.0
    height = max(top + tall * len(keys) + (28 if len(keys) < len(row) else 8), 150.0)
    middle = top + tall * len(keys) / 2
    key_x, bar_x, bar_wide = 208.0, 306.0, 100.0
    body = [
        text(14, 48, "query", font_size=13, fill=MUTED),
        text(key_x, 48, "key", font_size=13, fill=MUTED),
        text(bar_x, 48, "weight", font_size=13, fill=MUTED),
    ]
    for place, key in enumerate(keys):
        weight = float(row[key])
        y = top + tall * (place + 0.5)
        words = hover(f"{name} → {readable(key_tokens[key], 30)}: {weight:.4f}")
        if weight > 0:
            path = f"M116 {middle:.1f}C160 {middle:.1f} 160 {y:.1f} {key_x - 8:.1f} {y:.1f}"
            thick = 0.75 + 11 * weight
            body.append(
                element(
                    "path",
                    words,
                    d=path,
                    fill="none",
                    stroke=ROLE["Q"],
                    stroke_width=thick,
                    opacity=0.75,
                    data_weight=f"{weight:.4f}",
                )
            )
        body.append(text(key_x, y + 5, readable(key_tokens[key]), font_size=14))
        at = {"x": bar_x, "y": y - 0.3 * tall, "height": 0.6 * tall}
        body.append(element("rect", words, width=bar_wide, fill=SHADE, **at))
        if weight > 0:
            style = {"fill": ROLE["K"], "stroke": EDGE, "stroke_width": 0.75}
            body.append(element("rect", words, width=bar_wide * weight, **style, **at))
        body.append(
            text(bar_x + bar_wide + 50, y + 5, f"{weight:.3f}", font_size=14, text_anchor="end")
        )
    body.append(
        element(
            "rect",
            x=12,
            y=middle - 18,
            width=104,
            height=36,
            rx=6,
            fill=ROLE["Q"],
            fill_opacity=0.12,
            stroke=ROLE["Q"],
            stroke_width=2,
        )
    )
    body.append(
        text(64, middle + 5, readable(name, 11), text_anchor="middle", font_weight=700, fill=INK)
    )
    if len(keys) < len(row):
        words = f"the {len(keys)} largest of {len(row)} weights; the rest add up to {rest:.3f}"
        body.append(text(key_x, height - 10, words, font_size=12, fill=MUTED, text_anchor="middle"))
    return panel("lines", width, height, f"Where “{readable(name, 14)}” looks", description, *body)
