"""The alignment matrix: a sentence, what the model writes, and where it looked for each word.

The learner's own functions are the model: `translate` runs them on the chosen sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import EDGE, MUTED, ROLE, SHADE
from attend.widgets.kit.heatmap import heat_map
from attend.widgets.kit.svg import beside, element, hover, panel, readable, text
from attend.widgets.kit.view import View, note

MAX_WORDS = 32
"""Of a sentence, and of what is written: more words than that are not legible."""

SEE = (
    "Each row is one word the model writes, and says where it looked: the bright cells step"
    " through the source in the order of the target, not of the source."
)

Translate = Callable[[list[str]], tuple[Sequence[str], Any]]


@dataclass(frozen=True)
class AlignmentState:
    """The source sentence, and which written word is chosen (counted from 0)."""

    sentence: str
    chosen: int = 0


def alignment_matrix(translate: Translate, sentences: Sequence[str]) -> View:
    """Show the weights with which a model looks at the source, word by written word.

    Choose a sentence from the list or type one, then a written word with the slider (arrow keys
    move it); resting the pointer on a cell tells its weight. `translate(words)` returns the words
    that the model writes and their weights; a ValueError of it (an unknown word) is shown in the
    picture's place, other errors as one sentence that names them.

    Shapes: weights (T, S), T words written, S = len(words). Raises ValueError when `translate` is
    not a function or there is no sentence.
    """
    if not callable(translate):
        raise ValueError(
            "alignment_matrix: translate must be a function from source words to written words and"
            f" weights; got {type(translate).__name__}. Pass it without parentheses."
        )
    examples = [str(sentence) for sentence in sentences]
    if not examples:
        raise ValueError("alignment_matrix: pass at least one sentence to choose from.")
    wide = ipywidgets.Layout(width="min(640px, 98%)")
    chooser = ipywidgets.Dropdown(options=examples, description="sentence", layout=wide)
    own = ipywidgets.Text(
        value=examples[0],
        description="or type",
        continuous_update=False,
        layout=wide,
        tooltip="a sentence of your own; Enter translates it",
    )
    slider = ipywidgets.IntSlider(
        value=1,
        min=1,
        max=1,
        description="word",
        tooltip="which of the written words is looked at",
        layout=ipywidgets.Layout(width="min(420px, 98%)"),
    )
    known: dict[str, _Answer] = {}

    def answer() -> _Answer:
        if own.value not in known:
            known.clear()
            known[own.value] = _ask(translate, own.value)
        return known[own.value]

    def shown() -> str:
        return draw(AlignmentState(own.value, slider.value - 1), answer())

    view = View("alignment-matrix", SEE, [chooser, own, slider], shown)

    def fit_slider() -> None:
        slider.max = max(len(answer().written), 1)

    def other_sentence(_change: object) -> None:
        fit_slider()
        view.refresh()

    fit_slider()
    view.refresh()
    chooser.observe(lambda change: setattr(own, "value", change["new"]), names="value")
    own.observe(other_sentence, names="value")
    slider.observe(view.refresh, names="value")
    return view


@dataclass(frozen=True)
class _Answer:
    """What a model made of a sentence; or `problem`, the sentence to show instead."""

    words: tuple[str, ...]
    written: tuple[str, ...] = ()
    weights: np.ndarray | None = None
    problem: str = ""


def _ask(translate: Translate, sentence: str) -> _Answer:
    """Translate a sentence and check what comes back."""
    words = tuple(sentence.lower().split())
    if not words:
        return _Answer(words, problem="Type a sentence, such as 7 march 1987.")
    if len(words) > MAX_WORDS:
        return _Answer(words, problem=f"That is {len(words)} words; at most {MAX_WORDS} fit here.")
    try:
        written, weights = translate(list(words))
    except ValueError as error:
        return _Answer(words, problem=_capital(str(error)))
    except Exception as error:  # the learner's functions may raise anything: report it as words
        told = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        return _Answer(words, problem=f"Translating stopped with {told}.")
    target = tuple(str(word) for word in written)[:MAX_WORDS]
    array = np.asarray(weights, dtype=float)[: len(target)]
    if array.shape != (len(target), len(words)) or not target:
        return _Answer(
            words,
            problem=f"The weights should be a table of {len(target)} × {len(words)} (written ×"
            f" source words); they have the shape {array.shape}.",
        )
    if not np.isfinite(array).all() or array.min() < -1e-6:
        return _Answer(words, problem="Some weights are negative, infinite or not a number.")
    return _Answer(words, target, array)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def draw(state: AlignmentState, answer: _Answer) -> str:
    """Return the matrix, and both sentences with lines between them; or one sentence."""
    if answer.problem or answer.weights is None:
        return note(answer.problem)
    chosen = min(state.chosen, len(answer.written) - 1)
    row, word = answer.weights[chosen], answer.written[chosen]
    best = int(row.argmax())
    said = (
        f"For {word} the model looks most at {readable(answer.words[best], 14)}, with the weight"
        f" {row[best]:.2f}."
    )
    matrix = heat_map(
        "matrix",
        "Where the model looked",
        said,
        answer.weights,
        answer.written,
        answer.words,
        chosen=chosen,
        axes=("written", "source"),
        width=max(470.0, 130.0 + 24.0 * len(answer.words)),
    )
    return beside(matrix, _sentences(answer, chosen, said))


def _sentences(answer: _Answer, chosen: int, said: str) -> str:
    """Draw both sentences, one above the other, and each weight as a line between them."""
    assert answer.weights is not None
    count = max(len(answer.words), len(answer.written))
    step = 62.0 if count <= 8 else 44.0 if count <= 14 else 34.0
    left, width = 58.0, max(470.0, 80.0 + step * count)
    top, bottom = 66.0, 206.0
    size = 14 if count <= 8 else 12
    above = _spread(len(answer.written), left, width)
    below = _spread(len(answer.words), left, width)
    lines, ahead = [], []
    for (i, j), weight in np.ndenumerate(answer.weights):
        if weight < 0.02:
            continue
        words = f"{answer.written[i]} → {readable(answer.words[j], 20)}: {weight:.3f}"
        mine = i == chosen
        line = element(
            "path",
            hover(words),
            d=f"M{above[i]:.1f} {top + 8:.1f}L{below[j]:.1f} {bottom - 18:.1f}",
            fill="none",
            stroke=ROLE["Q"] if mine else EDGE,
            stroke_width=0.75 + 7 * float(weight),
            opacity=0.9 if mine else 0.35,
            data_weight=f"{weight:.4f}",
        )
        (ahead if mine else lines).append(line)
    body = [
        text(12, top, "written", font_size=13, fill=MUTED),
        text(12, bottom - 3, "source", font_size=13, fill=MUTED),
        *lines,
        *ahead,
    ]
    row = answer.weights[chosen]
    for i, word in enumerate(answer.written):
        weight = 700 if i == chosen else 400
        style = {"text_anchor": "middle", "font_size": size, "font_weight": weight}
        body.append(text(above[i], top, readable(word), **style))
    for j, word in enumerate(answer.words):
        tall = 18.0 * float(row[j])
        bar = {"x": below[j] - 9, "y": bottom - 16, "width": 18, "height": 18}
        body.append(element("rect", fill=SHADE, **bar))
        bar |= {"y": bottom + 2 - tall, "height": tall}
        body.append(element("rect", fill=ROLE["K"], stroke=EDGE, stroke_width=0.5, **bar))
        x, y = below[j] + 3, bottom + 16
        style = {"font_size": size, "text_anchor": "end"}
        turned = f"rotate(-40 {x:.1f} {y:.1f})"
        body.append(text(x, y, readable(word, 11), transform=turned, **style))
    label = f"Where “{readable(answer.written[chosen], 14)}” looks"
    return panel("sentences", width, bottom + 72, label, said, *body)


def _spread(count: int, left: float, right: float) -> list[float]:
    """Return the middles of `count` equal pieces between left and right."""
    piece = (right - left) / count
    return [left + piece * (i + 0.5) for i in range(count)]
