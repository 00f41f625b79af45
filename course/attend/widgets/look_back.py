"""A diagram: the encoder, the decoder, and the look back between them. Nothing in it moves."""

from __future__ import annotations

from itertools import pairwise

from attend.theme import EDGE, INK, MUTED, PAPER, ROLE
from attend.widgets.kit.svg import element, hover, panel, text
from attend.widgets.kit.view import View

SEE = (
    "Follow the blue lines: the state before the step asks every encoded word, and the weighted"
    " mean of them (green) goes into the step that makes the next state."
)
WORDS = ("7", "march", "1987")
WEIGHTS = (0.05, 0.9, 0.05)
_MARK = "look-back-arrow"


def look_back() -> View:
    """Show how one word is written: the decoder has written 1987 and is about to write 03."""
    return View("look-back", SEE, [], draw)


def draw() -> str:
    """Return the diagram."""
    head = element(
        "marker",
        element("path", d="M0 0L8 4L0 8Z", fill=EDGE),
        id=_MARK,
        viewBox="0 0 8 8",
        refX=7,
        refY=4,
        markerWidth=7,
        markerHeight=7,
        orient="auto",
    )
    xs = (90.0, 220.0, 350.0)
    body = [element("defs", head), text(8, 84, "decoder", font_size=13, fill=MUTED)]
    body.append(text(8, 190, "encoder", font_size=13, fill=MUTED))
    for x, weight in zip(xs, WEIGHTS, strict=True):  # the query to each encoded word
        style = {"stroke": ROLE["Q"], "stroke_width": 1 + 7 * weight, "opacity": 0.75}
        body.append(element("line", x1=220, y1=98, x2=x, y2=196, **style))
        weight_is = text(x + 24, 184, f"a = {weight:.2f}", font_size=12, fill=MUTED)
        body.append(weight_is)
    for i, (x, word) in enumerate(zip(xs, WORDS, strict=True)):
        body.append(_box(x, 216, f"k{'₁₂₃'[i]}", ROLE["K"], f"encoded word {i + 1}: {word}"))
        body.append(_box(x - 22, 266, "→", EDGE, f"forward state at {word}", 38))
        body.append(_box(x + 22, 266, "←", EDGE, f"backward state at {word}", 38))
        body.append(_arrow(x - 14, 252, x - 8, 234))
        body.append(_arrow(x + 14, 252, x + 8, 234))
        body.append(text(x, 322, word, text_anchor="middle"))
        body.append(_arrow(x, 306, x, 284))
    for left, right in pairwise(xs):
        body.append(_arrow(left + 44, 261, right - 44, 261))
        body.append(_arrow(right - 44, 272, left + 44, 272))
    body.append(_box(220, 80, "h before", ROLE["Q"], "the state before the step: it asks", 76))
    body.append(_box(500, 80, "h after", ROLE["Q"], "the state after the step", 76))
    body.append(_box(500, 216, "c", ROLE["V"], "the context: the weighted mean of k₁, k₂, k₃"))
    body.append(_arrow(262, 80, 458, 80))
    body.append(text(360, 72, "GRU", text_anchor="middle", font_size=13))
    body.append(_arrow(378, 216, 470, 216, ROLE["V"]))
    body.append(text(424, 208, "Σ a k", text_anchor="middle", font_size=12, fill=MUTED))
    body.append(_arrow(500, 196, 500, 100, ROLE["V"]))
    body.append(text(400, 132, "1987, written last", text_anchor="middle", font_size=12))
    body.append(_arrow(425, 118, 464, 98))
    body.append(_arrow(500, 60, 500, 44))
    body.append(text(500, 36, "03", text_anchor="middle", font_weight=700))
    told = (
        "An encoder reads 7 march 1987 in both directions and keeps a vector for each word. The"
        " decoder's state before the step is compared with each of them; their mean under the"
        " weights 0.05, 0.90 and 0.05 and the word written last go into the step to the next state."
    )
    return panel("look-back", 570.0, 340.0, "One step of the decoder", told, *body)


def _box(x: float, y: float, words: str, colour: str, told: str, width: float = 56.0) -> str:
    box = {"x": x - width / 2, "y": y - 18, "width": width, "height": 36, "rx": 6}
    return element(
        "g",
        hover(told),
        element("rect", **box, fill=PAPER, stroke=colour, stroke_width=2.5),
        text(x, y + 5, words, text_anchor="middle", fill=INK),
    )


def _arrow(x1: float, y1: float, x2: float, y2: float, colour: str = EDGE) -> str:
    ends = {"x1": float(x1), "y1": float(y1), "x2": float(x2), "y2": float(y2)}
    style = {"stroke": colour, "stroke_width": 2, "marker_end": f"url(#{_MARK})"}
    return element("line", **ends, **style)
