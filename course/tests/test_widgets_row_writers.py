"""Chapter 19's picture: who writes which rows, as planned and as a learner's kernels do."""

from __future__ import annotations

import os
from typing import Any

import ipywidgets
import pytest
from attend.widgets import row_writers
from attend.widgets.row_writers import COUNT, MASKS, draw, plan, traced_writes

from .pictures import SVG, assert_shows_itself, controls, panels

needs_interpreter = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1" and "triton" in __import__("sys").modules,
    reason="kernels are traced in the interpreter",
)


def words(html: str, panel: str) -> str:
    return " ".join(text.text or "" for text in panels(html)[panel].iter(f"{SVG}text"))


def test_it_shows_itself() -> None:
    assert_shows_itself(row_writers(), "two-passes", "one-pass")


@pytest.mark.parametrize(("mask", "tile", "writers"), [("none", 0, 4), ("causal", 0, 1),
                                                       ("causal", 3, 4)])  # fmt: skip
def test_one_pass_shares_rows_and_two_do_not(mask: str, tile: int, writers: int) -> None:
    html = draw(mask, tile, plan, "the plan")
    rows = f"Rows {16 * tile} to {16 * tile + 15} of dQ:"
    assert f"{rows} 1 program writes them (queries {tile})" in words(html, "two-passes")
    many = "1 program writes" if writers == 1 else f"{writers} programs write"
    assert f"{rows} {many}" in words(html, "one-pass")


def test_controls_choose_mask_and_tile() -> None:
    view = row_writers()
    (mask,), (tile,) = (
        controls(view, kind) for kind in (ipywidgets.SelectionSlider, ipywidgets.IntSlider)
    )
    mask.value, tile.value = "causal", 2
    assert "causal, the plan" in view.static()
    assert "Rows 32 to 47 of dQ: 3 programs write them (keys 0, 1, 2)" in view.static()


@needs_interpreter
@pytest.mark.parametrize("causal", MASKS.values(), ids=MASKS)
def test_a_learners_own_writes_are_drawn(causal: bool) -> None:
    kernels = pytest.importorskip("attend_solutions.triton_flash_backward")
    two = traced_writes([kernels.grad_keys_values, kernels.grad_queries], causal)
    one = traced_writes([kernels.one_pass], causal)
    assert (two, one) == plan(causal)


@needs_interpreter
def test_a_race_is_marked() -> None:
    kernels = pytest.importorskip("attend_solutions.triton_flash_backward")
    exercise = pytest.importorskip("attend_grader.chapters.ch19_triton_flash_backward.one_pass")
    racing = exercise.EXERCISE.misconceptions["rows of dQ written other than by atomic additions"]
    view = row_writers((kernels.grad_keys_values, kernels.grad_queries), racing)
    assert f"A race: {COUNT} tiles are stored to by several programs." in view.static()
    assert "A race" not in words(view.static(), "two-passes")


@needs_interpreter
def test_a_kernel_that_fails_leaves_a_sentence() -> None:
    def unwritten(*args: Any) -> None:
        raise NotImplementedError

    def broken(*args: Any) -> None:
        raise ValueError("no such block")

    def idle(*args: Any) -> None:
        return None

    said = {f.__name__: row_writers([f], f).static() for f in (unwritten, broken, idle)}
    assert "waits for the exercise unwritten" in said["unwritten"]
    assert "stopped with ValueError: no such block" in said["broken"]
    assert "idle launched no kernel" in said["idle"]
