"""Chapter 19's gradients against autograd's, of torch's own attention in float64."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("attend_solutions.interpreted")

import torch
from attend_solutions import flash
from attend_solutions.triton_flash_backward import (
    flash_attention,
    flash_delta,
    forward_heads,
    grad_keys_values,
    grad_queries,
    gradient_gaps,
    one_pass,
)
from torch.nn.functional import scaled_dot_product_attention as sdpa

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="kernels are traced in the interpreter"
)
LIMIT = 3e-5
"""Two products in a row, of at most 10² float32 terms, and a difference that may cancel."""

SIZES = [
    # H, T, S, D, causal, scale
    pytest.param(1, 1, 1, 16, False, None, id="T1-S1"),
    pytest.param(2, 21, 33, 16, False, None, id="H2-T21-S33"),
    pytest.param(1, 37, 5, 32, False, 0.7, id="T37-S5-D32-scale"),
    pytest.param(2, 33, 33, 16, True, None, id="H2-T33-S33-causal"),
    pytest.param(1, 5, 40, 16, True, 0.1, id="T5-S40-causal-scale"),
]


def inputs(h: int, t: int, s: int, d: int) -> list[torch.Tensor]:
    """q, k, v and d_out with scores of a few units."""
    draw = torch.Generator().manual_seed(h + t + s + d)
    return [1.5 * torch.randn((h, n, d), generator=draw) for n in (t, s, s, t)]


def right(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_out: torch.Tensor, causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, list[torch.Tensor]]:  # fmt: skip
    """Output and gradients by torch, in float64."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    t, s = q.shape[1], k.shape[1]
    seen = torch.arange(s) <= torch.arange(t)[:, None] + s - t
    out = sdpa(*leaves, attn_mask=seen if causal else None, scale=scale)
    return out.detach(), list(torch.autograd.grad(out, leaves, d_out.double()))


def assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.shape == want.shape
    assert float((got - want).abs().max()) <= LIMIT * float(want.abs().max().clamp(min=1))


@pytest.mark.parametrize(("h", "t", "s", "d", "causal", "scale"), SIZES)
@pytest.mark.parametrize("blocks", [(16, 16), (16, 32), (32, 16)], ids=str)
def test_gradients_are_autograds(
    h: int, t: int, s: int, d: int, causal: bool, scale: float | None, blocks: tuple[int, int]
) -> None:
    q, k, v, d_out = inputs(h, t, s, d)
    want, gradients = right(q, k, v, d_out, causal, scale)
    out, lse = forward_heads(q, k, v, causal, scale, *blocks)
    assert_close(out, want)
    delta = flash_delta(out, d_out, blocks[0])
    assert_close(delta, (want * d_out).sum(-1))
    rest = q, k, v, d_out, lse, delta, causal, scale, *blocks
    two = grad_queries(*rest), *grad_keys_values(*rest)
    for form in (two, one_pass(*rest)):
        for mine, gradient in zip(form, gradients, strict=True):
            assert mine.dtype == torch.float32
            assert_close(mine, gradient)


@pytest.mark.parametrize("causal", [False, True])
def test_autograd_finds_them(causal: bool) -> None:
    q, k, v, d_out = inputs(2, 9, 17, 16)
    want, gradients = right(q, k, v, d_out, causal, 0.3)
    leaves = [x.mT.contiguous().mT.requires_grad_() for x in (q, k, v)]  # rows with gaps
    out = flash_attention(leaves[0], leaves[1], leaves[2], causal, 0.3)
    assert_close(out.detach(), want)
    found = torch.autograd.grad(out.mT.contiguous().mT, leaves, d_out.mT.contiguous().mT)
    for mine, gradient in zip(found, gradients, strict=True):
        assert_close(mine, gradient)


def test_the_gradient_of_a_plain_sum() -> None:
    q, k, v, _ = inputs(1, 5, 7, 16)
    _, gradients = right(q, k, v, torch.ones(1, 5, 16), False, None)
    v.requires_grad_()
    flash_attention(q, k, v).sum().backward()  # what comes in is one number, expanded
    assert v.grad is not None
    assert_close(v.grad, gradients[2])


def test_they_are_chapter_16s() -> None:
    q, k, v, d_out = inputs(1, 13, 20, 16)
    rows, keys, values = (x.double().numpy() for x in (q, k, v))
    out, lse = flash.flash_forward(rows, keys, values)
    want = flash.flash_backward(rows, keys, values, out, lse, d_out.double().numpy())
    leaves = [x.requires_grad_() for x in (q, k, v)]  # the same tensors, marked in place
    found = torch.autograd.grad(flash_attention(q, k, v), leaves, d_out)
    for mine, gradient in zip(found, want, strict=True):
        assert_close(mine, torch.from_numpy(gradient))


def test_numbers_worked_by_hand() -> None:
    def of(*rows: float) -> torch.Tensor:
        return torch.nn.functional.pad(torch.tensor(rows)[None, :, None], (0, 15))

    lse, delta = torch.log(torch.tensor([[2.0]])), torch.tensor([[4.0]])
    rest = of(0.0, 8.0), of(1.0), lse, delta, False, 1.0
    # section 3: q 0, keys 1 and 3, but the LSE of equal scores
    assert float(grad_queries(of(0.0), of(1.0, 3.0), *rest)[0, 0, 0]) == pytest.approx(4.0)
    dk, dv = grad_keys_values(of(9.0), of(0.0, 0.0), *rest)
    torch.testing.assert_close(dk[0, :, 0], torch.tensor([-18.0, 18.0]))
    torch.testing.assert_close(dv[0, :, 0], torch.tensor([0.5, 0.5]))


def test_gaps_are_small_for_gradients_and_show_what_is_spoiled() -> None:
    q, k, v, d_out = inputs(1, 5, 9, 16)
    _, gradients = right(q, k, v, d_out, True, None)
    to_q, to_k, to_v, _ = (x.flip(-1) for x in inputs(1, 5, 9, 16))
    directions = to_q, to_k, to_v
    rest = q, k, v, d_out
    dq, dk, dv = gradients
    small = gradient_gaps(*rest, (dq, dk, dv), directions, True, None, 2**-7)
    spoiled = gradient_gaps(*rest, (dq, 1.1 * dk, dv), directions, True, None, 2**-7)
    slope = float((dk * directions[1]).sum())
    # rounding: some 10² outputs of float32, 6e-8 times their size of 10, over a step of 2^-7;
    # curvature: the step squared times the third derivative, some 10
    assert max(map(abs, small)) < 1e-2
    assert spoiled[1] == pytest.approx(small[1] + 0.1 * slope, abs=1e-3)
    assert (spoiled[0], spoiled[2]) == (small[0], small[2])
