"""Watch it learn to look: a date translator at several moments of its training.

One panel shows where the decoder looked for each word it wrote, the other what it wrote, beside
what a decoder wrote that gets one fixed vector. Words can be hidden from the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.data import dates
from attend.theme import EDGE, INK, MUTED, PAPER, SHADE, UNSCALED
from attend.widgets.kit.svg import (
    beside,
    element,
    hover,
    ink_on,
    panel,
    readable,
    text,
    viridis,
)
from attend.widgets.kit.view import View, note

SENTENCE = "saturday the 7th of march 1987 and may 2 2004"
MAX_WORDS, MAX_WRITTEN = 20, 13
SEE = (
    "Drag the step back to 0, then slowly forwards: the bright cells move onto the rings, which"
    " mark the word that each written word translates. Then hide 2004 from attention."
)

Written = Sequence[str]
Look = Callable[[list[str], Collection[int]], tuple[Written, Any]]
Fixed = Callable[[list[str]], Written]


@dataclass(frozen=True)
class Moment:
    """Both translators after so many steps.

    ``look(words, hidden)`` returns the written words and the weights (T, S), 0 at hidden places;
    ``fixed(words)`` returns what the decoder with one fixed vector writes.
    """

    step: int
    look: Look
    fixed: Fixed


@dataclass(frozen=True)
class Answer:
    """What both wrote of a sentence; or `problem`, the sentence to show instead."""

    words: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    weights: np.ndarray | None = None
    fixed: tuple[str, ...] = ()
    problem: str = ""


def learning_to_look(moments: Sequence[Moment] | None = None, sentence: str = SENTENCE) -> View:
    """Show where a translator looks, from the first step of its training to the last.

    A slider chooses the step, a field takes a sentence, and each word has a button that hides its
    vector from the decoder. Without `moments`, the two small translators that the course ships are
    shown (``attend.data.date_translators.film``).

    Raises:
        ValueError: there is no moment.
    """
    shown = list(_shipped() if moments is None else moments)
    if not shown:
        raise ValueError("learning_to_look: pass at least one Moment, or nothing.")
    style = {"description_width": "64px"}
    wide = ipywidgets.Layout(width="min(560px, 98%)")
    step = ipywidgets.SelectionSlider(
        options=[(str(moment.step), place) for place, moment in enumerate(shown)],
        value=len(shown) - 1,
        description="step",
        layout=wide,
        style=style,
    )
    field = ipywidgets.Text(
        value=sentence, description="dates", continuous_update=False, layout=wide, style=style
    )
    buttons = ipywidgets.HBox(layout=ipywidgets.Layout(flex_flow="row wrap", width="100%"))
    hidden: set[int] = set()

    def picture() -> str:
        words = field.value.lower().split()
        at = step.value if isinstance(step.value, int) else 0
        return draw(shown[at].step, ask(shown[at], words, hidden), hidden)

    view = View("learning-to-look", SEE, [step, field, buttons], picture)

    def switch(place: int) -> Callable[[dict[str, Any]], None]:
        def switched(change: dict[str, Any]) -> None:
            (hidden.add if change["new"] else hidden.discard)(place)
            change["owner"].button_style = "warning" if change["new"] else ""
            view.refresh()

        return switched

    def lay_out(_change: object = None) -> None:
        hidden.clear()
        label = ipywidgets.Label("hide:", layout=ipywidgets.Layout(width="58px"))
        made: list[ipywidgets.Widget] = [label]
        for place, word in enumerate(field.value.lower().split()[:MAX_WORDS]):
            button = ipywidgets.ToggleButton(
                description=word,
                tooltip=f"hide {word} from attention",
                layout=ipywidgets.Layout(width="auto", margin="2px"),
            )
            button.observe(switch(place), names="value")
            made.append(button)
        buttons.children = tuple(made)
        view.refresh()

    lay_out()
    step.observe(view.refresh, names="value")
    field.observe(lay_out, names="value")
    return view


def _shipped() -> list[Moment]:
    """The film's frames; torch is imported here, other chapters do without it."""
    from attend.data import date_translators as shipped

    def moment(frame: shipped.Frame) -> Moment:
        def look(words: list[str], hidden: Collection[int]) -> tuple[Written, Any]:
            return shipped.translate("attention", frame.attention, words, tuple(hidden))

        def fixed(words: list[str]) -> Written:
            return shipped.translate("fixed vector", frame.fixed, words)[0]

        return Moment(frame.step, look, fixed)

    return [moment(frame) for frame in shipped.film()]


def ask(moment: Moment, words: Sequence[str], hidden: Collection[int]) -> Answer:
    """Let both translate, and check what comes back."""
    if not words:
        return Answer(problem="Type a sentence, such as 7 march 1987.")
    if len(words) > MAX_WORDS:
        return Answer(problem=f"That is {len(words)} words; at most {MAX_WORDS} fit here.")
    if len(hidden) == len(words):
        return Answer(problem="Every word is hidden: leave the decoder at least one.")
    try:
        dates.source_numbers(words)
    except ValueError as error:
        told = str(error)
        return Answer(problem=told[:1].upper() + told[1:])
    try:
        written, weights = moment.look(list(words), sorted(hidden))
        fixed = moment.fixed(list(words))
    except NotImplementedError:
        return Answer(problem="This picture waits for an exercise that is not started yet.")
    except Exception as error:  # the learner's functions may raise anything: report it as words
        told = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        return Answer(problem=f"Translating stopped with {told}.")
    target = tuple(str(word) for word in written)[:MAX_WRITTEN]
    table = np.asarray(weights, dtype=float)[: len(target)]
    if table.shape != (len(target), len(words)) or not target:
        return Answer(
            problem=f"The weights should be a table of {len(target)} × {len(words)} (written ×"
            f" source words); they have the shape {table.shape}."
        )
    if not np.isfinite(table).all() or table.min() < -1e-6:
        return Answer(problem="Some weights are negative, infinite or not a number.")
    try:
        right = tuple(dates.translation(words))
    except ValueError:  # not whole dates: there is no right translation
        right = ()
    other = tuple(str(word) for word in fixed)[:MAX_WRITTEN]
    return Answer(tuple(words), right, target, table, other)


def draw(step: int, answer: Answer, hidden: Collection[int] = ()) -> str:
    """Return both panels, or one sentence where there is nothing to draw."""
    if answer.problem or answer.weights is None:
        return note(answer.problem)
    return beside(_matrix(step, answer, answer.weights, hidden), _lines(step, answer))


def _matrix(step: int, answer: Answer, weights: np.ndarray, hidden: Collection[int]) -> str:
    """Weights as colours, written words × source words; rings at the words that they translate."""
    goals = dates.aligned(answer.words) if answer.right else []
    wide = max(24.0, min(46.0, 400.0 / len(answer.words)))
    tall, left, top = 25.0, 62.0, 116.0
    body = [
        text(left, 46, "source →", font_size=13, fill=MUTED),
        text(12, top - 8, "written", font_size=13, fill=MUTED),
    ]
    for j, word in enumerate(answer.words):
        x, y = left + wide * (j + 0.6), top - 8
        look = {"transform": f"rotate(-45 {x:.1f} {y:.1f})", "font_size": 13}
        gone = {"text_decoration": "line-through", "fill": MUTED} if j in hidden else {}
        body.append(text(x, y, readable(word), **(look | gone)))
    hits = 0
    for i, word in enumerate(answer.written):
        y = top + tall * i
        body.append(text(left - 8, y + 17, readable(word), font_size=13, text_anchor="end"))
        for j, source in enumerate(answer.words):
            weight = float(weights[i, j])
            colour = SHADE if j in hidden else viridis(weight)
            words = f"{word} looks at {readable(source, 30)}: {weight:.3f}"
            words += ", hidden" if j in hidden else ""
            at = {"x": left + wide * j, "y": y, "width": wide, "height": tall}
            cell = element("rect", hover(words), **at, fill=colour, stroke=PAPER)
            body.append(cell)
        if i < len(goals):
            hits += int(weights[i].argmax()) == goals[i]
            x, ground = left + wide * (goals[i] + 0.5), viridis(weights[i, goals[i]])
            ring = {"fill": "none", "stroke_width": 2, "data_part": "goal"}
            ring["stroke"] = INK if goals[i] in hidden else ink_on(ground)
            body.append(element("circle", cx=x, cy=y + tall / 2, r=7.0, **ring))
    bottom = top + tall * max(len(answer.written), 7)
    for i in range(20):
        box = {"x": left + 8.0 * i, "y": bottom + 14, "width": 8.5, "height": 10}
        body.append(element("rect", **box, fill=viridis(i / 19)))
    body.append(text(left + 168, bottom + 24, "weight from 0 (dark) to 1", font_size=12))
    seen = min(len(goals), len(answer.written))
    told = f"After {step} steps"
    if goals:
        told += f", {hits} of {seen} largest weights lie on the ring."
    else:
        told += ", these are the weights (these words are not whole dates)."
    body.append(text(left, bottom + 48, told, font_size=13))
    width = left + wide * len(answer.words) + 40
    return panel("matrix", max(width, 400.0), bottom + 60, "Where it looks", told, *body)


def _lines(step: int, answer: Answer) -> str:
    """What should be written, and what both wrote; wrong words are framed in red and counted."""
    rows = [("with attention", answer.written), ("one fixed vector", answer.fixed)]
    rows = [("right", answer.right), *rows] if answer.right else rows
    body, told, y = [], [], 60.0
    for name, written in rows:
        label = text(12, y, name, font_size=13, fill=MUTED)
        body.append(element("g", hover(f"{name}: {' '.join(written)}"), label))
        missing = max(len(answer.right) - len(written), 0)
        wrong = missing
        for place, word in enumerate((*written, *("–",) * missing)):
            bad = bool(answer.right) and word != (*answer.right, *("",) * 20)[place]
            wrong += bad and place < len(written)
            x, line = 38.0 + 46.0 * (place % 7), y + 24 + 26 * (place // 7)
            style: dict[str, object] = {"text_anchor": "middle", "font_size": 15}
            if bad:
                style |= {"font_weight": 700, "data_part": "wrong"}
                box = {"x": x - 21, "y": line - 16, "width": 42, "height": 22, "rx": 4}
                look = {"fill": UNSCALED, "fill_opacity": 0.15, "stroke": UNSCALED}
                body.append(element("rect", **box, **look, stroke_width=2))
            body.append(text(x, line, readable(word), **style))
        if answer.right and name != "right":
            told.append(f"{name}: {wrong} wrong" if wrong else f"{name}: all right")
        y += 62 + 26 * ((max(len(written), len(answer.right), 1) - 1) // 7)
    body.append(element("line", x1=12, x2=348, y1=y - 24, y2=y - 24, stroke=EDGE, stroke_width=0.5))
    for words in told:
        body.append(text(12, y, words, font_size=13))
        y += 20
    words = f"After {step} steps: " + ("; ".join(told) or "no right translation is known") + "."
    return panel("written", 360.0, y, "What both write", words, *body)
