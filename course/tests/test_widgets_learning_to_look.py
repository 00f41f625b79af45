"""Chapter 02's pictures: the translator that learns to look, and the diagram of one step."""

from __future__ import annotations

import ipywidgets
import numpy as np
import pytest
from attend import widgets
from attend.data import dates
from attend.widgets.learning_to_look import Answer, Moment, ask, draw, learning_to_look
from attend.widgets.look_back import look_back

from .pictures import assert_shows_itself, controls

SENTENCE = "saturday the 7th of march 1987 and may 2 2004"


def right(words: list[str], hidden=()) -> tuple[list[str], np.ndarray]:
    """Writes what is right, and looks where it stands; at the first word left if that is hidden."""
    written, places = dates.translation(words), [*dates.aligned(words), 0]
    weights = np.zeros((len(written), len(words)))
    left = [place for place in range(len(words)) if place not in hidden]
    for row, place in zip(weights, places, strict=True):
        row[place if place in left else left[0]] = 1
    return written, weights


def fixed(words: list[str]) -> list[str]:
    return ["1970", "01", "01", "end"]


def test_both_pictures_say_what_is_right_and_wrong() -> None:
    view = learning_to_look([Moment(0, right, fixed)], SENTENCE)
    assert_shows_itself(view, "matrix", "written")
    html = view.static()
    assert "After 0 steps, 6 of 6 largest weights lie on the ring." in html
    assert html.count('data-part="goal"') == 6
    assert "with attention: all right" in html
    assert "one fixed vector: 7 wrong" in html  # 4 written, of which none stands right; 3 missing
    assert html.count('data-part="wrong"') == 7
    assert "1987 looks at 1987: 1.000" in html


def test_the_slider_goes_from_moment_to_moment() -> None:
    def early(words: list[str], hidden=()) -> tuple[list[str], np.ndarray]:
        return ["end"], np.full((1, len(words)), 1 / len(words))

    view = learning_to_look([Moment(0, early, fixed), Moment(160, right, fixed)], SENTENCE)
    (slider,) = controls(view, ipywidgets.SelectionSlider)
    assert "After 160 steps" in view.static()
    slider.index = 0
    assert "After 0 steps, 0 of 1 largest weights" in view.static()
    assert "with attention: 7 wrong" in view.static()


def test_a_button_hides_its_word_from_the_decoder() -> None:
    asked: list[tuple[int, ...]] = []

    def look(words: list[str], hidden=()) -> tuple[list[str], np.ndarray]:
        asked.append(tuple(hidden))
        return right(words, hidden)

    view = learning_to_look([Moment(160, look, fixed)], SENTENCE)
    buttons = controls(view, ipywidgets.ToggleButton)
    assert [button.description for button in buttons] == SENTENCE.split()
    buttons[9].value = True
    assert asked[-1] == (9,)
    html = view.static()
    assert "2004 looks at 2004: 0.000, hidden" in html
    assert "5 of 6 largest weights" in html
    buttons[9].value = False
    assert asked[-1] == ()


def test_a_typed_sentence_gets_its_own_buttons() -> None:
    view = learning_to_look([Moment(160, right, fixed)], SENTENCE)
    controls(view, ipywidgets.ToggleButton)[0].value = True
    (field,) = controls(view, ipywidgets.Text)
    field.value = "7 march 1987"
    found = [button.description for button in controls(view, ipywidgets.ToggleButton)]
    assert found == ["7", "march", "1987"]
    assert "3 of 3 largest weights" in view.static()
    assert ", hidden" not in view.static()


def test_the_shipped_film_shows_itself() -> None:
    view = widgets.learning_to_look()
    assert_shows_itself(view, "matrix", "written")
    (slider,) = controls(view, ipywidgets.SelectionSlider)
    assert slider.options[0][0] == "0"
    assert slider.options[-1][0] == "160"
    slider.index = 0
    assert "with attention: all right" not in view.static()


def shape(words: list[str], hidden=()) -> tuple[list[str], np.ndarray]:
    return ["end"], np.eye(2)


def nan(words: list[str], hidden=()) -> tuple[list[str], np.ndarray]:
    return ["end"], np.full((1, len(words)), np.nan)


def broken(words: list[str], hidden=()) -> tuple[list[str], np.ndarray]:
    raise RuntimeError("shapes do not fit\nand more")


def waiting(words: list[str], hidden=()) -> tuple[list[str], np.ndarray]:
    raise NotImplementedError


PROBLEMS = {
    "empty": (right, "", (), "Type a sentence"),
    "too long": (right, "may " * 21, (), "That is 21 words"),
    "unknown": (right, "7 smarch 1987", (), "The translator does not know 'smarch'"),
    "all hidden": (right, "7 march 1987", (0, 1, 2), "Every word is hidden"),
    "shape": (shape, "7 march 1987", (), "should be a table of 1 × 3"),
    "not a number": (nan, "7 march 1987", (), "not a number"),
    "error": (broken, "7 march 1987", (), "stopped with RuntimeError: shapes do not fit."),
    "not started": (waiting, "7 march 1987", (), "waits for an exercise"),
}


@pytest.mark.parametrize(("look", "sentence", "hidden", "told"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_cannot_be_drawn_is_one_sentence(look, sentence, hidden, told: str) -> None:
    answer = ask(Moment(0, look, fixed), sentence.split(), hidden)
    assert told in answer.problem
    assert "<svg" not in draw(0, answer)


def test_words_that_are_no_date_have_no_right_translation() -> None:
    def anything(words: list[str], hidden=()) -> tuple[list[str], np.ndarray]:
        return ["end"], np.full((1, len(words)), 1 / len(words))

    answer = ask(Moment(0, anything, fixed), ["march", "the"], ())
    assert answer.right == ()
    html = draw(0, answer)
    assert 'data-part="wrong"' not in html
    assert "not whole dates" in html


def test_what_is_written_is_shown_as_text() -> None:
    answer = Answer(("7",), (), ("<b>",), np.ones((1, 1)), ("&",))
    assert "<b>" not in draw(0, answer)


def test_a_moment_is_needed() -> None:
    with pytest.raises(ValueError, match="at least one Moment"):
        learning_to_look([])


def test_the_diagram_shows_itself() -> None:
    assert_shows_itself(look_back(), "look-back")
