"""Chapter 15's matrix memory: it draws what the learner's own functions wrote."""

from __future__ import annotations

import math

import ipywidgets
import numpy as np
import pytest
from attend.widgets import matrix_memory
from attend.widgets.matrix_memory import FONT, LETTERS, WIDTH, draw, keys, values, written
from attend_solutions.linear_attention import delta_rule_update, recurrent_form

from .pictures import SVG, assert_shows_itself, controls, panels


def errors(kind: str, rule: str, pairs: int) -> list[float]:
    """What the picture says of each letter read back."""
    answer = written(pairs, kind, rule, recurrent_form, delta_rule_update)
    drawn = panels(draw(answer, pairs, kind, rule))["letters"]
    found = [group.get("data-error") for group in drawn.iter(f"{SVG}g")]
    return [float(error) for error in found if error is not None]


def test_it_shows_itself_with_and_without_functions():
    assert_shows_itself(matrix_memory(), "memory", "letters")
    assert_shows_itself(matrix_memory(recurrent_form), "memory", "letters")
    assert_shows_itself(matrix_memory(recurrent_form, delta_rule_update), "memory", "letters")


def test_letters_are_different_and_keys_have_norm_1():
    assert all(len(drawn.replace(" ", "")) == 25 for drawn in FONT.values())
    assert len({v.tobytes() for v in values()}) == len(LETTERS) == 24
    for kind in ("random", "orthogonal"):
        np.testing.assert_allclose(np.linalg.norm(keys(kind), axis=1), 1.0)
    same = keys("orthogonal")[:WIDTH] @ keys("orthogonal")[:WIDTH].T
    np.testing.assert_allclose(same, np.eye(WIDTH), atol=1e-12)


def test_the_picture_is_the_functions_own_matrix():
    memory = keys("random")[:5].T @ values()[:5]
    for function in (None, recurrent_form):
        answer = written(5, "random", "sum", function, None)
        drawn = panels(draw(answer, 5, "random", "sum"))["memory"]
        cells = [r.get("data-value") for r in drawn.iter(f"{SVG}rect")]
        shown = [float(cell) for cell in cells if cell is not None]
        np.testing.assert_allclose(shown, memory.ravel(), atol=6e-5)


def test_orthogonal_keys_lose_nothing_and_random_ones_do():
    assert errors("orthogonal", "sum", WIDTH) == [0.0] * WIDTH
    assert np.mean(errors("random", "sum", 24)) > 1, "as the text says, larger than the letters"


def test_the_delta_rule_overwrites_where_the_sum_adds():
    assert errors("orthogonal", "delta", 20) == [0.0] * WIDTH
    summed = errors("orthogonal", "sum", 20)
    assert summed[:12] == [0.0] * 12
    assert summed[12:] == [1.0] * 4, "what is wrong is the old letter, whole"
    assert errors("random", "delta", 20)[-1] == 0.0, "the newest letter is always right"


def test_controls_redraw():
    view = matrix_memory(recurrent_form, delta_rule_update)
    (pairs,) = controls(view, ipywidgets.IntSlider)
    kind, rule = controls(view, ipywidgets.Dropdown)
    seen = [view.static()]
    for control, value in ((rule, "delta"), (kind, "random"), (pairs, 3)):
        control.value = value
        seen.append(view.static())
    assert len(set(seen)) == 4


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda *_: (_ for _ in ()).throw(NotImplementedError), "waits for the exercise"),
        (lambda *_: 1 / 0, "stopped with ZeroDivisionError"),
        (lambda q, k, v: (v, math.nan * k.T @ v), "NaN or infinity"),
        (lambda q, k, v: (v, v), "memory of shape (16, 25)"),
    ],
    ids=["not started", "raises", "NaN", "wrong shape"],
)
def test_a_function_that_fails_gives_a_sentence(wrong, told):
    html = draw(written(4, "random", "sum", wrong, None), 4, "random", "sum")
    assert told in html
    assert "<svg" not in html
