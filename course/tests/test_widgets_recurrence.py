"""Chapter 01's pictures: right numbers, words for every failure, alive without a kernel."""

from __future__ import annotations

import math

import ipywidgets
import numpy as np
import pytest
from attend.data import knock as networks
from attend.widgets import View, cell_diagram, gradient_explorer, knock, unrolled_network
from attend.widgets.gradient import (
    MATRICES,
    NETWORKS,
    RADII,
    STEPS,
    WIDTH,
    GradientState,
    draw,
    measure,
    unit_radius,
)
from attend.widgets.knock import draw as draw_knock
from attend_solutions.recurrence import gradient_norms, gru_cell, lstm_cell, rnn_forward, rnn_step

from .pictures import SVG, assert_shows_itself, controls, panels


def explorer(norms=gradient_norms, forward=rnn_forward) -> View:
    return gradient_explorer(norms, forward)


def test_it_shows_itself_with_and_without_a_kernel() -> None:
    assert_shows_itself(explorer(), "curve", "map")


@pytest.mark.parametrize("matrix", MATRICES)
def test_matrices_have_radius_one(matrix: str) -> None:
    eigenvalues = np.linalg.eigvals(unit_radius(matrix, 3))
    assert np.abs(eigenvalues).max() == pytest.approx(1.0)


def test_a_stretched_rotation_follows_the_powers_of_the_radius() -> None:
    found = measure(gradient_norms, rnn_forward, "linear, no tanh", "stretched rotation", 0)
    assert found.norms.shape == (len(RADII), STEPS)
    for radius, norms in zip(RADII, found.norms, strict=True):
        np.testing.assert_allclose(norms[::-1], radius ** np.arange(STEPS), rtol=1e-9)


def test_tanh_takes_away_and_larger_inputs_take_more() -> None:
    linear, small, large = (
        measure(gradient_norms, rnn_forward, network, "random", 0).norms[:, 0]
        for network in NETWORKS
    )
    assert (small < linear).all()
    assert (large < small).all()


def test_controls_redraw() -> None:
    view = explorer()
    (slider,) = controls(view, ipywidgets.SelectionSlider)
    network, matrix = controls(view, ipywidgets.Dropdown)
    slider.value, matrix.value = 1.1, "stretched rotation"
    curve = panels(view.static())["curve"].get("aria-label", "")
    assert f"the norm is {1.1**40:.2f}" in curve
    assert "radius 1.1 (linear, no tanh)" in curve
    network.value = "tanh, inputs of size 1"
    after = panels(view.static())
    assert "tanh, inputs of size 1" in after["curve"].get("aria-label", "")
    framed = [r.get("data-chosen") for r in after["map"].iter(f"{SVG}rect") if r.get("data-chosen")]
    assert framed == [str(RADII.index(1.1))]


def test_the_map_tells_numbers_beyond_its_colours() -> None:
    cells = panels(explorer().static())["map"].iter(f"{SVG}rect")
    told = [title.text or "" for cell in cells for title in cell.iter(f"{SVG}title")]
    (words,) = [words for words in told if words.startswith("radius 0.5, steps back 40:")]
    assert float(words.rpartition(": ")[2]) < -10


def test_each_network_is_measured_once() -> None:
    calls = []

    def counted(states, w_h):
        calls.append(states.shape)
        return gradient_norms(states, w_h)

    view = explorer(counted)
    assert calls == [(1, STEPS, WIDTH)] * len(RADII)
    (slider,) = controls(view, ipywidgets.SelectionSlider)
    slider.value = 1.5
    assert len(calls) == len(RADII)


def waits(*_args):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("norms", "forward", "message"),
    [
        (waits, rnn_forward, "waits for the exercise gradient_norms"),
        (gradient_norms, waits, "waits for the exercise rnn_forward"),
        (lambda states, w_h: w_h, rnn_forward, "should return norms of shape (1, 41)"),
        (lambda states, w_h: None, rnn_forward, "nothing (None)"),
        (lambda states, w_h: states @ states, rnn_forward, "gradient_norms stopped with"),
        (lambda s, w: np.full(s.shape[:2], math.nan), rnn_forward, "NaN or infinity"),
    ],
    ids=["norms-wait", "forward-waits", "shape", "none", "raises", "nan"],
)
def test_a_wrong_function_gets_one_sentence(norms, forward, message: str) -> None:
    view = explorer(norms, forward)
    network, _ = controls(view, ipywidgets.Dropdown)
    network.value = "tanh, small inputs"
    html = view.static()
    assert message in html.replace("&#x27;", "'")
    assert "Traceback" not in html
    assert panels(html) == {}


def test_wrong_numbers_are_drawn_all_the_same() -> None:
    for wrong in (0.0, -1.0, 1e300):
        html = explorer(lambda states, w_h, w=wrong: np.full(states.shape[:2], w)).static()
        assert list(panels(html)) == ["curve", "map"]
        assert "nan" not in html


def test_what_a_function_prints_is_told() -> None:
    def chatty(states, w_h):
        print("here")
        return gradient_norms(states, w_h)

    assert "Your gradient_norms printed: here" in explorer(chatty).static()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="gradient_norms must be your function"):
        gradient_explorer(3, rnn_forward)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ValueError, match="radius must be one of"):
        draw(GradientState(0.93), lambda network, matrix: measure(waits, waits, network, matrix, 0))
    with pytest.raises(ValueError, match="matrix must be one of"):
        unit_radius("square", 0)


# --- the first picture


def lamps(view: View) -> list[str]:
    circles = panels(view.static())["knock"].iter(f"{SVG}circle")
    return [circle.get("data-right", "") for circle in circles]


def glow(view: View) -> list[list[float]]:
    """By network, the largest difference of a unit after each token."""
    covers = [
        float(found)
        for rect in panels(view.static())["knock"].iter(f"{SVG}rect")
        if (found := rect.get("data-largest")) is not None
    ]
    steps = networks.LAG + 2
    return [covers[i : i + steps] for i in range(0, len(covers), steps)]


def test_the_first_picture_shows_itself() -> None:
    assert_shows_itself(knock(), "knock")


def test_nothing_differs_before_the_changed_token_and_the_letter_is_felt_to_the_end() -> None:
    view = knock()
    assert all(row[-1] > 0.5 for row in glow(view)[1:]), "all but the first network remember"
    place, *_ = controls(view, ipywidgets.IntSlider)
    place.value = 11
    for row in glow(view):
        assert max(row[:10]) == 0 < row[10]


def test_learners_functions_draw_the_same_picture_as_the_courses() -> None:
    assert knock(rnn_step, gru_cell, lstm_cell).static() == knock().static()


def test_a_shut_gate_turns_the_lstms_lamp_off() -> None:
    view = knock()
    number = controls(view, ipywidgets.IntSlider)[1]
    (gates,) = controls(view, ipywidgets.FloatSlider)
    before, after = 0, 0
    for text in (1, 2, 3, 4):
        number.value, gates.value = text, 0.0
        before += int(lamps(view)[3])
        gates.value = -6.0
        after += int(lamps(view)[3])
    assert before == 4
    assert after < 4


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"lstm_cell": waits}, "waits for the exercise lstm_cell"),
        ({"gru_cell": lambda *a: a[1] * np.nan}, "NaN or infinity"),
        ({"rnn_step": lambda *a: 1 / 0}, "rnn_step stopped with ZeroDivisionError"),
    ],
    ids=["waits", "nan", "raises"],
)
def test_a_function_that_is_not_there_yet_leaves_the_others(own: dict, message: str) -> None:
    html = knock(**own).static()
    assert html.count(message) == 1
    assert len(list(panels(html)["knock"].iter(f"{SVG}circle"))) == (2 if "rnn_step" in own else 3)


def test_a_place_outside_the_text_is_refused() -> None:
    with pytest.raises(ValueError, match="place must be between 1 and 31; got 32"):
        draw_knock(32, 0.0, 1, {})


# --- the diagrams


@pytest.mark.parametrize(
    ("view", "name", "words"),
    [
        (unrolled_network(), "unrolled", {"step": 4, "h": 5, "x": 4}),
        (cell_diagram("lstm"), "lstm", {"f: σ": 1, "i: σ": 1, "o: σ": 1, "×": 3, "+": 1}),
        (cell_diagram("gru"), "gru", {"r: σ": 1, "z: σ": 1, "×": 3, "+": 1, "1 − z": 1}),
    ],
    ids=["unrolled", "lstm", "gru"],
)
def test_diagrams_show_themselves(view: View, name: str, words: dict[str, int]) -> None:
    assert_shows_itself(view, name)
    written = [t.text for t in panels(view.static())[name].iter(f"{SVG}text")]
    for word, count in words.items():
        assert written.count(word) == count, word


def test_an_unknown_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="kind must be 'lstm' or 'gru'; got 'rnn'"):
        cell_diagram("rnn")
