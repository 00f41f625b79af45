"""Chapter 25's picture and its counter: what they draw and count is what functions do."""

from __future__ import annotations

import math

import ipywidgets
import numpy as np
import pytest
import torch
from attend.multiplications import multiplications
from attend.widgets import semiseparable
from attend.widgets.semiseparable import STEPS, draw, matrix, numbers_moved, vectors
from attend.widgets.semiseparable import multiplications as drawn_multiplications
from attend_solutions.mamba_kernels import best_chunk, ssd_chunked

from .pictures import SVG, assert_shows_itself, controls, panels


def test_it_shows_itself_with_and_without_a_kernel():
    assert_shows_itself(semiseparable(), "blocks", "costs")
    assert_shows_itself(semiseparable(ssd_chunked), "blocks", "costs")


@pytest.mark.parametrize("decay", [0.3, 0.85, 1.0])
@pytest.mark.parametrize("chunk", [1, 5, 16])
def test_the_learners_matrix_is_the_pictures_own(chunk: int, decay: float):
    entries = [
        r.get("data-entry", "")
        for r in panels(draw(chunk, decay, ssd_chunked))["blocks"].iter(f"{SVG}rect")
        if r.get("data-entry")
    ]
    own = matrix(decay)
    wanted = [own[t, s] for t in range(STEPS) for s in range(t + 1)]
    np.testing.assert_allclose([float(e) for e in entries], wanted, atol=1e-6)


def test_the_matrix_is_the_recurrence_written_out():
    b, c = vectors()
    state, rows = np.zeros((16, STEPS)), []
    for t in range(STEPS):
        state = 0.85 * state
        state[:, t] += b[t]
        rows.append(c[t] @ state)
    np.testing.assert_allclose(matrix(0.85), rows, atol=1e-12)


def test_a_wrong_function_shows_in_the_matrix():
    """One that sees the future leaves cells above the diagonal."""
    html = draw(4, 0.85, lambda x, logs, b, c, chunk: (x + 1, None))
    cells = [r for r in panels(html)["blocks"].iter(f"{SVG}rect") if r.get("data-entry")]
    assert len(cells) == STEPS * STEPS


@pytest.mark.parametrize("chunk", [1, 3, 4, 16])
def test_its_costs_are_counted_ones(chunk: int):
    b, c = (torch.randn(1, STEPS, 16) for _ in range(2))
    given = torch.randn(1, STEPS, 1, 16), -torch.rand(1, STEPS, 1), b, c
    assert multiplications(ssd_chunked, *given, chunk) == drawn_multiplications(chunk)


def test_its_least_is_the_designs():
    costs = {q: drawn_multiplications(q) for q in range(1, STEPS + 1)}
    best = min(costs, key=lambda q: costs[q])
    assert best_chunk(STEPS, 1, 16, 16, 10**9) == (best, costs[best])
    moved = [numbers_moved(q) for q in range(1, STEPS + 1)]
    assert moved == sorted(moved, reverse=True)


def test_sliders_redraw():
    view = semiseparable(ssd_chunked)
    seen = [view.static()]
    (chunk,) = controls(view, ipywidgets.IntSlider)
    (decay,) = controls(view, ipywidgets.FloatSlider)
    chunk.value = 7
    seen.append(view.static())
    decay.value = 0.5
    seen.append(view.static())
    assert len(set(seen)) == 3


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda *_: (_ for _ in ()).throw(NotImplementedError), "waits for the exercise"),
        (lambda *_: 1 / 0, "stopped with ZeroDivisionError"),
        (lambda x, *_: (x * math.nan, None), "NaN, infinity or another shape"),
    ],
    ids=["not started", "raises", "NaN"],
)
def test_a_function_that_fails_gives_a_sentence(wrong, told):
    html = draw(4, 0.85, wrong)
    assert told in html
    assert "<svg" not in html


def test_products_and_elementwise_multiplications_are_counted():
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    assert multiplications(lambda: a @ b) == 3 * 4 * 5
    assert multiplications(lambda: torch.einsum("ij,jk->ik", a, b)) == 3 * 4 * 5
    assert multiplications(lambda: (a * a, a / 2, a + a)) == 2 * 12
    assert multiplications(lambda: torch.addmm(torch.randn(5), a, b)) == 3 * 4 * 5
