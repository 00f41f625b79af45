"""The RoPE dial, the frequency map and the wall of clocks: what they draw is what functions say."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import ipywidgets
import numpy as np
import pytest
import torch
from attend.data import position_arms as arms
from attend.widgets import frequency_map, rope_dial, wall_of_clocks
from attend.widgets.frequency_map import SHOWN, MapState
from attend.widgets.frequency_map import draw as draw_map
from attend.widgets.rope_dial import KEY, LAST, QUERY, SHIFTS, DialState
from attend.widgets.rope_dial import draw as draw_dial
from attend.widgets.wall_of_clocks import (
    BETA,
    EXERCISES,
    LENGTHS,
    PAIRS,
    PLAIN,
    TRAINED,
    WAYS,
    ClockState,
    Losses,
    gears,
)
from attend.widgets.wall_of_clocks import draw as draw_wall
from attend_solutions.longer_positions import (
    ntk_scale,
    position_interpolation,
    yarn_frequencies,
)
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


# --- the wall of clocks

OWN = {f.__name__: f for f in (position_interpolation, ntk_scale, yarn_frequencies)}
FLAT: Losses = {way: dict.fromkeys(LENGTHS, (2.0, 2.2)) for way in (*WAYS, "none")}


def new(panel: ET.Element) -> list[int]:
    """The clocks that show angles which training did not."""
    return [int(c.get("data-clock", "")) for c in panel.iter() if c.get("data-new") == "1"]


def test_the_wall_knows_the_readers_it_speaks_of() -> None:
    assert (2 * PAIRS, TRAINED, BETA, WAYS) == (arms.D, arms.TRAINED, arms.BETA, arms.WAYS)
    assert LENGTHS == arms.LENGTHS


def test_the_wall_shows_itself_with_and_without_a_kernel() -> None:
    assert_shows_itself(wall_of_clocks(), "clocks", "loss")


def test_slow_clocks_enter_new_angles_and_the_gears_bring_them_back() -> None:
    def fresh(length: int, way: str, base: int = 10_000) -> list[int]:
        return new(panels(draw_wall(ClockState(length, way, base), FLAT))["clocks"])

    assert fresh(64, PLAIN) == []
    assert fresh(1024, PLAIN) == [3, 4, 5, 6, 7]  # 64 · 0.0316 is less than a turn
    assert fresh(1024, "PI") == []
    assert fresh(1024, "YaRN") == []
    assert fresh(1024, PLAIN, 10) == []  # all make a full turn within 64
    assert 0 < len(fresh(1024, "NTK")) < 5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("length", "base"), [(64, 10_000), (256, 100), (1024, 10_000)])
def test_the_pages_own_gears_are_those_of_the_functions(way, length, base) -> None:
    state = ClockState(length, way, base)
    np.testing.assert_allclose(gears(state), gears(state, OWN), rtol=1e-9)
    where, slowed, _ = arms.stretched(way, base, OWN)(length)
    steps = float(where[1] - where[0]) * slowed.numpy()
    np.testing.assert_allclose(gears(state), steps, rtol=1e-9)


def test_the_loss_that_is_written_is_the_tables() -> None:
    view = wall_of_clocks()
    length, base = controls(view, ipywidgets.SelectionSlider)
    (way,) = controls(view, ipywidgets.ToggleButtons)
    length.value, base.value, way.value = 1024, 100, "NTK"
    runs = arms.table()["letters"]["RoPE, base 100"]["ways"]
    mean = np.mean([run["NTK"]["1024"][0] for run in runs])
    assert f"{mean:.2f} nats a letter" in words(panels(view.static())["loss"])


def test_a_learners_wall_has_their_losses_and_one_base() -> None:
    losses: dict[str, dict[int, float]] = {
        way: dict.fromkeys(LENGTHS, 2.0 + i / 10) for i, way in enumerate(WAYS)
    }
    view = wall_of_clocks(OWN, losses)
    assert len(controls(view, ipywidgets.SelectionSlider)) == 1
    (way,) = controls(view, ipywidgets.ToggleButtons)
    way.value = "YaRN"
    assert "2.30 nats a letter" in words(panels(view.static())["loss"])


@pytest.mark.parametrize("way", WAYS[1:])
def test_the_wall_says_which_function_it_waits_for(way) -> None:
    for function, said in (
        (unfinished, "not started"),
        (lambda *a: None, "None"),
        (lambda *a: a[9], "IndexError"),
    ):
        html = draw_wall(ClockState(512, way), FLAT, {**OWN, EXERCISES[way]: function})
        assert not panels(html)
        assert EXERCISES[way] in html
        assert said in html


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
    with pytest.raises(ValueError, match="own must be a dict of your functions"):
        wall_of_clocks(ntk_scale)  # type: ignore[arg-type]  # the same
