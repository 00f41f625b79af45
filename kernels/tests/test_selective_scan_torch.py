"""The selective scan inside PyTorch: memory, torch.compile, autocast, operators, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, naive_selective_scan, selective_scan, selective_scan_step
from attend_kernels.common import fallback
from attend_kernels.ops.selective_scan import operators as selective_scan_operators
from attend_kernels.ops.selective_scan import tiles as selective_scan_tiles

from .allocations import Allocations, assert_linear
from .numerics import TOLERANCE, relative_error
from .recurrences import Tensors, run, wide
from .scan_cases import Case, fast

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks without a long sequence, and one program for all of it."""
    monkeypatch.setattr(selective_scan_tiles, "CHUNK", 8)
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 0)


def allocated(length: int, device: str) -> list[int]:
    """Bytes of all that the launchers of both directions allocate, at B 1, C 16, N 64."""
    from attend_kernels.ops.selective_scan import backward, forward

    inputs = Case(length, C=16, N=64).inputs(device)
    tensors = [inputs[k] for k in ("u", "delta", "A", "B", "C", "D", "z", "delta_bias")]
    scan: Any = forward.forward  # Any, for the arguments are splatted
    gradient: Any = backward.backward
    with Allocations() as seen:
        y, _, kept = scan(*tensors, inputs["initial_state"], True, True)
        gradient(torch.ones_like(y), None, *tensors, True, kept, True)
    return seen.sizes


EVERY_STATE = 16 * 64 * torch.float32.itemsize  # bytes a step


@pytest.mark.deep
@needs_triton
def test_no_state_of_every_step_is_ever_in_memory(device: str):
    """The largest tensor is far below (B, T, C, N), and what T adds is linear in it."""
    sizes = assert_linear(lambda length: allocated(length, device), 8)
    assert max(sizes) <= 32 * EVERY_STATE / 8


@needs_triton
def test_a_state_handed_on_is_not_copied(device: str):
    from attend_kernels.ops.selective_scan import forward as selective_scan_forward

    inputs = Case(3, B=2, C=16, N=8, options=()).inputs(device)
    tensors = [inputs[k] for k in ("u", "delta", "A", "B", "C")]
    scan: Any = selective_scan_forward.forward  # Any, for the arguments are splatted
    sizes: list[int] = []
    _, state, _ = scan(*tensors, None, None, None, None, True, False)
    for given in (state, state.contiguous()):
        with Allocations() as seen:
            scan(*tensors, None, None, None, given, True, False)
        sizes.append(sum(seen.sizes))
    assert sizes[1] - sizes[0] == state.numel() * torch.float32.itemsize


@pytest.mark.deep
@needs_triton
def test_segments_cost_a_state_each(monkeypatch: pytest.MonkeyPatch, device: str):
    """Starts forward and backward; and of each segment its scratch, and its share of dA, D, bias.

    None of it grows with T: the rule caps the segments.
    """
    monkeypatch.setattr(selective_scan_tiles, "CHUNK", 4)
    whole = [sum(allocated(length, device)) for length in (12, 20)]
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 1)
    monkeypatch.setattr(selective_scan_tiles, "WARPS", 3 * warps(device))
    cut = [allocated(length, device) for length in (12, 20)]
    extra = [sum(c) - w for c, w in zip(cut, whole, strict=True)]
    state, row = EVERY_STATE, 16 * torch.float32.itemsize
    scratch = 4 // selective_scan_tiles.choose("backward", torch.device(device), 64).steps
    starts = 2 * 3 * (state + row)
    shares = 2 * (scratch * state + state + 2 * row)  # of two segments more than one
    assert extra == [starts + shares] * 2


def warps(device: str) -> int:
    """How many scan the 16 channels of ``allocated``."""
    config = selective_scan_tiles.choose("forward", torch.device(device), 64)
    return -(-16 // config.block_c) * config.warps


@needs_triton
def test_what_autograd_keeps(device: str):
    """The inputs, and one state a chunk; without a gradient, no state at all."""
    inputs = {k: x.requires_grad_() for k, x in Case(20, C=16, N=32).inputs(device).items()}
    saved: list[torch.Size] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: saved.append(x.shape) or x, lambda x: x
    ):
        fast(**inputs)
    given = sorted(tuple(x.shape) for k, x in inputs.items() if k != "initial_state")
    assert sorted(map(tuple, saved)) == sorted([*given, (1, 3, 32, 16)])
    arguments = [inputs[k].detach() for k in ("u", "delta", "A", "B", "C")]
    _, _, kept = selective_scan_operators.scan_forward(*arguments, *[None] * 4, True, False)
    assert kept.numel() == 0


@needs_triton
def test_stays_whole_under_torch_compile(device: str):
    """One graph (``fullgraph`` raises at a break), and the same bits as without."""
    inputs = Case(9).inputs(device)
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    got, want = run(compiled, inputs), run(fast, inputs)
    for name, value in got.items():
        assert torch.equal(value, want[name]), name


@needs_triton
def test_a_step_compiles_too(device: str):
    inputs = Case(1, options=("D", "z")).inputs(device)
    now = {k: x[:, 0] if x.dim() == 3 else x for k, x in inputs.items()}
    state = torch.ones(1, 5, 3, device=device)
    compiled: Any = torch.compile(selective_scan_step, backend="aot_eager", fullgraph=True)
    for got, want in zip(compiled(state, **now), selective_scan_step(state, **now), strict=True):
        assert torch.equal(got, want)


@pytest.mark.deep
@needs_triton
def test_one_compilation_serves_other_lengths(device: str):
    compiled = torch.compile(selective_scan, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (3, 9, 12):
        inputs = Case(length).inputs(device)
        assert torch.equal(compiled(**inputs), selective_scan(**inputs))


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize(
    "options", [(), ("D", "z", "delta_bias", "initial_state")], ids=["bare", "all"]
)
def test_operators_keep_pytorchs_contract(options: tuple[str, ...], device: str):
    """Schema, fake kernels (shapes, dtypes, strides) and gradient, by PyTorch's own checker."""
    inputs = Case(2, B=2, options=options).inputs(device)
    names = ("u", "delta", "A", "B", "C", "D", "z", "delta_bias", "initial_state")
    leaves = [inputs[n].requires_grad_() if n in inputs else None for n in names]
    torch.library.opcheck(selective_scan_operators.scan_forward, (*leaves, True, True))
    plain = [None if x is None else x.detach() for x in leaves]
    y, last, kept = selective_scan_operators.scan_forward(*plain, True, True)
    torch.library.opcheck(
        selective_scan_operators.scan_backward,
        (torch.ones_like(y), torch.ones_like(last), *plain[:-1], bool(options), kept, True),
    )


@needs_triton
def test_mixed_dtypes_as_autocast_leaves_them(device: str):
    """bf16 activations; fp32 A, D, bias and step sizes; an fp32 state."""
    inputs = Case(7, dtype=torch.bfloat16).inputs(device)
    inputs["delta"] = inputs["delta"].float()
    with torch.autocast(device, torch.bfloat16):
        got = run(fast, inputs)
    want = run(naive_selective_scan, wide(inputs))
    assert (got["y"].dtype, got["state"].dtype) == (torch.bfloat16, torch.float32)
    for name, value in got.items():
        if name not in ("y", "state"):
            assert value.dtype == inputs[name[1:]].dtype, name
        assert relative_error(value, want[name]) < TOLERANCE[torch.bfloat16], name


@needs_triton
def test_the_gradient_has_no_gradient_and_says_so(device: str):
    inputs = Case(3, options=()).inputs(device)
    inputs["u"].requires_grad_()
    (first,) = torch.autograd.grad(
        selective_scan(**inputs).square().sum(), inputs["u"], create_graph=True
    )
    with pytest.raises(RuntimeError, match="no autograd formula"):
        first.sum().backward()


U, A, BC, STATE = (torch.zeros(*s) for s in ((2, 7, 6), (6, 4), (2, 7, 4), (2, 6, 4)))
WRONG: dict[str, tuple[type[Exception], str, Tensors]] = {
    "two-axes": (ShapeError, r"u has 2 axes; expected 3 \(B T C\)", {"u": U[0]}),
    "delta-channels-first": (ShapeError, "delta has the wrong.*axes 1 and 2 are swapped",
                             {"delta": U.transpose(1, 2)}),
    "channels-first": (ShapeError, r"u must be \(B, T, C\) with C=6.*Next: u.transpose\(1, 2\)",
                       {"u": U.mT, "delta": U.mT, "B": BC.mT, "C": BC.mT}),
    "A-transposed": (ShapeError, "A has the wrong shape.*axes 0 and 1 are swapped", {"A": A.T}),
    "B-states-first": (ShapeError, "B has the wrong shape.*swapped", {"B": BC.transpose(1, 2)}),
    "C-length": (ShapeError, "C has the wrong shape.*T=7", {"C": BC[:, :3]}),
    "D": (ShapeError, "D has the wrong shape.*C=6", {"D": torch.zeros(4)}),
    "z": (ShapeError, "z has the wrong shape", {"z": U[:, :3]}),
    "bias": (ShapeError, "delta_bias has the wrong shape", {"delta_bias": torch.zeros(1)}),
    "state": (ShapeError, "initial_state has the wrong.*swapped",
              {"initial_state": STATE.transpose(1, 2)}),
    "complex": (TypeError, r"got A of torch.complex64. Mamba's A is real. Next: A\.real",
                {"A": A.to(torch.complex64)}),
    "integers": (TypeError, r"got u of torch.int64.*u\.float\(\)", {"u": U.long()}),
    "states": (ValueError, "N=300 states a channel; expected 1 to 256.*takes any N",
               {"A": torch.zeros(6, 300), "B": torch.zeros(2, 7, 300),
                "C": torch.zeros(2, 7, 300)}),
    "devices": (ValueError, r"got u on cpu and A on meta.*A\.to\(u\.device\)",
                {"A": A.to("meta")}),
    "list": (TypeError, r"D must be a tensor, got list. Next: torch\.as_tensor\(D\)",
             {"D": [1.0] * 6}),
    "A-log": (ValueError, r"A must be 0 or less.*A_log passed.*-torch\.exp", {"A": A + 1}),
    "negative-step": (ValueError, "step sizes must be 0 or more, got -1.*softplus=True",
                      {"delta": U - 1, "softplus": False}),
}  # fmt: skip


@pytest.mark.parametrize(("error", "message", "changes"), WRONG.values(), ids=WRONG)
def test_errors_say_what_was_expected_and_what_to_do(
    error: type[Exception], message: str, changes: Tensors
):
    arguments: Tensors = {"u": U, "delta": U, "A": A, "B": BC, "C": BC} | changes
    with pytest.raises(error, match=message):
        selective_scan(**arguments)


def test_a_steps_errors_are_its_own():
    with pytest.raises(ShapeError, match=r"u has 3 axes; expected 2 \(B C\)"):
        selective_scan_step(STATE, U, U, A, BC, BC)
    with pytest.raises(ShapeError, match=r"^state has the wrong shape.*swapped"):
        selective_scan_step(STATE.mT, U[:, 0], U[:, 0], A, BC[:, 0], BC[:, 0])
    nothing: Any = None
    with pytest.raises(TypeError, match="selective_scan_step: state must be a tensor, got None"):
        selective_scan_step(nothing, U[:, 0], U[:, 0], A, BC[:, 0], BC[:, 0])
