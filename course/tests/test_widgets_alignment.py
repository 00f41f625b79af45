"""Chapter 02's alignment matrix: pure pictures, controls, and what it says of broken models."""

from __future__ import annotations

import numpy as np
import pytest
from attend.widgets.alignment import AlignmentState, alignment_matrix

from .pictures import assert_shows_itself

SENTENCE = "7 march 1987"
LONGER = "saturday the 7th of march 1987 and may 2 2004"


def translate(words: list[str]) -> tuple[list[str], np.ndarray]:
    """Writes the words backwards, and looks where they stand."""
    return words[::-1], np.eye(len(words))[::-1]


def controls(view):
    chooser, own, slider = view.children[1:4]
    return chooser, own, slider


def test_both_pictures_tell_the_chosen_words_largest_weight() -> None:
    view = alignment_matrix(translate, [SENTENCE])
    assert_shows_itself(view, "matrix", "sentences")
    html = view.static()
    assert html.count("For 1987 the model looks most at 1987, with the weight 1.00.") >= 2
    assert "written march, source march: 1" in html  # on hover
    assert html.count('data-weight="1.0000"') == 3, "a line for each word, none without weight"


def test_the_slider_chooses_a_written_word() -> None:
    view = alignment_matrix(translate, [SENTENCE])
    _, _, slider = controls(view)
    assert (slider.min, slider.max) == (1, 3)
    slider.value = 2
    assert "For march the model looks most at march" in view.static()
    assert 'data-chosen="1"' in view.static()


def test_a_sentence_from_the_list_or_typed_is_translated() -> None:
    view = alignment_matrix(translate, [SENTENCE, LONGER])
    chooser, own, slider = controls(view)
    chooser.value = LONGER
    assert own.value == LONGER
    assert slider.max == 10
    slider.value = 10
    own.value = "May 2 2004"
    assert slider.max == slider.value == 3
    assert "For may the model looks most at may" in view.static()


def test_each_sentence_is_translated_once() -> None:
    asked = []

    def counted(words: list[str]) -> tuple[list[str], np.ndarray]:
        asked.append(" ".join(words))
        return translate(words)

    _, own, slider = controls(alignment_matrix(counted, [SENTENCE]))
    slider.value = 3
    slider.value = 1
    assert asked == [SENTENCE]
    own.value = LONGER
    assert asked == [SENTENCE, LONGER]


def unknown(words):
    raise ValueError("the translator does not know 'smarch'")


def broken(words):
    raise RuntimeError("shapes do not fit\nand more")


PROBLEMS = {
    "unknown word": (unknown, SENTENCE, "The translator does not know &#x27;smarch&#x27;"),
    "error": (broken, SENTENCE, "Translating stopped with RuntimeError: shapes do not fit."),
    "shape": (lambda w: (w, np.eye(2)), SENTENCE, "should be a table of 3 × 3"),
    "not a number": (lambda w: (w, np.full((3, 3), np.nan)), SENTENCE, "not a number"),
    "nothing written": (lambda w: ([], np.zeros((0, 3))), SENTENCE, "should be a table of 0 × 3"),
    "empty": (translate, " ", "Type a sentence"),
    "too long": (translate, "may " * 40, "That is 40 words; at most 32"),
}


@pytest.mark.parametrize(("function", "sentence", "told"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_cannot_be_drawn_is_one_sentence(function, sentence: str, told: str) -> None:
    html = alignment_matrix(function, [sentence]).static()
    assert told in html
    assert "<svg" not in html


def test_what_is_written_is_shown_as_text() -> None:
    def mark(words: list[str]) -> tuple[list[str], np.ndarray]:
        return ["<b>", "&"], np.full((2, len(words)), 1 / len(words))

    html = alignment_matrix(mark, [SENTENCE]).static()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_a_function_and_a_sentence_are_needed() -> None:
    with pytest.raises(ValueError, match="must be a function"):
        alignment_matrix("translate", [SENTENCE])  # type: ignore[arg-type]  # a learner's slip
    with pytest.raises(ValueError, match="at least one sentence"):
        alignment_matrix(translate, [])


def test_a_choice_beyond_the_last_word_is_the_last() -> None:
    from attend.widgets.alignment import _ask, draw

    answer = _ask(translate, SENTENCE)
    assert "For 7 the model looks" in draw(AlignmentState(SENTENCE, 9), answer)
