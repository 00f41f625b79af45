"""Flash attention inside PyTorch: torch.compile, autocast, operators, errors, the fallback."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, flash_attention, naive_attention
from attend_kernels.common import fallback
from attend_kernels.ops.flash import operators as flash_operators

from .flash_cases import Case, run
from .numerics import relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize("deterministic", [True, False], ids=["two-pass", "atomic"])
def test_stays_whole_under_torch_compile(deterministic: bool, device: str):
    """One graph (``fullgraph`` raises at a break), and the same bits as without."""
    case = Case(33, 48, H=4, G=2, D=16, causal=True, window=20, alibi=True, softcap=5.0)
    options = {"return_lse": True, "deterministic": deterministic, **case.options(device)}
    compiled = torch.compile(flash_attention, backend="aot_eager", fullgraph=True)
    got = run(compiled, case.inputs(device), **options)
    want = run(flash_attention, case.inputs(device), **options)
    for name, value in got.items():
        assert torch.equal(value, want[name]), name


@pytest.mark.deep
@needs_triton
def test_one_compilation_serves_other_lengths(device: str):
    compiled = torch.compile(flash_attention, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (33, 40, 57):
        q, k, v, _, _ = Case(length, D=16).inputs(device)
        assert torch.equal(compiled(q, k, v, causal=True), flash_attention(q, k, v, causal=True))


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize("layout", ["heads-outside", "heads-inside"])
def test_operators_keep_pytorchs_contract(layout: str, device: str):
    """Schema, fake kernels (shapes, dtypes, strides) and gradient, by PyTorch's own checker."""
    q, k, v, grad, _ = Case(9, 12, H=2, G=1, D=16).inputs(device)
    if layout == "heads-inside":
        q, k, v, grad = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v, grad))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    options = (None, None, None, 0.25, None, None, 0, True)
    torch.library.opcheck(flash_operators.flash_forward, (q, k, v, *options))
    q, k, v = (x.detach() for x in (q, k, v))
    output, lse = flash_operators.flash_forward(q, k, v, *options)
    torch.library.opcheck(
        flash_operators.flash_backward, (grad, torch.ones_like(lse), q, k, v, output, lse, *options)
    )


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("name", ["eager", "compiled"])
def test_autocast_computes_in_its_dtype(name: str, device: str):
    function: Any = flash_attention
    if name == "compiled":
        function = torch.compile(function, backend="aot_eager", fullgraph=True)
    q, k, v, grad, _ = Case(33, D=16).inputs(device)
    q.requires_grad_()
    with torch.autocast(device, torch.bfloat16):
        output = function(q, k, v)
    assert output.dtype == torch.bfloat16
    assert torch.equal(output, flash_attention(*(x.bfloat16() for x in (q, k, v))))
    output.backward(grad.bfloat16())
    assert q.grad is not None
    assert q.grad.dtype == torch.float32


@needs_triton
def test_no_gradient_is_computed_where_none_is_wanted(device: str):
    q, k, v, _, _ = Case(17).inputs(device)
    assert not flash_attention(q, k, v).requires_grad
    with torch.no_grad():
        assert not flash_attention(q.requires_grad_(), k, v).requires_grad


@needs_triton
def test_the_gradient_has_no_gradient_and_says_so(device: str):
    q, k, v, _, _ = Case(17).inputs(device)
    output = flash_attention(q.requires_grad_(), k, v)
    (first,) = torch.autograd.grad(output.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"does not require grad|no autograd formula|backward"):
        first.sum().backward()


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


Q, K = zeros(1, 6, 5, 16), zeros(1, 2, 7, 16)
WRONG: dict[str, tuple[type[Exception], str, tuple[Any, ...], dict[str, Any]]] = {
    "three-axes": (ShapeError, r"q has 3 axes; expected 4 \(B H T D\)", (Q[0], K, K), {}),
    "other-batch": (ShapeError, "k has the wrong shape.*B=1", (Q, zeros(2, 2, 7, 16), K), {}),
    "other-width": (ShapeError, "D=16", (Q, zeros(1, 2, 7, 8), K), {}),
    "fewer-values": (ShapeError, "v has the wrong shape.*S=7", (Q, K, K[:, :, :3]), {}),
    "heads": (
        ValueError,
        "q has 6 heads, k and v have 4.*Next: 1, 2, 3 or 6 key/value heads",
        (Q, zeros(1, 4, 7, 16), zeros(1, 4, 7, 16)),
        {},
    ),
    "heads-behind-tokens": (
        ValueError,
        "Likely cause: heads and time are exchanged. Next: the other of layout='bhtd' and 'bthd'",
        (zeros(1, 9, 6, 16), zeros(1, 7, 2, 16), zeros(1, 7, 2, 16)),
        {},
    ),
    "no-heads": (ValueError, "k and v have 0", (Q, K[:, :0], K[:, :0]), {}),
    "too-wide": (
        ValueError,
        "D=320 wide; expected 1 to 256.*naive_attention, which takes any width",
        (zeros(1, 1, 2, 320),) * 3,
        {},
    ),
    "dtypes-differ": (TypeError, r"must have one dtype.*k\.to\(q\.dtype\)", (Q, K.half(), K), {}),
    "float64": (TypeError, "got torch.float64.*naive_attention", (Q.double(),) * 3, {}),
    "integers": (TypeError, r"got torch.int64.*x\.float\(\)", (Q.long(),) * 3, {}),
    "alibi-count": (ShapeError, "alibi has the wrong shape", (Q, K, K), {"alibi": zeros(4)}),
    "alibi-trained": (
        ValueError,
        "get no gradient.*naive_attention to train them",
        (Q, K, K),
        {"alibi": zeros(6).requires_grad_()},
    ),
    "window": (ValueError, "left side must be 0 or more keys, got -2", (Q, K, K), {"window": -2}),
    "window-float": (TypeError, r"whole number of keys.*got 2\.5", (Q, K, K), {"window": 2.5}),
    "window-three": (
        TypeError,
        r"got \(1, 2, 3\)",
        (Q, K, K),
        {"window": (1, 2, 3)},
    ),
    "array": (TypeError, "k must be a tensor, got a NumPy ndarray", (Q, K.numpy(), K), {}),
    "none": (TypeError, "v must be a tensor, got None", (Q, K, None), {}),
    "slope": (TypeError, "alibi must be a tensor, got float", (Q, K, K), {"alibi": 0.5}),
    "scale": (ValueError, "scale must be a positive number, got 0", (Q, K, K), {"scale": 0.0}),
    "softcap": (ValueError, "softcap must be a pos.*None is no cap", (Q, K, K), {"softcap": -1.0}),
    "devices": (ValueError, r"one device, got cpu and meta", (Q, K.to("meta"), K), {}),
}


@pytest.mark.parametrize(("error", "message", "tensors", "options"), WRONG.values(), ids=WRONG)
def test_errors_say_what_was_expected_and_what_to_do(
    error: type[Exception],
    message: str,
    tensors: tuple[torch.Tensor, ...],
    options: dict[str, Any],
):
    with pytest.raises(error, match=message):
        flash_attention(*tensors, **options)


def test_twin_gives_empty_rows_zero_gradients():
    """Rows that see no key: where softmax of -inf everywhere would spread NaN."""
    q, k, v, grad, _ = (x.double() for x in Case(9, 4).inputs())
    leaves = [x.requires_grad_() for x in (q, k, v)]
    output, _ = naive_attention(*leaves, causal=True)
    grads = torch.autograd.grad(output, leaves, grad)
    assert output[:, :, :5].eq(0).all()
    assert grads[0][:, :, :5].eq(0).all()
    assert all(bool(g.isfinite().all()) for g in grads)


def test_relative_error_never_forgives_nan():
    want = torch.ones(3, dtype=torch.float64)
    for bad in (float("nan"), float("inf")):
        assert relative_error(torch.tensor([1.0, bad, 1.0]), want) == float("inf")
    assert relative_error(torch.tensor([1.0, 1.0, 1.1]), want) == pytest.approx(0.1 / 3**0.5, 1e-4)
