"""Chapter 22's picture: what memories have left of a text, by the learner's own functions."""

from __future__ import annotations

import ipywidgets
import numpy as np
import pytest
from attend.data import gated_words
from attend.widgets import fading_gates, fading_memory
from attend.widgets.fading_memory import (
    DECAYS,
    LONGEST,
    START,
    draw,
    left_of_decays,
    left_of_gates,
)
from attend_solutions.gated_recurrence import (
    gated_linear_attention,
    retention_recurrent,
    token_shift,
)

from .pictures import SVG, assert_shows_itself, controls, panels


def shares(html: str) -> np.ndarray:
    """What the panel's cells say is left: (4, T)."""
    found = [r.get("data-left") for r in panels(html)["fading"].iter(f"{SVG}rect")]
    return np.array([float(share) for share in found if share is not None]).reshape(4, -1)


def test_each_shows_itself_with_and_without_a_kernel():
    assert_shows_itself(fading_memory(), "fading")
    assert_shows_itself(fading_memory(retention_recurrent), "fading")
    assert_shows_itself(fading_gates(token_shift, gated_linear_attention), "fading")


@pytest.mark.parametrize("decays", DECAYS.values(), ids=DECAYS)
@pytest.mark.parametrize("function", [None, retention_recurrent], ids=["none", "learner's"])
def test_a_character_fades_by_a_power_of_its_age(decays, function):
    answer = left_of_decays(7, decays, function)
    drawn = shares(draw(answer, "abcdefg", 1, [""] * 4, ""))
    np.testing.assert_allclose(drawn, np.array(decays)[:, None] ** np.arange(6, -1, -1), atol=6e-5)


@pytest.mark.parametrize("layer", [0, 1])
def test_gates_leave_what_their_products_leave(layer):
    words = "import this\nfor"
    (found,) = left_of_gates(words, layer, token_shift, gated_linear_attention).arrays
    seen: dict[str, np.ndarray] = {}
    gated_words.read(gated_words.encode(words), token_shift, gated_linear_attention, seen=seen)
    gates, k = seen[f"{layer}.gates"], seen[f"{layer}.keys"]
    after = gates.sum(axis=1, keepdims=True) - np.cumsum(gates, axis=1)
    want = np.linalg.norm(np.exp(after) * k, axis=-1) / np.linalg.norm(k, axis=-1)
    np.testing.assert_allclose(found, want, rtol=1e-9)
    np.testing.assert_allclose(found[:, -1], 1.0)


def test_the_slider_says_what_is_left_of_a_character():
    view = fading_memory(retention_recurrent)
    (slider,) = controls(view, ipywidgets.IntSlider)
    slider.value = len(START) - 1  # one before the end
    assert "decay 0.5 50 %, decay 0.75 75 %" in view.static()
    slider.value = LONGEST  # beyond the text: its last character
    assert "0 characters before the end: decay 0.5 100 %" in view.static()


def test_text_and_decays_redraw():
    view = fading_memory(retention_recurrent)
    (words,), (decays,) = controls(view, ipywidgets.Text), controls(view, ipywidgets.Dropdown)
    words.value = "abc" * 40
    assert shares(view.static()).shape == (4, LONGEST)
    decays.value = list(DECAYS)[-1]
    assert (shares(view.static()) == 1).all()
    words.value = "a"
    assert "at least two characters" in view.static()


def test_a_function_that_is_not_started_or_fails_gives_a_sentence():
    def later(*_args):
        raise NotImplementedError

    def wrong(q, k, v, decay):
        return v

    assert "not started yet" in fading_memory(later).static()
    assert "waits for the exercise" in fading_gates(token_shift, later).static()
    assert "data-left" not in fading_memory(wrong).static()
