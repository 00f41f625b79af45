"""The cheat: what the picture says is what was trained, and what wrong functions get."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any

import numpy as np
import pytest
from attend.data import number_words as data
from attend.widgets import the_cheat
from attend.widgets.kit.live import Live
from attend.widgets.the_cheat import AHEAD, PAST, SAMPLE, SEE, Reading, draw, measure, words
from attend_solutions.self_attention import self_attention

from .pictures import SVG, panels

OPEN = frozenset((*PAST, 1))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for a moment only: what is learned is tested with the data."""
    whole = data.train

    def briefly(attention: Any, mask: Any, **more: Any) -> Any:
        return whole(attention, mask, **more | {"steps": 12})

    monkeypatch.setattr(data, "train", briefly)


def reading(lines: tuple[str, ...] = ("two hundred si",)) -> Reading:
    weights = np.zeros((data.PLACES, data.PLACES))
    return Reading(np.full(12, 0.001), np.full(12, 7.0), weights, lines)


def test_it_shows_itself_with_and_without_a_kernel():
    widget = the_cheat()
    assert isinstance(widget, Live)
    bundle: Any = widget._repr_mimebundle_()
    bundle = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert SEE in bundle["text/plain"]
    assert SEE in unescape(bundle["text/html"])
    assert bundle["text/html"].count("<img") == 4, "without and with a look ahead"
    assert list(panels(widget.static())) == ["weights", "written"]  # the last of each name
    assert "sees nothing ahead" in unescape(bundle["text/html"])
    assert "sees 1 ahead" in unescape(bundle["text/html"])


def test_every_cell_names_its_diagonal_and_hidden_ones_are_grey():
    panel = panels(draw(OPEN, reading()))["weights"]
    cells = [node for node in panel.iter(f"{SVG}rect") if node.get("data-offset")]
    offsets = [int(cell.get("data-offset", "")) for cell in cells]
    assert min(offsets) == PAST[0]
    assert max(offsets) == AHEAD
    assert offsets.count(1) == data.GUESSES, "each row has a letter ahead"
    told = {int(c.get("data-offset", "")): next(c.iter(f"{SVG}title")).text for c in cells}
    assert told[1] == "1 ahead: weight 0.00; click to hide this diagonal"
    assert told[2] == "2 ahead: hidden; click to show this diagonal"
    fills = {int(c.get("data-offset", "")): c.get("fill") for c in cells}
    assert fills[1] == fills[0] != fills[2]


def test_words_that_are_none_are_underlined_but_not_what_is_cut():
    panel = panels(draw(OPEN, reading(("twoo hundred-six seve", "twexx"))))["written"]
    odd = [s.text for s in panel.iter(f"{SVG}tspan") if s.get("text-decoration") == "underline"]
    assert odd == ["twoo", "twexx"]


def test_the_status_line_gives_both_losses():
    told = words(OPEN, reading())
    assert "It sees 1 ahead" in told
    assert "as trained: 0.00 bits" in told
    assert "as when it writes: 7.00" in told
    assert "nothing ahead" in words(frozenset(PAST), reading())


def test_another_mask_is_trained_and_shown_and_kept():
    asked = []

    def attention(x: Any, w_q: Any, w_k: Any, w_v: Any, mask: Any) -> Any:
        asked.append(np.array(mask))
        return self_attention(x, w_q, w_k, w_v, mask)

    widget = the_cheat(attention)
    before = widget.picture
    asked.clear()
    widget.offsets = [0]
    assert widget.picture != before
    assert (asked[0] == np.eye(data.PLACES, dtype=bool)).all()
    asked.clear()
    widget.offsets = list(PAST)
    assert widget.picture == before
    assert asked == [], "what was trained once is not trained again"


def test_nothing_may_be_seen_at_all():
    found = measure(frozenset())
    assert isinstance(found, Reading)
    assert not found.weights.any()


def test_the_learners_function_gives_the_same_numbers():
    own, theirs = measure(OPEN), measure(OPEN, self_attention)
    assert isinstance(own, Reading)
    assert isinstance(theirs, Reading)
    np.testing.assert_allclose(own.bits, theirs.bits, rtol=1e-6)
    assert len(SAMPLE) == data.PLACES


def breaks_later() -> Callable[..., Any]:
    calls = []

    def attention(x: Any, w_q: Any, w_k: Any, w_v: Any, mask: Any) -> Any:
        calls.append(1)
        if len(calls) > 3:
            raise IndexError("too late")
        return self_attention(x, w_q, w_k, w_v, mask)

    return attention


def not_started(x: Any, w_q: Any, w_k: Any, w_v: Any, mask: Any = None) -> Any:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("attention", "told"),
    [
        (not_started, "waits for the exercise self_attention"),
        (lambda x, w_q, w_k, w_v, mask: x, "should return an output"),
        (breaks_later(), "Training stopped with IndexError: too late"),
    ],
)
def test_a_wrong_function_is_told(attention: Any, told: str):
    widget = the_cheat(attention)
    assert told in widget.said
    assert told in unescape(widget.picture)


def test_something_else_than_a_function_is_refused():
    with pytest.raises(ValueError, match="must be your function self_attention"):
        the_cheat("self_attention")  # type: ignore[arg-type]
