"""Chapter 16's answers against PyTorch's attention and autograd in float64, and counted bytes."""

import doctest
import itertools
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attend_solutions import flash
from attend_solutions.attention import attention_backward, scaled_dot_product_attention
from attend_solutions.flash import (
    flash_backward,
    flash_forward,
    hbm_traffic,
    merge_partials,
    online_softmax,
    stream_attention,
    tiles,
    tiles_needed,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as sdpa

EPS = float(np.finfo(np.float64).eps)

SHAPES = [
    # leading axes, T, S, D, D_v, tile_q, tile_k
    pytest.param((), 1, 1, 1, 1, 1, 1, id="T1-S1-D1-Dv1-q1-k1"),
    pytest.param((), 4, 7, 5, 3, 2, 3, id="T4-S7-D5-Dv3-q2-k3"),
    pytest.param((2,), 5, 6, 3, 8, 5, 1, id="B2-T5-S6-D3-Dv8-q5-k1"),
    pytest.param((2, 3), 1, 9, 9, 4, 64, 4, id="B2-H3-T1-S9-D9-Dv4-q64-k4"),
    pytest.param((1, 2), 13, 17, 8, 8, 4, 64, id="B1-H2-T13-S17-D8-Dv8-q4-k64"),
]


def make_inputs(lead: tuple[int, ...], t: int, s: int, d: int, d_v: int) -> list[np.ndarray]:
    """q, k, v and grad_output; scores spread by a few units, so that maxima move."""
    rng = np.random.default_rng([t, s, d, d_v])
    shapes = (t, d), (s, d), (s, d_v), (t, d_v)
    q, k, v, grad_output = (rng.standard_normal((*lead, *shape)) for shape in shapes)
    return [3 * q, 3 * k, v, grad_output]


def assert_close(got: Any, want: Any, terms: int = 64) -> None:
    """Equal up to the rounding of sums of ``terms`` products, relative to the largest entry."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    largest = float(np.abs(want).max(initial=1.0))
    np.testing.assert_allclose(got, want, rtol=0, atol=8 * terms * EPS * largest)


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(a).requires_grad_() for a in arrays]


def test_docstring_examples_are_right() -> None:
    results = doctest.testmod(flash)
    assert results.attempted > 10
    assert results.failed == 0


def test_importing_the_module_does_not_import_torch() -> None:
    code = "import sys, attend_solutions.flash; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("length", [1, 5, 6])
@pytest.mark.parametrize("tile", [1, 2, 6, 9])
def test_tiles_cover_every_place_once(length: int, tile: int) -> None:
    places = [place for part in tiles(length, tile) for place in range(part.start, part.stop)]
    assert places == list(range(length))
    assert all(part.stop - part.start == tile for part in tiles(length, tile)[:-1])


class TestOnlineSoftmax:
    @settings(deadline=None)
    @given(
        st.lists(st.floats(-700, 700, allow_subnormal=False), min_size=1, max_size=12),
        st.integers(1, 5),
    )
    def test_any_tiling_gives_the_softmax_of_all(self, scores: list[float], tile: int) -> None:
        row = np.array([scores])
        values = np.sin(np.arange(len(scores)))[:, None]
        state = np.array([-np.inf]), np.zeros(1), np.zeros((1, 1))
        for part in tiles(len(scores), tile):
            state = online_softmax(*state, row[:, part], values[part])
        whole = torch.from_numpy(row)
        assert_close(state[2] / state[1][:, None], torch.softmax(whole, -1).numpy() @ values)
        assert_close(state[0] + np.log(state[1]), torch.logsumexp(whole, -1).numpy())

    def test_hidden_keys_change_nothing_first_or_last(self) -> None:
        rng = np.random.default_rng(0)
        scores, values = rng.standard_normal((2, 3)), rng.standard_normal((3, 4))
        hidden, noise = np.full((2, 2), -np.inf), rng.standard_normal((2, 4))
        empty = np.full(2, -np.inf), np.zeros(2), np.zeros((2, 4))
        want = online_softmax(*empty, scores, values)
        still_empty = online_softmax(*empty, hidden, noise)
        np.testing.assert_array_equal(still_empty[0], -np.inf)
        for got in (
            online_softmax(*still_empty, scores, values),
            online_softmax(*want, hidden, noise),
        ):
            for one, other in zip(got, want, strict=True):
                np.testing.assert_array_equal(one, other)


class TestMergePartials:
    @staticmethod
    def parts(seed: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Partial results with LSEs tens apart; every second row of one part is empty."""
        rng = np.random.default_rng(seed)
        made = []
        for i in range(count):
            output, lse = rng.standard_normal((2, 5, 3)), 30 * rng.standard_normal((2, 5))
            if i == 1:
                output[:, ::2], lse[:, ::2] = 0, -np.inf
            made.append((output, lse))
        return made

    @pytest.mark.parametrize("seed", range(5))
    def test_any_order_and_any_brackets(self, seed: int) -> None:
        a, b, c = self.parts(seed, 3)
        want = merge_partials(*merge_partials(*a, *b), *c)
        for x, y, z in itertools.permutations((a, b, c)):
            for got in (
                merge_partials(*merge_partials(*x, *y), *z),
                merge_partials(*x, *merge_partials(*y, *z)),
            ):
                assert_close(got[0], want[0])
                assert_close(got[1], want[1])

    def test_an_empty_part_is_neutral(self) -> None:
        (output, lse), _ = self.parts(0, 2)
        nothing = np.zeros_like(output), np.full_like(lse, -np.inf)
        for got in (merge_partials(output, lse, *nothing), merge_partials(*nothing, output, lse)):
            np.testing.assert_array_equal(got[0], output)
            np.testing.assert_array_equal(got[1], lse)
        assert not merge_partials(*nothing, *nothing)[0].any()

    def test_halves_make_the_whole(self) -> None:
        q, k, v, _ = make_inputs((2,), 4, 9, 5, 3)
        halves = [flash_forward(q, k[:, part], v[:, part]) for part in (slice(4), slice(4, 9))]
        for got, want in zip(
            merge_partials(*halves[0], *halves[1]), flash_forward(q, k, v), strict=True
        ):
            assert_close(got, want)


@pytest.mark.parametrize(("lead", "t", "s", "d", "d_v", "tile_q", "tile_k"), SHAPES)
class TestAgainstTorch:
    def test_forward(self, lead, t, s, d, d_v, tile_q, tile_k) -> None:
        q, k, v, _ = make_inputs(lead, t, s, d, d_v)
        output, lse = flash_forward(q, k, v, tile_q, tile_k)
        q_, k_, v_ = torch.from_numpy(q), torch.from_numpy(k), torch.from_numpy(v)
        assert_close(output, sdpa(q_, k_, v_))
        assert_close(lse, torch.logsumexp(q_ @ k_.mT / d**0.5, -1))

    def test_stream(self, lead, t, s, d, d_v, tile_q, tile_k) -> None:
        del tile_q
        q, k, v, _ = (x[(0,) * len(lead)] for x in make_inputs(lead, t, s, d, d_v))
        want, want_lse = flash_forward(q, k, v)
        for row in range(t):
            output, lse = stream_attention(q[row], k, v, tile_k)
            assert_close(output, want[row])
            assert_close(lse, want_lse[row])
            assert isinstance(lse, float)

    def test_backward(self, lead, t, s, d, d_v, tile_q, tile_k) -> None:
        q, k, v, grad_output = make_inputs(lead, t, s, d, d_v)
        inputs = tensors(q, k, v)
        sdpa(inputs[0], inputs[1], inputs[2]).backward(torch.from_numpy(grad_output))
        got = flash_backward(q, k, v, *flash_forward(q, k, v, 3, 3), grad_output, tile_q, tile_k)
        for mine, theirs in zip(got, inputs, strict=True):
            assert theirs.grad is not None
            assert_close(mine, theirs.grad)

    def test_no_input_is_changed(self, lead, t, s, d, d_v, tile_q, tile_k) -> None:
        q, k, v, grad_output = make_inputs(lead, t, s, d, d_v)
        copies = [x.copy() for x in (q, k, v, grad_output)]
        output, lse = flash_forward(q, k, v, tile_q, tile_k)
        copies += [output.copy(), lse.copy()]
        flash_backward(q, k, v, output, lse, grad_output, tile_q, tile_k)
        for now, before in zip((q, k, v, grad_output, output, lse), copies, strict=True):
            np.testing.assert_array_equal(now, before)


def test_rounding_is_that_of_the_naive_form() -> None:
    """Against 80-bit numbers: neither form may err by more than a few eps a sum of 512 terms."""
    if np.finfo(np.longdouble).eps >= EPS:
        pytest.skip("longdouble is float64 on this machine")
    q, k, v, _ = make_inputs((), 64, 512, 16, 16)
    wide = [x.astype(np.longdouble) for x in (q, k, v)]
    exact = scaled_dot_product_attention(*wide)[0]
    for got in (flash_forward(q, k, v, 16, 32)[0], scaled_dot_product_attention(q, k, v)[0]):
        # a score of size ‖z‖ is rounded by eps ‖z‖, which exp turns into a relative error
        scores = np.abs(q @ k.T).max() / 4
        assert np.abs(got - exact).max() <= 16 * EPS * scores * np.abs(v).max()


def test_backward_agrees_with_chapter_03() -> None:
    q, k, v, grad_output = make_inputs((2,), 7, 11, 4, 6)
    got = flash_backward(q, k, v, *flash_forward(q, k, v), grad_output, 2, 3)
    for mine, other in zip(got, attention_backward(q, k, v, grad_output), strict=True):
        assert_close(mine, other)


def seen(t: int, s: int, causal: bool, window: int | None) -> np.ndarray:
    """The mask itself, pair by pair: the definition."""
    place, key = np.arange(t)[:, None] + s - t, np.arange(s)
    mask = np.ones((t, s), dtype=bool)
    if causal:
        mask &= key <= place
    if window is not None:
        mask &= abs(key - place) <= window
    return mask


MASKS = [(False, None), (True, None), *itertools.product((False, True), (0, 1, 2, 5))]


@pytest.mark.parametrize(("causal", "window"), MASKS)
@pytest.mark.parametrize(("t", "s"), [(1, 1), (7, 7), (3, 9), (9, 4), (8, 12)])
def test_tiles_needed_are_those_with_a_visible_pair(t, s, causal, window) -> None:
    mask = seen(t, s, causal, window)
    for tile_q, tile_k in itertools.product((1, 2, 3, 10), repeat=2):
        got = tiles_needed(t, s, tile_q, tile_k, causal, window)
        want = [[mask[a, b].any() for b in tiles(s, tile_k)] for a in tiles(t, tile_q)]
        np.testing.assert_array_equal(got, want)


class Counted:
    """An array in slow memory: whatever is cut out of it counts as bytes read."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.bytes = array, array.shape, 0

    def __getitem__(self, place: Any) -> np.ndarray:
        tile = self.array[place]
        self.bytes += tile.nbytes
        return tile


@pytest.mark.parametrize(("t", "s", "tile_q", "tile_k"), [(12, 20, 4, 5), (13, 17, 4, 6)])
def test_traffic_is_what_the_tile_loop_moves(t, s, tile_q, tile_k) -> None:
    forward: Any = flash_forward
    counted = [Counted(x) for x in make_inputs((), t, s, 6, 6)[:3]]
    written = sum(result.nbytes for result in forward(*counted, tile_q, tile_k))
    moved = sum(x.bytes for x in counted) + written
    assert hbm_traffic(t, s, 6, tile_q, tile_k, itemsize=8) == moved


def test_traffic_skips_what_no_query_of_the_tile_sees() -> None:
    """Pair by pair from the mask: K and V of a tile are read where any pair is visible."""
    t, s, width, tile_q, tile_k = 13, 17, 6, 4, 6
    for causal, window in MASKS:
        mask = seen(t, s, causal, window)
        pairs = itertools.product(tiles(t, tile_q), tiles(s, tile_k))
        keys = sum(b.stop - b.start for a, b in pairs if mask[a, b].any())
        numbers = 2 * t * width + t + 2 * keys * width
        assert hbm_traffic(t, s, width, tile_q, tile_k, causal, window, 4) == 4 * numbers


def test_traffic_of_a_window_is_linear() -> None:
    short, long = (hbm_traffic(n, n, 64, 32, 32, True, 96) for n in (4096, 8192))
    assert long / short == pytest.approx(2, rel=0.01)


def peak_bytes(function: Callable[..., Any], *args: Any) -> int:
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_keys() -> None:
    rng = np.random.default_rng(0)
    peaks = []
    for s in (256, 4096):
        q, k, v = (rng.standard_normal((n, 32)) for n in (32, s, s))
        peaks.append(peak_bytes(flash_forward, q, k, v, 16, 64))
    assert peaks[1] < 1.3 * peaks[0]  # the list of slices grows, by some 150 bytes a tile


class TestRefusals:
    q, k, v = np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 5))

    def test_forward(self) -> None:
        with pytest.raises(ValueError, match=r"width of the queries, 3; got 2"):
            flash_forward(self.q, self.k[:, :2], self.v)
        with pytest.raises(ValueError, match=r"expected 4 values; got 3"):
            flash_forward(self.q, self.k, self.v[:3])
        with pytest.raises(ValueError, match=r"at least 1 place; got 0"):
            flash_forward(self.q, self.k, self.v, 0, 1)
        with pytest.raises(ValueError, match=r"at least 1 place; got -1"):
            flash_forward(self.q, self.k, self.v, 1, -1)

    def test_stream(self) -> None:
        with pytest.raises(ValueError, match=r"width of the queries, 3; got 2"):
            stream_attention(self.q[0], self.k[:, :2], self.v)
        with pytest.raises(ValueError, match=r"at least 1 place; got 0"):
            stream_attention(self.q[0], self.k, self.v, 0)

    def test_backward(self) -> None:
        output, lse = flash_forward(self.q, self.k, self.v)
        with pytest.raises(ValueError, match=r"width of the queries, 3; got 1"):
            flash_backward(self.q, self.k[:, :1], self.v, output, lse, output)
        with pytest.raises(ValueError, match=r"at least 1 place; got 0"):
            flash_backward(self.q, self.k, self.v, output, lse, output, 0)

    @pytest.mark.parametrize(
        "function", [tiles_needed, lambda t, s, *a, **b: hbm_traffic(t, s, 4, *a, **b)]
    )
    def test_counting(self, function) -> None:
        with pytest.raises(ValueError, match=r"at least 1 place; got 0"):
            function(4, 4, 0, 1)
        with pytest.raises(ValueError, match=r"0 or more keys on each side; got -1"):
            function(4, 4, 1, 1, window=-1)
