"""RG-LRU: against its twin in float64, Hugging Face's RecurrentGemma, and at its edges."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels import ShapeError, naive_rg_lru
from attend_kernels.common import fallback

from .modules_cases import choose, draw
from .numerics import assert_right, poisoned, relative_error, shaken
from .recurrences import run, wide

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
Tensors = dict[str, torch.Tensor]
rg_lru: Any = attend_kernels.rg_lru  # Any: arguments are splatted, results of two kinds
rg_lru_step: Any = attend_kernels.rg_lru_step


def inputs(T: int, C: int = 5, B: int = 2, dtype: torch.dtype = torch.float32) -> Tensors:
    rows = ("x", "input_gate", "recurrence_gate")
    made = {name: draw(B, T, C, seed=at) for at, name in enumerate(rows)}
    made["parameter"] = draw(C, seed=3) - 2.0
    made["initial_state"] = draw(B, C, seed=4)
    return {name: m.to(dtype) for name, m in made.items()}


def fast(**given: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return rg_lru(**given, output_state=True)


def check(given: Tensors, dtype: torch.dtype = torch.float32, **options: Any) -> Tensors:
    with poisoned():
        got = run(fast, given, **options)
    want, moved = run(naive_rg_lru, wide(given), **options), None
    if dtype == torch.float32:
        moved = run(naive_rg_lru, shaken(given), **options)
    for name, value in got.items():
        # In half precision the gradient reads h as y has it, rounded.
        near = None if moved is None else moved[name]
        kind = torch.float32 if name == "state" and dtype == torch.float32 else dtype
        floor = 1e-2 * float(want["dx"].norm()) if name.startswith("d") else 0.0
        assert_right(value, want[name], kind, near, floor, name)
    return got


@pytest.mark.thin(keep=3)
@needs_triton
@pytest.mark.parametrize("T", [1, 2, 17, 64, 70, 130])
@pytest.mark.parametrize("state", [False, True], ids=["fresh", "state"])
def test_outputs_and_gradients(T: int, state: bool, monkeypatch: pytest.MonkeyPatch):
    from attend_kernels.ops.rg_lru import kernels

    monkeypatch.setattr(kernels, "TIME", 32)
    monkeypatch.setattr(kernels, "BACK", 16)
    given = inputs(T, B=1)
    if not state:
        del given["initial_state"]
    check(given)


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("C", [1, 16, 40], ids=lambda n: f"C{n}")
def test_half_precision_and_widths(C: int, dtype: torch.dtype):
    check(inputs(18, C, dtype=dtype), dtype)


@needs_triton
@pytest.mark.parametrize("way", ["kernel", "twin"])
def test_sequences_start_where_told(way: str, monkeypatch: pytest.MonkeyPatch):
    choose(way, monkeypatch)
    given = inputs(20, 3)
    starts = torch.zeros(2, 20, dtype=torch.bool)
    starts[0, [0, 7]] = True
    starts[1, 16] = True
    whole = check(given, starts=starts)
    assert whole["dinitial_state"][0].eq(0).all()
    assert whole["dinitial_state"][1].ne(0).all()
    del given["initial_state"]
    part = {n: m if n == "parameter" else m[:1, 7:] for n, m in given.items()}
    y = rg_lru(**part)
    assert relative_error(y, whole["y"][:1, 7:].double()) < 1e-6


@needs_triton
def test_gates_at_their_ends():
    """Nearly no decay, where 1 - a² cancels, and nearly all of it."""
    given = inputs(9, 4, B=1)
    given["recurrence_gate"] = torch.tensor([-80.0, -12.0, 12.0, 80.0]).expand(1, 9, 4).contiguous()
    given["parameter"] = torch.tensor([-20.0, -8.0, 0.0, 30.0])
    got = check(given)
    assert all(m.isfinite().all() for m in got.values())


@needs_triton
def test_pieces_and_steps_are_the_whole():
    given = inputs(12, B=1)
    del given["initial_state"]
    want = rg_lru(**given)
    part = {n: m if n == "parameter" else m[:, :7] for n, m in given.items()}
    y, state = rg_lru(**part, output_state=True)
    ys = [y]
    for t in range(7, 12):
        y, state = rg_lru_step(
            state, *(m[:, t] for m in list(given.values())[:3]), given["parameter"]
        )
        ys.append(y[:, None])
    assert relative_error(torch.cat(ys, dim=1), want.double()) < 1e-6


@needs_triton
def test_any_strides():
    given = inputs(9, 4)
    want = rg_lru(**given)
    turned = {n: m.mT.contiguous().mT if m.dim() > 1 else m for n, m in given.items()}
    turned["parameter"] = torch.stack([given["parameter"]] * 2, dim=1)[:, 0]
    assert torch.equal(rg_lru(**turned), want)


@pytest.mark.deep
@needs_triton
def test_operator_keeps_pytorchs_contract():
    from attend_kernels.ops.rg_lru.operators import rg_lru_forward

    given = list(inputs(5, 3, B=1).values())
    leaves = [m.requires_grad_() for m in given]
    starts = torch.zeros(1, 5, dtype=torch.bool)
    torch.library.opcheck(rg_lru_forward, (*leaves[:4], starts, leaves[4]))


@pytest.mark.deep
@needs_triton
def test_stays_whole_under_torch_compile():
    given = inputs(9)
    compiled = torch.compile(rg_lru, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(**given), rg_lru(**given))


@pytest.mark.parametrize("way", ["twin", pytest.param("kernel", marks=needs_triton)])
def test_the_unit_of_recurrent_gemma(way: str, monkeypatch: pytest.MonkeyPatch):
    choose(way, monkeypatch)
    modeling = pytest.importorskip("transformers.models.recurrent_gemma.modeling_recurrent_gemma")
    from transformers import RecurrentGemmaConfig

    config = RecurrentGemmaConfig(num_attention_heads=2, lru_width=6, hidden_size=6)
    torch.manual_seed(0)
    unit = modeling.RecurrentGemmaRglru(config)
    for parameter in unit.parameters():
        torch.nn.init.normal_(parameter)
    x = draw(1, 9, 6).requires_grad_()
    want = unit(x, torch.arange(9)[None])
    heads = x.unflatten(-1, (2, 3))

    def logits(name: str) -> torch.Tensor:
        weight = getattr(unit, f"{name}_gate_weight")
        rows = torch.einsum("bthi,hij->bthj", heads, weight) + getattr(unit, f"{name}_gate_bias")
        return rows.flatten(-2)

    got = rg_lru(x, logits("input"), logits("recurrent"), unit.recurrent_param)
    assert relative_error(got, want.double()) < 1e-5
    leaves = [x, *unit.parameters()]
    wanted = torch.autograd.grad(want.square().sum(), leaves)
    found = torch.autograd.grad(got.square().sum(), leaves)
    for f, w in zip(found, wanted, strict=True):
        assert relative_error(f, w.double()) < 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_on_a_gpu(dtype: torch.dtype):
    """Several tiles of full size; the scan from the end, which only a GPU does in parts."""
    given = {n: m.cuda() for n, m in inputs(300, 200, 3, dtype).items()}
    starts = torch.zeros(3, 300, dtype=torch.bool, device="cuda")
    starts[1, 77] = True
    check(given, dtype, starts=starts)


GOOD = inputs(3)
ERRORS: dict[str, tuple[Tensors | dict[str, Any], type[Exception], str]] = {
    "gate": ({"input_gate": draw(2, 4, 5)}, ShapeError, "input_gate has the wrong shape"),
    "starts": ({"starts": torch.ones(2, 3)}, TypeError, "starts must be bool, got torch.float32"),
    "float64": ({"x": GOOD["x"].double()}, TypeError, "got x of torch.float64.*naive_rg_lru"),
    "integers": ({"parameter": torch.ones(5).long()}, TypeError, "got parameter of torch.int64"),
    "number": ({"parameter": 1.0}, TypeError, "parameter must be a tensor, got float"),
}


@pytest.mark.parametrize(("wrong", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_expected(wrong: dict[str, Any], error: type[Exception], said: str):
    given: dict[str, Any] = GOOD | wrong
    with pytest.raises(error, match=said):
        rg_lru(**given)


def test_no_steps_leave_the_state_alone():
    given = inputs(0)
    y, state = rg_lru(**given, output_state=True)
    assert y.shape == (2, 0, 5)
    assert torch.equal(state, given["initial_state"])
