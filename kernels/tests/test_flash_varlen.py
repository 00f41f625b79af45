"""Packed sequences: against the twin, against dense attention, and at their edges."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import (
    ShapeError,
    flash_attention,
    flash_attention_varlen,
    naive_attention_varlen,
)
from attend_kernels.common import fallback

from .flash_cases import run
from .numerics import assert_right, poisoned, relative_error, shake

pytestmark = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)


def starts(lengths: list[int], device: str = "cpu", dtype: torch.dtype = torch.int32):
    total = torch.tensor([0, *lengths]).cumsum(0)
    return total.to(device, dtype)


def packed(
    T: int,
    S: int,
    H: int = 2,
    G: int = 1,
    D: int = 16,
    device: str = "cpu",
    seed: int = 0,
) -> list[torch.Tensor]:
    """q, k, v and the gradients of O and of LSE."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(T, H, D), (S, G, D), (S, G, D), (T, H, D), (H, T)]
    return [torch.randn(shape, generator=generator).to(device) for shape in shapes]


def test_values_of_another_width_than_keys(device: str):
    q, k, _, _, _ = packed(20, 25, device=device)
    v, where = k[..., :5] + 1, (starts([7, 13], device), starts([20, 5], device))
    got = flash_attention_varlen(q, k, v, *where, causal=True)
    want, _ = naive_attention_varlen(q.double(), k.double(), v.double(), *where, causal=True)
    assert_right(got, want, torch.float32)


LENGTHS = {
    "equal": ([32, 32], [32, 32]),
    "ragged": ([17, 64, 1, 30], [17, 64, 1, 30]),
    "other-keys": ([17, 5, 40], [60, 33, 7]),
    "empty-ones": ([0, 20, 0, 9, 3, 0], [5, 30, 0, 0, 8, 0]),
    "one": ([70], [90]),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "all": {"causal": True, "window": 25, "softcap": 3.0},
}


@pytest.mark.thin(keep=8)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_each_sequence_by_itself(
    lengths: tuple[list[int], list[int]], options: dict[str, Any], device: str
):
    where: dict[str, Any] = {
        "cu_seqlens_q": starts(lengths[0], device),
        "cu_seqlens_k": starts(lengths[1], device, torch.int64),
    }
    inputs = packed(sum(lengths[0]), sum(lengths[1]), device=device)
    if len(lengths[0]) == 4:
        options = options | {"alibi": torch.tensor([0.5, 0.1], device=device)}
    with poisoned():
        got = run(flash_attention_varlen, inputs, return_lse=True, **where, **options)
    oracle = run(naive_attention_varlen, [x.double() for x in inputs], **where, **options)
    near = [shake(x, n) for n, x in enumerate(inputs)]
    moved = run(naive_attention_varlen, near, **where, **options)
    floor = 1e-2 * float(inputs[3].norm())
    for name, value in got.items():
        assert_right(value, oracle[name], torch.float32, moved[name], floor, name)


@pytest.mark.thin(keep=1)
@pytest.mark.parametrize("deterministic", [True, False], ids=["two-pass", "atomic"])
def test_equal_lengths_are_a_dense_batch(deterministic: bool, device: str):
    q, k, v, grad, _ = packed(66, 66, H=4, G=2, device=device)
    leaves = (q.requires_grad_(), k.requires_grad_(), v.requires_grad_())
    at = starts([33, 33], device)
    output = flash_attention_varlen(*leaves, at, at, causal=True, deterministic=deterministic)
    got = torch.autograd.grad(output, leaves, grad)
    dense = [x.unflatten(0, (2, 33)).transpose(1, 2) for x in leaves]
    want = flash_attention(*dense, causal=True).transpose(1, 2).flatten(0, 1)
    assert relative_error(output, want.double()) < 2e-6
    for g, w in zip(got, torch.autograd.grad(want, leaves, grad), strict=True):
        assert relative_error(g, w.double()) < 2e-6


def test_rows_after_the_last_sequence_are_zero(device: str):
    inputs = packed(40, 50, device=device)
    where: dict[str, Any] = {
        "cu_seqlens_q": starts([7, 20], device),
        "cu_seqlens_k": starts([9, 20], device),
    }
    with poisoned():
        got = run(flash_attention_varlen, inputs, return_lse=True, **where)
    assert got["output"][27:].eq(0).all()
    assert got["LSE"][:, 27:].eq(-float("inf")).all()
    assert got["dQ"][27:].eq(0).all()
    assert got["dK"][29:].eq(0).all()
    assert got["dV"][29:].eq(0).all()
    assert got["dV"][:29].ne(0).all()


def test_no_sequences(device: str):
    q, k, v, grad, _ = packed(5, 4, device=device)
    at = starts([], device)
    with poisoned():
        output = flash_attention_varlen(q.requires_grad_(), k, v, at, at)
        (found,) = torch.autograd.grad(output, q, grad)
    assert output.eq(0).all()
    assert found.eq(0).all()


def test_one_sequence_does_not_see_another(device: str):
    q, k, v, _, _ = packed(40, 40, device=device)
    at = starts([13, 27], device)
    before = flash_attention_varlen(q, k, v, at, at)
    k[13:] += 100.0
    after = flash_attention_varlen(q, k, v, at, at)
    assert torch.equal(before[:13], after[:13])
    assert not torch.equal(before[13:], after[13:])


def test_stays_whole_under_torch_compile(device: str):
    inputs = packed(30, 40, device=device)
    where: dict[str, Any] = {
        "cu_seqlens_q": starts([10, 20], device),
        "cu_seqlens_k": starts([15, 25], device),
    }
    compiled = torch.compile(flash_attention_varlen, backend="aot_eager", fullgraph=True)
    got = run(compiled, inputs, return_lse=True, causal=True, **where)
    want = run(flash_attention_varlen, inputs, return_lse=True, causal=True, **where)
    for name, value in got.items():
        assert torch.equal(value, want[name]), name


WRONG = {
    "lengths-not-starts": ([10, 20], "must rise from 0 to at most 30.*running sum"),
    "falls": ([0, 20, 10], "must rise from 0"),
    "too-far": ([0, 10, 31], "at most 30"),
    "empty": ([], "is empty"),
}


@pytest.mark.parametrize(("values", "message"), WRONG.values(), ids=WRONG)
def test_starts_that_cannot_be(values: list[int], message: str):
    q, k, v, _, _ = packed(30, 30)
    at = torch.tensor(values, dtype=torch.int32)
    with pytest.raises(ValueError, match=message):
        flash_attention_varlen(q, k, v, at, at)


def test_starts_of_another_kind_or_number():
    q, k, v, _, _ = packed(30, 30)
    with pytest.raises(TypeError, match=r"cu_seqlens_q must be int32 or int64, got torch.float32"):
        flash_attention_varlen(q, k, v, torch.tensor([0.0, 30.0]), starts([30]))
    with pytest.raises(TypeError, match="cu_seqlens_k must be a tensor, got list"):
        flash_attention_varlen(q, k, v, starts([30]), [0, 30])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ShapeError, match="cu_seqlens_k has the wrong shape"):
        flash_attention_varlen(q, k, v, starts([30]), starts([10, 20]))
