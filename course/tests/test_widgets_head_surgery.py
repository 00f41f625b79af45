"""Chapter 05's first picture: heads of a trained model, switched off by the learner's own class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets
import pytest
import torch
from attend.data import head_trials as trials
from attend.widgets import head_surgery
from attend.widgets.head_surgery import CHOICES, HEADS, Operation, draw, measure
from attend_solutions.multi_head import GroupedQueryAttention

from .pictures import SVG, assert_shows_itself, controls, panels


def errors(state: Operation, attention: Callable[..., Any] | None = None) -> tuple[float, float]:
    """What was measured; the class did not stop."""
    found = measure(state, attention)
    assert isinstance(found, tuple), found
    return found


def test_it_shows_itself_with_and_without_a_kernel():
    assert_shows_itself(head_surgery(), "surgery", "answers")


def test_what_the_text_says_of_the_first_model():
    """Head 1 finds the house and head 6 the friend; any other alone can go."""
    whole = errors(Operation())
    assert max(whole) < 1e-3
    for h in range(HEADS):
        friend, house = errors(Operation(off=frozenset({h})))
        assert (friend > 0.9) == (h == 5)
        assert (house > 0.9) == (h == 0)
        if h not in (0, 5):
            assert max(friend, house) < 0.003
    assert max(errors(Operation(off=frozenset({0, 5})))) > 0.9


def test_one_head_of_keys_is_nearly_right():
    both = {kv_heads: max(errors(Operation(kv_heads))) for kv_heads in CHOICES}
    assert both[8] < both[1] < 0.01


def test_weights_of_heads_are_what_the_text_says():
    """Heads 1 and 5 look at the house, with 98 % and 82 % of their weight."""
    model = GroupedQueryAttention(48, 8, 8)
    model.load_state_dict(trials.surgery(8))
    rows = trials.rows(trials.TEST, 256)
    weights = model(rows.x)[1].detach()
    there = rows.places[:, None].expand(-1, 8, -1, -1)
    found = weights.gather(3, there).mean(dim=(0, 2))  # (H, 2)
    assert [round(100 * float(found[h, 1])) for h in (0, 4)] == [98, 82]


@pytest.mark.parametrize("kv_heads", CHOICES)
def test_the_picture_draws_what_was_measured(kv_heads: int):
    state = Operation(kv_heads, frozenset({1, 6}))
    now, whole = errors(state), errors(Operation(kv_heads))
    drawn = panels(draw(state, now, whole))
    bars = {r.get("data-of"): r.get("data-error") for r in drawn["answers"].iter(f"{SVG}rect")}
    assert bars["friend"] == f"{now[0]:.6g}"
    assert bars["house"] == f"{now[1]:.6g}"
    kept = [int(r.get("data-bytes", 0)) for r in drawn["answers"].iter(f"{SVG}rect")]
    assert {size for size in kept if size} == {384, 2 * kv_heads * 6 * 4}
    heads = [r for r in drawn["surgery"].iter(f"{SVG}rect") if r.get("data-head")]
    assert [r.get("data-head") for r in heads if r.get("data-on") == "0"] == ["2", "7"]
    boxes = {r.get("data-kv") for r in drawn["surgery"].iter(f"{SVG}rect")} - {None}
    assert len(boxes) == kv_heads
    assert "Without heads 2, 7" in drawn["surgery"].get("aria-label", "")


def test_every_control_redraws_and_the_seed_stays():
    torch.manual_seed(3)
    want = torch.rand(1)
    torch.manual_seed(3)
    view = head_surgery()
    seen = [view.static()]
    for button in controls(view, ipywidgets.ToggleButton)[:2]:
        button.value = False
        seen.append(view.static())
    (slider,) = controls(view, ipywidgets.SelectionSlider)
    slider.value = 1
    seen.append(view.static())
    assert len(set(seen)) == 4
    assert torch.equal(torch.rand(1), want)


class NotStarted(GroupedQueryAttention):
    def forward(self, x, mask=None):
        raise NotImplementedError


class Crashes(GroupedQueryAttention):
    def forward(self, x, mask=None):
        raise RuntimeError("shapes do not fit")


class Infinite(GroupedQueryAttention):
    def forward(self, x, mask=None) -> tuple[Any, Any]:
        return x / 0, None


class Doubled(GroupedQueryAttention):
    def forward(self, x, mask=None):
        output, weights = super().forward(x, mask)
        x.zero_()
        return 2 * output, weights


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (NotStarted, "waits for the exercise GroupedQueryAttention"),
        (Crashes, "stopped with RuntimeError: shapes do not fit"),
        (Infinite, "NaN or infinity"),
    ],
)
def test_a_wrong_class_gets_one_sentence(attention: type, message: str):
    html = head_surgery(attention).static()
    assert message in html
    assert panels(html) == {}


def test_it_runs_the_learners_class():
    friend, house = errors(Operation(), Doubled)
    assert min(friend, house) > 0.5
    assert max(errors(Operation())) < 1e-3  # an input that is overwritten does no harm
