"""Linear attention: the chunked kernels, the recurrence and the masked matrix give one answer."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import (
    linear_attention,
    linear_attention_step,
    naive_linear_attention,
    naive_linear_attention_parallel,
)
from attend_kernels.common import fallback
from attend_kernels.ops.linear_attention import tiles as linear_attention_tiles

from .linear_attention_cases import KINDS, Case, check, run, widened
from .numerics import DTYPES, relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
pytestmark = needs_triton
ALL = [*KINDS, "decay delta"]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("T", [0, 1, 2, 23], ids=lambda n: f"T{n}")
def test_the_twins_agree_in_float64(T: int, kind: str):
    inputs = widened(Case(T, B=2, D=5, E=7, kind=kind).inputs())
    one = run(naive_linear_attention, inputs, backward=T > 0)
    other = run(naive_linear_attention_parallel, inputs, backward=T > 0)
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=1e-11, atol=1e-12, msg=name)


@pytest.mark.thin
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", [1, 2, 17, 64, 97, 128, 256], ids=lambda n: f"T{n}")
def test_lengths(T: int, kind: str, device: str):
    check(Case(T, kind=kind, chunk=64 if T > 100 else 32), device)


@pytest.mark.thin(keep=3)
@pytest.mark.parametrize("kind", ALL)
def test_heads_and_batch_rows_do_not_mix(kind: str, device: str):
    check(Case(20, B=2, H=2, kind=kind), device)


@pytest.mark.thin
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_dtypes(kind: str, name: str, device: str):
    check(Case(50, D=32, dtype=DTYPES[name], kind=kind), device)


@pytest.mark.thin(keep=4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("widths", [(1, 16), (40, 59), (64, 17), (128, 33), (256, 1)], ids=str)
def test_widths(widths: tuple[int, int], kind: str, device: str):
    check(Case(20, D=widths[0], E=widths[1], kind=kind), device)


class Compiled:
    """What ``fallback`` says where kernels are compiled."""

    @staticmethod
    def interpreted() -> bool:
        return False


@pytest.mark.thin(keep=3)
@pytest.mark.parametrize(
    ("architecture", "name"), [(80, "fp16"), (90, "fp16"), (90, "fp32")], ids=str
)
@pytest.mark.parametrize("D", [64, 128], ids=lambda n: f"D{n}")
@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_tiles_and_chunks(
    kind: str, D: int, architecture: int, name: str, monkeypatch: Any, device: str
):
    """The launches a GPU would get, interpreted: its columns, its steps a chunk, its segments.

    Those of fp32 are the same on both, but for the gradient of gates at D = 64.
    """
    monkeypatch.setattr(linear_attention_tiles, "fallback", Compiled)
    monkeypatch.setattr(linear_attention_tiles, "_where", lambda _: (architecture, 132))
    check(Case(40 if D == 64 else 24, D=D, dtype=DTYPES[name], kind=kind, chunk=64), device)


@pytest.mark.thin(keep=3)
@pytest.mark.parametrize("chunk", linear_attention_tiles.CHUNKS, ids=lambda n: f"chunk{n}")
@pytest.mark.parametrize("kind", KINDS)
def test_the_chunk_does_not_change_the_answer(kind: str, chunk: int, device: str):
    check(Case(75, kind=kind, chunk=chunk), device)


@pytest.mark.thin
@pytest.mark.parametrize("strength", [0.0, 1e-3, 30.0, 300.0])
@pytest.mark.parametrize("kind", ["decay", "gate", "gates", "gated delta"])
def test_weak_and_strong_gates(kind: str, strength: float, device: str):
    """From no fading at all to gates of exp(-300): nothing overflows, nothing loses its digits."""
    got = check(Case(75, kind=kind, strength=strength, chunk=64), device)
    if strength == 0.0:
        fixed = Case(75, kind="delta" if kind == "gated delta" else "plain", chunk=64)
        plain = run(linear_attention, fixed.inputs(device), output_state=True)
        torch.testing.assert_close(got["output"], plain["output"])


@pytest.mark.parametrize("kind", ["gate", "gates", "gated delta"])
def test_gates_of_minus_infinity_forget_everything(kind: str, device: str):
    inputs = Case(40, kind=kind).inputs(device)
    inputs["gate"].data[:, :, 17] = -float("inf")
    got = run(linear_attention, inputs, output_state=True, chunk=16)
    assert all(bool(x.isfinite().all()) for x in got.values())
    rest = {
        name: x[:, :, 17:] if name != "initial_state" else torch.zeros_like(x)
        for name, x in inputs.items()
    }
    alone = run(linear_attention, rest, output_state=True, chunk=16)
    torch.testing.assert_close(got["output"][:, :, 17:], alone["output"])
    torch.testing.assert_close(got["state"], alone["state"])


@pytest.mark.thin(keep=3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [1, 16, 37])
def test_a_sequence_may_be_cut_anywhere(at: int, kind: str, device: str):
    """Two calls that pass the state give what one gives: outputs, state and all gradients."""

    def in_two(initial_state: Any = None, decay: Any = None, **steps: Any):
        options = {"decay": decay, "output_state": True, "chunk": 16}
        outputs, state = [], initial_state
        for part in (slice(0, at), slice(at, None)):
            tensors = {name: x[:, :, part] for name, x in steps.items()}
            output, state = linear_attention(**tensors, initial_state=state, **options)
            outputs.append(output)
        return torch.cat(outputs, dim=2), state

    inputs = Case(40, kind=kind).inputs(device)
    whole = run(linear_attention, inputs, output_state=True, chunk=16)
    for name, value in run(in_two, inputs).items():
        assert relative_error(value, whole[name].double()) < 2e-6, name


@pytest.mark.thin(keep=3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [Case(90, chunk=16), Case(70, D=20, E=40, state=False)], ids=str)
def test_segments_side_by_side_give_the_same(case: Case, kind: str, monkeypatch: Any, device: str):
    """What a GPU with too few heads does; elsewhere there is one segment."""
    monkeypatch.setattr(linear_attention_tiles, "INTERPRETED_SPAN", 64)
    check(case.but(kind=kind), device)


@pytest.mark.parametrize("kind", ALL)
def test_step_by_step_is_the_same_sequence(kind: str, device: str):
    inputs = Case(5, kind=kind).inputs(device)
    whole = run(linear_attention, inputs, False, output_state=True)
    state = inputs["initial_state"].detach()
    fixed = {"decay": inputs["decay"]} if kind.startswith("decay") else {}
    timed = {n: x for n, x in inputs.items() if n not in ("decay", "initial_state")}
    with torch.no_grad():
        for t in range(5):
            now: Any = {name: x[:, :, t] for name, x in timed.items()}
            output, state = linear_attention_step(state, **now, **fixed)
            torch.testing.assert_close(output, whole["output"][:, :, t])
    torch.testing.assert_close(state, whole["state"])


def test_a_step_without_gradient_corrects_beside_gates_a_key_dimension(device: str):
    """All a step's kernel can do; the chunks' cannot (``test_linear_attention_errors``)."""
    made = Case(1, B=2, H=3, E=24, kind="gates").inputs(device)
    made |= {"beta": Case(1, B=2, H=3, kind="delta").inputs(device)["beta"]}
    inputs = {name: x.detach() for name, x in made.items()}
    want, last = naive_linear_attention(**widened(inputs))
    state = inputs.pop("initial_state")
    output, state = linear_attention_step(state, **{n: x[:, :, 0] for n, x in inputs.items()})
    assert relative_error(output, want[:, :, 0]) < 1e-6
    assert relative_error(state, last) < 1e-6


def test_without_gates_it_is_a_running_sum(device: str):
    """With q all ones and k the first unit vector the output is the cumulative sum of v."""
    v = torch.randn(1, 2, 70, 16, device=device)
    k = torch.zeros(1, 2, 70, 16, device=device)
    k[..., 0] = 1.0
    output = linear_attention(torch.ones_like(k), k, v)
    torch.testing.assert_close(output, v.cumsum(dim=2))


def test_decay_is_a_geometric_sum(device: str):
    """Ones written and read with decay γ: 1 + γ + γ² + ... = (1 - γᵗ) / (1 - γ)."""
    ones = torch.ones(1, 2, 70, 1, device=device)
    gamma = torch.tensor([0.5, 0.99], device=device)
    output = linear_attention(ones, ones, ones, decay=gamma.log())
    t = torch.arange(1, 71, device=device)
    want = (1 - gamma[:, None] ** t) / (1 - gamma[:, None])
    torch.testing.assert_close(output[0, :, :, 0], want)


@pytest.mark.parametrize("kind", ["gate", "gated delta"])
def test_nothing_flows_back_from_the_future(kind: str, device: str):
    """Changing step 30 changes no output before it, to the bit."""
    inputs = Case(50, kind=kind).inputs(device)
    before = run(linear_attention, inputs, False, output_state=True)["output"]
    for name in inputs.keys() - {"initial_state"}:
        inputs[name].data[:, :, 30] -= 1.0
    after = run(linear_attention, inputs, False, output_state=True)["output"]
    assert torch.equal(before[:, :, :30], after[:, :, :30])
    assert not torch.equal(before[:, :, 30:], after[:, :, 30:])


@pytest.mark.thin(keep=1)
@pytest.mark.parametrize("kind", ["gate", "gated delta"])
def test_the_same_bits_each_time(kind: str, device: str):
    inputs = Case(40, kind=kind).inputs(device)
    first = run(linear_attention, inputs, output_state=True, chunk=16)
    again = run(linear_attention, inputs, output_state=True, chunk=16)
    for name, value in first.items():
        assert torch.equal(value, again[name]), name


def test_no_steps_leave_the_state_alone(device: str):
    inputs: dict[str, Any] = Case(0).inputs(device)
    output, state = linear_attention(**inputs, output_state=True)
    assert output.shape == (1, 1, 0, 16)
    torch.testing.assert_close(state, inputs["initial_state"])


@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        ("heads-inside", "gate"), ("every-second", "gate"), ("broadcast", "gate"),
        ("heads-inside", "gated delta"),
    ],
)  # fmt: skip
def test_any_strides(layout: str, kind: str, device: str):
    inputs = Case(40, kind=kind).inputs(device)
    want = run(linear_attention, inputs, output_state=True)

    def lay(**tensors: Any):
        for name in ("q", "k", "v"):
            x = tensors[name]
            if layout == "heads-inside":
                tensors[name] = x.transpose(1, 2).contiguous().transpose(1, 2)
            elif layout == "every-second":
                tensors[name] = x.repeat_interleave(2, dim=-1)[..., ::2]
        for name in tensors.keys() & {"gate", "beta"}:
            tensors[name] = torch.stack([tensors[name]] * 2, dim=-1)[..., 0]
        if layout == "broadcast":
            tensors["q"] = tensors["q"][:1].expand(1, -1, -1, -1)
        return linear_attention(**tensors, output_state=True)

    for name, value in run(lay, inputs).items():
        torch.testing.assert_close(value, want[name], msg=name)
