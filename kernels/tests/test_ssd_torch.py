"""SSD inside PyTorch: memory, torch.compile, autocast, operators, errors, the fallback."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, naive_ssd, ssd, ssd_step
from attend_kernels.common import fallback
from attend_kernels.ops.ssd import operators as ssd_operators

from .allocations import Allocations, assert_linear
from .recurrences import run
from .ssd_cases import Case, fast

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
NAMES = ("x", "dt", "A", "B", "C", "D", "initial_state")


def allocated(length: int, device: str) -> list[int]:
    """Bytes of all that the launchers of both directions allocate, at H 2, P 16, N 64."""
    from attend_kernels.ops.ssd import backward as ssd_backward
    from attend_kernels.ops.ssd import forward as ssd_forward

    inputs = Case(length, N=64).inputs(device)
    given = ssd_forward.Inputs(*(inputs[k] for k in NAMES), starts=None)
    with Allocations() as seen:
        y, final = ssd_forward.forward(given, 32)
        ssd_backward.backward(given, y, final, 32)
    return seen.sizes


@needs_triton
def test_no_state_of_every_step_is_ever_in_memory(device: str):
    """The largest tensor is far below (B, T, H, P, N), and what T adds is linear in it."""
    every_state = 128 * 2 * 16 * 64 * torch.float32.itemsize
    sizes = assert_linear(lambda length: allocated(length, device), 32)
    assert max(sizes) <= every_state / 15  # the states at starts of chunks, and their gradients


@needs_triton
def test_forward_alone_keeps_one_state_a_sequence(device: str):
    from attend_kernels.ops.ssd import forward as ssd_forward

    inputs = Case(96, N=128).inputs(device)
    given = ssd_forward.Inputs(*(inputs[k] for k in NAMES), starts=None)
    with Allocations() as seen:
        y, final = ssd_forward.forward(given, 16)
    assert max(seen.sizes) == final.nbytes > y.nbytes  # six chunks have six states


@needs_triton
def test_autograd_keeps_the_arguments_alone(device: str):
    inputs = {k: m.requires_grad_() for k, m in Case(20).inputs(device).items()}
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda m: saved.append(m.numel()) or m, lambda m: m
    ):
        fast(**inputs)
    assert sum(saved) == sum(m.numel() for m in inputs.values())


@needs_triton
def test_stays_whole_under_torch_compile(device: str):
    """One graph (``fullgraph`` raises at a break), and the same bits as without."""
    inputs = Case(20, H=2, G=1).inputs(device)
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    got, want = run(compiled, inputs), run(fast, inputs)
    for name, value in got.items():
        assert torch.equal(value, want[name]), name


@needs_triton
def test_packed_sequences_and_steps_compile_too(device: str):
    inputs = Case(20, options=("D",)).inputs(device)
    starts = torch.tensor([0, 7, 20], device=device)
    compiled: Any = torch.compile(fast, backend="aot_eager", fullgraph=True)
    got, want = compiled(**inputs, cu_seqlens=starts), fast(**inputs, cu_seqlens=starts)
    assert torch.equal(got[0], want[0])
    now = {k: m[:, 0] if k in ("x", "dt", "B", "C") else m for k, m in inputs.items()}
    step: Any = torch.compile(ssd_step, backend="aot_eager", fullgraph=True)
    state = torch.ones(1, 2, 16, 16, device=device)
    assert torch.equal(step(state, **now)[1], ssd_step(state, **now)[1])


@pytest.mark.deep
@needs_triton
def test_one_compilation_serves_other_lengths(device: str):
    compiled: Any = torch.compile(ssd, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (3, 20, 40):
        inputs = Case(length).inputs(device)
        assert torch.equal(compiled(**inputs), ssd(**inputs))


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize("options", [(), ("D", "initial_state")], ids=["bare", "all"])
def test_operators_keep_pytorchs_contract(options: tuple[str, ...], device: str):
    """Schema, fake kernels (shapes, dtypes, strides) and gradient, by PyTorch's own checker."""
    inputs = Case(5, H=1, options=options).inputs(device)
    leaves = [inputs[n].requires_grad_() if n in inputs else None for n in NAMES]
    torch.library.opcheck(ssd_operators.ssd_forward, (*leaves, None, 16))
    plain = [None if m is None else m.detach() for m in leaves]
    y, last = ssd_operators.ssd_forward(*plain, None, 16)
    arguments = (torch.ones_like(y), torch.ones_like(last), *plain, None, 16)
    torch.library.opcheck(ssd_operators.ssd_backward, arguments)
    x, dt, A, B, C, D, _ = plain  # noqa: N806
    assert x is not None
    assert dt is not None
    assert B is not None
    assert C is not None
    torch.library.opcheck(
        ssd_operators.ssd_step, (last, x[:, 0], dt[:, 0], A, B[:, 0], C[:, 0], D, None, True)
    )


@pytest.mark.deep
@needs_triton
def test_packed_operator_keeps_the_contract(device: str):
    inputs = Case(9, H=1, options=()).inputs(device)
    leaves = [inputs[n].requires_grad_() for n in NAMES[:5]]
    starts = torch.tensor([0, 4, 8], device=device, dtype=torch.int32)
    torch.library.opcheck(ssd_operators.ssd_forward, (*leaves, None, None, starts, 16))


@needs_triton
@pytest.mark.parametrize("name", ["eager", "compiled"])
def test_autocast_computes_in_its_dtype(name: str, device: str):
    """x, B and C in bf16; step sizes, decays and states stay fp32."""
    function: Any = fast
    if name == "compiled":
        function = torch.compile(function, backend="aot_eager", fullgraph=True)
    inputs = Case(20).inputs(device)
    inputs["x"].requires_grad_()
    with torch.autocast(device, torch.bfloat16):
        y, state = function(**inputs)
    narrow = inputs | {k: inputs[k].bfloat16() for k in ("x", "B", "C")}
    assert y.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    assert torch.equal(y, ssd(**narrow))
    y.sum().backward()
    assert inputs["x"].grad.dtype == torch.float32


@needs_triton
def test_only_the_gradients_that_are_used(device: str):
    """Through y alone, and through the last state alone."""
    inputs = Case(20).inputs(device)
    both = run(fast, inputs)
    for pick in (0, 1):
        leaves = {k: m.clone().requires_grad_() for k, m in inputs.items()}
        result = fast(**leaves)[pick]
        grad = torch.randn_like(result)
        found = torch.autograd.grad(result, list(leaves.values()), grad, allow_unused=True)
        twin = {k: m.double().requires_grad_() for k, m in inputs.items()}
        want = torch.autograd.grad(
            naive_ssd(**twin)[pick], list(twin.values()), grad.double(), materialize_grads=True,
            allow_unused=True,
        )  # fmt: skip
        for name, g, w in zip(leaves, found, want, strict=True):
            got = torch.zeros_like(leaves[name]) if g is None else g
            torch.testing.assert_close(got.double(), w, rtol=1e-4, atol=1e-4)
    assert set(both) == {"y", "state", *(f"d{n}" for n in inputs)}


@needs_triton
def test_no_gradient_is_computed_where_none_is_wanted(device: str):
    inputs = Case(17).inputs(device)
    assert not ssd(**inputs).requires_grad
    with torch.no_grad():
        assert not ssd(**inputs | {"x": inputs["x"].requires_grad_()}).requires_grad


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


GOOD: dict[str, Any] = {
    "x": zeros(1, 5, 6, 16),
    "dt": zeros(1, 5, 6),
    "A": zeros(6),
    "B": zeros(1, 5, 2, 16),
    "C": zeros(1, 5, 2, 16),
}
FOUR_GROUPS = {"B": zeros(1, 5, 4, 16), "C": zeros(1, 5, 4, 16)}
STARTS = torch.tensor([0, 2, 5])
WRONG: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "three-axes": (ShapeError, r"x has 3 axes; expected 4 \(B T H P\)", {"x": zeros(5, 6, 16)}),
    "heads-first": (ShapeError, "dt has the wrong shape.*swapped", {"dt": zeros(1, 6, 5)}),
    "other-steps": (ShapeError, "C has the wrong shape.*T=5", {"C": zeros(1, 4, 2, 16)}),
    "other-states": (ShapeError, "C has the wrong shape.*N=16", {"C": zeros(1, 5, 2, 8)}),
    "rate-a-channel": (ShapeError, "A has 2 axes; expected 1", {"A": zeros(6, 16)}),
    "state": (
        ShapeError,
        "initial_state has the wrong shape",
        {"initial_state": zeros(1, 6, 8, 16)},
    ),
    "flat": (
        ShapeError,
        r"B must be \(B, T, G, N\), or with groups.*got \(1, 5, 32\).*Next: groups=1",
        {"B": zeros(1, 5, 32)},
    ),
    "flat-groups": (
        ShapeError,
        r"with groups=3, B must be \(B, T, 3, N\) or \(B, T, 3 N\); got \(1, 5, 32\)",
        {"B": zeros(1, 5, 32), "C": zeros(1, 5, 32), "groups": 3},
    ),
    "divisor": (ValueError, "H=6 heads, B and C have G=4.*one of 1, 2, 3, 6 groups", FOUR_GROUPS),
    "no-width": (ValueError, "heads are P=0 wide; expected 1 or more", {"x": zeros(1, 5, 6, 0)}),
    "too-many-states": (
        ValueError,
        "states are N=512 wide",
        {"B": zeros(1, 5, 2, 512), "C": zeros(1, 5, 2, 512)},
    ),
    "dtypes-differ": (
        TypeError,
        r"must have one dtype.*B\.to\(x\.dtype\)",
        {"C": GOOD["C"].half()},
    ),
    "float64": (
        TypeError,
        "got torch.float64.*naive_ssd_chunked",
        {k: GOOD[k].double() for k in ("x", "B", "C")},
    ),
    "complex": (TypeError, r"got A of torch.complex64. Next: A\.real", {"A": GOOD["A"].cfloat()}),
    "integers": (TypeError, r"got x of torch.int64. Next: x\.float\(\)", {"x": GOOD["x"].long()}),
    "chunk": (ValueError, "chunk must be 16, 32, 64, 128 or 256, got 48", {"chunk": 48}),
    "chunk-float": (ValueError, r"chunk must be .* got 64\.0", {"chunk": 64.0}),
    "array": (TypeError, "x must be a tensor, got a NumPy ndarray", {"x": GOOD["x"].numpy()}),
    "starts-list": (
        TypeError,
        r"cu_seqlens must be a tensor, got list. Next: torch\.as_tensor",
        {"cu_seqlens": [0, 2, 5]},
    ),
    "devices": (ValueError, r"one device, got x on cpu and D on meta", {"D": zeros(6).to("meta")}),
    "A-log": (ValueError, r"A_log passed as it is. Next: -torch\.exp", {"A": GOOD["A"] + 1}),
    "negative-step": (ValueError, "Next: softplus=True", {"dt": GOOD["dt"] - 1}),
    "packed-batch": (
        ValueError,
        "B must be 1; got B=2",
        {k: m.expand(2, *m.shape[1:]) for k, m in GOOD.items() if k != "A"}
        | {"cu_seqlens": STARTS},
    ),
    "lengths": (ValueError, "must rise from 0 to at most 5", {"cu_seqlens": torch.tensor([2, 3])}),
    "packed-states": (
        ShapeError,
        "initial_state has the wrong shape: expected S H P N",
        {"cu_seqlens": STARTS, "initial_state": zeros(1, 6, 16, 16)},
    ),
}


@pytest.mark.parametrize(("error", "message", "changes"), WRONG.values(), ids=WRONG)
def test_errors_say_what_was_expected_and_what_to_do(
    error: type[Exception], message: str, changes: dict[str, Any]
):
    with pytest.raises(error, match=message):
        ssd(**GOOD | changes)


def test_a_steps_errors_are_its_own():
    now = {k: m[:, 0] if k != "A" else m for k, m in GOOD.items()}
    with pytest.raises(ShapeError, match=r"x has 4 axes; expected 3 \(B H P\)"):
        ssd_step(zeros(1, 6, 16, 16), **GOOD)
    with pytest.raises(ShapeError, match="state has the wrong shape"):
        ssd_step(zeros(1, 6, 16, 8), **now)
