"""What chapter 22's memories have left of each character of a text, head by head.

Four heads with a decay each, by the learner's retention; or the heads of the trained model, whose
gates come from the text, by the learner's gated linear attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import INK, MUTED
from attend.widgets.kit.learner import Answer, ask
from attend.widgets.kit.svg import element, hover, number, panel, readable, text, viridis
from attend.widgets.kit.view import View, note

START = "Pack my box with five dozen liquor jugs"
LONGEST = 44
FAST = "fast: 0.5, 0.75, 0.9, 0.97"
DECAYS = {
    FAST: (0.5, 0.75, 0.9, 0.97),
    "RetNet's: 1 − 1/32 to 1 − 1/256": tuple(1 - 2.0**-n for n in (5, 6, 7, 8)),
    "none: chapter 15's sum": (1.0, 1.0, 1.0, 1.0),
}
SEE = (
    "Each row is a memory that fades by a factor of its own with every character: bright is still "
    "there, dark is gone. Choose a character and other decays."
)
SEE_GATES = (
    "Here the text itself decides what fades: the rows are heads of a trained model. Look for "
    "characters after which much has gone dark, and compare the heads."
)


def fading_memory(retention_recurrent: Callable[..., Any] | None = None) -> View:
    """Type a text; see what four fading memories have left of each character at its end.

    Args:
        retention_recurrent: the learner's; without it the fading is done here.
    """
    words, place = _controls()
    decays = _dropdown("decays", [(name, name) for name in DECAYS])

    def picture() -> str:
        shown, chosen = _shown(words.value), DECAYS[str(decays.value)]
        answer = left_of_decays(len(shown), chosen, retention_recurrent)
        names = [f"decay {decay:.4g}" for decay in chosen]
        return draw(answer, shown, place.value, names, "What is left of each character")

    return _view(SEE, [words, decays, place], picture)


def fading_gates(
    token_shift: Callable[..., Any], gated_linear_attention: Callable[..., Any]
) -> View:
    """Type a text; see what the trained model's heads have left of each character at its end.

    Args:
        token_shift: the learner's.
        gated_linear_attention: the learner's.
    """
    words, place = _controls()
    layer = _dropdown("layer", [("first", 0), ("second", 1)])

    def picture() -> str:
        shown, chosen = _shown(words.value), int(layer.value or 0)
        answer = left_of_gates(shown, chosen, token_shift, gated_linear_attention)
        names = [f"head {head + 1}" for head in range(4)]
        label = f"What layer {chosen + 1} of the trained model has left of each character"
        return draw(answer, shown, place.value, names, label)

    return _view(SEE_GATES, [words, layer, place], picture)


def _controls() -> tuple[ipywidgets.Text, ipywidgets.IntSlider]:
    wide, style = ipywidgets.Layout(width="min(440px, 98%)"), {"description_width": "84px"}
    words = ipywidgets.Text(
        value=START, description="text", continuous_update=False, layout=wide, style=style
    )
    place = ipywidgets.IntSlider(
        value=30, min=1, max=LONGEST, description="character", layout=wide, style=style
    )
    return words, place


def _dropdown(name: str, options: list[tuple[str, Any]]) -> ipywidgets.Dropdown:
    wide, style = ipywidgets.Layout(width="min(440px, 98%)"), {"description_width": "84px"}
    return ipywidgets.Dropdown(options=options, description=name, layout=wide, style=style)


def _view(see: str, controls: list[Any], picture: Callable[[], str]) -> View:
    view = View("fading-memory", see, controls, picture)
    for control in controls:
        control.observe(view.refresh, names="value")
    return view


def _shown(words: str) -> str:
    """The characters that are drawn: printable ASCII, at most LONGEST."""
    return "".join(letter for letter in words if " " <= letter <= "~")[:LONGEST]


def left_of_decays(
    length: int, decays: tuple[float, ...], retention_recurrent: Callable[..., Any] | None
) -> Answer:
    """What is left of each of ``length`` tokens, (heads, length): each has a key of its own."""
    if retention_recurrent is None:
        ages = np.arange(length)[::-1]
        return Answer((np.asarray(decays)[:, None] ** ages,))
    heads = len(decays)
    keys = np.broadcast_to(np.eye(length), (heads, length, length))

    def last(k: np.ndarray, v: np.ndarray, decay: np.ndarray) -> Any:
        return np.asarray(retention_recurrent(k, k, v, decay)[1])[..., 0]

    given = (keys, np.ones((heads, length, 1)), np.array(decays))
    return ask(last, "retention_recurrent", given, {"memory": (heads, length)})


def left_of_gates(
    shown: str,
    layer: int,
    token_shift: Callable[..., Any],
    gated_linear_attention: Callable[..., Any],
) -> Answer:
    """What a trained layer has left of each character, (4, T): of the norm of what it wrote."""
    from attend.data import gated_words

    tokens = gated_words.encode(shown)

    def last(tokens: np.ndarray) -> Any:
        seen: dict[str, np.ndarray] = {}
        gated_words.read(tokens, token_shift, gated_linear_attention, seen=seen)
        k, gates = seen[f"{layer}.keys"], seen[f"{layer}.gates"]
        apart = np.broadcast_to(np.eye(len(tokens)), (*k.shape[:-1], len(tokens)))
        _, memory = gated_linear_attention(k, k, apart, gates, 16)  # column s: k_s, faded
        written = np.linalg.norm(k, axis=-1)
        return np.linalg.norm(memory, axis=-2) / np.maximum(written, 1e-12)

    shape = {"what is left": (gated_words.HEADS, len(tokens))}
    return ask(last, "gated_linear_attention", (tokens,), shape)


def draw(answer: Answer, shown: str, place: int, names: list[str], label: str) -> str:
    """Return the panel, or the sentence that stands in its place."""
    if len(shown) < 2:
        return note("Type at least two characters of ASCII.")
    if answer.problem:
        return note(answer.problem)
    above = note(answer.remark) if answer.remark else ""
    place = min(place, len(shown))
    (kept,) = answer.arrays
    left, top, tall = 100.0, 62.0, 30.0
    wide = 540.0 / LONGEST
    body, said = [], []
    for row, (name, shares) in enumerate(zip(names, kept, strict=True)):
        y = top + tall * row
        end = {"text_anchor": "end", "font_size": 12}
        body.append(text(left - 6, y + 18, name, **end))
        for column, share in enumerate(shares):
            words = hover(f"{readable(shown[column])}, {name}: {100 * share:.1f} % is left")
            box = {"x": left + wide * column, "y": y, "width": wide, "height": tall - 4}
            fill = viridis(float(share))
            body.append(element("rect", words, **box, fill=fill, data_left=f"{share:.4f}"))
        share = 100 * float(shares[place - 1])
        said.append(f"{share:.3g} %" if share >= 1e-3 else "nothing")
        at = left + wide * len(shown) + 8
        body.append(text(at, y + 18, said[-1], font_size=12, font_weight=600))
    bottom = top + tall * len(names)
    look = {"text_anchor": "middle", "font_size": 13}
    for column, letter in enumerate(shown):
        at = left + wide * (column + 0.5)
        body.append(text(at, bottom + 12, readable(letter), **look))
    frame = {"x": left + wide * (place - 1), "y": top - 2, "width": wide}
    body.append(
        element("rect", **frame, height=bottom - top, fill="none", stroke=INK, stroke_width=2)
    )
    age = len(shown) - place
    told = f"Left of {readable(shown[place - 1])}, {age} characters before the end: "
    told += ", ".join(f"{name} {share}" for name, share in zip(names, said, strict=True)) + "."
    brief = f"Character {place}, {readable(shown[place - 1])}, is {age} before the end."
    body.append(text(12, 46, brief, font_size=13))
    for step in range(9):
        box = {"x": left + 22 * step, "y": bottom + 26, "width": 22, "height": 10}
        body.append(element("rect", **box, fill=viridis(step / 8)))
    key = f"from {number(0.0)} (dark) to 1 (bright) of what was written"
    body.append(text(left + 206, bottom + 35, key, font_size=11, fill=MUTED))
    return above + panel("fading", 720.0, bottom + 48, label, told, *body)
