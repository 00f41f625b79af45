"""What the mask painter shows: weights under a mask, and how far information gets with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attend.widgets.flow import flow, reached
from attend.widgets.heatmap import heat_map
from attend.widgets.learner import ask
from attend.widgets.svg import beside, readable
from attend.widgets.view import note

EXERCISE = "self_attention"
MAX_TOKENS, MAX_LAYERS = 8, 6

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""x and the matrices w_q, w_k, w_v."""


@dataclass(frozen=True)
class PainterState:
    """The mask, row by row; the token that is followed (from 0); and through how many layers."""

    mask: tuple[tuple[bool, ...], ...]
    token: int = 0
    layers: int = 3


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
