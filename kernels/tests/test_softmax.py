"""Fused softmax against its twin in float64: outputs, gradients, masks, strides, fallback."""

from __future__ import annotations

import pytest
import torch
from attend_kernels import ShapeError, fused_softmax, naive_softmax
from attend_kernels.common import fallback
from attend_kernels.ops.softmax import api as softmax_api

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16}
DTYPES["bf16"] = torch.bfloat16
# Relative norm of the error against float64: rounding of the stored result, twice for gradients.
TOLERANCE = {"fp64": 1e-12, "fp32": 1e-5, "fp16": 2e-3, "bf16": 1e-2}
LENGTHS = [1, 2, 17, 64, 97, 128, 1025]
SHORT_BLOCK = 32  # forces the two-pass path without a long row


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    assert bool(torch.isfinite(got).all())
    return float((got.detach().double() - want).norm() / want.norm().clamp_min(1e-30))


def scores(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(*shape, generator=generator)).to(device, dtype)


@pytest.fixture(params=["one-block", "two-pass"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "two-pass":
        monkeypatch.setattr(softmax_api, "MAX_BLOCK", SHORT_BLOCK)
    return request.param


@pytest.mark.thin(keep=14)
@needs_triton
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("n", LENGTHS, ids=lambda n: f"S{n}")
def test_outputs_and_gradients_match_the_twin(n: int, name: str, path: str, device: str):
    x = scores(5, n, dtype=DTYPES[name], device=device).requires_grad_()
    grad = scores(5, n, dtype=DTYPES[name], device=device, seed=1)
    oracle_x = x.detach().double().requires_grad_()
    oracle = naive_softmax(oracle_x)
    oracle.backward(grad.double())

    out = fused_softmax(x)
    out.backward(grad)

    assert out.dtype == x.dtype
    assert relative_error(out, oracle.detach()) < TOLERANCE[name]
    assert x.grad is not None
    assert oracle_x.grad is not None
    if n > 1:  # the gradient of a one-element row is exactly zero: nothing to compare with
        assert relative_error(x.grad, oracle_x.grad) < 4 * TOLERANCE[name]
    else:
        assert float(x.grad.abs().max()) == 0.0


def test_twin_is_torch_softmax(device: str):
    x = scores(4, 33, dtype=torch.float64, device=device)
    torch.testing.assert_close(naive_softmax(x), torch.softmax(x, -1), rtol=0, atol=1e-15)


@pytest.mark.thin(keep=1)
@needs_triton
def test_gradcheck(path: str, device: str):
    x = scores(2, 33, dtype=torch.float64, device=device).requires_grad_()
    assert torch.autograd.gradcheck(fused_softmax, (x,))


BOTH = pytest.mark.parametrize(
    "function",
    [pytest.param(fused_softmax, marks=needs_triton, id="fused"), naive_softmax],
)


@BOTH
def test_masked_entries_weigh_nothing_and_masked_rows_are_zeros(function, path: str, device: str):
    x = scores(4, 50, dtype=torch.float32, device=device)
    x[0] = -float("inf")
    x[1, 7:] = -float("inf")
    x[2, :40] = -float("inf")  # whole blocks of -inf before the first finite score
    x.requires_grad_()
    p = function(x)
    p.backward(torch.ones_like(p) * torch.arange(50, device=device))
    assert p[0].eq(0).all()
    assert p[1, 7:].eq(0).all()
    assert p[2, :40].eq(0).all()
    torch.testing.assert_close(p[1:].sum(-1), torch.ones(3, device=device))
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert x.grad[0].eq(0).all()


@BOTH
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # the interpreter's NumPy
@pytest.mark.parametrize("bad", [float("nan"), float("inf")], ids=["nan", "inf"])
def test_nan_and_infinity_spoil_their_own_row_only(function, bad: float, path: str, device: str):
    x = scores(3, 40, dtype=torch.float32, device=device)
    x[1, 35] = bad
    p = function(x)
    assert torch.isnan(p[1]).all()
    assert torch.isfinite(p[[0, 2]]).all()


@BOTH
def test_huge_scores_do_not_overflow(function, path: str, device: str):
    x = torch.tensor([[1e4, 1e4 - 1.0, -1e4]], device=device)
    want = torch.softmax(x.double(), -1).float()
    torch.testing.assert_close(function(x), want)


STRIDES = {
    "transposed": lambda x: x.transpose(0, 1),
    "every-other-column": lambda x: x[:, ::2],
    "leading-axes-swapped": lambda x: x.reshape(6, 4, -1).transpose(0, 1),
    "expanded": lambda x: x[:1].expand(3, -1),
}


@needs_triton
@pytest.mark.parametrize("view", STRIDES.values(), ids=STRIDES)
def test_any_strides_are_read_and_the_input_is_left_alone(view, path: str, device: str):
    base = scores(24, 40, dtype=torch.float32, device=device)
    before = base.clone()
    x = view(base).requires_grad_()
    out = fused_softmax(x)
    out.backward(torch.ones_like(out).cumsum(0).transpose(0, -1).contiguous().transpose(0, -1))
    assert out.is_contiguous()
    torch.testing.assert_close(out, naive_softmax(x))
    assert torch.equal(base, before)


@needs_triton
def test_empty_input_gives_empty_output(device: str):
    for shape in [(0, 5), (3, 0)]:
        assert fused_softmax(torch.empty(shape, device=device)).shape == shape


@needs_triton
def test_unmentioned_columns_are_never_written(path: str, device: str):
    """The last block is ragged: what lies behind each row in memory must survive."""
    from attend_kernels.ops.softmax import kernels as softmax_kernels

    x = scores(3, 37, dtype=torch.float32, device=device)
    poisoned = torch.full((4, 37), float("nan"), device=device)
    settings = softmax_kernels.config(37, x.dtype, softmax_api.MAX_BLOCK, softmax_api.TILE)
    softmax_kernels.softmax_forward_kernel[(1,)](x, poisoned, 3, 37, 37, 1, **settings)
    assert torch.isfinite(poisoned[:3]).all()
    assert torch.isnan(poisoned[3]).all()


def test_integers_are_refused_with_the_fix():
    with pytest.raises(TypeError, match=r"got torch.int64.*Next: x.float\(\)"):
        fused_softmax(torch.arange(3))


def test_a_scalar_is_refused():
    with pytest.raises(ShapeError, match="x has 0 axes; expected at least 1"):
        fused_softmax(torch.tensor(1.0))


@pytest.mark.gpu
@pytest.mark.parametrize("n", [4096, 16_384, 50_257], ids=lambda n: f"S{n}")
def test_long_rows_on_a_gpu(n: int):
    x = scores(64, n, dtype=torch.bfloat16, device="cuda").requires_grad_()
    grad = scores(64, n, dtype=torch.bfloat16, device="cuda", seed=1)
    oracle_x = x.detach().double().requires_grad_()
    naive_softmax(oracle_x).backward(grad.double())
    out = fused_softmax(x)
    out.backward(grad)
    assert relative_error(out, torch.softmax(x.detach().double(), -1)) < TOLERANCE["bf16"]
    assert x.grad is not None
    assert oracle_x.grad is not None
    assert relative_error(x.grad, oracle_x.grad) < 4 * TOLERANCE["bf16"]
