"""The memory viewer: what a learner's kernel touched, and a glow where that is not theirs."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("attend_solutions.interpreted")
from attend.kernels import moved
from attend.widgets import memory_viewer
from attend.widgets.memory_viewer import (
    ORDERS,
    ViewerState,
    demo,
    draw,
    ordered,
    recorded,
    sectors,
)
from attend_solutions import triton as answers

from .pictures import assert_shows_itself


def test_shows_itself() -> None:
    assert_shows_itself(memory_viewer(), "memory")
    assert_shows_itself(memory_viewer(answers.vector_add, torch.ones(20), torch.ones(20)), "memory")


def test_the_trace_is_that_of_the_function() -> None:
    memory = recorded(answers.vector_add, (torch.ones(20), torch.ones(20), 8), 0)
    assert memory.sizes == {"x": (20, 4), "y": (20, 4), "out": (20, 4)}
    assert [(p, k, b) for p, k, b, _ in memory.log[:3]] == [
        (0, "load", "x"),
        (0, "load", "y"),
        (0, "store", "out"),
    ]
    assert memory.log[-1][3] == [16, 17, 18, 19]


def test_a_view_is_shown_where_it_lies() -> None:
    view = torch.arange(64.0).reshape(4, 16)[:, ::4]
    memory = recorded(answers.copy_strided, (view, 4, 8), 0)
    assert memory.log[0][3] == list(range(0, 64, 4))
    assert sectors(memory.log[:1], memory) == (256, 64)
    assert moved(answers.copy_strided, view, 4, 8).fetched == 256 + 64


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_does_the_same_accesses(order: str) -> None:
    log = demo(masked=True).log
    assert sorted(map(str, ordered(log, order))) == sorted(map(str, log))


def test_touches_outside_glow() -> None:
    assert "attend-glow" not in draw(ViewerState(36), demo(masked=True))
    shown = draw(ViewerState(36), demo(masked=False))
    assert shown.count("attend-glow") == 9
    assert "9 cells outside their buffer were touched" in shown


def test_sentences_take_the_place_of_what_cannot_be_shown() -> None:
    def vector_add() -> None:
        raise NotImplementedError

    assert "waits for vector_add" in draw(ViewerState(), recorded(vector_add, (), 0))
    assert "launched 0 kernels" in draw(ViewerState(), recorded(lambda: None, (), 0))
    large = recorded(answers.vector_add, (torch.ones(300), torch.ones(300), 64), 0)
    assert "There is room for" in draw(ViewerState(), large)


def test_controls_move_the_picture() -> None:
    view = memory_viewer()
    slider, row = view.children[1], view.children[2]
    order, mask = row.children[1:]
    before = view.children[3].value
    mask.value = False
    assert "attend-glow" in view.children[3].value
    slider.value = 0
    assert "Nothing has happened yet" in view.children[3].value
    slider.value, order.value = 1, "backwards"
    assert "program 11 loads" in view.children[3].value
    assert before != view.children[3].value
