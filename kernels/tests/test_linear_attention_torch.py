"""Linear attention inside PyTorch: memory, torch.compile, autocast, operators, fallback."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import linear_attention, linear_attention_step, naive_linear_attention
from attend_kernels.common import fallback
from attend_kernels.ops.linear_attention import delta_operators as linear_attention_delta_operators
from attend_kernels.ops.linear_attention import operators as linear_attention_operators
from attend_kernels.ops.linear_attention import tiles as linear_attention_tiles
from torch.utils._python_dispatch import TorchDispatchMode

from .linear_attention_cases import KINDS, Case, run, widened

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)


def fast(**inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return linear_attention(**inputs, output_state=True, chunk=16)


class Allocations(TorchDispatchMode):
    """Bytes of every new tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        # The interpreter hands tensors over by set_, which makes nothing.
        if isinstance(made, torch.Tensor) and not (func.is_view or func._schema.is_mutable):
            self.sizes.append(made.numel() * made.element_size())
        return made


def allocated(kind: str, length: int, device: str) -> list[int]:
    """Bytes of all that the launchers of both directions allocate, at H 1, D and D_v 32."""
    inputs = {k: x.detach() for k, x in Case(length, D=32, kind=kind).inputs(device).items()}
    q, k, v, state = (inputs[name] for name in ("q", "k", "v", "initial_state"))
    grad, last = torch.ones_like(v), torch.ones_like(state)
    # Below the operators, which PyTorch shows to no mode.
    if kind.endswith("delta"):
        from attend_kernels.ops.linear_attention import (
            delta_backward,
            delta_forward,
        )

        steps = inputs["beta"], inputs.get("gate")
        with Allocations() as seen:
            _, _, error = delta_forward.forward(q, k, v, *steps, state, 16)
            learns = steps[1] is not None
            delta_backward.backward(grad, last, q, k, v, *steps, state, error, 16, learns)
        return seen.sizes
    from attend_kernels.ops.linear_attention import backward as linear_attention_backward
    from attend_kernels.ops.linear_attention import forward as linear_attention_forward
    from attend_kernels.ops.linear_attention import (
        gated_backward as linear_attention_gated_backward,
    )
    from attend_kernels.ops.linear_attention import gated_forward as linear_attention_gated_forward

    gate = inputs["decay"][None, :, None].expand(1, 1, length) if kind == "decay" else None
    gate = inputs.get("gate", gate)
    forward, backward = linear_attention_forward, linear_attention_backward
    if kind == "gates":
        forward, backward = linear_attention_gated_forward, linear_attention_gated_backward
    learns = gate is not None
    launch: Any = forward.forward  # Any, for a module's type hides which one it is
    launch_back: Any = backward.backward
    with Allocations() as seen:
        launch(q, k, v, gate, state, 16)
        launch_back(grad, last, q, k, v, gate, state, 16, learns)
    return seen.sizes


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("kind", KINDS)
def test_no_state_of_every_step_is_ever_in_memory(kind: str, device: str):
    """The largest tensor is far below (B, H, T, D, D_v), and what T adds is linear in it."""
    short, middle, long = (allocated(kind, length, device) for length in (16, 32, 48))
    every_state = 48 * 32 * 32 * torch.float32.itemsize
    assert max(long) <= every_state / 16  # one state a chunk, where gates want a gradient
    assert sum(long) - sum(middle) == sum(middle) - sum(short)


@needs_triton
@pytest.mark.parametrize("kind", KINDS)
def test_autograd_keeps_the_arguments_alone(kind: str, device: str):
    """And for the delta rule what the state gets wrong at each step, as large as v."""
    inputs = Case(20, kind=kind).inputs(device)
    saved: dict[int, int] = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: saved.update({x.data_ptr(): x.untyped_storage().nbytes()}) or x, lambda x: x
    ):
        fast(**inputs)
    expected = sum(x.nbytes for x in inputs.values())
    assert sum(saved.values()) == expected + (inputs["v"].nbytes if kind.endswith("delta") else 0)


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("kind", KINDS)
def test_stays_whole_under_torch_compile(kind: str, device: str):
    """One graph (``fullgraph`` raises at a break), and the same bits as without."""
    inputs = Case(20, kind=kind).inputs(device)
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    got, want = run(compiled, inputs), run(fast, inputs)
    for name, value in got.items():
        assert torch.equal(value, want[name]), name


@needs_triton
def test_one_compilation_serves_other_lengths(device: str):
    compiled: Any = torch.compile(
        linear_attention, backend="aot_eager", fullgraph=True, dynamic=True
    )
    for length in (3, 20, 40):
        inputs: Any = {k: x.detach() for k, x in Case(length, kind="gate").inputs(device).items()}
        assert torch.equal(compiled(**inputs), linear_attention(**inputs))


def step_arguments(kind: str, device: str) -> dict[str, Any]:
    """The first step of a case, as ``linear_attention_step`` takes it."""
    inputs = {k: x.detach() for k, x in Case(1, B=2, H=3, E=24, kind=kind).inputs(device).items()}
    state = inputs.pop("initial_state")
    return {k: x if k == "decay" else x[:, :, 0] for k, x in inputs.items()} | {"state": state}


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_compiles_and_has_the_chunked_gradient(kind: str, device: str):
    now = step_arguments(kind, device)
    compiled: Any = torch.compile(linear_attention_step, backend="aot_eager", fullgraph=True)
    got, want = compiled(**now), linear_attention_step(**now)
    assert all(torch.equal(g, w) for g, w in zip(got, want, strict=True))
    leaves = {k: x.clone().requires_grad_() for k, x in now.items()}
    output, state = linear_attention_step(**leaves)
    torch.testing.assert_close(output, want[0])
    torch.testing.assert_close(state, want[1])
    found = torch.autograd.grad(output.sum() + state.square().sum(), list(leaves.values()))
    twin = {k: x.double().requires_grad_() for k, x in now.items()}
    timed = {k: x if k in ("decay", "state") else x[:, :, None] for k, x in twin.items()}
    timed["initial_state"] = timed.pop("state")
    output, state = naive_linear_attention(**timed)
    wanted = torch.autograd.grad(output.sum() + state.square().sum(), list(twin.values()))
    for name, g, w in zip(leaves, found, wanted, strict=True):
        torch.testing.assert_close(g.double(), w, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize("kind", ["plain", "gate", "gates"])
def test_operators_keep_pytorchs_contract(kind: str, device: str):
    """Schema, fake kernels (shapes, dtypes, strides) and gradient, by PyTorch's own checker."""
    inputs = Case(5, kind=kind, state=kind != "plain").inputs(device)
    leaves = [inputs.get(name) for name in ("q", "k", "v", "gate", "initial_state")]
    torch.library.opcheck(linear_attention_operators.forward, (*leaves, 16))
    plain = [None if x is None else x.detach() for x in leaves]
    output, last = linear_attention_operators.forward(*plain, 16)  # pyright: ignore[reportArgumentType]
    arguments = (torch.ones_like(output), torch.ones_like(last), *plain, 16, kind != "plain")
    torch.library.opcheck(linear_attention_operators.backward, arguments)


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize(
    "case", [Case(5, kind="delta", state=False), Case(5, kind="gated delta")], ids=str
)
def test_the_delta_rules_operators_keep_it_too(case: Case, device: str):
    inputs = case.inputs(device)
    leaves: Any = [inputs.get(name) for name in ("q", "k", "v", "beta", "gate", "initial_state")]
    torch.library.opcheck(linear_attention_delta_operators.forward, (*leaves, 16))
    plain: Any = [None if x is None else x.detach() for x in leaves]
    output, last, error = linear_attention_delta_operators.forward(*plain, 16)
    grads = torch.ones_like(output), torch.ones_like(last)
    arguments = (*grads, *plain, error, 16, "gate" in inputs)
    torch.library.opcheck(linear_attention_delta_operators.backward, arguments)


@needs_triton
@pytest.mark.parametrize("kind", ["plain", "gates", "gated delta"])
def test_the_steps_operator_keeps_it_too(kind: str, device: str):
    now = step_arguments(kind, device)
    names = ("state", "q", "k", "v", "gate", "beta")
    torch.library.opcheck(linear_attention_operators.step, tuple(now.get(name) for name in names))


@pytest.mark.thin(keep=3)
@needs_triton
@pytest.mark.parametrize("kind", KINDS)
def test_autocast_computes_in_its_dtype(kind: str, device: str):
    """q, k and v in bf16; gates, beta and states stay fp32, and so do the gradients' leaves."""
    inputs = Case(20, kind=kind).inputs(device)
    with torch.autocast(device, torch.bfloat16):
        output, state = fast(**inputs)
    narrow = inputs | {k: inputs[k].bfloat16() for k in "qkv"}
    assert output.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    want, last = fast(**narrow)
    assert torch.equal(output, want)
    assert torch.equal(state, last)
    output.sum().backward()
    for name, x in inputs.items():
        assert x.grad is not None, name
        assert x.grad.dtype == torch.float32, name
    with torch.autocast(device, torch.bfloat16):
        output, _ = linear_attention_step(**step_arguments(kind, device))
    assert output.dtype == torch.bfloat16


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_gradients_that_are_used(kind: str, device: str):
    """Through the output alone, through the last state alone; for the keys alone."""
    inputs = Case(20, kind=kind).inputs(device)
    for pick in (0, 1):
        result = fast(**inputs)[pick]
        grad = torch.randn_like(result)
        found = torch.autograd.grad(result, list(inputs.values()), grad)
        twin = {k: x.requires_grad_() for k, x in widened(inputs).items()}
        want = torch.autograd.grad(
            naive_linear_attention(**twin)[pick], list(twin.values()), grad.double(),
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        for name, g, w in zip(inputs, found, want, strict=True):
            torch.testing.assert_close(g.double(), w, rtol=1e-4, atol=1e-4, msg=name)
    lone = {k: x.detach() for k, x in inputs.items()} | {"k": inputs["k"]}
    result = fast(**lone)[0]
    (got,) = torch.autograd.grad(result, inputs["k"], torch.ones_like(result))
    result = fast(**inputs)[0]
    (want,) = torch.autograd.grad(result, inputs["k"], torch.ones_like(result))
    assert torch.equal(got, want)


@needs_triton
def test_no_gradient_is_computed_where_none_is_wanted(device: str):
    inputs: Any = Case(17).inputs(device)
    with torch.no_grad():
        assert not linear_attention(**inputs).requires_grad
    inputs = {k: x.detach() for k, x in inputs.items()}
    assert not linear_attention(**inputs).requires_grad


@needs_triton
def test_the_gradient_has_no_gradient_and_says_so(device: str):
    inputs: Any = Case(3).inputs(device)
    (first,) = torch.autograd.grad(
        linear_attention(**inputs).square().sum(), inputs["q"], create_graph=True
    )
    with pytest.raises(RuntimeError, match="no autograd formula"):
        first.sum().backward()


@pytest.mark.parametrize("architecture", [80, 90], ids=lambda a: f"sm_{a}")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_every_lookup_finds_a_tile(dtype: torch.dtype, architecture: int, monkeypatch: Any):
    """For all widths from 1 to 256 and each kernel; chunks keep to what the registers hold."""
    monkeypatch.setattr(fallback, "interpreted", lambda: False)
    monkeypatch.setattr(linear_attention_tiles, "_where", lambda _: (architecture, 132))
    for width in (*range(1, 257, 5), 32, 64, 128):
        k, v = torch.empty(1, 2, 700, width, dtype=dtype), torch.empty(1, 2, 700, 24, dtype=dtype)
        for kernel in linear_attention_tiles.KERNELS:
            for write, value in ((k, v), (v, k)):
                tile = linear_attention_tiles.choose(kernel, write, value)
                assert tile.columns <= max(16, 2 * value.shape[-1])
        for chunk in linear_attention_tiles.CHUNKS:
            steps = linear_attention_tiles.steps(k, v, chunk)
            assert steps in linear_attention_tiles.CHUNKS
            assert steps <= chunk
            assert steps == linear_attention_tiles.steps(v, k, chunk)
            assert linear_attention_tiles.span("plain", k, v) % steps == 0
