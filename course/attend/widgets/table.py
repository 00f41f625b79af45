"""The attention table: edit a token's vector and watch scores, weights and output follow.

The learner's own function does the work, with identity projections: q = k = v = the vectors in the
table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import INK
from attend.widgets.kit.heatmap import heat_map
from attend.widgets.kit.learner import ask
from attend.widgets.kit.plane import pair, plane
from attend.widgets.kit.svg import beside, element, number, readable
from attend.widgets.kit.view import View, note

EXERCISE = "scaled_dot_product_attention"
MAX_TOKENS, MAX_WIDTH = 8, 6

SEE = (
    "Change one number: the token's scores change in its row and in its column, each row of"
    " weights still sums to 1, and every output is that row's weighted mean of the vectors."
)


@dataclass(frozen=True)
class TableState:
    """What the controls say: every token's vector, and the chosen query (counted from 0)."""

    vectors: tuple[tuple[float, ...], ...]
    query: int = 0


def attention_table(
    attention: Callable[..., Any],
    tokens: Sequence[str],
    embeddings: Any,
    scores: Callable[..., Any] | None = None,
) -> View:
    """Show scores, weights and output of `attention` for vectors that can be edited.

    `attention(q, k, v) -> (output, weights)` is called with q = k = v = the vectors, `scores(q,
    k)` (optional) for the scores; without it the table works out q·k/√D itself. When the learner's
    function is not started or returns something else, one sentence naming the exercise takes the
    picture's place.

    Shapes: embeddings (T, D), T = len(tokens) ≤ 8, D ≤ 6. Raises ValueError for anything else.
    """
    rows, vectors = validate(attention, tokens, embeddings)
    fields = [
        [_field(value, f"{token}, number {i}") for i, value in enumerate(vector, 1)]
        for token, vector in zip(rows, vectors, strict=True)
    ]
    query = ipywidgets.Dropdown(
        options=[(f"{i + 1} · {readable(token, 14)}", i) for i, token in enumerate(rows)],
        description="query",
        style={"description_width": "92px"},
        layout=ipywidgets.Layout(width="min(250px, 98%)"),
    )
    reset = ipywidgets.Button(description="Start again", tooltip="put the first vectors back")

    def state() -> TableState:
        numbers = tuple(tuple(float(field.value) for field in line) for line in fields)
        return TableState(numbers, query.index or 0)

    lines = [
        ipywidgets.HBox([_name(token), *line]) for token, line in zip(rows, fields, strict=True)
    ]
    choices = ipywidgets.HBox([query, reset], layout=ipywidgets.Layout(flex_flow="row wrap"))
    view = View(
        "attention-table", SEE, [*lines, choices], lambda: draw(state(), rows, attention, scores)
    )

    def start_again(_button: object) -> None:
        for line, vector in zip(fields, vectors, strict=True):
            for field, value in zip(line, vector, strict=True):
                field.value = value

    reset.on_click(start_again)
    for control in [query, *(field for line in fields for field in line)]:
        control.observe(view.refresh, names="value")
    return view


def validate(
    attention: object, tokens: Sequence[str], embeddings: Any
) -> tuple[list[str], list[list[float]]]:
    """Return tokens and vectors as lists; raise ValueError saying what is wrong."""
    if not callable(attention):
        raise ValueError(
            f"attention_table: attention must be your function {EXERCISE}; got"
            f" {type(attention).__name__}. Pass the function itself, without parentheses:"
            f" attention_table({EXERCISE}, tokens, embeddings)."
        )
    rows = [str(token) for token in tokens]
    try:
        array = np.asarray(embeddings, dtype=float)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            "attention_table: embeddings must be numbers of shape (T, D), one row per token"
            f" ({error})."
        ) from error
    if array.ndim != 2 or array.shape[0] != len(rows) or 0 in array.shape:
        raise ValueError(
            f"attention_table: {len(rows)} tokens need embeddings of shape ({len(rows)}, D); got"
            f" {array.shape}. Pass one row of numbers per token."
        )
    if array.shape[0] > MAX_TOKENS or array.shape[1] > MAX_WIDTH:
        raise ValueError(
            f"attention_table: at most {MAX_TOKENS} tokens of {MAX_WIDTH} numbers fit a table"
            f" edited by hand; got {array.shape}. For more, use attention_explorer(tokens,"
            " weights)."
        )
    if not np.isfinite(array).all():
        raise ValueError(
            "attention_table: embeddings must be finite numbers; replace NaN and infinity."
        )
    return rows, array.tolist()


def _field(value: float, name: str) -> ipywidgets.FloatText:
    """Return a number field; its name takes no room, but screen readers say it."""
    return ipywidgets.FloatText(
        value=value,
        step=0.25,
        description=name,
        style={"description_width": "0"},
        layout=ipywidgets.Layout(width="84px", flex="0 1 84px"),
    )


def _name(token: str) -> ipywidgets.Label:
    return ipywidgets.Label(
        readable(token), layout=ipywidgets.Layout(width="92px", justify_content="flex-end")
    )


def draw(
    state: TableState,
    tokens: Sequence[str],
    attention: Callable[..., Any],
    scores: Callable[..., Any] | None = None,
) -> str:
    """Return scores, weights, output and (for D = 2) the vectors in the plane, or one sentence."""
    x = np.array(state.vectors, dtype=float)
    n, d = x.shape
    answer = ask(attention, EXERCISE, (x, x, x), {"an output": (n, d), "weights": (n, n)})
    if answer.problem:
        return note(answer.problem)
    output, weights = answer.arrays
    remarks = [answer.remark]
    if scores is None:
        raw, source = x @ x.T / math.sqrt(d), f"q·k / √{d}"
    else:
        scored = ask(scores, "attention_scores", (x, x), {"scores": (n, n)})
        if scored.problem:
            return note(scored.problem)
        (raw,), source = scored.arrays, "attention_scores(q, k)"
        remarks.append(scored.remark)
    off = np.abs(weights.sum(axis=-1) - 1)
    if off.max() > 1e-6:
        worst = int(off.argmax())
        remarks.append(
            f"The weights of {readable(tokens[worst], 20)} add up to {weights[worst].sum():.3f},"
            f" not to 1: run check({EXERCISE})."
        )
    name = readable(tokens[state.query], 20)
    spelled = " + ".join(
        f"{weights[state.query, j]:.2f}·{readable(t)}" for j, t in enumerate(tokens)
    )
    result = pair(output[state.query])
    components = [str(i + 1) for i in range(d)]
    panels = [
        heat_map(
            "scores",
            f"1. Scores: {source}",
            f"The scores of query {name} are {_listed(raw[state.query])}.",
            raw,
            tokens,
            tokens,
            chosen=state.query,
            low=float(raw.min()),
            high=float(raw.max()),
            width=_wide(max(n, d)),
        ),
        heat_map(
            "weights",
            "2. Weights: softmax of each row",
            f"The weights of query {name} are {_listed(weights[state.query])}.",
            weights,
            tokens,
            tokens,
            chosen=state.query,
            width=_wide(max(n, d)),
        ),
        heat_map(
            "output",
            "3. Output: weights · vectors",
            f"The output of query {name} is {result} = {spelled}.",
            output,
            tokens,
            components,
            chosen=state.query,
            low=float(output.min()),
            high=float(output.max()),
            axes=("query", "component"),
            width=_wide(max(n, d)),
        ),
    ]
    if d == 2:
        panels.append(plane(x, output[state.query], weights[state.query], tokens, state.query))
    sums = f"output of {name} = {spelled} = {result}"
    line = element(
        "div",
        escape(sums),
        class_="attend-sum",
        style="margin: 4px 0 8px; line-height: 1.4; white-space: normal; font-size: 14px;"
        f" color: {INK};",
    )
    said = " ".join(remark for remark in remarks if remark)
    return (note(said) if said else "") + line + beside(*panels)


def _listed(values: np.ndarray) -> str:
    return ", ".join(number(value) for value in values)


def _wide(columns: int) -> float:
    """Return a panel's width for so many columns: cells about 58 units wide."""
    return max(150.0 + 58.0 * columns, 300.0)
