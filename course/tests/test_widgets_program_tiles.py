"""Chapter 18's picture: tiles by program, as planned and as a learner's kernel reads them."""

from __future__ import annotations

import os
from typing import Any

import ipywidgets
import numpy as np
import pytest
from attend.widgets import program_tiles
from attend.widgets.program_tiles import COUNT, TILE, TOKENS, WINDOWS, TilesState, draw, plan
from attend_solutions.flash import tiles_needed

from .pictures import SVG, assert_shows_itself, controls, panels

needs_interpreter = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1" and "triton" in __import__("sys").modules,
    reason="kernels are traced in the interpreter",
)


def words(html: str, panel: str = "programs") -> str:
    return " ".join(text.text or "" for text in panels(html)[panel].iter(f"{SVG}text"))


def drawn(rows: Any, window: str = "none", turn: int = 3) -> str:
    return words(draw(TilesState(window, turn), lambda _: rows, "a test"))


def test_it_shows_itself_with_and_without_a_kernel() -> None:
    assert_shows_itself(program_tiles(), "programs", "legend")


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_the_plan_reads_the_tiles_of_chapter_16(window: int | None) -> None:
    needed = tiles_needed(TOKENS, TOKENS, TILE, TILE, True, window)
    read = np.zeros((COUNT, COUNT), bool)
    for program, turns in enumerate(plan(window)):
        read[program, [tile for tiles in turns for tile in tiles]] = True
    np.testing.assert_array_equal(read, needed)


def test_turns_are_counted() -> None:
    html = drawn(plan(None), turn=3)
    assert "After turn 3, 5 of 8 programs are at work; 21 of 36 needed tiles are read." in html
    assert "The shortest program takes 1 turn, the longest 8." in html
    assert "in vain" not in html
    assert "0 of 8 programs are at work; 36 of 36" in drawn(plan(None), turn=8)


def test_what_is_read_in_vain_or_never_is_told() -> None:
    everything = [[[j] for j in range(COUNT)]] * COUNT
    assert "Read in vain: 28. Needed, but never read: 0." in drawn(everything)
    diagonal = [[[i]] for i in range(COUNT)]
    assert "Read in vain: 0. Needed, but never read: 28." in drawn(diagonal)


def test_controls_choose_window_and_turn() -> None:
    view = program_tiles()
    (window,), (turn,) = (
        controls(view, kind) for kind in (ipywidgets.SelectionSlider, ipywidgets.IntSlider)
    )
    window.value, turn.value = "16", 1
    assert "window 16" in view.static()
    assert "After turn 1" in view.static()


@needs_interpreter
def test_a_learners_own_loads_are_drawn() -> None:
    kernels = pytest.importorskip("attend_solutions.triton_flash")
    from attend.widgets.program_tiles import traced_rows

    for window in (None, 8):
        found = traced_rows(kernels.causal_flash, window)
        assert found == [[[int(j) for j in tiles] for tiles in row] for row in plan(window)]


@needs_interpreter
def test_a_kernel_that_fails_leaves_a_sentence() -> None:
    pytest.importorskip("attend_solutions.triton_flash")

    def unwritten(*args: Any) -> None:
        raise NotImplementedError

    def broken(*args: Any) -> None:
        raise ValueError("no such block")

    def idle(*args: Any) -> None:
        return None

    said = {f.__name__: program_tiles(f).static() for f in (unwritten, broken, idle)}
    assert "waits for the exercise causal_flash" in said["unwritten"]
    assert "stopped with ValueError: no such block" in said["broken"]
    assert "launched no kernel" in said["idle"]
