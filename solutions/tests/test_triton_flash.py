"""Chapter 18's kernels against attention in float64, and their bytes against chapter 16's."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("attend_solutions.interpreted")

import torch
from attend_solutions.flash import hbm_traffic
from attend_solutions.triton_flash import (
    causal_flash,
    choose_tiles,
    flash_loop,
    flash_lse,
    grouped_flash,
    one_tile,
    ragged_flash,
)
from torch.nn.functional import scaled_dot_product_attention as sdpa

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="kernels are traced in the interpreter"
)
LIMIT = 1e-5
"""Sums of at most 10² float32 terms, in any order, differ by about 1e-6 to 6e-6 of the largest."""

SIZES = [
    # T, S, D, block_t, block_s
    pytest.param(1, 1, 16, 16, 16, id="T1-S1-D16"),
    pytest.param(17, 33, 16, 16, 16, id="T17-S33-D16"),
    pytest.param(21, 64, 32, 16, 32, id="T21-S64-D32"),
    pytest.param(5, 97, 16, 32, 16, id="T5-S97-D16-b32x16"),
]


def inputs(*shapes: tuple[int, ...], spread: float = 2.0) -> list[torch.Tensor]:
    """Numbers with scores of a few units, so that maxima move from tile to tile."""
    draw = torch.Generator().manual_seed(sum(map(sum, shapes)))
    return [spread * torch.randn(shape, generator=draw) for shape in shapes]


def seen(t: int, s: int, window: int | None) -> torch.Tensor:
    """Which keys each query may see. Shape: (T, S)."""
    behind = torch.arange(t)[:, None] + s - t - torch.arange(s)
    return (behind >= 0) & (behind <= (s if window is None else window))


def lse_of(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
    return torch.logsumexp(scores if mask is None else scores.masked_fill(~mask, -torch.inf), -1)


def assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.dtype == torch.float32
    assert got.shape == want.shape
    assert float((got - want).abs().max()) <= LIMIT * float(want.abs().max().clamp(min=1))


@pytest.mark.parametrize(("t", "s", "d", "block_t", "block_s"), SIZES)
def test_one_head_is_attention(t: int, s: int, d: int, block_t: int, block_s: int) -> None:
    q, k, v = inputs((t, d), (s, d), (s, d))
    want = sdpa(q.double()[None], k.double()[None], v.double()[None])[0]
    assert_close(one_tile(q, k, v, block_t), want)
    assert_close(ragged_flash(q, k, v, block_t, block_s), want)
    output, lse = flash_lse(q, k, v, block_t, block_s)
    assert_close(output, want)
    assert_close(lse, lse_of(q, k))
    whole = s // block_s * block_s
    if whole:
        want = sdpa(q.double()[None], k[:whole].double()[None], v[:whole].double()[None])[0]
        assert_close(flash_loop(q, k[:whole], v[:whole], block_t, block_s), want)


@pytest.mark.parametrize("window", [None, 0, 3, 16, 40])
@pytest.mark.parametrize(("t", "s", "d", "block_t", "block_s"), SIZES)
def test_causal_with_and_without_a_window(
    t: int, s: int, d: int, block_t: int, block_s: int, window: int | None
) -> None:
    q, k, v = inputs((t, d), (s, d), (s, d))
    mask = seen(t, s, window)
    want = sdpa(q.double()[None], k.double()[None], v.double()[None], attn_mask=mask)[0]
    output, lse = causal_flash(q, k, v, window, block_t, block_s)
    assert_close(output, want)
    assert_close(lse, lse_of(q, k, mask))


@pytest.mark.parametrize(("h", "g"), [(4, 4), (4, 2), (6, 2), (3, 1)])
def test_grouped_heads_of_any_strides(h: int, g: int) -> None:
    b, t, s, d = 2, 19, 23, 16
    q, k, v = inputs((b, t, h, d), (b, g, s, d), (b, s, g, d))
    q, v = q.transpose(1, 2), v.transpose(1, 2)
    wide = [x.double() for x in (q, k, v)]
    mask = seen(t, s, None)
    output, lse = grouped_flash(q, k, v)
    assert_close(output, sdpa(*wide, attn_mask=mask, enable_gqa=True))
    assert_close(lse, lse_of(q, k.repeat_interleave(h // g, 1), mask))


@pytest.mark.parametrize("window", [None, 0, 9, 30])
@pytest.mark.parametrize(("t", "s", "d", "block_t", "block_s"), SIZES)
def test_bytes_are_those_of_chapter_16(
    t: int, s: int, d: int, block_t: int, block_s: int, window: int | None
) -> None:
    q, k, v = inputs((t, d), (s, d), (s, d))
    assert moved(causal_flash, q, k, v, window, block_t, block_s) == hbm_traffic(
        t, s, d, block_t, block_s, True, window, itemsize=4
    )
    assert moved(flash_lse, q, k, v, block_t, block_s) == hbm_traffic(
        t, s, d, block_t, block_s, itemsize=4
    )


def moved(function: Any, *args: Any) -> int:
    from attend_grader.inside.tracer import traced

    with traced() as tracer:
        function(*args)
    (launch,) = tracer.launches
    assert launch.events == []
    return launch.bytes_read + launch.bytes_written


def test_float16_is_summed_in_float32() -> None:
    q, k, v = (x.half() for x in inputs((5, 16), (48, 16), (48, 16)))
    v = (3000 + v).half()
    want = sdpa(q.double()[None], k.double()[None], v.double()[None])[0]
    for function in (one_tile, flash_loop, ragged_flash):
        assert float((function(q, k, v) - want).abs().max()) < 2e-3 * 3000


@pytest.mark.parametrize("width", [64, 128])
def test_tiles_are_powers_of_two(width: int) -> None:
    assert all(n & (n - 1) == 0 for n in choose_tiles(width)[:3])
