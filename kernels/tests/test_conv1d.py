"""Causal convolution against its twin and ``nn.Conv1d``: outputs, gradients, states, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, causal_conv1d, causal_conv1d_step, naive_causal_conv1d
from attend_kernels.common import fallback
from attend_kernels.ops.conv1d import operators as conv1d_operators
from hypothesis import given, settings
from hypothesis import strategies as st

from .allocations import allocated, assert_linear
from .numerics import DTYPES, TOLERANCE, assert_right, poisoned, relative_error, shaken

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
Tensors = dict[str, Any]  # Any, for they are passed on as keyword arguments
SILU = pytest.mark.parametrize("activation", ["silu", None], ids=["silu", "linear"])
STATE = pytest.mark.parametrize("state", [False, True], ids=["fresh", "state"])


@pytest.fixture(autouse=True)
def short_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several programs a sequence, of several tiles each, without a long one."""
    if fallback.HAS_TRITON and not torch.cuda.is_available():
        from attend_kernels.ops.conv1d import kernels as conv1d_kernels

        monkeypatch.setitem(conv1d_kernels.BACKWARD, "TILES", 2)
        monkeypatch.setitem(conv1d_kernels.BACKWARD, "BLOCK_T", 8)
        monkeypatch.setitem(conv1d_kernels.FORWARD, "BLOCK_T", 8)


def make(
    t: int,
    c: int = 5,
    k: int = 4,
    dtype: torch.dtype = torch.float32,
    state: bool = True,
    device: str = "cpu",
    seed: int = 0,
) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"x": (2, t, c), "w": (c, k), "b": (c,), "state": (2, c, k - 1)}
    return {
        name: torch.randn(shape, generator=generator).to(device, dtype)
        for name, shape in shapes.items()
        if state or name != "state"
    }


def run(function: Any, inputs: Tensors, **options: Any) -> Tensors:
    leaves = {name: x.detach().clone().requires_grad_() for name, x in inputs.items()}
    y = function(**leaves, **options)
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(9)).to(y)
    found = torch.autograd.grad(y, list(leaves.values()), grad)
    return {"y": y.detach()} | {f"d{n}": g for n, g in zip(leaves, found, strict=True)}


def wide(inputs: Tensors) -> Tensors:
    return {name: x.double() for name, x in inputs.items()}


def check(inputs: Tensors, **options: Any) -> None:
    with poisoned():
        got = run(causal_conv1d, inputs, **options)
    want = run(naive_causal_conv1d, wide(inputs), **options)
    dtype = inputs["x"].dtype
    moved = None if dtype != torch.float32 else run(naive_causal_conv1d, shaken(inputs), **options)
    for name, value in got.items():
        assert value.dtype == dtype, name
        if dtype == torch.float64:
            assert relative_error(value, want[name], floor=1e-3) < 1e-12, name
        else:
            near = None if moved is None else moved[name]
            assert_right(value, want[name], dtype, near, 1e-2, name)


@SILU
@STATE
@pytest.mark.parametrize("t", [1, 2, 3, 17], ids=lambda n: f"T{n}")
def test_twin_is_pytorchs_convolution(t: int, state: bool, activation: Any):
    inputs = make(t, dtype=torch.float64, state=state)
    past = inputs.get("state", torch.zeros(2, 5, 3, dtype=torch.float64))
    x = torch.cat([past, inputs["x"].transpose(1, 2)], dim=-1)
    want = torch.nn.functional.conv1d(x, inputs["w"][:, None], inputs["b"], groups=5)
    want = torch.nn.functional.silu(want) if activation else want
    got = naive_causal_conv1d(**inputs, activation=activation)
    torch.testing.assert_close(got, want.transpose(1, 2), rtol=0, atol=1e-14)


@needs_triton
@SILU
@STATE
@pytest.mark.parametrize("t", [1, 2, 7, 8, 17, 40], ids=lambda n: f"T{n}")
def test_kernel_is_its_twin(t: int, state: bool, activation: Any, device: str):
    check(make(t, state=state, device=device), activation=activation)


@needs_triton
@pytest.mark.parametrize("k", [1, 2, 3, 8], ids=lambda n: f"K{n}")
def test_any_number_of_taps(k: int, device: str):
    check(make(9, k=k, device=device))


@needs_triton
@pytest.mark.parametrize("name", [*DTYPES, "fp64"])
def test_every_dtype(name: str, device: str):
    check(make(13, c=9, dtype=DTYPES.get(name, torch.float64), device=device))


@needs_triton
@pytest.mark.parametrize("c", [1, 64, 65], ids=lambda n: f"C{n}")
def test_channels_that_fill_no_block(c: int, device: str):
    check(make(5, c=c, device=device))


@needs_triton
@settings(max_examples=4, deadline=None)
@given(
    t=st.integers(1, 20),
    c=st.integers(1, 70),
    k=st.integers(1, 5),
    state=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_shape(t: int, c: int, k: int, state: bool, seed: int):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    check(make(t, c, k, torch.float64, state, device, seed))


@needs_triton
def test_a_bias_may_be_left_out(device: str):
    inputs = make(6, device=device)
    del inputs["b"]
    check(inputs)


@needs_triton
@pytest.mark.parametrize("at", [0, 1, 2, 3, 8, 12])
def test_a_sequence_split_anywhere_is_the_whole(at: int, device: str):
    inputs = make(12, dtype=torch.float64, device=device)

    def split(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, state: torch.Tensor):
        first, state = causal_conv1d(x[:, :at], w, b, state=state, output_state=True)
        second, state = causal_conv1d(x[:, at:], w, b, state=state, output_state=True)
        return torch.cat([first, second, state.transpose(1, 2)], dim=1)

    def whole(**arguments: Any):
        last = torch.cat([arguments["state"], arguments["x"].transpose(1, 2)], dim=-1)[..., -3:]
        return torch.cat([naive_causal_conv1d(**arguments), last.transpose(1, 2)], dim=1)

    parts, want = run(split, inputs), run(whole, inputs)
    for name, value in parts.items():
        assert relative_error(value, want[name]) < 1e-12, name


@needs_triton
def test_steps_one_at_a_time_are_the_convolution(device: str):
    inputs = make(5, device=device)
    want = causal_conv1d(**inputs)
    state = inputs["state"]
    for t in range(5):
        y, state = causal_conv1d_step(state, inputs["x"][:, t], inputs["w"], inputs["b"])
        torch.testing.assert_close(y, want[:, t])
    torch.testing.assert_close(state, inputs["x"][:, -3:].transpose(1, 2))


@needs_triton
def test_any_strides_are_read_and_inputs_left_alone(device: str):
    """x as a slice of a projection; the taps with the axis of ``nn.Conv1d`` dropped, transposed."""
    base = make(6, c=6, device=device)
    views = base | {
        "x": torch.cat([base["x"], base["x"]], dim=-1)[..., 3:9],
        "w": base["w"].T.contiguous().T,
        "state": base["state"].transpose(1, 2).contiguous().transpose(1, 2),
    }
    copies = {name: x.clone() for name, x in views.items()}
    leaves = {name: x.requires_grad_() for name, x in views.items()}
    found = torch.autograd.grad(causal_conv1d(**leaves).sum(), list(leaves.values()))
    want = {name: x.double().requires_grad_() for name, x in copies.items()}
    wanted = torch.autograd.grad(naive_causal_conv1d(**want).sum(), list(want.values()))
    for name, got, right in zip(leaves, found, wanted, strict=True):
        assert relative_error(got, right) < 1e-5, name
        assert torch.equal(views[name], copies[name]), name


@needs_triton
def test_the_same_inputs_give_the_same_bits(device: str):
    inputs = make(18, c=65, device=device)
    first, second = (run(causal_conv1d, inputs) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@needs_triton
def test_memory_is_linear_in_time(device: str):
    """Forward y; backward dx, and sums of dw and db of a band of 16 steps. Nothing K times that."""

    def bytes_at(t: int) -> list[int]:
        leaves = {k: m.requires_grad_() for k, m in make(t, state=False, device=device).items()}
        return allocated(lambda: causal_conv1d(**leaves).sum().backward())

    rows = 2 * 64 * 5 * 4  # bytes of x
    sizes = assert_linear(bytes_at, 16)
    assert sum(size >= rows for size in sizes) <= 4  # y, its gradient, dx, the sums of the bands


@pytest.mark.thin(keep=1)
@needs_triton
@STATE
def test_registered_with_torch_library(state: bool, device: str):
    inputs = make(5, state=state, device=device)
    leaves = [x.requires_grad_() for x in inputs.values()]
    leaves += [None] * (not state)
    torch.library.opcheck(conv1d_operators.conv_forward, (*leaves, True))
    plain = [None if x is None else x.detach() for x in leaves]
    grad = torch.ones_like(inputs["x"].detach())
    torch.library.opcheck(conv1d_operators.conv_backward, (grad, *plain, True))


@needs_triton
def test_torch_compile_keeps_the_graph_whole(device: str):
    inputs = make(7, device=device)

    def function(**arguments: Any) -> torch.Tensor:
        y, state = causal_conv1d(**arguments, output_state=True)
        return torch.cat([y, state.transpose(1, 2)], dim=1)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got, want = run(compiled, inputs), run(function, inputs)
    for name, value in got.items():
        assert torch.equal(value, want[name]), name


@needs_triton
def test_a_step_compiles_too(device: str):
    inputs = make(1, device=device)
    now = (inputs["state"], inputs["x"][:, 0], inputs["w"], inputs["b"])
    compiled = torch.compile(causal_conv1d_step, fullgraph=True, backend="aot_eager")
    for got, want in zip(compiled(*now), causal_conv1d_step(*now), strict=True):
        assert torch.equal(got, want)


@needs_triton
def test_mixed_dtypes_as_autocast_leaves_them(device: str):
    inputs = make(6, device=device)
    inputs["x"] = inputs["x"].bfloat16()
    with torch.autocast(device, torch.bfloat16):
        got = run(causal_conv1d, inputs)
    assert got["y"].dtype == got["dx"].dtype == torch.bfloat16
    assert got["dw"].dtype == torch.float32
    want = run(naive_causal_conv1d, wide(inputs))
    for name, value in got.items():
        assert relative_error(value, want[name]) < TOLERANCE[torch.bfloat16], name


X, W, B = torch.zeros(2, 7, 6), torch.zeros(6, 4), torch.zeros(6)
WRONG: dict[str, tuple[type[Exception], str, Tensors]] = {
    "two-axes": (ShapeError, r"x has 2 axes; expected 3 \(B T C\)", {"x": X[0]}),
    "channels-first": (
        ShapeError,
        r"x must be \(B, T, C\) with C=6.*x\.transpose\(1, 2\)",
        {"x": X.transpose(1, 2)},
    ),
    "conv1d-weight": (ShapeError, r"w has 3 axes.*x\.squeeze\(1\)", {"w": W[:, None]}),
    "bias": (ShapeError, "b has the wrong shape.*C=6", {"b": B[:4]}),
    "state": (ShapeError, r"state has the wrong shape: expected B C 3", {"state": X[:, :6, :2]}),
    "state-of-K": (
        ShapeError,
        r"one input less than the 4 taps.*state\[\.\.\., 1:\]",
        {"state": X[:, :6, :4].mT.reshape(2, 6, 4)},
    ),
    "taps": (ValueError, r"K=9 taps; expected 1 to 8.*w\.T", {"w": torch.zeros(6, 9)}),
    "activation": (
        ValueError,
        "must be 'silu' or None, got 'relu'.*is swish",
        {"activation": "relu"},
    ),
    "integers": (TypeError, r"got x of torch.int64.*x\.float\(\)", {"x": X.long()}),
    "devices": (
        ValueError,
        r"got x on cpu and w on meta. Next: w\.to\(x\.device\)",
        {"w": W.to("meta")},
    ),
    "list": (TypeError, "b must be a tensor, got list", {"b": [0.0] * 6}),
}


@pytest.mark.parametrize(("error", "message", "changes"), WRONG.values(), ids=WRONG)
def test_errors_say_what_was_expected_and_what_to_do(
    error: type[Exception], message: str, changes: Tensors
):
    arguments: Tensors = {"x": X, "w": W, "b": B} | changes
    with pytest.raises(error, match=message):
        causal_conv1d(**arguments)


def test_empty_input_gives_empty_output_and_hands_the_state_on():
    inputs = make(3)
    inputs["x"] = inputs["x"][:, :0]
    y, state = causal_conv1d(**inputs, output_state=True)
    assert y.shape == (2, 0, 5)
    assert torch.equal(state, inputs["state"])


@pytest.mark.gpu
@SILU
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("t", [97, 1025, 4096], ids=lambda n: f"T{n}")
def test_model_sizes_on_a_gpu(t: int, name: str, activation: Any):
    check(make(t, c=1536, dtype=DTYPES[name], device="cuda"), activation=activation)
