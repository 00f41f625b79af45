"""Attention over parts of the keys, merged, is attention over all of them."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

import pytest
import torch
from attend_kernels import (
    ShapeError,
    decode_attention,
    flash_attention,
    merge_partials,
    naive_attention,
)

from .numerics import DTYPES, TOLERANCE, relative_error


def draw(S: int, dtype: torch.dtype = torch.float64, H: int = 2, D: int = 16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(S)
    shapes = [(2, H, 5, D), (2, H, S, D), (2, H, S, D)]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def cut(k: torch.Tensor, v: torch.Tensor, sizes: list[int]):
    return zip(k.split(sizes, dim=2), v.split(sizes, dim=2), strict=True)


@pytest.mark.parametrize("sizes", [[37], [1, 36], [12, 1, 24], [7] * 5 + [2]], ids=str)
def test_any_cut_gives_the_whole_with_its_gradients(sizes: list[int]):
    leaves = [x.requires_grad_() for x in draw(37)]
    q, k, v = leaves
    whole = naive_attention(q, k, v)
    parts = [naive_attention(q, some, values) for some, values in cut(k, v, sizes)]
    merged = merge_partials(*zip(*parts, strict=True))
    cotangents = [torch.randn_like(x) for x in whole]
    wanted = torch.autograd.grad(whole, leaves, cotangents)
    found = torch.autograd.grad(merged, leaves, cotangents)
    for got, want in zip((*merged, *found), (*whole, *wanted), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", DTYPES)
def test_parts_of_the_kernel(name: str):
    dtype = DTYPES[name]
    q, k, v = draw(40, dtype)
    parts = [flash_attention(q, *some, return_lse=True) for some in cut(k, v, [24, 16])]
    output, lse = merge_partials(*zip(*parts, strict=True))
    want, total = naive_attention(q.double(), k.double(), v.double())
    assert output.dtype == dtype
    assert lse.dtype == torch.float32
    assert relative_error(output, want) < TOLERANCE[dtype]
    assert relative_error(lse, total) < TOLERANCE[dtype]


def test_a_shared_prompt_and_each_sequences_own_cache():
    q, k, v = draw(33, torch.float32)
    lengths = torch.tensor([9, 4], dtype=torch.int32)  # of each sequence's own cache
    shared = flash_attention(q, k[:, :, :24], v[:, :, :24], return_lse=True)
    own = (k[:, :, 24:].contiguous(), v[:, :, 24:].contiguous())
    last = q[:, :, -1:]  # one new token a sequence
    found = decode_attention(last, *own, lengths, return_lse=True)
    output, _ = merge_partials((shared[0][:, :, -1:], found[0]), (shared[1][:, :, -1:], found[1]))
    for row, length in enumerate(lengths.tolist()):
        seen = slice(0, 24 + length)
        want, _ = naive_attention(
            *(x[row : row + 1].double() for x in (last, k[:, :, seen], v[:, :, seen]))
        )
        assert relative_error(output[row : row + 1], want) < TOLERANCE[torch.float32]


def test_parts_that_show_nothing_have_no_say():
    """Whatever such a part holds, also where no part shows anything; and no NaN in gradients."""
    inf = float("inf")
    lses = torch.tensor([[0.0, -inf, -inf], [-inf, 2.0, -inf]]).reshape(2, 1, 1, 3)
    outputs = torch.tensor([[1.0, inf, inf], [inf, 3.0, inf]]).reshape(2, 1, 1, 3, 1)
    leaves = [outputs.requires_grad_(), lses.requires_grad_()]
    output, lse = merge_partials(list(outputs), list(lses))
    assert output.flatten().tolist() == [1.0, 3.0, 0.0]
    assert lse.flatten().tolist() == [0.0, 2.0, -inf]
    gradients = torch.autograd.grad(output.sum() + lse[..., :2].sum(), leaves)
    assert all(bool(g.isfinite().all()) for g in gradients)


def test_far_apart_in_either_order():
    small, large = torch.zeros(1, 1, 1), torch.full((1, 1, 1), 800.0)
    one, two = torch.full((1, 1, 1, 1), 1.0), torch.full((1, 1, 1, 1), 2.0)
    for outputs, lses in (((one, two), (small, large)), ((two, one), (large, small))):
        output, lse = merge_partials(outputs, lses)
        assert (float(output), float(lse)) == (2.0, 800.0)


def test_what_does_not_belong_together_is_refused():
    q, k, v = draw(8)
    output, lse = naive_attention(q, k, v)
    with pytest.raises(ValueError, match="return_lse=True"):
        merge_partials([output], [])
    with pytest.raises(ValueError, match="one part at least"):
        merge_partials([], [])
    with pytest.raises(ShapeError, match=r"lses\[1\]"):
        merge_partials([output, output], [lse, lse[:, :1]])
