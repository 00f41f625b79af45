"""The caches decoding reads: paged, in 8 bits, with garbage in what no token owns."""

# axis letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import (
    decode_attention,
    dequantise_cache,
    naive_decode_attention,
    quantise_cache,
)
from attend_kernels.common import fallback
from attend_kernels.ops.decode import operators as decode_operators
from attend_kernels.ops.decode.quantise import LIMITS
from hypothesis import given, settings
from hypothesis import strategies as st

from .decode_cases import Case, check, draw, run
from .numerics import poisoned, relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
INT8, FP8 = torch.int8, torch.float8_e4m3fn
each_codes = pytest.mark.parametrize("codes", [INT8, FP8], ids=["int8", "fp8"])
each_share = pytest.mark.parametrize("per_head", [False, True], ids=["per-token", "per-head"])


@needs_triton
@pytest.mark.parametrize("splits", [1, 3], ids=lambda n: f"splits{n}")
@pytest.mark.parametrize("page", [1, 7, 16, 32, 128], ids=lambda n: f"page{n}")
def test_pages_give_what_a_contiguous_cache_gives(page: int, splits: int, device: str):
    """To the bit: the same numbers are added in the same order, wherever they lie."""
    case = Case((0, 1, 17, 97), D=40, splits=splits)
    whole, paged = run(case, device), check(case.but(page=page), device)
    assert torch.equal(whole[0], paged[0])
    assert torch.equal(whole[1], paged[1])


@needs_triton
def test_two_sequences_may_share_a_page(device: str):
    k, v = (draw((4, 16, 1, 16), seed).to(device) for seed in (1, 2))
    q = draw((1, 2, 16), 0).to(device).expand(2, 2, 16)
    table = torch.tensor([[2, 1], [2, 3]], device=device)
    lengths = torch.tensor([16, 32], device=device)
    output = decode_attention(q, k, v, lengths, table)
    want, _ = naive_decode_attention(q.double(), k, v, lengths, table)
    assert relative_error(output, want) < 1e-5
    assert not torch.equal(output[0], output[1])


@needs_triton
@each_codes
@each_share
@pytest.mark.parametrize("page", [0, 16], ids=["contiguous", "paged"])
def test_codes_are_dequantised_inside(page: int, per_head: bool, codes: torch.dtype, device: str):
    """Against the twin on the same codes: no error beyond that of fp32."""
    case = Case((0, 3, 40, 97), D=40, codes=codes, per_head=per_head, page=page, splits=2)
    check(case, device)


@needs_triton
@each_codes
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_codes_with_half_precision_queries(dtype: torch.dtype, codes: torch.dtype, device: str):
    """With fp16, P is rounded to bf16 (see ``weights_type``): its limit is bf16's."""
    output, _ = run(Case(dtype=dtype, codes=codes), device)
    q, cache = Case(dtype=dtype).queries(device), Case(dtype=dtype, codes=codes).cache(device)
    assert output.dtype == dtype
    assert relative_error(output, naive_decode_attention(q.double(), **cache)[0]) < 1e-2


@needs_triton
@each_codes
def test_small_values_survive_fp16(codes: torch.dtype, device: str):
    """Scales of 1e-5 and less, which times a weight vanish in fp16."""
    case = Case((97,), dtype=torch.float16)
    q = case.queries(device)
    k, v = (draw((1, 2, 97, 32), seed).to(device) for seed in (1, 2))
    k_codes, k_scale = quantise_cache(k, codes)
    v_codes, v_scale = quantise_cache(1e-3 * v, codes)
    lengths = torch.tensor([97], device=device)
    cache: dict[str, Any] = {"k_cache": k_codes, "v_cache": v_codes, "lengths": lengths}
    cache |= {"k_scale": k_scale, "v_scale": v_scale}
    want, _ = naive_decode_attention(q.double(), **cache)
    # fp16 itself keeps numbers of 1e-4 to 3e-8 / 1e-4.
    assert relative_error(decode_attention(q, **cache), want) < 1e-2


# Of six draws the worst was 0.8 % of the answer (int8 per token), 1.5 % (per head), 4 % (fp8): the
# limits are twice that.
@needs_triton
@pytest.mark.parametrize(("codes", "limit"), [(INT8, 0.03), (FP8, 0.08)], ids=["int8", "fp8"])
@each_share
def test_what_eight_bits_cost(per_head: bool, codes: torch.dtype, limit: float, device: str):
    """Against attention over the exact cache."""
    case = Case((33, 64, 97), D=64)
    exact, _ = naive_decode_attention(case.queries(device).double(), **case.cache(device))
    output, _ = run(case.but(codes=codes, per_head=per_head), device)
    assert 1e-4 < relative_error(output, exact) < limit


@each_codes
@each_share
@pytest.mark.parametrize("head_axis", [1, 2], ids=["contiguous", "paged"])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), size=st.sampled_from([1e-6, 1.0, 1e6]))
def test_error_of_each_code(
    head_axis: int, per_head: bool, codes: torch.dtype, seed: int, size: float
):
    """The bounds of the module's head: half a step for int8, 1/16 of the number for e4m3."""
    x = size * draw((3, 4, 5, 16), seed)
    x[0, 0] *= 100.0  # an outlier
    axis = head_axis if per_head else None
    code, scale = quantise_cache(x, codes, axis)
    assert code.dtype == codes
    assert scale.shape == ((x.shape[head_axis],) if per_head else x.shape[:3])
    back = dequantise_cache(code, scale, head_axis=axis)
    step = dequantise_cache(torch.ones_like(code), scale, head_axis=axis)
    bound = step / 2 if codes == INT8 else torch.maximum(x.abs() / 16, step / 1024)
    assert ((back - x).abs() <= bound * 1.0001).all()
    assert torch.equal(code.float().abs().amax(), torch.tensor(LIMITS[codes]))  # all codes are used


def test_zeros_stay_zeros_and_nothing_divides_by_them():
    x = torch.zeros(2, 3, 4, 8)
    code, scale = quantise_cache(x)
    assert scale.eq(1).all()
    assert dequantise_cache(code, scale).eq(0).all()
    assert quantise_cache(x[:, :, :0])[0].shape == (2, 3, 0, 8)


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match=r"not torch.uint8.*leave dtype out"):
        quantise_cache(torch.zeros(1, 1, 1, 8), torch.uint8)


def kernel_alone(cache: dict[str, torch.Tensor], q: torch.Tensor) -> torch.Tensor:
    """The operator without the checks of the public function, as on a GPU."""
    names = ("k_cache", "v_cache", "lengths", "block_table", "k_scale", "v_scale")
    with poisoned():
        arguments = (cache.get(name) for name in names)
        return decode_operators.decode(q[:, :, None], *arguments, 0.25, None, None, 2)[0][:, :, 0]


@needs_triton
@pytest.mark.parametrize("length", [-1, 98, 2**31 + 5, -(2**40)], ids=str)
def test_an_impossible_length_makes_its_sequence_nan(length: int, device: str):
    case = Case((97, 30))
    q, cache = case.queries(device), case.cache(device)
    right = kernel_alone(cache, q)
    cache["lengths"] = torch.tensor([length, 30], device=device)
    wrong = kernel_alone(cache, q)
    assert wrong[0].isnan().all()
    assert torch.equal(wrong[1], right[1])


@needs_triton
@pytest.mark.parametrize("page", [-1, 10_000, 2**31 - 1], ids=str)
def test_a_page_there_is_not_makes_its_sequence_nan(page: int, device: str):
    case = Case((97, 30), page=16)
    q, cache = case.queries(device), case.cache(device)
    right = kernel_alone(cache, q)
    cache["block_table"][0, 2] = page
    wrong = kernel_alone(cache, q)
    assert wrong[0].isnan().all()
    assert torch.equal(wrong[1], right[1])
