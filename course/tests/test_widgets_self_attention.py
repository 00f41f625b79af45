"""The mask painter: the mask it shows is the mask that is used, and the walks are the mask's."""

from __future__ import annotations

import ipywidgets
import numpy as np
import pytest
from attend.widgets import View, mask_painter
from attend.widgets.kit.flow import arrows, flow, reached
from attend.widgets.kit.heatmap import heat_map
from attend.widgets.mask_painter import PRESETS, PainterState, draw, preset
from attend_solutions.self_attention import causal_mask, self_attention

from .pictures import SVG, assert_shows_itself, controls, panels

TOKENS = ["the", "cat", "sat", "on", "the", "mat"]
X = np.random.default_rng(0).standard_normal((6, 4))
ARRAYS = (X, np.eye(4), np.eye(4), np.eye(4))


def state(mask: np.ndarray, token: int = 0, layers: int = 3) -> PainterState:
    return PainterState(tuple(tuple(map(bool, row)) for row in mask), token, layers)


def picture(mask: np.ndarray, function=self_attention, **more) -> str:
    return draw(state(mask, **more), TOKENS, ARRAYS, function)


def cells(view: View) -> np.ndarray:
    """The buttons of the mask, (T, T)."""
    buttons = [b for b in controls(view, ipywidgets.Button) if b.description in ("0", "1")]
    return np.array(buttons, dtype=object).reshape(6, 6)


def shown(view: View) -> np.ndarray:
    return np.array([[cell.description == "1" for cell in row] for row in cells(view)])


def button(view: View, name: str) -> ipywidgets.Button:
    (found,) = (b for b in controls(view, ipywidgets.Button) if b.description == name)
    return found


@pytest.fixture
def view() -> View:
    return mask_painter(self_attention, TOKENS, X)


def test_it_shows_itself_with_and_without_a_kernel(view):
    assert_shows_itself(view, "weights", "flow")


def test_it_starts_causal_and_a_click_turns_one_cell(view):
    np.testing.assert_array_equal(shown(view), causal_mask(6))
    assert view.static().endswith(picture(causal_mask(6)) + "</div>")
    cells(view)[0, 3].click()
    mask = causal_mask(6)
    mask[0, 3] = True
    np.testing.assert_array_equal(shown(view), mask)
    assert picture(mask) in view.static()
    cells(view)[0, 3].click()
    np.testing.assert_array_equal(shown(view), causal_mask(6))


def test_sliders_and_their_button_turn_the_same_cell(view):
    sliders = {s.description: s for s in controls(view, ipywidgets.SelectionSlider)}
    sliders["query"].value, sliders["key"].value = 1, 4
    button(view, "turn this cell").click()
    assert shown(view)[1, 4]
    assert shown(view).sum() == causal_mask(6).sum() + 1


def test_layers_and_followed_token_change_the_flow(view):
    sliders = {s.description: s for s in controls(view, ipywidgets.SelectionSlider)}
    sliders["follow"].value, sliders["layers"].value = 2, 5
    assert picture(causal_mask(6), token=2, layers=5) in view.static()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_paint_what_they_say(view, name):
    button(view, name).click()
    seed = int(name == "random")
    np.testing.assert_array_equal(shown(view), preset(name, 6, seed))
    assert "weights" in panels(view.static())


def test_presets_are_the_masks_of_their_names():
    np.testing.assert_array_equal(preset("causal", 5), causal_mask(5))
    assert preset("all", 5).all()
    np.testing.assert_array_equal(preset("self", 5), np.eye(5))
    assert preset("window", 6).sum(axis=1).tolist() == [2, 3, 3, 3, 3, 2]
    assert preset("causal window", 6).sum(axis=1).tolist() == [1, 2, 3, 3, 3, 3]
    assert preset("padding left", 6).sum(axis=0).tolist() == [0, 0, 6, 6, 6, 6]
    assert preset("padding right", 6).sum(axis=0).tolist() == [6, 6, 6, 6, 0, 0]
    for seed in range(5):
        random = preset("random", 6, seed)
        assert random.diagonal().all()
        assert (random.sum(axis=1) <= 3).all()
    assert (preset("random", 6, 1) != preset("random", 6, 2)).any()
    assert all(preset(name, 1).shape == (1, 1) for name in PRESETS)


def test_random_draws_anew_with_each_click(view):
    button(view, "random").click()
    first = shown(view)
    button(view, "random").click()
    assert (shown(view) != first).any()


# --- the flow


@pytest.mark.parametrize("seed", range(4))
def test_reached_is_the_power_of_the_mask(seed):
    mask = (np.random.default_rng(seed).random((6, 6)) < 0.3) | np.eye(6, dtype=bool)
    for start in range(6):
        met = reached(mask, start, 4)
        for layers in range(5):
            power = np.linalg.matrix_power(mask.astype(int), layers) > 0
            np.testing.assert_array_equal(met[layers], power[:, start])


def test_a_token_hidden_from_itself_still_asks():
    mask = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], bool)
    assert arrows(mask).astype(int).tolist() == [[1, 1, 1], [0, 0, 1], [0, 0, 0]]
    panel = panels(flow(mask, 0, 1, TOKENS[:3]))["flow"]
    dashed = [line for line in panel.iter(f"{SVG}line") if line.get("stroke-dasharray") == "5 4"]
    assert len(dashed) == 1
    np.testing.assert_array_equal(reached(mask, 0, 3)[3], [True, False, False])


def test_flow_fills_what_is_reached_and_says_so():
    panel = panels(flow(preset("window", 6), 0, 3, TOKENS))["flow"]
    nodes = [n for n in panel.iter(f"{SVG}circle") if n.get("data-layer") == "2"]
    assert [n.get("data-reached") for n in nodes] == ["1", "1", "1", "0", "0", "0"]
    assert "after 2 layers the, cat, sat" in panel.get("aria-label", "")
    widths = {n.get("r") for n in panel.iter(f"{SVG}circle")}
    assert len(widths) == 2, "reached or not is told by size as well as by colour"


def test_flow_says_when_nobody_or_everybody_knows():
    nobody = panels(flow(np.zeros((6, 6), bool), 0, 1, TOKENS))["flow"]
    assert "after 1 layer no one" in nobody.get("aria-label", "")
    everybody = panels(flow(np.ones((6, 6), bool), 0, 1, TOKENS))["flow"]
    assert "after 1 layer everyone" in everybody.get("aria-label", "")


# --- the picture and the learner's function


def test_hidden_cells_are_empty_and_say_hidden():
    values, hidden = np.array([[1.0, 0.0]]), np.array([[False, True]])
    html = heat_map("m", "l", "d", values, ["a"], ["b", "c"], chosen=0, hidden=hidden)
    panel = panels(html)["m"]
    told = [title.text for title in panel.iter(f"{SVG}title")]
    assert told == ["query a, key b: 1", "query a, key c: hidden, 0"]
    words = [node.text for node in panel.iter(f"{SVG}text")]
    assert "1.00" in words
    assert "0.00" not in words


def test_an_empty_row_is_told():
    mask = causal_mask(6)
    mask[2] = False
    assert "Nothing to look at, so weights and output are 0: sat." in picture(mask)


@pytest.mark.parametrize("seed", range(20))
def test_walks_and_measurement_agree_on_any_mask(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((6, 6)) < rng.random()
    assert "run check" not in picture(mask, token=int(rng.integers(6)), layers=5)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("token", [0, 5])
def test_the_right_function_does_what_the_walks_say(name, token):
    for seed in range(3):
        html = picture(preset(name, 6, seed), token=token, layers=6)
        assert "run check" not in html


def ignores_mask(x, w_q, w_k, w_v, mask=None):
    return self_attention(x, w_q, w_k, w_v)


def leaks_in_the_output(x, w_q, w_k, w_v, mask=None):
    output, weights = self_attention(x, w_q, w_k, w_v, mask)
    return output + x.mean(axis=0), weights


def deaf(x, w_q, w_k, w_v, mask=None):
    return np.zeros_like(x), self_attention(x, w_q, w_k, w_v, mask)[1]


def not_started(x, w_q, w_k, w_v, mask=None):
    raise NotImplementedError


def nan(x, w_q, w_k, w_v, mask=None):
    return x * np.nan, np.eye(6)


def fickle(x, w_q, w_k, w_v, mask=None):
    if (x == X).all():
        return self_attention(x, w_q, w_k, w_v, mask)
    raise IndexError("second layer")


@pytest.mark.parametrize(
    ("function", "told", "drawn"),
    [
        (ignores_mask, "gives the weight", True),
        (leaks_in_the_output, "changes, though no walk leads there", True),
        (deaf, "does not change, but a walk leads there", True),
        (not_started, "waits for the exercise self_attention", False),
        (nan, "NaN or infinity", False),
        (fickle, "stopped with IndexError: second layer", True),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_function_is_told(function, told, drawn):
    html = picture(causal_mask(6), function, token=3)
    assert told in html.replace("&#x27;", "'")
    assert bool(panels(html)) == drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("self_attention", TOKENS, X), "must be your function self_attention; got str"),
        ((self_attention, TOKENS[:3], X), r"x of shape \(3, C\)"),
        ((self_attention, list("abcdefghi"), np.zeros((9, 2))), "at most 8 tokens"),
        ((self_attention, TOKENS, X, np.eye(3)), r"w_q and w_k of shape \(4, D\)"),
        ((self_attention, TOKENS, X, None, None, np.ones((4, 2))), r"w_v of shape \(4, 4\)"),
    ],
)
def test_what_cannot_be_painted_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        mask_painter(*arguments)


def test_matrices_may_be_given():
    rng = np.random.default_rng(1)
    w_q, w_k, w_v = rng.standard_normal((4, 2)), rng.standard_normal((4, 2)), np.eye(4)
    view = mask_painter(self_attention, TOKENS, X, w_q, w_k, w_v)
    weights = self_attention(X, w_q, w_k, w_v, causal_mask(6))[1]
    assert f"key the: {weights[5, 0]:.4g}" in view.static()
