"""Decoding against its twin in float64, PyTorch's own attention and flash_attention."""

# ruff: noqa: N803, N806  # axis letters are capitals

from __future__ import annotations

import pytest
import torch
from attend_kernels import decode_attention, flash_attention, naive_decode_attention
from attend_kernels.common import fallback
from attend_kernels.ops.decode import tiles as decode_tiles
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from .decode_cases import LENGTHS, Case, check, draw, run
from .numerics import DTYPES, relative_error

pytestmark = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)


@pytest.mark.parametrize("splits", [1, 3], ids=lambda n: f"splits{n}")
@pytest.mark.parametrize("D", [1, 16, 40, 59, 64, 128, 256], ids=lambda n: f"D{n}")
def test_widths_and_mixed_lengths(D: int, splits: int, device: str):
    output, lse = check(Case(D=D, splits=splits), device)
    assert output[0].eq(0).all()  # the empty sequence
    assert lse[0].eq(-float("inf")).all()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("splits", [1, 2], ids=lambda n: f"splits{n}")
def test_dtypes(splits: int, name: str, device: str):
    check(Case(dtype=DTYPES[name], splits=splits), device)


@pytest.mark.parametrize(
    ("H", "G"), [(1, 1), (4, 4), (6, 2), (8, 1), (20, 1)], ids=lambda n: str(n)
)
def test_heads_that_share_keys(H: int, G: int, device: str):
    check(Case((33, 5), H=H, G=G, D=16, splits=2), device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_more_rows_than_a_tile_holds(dtype: torch.dtype, device: str):
    """40 heads × 2 tokens are 80 rows: 2 tiles of 64, or 5 of 16."""
    check(Case((33,), H=40, G=1, T=2, D=16, dtype=dtype), device)


@pytest.mark.parametrize("T", [1, 2, 5], ids=lambda n: f"T{n}")
def test_several_new_tokens(T: int, device: str):
    """Also where a sequence is shorter than the new tokens: the first ones see nothing."""
    output, lse = check(Case(T=T, splits=2), device)
    for sequence, length in enumerate(LENGTHS):
        blind = max(0, T - length)
        assert output[sequence, :, :blind].eq(0).all()
        assert lse[sequence, :, :blind].eq(-float("inf")).all()


@pytest.mark.parametrize("T", [0, 3], ids=lambda n: f"T{n}")
@pytest.mark.parametrize(
    "options",
    [{"window": 0}, {"window": 20}, {"window": 1000}, {"softcap": 2.0}],
    ids=["window0", "window20", "window1000", "softcap"],
)
def test_options(options: dict, T: int, device: str):
    check(Case(T=T, splits=2, **options), device)


def test_all_at_once(device: str):
    check(Case(T=3, H=6, D=40, page=8, window=30, softcap=3.0, splits=3), device)


def test_a_scale_of_ones_own(device: str):
    q, cache = Case().queries(device), Case().cache(device)
    got = decode_attention(q, **cache, scale=0.5)
    assert relative_error(got, naive_decode_attention(q.double(), **cache, scale=0.5)[0]) < 1e-5


@pytest.mark.parametrize("splits", [2, 4, 7, 128], ids=lambda n: f"splits{n}")
def test_splitting_does_not_change_the_answer(splits: int, device: str):
    """Up to rounding; with 128 parts most of them are empty."""
    whole, parts = (run(Case((97,), H=1, G=1, D=16, splits=n), device) for n in (1, splits))
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-6)


def test_merging_by_hand_what_two_halves_of_the_cache_give(device: str):
    """exp(L_i - L) weighs the parts: the equation of the module's head."""
    q = draw((1, 2, 16), 0).to(device)
    k, v = (draw((1, 2, 64, 16), seed).to(device) for seed in (1, 2))
    lengths = torch.tensor([32], device=device)
    whole = decode_attention(q, k, v, 2 * lengths)
    halves = [
        decode_attention(q, k[:, :, at : at + 32], v[:, :, at : at + 32], lengths, return_lse=True)
        for at in (0, 32)
    ]
    share = torch.softmax(torch.stack([lse for _, lse in halves]), 0)[..., None]
    joined = (share * torch.stack([output for output, _ in halves])).sum(0)
    torch.testing.assert_close(joined, whole)


@pytest.mark.parametrize("G", [1, 2, 4], ids=lambda n: f"G{n}")
def test_pytorchs_own_attention_agrees(G: int, device: str):
    """An oracle of which no line is ours."""
    case = Case((50, 9), G=G, T=1)
    q, cache = case.queries(device), case.cache(device)
    k, v = (cache[name].double().nan_to_num() for name in ("k_cache", "v_cache"))
    here = torch.arange(50, device=device) < cache["lengths"][:, None]
    want = scaled_dot_product_attention(
        q.double(), k, v, attn_mask=here[:, None, None], enable_gqa=True
    )
    assert relative_error(decode_attention(q, **cache), want) < 1e-5
    twin, _ = naive_decode_attention(q.double(), **cache)
    torch.testing.assert_close(twin, want, rtol=0, atol=1e-14)


@pytest.mark.parametrize("T", [1, 4], ids=lambda n: f"T{n}")
def test_it_is_the_last_rows_of_flash_attention(T: int, device: str):
    q, k, v = (draw((2, heads, 70, 16), seed).to(device) for seed, heads in enumerate((4, 2, 2)))
    whole, whole_lse = flash_attention(q, k, v, causal=True, return_lse=True)
    lengths = torch.tensor([70, 70], device=device)
    output, lse = decode_attention(q[:, :, -T:], k, v, lengths, return_lse=True)
    torch.testing.assert_close(output, whole[:, :, -T:])
    torch.testing.assert_close(lse, whole_lse[:, :, -T:])


def test_identity_values_show_the_weights(device: str):
    """With V = I the output is P itself: each weight in its place, none past the length."""
    q, k = draw((1, 2, 64), 0).to(device), draw((1, 1, 64, 64), 1).to(device)
    eye = torch.eye(64, device=device)[None, None]
    lengths = torch.tensor([50], device=device)
    weights = decode_attention(q, k, eye, lengths, splits=2)
    want = torch.softmax(q.double() @ k[0, 0, :50].double().T / 8, -1)
    assert relative_error(weights[..., :50], want) < 1e-5
    assert weights[..., 50:].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, device=device))


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_huge_scores_do_not_overflow(size: float, device: str):
    q, cache = size * Case().queries(device), Case().cache(device)
    want = naive_decode_attention(q.double(), **cache)[0]
    # A score of 1e4 is known to 2⁻²⁴ of itself, 6e-4: so are the logarithms of the weights.
    assert relative_error(decode_attention(q, **cache, splits=3), want) < 1e-6 * size


def test_the_same_bits_each_time_whoever_is_in_the_batch(device: str):
    first, again = (run(Case(splits=3), device) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    q, cache = Case().queries(device), Case().cache(device)
    alone = {name: x[3:4] for name, x in cache.items()}
    assert torch.equal(decode_attention(q[3:4], **alone, splits=3), first[0][3:4])


STRIDES = {
    "tokens-outside": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "width-outside": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "every-other-token": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "part-of-a-wider-cache": lambda x: torch.cat([x, x], dim=-1)[..., : x.shape[-1]],
}


@pytest.mark.parametrize("view", STRIDES.values(), ids=STRIDES)
def test_any_strides_are_read_and_inputs_left_alone(view, device: str):
    case = Case((40, 13), T=2)
    q, cache = view(case.queries(device)), case.cache(device)
    cache |= {name: view(cache[name]) for name in ("k_cache", "v_cache")}
    kept = {name: x.clone() for name, x in cache.items()}
    got = decode_attention(q, **cache, splits=2)
    assert relative_error(got, naive_decode_attention(q.double(), **cache)[0]) < 1e-5
    for name, before in kept.items():
        torch.testing.assert_close(cache[name], before, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("B", "T", "S"), [(0, 1, 4), (2, 0, 4), (2, 1, 0), (0, 0, 0)], ids=lambda n: str(n)
)
def test_nothing_in_nothing_out(B: int, T: int, S: int, device: str):
    q, cache = torch.randn(B, 2, T, 16, device=device), torch.randn(B, 1, S, 16, device=device)
    lengths = torch.zeros(B, dtype=torch.int64, device=device)
    output, lse = decode_attention(q, cache, cache, lengths, return_lse=True)
    assert output.shape == q.shape
    assert output.eq(0).all()
    assert lse.shape == q.shape[:3]
    assert lse.eq(-float("inf")).all()


@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_shape(data: st.DataObject, device: str):
    G = data.draw(st.integers(1, 3), "G")
    case = Case(
        lengths=tuple(data.draw(st.lists(st.integers(0, 80), min_size=1, max_size=3), "lengths")),
        H=G * data.draw(st.integers(1, 5), "group"),
        G=G,
        D=data.draw(st.integers(1, 70), "D"),
        T=data.draw(st.integers(0, 3), "T"),
        page=data.draw(st.sampled_from([0, 1, 7, 16]), "page"),
        window=data.draw(st.none() | st.integers(0, 90), "window"),
        splits=data.draw(st.integers(1, 4), "splits"),
    )
    check(case, device)


H200 = 132 * decode_tiles.OCCUPANCY


@pytest.mark.parametrize("keys", [1, 300, 8192, 131_072], ids=lambda n: f"S{n}")
@pytest.mark.parametrize("programs", [1, 8, 100, 264, 265, 4096], ids=lambda n: f"programs{n}")
def test_number_of_splits_keeps_its_bounds(programs: int, keys: int):
    splits = decode_tiles.choose_splits(programs, keys, H200)
    assert 1 <= splits <= decode_tiles.MOST_SPLITS
    assert splits == 1 or keys // splits >= decode_tiles.LEAST_KEYS


def test_number_of_splits_fills_the_gpu_and_no_more():
    choose = decode_tiles.choose_splits
    for programs in range(1, 265):
        busy = programs * choose(programs, 131_072, H200)
        waves = -(-busy // H200)
        possible = min(1.0, programs * decode_tiles.MOST_SPLITS / H200)
        assert busy / (waves * H200) >= 0.85 * possible, programs
    assert choose(H200, 131_072, H200) == 1
    assert choose(10 * H200, 131_072, H200) == 1
    assert choose(0, 131_072, H200) == 1
    assert choose(8, 32_768, H200) == 30


@pytest.mark.parametrize(
    ("rows", "half", "single"), [(0, 16, 16), (1, 16, 16), (17, 32, 16), (64, 64, 16), (80, 64, 16)]
)
def test_rows_of_a_tile(rows: int, half: int, single: int):
    assert decode_tiles.tile_rows(rows, torch.float16) == half
    assert decode_tiles.tile_rows(rows, torch.float32) == single


def test_the_table_has_every_width_and_kind_of_cache():
    for architecture in (80, 90):
        for kind in ("half", "byte", "fp32"):
            for width in (64, 128, 256):
                assert (architecture, kind, width) in decode_tiles.TABLE
