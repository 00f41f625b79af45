"""Chapter 24's widgets: they draw what the learner's own functions return."""

from __future__ import annotations

import math
import subprocess
import sys

import ipywidgets
import pytest
import torch
from attend.data import mamba_words
from attend.widgets import WHAT_IS_KEPT, delta_explorer, what_is_kept
from attend.widgets.delta_explorer import LONGEST, NEEDED, draw, trace
from attend.widgets.what_is_kept import shares
from attend_solutions import mamba

from .pictures import SVG, assert_shows_itself, controls, panels

FUNCTIONS = {name: getattr(mamba, name) for name in NEEDED}
WEIGHTS = mamba_words.weights()


def test_each_widget_shows_itself_with_and_without_a_kernel():
    assert_shows_itself(what_is_kept(), "fixed", "chosen")
    assert_shows_itself(delta_explorer(WEIGHTS, **FUNCTIONS), "steps", "left")


def test_no_other_chapter_imports_torch_with_the_widgets():
    code = "import sys, attend.widgets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- what is kept


@pytest.mark.parametrize("words", WHAT_IS_KEPT)
@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("selective", [False, True])
def test_shares_are_those_of_the_recurrence(words, selective, quiet):
    h = torch.zeros(len(words))
    for place, letter in enumerate(words):
        step = 0.0 if selective and letter == "·" else 0.7
        h = math.exp(-step) * h
        h[place] += 0.0 if quiet and letter == "·" else step
    torch.testing.assert_close(torch.tensor(shares(words, 0.7, selective, quiet)), h / h.sum())


@pytest.mark.parametrize("quiet", [False, True])
def test_only_the_fixed_step_size_sees_the_spacing(quiet):
    """The sentence above the picture, at both ends of the slider: 0.01 and 3.16."""
    for delta in (0.01, 0.3, 3.16):
        fixed, chosen = (
            [
                [part for letter, part in zip(words, found, strict=True) if letter != "·"]
                for words in WHAT_IS_KEPT
                for found in [shares(words, delta, selective, quiet)]
            ]
            for selective in (False, True)
        )
        assert chosen[0] == pytest.approx(chosen[1])
        assert fixed[0] != pytest.approx(fixed[1])


def test_slider_and_box_redraw():
    view = what_is_kept()
    seen = [view.static()]
    (slider,) = controls(view, ipywidgets.FloatLogSlider)
    (box,) = controls(view, ipywidgets.Checkbox)
    box.value = True
    seen.append(view.static())
    slider.value = 2.0
    seen.append(view.static())
    assert len(set(seen)) == 3
    assert "The same Δ = 2.00" in seen[-1]


# --- Δ explorer


def test_cells_and_bars_are_the_functions_own_numbers():
    shown, token = "for x in y:", 7
    drawn = panels(draw(WEIGHTS, FUNCTIONS, shown, 1, token))
    found = trace(WEIGHTS, FUNCTIONS, shown, 1, token)
    bars = [r.get("data-left") for r in drawn["left"].iter(f"{SVG}rect") if r.get("data-left")]
    assert bars == [f"{share:.4f}" for share in found.left[:token].tolist()]
    assert bars[-1] == "1.0000"
    cells = {r.get("data-delta") for r in drawn["steps"].iter(f"{SVG}rect") if r.get("data-delta")}
    own = {f"{step:.5f}" for step in found.delta.flatten().tolist()}
    assert cells <= own
    assert len(cells) > 20


def test_what_is_left_is_the_product_of_the_decays_since():
    """Every step keeps one half: so a token read k steps before has 2⁻ᵏ left."""
    found = trace(
        WEIGHTS,
        FUNCTIONS
        | {
            "selective_parameters": lambda u, *_: (
                torch.full_like(u, 0.1),
                torch.ones(1, u.shape[1], 8),
                torch.ones(1, u.shape[1], 8),
            ),
            "discretize_selective": lambda delta, a, b: (
                torch.full((*delta.shape, 8), 0.5),
                delta[..., None] * b[..., None, :],
            ),
        },
        "abcde",
        0,
        4,
    )
    torch.testing.assert_close(found.left, torch.tensor([0.125, 0.25, 0.5, 1.0, 0.0]))


def test_controls_redraw_and_long_texts_are_cut():
    view = delta_explorer(WEIGHTS, **FUNCTIONS)
    (words,) = controls(view, ipywidgets.Text)
    (layer,) = controls(view, ipywidgets.Dropdown)
    seen = [view.static()]
    words.value = "x" * 100
    seen.append(view.static())
    cells = [r for r in panels(seen[-1])["steps"].iter(f"{SVG}rect") if r.get("data-delta")]
    assert len(cells) == 14 * LONGEST
    layer.value = 1
    seen.append(view.static())
    words.value = "é"
    seen.append(view.static())
    assert "at least two characters" in seen[-1]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda *_: (_ for _ in ()).throw(NotImplementedError), "waits for an exercise"),
        (lambda *_: 1 / 0, "stopped with ZeroDivisionError"),
        (lambda x, taps, bias: x * math.nan, "NaN, infinity or another shape"),
    ],
    ids=["not started", "raises", "NaN"],
)
def test_a_function_that_fails_gives_a_sentence(wrong, told):
    html = draw(WEIGHTS, FUNCTIONS | {"causal_conv1d": wrong}, "abc", 0, 2)
    assert told in html
    assert "<svg" not in html


def test_a_missing_function_is_refused():
    with pytest.raises(ValueError, match="pass your function selective_scan=selective_scan"):
        delta_explorer(WEIGHTS, **{n: f for n, f in FUNCTIONS.items() if n != "selective_scan"})
