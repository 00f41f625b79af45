"""Chapter 23's widgets: what they draw is what the learner's functions, or the page, return."""

from __future__ import annotations

import re
from typing import Any

import ipywidgets
import numpy as np
import pytest
from attend.widgets import curve_memory, kernel_shapes
from attend.widgets.curve_memory import (
    MOST,
    POINTS,
    SEE,
    SPANS,
    curves,
    measure,
    missed,
)
from attend.widgets.kernel_shapes import TAPS, shape
from attend_solutions.state_spaces import (
    discretize,
    hippo_legs,
    hippo_reconstruct,
    s4d_init,
    s4d_kernel,
    ssm_recurrent,
)

from .pictures import SVG, assert_shows_itself, controls, panels

FUNCTIONS = (discretize, ssm_recurrent, hippo_legs, hippo_reconstruct)


# --- the curve


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("size", [1, 5, MOST])
def test_the_page_and_the_functions_agree(size: int, span: float) -> None:
    """They differ by how a step is taken: bilinear or held, which is small for small steps."""
    curve = curves()["hill"].tolist()
    page, own = measure(curve, size, span), measure(curve, size, span, FUNCTIONS)
    assert len(page["state"]) == len(own["state"]) == size
    assert len(page["drawn"]) == POINTS
    assert np.abs(np.array(page["state"]) - own["state"]).max() < 0.05


def test_more_numbers_draw_better_and_more_time_loses_the_old_end() -> None:
    curve = curves()["waves"].tolist()
    off = [sum(missed(curve, measure(curve, size, 2.0)["drawn"])) for size in (4, 8, 16, 24)]
    assert off == sorted(off, reverse=True)
    short, long = (missed(curve, measure(curve, 16, span)["drawn"]) for span in (1.0, 8.0))
    assert long[0] > 1.5 * short[0]
    assert long[1] < short[1]


def test_noise_is_hardly_compressed() -> None:
    noise = curves()["noise"]
    older, newer = missed(noise.tolist(), measure(noise.tolist(), MOST, 2.0)["drawn"])
    assert min(older, newer) > 0.7 * noise.std()


def test_the_learners_functions_are_asked_at_every_change() -> None:
    asked = []

    def recurrent(a_bar: Any, b_bar: Any, c: Any, x: Any, state: Any = None) -> Any:
        asked.append(x.copy())
        return ssm_recurrent(a_bar, b_bar, c, x, state)

    widget = curve_memory(discretize, recurrent, hippo_legs, hippo_reconstruct)
    widget.curve = curves()["hill"].tolist()
    widget.size = 7
    assert asked[-1] == pytest.approx(curves()["hill"])
    assert len(widget.answer["state"]) == 7


def test_without_functions_the_page_computes_by_itself() -> None:
    widget = curve_memory()
    before = widget.answer
    widget.size = 3
    assert widget.answer == before
    assert not widget.asks


def test_what_is_wrong_is_said() -> None:
    widget = curve_memory(discretize, ssm_recurrent, hippo_legs, lambda h, u: h)
    assert "hippo_reconstruct should return a curve of shape (100,)" in widget.answer["note"]
    assert "drawn" not in widget.answer
    with pytest.raises(ValueError, match="all four functions"):
        curve_memory(discretize)


def test_the_curve_shows_itself_with_and_without_a_kernel() -> None:
    widget = curve_memory()
    shown: Any = widget._repr_mimebundle_()
    bundle = shown[0] if isinstance(shown, tuple) else shown
    assert bundle["text/plain"] == f"[curve-memory] {SEE}"
    assert bundle["text/html"].count("data:image/svg+xml") == 2
    assert "16 numbers draw it back: off by 0.1" in widget.picture


def test_every_part_that_the_module_moves_is_in_the_picture() -> None:
    widget = curve_memory()
    drawn = set(re.findall(r'data-part="([^"]+)"', widget.picture))
    moved = set(re.findall(r"parts\.(\w+)", str(widget._esm)))
    assert moved - {"field"} <= drawn
    assert {f"number-{n}" for n in range(MOST)} | {"field"} <= drawn


# --- the kernel


def test_the_kernel_is_the_functions() -> None:
    a = np.array([-0.5 + 3j])
    answer = shape(a, 0.1, s4d_kernel)
    ones = np.ones(1)
    assert answer.arrays[0] == pytest.approx(s4d_kernel(a, ones, ones, np.array(0.1), TAPS))
    view = kernel_shapes(s4d_init, s4d_kernel)
    assert view.static().count("data-value=") == TAPS
    assert_shows_itself(view, "circle", "taps")


def test_the_kind_is_chosen_and_sliders_move_the_kernel() -> None:
    view = kernel_shapes(s4d_init, s4d_kernel)
    (kind,) = controls(view, ipywidgets.Dropdown)
    fade, turn = controls(view, ipywidgets.FloatSlider)
    (delta,) = controls(view, ipywidgets.FloatLogSlider)
    before = view.static()
    for control, value in ((fade, 2.0), (turn, 9.0), (delta, 0.5)):
        control.value = value
        assert view.static() != before
        before = view.static()
    kind.value = "inv"
    assert fade.disabled
    circle = panels(view.static())["circle"]
    assert len(circle.findall(f".//{SVG}circle")) == 1 + 2 * 8


def test_a_kernel_of_another_shape_is_named() -> None:
    view = kernel_shapes(s4d_init, lambda a, b, c, delta, length: np.zeros(3))
    assert "Your s4d_kernel should return a kernel of shape (64,)" in view.static()
