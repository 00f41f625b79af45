"""Drag the query: its numbers, its picture without a kernel, and what wrong functions get."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from html import unescape
from typing import Any

import numpy as np
import pytest
from attend.widgets import drag_query
from attend.widgets.drag_query import GOAL, KEYS, LONGEST, PULL, SEE, START, VALUES, measure
from attend.widgets.kit.live import Live
from attend_solutions.attention import attention_backward, scaled_dot_product_attention


@pytest.mark.parametrize("stretch", [1.0, 3.0])
def test_the_pull_is_minus_the_gradient(stretch: float):
    q = np.array([[0.4, -0.7]])
    k, v = np.array(KEYS), np.array(VALUES)
    output, weights = scaled_dot_product_attention(stretch * q, k, v)
    d_q = attention_backward(stretch * q, k, v, output - v[GOAL])[0] * stretch
    answer = measure(q[0].tolist(), stretch)
    assert answer["weights"] == pytest.approx(weights[0].tolist())
    assert answer["output"] == pytest.approx(output[0].tolist())
    assert answer["pull"] == pytest.approx((-d_q[0]).tolist(), abs=1e-8)


def test_stretched_scores_first_pull_harder_and_the_arrow_shows_it():
    pulls = [np.hypot(*measure(START, 2 ** (quarter / 4))["pull"]) for quarter in range(25)]
    assert pulls[0] > 4
    assert pulls[0] < max(pulls) < LONGEST / PULL, "no two of these are drawn alike"
    assert pulls[-1] < 1e-6


def test_stretched_scores_leave_no_pull():
    assert np.hypot(*measure([1.2, 0.9], 1.0)["pull"]) > 1
    assert np.hypot(*measure([1.2, 0.9], 16.0)["pull"]) < 1e-9


def test_the_learners_function_is_asked_at_every_move():
    asked = []

    def attend(q: Any, k: Any, v: Any) -> Any:
        asked.append(q.copy())
        return scaled_dot_product_attention(q, k, v)

    widget = drag_query(attend)
    assert widget.asks
    widget.q = [0.0, 1.0]
    widget.stretch = 4.0
    assert asked[-5] == pytest.approx(np.array([[0.0, 4.0]]))
    assert widget.answer == measure([0.0, 1.0], 4.0)


def test_without_a_function_the_page_computes_by_itself():
    widget = drag_query()
    before = widget.answer
    widget.q = [0.0, 1.0]
    assert widget.answer == before
    assert not widget.asks


@pytest.mark.parametrize(
    ("attend", "said"),
    [
        (lambda q, k, v: q, "should return an output (1, 2), weights (1, 3)"),
        (lambda q, k, v: 1 / 0, "stopped with ZeroDivisionError"),
    ],
)
def test_a_wrong_function_is_named_in_a_sentence(attend: Any, said: str):
    widget = drag_query(attend)
    assert said in widget.answer["note"]
    assert "weights" not in widget.answer
    assert "<svg" in widget.picture


def test_something_else_than_a_function_is_refused():
    with pytest.raises(ValueError, match="without parentheses"):
        drag_query(attend=3)  # pyright: ignore[reportArgumentType]


def test_it_shows_itself_with_and_without_a_kernel():
    widget = drag_query()
    shown: Any = widget._repr_mimebundle_()
    bundle = shown[0] if isinstance(shown, tuple) else shown
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == f"[drag-query] {SEE}"
    images = re.findall(
        r'alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]*)"', bundle["text/html"]
    )
    assert [ET.fromstring(base64.b64decode(c)).get("data-panel") for _, c in images] == [
        "query",
        "output",
    ]
    assert all("Weights: cat 0." in unescape(words) for words, _ in images)
    assert "<script" not in widget.static()


def test_every_part_that_the_module_moves_is_in_the_picture():
    widget = drag_query()
    module = str(widget._esm)
    drawn = set(re.findall(r'data-part="([^"]+)"', widget.picture))
    moved = set(re.findall(r"parts\.(\w+)|parts\[\"([\w-]+)\"\]", module))
    assert {first or second for first, second in moved} <= drawn
    assert {f"{part}-{j}" for part in ("fan", "spoke", "weight") for j in range(3)} <= drawn


def test_a_module_without_its_file_is_an_error():
    with pytest.raises(FileNotFoundError):

        class Missing(Live, module="/nowhere/missing.py"):
            pass
