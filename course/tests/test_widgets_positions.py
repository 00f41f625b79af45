"""The RoPE dial and the frequency map: what they draw is what the learner's function says."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import ipywidgets
import numpy as np
import pytest
import torch
from attend.widgets import frequency_map, rope_dial
from attend.widgets.frequency_map import SHOWN, MapState
from attend.widgets.frequency_map import draw as draw_map
from attend.widgets.rope_dial import KEY, LAST, QUERY, SHIFTS, DialState
from attend.widgets.rope_dial import draw as draw_dial
from attend_solutions.positions import apply_rope, sinusoidal_encoding

from .pictures import SVG, assert_shows_itself, controls, panels


def words(panel: ET.Element) -> str:
    return " | ".join(node.text or "" for node in panel.iter(f"{SVG}text"))


def hovers(panel: ET.Element) -> list[str]:
    return [node.text or "" for node in panel.iter(f"{SVG}title")]


def shown(panel: ET.Element) -> float:
    """The score that the dial writes."""
    (told,) = (t for t in words(panel).split(" | ") if ": score " in t)
    return float(told.rsplit(" ", 1)[1].replace("−", "-"))


def test_each_widget_shows_itself_with_and_without_a_kernel() -> None:
    assert_shows_itself(rope_dial(apply_rope), "dial", "score")
    assert_shows_itself(frequency_map(sinusoidal_encoding), "map", "alike")


# --- the dial


def score(m: int, n: int, frequency: float) -> float:
    """The score of the dial's query and key by hand."""
    apart = math.atan2(QUERY[1], QUERY[0]) - math.atan2(KEY[1], KEY[0]) + (m - n) * frequency
    return float(np.hypot(*QUERY) * np.hypot(*KEY) * math.cos(apart))


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize(("m", "n", "frequency"), [(7, 3, 0.316), (0, 40, 1.0), (12, 12, 0.1)])
def test_the_score_is_right_and_does_not_move(m, n, frequency, shift) -> None:
    drawn = panels(draw_dial(DialState(m, n, shift, frequency), apply_rope))
    assert shown(drawn["score"]) == pytest.approx(score(m, n, frequency), abs=1.5e-5)
    marked = next(c for c in drawn["score"].iter(f"{SVG}circle") if c.get("data-offset"))
    assert marked.get("data-offset") == str(m - n)
    assert f"query at {m + shift:,}" in words(drawn["dial"])


def test_the_curve_has_every_offset() -> None:
    drawn = panels(draw_dial(DialState(5, 5, 0, 1.0), apply_rope))
    said = [text for text in hovers(drawn["score"]) if text.startswith("offset")]
    assert len(said) == 2 * LAST + 2
    assert f"offset -3: score {score(0, 3, 1.0):.4f}" in said


def test_a_careless_function_is_seen_far_out() -> None:
    def careless(x, positions, frequencies):
        angle = positions[:, None].float() * frequencies.float()
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    near, far = (
        shown(panels(draw_dial(DialState(7, 3, shift, 0.316), careless))["score"])
        for shift in (0, 100_000)
    )
    assert near == pytest.approx(score(7, 3, 0.316), abs=1.5e-5)
    assert abs(far - near) > 1e-4


def test_sliders_redraw_the_dial() -> None:
    view = rope_dial(apply_rope)
    query, key = controls(view, ipywidgets.IntSlider)
    (shift,) = controls(view, ipywidgets.SelectionSlider)
    (frequency,) = controls(view, ipywidgets.Dropdown)
    query.value, key.value, shift.value, frequency.value = 20, 11, 1000, 0.1
    assert view.static().endswith(draw_dial(DialState(20, 11, 1000, 0.1), apply_rope) + "</div>")


# --- the map


@pytest.mark.parametrize("state", [MapState(), MapState(10, 20, 0), MapState(100, 100_000, 31)])
def test_the_map_holds_the_encoding(state) -> None:
    drawn = panels(draw_map(state, sinusoidal_encoding))
    said = hovers(drawn["map"])
    assert len(said) == SHOWN * 24
    first = sinusoidal_encoding(torch.tensor([state.first]), 24, base=float(state.base))[0]
    assert said[0].endswith(f": {float(first[0]):.4g}")
    assert said[1].endswith(f": {float(first[1]):.4g}")


def test_the_curve_depends_on_the_distance_alone() -> None:
    curves = [
        [text.rsplit(" ", 1)[1] for text in hovers(panels(html)["alike"])]
        for html in (
            draw_map(MapState(first=first), sinusoidal_encoding) for first in (0, 1_000, 100_000)
        )
    ]
    assert curves[0] == curves[1] == curves[2]


def test_sliders_redraw_the_map() -> None:
    view = frequency_map(sinusoidal_encoding)
    base, first = controls(view, ipywidgets.SelectionSlider)
    (row,) = controls(view, ipywidgets.IntSlider)
    base.value, first.value, row.value = 100, 20, 3
    assert view.static().endswith(draw_map(MapState(100, 20, 3), sinusoidal_encoding) + "</div>")


# --- functions that are not there yet, or wrong


def unfinished(*args, **kwargs):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("draw", "exercise"),
    [
        (lambda f: draw_dial(DialState(), f), "apply_rope"),
        (lambda f: draw_map(MapState(), f), "sinusoidal_encoding"),
    ],
    ids=["dial", "map"],
)
def test_one_sentence_where_there_is_nothing_to_draw(draw, exercise) -> None:
    for function, said in (
        (unfinished, "not started"),
        (lambda *a, **k: None, "nothing (None)"),
        (lambda *a, **k: torch.zeros(3), "returned a tensor of shape (3,)"),
        (lambda *a, **k: a[0][99], "stopped with IndexError"),
    ):
        html = draw(function)
        assert not panels(html)
        assert exercise in html
        assert said in html


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rope_dial\(apply_rope\)"):
        rope_dial(torch.zeros(2))  # type: ignore[arg-type]  # the mistake being tested
    with pytest.raises(ValueError, match=r"frequency_map\(sinusoidal_encoding\)"):
        frequency_map(3)  # type: ignore[arg-type]  # the same
