"""Chapter 07's widget: it draws what it measures in a stack of the learner's own blocks."""

from __future__ import annotations

import math

import ipywidgets
import pytest
import torch
from attend.data import deep_stack as deep
from attend.widgets import depth_thermometer
from attend.widgets.depth import ARMS, draw, measure
from attend_solutions.block import TransformerBlock

from .pictures import SVG, assert_shows_itself, controls, panels


def test_it_shows_itself_with_and_without_a_kernel():
    assert_shows_itself(depth_thermometer(), "stream", "gradient")


def test_its_arms_are_those_of_the_experiment():
    assert ARMS == deep.ARMS


@pytest.mark.parametrize("arm", ARMS)
def test_bars_are_what_was_measured(arm: str):
    found = measure(arm, 6)
    drawn = panels(draw(arm, 6, 0))
    for name, sizes in (("stream", found.stream), ("gradient", found.gradient)):
        bars = [r.get("data-size") for r in drawn[name].iter(f"{SVG}rect") if r.get("data-size")]
        assert bars == [f"{size:.6g}" for size in sizes]
    assert (len(found.stream), len(found.gradient)) == (7, 6)


def test_what_the_text_says_of_24_blocks():
    """Dead without anything; alike with a large start; alive with a residual connection."""
    found = {arm: measure(arm, 24) for arm in ARMS}
    assert found[deep.NOTHING].stream[4] < 1e-4
    assert max(found[deep.NOTHING].gradient) < 1e-8
    large = found[deep.LARGE]
    assert 0.1 < large.stream[-1] < 10
    assert min(large.gradient) > 0.1
    assert large.differs[-1] < 1e-4
    for arm in (deep.RESIDUAL, deep.SMALL, deep.POST, deep.PRE):
        assert found[arm].differs[-1] > 0.1
        assert min(found[arm].gradient) > 0.1
    assert found[deep.RESIDUAL].stream[-1] > 3 * found[deep.SMALL].stream[-1]


def test_sizes_are_those_of_the_streams():
    """A block that doubles the stream: the bars double."""

    class Doubles(TransformerBlock):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return 2 * x + 0 * self.scale.sum()

    found = measure(deep.PRE, 3, block=Doubles)
    for bigger, size in zip(found.stream[1:], found.stream, strict=False):
        assert math.isclose(bigger, 2 * size, rel_tol=1e-5)


def test_training_lowers_the_loss_and_leaves_torchs_seed_alone():
    torch.manual_seed(3)
    want = torch.rand(1)
    torch.manual_seed(3)
    before, after = measure(deep.PRE, 2), measure(deep.PRE, 2, 20)
    assert torch.equal(torch.rand(1), want)
    assert after.loss < before.loss


def test_every_control_redraws():
    view = depth_thermometer()
    (arm,) = controls(view, ipywidgets.Dropdown)
    layers, steps = controls(view, ipywidgets.SelectionSlider)
    seen = [view.static()]
    for control, value in ((layers, 2), (arm, "pre-norm"), (steps, 20)):
        control.value = value
        seen.append(view.static())
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (NotImplementedError(), "waits for an exercise"),
        (ZeroDivisionError("by 0"), "stopped with ZeroDivisionError: by 0"),
    ],
    ids=["not started", "raises"],
)
def test_a_block_that_fails_gives_a_sentence(wrong: Exception, told: str):
    class Fails(TransformerBlock):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            raise wrong

    html = draw("pre-norm", 2, 0, Fails)
    assert told in html
    assert "<svg" not in html


def test_a_block_that_overflows_gives_a_sentence():
    class Grows(TransformerBlock):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return x * 1e30

    assert "overflowed" in draw("pre-norm", 6, 0, Grows)
