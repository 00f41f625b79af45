"""Chapter 01's diagrams: the unrolled network, and the insides of an LSTM and of a GRU."""

from __future__ import annotations

import math

from attend.theme import EDGE, INK, MUTED, PAPER, ROLE, SHADE, UNSCALED
from attend.widgets.kit.svg import element, hover, panel, text
from attend.widgets.kit.view import View

SEE_UNROLLED = (
    "One function, drawn once for each step. States go to the right; the gradient of a loss goes "
    "back to the left, and every box sends its share to the same weights."
)
SEE_CELLS = {
    "lstm": "The memory c goes straight through: times the forget gate, then something is added.",
    "gru": "The update gate z says how much of the state stays; the candidate gets the rest.",
}
GATE, CANDIDATE = ROLE["K"], ROLE["V"]
Point = tuple[float, float]


def unrolled() -> View:
    """The recurrent network as a chain of steps, forward and backward."""
    return View("unrolled", SEE_UNROLLED, [], _unrolled)


def cell(kind: str) -> View:
    """The inside of one step: ``"lstm"`` or ``"gru"``.

    Raises ValueError for another kind.
    """
    if kind not in SEE_CELLS:
        raise ValueError(f"cell: the kind must be 'lstm' or 'gru'; got {kind!r}.")
    return View(f"cell-{kind}", SEE_CELLS[kind], [], _lstm if kind == "lstm" else _gru)


def _unrolled() -> str:
    body: list[str] = []
    top, bottom = 92.0, 148.0
    for step, name in enumerate(("1", "2", "3", "T")):
        x = 96.0 + 138 * step + (22 if name == "T" else 0)
        body += _box((x, 120.0), 74, 56, "step", f"step {name}: tanh(x W_x + h W_h + b)", SHADE)
        body += _arrow((x, 196.0), (x, bottom))
        body.append(_label((x, 212.0), f"x_{name}"))
        body += _arrow((x, top), (x, 62.0))
        body.append(_label((x, 52.0), f"h_{name}"))
        before = "h_0" if step == 0 else ""
        start = 22.0 if step == 0 else x - 101 - (22 if name == "T" else 0)
        body += _arrow((start, 114.0), (x - 37, 114.0))
        if before:
            body.append(_label((18.0, 104.0), before))
        body += _arrow((x - 37, 131.0), (start, 131.0), UNSCALED, "5 3")
        if name == "T":
            body.append(_label((x - 84, 108.0), "…"))
    words = "solid: states, forward · dashed: gradients, back · W_x, W_h and b are the same in all"
    body.append(text(12, 240, words, font_size=13, fill=MUTED))
    told = "Inputs x_1 to x_T enter one box each from below; every box hands its state to the next "
    told += "box and upwards; dashed arrows lead back from box to box."
    return panel("unrolled", 640.0, 252.0, "The network, unrolled in time", told, *body)


def _lstm() -> str:
    body = _line([(24, 70), (616, 70)])
    body += _head((616, 70), 0.0)
    body += [_label((34, 60), "c_{t−1}"), _label((600, 60), "c_t")]
    columns = {"f": 130.0, "i": 240.0, "g": 330.0, "o": 450.0}
    inner = {"f": "σ", "i": "σ", "g": "tanh", "o": "σ"}
    means = {
        "f": "forget gate: how much of the memory is kept",
        "i": "input gate: how much of the candidate is added",
        "g": "candidate: what could be added",
        "o": "output gate: how much of the memory is shown",
    }
    body += _line([(24, 250), (450, 250)])
    body += [_label((36, 241), "x_t,"), _label((78, 241), "h_{t−1}")]
    for name, x in columns.items():
        body += _arrow((x, 250), (x, 222))
        fill = CANDIDATE if name == "g" else GATE
        body += _box((x, 206), 54, 32, f"{name}: {inner[name]}", means[name], PAPER, fill)
    body += _arrow((130, 190), (130, 82)) + _circle((130, 70), "×")
    body += _arrow((240, 190), (240, 142)) + _circle((240, 130), "×")
    body += _line([(330, 190), (330, 130)]) + _arrow((330, 130), (252, 130))
    body += _arrow((240, 118), (240, 82)) + _circle((240, 70), "+")
    body += _line([(520, 70), (520, 100)]) + _arrow((520, 100), (520, 112))
    body += _box((520, 126), 54, 28, "tanh", "tanh of the new memory", PAPER)
    body += _arrow((520, 140), (520, 194)) + _circle((520, 206), "×")
    body += _arrow((477, 206), (508, 206)) + _arrow((532, 206), (616, 206))
    body.append(_label((600, 196), "h_t"))
    told = "The memory runs along the top: times the forget gate, plus input gate times candidate. "
    told += "The new state is the output gate times tanh of the new memory."
    return panel("lstm", 640.0, 268.0, "One step of an LSTM", told, *body)


def _gru() -> str:
    body = _line([(24, 70), (616, 70)])
    body += _head((616, 70), 0.0)
    body += [_label((34, 60), "h_{t−1}"), _label((600, 60), "h_t")]
    body += _circle((420, 70), "×") + _circle((510, 70), "+")
    body += _box((170, 206), 54, 32, "r: σ", "reset gate: what the candidate may see", PAPER, GATE)
    body += _box((420, 206), 54, 32, "z: σ", "update gate: how much is kept", PAPER, GATE)
    body += _box((330, 130), 62, 32, "n: tanh", "candidate: the new content", PAPER, CANDIDATE)
    body += _arrow((420, 190), (420, 82))
    body += _line([(420, 172), (510, 172)]) + _arrow((510, 172), (510, 142))
    body.append(_label((536, 164), "1 − z"))
    body += (
        _circle((510, 130), "×") + _arrow((361, 130), (498, 130)) + _arrow((510, 118), (510, 82))
    )
    body += _line([(90, 70), (90, 130)]) + _arrow((90, 130), (158, 130)) + _circle((170, 130), "×")
    body.append(_label((124, 122), "h W + b"))
    body += _arrow((170, 190), (170, 142)) + _arrow((182, 130), (299, 130))
    body += _line([(24, 250), (420, 250)])
    body += [_label((36, 241), "x_t,"), _label((78, 241), "h_{t−1}")]
    body += _arrow((170, 250), (170, 222)) + _arrow((420, 250), (420, 222))
    body += _arrow((330, 250), (330, 146))
    body.append(_label((312, 190), "x_t"))
    told = "The state runs along the top: times the update gate z, plus 1 − z times the candidate. "
    told += "The candidate sees the input and, through the reset gate, the state."
    return panel("gru", 640.0, 268.0, "One step of a GRU", told, *body)


def _label(at: Point, words: str) -> str:
    """Text in the middle of a point; what follows _ is lowered."""
    name, _, low = words.partition("_")
    if not low:
        return text(*at, words, text_anchor="middle")
    low = low.strip("{}")
    small = element("tspan", low, dy=4, font_size=10)
    return element(
        "text",
        name + small,
        x=float(at[0]),
        y=float(at[1]),
        font_size=14,
        fill=INK,
        text_anchor="middle",
    )


def _box(
    at: Point, wide: float, tall: float, words: str, means: str, fill: str, edge: str = EDGE
) -> list[str]:
    x, y = at
    box = {"x": x - wide / 2, "y": y - tall / 2, "width": wide, "height": tall, "rx": 5}
    style = {"fill": fill, "stroke": edge, "stroke_width": 2.0}
    name = text(x, y + 5, words, text_anchor="middle", pointer_events="none")
    return [element("rect", hover(means), **box, **style), name]


def _circle(at: Point, sign: str) -> list[str]:
    style = {"fill": PAPER, "stroke": INK, "stroke_width": 1.5}
    means = "entry by entry: " + {"×": "product", "+": "sum"}[sign]
    mark = element("circle", hover(means), cx=at[0], cy=at[1], r=12.0, **style)
    look = {"text_anchor": "middle", "font_size": 17, "pointer_events": "none"}
    return [mark, text(at[0], at[1] + 6, sign, **look)]


def _line(points: list[Point], colour: str = INK, dash: str = "none") -> list[str]:
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    style = {"stroke": colour, "stroke_width": 1.6, "stroke_dasharray": dash}
    return [element("path", d=path, fill="none", **style)]


def _arrow(start: Point, end: Point, colour: str = INK, dash: str = "none") -> list[str]:
    turn = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
    return [*_line([start, end], colour, dash), *_head(end, turn, colour)]


def _head(at: Point, turn: float, colour: str = INK) -> list[str]:
    x, y = at
    path = f"M{x:g} {y:g}l-9 -4.5v9z"
    return [element("path", d=path, fill=colour, transform=f"rotate({turn:.0f} {x:g} {y:g})")]
