"""Chapter 16's pictures: the tile stepper shows the learner's own numbers, the chart its bytes."""

from __future__ import annotations

import math

import ipywidgets
import numpy as np
import pytest
from attend.widgets import score_memory, tile_stepper
from attend.widgets.score_memory import sizes
from attend.widgets.tile_stepper import StepError, StepperState, draw, validate, walk
from attend_solutions.attention import scaled_dot_product_attention
from attend_solutions.flash import hbm_traffic, online_softmax

from .pictures import SVG, assert_shows_itself, controls, panels

Q = np.array([[1, 0], [0, 2], [2, 1], [1, 1]])
K = np.array([[1, 0], [0, 1], [2, 0], [1, 2], [3, 1], [0, 0]])
V = np.array([[1, 0], [0, 1], [2, 0], [0, 2], [3, 0], [0, 3]])
ARRAYS = validate(Q, K, V)


def forgetful(running_max, running_sum, accumulator, scores, values):
    new_max, new_sum, _ = online_softmax(running_max, running_sum, accumulator, scores, values)
    return new_max, new_sum, accumulator + np.exp(scores - new_max[:, None]) @ values


def words(html: str, panel: str) -> str:
    return " ".join(text.text or "" for text in panels(html)[panel].iter(f"{SVG}text"))


def test_it_shows_itself_with_and_without_a_kernel():
    assert_shows_itself(tile_stepper(online_softmax, Q, K, V), "slow", "chip", "running")


@pytest.mark.parametrize(("tile_q", "tile_k"), [(1, 1), (2, 2), (3, 4), (4, 6)])
def test_the_walk_ends_at_attention_and_at_the_bytes_of_the_formula(tile_q, tile_k):
    last = walk(online_softmax, ARRAYS, tile_q, tile_k)[-1]
    want, _ = scaled_dot_product_attention(Q, K, V)
    np.testing.assert_allclose(last.output, want, rtol=1e-12)
    assert last.read + last.written == hbm_traffic(4, 6, 2, tile_q, tile_k)


def test_the_numbers_are_the_learners():
    moment = StepperState(4, 2, 2)
    right, wrong = (words(draw(moment, ARRAYS, f), "running") for f in (online_softmax, forgetful))
    assert right != wrong
    want, _ = scaled_dot_product_attention(Q, K, V)
    assert f"{want[0, 0]:.2f}, {want[0, 1]:.2f}" in right
    assert f"{want[0, 0]:.2f}, {want[0, 1]:.2f}" not in wrong


def test_scores_of_the_tile_and_the_bytes_so_far_are_shown():
    html = draw(StepperState(2, 2, 2), ARRAYS, online_softmax)
    assert f"{2 / math.sqrt(2):.2f}" in words(html, "chip")  # q1 · k3
    assert f"{4 / math.sqrt(2):.2f}" in words(html, "chip")  # q2 · k4
    read = (2 * 2 + 2 * 4 * 2) * 2  # a tile of Q, two of K and V, in float16
    assert f"read {read} bytes, written 0 bytes" in words(html, "slow")


def test_the_slider_goes_as_far_as_the_tiles():
    view = tile_stepper(online_softmax, Q, K, V)
    (slider,) = controls(view, ipywidgets.IntSlider)
    tile_q, tile_k = controls(view, ipywidgets.Dropdown)
    assert slider.max + 1 == len(walk(online_softmax, ARRAYS, 2, 2))
    slider.value = slider.max
    tile_q.value, tile_k.value = 4, 6
    assert slider.max + 1 == len(walk(online_softmax, ARRAYS, 4, 6)) == 3
    assert slider.value == 2
    assert draw(StepperState(2, 4, 6), ARRAYS, online_softmax) in view.static()


def test_a_function_not_started_is_told_and_nothing_raises():
    def stub(*args):
        raise NotImplementedError

    assert "waits for the exercise online_softmax" in draw(StepperState(), ARRAYS, stub)
    with pytest.raises(StepError, match="running_max"):
        walk(lambda *args: 3, ARRAYS, 2, 2)


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ((Q, K[:, :1], V), "do not fit"),
        ((Q, K, V[:3]), "do not fit"),
        ((np.ones((7, 2)), K, V), "room for"),
        ((Q[0], K, V), "two axes"),
    ],
)
def test_what_does_not_fit_the_picture_is_refused(arrays, problem):
    with pytest.raises(ValueError, match=problem):
        tile_stepper(online_softmax, *arrays)


def test_the_memory_shows_itself_and_the_bytes_of_the_text():
    view = score_memory()
    assert_shows_itself(view, "memory")
    shown = words(view.static(), "memory")
    for size in ("67.1 MB", "8.59 GB", "232 kB", "80 GB"):
        assert size in shown
    (slider,) = controls(view, ipywidgets.SelectionSlider)
    slider.value = 17
    assert "34.4 GB" in words(view.static(), "memory")
    assert sizes(2**17)["all scores, T × S"] == 4 * sizes(2**16)["all scores, T × S"]
    with pytest.raises(ValueError, match="8 to 20"):
        score_memory(30)
