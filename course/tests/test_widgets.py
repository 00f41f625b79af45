"""Widgets: what they draw is right, needs neither colour nor kernel, and survives any function."""

from __future__ import annotations

import math
import sys
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable

import ipywidgets
import numpy as np
import pytest
import torch
from attend.widgets import View, attention_explorer, attention_table, dk_explorer
from attend.widgets.dk import KEYS, WIDTHS, DkState, measure
from attend.widgets.dk import draw as draw_dk
from attend.widgets.kit.svg import element, ink_on, number, readable, viridis
from attend.widgets.table import TableState
from attend.widgets.table import draw as draw_table
from attend_solutions.attention import (
    attention_scores,
    scaled_dot_product_attention,
    softmax_jacobian,
)

from .pictures import SVG, assert_shows_itself, controls, panels

TOKENS = ["cat", "sat", "mat"]
VECTORS = [[1, 0], [0, 1], [1, 1]]


def words(panel: ET.Element) -> list[str]:
    return [node.text or "" for node in panel.iter(f"{SVG}text")]


def every_view() -> dict[str, View]:
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    _, weights = scaled_dot_product_attention(x, x, x)
    return {
        "dk": dk_explorer(),
        "table": attention_table(scaled_dot_product_attention, TOKENS, VECTORS),
        "explorer": attention_explorer(list("abcde"), weights),
    }


PANELS = {
    "dk": ("scores", "weights", "entropy", "jacobian"),
    "table": ("scores", "weights", "output", "plane"),
    "explorer": ("matrix", "lines"),
}


@pytest.mark.parametrize("name", PANELS)
def test_each_widget_shows_itself_with_and_without_a_kernel(name):
    assert_shows_itself(every_view()[name], *PANELS[name])


# --- width explorer


def test_measures_agree_with_the_definitions():
    for unscaled, scaled in (measure(0)[d_k] for d_k in (4, 64)):
        for side in (unscaled, scaled):
            p = np.exp(side.scores - side.scores.max(axis=-1, keepdims=True))
            p /= p.sum(axis=-1, keepdims=True)
            norms = np.linalg.norm(softmax_jacobian(p), axis=(-2, -1))
            assert side.jacobian == pytest.approx(norms.mean())
            assert side.entropy == pytest.approx(-(p * np.log(p)).sum(axis=-1).mean())
            np.testing.assert_allclose(side.weights, p[0])


def test_unscaled_saturates_and_scaled_stays():
    found = measure(3)
    assert found[1][0].entropy == found[1][1].entropy, "at D = 1 the two coincide"
    for d_k in WIDTHS[3:]:
        assert found[d_k][0].scores.std() == pytest.approx(math.sqrt(d_k), rel=0.1)
        assert found[d_k][1].scores.std() == pytest.approx(1, rel=0.1)
        assert 0.8 * math.log(KEYS) < found[d_k][1].entropy < math.log(KEYS)
    entropies = [found[d_k][0].entropy for d_k in WIDTHS]
    assert entropies == sorted(entropies, reverse=True)
    assert found[512][0].jacobian < 0.4 * found[512][1].jacobian


def test_d_k_slider_redraws():
    view = dk_explorer()
    (slider,) = controls(view, ipywidgets.SelectionSlider)
    slider.value = 256
    assert view.static().endswith(draw_dk(DkState(256)) + "</div>")
    assert "D = 256" in words(panels(view.static())["scores"])[0]


def test_d_k_must_be_on_the_slider():
    with pytest.raises(ValueError, match="must be one of 1, 2, 4"):
        draw_dk(DkState(3))


# --- attention table


def table(function: Callable, **more) -> str:
    return attention_table(function, TOKENS, VECTORS, **more).static()


def test_table_shows_the_worked_example():
    drawn = panels(table(scaled_dot_product_attention, scores=attention_scores))
    assert list(drawn) == ["scores", "weights", "output", "plane"]
    assert "0.40, 0.20, 0.40" in drawn["weights"].get("aria-label", "")
    assert "(0.80, 0.60)" in drawn["output"].get("aria-label", "")
    assert words(drawn["scores"])[0] == "1. Scores: attention_scores(q, k)"
    assert words(drawn["scores"]).count("0.71") == 6
    chosen = next(r for r in drawn["weights"].iter(f"{SVG}rect") if r.get("data-chosen"))
    assert chosen.get("data-chosen") == "0"


def test_editing_a_vector_and_starting_again():
    view = attention_table(scaled_dot_product_attention, TOKENS, VECTORS)
    first = view.static()
    fields = controls(view, ipywidgets.FloatText)
    fields[0].value = 3.0
    state = TableState(((3.0, 0.0), (0.0, 1.0), (1.0, 1.0)))
    assert draw_table(state, TOKENS, scaled_dot_product_attention) in view.static()
    assert view.static() != first
    (button,) = controls(view, ipywidgets.Button)
    button.click()
    assert view.static() == first
    (query,) = controls(view, ipywidgets.Dropdown)
    query.value = 2
    assert "output of mat = 0.25·cat + 0.25·sat + 0.50·mat = (0.75, 0.75)" in view.static()


def test_the_plane_is_left_out_for_other_widths():
    html = attention_table(scaled_dot_product_attention, ["a", "b"], np.eye(2, 4)).static()
    assert list(panels(html)) == ["scores", "weights", "output"]


def test_vectors_of_zero_and_of_great_size_are_drawn():
    for vectors in (np.zeros((3, 2)), 1e12 * np.array(VECTORS), [[0, 0], [0, -3], [0, 5]]):
        html = attention_table(scaled_dot_product_attention, TOKENS, vectors).static()
        assert "plane" in panels(html)
        assert "nan" not in html


def not_started(q, k, v):
    raise NotImplementedError


def crashes(q, k, v):
    return q @ v


def nothing(q, k, v):
    return None


def only_output(q, k, v):
    return scaled_dot_product_attention(q, k, v)[0]


def swapped(q, k, v):
    return scaled_dot_product_attention(q, k, v)[::-1]


def ragged(q, k, v):
    return [[1], [1, 2]], q


def tensor_back(q, k, v):
    return torch.zeros(3, 2)


def text_back(q, k, v):
    return "output", "weights"


def infinite(q, k, v):
    return v * math.inf, np.eye(3)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (not_started, "waits for the exercise scaled_dot_product_attention"),
        (crashes, "stopped with ValueError"),
        (nothing, "nothing (None)"),
        (only_output, "it returned an array of shape (3, 2)"),
        (swapped, "an output of shape (3, 2); it returned an array of shape (3, 3)"),
        (ragged, "it returned a list of 2"),
        (tensor_back, "it returned a tensor of shape (3, 2) and type torch.float32"),
        (text_back, "it returned a str"),
        (infinite, "NaN or infinity"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_function_gets_one_sentence(function, message):
    html = table(function)
    assert message in html.replace("&#x27;", "'")
    assert "scaled_dot_product_attention" in html
    assert "Traceback" not in html
    assert panels(html) == {}


def test_scores_not_started_names_their_exercise():
    html = table(scaled_dot_product_attention, scores=lambda q, k: not_started(q, k, k))
    assert "waits for the exercise attention_scores" in html


def test_weights_that_do_not_sum_to_one_are_drawn_and_told():
    html = table(lambda q, k, v: (v, np.full((3, 3), 0.25)))
    assert "add up to 0.750, not to 1" in html
    assert "weights" in panels(html)


def test_prints_and_warnings_are_told_not_spilled(capsys):
    def chatty(q, k, v):
        print("scores ready")
        print("oops", file=sys.stderr)
        warnings.warn("divide by zero", RuntimeWarning, stacklevel=1)
        return scaled_dot_product_attention(q, k, v)

    html = table(chatty)
    assert "printed: scores ready oops" in html
    assert "warned: divide by zero" in html
    assert capsys.readouterr() == ("", "")


def test_a_function_that_changes_its_inputs_does_no_harm():
    def greedy(q, k, v):
        result = scaled_dot_product_attention(q, k, v)
        q[:] = 0
        return result

    assert table(greedy) == table(scaled_dot_product_attention)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 2), TOKENS, VECTORS), "must be your function"),
        ((softmax_jacobian, TOKENS, [[1, 0]]), r"3 tokens need embeddings of shape \(3, D\)"),
        ((softmax_jacobian, TOKENS, [[1], [1, 2], [3]]), "one row per token"),
        ((softmax_jacobian, list("abcdefghi"), np.eye(9, 2)), "at most 8 tokens"),
        ((softmax_jacobian, TOKENS, [[1, 0], [0, math.nan], [1, 1]]), "finite"),
    ],
    ids=["function", "rows", "ragged", "large", "nan"],
)
def test_table_refuses_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_table(*arguments)


# --- attention explorer


def test_explorer_follows_query_and_head():
    heads = np.stack([np.eye(3), np.full((3, 3), 1 / 3)])
    view = attention_explorer(TOKENS, heads)
    (query,) = controls(view, ipywidgets.SelectionSlider)
    (head,) = controls(view, ipywidgets.Dropdown)
    query.value = 1
    drawn = panels(view.static())
    assert "largest weight, 1.00, to key sat" in drawn["lines"].get("aria-label", "")
    assert [p.get("data-weight") for p in drawn["lines"].iter(f"{SVG}path")] == ["1.0000"]
    head.value = 1
    drawn = panels(view.static())
    assert words(drawn["matrix"])[0] == "Attention weights, head 2"
    assert words(drawn["lines"]).count("0.333") == 3


def test_one_head_needs_no_head_control_and_keys_may_differ():
    view = attention_explorer(["y"], [[0.25, 0.75]], key_tokens=["a", "b"])
    assert controls(view, ipywidgets.Dropdown) == []
    assert {"y", "a", "b", "0.750"} <= set(words(panels(view.static())["lines"]))


def test_many_keys_show_the_largest_and_the_rest():
    weights = np.tile(np.arange(1, 65) / np.arange(1, 65).sum(), (64, 1))
    html = attention_explorer([f"t{i}" for i in range(64)], weights).static()
    assert "the 16 largest of 64 weights" in html
    assert len(list(panels(html)["lines"].iter(f"{SVG}path"))) == 16


def test_a_row_off_balance_is_told():
    assert "sums to 0.500" in attention_explorer(["a"], [[0.5]]).static()
    assert "attends to nothing" in attention_explorer(["a"], [[0.0]]).static()


def test_tokens_are_escaped_and_made_visible():
    tokens = ["<b>&", "\n", " ", "\x00x", "a-very-long-token", ""]
    html = attention_explorer(tokens, np.eye(6)).static()
    assert "<b>" not in html
    shown = words(panels(html)["lines"])
    assert {"<b>&", "⏎", "␣", "�x", "a-very-lo…", "∅"} <= set(shown)


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("call detach() first")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.eye(2), r"need weights of shape \(…, 3, 3\); got \(2, 2\)"),
        (np.zeros((1, 1, 3, 3)), r"For a batch, choose one example"),
        (np.full((3, 3), 4.0), "not the scores"),
        (np.full((3, 3), -0.5), "between 0 and 1"),
        (np.full((3, 3), np.nan), "NaN"),
        ([["a"] * 3] * 3, "must be numbers"),
        ([[1], [1, 2]], "could not be read"),
        (Unreadable(), r"weights.detach\(\)"),
    ],
    ids=["shape", "batch", "scores", "negative", "nan", "text", "ragged", "torch"],
)
def test_explorer_refuses_bad_input(weights, message):
    with pytest.raises(ValueError, match=message):
        attention_explorer(TOKENS, weights)


def test_explorer_refuses_too_many_marks():
    with pytest.raises(ValueError, match="65 × 65 weights are more than the 4096"):
        attention_explorer(["t"] * 65, np.eye(65))


# --- the words of SVG


def test_elements_escape_what_they_are_given():
    assert element("a", b_c='"<', d=1.0, e=2.345) == '<a b-c="&quot;&lt;" d="1" e="2.35"/>'


def test_numbers_read_well():
    given = (0.0, -0.0, 0.401, -2.5, 12345.6, 1e-7)
    assert [number(x) for x in given] == ["0.00", "0.00", "0.40", "−2.50", "1.2e+04", "1.0e−07"]


def test_readable_shows_the_blanks_at_the_ends_only():
    assert [readable(t) for t in ("naïve 猫", " cat", "  ", "a ")] == [
        "naïve 猫",
        "␣cat",
        "␣␣",
        "a␣",
    ]


@pytest.mark.parametrize("share", [-1, 0, 0.3, 0.5, 0.7, 1, 2])
def test_text_stands_out_on_every_colour(share):
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        lin = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2]

    ground = viridis(share)
    low, high = sorted((luminance(ground), luminance(ink_on(ground))))
    assert (high + 0.05) / (low + 0.05) >= 4.5, "WCAG 2: 4.5 to 1 for text"
