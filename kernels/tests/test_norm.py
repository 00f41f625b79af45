"""RMSNorm and LayerNorm against their twins in float64 and PyTorch's own functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, layer_norm, naive_layer_norm, naive_rms_norm, rms_norm
from attend_kernels.common import fallback
from attend_kernels.ops.norm import operators as norm_operators
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from . import numerics
from .numerics import relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
DTYPES = {"fp64": torch.float64, **numerics.DTYPES}
TOLERANCE = {torch.float64: 1e-12, **numerics.TOLERANCE}
WIDTHS = [1, 2, 17, 64, 97, 113, 128, 256, 1025]
KINDS = ["rms", "layer", "layer-no-bias"]
FAST: dict[str, Callable[..., Any]] = {"rms": rms_norm, "layer": layer_norm}
TWIN: dict[str, Callable[..., Any]] = {"rms": naive_rms_norm, "layer": naive_layer_norm}


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """Fill whatever torch.empty returns with NaN: an element nobody wrote then fails the test."""
    with numerics.poisoned():
        yield


@pytest.fixture(params=["one-block", "wide"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kernels: rows held in registers, and rows walked in blocks of columns."""
    if request.param == "wide":
        from attend_kernels.ops.norm import kernels as norm_kernels

        monkeypatch.setattr(norm_kernels, "MAX_BLOCK", 64)
    return request.param


def draw(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (0.5 + torch.randn(*shape, generator=generator)).to(device, dtype)


def call(
    table: dict[str, Callable[..., Any]], kind: str, leaves: dict[str, torch.Tensor], **options: Any
) -> Any:
    residual = leaves.get("residual")
    if kind == "rms":
        return table["rms"](leaves["x"], leaves["weight"], residual=residual, **options)
    bias = leaves.get("bias") if kind == "layer" else None
    return table["layer"](leaves["x"], leaves["weight"], bias, residual=residual, **options)


def make(
    rows: tuple[int, ...], width: int, dtype: torch.dtype, device: str, kind: str, residual: bool
) -> dict[str, torch.Tensor]:
    leaves = {"x": draw(*rows, width, dtype=dtype, device=device)}
    leaves["weight"] = draw(width, dtype=dtype, device=device, seed=1)
    if kind == "layer":
        leaves["bias"] = draw(width, dtype=dtype, device=device, seed=2)
    if residual:
        leaves["residual"] = draw(*rows, width, dtype=dtype, device=device, seed=3)
    return {name: tensor.requires_grad_() for name, tensor in leaves.items()}


def outputs_and_gradients(
    table: dict[str, Callable[..., Any]], kind: str, leaves: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Outputs, and every leaf's gradient for fixed random output gradients."""
    result = call(table, kind, leaves)
    outputs = result if isinstance(result, tuple) else (result,)
    grads = [
        draw(*o.shape, dtype=o.dtype, device=str(o.device), seed=7 + i)
        for i, o in enumerate(outputs)
    ]
    found = torch.autograd.grad(outputs, list(leaves.values()), grads)
    named = {f"d{name}": grad for name, grad in zip(leaves, found, strict=True)}
    return dict(zip(("normed", "sum"), outputs, strict=False)) | named


def in_float64(leaves: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.detach().double().requires_grad_() for name, t in leaves.items()}


@pytest.mark.thin
@needs_triton
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("width", WIDTHS, ids=lambda n: f"C{n}")
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_outputs_and_gradients_match_the_twin(
    kind: str, width: int, name: str, path: str, device: str
):
    leaves = make((5,), width, DTYPES[name], device, kind, residual=True)
    got = outputs_and_gradients(FAST, kind, leaves)
    want = outputs_and_gradients(TWIN, kind, in_float64(leaves))
    single = {"dx", "dresidual", "dweight"} if width == 1 else set()  # see the next test
    for part in want.keys() - single:
        assert got[part].dtype == DTYPES[name]
        assert relative_error(got[part], want[part]) < TOLERANCE[DTYPES[name]], part


@needs_triton
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_one_channel_leaves_nothing_to_learn_from(kind: str, path: str, device: str):
    """A row of one channel is normed to +-1 or 0: its gradient is zero but for eps."""
    leaves = make((5,), 1, torch.float32, device, kind, residual=False)
    got = outputs_and_gradients(FAST, kind, leaves)
    want = outputs_and_gradients(TWIN, kind, in_float64(leaves))
    for part in want:
        torch.testing.assert_close(got[part].double(), want[part], rtol=1e-4, atol=1e-4)


@needs_triton
@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_option_matches_the_twin(kind: str, residual: bool, path: str, device: str):
    leaves = make((2, 3), 97, torch.float32, device, kind, residual)
    got = outputs_and_gradients(FAST, kind, leaves)
    want = outputs_and_gradients(TWIN, kind, in_float64(leaves))
    assert got.keys() == want.keys()
    for part in want:
        assert got[part].shape == want[part].shape
        assert relative_error(got[part], want[part]) < TOLERANCE[torch.float32], part


def test_twins_are_pytorchs_functions(device: str):
    x, weight, bias = (
        draw(*s, dtype=torch.float64, device=device) for s in ((4, 33), (33,), (33,))
    )
    want = functional.rms_norm(x, (33,), weight, 1e-6)
    torch.testing.assert_close(naive_rms_norm(x, weight), want, rtol=0, atol=1e-14)
    want = functional.layer_norm(x, (33,), weight, bias, 1e-5)
    torch.testing.assert_close(naive_layer_norm(x, weight, bias), want, rtol=0, atol=1e-14)


@needs_triton
@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_no_weight_is_a_weight_of_ones(kind: str, residual: bool, device: str):
    x = draw(3, 17, dtype=torch.float16, device=device).requires_grad_()
    stream = draw(3, 17, dtype=torch.float16, device=device, seed=1) if residual else None
    given: list[Any] = [torch.ones(17, device=device), None] if kind == "layer" else []
    given = given or [torch.ones(17, device=device)]
    want = FAST[kind](x, *given, residual=stream)
    got = FAST[kind](x, residual=stream)
    pairs = zip(want, got, strict=True) if residual else [(want, got)]
    for expected, value in pairs:
        assert torch.equal(value, expected)
        assert value.dtype == torch.float16
        (wanted,) = torch.autograd.grad(expected.sum(), x, retain_graph=True)
        (found,) = torch.autograd.grad(value.sum(), x, retain_graph=True)
        assert torch.equal(found, wanted)


@needs_triton
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_error_is_what_rounding_makes(kind: str, path: str, device: str):
    leaves = make((8,), 256, torch.float32, device, kind, residual=True)
    check(kind, leaves)


@needs_triton
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_float64_has_its_eps_in_float64(kind: str, path: str, device: str):
    from .stand_in import single_numbers

    leaves = make((3,), 33, torch.float64, device, kind, residual=False)
    leaves["x"] = leaves["x"].detach() * 1e-3  # rows as small as eps
    want = call(TWIN, kind, leaves)
    with single_numbers():
        got = call(FAST, kind, leaves)
    assert relative_error(got, want.detach()) < 1e-14


def check(kind: str, leaves: dict[str, torch.Tensor]) -> None:
    """Assert both limits of ``numerics``, of outputs and gradients."""
    got = outputs_and_gradients(FAST, kind, leaves)
    want = outputs_and_gradients(TWIN, kind, in_float64(leaves))
    near = {name: x.requires_grad_() for name, x in numerics.shaken(leaves).items()}
    moved = outputs_and_gradients(TWIN, kind, near)
    for part in want:
        numerics.assert_right(got[part], want[part], leaves["x"].dtype, moved[part], what=part)


@needs_triton
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_gradcheck(kind: str, path: str, device: str):
    leaves = make((3,), 37, torch.float64, device, kind, residual=True)

    def function(*tensors: torch.Tensor) -> Any:
        return call(FAST, kind, dict(zip(leaves, tensors, strict=True)))

    assert torch.autograd.gradcheck(function, tuple(leaves.values()), fast_mode=True)


@needs_triton
def test_large_mean_does_not_cancel(path: str, device: str):
    """Squares minus the squared mean would lose every digit here."""
    x = 4096.0 + draw(4, 97, dtype=torch.float32, device=device)
    one, zero = torch.ones(97, device=device), torch.zeros(97, device=device)
    want = functional.layer_norm(x.double(), (97,))
    assert relative_error(layer_norm(x, one, zero), want) < 1e-3


@needs_triton
@settings(max_examples=12, deadline=None)
@given(rows=st.integers(1, 9), width=st.integers(1, 70), seed=st.integers(0, 99))
def test_any_shape_ignores_scale_and_keeps_its_rows_apart(rows: int, width: int, seed: int):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = draw(rows, width, dtype=torch.float64, device=device, seed=seed)
    one = torch.ones(width, dtype=torch.float64, device=device)
    y = rms_norm(x, one, eps=1e-30)
    torch.testing.assert_close(y, rms_norm(3.5 * x, one, eps=1e-30))
    torch.testing.assert_close(y[-1:], rms_norm(x[-1:], one, eps=1e-30))
    torch.testing.assert_close(y.square().mean(-1), torch.ones_like(y[:, 0]))


@needs_triton
def test_weight_gradient_does_not_depend_on_the_number_of_programs(
    monkeypatch: pytest.MonkeyPatch, device: str
):
    from attend_kernels.ops.norm import kernels as norm_kernels

    leaves = make((70,), 40, torch.float64, device, "layer", residual=False)
    results = []
    for programs in (1, 2, 8):
        monkeypatch.setattr(norm_kernels, "INTERPRETED_PROGRAMS", programs)
        monkeypatch.setattr(norm_kernels, "TILE", 64 * programs)  # rows a program takes at once
        results.append(outputs_and_gradients(FAST, "layer", leaves))
    for other in results[1:]:
        for part, value in results[0].items():
            torch.testing.assert_close(other[part], value, rtol=1e-12, atol=1e-12)


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_the_same_inputs_give_the_same_bits(kind: str, path: str, device: str):
    leaves = make((33,), 97, torch.float32, device, kind, residual=True)
    first, second = (outputs_and_gradients(FAST, kind, leaves) for _ in range(2))
    for part in first:
        assert torch.equal(first[part], second[part]), part


STRIDES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.transpose(0, 1),
    "every-other-column": lambda x: x[:, ::2],
    "columns-sliced": lambda x: x[:, 3:20],
    "leading-axes-swapped": lambda x: x.reshape(6, 4, -1).transpose(0, 1),
    "expanded": lambda x: x[:1].expand(3, -1),
}


@needs_triton
@pytest.mark.parametrize("view", STRIDES.values(), ids=STRIDES)
def test_any_strides_are_read_and_inputs_left_alone(
    view: Callable[[torch.Tensor], torch.Tensor], path: str, device: str
):
    base = draw(24, 40, dtype=torch.float32, device=device)
    before = base.clone()
    x = view(base).requires_grad_()
    weight = draw(x.shape[-1], dtype=torch.float32, device=device, seed=1)
    y, h = rms_norm(x, weight, residual=x.detach())
    grad = torch.autograd.grad(y.sum() + h.square().sum(), x)[0]  # sum: gradients of stride 0
    want_y, want_h = naive_rms_norm(x, weight, residual=x.detach())
    want = torch.autograd.grad(want_y.sum() + want_h.square().sum(), x)[0]
    torch.testing.assert_close(y, want_y)
    torch.testing.assert_close(grad, want)
    assert torch.equal(base, before)


@needs_triton
@pytest.mark.parametrize("used", [0, 1], ids=["only-normed", "only-sum"])
def test_one_output_unused(used: int, device: str):
    leaves = make((3,), 20, torch.float32, device, "rms", residual=True)
    inputs = (leaves["x"], leaves["residual"])
    got = torch.autograd.grad(call(FAST, "rms", leaves)[used].square().sum(), inputs)
    want = torch.autograd.grad(call(TWIN, "rms", leaves)[used].square().sum(), inputs)
    torch.testing.assert_close(got, want)


@needs_triton
def test_mixed_dtypes_and_autocast(device: str):
    """A bf16 branch on an fp32 residual stream, fp32 weights: as autocast leaves them."""
    x = draw(3, 40, dtype=torch.bfloat16, device=device).requires_grad_()
    residual = draw(3, 40, dtype=torch.float32, device=device, seed=1).requires_grad_()
    weight = draw(40, dtype=torch.float32, device=device, seed=2).requires_grad_()
    with torch.autocast(device, dtype=torch.bfloat16):
        y, h = rms_norm(x, weight, residual=residual)
    y.sum().backward()
    want, _ = naive_rms_norm(x.double(), weight.double(), residual=residual.double())
    assert (y.dtype, h.dtype) == (torch.float32, torch.float32)
    assert isinstance(want, torch.Tensor)
    assert relative_error(y, want) < TOLERANCE[torch.float32]
    assert x.grad is not None
    assert x.grad.dtype == torch.bfloat16
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


@needs_triton
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_registered_with_torch_library(kind: str, device: str):
    leaves = make((3,), 17, torch.float32, device, kind, residual=kind == "layer")
    bias = leaves.get("bias")
    arguments = (leaves["x"], leaves.get("residual"), leaves["weight"], bias, 1e-5, kind == "layer")
    results = torch.library.opcheck(norm_operators.norm_forward, arguments)
    assert set(results.values()) == {"SUCCESS"}


@needs_triton
def test_torch_compile_keeps_the_graph_whole(device: str):
    leaves = make((3,), 17, torch.float32, device, "layer", residual=True)

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y, h = layer_norm(2 * x, weight, bias, residual=x)
        return (y * h).sum()

    inputs = (leaves["x"], leaves["weight"], leaves["bias"])
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(*inputs), inputs)
    want = torch.autograd.grad(function(*inputs), inputs)
    torch.testing.assert_close(got, want)


@needs_triton
def test_no_second_derivative_is_an_error_not_a_zero(device: str):
    leaves = make((3,), 17, torch.float32, device, "rms", residual=False)
    y = call(FAST, "rms", leaves).square().sum()
    (grad,) = torch.autograd.grad(y, leaves["x"], create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        grad.sum().backward()


def test_empty_input_gives_empty_output(device: str):
    for shape in [(0, 5), (3, 0)]:
        y = rms_norm(torch.empty(shape, device=device), torch.empty(shape[1], device=device))
        assert y.shape == shape


ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no-axis": ({"x": torch.tensor(1.0)}, ShapeError, "x has 0 axes; expected at least 1"),
    "weight": ({"weight": torch.ones(3)}, ShapeError, r"weight.*C=4, got \(3,\)"),
    "bias": ({"bias": torch.ones(3)}, ShapeError, r"bias.*C=4, got \(3,\)"),
    "residual": (
        {"residual": torch.ones(4)},
        ShapeError,
        r"expected \(2, 4\), got \(4,\).*Next: residual.reshape",
    ),
    "integers": ({"x": torch.ones(2, 4).long()}, TypeError, r"got x of torch.int64.*Next: x.float"),
    "shape-for-weight": ({"weight": 4}, TypeError, "weight must be a tensor, got int"),
    "eps": ({"eps": -1e-5}, ValueError, "must be 0 or more, got -1e-05"),
    "no-eps": ({"eps": None}, ValueError, "must be 0 or more, got None"),
    "device": (
        {"weight": torch.ones(4, device="meta")},
        ValueError,
        r"x on cpu and weight on meta.*Next: weight.to\(x.device\)",
    ),
}


@pytest.mark.parametrize(("wrong", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_expected_got_and_next(
    wrong: dict[str, Any], error: type[Exception], message: str
):
    given: dict[str, Any] = {
        "x": torch.ones(2, 4),
        "weight": torch.ones(4),
        "bias": torch.ones(4),
    } | wrong
    with pytest.raises(error, match=message):
        layer_norm(**given)


@pytest.mark.gpu
@pytest.mark.parametrize("width", [768, 4096, 8192, 16_384], ids=lambda n: f"C{n}")
@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_model_widths_on_a_gpu(kind: str, name: str, width: int):
    leaves = make((2048,), width, DTYPES[name], "cuda", kind, residual=True)
    check(kind, leaves)
