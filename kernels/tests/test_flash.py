"""Flash attention against its twin in float64 and PyTorch's own: outputs, LSE and gradients."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

import pytest
import torch
from attend_kernels import flash_attention, naive_attention
from attend_kernels.common import fallback
from torch.nn.functional import scaled_dot_product_attention

from .flash_cases import Case, check, run
from .numerics import DTYPES, assert_right, poisoned, relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
pytestmark = needs_triton
LENGTHS = [1, 2, 17, 64, 97, 113, 128]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("T", LENGTHS, ids=lambda n: f"T{n}")
def test_lengths(T: int, causal: bool, device: str):
    check(Case(T, causal=causal), device)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_dtypes(name: str, causal: bool, device: str):
    check(Case(97, dtype=DTYPES[name], causal=causal), device)


@pytest.mark.parametrize("D", [1, 16, 40, 59, 64, 128, 256], ids=lambda n: f"D{n}")
def test_widths(D: int, device: str):
    check(Case(33, H=1, D=D, causal=True), device)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("T", "S"), [(1, 97), (17, 128), (64, 113), (113, 64), (97, 1), (128, 2)], ids=str
)
def test_more_keys_than_queries_and_fewer(T: int, S: int, causal: bool, device: str):
    got = check(Case(T, S, causal=causal), device)
    if causal and T > S:  # the first T - S queries stand before the first key
        assert got["output"][:, :, : T - S].eq(0).all()
        assert got["LSE"][:, :, : T - S].eq(-float("inf")).all()
        assert got["dQ"][:, :, : T - S].eq(0).all()


@pytest.mark.parametrize("G", [1, 2, 4], ids=lambda n: f"G{n}")
def test_grouped_heads(G: int, device: str):
    check(Case(50, B=2, H=4, G=G, D=16, causal=True), device)


def test_batch_rows_do_not_mix(device: str):
    check(Case(20, 40, B=3, H=2, D=16), device)


@pytest.mark.parametrize("deterministic", [True, False], ids=["two-pass", "atomic"])
@pytest.mark.parametrize(
    "case",
    [Case(97, 64, H=4, G=2, causal=True), Case(70, 97, dtype=torch.bfloat16), Case(113, D=59)],
    ids=str,
)
def test_both_backward_passes(case: Case, deterministic: bool, device: str):
    check(case, device, deterministic=deterministic)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("G", [1, 2], ids=lambda n: f"G{n}")
def test_pytorchs_own_attention_agrees(G: int, causal: bool, device: str):
    """An oracle of which no line is ours; causal only for T = S, where all conventions agree."""
    inputs = Case(70, H=2, G=G, D=32).inputs(device)

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool):
        output = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        return output, output.new_zeros(output.shape[:3]).requires_grad_()

    inputs[4].zero_()  # theirs has no LSE to send a gradient through
    got = run(flash_attention, inputs, causal=causal, return_lse=True)
    double = [x.double() for x in inputs]
    q, k, v = (x.requires_grad_() for x in double[:3])
    output, _ = theirs(q, k, v, causal)
    want = {
        "output": output,
        **dict(
            zip(("dQ", "dK", "dV"), torch.autograd.grad(output, (q, k, v), double[3]), strict=True)
        ),
    }
    for name, value in want.items():
        assert_right(got[name], value, torch.float32, what=name)


def test_naive_twin_is_pytorchs_own_attention_in_float64():
    q, k, v = (x.double() for x in Case(33, 40, H=4, G=2).inputs()[:3])
    output, lse = naive_attention(q, k, v)
    want = scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(output, want, rtol=0, atol=1e-14)
    scores = q @ k.repeat_interleave(2, 1).mT / 32**0.5
    torch.testing.assert_close(lse, scores.exp().sum(-1).log(), rtol=0, atol=1e-13)


def test_identity_values_show_the_weights(device: str):
    """With V = I the output is P itself: every weight in its place, each row summing to 1."""
    q, k, _, _, _ = Case(48, 64, H=1, D=64).inputs(device)
    eye = torch.eye(64, device=device)[None, None]
    weights = flash_attention(q, k, eye, causal=True)
    want = naive_attention(q.double(), k.double(), eye.double(), causal=True)[0]
    assert relative_error(weights, want) < 1e-5
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 48, device=device))
    assert weights[0, 0].triu(64 - 48 + 1).eq(0).all()


def test_lse_alone_has_a_gradient(device: str):
    """Gradients reach q and k through the LSE even where nobody uses the output."""
    q, k, v, _, _ = Case(33).inputs(device)
    q.requires_grad_()
    _, lse = flash_attention(q, k, v, causal=True, return_lse=True)
    lse.square().sum().backward()
    wide = q.detach().double().requires_grad_()
    naive_attention(wide, k.double(), v.double(), causal=True)[1].square().sum().backward()
    assert relative_error(q.grad, wide.grad) < 1e-5


def test_a_longer_prefix_does_not_change_the_answer_split_by_lse(device: str):
    """Attention over all keys is the LSE-weighted mean of attention over two halves of them."""
    q, k, v, _, _ = Case(17, 96).inputs(device)
    whole = flash_attention(q, k, v)
    halves = [
        flash_attention(q, k[:, :, i], v[:, :, i], return_lse=True)
        for i in (slice(0, 40), slice(40, 96))
    ]
    share = torch.softmax(torch.stack([lse for _, lse in halves]), 0)[..., None]
    joined = (share * torch.stack([output for output, _ in halves])).sum(0)
    torch.testing.assert_close(joined, whole)


HUGE = [1e2, 1e4]


@pytest.mark.parametrize("size", HUGE)
def test_huge_scores_do_not_overflow(size: float, device: str):
    q, k, v, grad, _ = Case(40, D=16).inputs(device)
    q = (size * q).requires_grad_()
    output = flash_attention(q, k, v, causal=True)
    output.backward(grad)
    want = naive_attention(q.detach().double(), k.double(), v.double(), causal=True)[0]
    # A score of 1e4 is known to 2⁻²⁴ of itself, 6e-4: so are the logarithms of the weights.
    assert relative_error(output, want) < 1e-6 * size
    assert q.grad is not None
    assert bool(q.grad.isfinite().all())


def test_gradients_are_the_same_bits_each_time(device: str):
    case = Case(97, H=4, G=2, D=16, causal=True)
    first, second = (
        run(flash_attention, case.inputs(device), causal=True, return_lse=True) for _ in range(2)
    )
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


STRIDES = {
    "heads-inside": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "width-outside": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "every-other-row": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "part-of-a-wider-projection": lambda x: torch.cat([x, x], dim=-1)[..., : x.shape[-1]],
    "expanded": lambda x: x[:1, :, :, :].expand(2, -1, -1, -1),
}


@pytest.mark.parametrize("view", STRIDES.values(), ids=STRIDES)
def test_any_strides_are_read_and_inputs_left_alone(view, device: str):
    inputs = [view(x) for x in Case(40, B=2, D=16).inputs(device)[:4]]
    kept = [x.clone() for x in inputs]
    leaves = [x.detach().requires_grad_() for x in inputs[:3]]
    with poisoned():
        output = flash_attention(*leaves, causal=True)
        got = torch.autograd.grad(output, leaves, inputs[3])
    wide = [x.detach().double().requires_grad_() for x in inputs[:3]]
    want = naive_attention(*wide, causal=True)[0]
    assert relative_error(output, want) < 1e-5
    for g, w in zip(got, torch.autograd.grad(want, wide, inputs[3].double()), strict=True):
        assert relative_error(g, w) < 1e-5
    for x, before in zip(inputs, kept, strict=True):
        assert torch.equal(x, before)


@pytest.mark.parametrize(
    ("B", "T", "S"), [(0, 4, 4), (1, 0, 4), (1, 4, 0), (1, 0, 0)], ids=lambda n: str(n)
)
def test_nothing_in_nothing_out(B: int, T: int, S: int, device: str):
    q = torch.randn(B, 2, T, 16, device=device, requires_grad=True)
    k, v = (torch.randn(B, 2, S, 16, device=device, requires_grad=True) for _ in range(2))
    with poisoned():
        output, lse = flash_attention(q, k, v, return_lse=True)
        grads = torch.autograd.grad(output.sum(), (q, k, v))
    assert output.shape == q.shape
    assert output.eq(0).all()
    assert lse.eq(-float("inf")).all()
    for g, x in zip(grads, (q, k, v), strict=True):
        assert g.shape == x.shape
        assert g.eq(0).all()
