"""Flash attention's options: each, in combination, on random shapes, whatever the block size."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from attend_kernels import flash_attention, naive_attention
from attend_kernels.common import fallback
from attend_kernels.ops.flash import tiles as flash_tiles
from attend_kernels.ops.flash.tiles import Tile
from hypothesis import given, settings
from hypothesis import strategies as st

from .flash_cases import Case, check, run
from .numerics import relative_error

pytestmark = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
WINDOWS = [0, 5, (3, 7), (40, 0), (None, 4), (4, None), (None, None), (200, 200)]
WINDOWS += [(2**31 - 1, 2**40)]  # more than the kernels' 32-bit positions


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window, causal: bool, device: str):
    check(Case(70, 90, H=1, D=16, window=window, causal=causal), device)


@pytest.mark.parametrize("window", [3, (0, 30), (30, 0)], ids=str)
def test_windows_that_leave_rows_empty(window, device: str):
    got = check(Case(128, 70, H=1, D=16, window=window), device)
    empty = got["LSE"][0, 0].isinf()
    assert 20 < int(empty.sum()) < 70
    assert got["output"][0, 0, empty].eq(0).all()
    assert got["dQ"][0, 0, empty].eq(0).all()


@pytest.mark.parametrize("softcap", [0.5, 5.0, 50.0], ids=lambda c: f"cap{c}")
def test_soft_caps(softcap: float, device: str):
    """Scores far below the cap (50) and far above it (0.5)."""
    check(Case(65, 70, softcap=softcap, scale=1.0), device)


def test_alibi_takes_its_slope_times_the_distance(device: str):
    check(Case(65, 97, H=4, G=2, D=16, alibi=True), device)


def test_scale(device: str):
    check(Case(33, scale=0.03), device)


WIDTHS = [
    Case(33, 40, H=2, G=1, D=24, E=16, causal=True),
    Case(33, 40, H=1, D=16, E=40, softcap=2.0),
    Case(33, 40, H=1, D=24, E=1, dtype=torch.bfloat16),
]


@pytest.mark.thin(keep=2)
@pytest.mark.parametrize("case", WIDTHS, ids=str)
def test_values_of_another_width_than_keys(case: Case, device: str):
    """As in DeepSeek's multi-head latent attention; the scale stays that of the keys' width."""
    got = check(case, device)
    assert got["output"].shape[-1] == case.E


CHOICES = ([False, True], [None, (20, 9)], [None, 2.0], [1, 2])
PAIRWISE = ("0000", "0111", "1011", "1101", "1110")  # any two choices together; the rest is deep


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Case(65, 80, H=2, G=G, D=16, causal=causal, window=window, alibi=True, softcap=cap),
            marks=[] if "".join(map(str, picked)) in PAIRWISE else pytest.mark.deep,
        )
        for picked in product([0, 1], repeat=4)
        for causal, window, cap, G in [[c[n] for c, n in zip(CHOICES, picked, strict=True)]]
    ]
    + [Case(40, 70, D=16, window=(20, 9), softcap=2.0, causal=causal) for causal in (False, True)],
    ids=str,
)
def test_combinations(case: Case, device: str):
    check(case, device)


@pytest.mark.parametrize("deterministic", [True, False], ids=["two-pass", "atomic"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_combination_in_half_precision(dtype: torch.dtype, deterministic: bool, device: str):
    case = Case(65, 80, H=2, G=1, D=40, causal=True, window=30, alibi=True, softcap=5.0)
    check(case.but(dtype=dtype), device, deterministic=deterministic)


def test_a_window_that_reaches_everywhere_changes_no_bit(device: str):
    q, k, v, _, _ = Case(70).inputs(device)
    assert torch.equal(flash_attention(q, k, v, window=(70, 70)), flash_attention(q, k, v))


def test_a_window_with_causal_looks_back_only(device: str):
    q, k, v, _, _ = Case(70).inputs(device)
    back = flash_attention(q, k, v, window=9, causal=True)
    assert torch.equal(back, flash_attention(q, k, v, window=(9, 0)))
    assert not torch.equal(back, flash_attention(q, k, v, window=9))


def test_keys_out_of_sight_do_not_matter_at_all(device: str):
    """Causal order and windows by what they mean: change a hidden key, and no bit moves."""
    q, k, v, _, _ = Case(70, H=1).inputs(device)
    before = flash_attention(q, k, v, causal=True, window=20)
    for x in (k, v):
        x[:, :, 40] += 100.0
    after = flash_attention(q, k, v, causal=True, window=20)
    same = (before == after).all(-1)[0, 0]
    assert same[:40].all()
    assert not same[40:61].any()
    assert same[61:].all()


TILES = [Tile(16, 16, 4, 1), Tile(32, 64, 4, 1), Tile(64, 16, 4, 1), Tile(128, 128, 8, 1)]


@pytest.mark.thin(keep=2)
@pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t.block_t}x{t.block_s}")
def test_block_size_does_not_change_the_answer(
    tile: Tile, device: str, monkeypatch: pytest.MonkeyPatch
):
    case = Case(40, 50, H=2, G=1, D=16, causal=True, window=25, alibi=True)
    inputs = case.inputs(device)
    normal = run(flash_attention, inputs, return_lse=True, **case.options(device))
    monkeypatch.setattr(flash_tiles, "choose", lambda *_: tile)
    for deterministic in (True, False):
        other = run(
            flash_attention, inputs, return_lse=True, deterministic=deterministic,
            **case.options(device),
        )  # fmt: skip
        for name, value in other.items():
            assert relative_error(value, normal[name].double()) < 2e-6, name


sides = st.one_of(st.none(), st.integers(0, 40))


@settings(max_examples=4, deadline=None, derandomize=True)
@given(
    B=st.integers(1, 2),
    T=st.integers(1, 33),
    S=st.integers(1, 33),
    G=st.integers(1, 2),
    group=st.integers(1, 2),
    D=st.integers(1, 40),
    causal=st.booleans(),
    window=st.one_of(st.none(), st.integers(0, 40), st.tuples(sides, sides)),
    alibi=st.booleans(),
    softcap=st.sampled_from([None, 1.0, 30.0]),
    seed=st.integers(0, 99),
)
def test_any_shape_and_options(
    B: int, T: int, S: int, G: int, group: int, D: int, seed: int, **options
):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    check(Case(T, S, B=B, H=G * group, G=G, D=D, **options), device, seed=seed)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    T=st.integers(1, 200),
    S=st.integers(1, 200),
    left=st.one_of(st.none(), st.integers(0, 250)),
    right=st.one_of(st.none(), st.integers(0, 250)),
)
def test_equal_keys_average_the_values_in_sight(T: int, S: int, left, right):
    """With q = 0 all weights are equal: output and LSE count exactly the keys a query sees."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    q = torch.zeros(1, 1, T, 16, device=device)
    k = torch.randn(1, 1, S, 16, device=device)
    v = torch.arange(S, device=device, dtype=torch.float32)[None, None, :, None].expand(1, 1, S, 16)
    output, lse = flash_attention(q, k, v, window=(left, right), return_lse=True)
    t = torch.arange(T) + S - T
    first = (t - left).clamp(min=0) if left is not None else torch.zeros(T, dtype=torch.long)
    last = (t + right).clamp(max=S - 1) if right is not None else torch.full((T,), S - 1)
    count = (last - first + 1).clamp(min=0)
    middle = torch.where(count > 0, (first + last) / 2, 0.0)
    torch.testing.assert_close(lse[0, 0].cpu(), count.float().log(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output[0, 0, :, 0].cpu(), middle, rtol=1e-5, atol=1e-5)


def test_alibi_and_softcap_do_not_commute_and_the_cap_comes_first():
    """The order is part of the definition: the twin against the formula, one query, two keys."""
    q = torch.tensor([[[[1.0], [1.0]]]], dtype=torch.float64)
    k = torch.tensor([[[[3.0], [1.0]]]], dtype=torch.float64)
    slope = torch.tensor([0.7], dtype=torch.float64)
    _, lse = naive_attention(q, k, k, alibi=slope, softcap=2.0, scale=1.0)
    want = math.log(math.exp(2 * math.tanh(0.5)) + math.exp(2 * math.tanh(1.5) - 0.7))
    assert float(lse[0, 0, 1]) == pytest.approx(want, abs=1e-12)
