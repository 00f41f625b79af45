"""Information on its way through layers: who can know of a token after 1, 2, … layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attend.theme import EDGE, INK, MUTED, PAPER, ROLE
from attend.widgets.kit.svg import element, hover, panel, readable, text


def arrows(mask: np.ndarray) -> np.ndarray:
    """Return who hears of whom in one layer: whoever is seen, and oneself by one's own question.

    A token that is hidden from itself still makes the query of its row, and that decides between
    the keys where there are two or more.

    Shapes: mask (T, T), boolean, row t for query t; returns the same.
    """
    return mask | np.diag(mask.sum(axis=1) >= 2)


def reached(mask: np.ndarray, start: int, layers: int) -> np.ndarray:
    """Follow a token through the layers: a walk takes one of the `arrows` in each.

    Shapes: mask (T, T), boolean; returns (layers + 1, T), boolean: row 0 holds the token alone,
    row n all that n layers can bring it to.
    """
    steps = [np.arange(len(mask)) == start]
    for _ in range(layers):
        steps.append((arrows(mask) & steps[-1]).any(axis=1))
    return np.stack(steps)


def flow(mask: np.ndarray, start: int, layers: int, tokens: Sequence[str]) -> str:
    """Draw every token once per layer, all arrows between, and the walks from one.

    An arrow that is only a token's own question is dashed.

    Shapes: mask (T, T), boolean; T = len(tokens).
    """
    met = reached(mask, start, layers)
    left = 40.0 + 8.2 * max(len(readable(token)) for token in tokens)
    width, top, tall = 470.0, 84.0, 36.0
    across = (width - left - 24) / layers

    def place(layer: int, token: int) -> tuple[float, float]:
        return left + layer * across, top + token * tall

    edges, walks, nodes = [], [], []
    for layer in range(layers):
        for t, s in zip(*np.nonzero(arrows(mask)), strict=True):
            (x1, y1), (x2, y2) = place(layer, s), place(layer + 1, t)
            taken = bool(met[layer, s])
            line = element(
                "line",
                x1=x1,
                y1=y1,
                x2=x2,
                y2=y2,
                stroke=ROLE["Q"] if taken else EDGE,
                stroke_width=2.5 if taken else 1.0,
                stroke_dasharray="none" if mask[t, s] else "5 4",
            )
            (walks if taken else edges).append(line)
    for layer in range(layers + 1):
        for t, token in enumerate(tokens):
            x, y = place(layer, t)
            known = bool(met[layer, t])
            where = "at the start" if layer == 0 else f"after layer {layer}"
            words = f"{where}, {readable(token, 30)} {'knows' if known else 'cannot know'}"
            mark = element(
                "circle",
                hover(f"{words} of {readable(tokens[start], 30)}"),
                cx=x,
                cy=y,
                r=9.0 if known else 6.0,
                fill=ROLE["Q"] if known else PAPER,
                stroke=ROLE["Q"] if known else MUTED,
                stroke_width=1.5,
                data_layer=layer,
                data_token=t,
                data_reached=int(known),
            )
            nodes.append(mark)
    names = [
        text(
            left - 18,
            top + t * tall + 5,
            readable(token),
            text_anchor="end",
            font_weight=700 if t == start else 400,
        )
        for t, token in enumerate(tokens)
    ]
    heads = []
    for layer in range(layers + 1):
        count = f"{int(met[layer].sum())} of {len(tokens)}"
        word = "start" if layer == 0 else f"layer {layer}"
        style = {"text_anchor": "middle", "font_size": 12}
        heads.append(text(left + layer * across, 48, word, fill=MUTED, **style))
        heads.append(text(left + layer * across, 64, count, fill=INK, **style))
    name = readable(tokens[start], 14)
    told = f"Of {name} can know: " + "; ".join(
        f"after {layer} layer{'s' if layer > 1 else ''} {_listed(met[layer], tokens)}"
        for layer in range(1, layers + 1)
    )
    height = top + tall * (len(tokens) - 1) + 24
    label = f"Who can know of “{name}”"
    return panel("flow", width, height, label, told + ".", *edges, *walks, *nodes, *names, *heads)


def _listed(known: np.ndarray, tokens: Sequence[str]) -> str:
    if known.all():
        return "everyone"
    named = [readable(token) for token, yes in zip(tokens, known, strict=True) if yes]
    return ", ".join(named) or "no one"
