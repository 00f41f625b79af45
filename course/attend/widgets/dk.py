"""The width explorer: what dividing by √D does to scores, softmax and its Jacobian.

Queries q and keys k have independent standard-normal components. Then q·k has variance D
(Vaswani et al., 2017, section 3.2.1, footnote 4); a softmax over scores that far apart puts nearly
everything on one key, where its Jacobian diag(p) - p pᵀ vanishes. Dividing by √D keeps the
variance at 1 for every D, which papers call d_k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import ipywidgets
import numpy as np

from attend.theme import GRID, INK, MUTED, PAPER, SCALED, UNSCALED
from attend.widgets.kit.svg import beside, element, hover, number, panel, text
from attend.widgets.kit.view import View

WIDTHS = tuple(2**power for power in range(10))  # D: 1, 2, 4 … 512
KEYS = 16
DRAWS = 256
SPAN = 50  # the score axis runs from -SPAN to SPAN, one bin per unit

SEE = (
    "Unscaled, a larger D spreads the scores, the softmax settles on one key (its entropy falls"
    " towards 0) and its Jacobian gets small; divided by √D, all three stay nearly where they are."
)


@dataclass(frozen=True)
class DkState:
    """What the slider says: D, one of `WIDTHS`; and the seed of the draws."""

    d: int = 64
    seed: int = 0


def dk_explorer(seed: int = 0) -> View:
    """Show scores, softmax entropy and Jacobian, scaled and unscaled, for D = 1 … 512.

    The slider steps through powers of two, by mouse or arrow keys. `seed` chooses the random draws.
    """
    slider = ipywidgets.SelectionSlider(
        options=WIDTHS,
        value=DkState.d,
        description="D",
        tooltip="D: the number of components of each query and key",
        layout=ipywidgets.Layout(width="min(420px, 98%)"),
    )
    view = View("dk-explorer", SEE, [slider], lambda: draw(DkState(slider.value, seed)))
    slider.observe(view.refresh, names="value")
    return view


def draw(state: DkState) -> str:
    """Return the four panels for one D. Raises ValueError when it is not in `WIDTHS`."""
    if state.d not in WIDTHS:
        raise ValueError(
            f"dk_explorer: D must be one of {', '.join(map(str, WIDTHS))}; got {state.d!r}."
        )
    found = measure(state.seed)
    unscaled, scaled = found[state.d]
    entropies = [(found[d][0].entropy, found[d][1].entropy) for d in WIDTHS]
    jacobians = [(found[d][0].jacobian, found[d][1].jacobian) for d in WIDTHS]
    return beside(
        _histograms(state.d, unscaled, scaled),
        _weights(state.d, unscaled, scaled),
        _curves(
            "entropy",
            "Softmax entropy (nats)",
            state.d,
            entropies,
            top=math.log(KEYS),
            limit=f"ln {KEYS}: all keys alike",
        ),
        _curves(
            "jacobian",
            "Size of the softmax's Jacobian (mean)",
            state.d,
            jacobians,
            top=0.4,
            limit="",
        ),
        widest="900px",  # two and two
    )


_W, _H = 380, 264
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 366, 74, 220


def _legend(unscaled: str, scaled: str) -> str:
    """Draw the key under the heading: marker, name and a number for each side."""
    return (
        _marker(20, 44, False)
        + text(32, 49, f"unscaled: {unscaled}", font_size=13)
        + _marker(178, 44, True)
        + text(190, 49, f"scaled by 1/√D: {scaled}", font_size=13)
    )


def _marker(x: float, y: float, scaled: bool, words: str = "", size: float = 5.0) -> str:
    """Draw a round purple marker for scaled, a square vermillion one for unscaled."""
    title = (hover(words),) if words else ()
    if scaled:
        return element("circle", *title, cx=x, cy=y, r=size, fill=SCALED)
    side = 2 * size
    return element(
        "rect",
        *title,
        x=x - size,
        y=y - size,
        width=side,
        height=side,
        fill=PAPER,
        stroke=UNSCALED,
        stroke_width=2.5,
    )


def _histograms(d: int, unscaled: Measures, scaled: Measures) -> str:
    """Draw two strips on one axis: how often each score came, scaled below unscaled."""
    body = [_legend(f"std {number(unscaled.scores.std())}", f"std {number(scaled.scores.std())}")]
    for measures, floor, is_scaled in ((unscaled, 138.0, False), (scaled, 220.0, True)):
        counts, _ = np.histogram(measures.scores, bins=2 * SPAN, range=(-SPAN, SPAN))
        heights = 62 * counts / counts.max()
        step = (_RIGHT - _LEFT) / len(counts)
        tops = "".join(
            f"L{_LEFT + i * step:.1f} {floor - h:.1f}H{_LEFT + (i + 1) * step:.1f}"
            for i, h in enumerate(heights)
        )
        outside = float((np.abs(measures.scores) > SPAN).mean())
        beyond = f", {outside:.1%} lie beyond ±{SPAN}" if outside else ""
        side = "scaled" if is_scaled else "unscaled"
        words = f"{side} scores: std {number(measures.scores.std())}{beyond}"
        style = (
            {"fill": SCALED}
            if is_scaled
            else {"fill": UNSCALED, "fill_opacity": 0.2, "stroke": UNSCALED}
        )
        path = f"M{_LEFT} {floor}{tops}V{floor}Z"
        body.append(element("path", hover(words), d=path, stroke_width=1.25, **style))
        body.append(_rule(_LEFT, floor, _RIGHT, floor, INK))
        body.append(text(_LEFT - 8, floor - 2, "0", font_size=12, fill=MUTED, text_anchor="end"))
    for score in (-SPAN, -SPAN // 2, 0, SPAN // 2, SPAN):
        x = _LEFT + (score + SPAN) * (_RIGHT - _LEFT) / (2 * SPAN)
        body.append(_rule(x, 220, x, 225, INK))
        body.append(text(x, 239, str(score).replace("-", "−"), font_size=12, text_anchor="middle"))
    body.append(text(_RIGHT, 255, "score", font_size=13, fill=MUTED, text_anchor="end"))
    body.append(_upright(18, 148, "how often"))
    description = (
        f"At D = {d} the standard deviation of {DRAWS * KEYS} scores is"
        f" {number(unscaled.scores.std())} unscaled and {number(scaled.scores.std())} scaled."
    )
    return panel("scores", _W, _H, f"Scores q·k at D = {d}", description, *body)


def _weights(d: int, unscaled: Measures, scaled: Measures) -> str:
    """Draw the softmax of one draw: two bars for every key."""
    tall = _BOTTOM - _TOP
    body = [_legend(f"max {number(unscaled.weights.max())}", f"max {number(scaled.weights.max())}")]
    for share in (0.0, 0.5, 1.0):
        y = _BOTTOM - share * tall
        body.append(_rule(_LEFT, y, _RIGHT, y, INK if share == 0 else GRID))
        body.append(text(_LEFT - 8, y + 4, f"{share:g}", font_size=12, text_anchor="end"))
    slot = (_RIGHT - _LEFT) / KEYS
    for key in range(KEYS):
        x = _LEFT + key * slot
        for weight, offset, is_scaled in (
            (unscaled.weights[key], 0.12, False),
            (scaled.weights[key], 0.52, True),
        ):
            style = (
                {"fill": SCALED}
                if is_scaled
                else {
                    "fill": UNSCALED,
                    "fill_opacity": 0.2,
                    "stroke": UNSCALED,
                    "stroke_width": 1.5,
                }
            )
            name = "scaled" if is_scaled else "unscaled"
            body.append(
                element(
                    "rect",
                    hover(f"key {key + 1}, {name}: {weight:.3f}"),
                    x=x + offset * slot,
                    y=_BOTTOM - weight * tall,
                    width=0.36 * slot,
                    height=weight * tall,
                    **style,
                )
            )
        body.append(text(x + slot / 2, 238, str(key + 1), font_size=12, text_anchor="middle"))
    body.append(text(_RIGHT, 255, "key", font_size=13, fill=MUTED, text_anchor="end"))
    body.append(_upright(14, 148, "weight"))
    description = (
        f"One query's weights over {KEYS} keys: the largest is"
        f" {number(unscaled.weights.max())} unscaled and {number(scaled.weights.max())} scaled."
    )
    return panel("weights", _W, _H, "Softmax weights of one query", description, *body)


def _curves(
    name: str, label: str, d: int, pairs: list[tuple[float, float]], *, top: float, limit: str
) -> str:
    """Draw a measure against D, both ways, and mark the chosen D."""
    here = WIDTHS.index(d)
    step = (_RIGHT - _LEFT - 24) / (len(WIDTHS) - 1)
    xs = [_LEFT + 12 + i * step for i in range(len(WIDTHS))]
    tall = _BOTTOM - _TOP
    body = [_legend(number(pairs[here][0]), number(pairs[here][1]))]
    ticks = (0.0, 1.0, 2.0) if top > 1 else (0.0, 0.1, 0.2, 0.3, 0.4)
    for tick in ticks:
        y = _BOTTOM - tick / top * tall
        body.append(_rule(_LEFT, y, _RIGHT, y, INK if tick == 0 else GRID))
        body.append(text(_LEFT - 8, y + 4, f"{tick:g}", font_size=12, text_anchor="end"))
    if limit:
        body.append(_rule(_LEFT, _TOP, _RIGHT, _TOP, MUTED, stroke_dasharray="2 3"))
        body.append(text(_RIGHT, _TOP - 5, limit, font_size=12, fill=MUTED, text_anchor="end"))
    body.append(
        element(
            "rect",
            x=xs[here] - 13,
            y=_TOP,
            width=26,
            height=tall,
            fill=INK,
            opacity=0.08,
            data_here=d,
        )
    )
    for side, (colour, dash) in enumerate(((UNSCALED, "7 4"), (SCALED, "1 0"))):
        ys = [_BOTTOM - pair[side] / top * tall for pair in pairs]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
        body.append(
            element(
                "path", d=path, fill="none", stroke=colour, stroke_width=2, stroke_dasharray=dash
            )
        )
        for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
            words = f"D = {WIDTHS[i]}, {'scaled' if side else 'unscaled'}: {pairs[i][side]:.3f}"
            body.append(_marker(x, y, bool(side), words, size=5.5 if i == here else 3.5))
    for i, x in enumerate(xs):
        weight = 700 if i == here else 400
        body.append(
            text(x, 238, str(WIDTHS[i]), font_size=12, font_weight=weight, text_anchor="middle")
        )
    body.append(text(_RIGHT, 255, "D", font_size=13, fill=MUTED, text_anchor="end"))
    description = (
        f"Mean over {DRAWS} draws at D = {d}: {number(pairs[here][0])} unscaled,"
        f" {number(pairs[here][1])} scaled; at D = {WIDTHS[-1]}: {number(pairs[-1][0])} and"
        f" {number(pairs[-1][1])}."
    )
    return panel(name, _W, _H, label, description, *body)


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str, **more: object) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, **more)


def _upright(x: float, y: float, words: str) -> str:
    """Draw an axis title that reads upwards."""
    return text(
        x,
        y,
        words,
        font_size=13,
        fill=MUTED,
        text_anchor="middle",
        transform=f"rotate(-90 {x:g} {y:g})",
    )


@dataclass(frozen=True)
class Measures:
    """What one choice of scores gives, averaged over the draws.

    Shapes: scores (DRAWS, KEYS), weights (KEYS,) of the first draw. Entropy in nats, at most ln
    KEYS; jacobian: mean Frobenius norm of the softmax Jacobian.
    """

    scores: np.ndarray
    weights: np.ndarray
    entropy: float
    jacobian: float


@lru_cache(maxsize=8)
def measure(seed: int) -> dict[int, tuple[Measures, Measures]]:
    """Return (unscaled, scaled) measures for every D, all from the same draws.

    A smaller D uses the first components of the same queries and keys, so that only D changes.
    """
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((DRAWS, 1, WIDTHS[-1]))
    k = rng.standard_normal((DRAWS, KEYS, WIDTHS[-1]))
    products = q * k
    found = {}
    for d in WIDTHS:
        dots = products[..., :d].sum(axis=-1)
        found[d] = (_summarise(dots), _summarise(dots / math.sqrt(d)))
    return found


def _summarise(scores: np.ndarray) -> Measures:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = exponentials / exponentials.sum(axis=-1, keepdims=True)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy = -(p * logs).sum(axis=-1)
    squares = (p**2).sum(axis=-1)
    # ‖diag(p) - p pᵀ‖² = Σp² - 2Σp³ + (Σp²)²; rounding may leave it a hair below 0
    norms = np.sqrt(np.maximum(squares - 2 * (p**3).sum(axis=-1) + squares**2, 0.0))
    return Measures(scores, p[0], float(entropy.mean()), float(norms.mean()))
