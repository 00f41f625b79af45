"""The selective scan against its twins and itself: outputs, last states and every gradient."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import (
    naive_parallel_selective_scan,
    naive_selective_scan,
    selective_scan,
    selective_scan_step,
)
from attend_kernels.common import fallback
from attend_kernels.ops.selective_scan import tiles as selective_scan_tiles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .numerics import DTYPES, relative_error
from .recurrences import Tensors, run, wide
from .scan_cases import OPTIONAL, Case, check, fast

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
BY_LENGTH = [1, 2, 4, 7, 8, 9, 17]  # a chunk is 8 here, a group of steps 4 when interpreted


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks without a long sequence, and one program for all of it."""
    monkeypatch.setattr(selective_scan_tiles, "CHUNK", 8)
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 0)


@pytest.mark.parametrize("T", [1, 2, 17], ids=lambda n: f"T{n}")
@pytest.mark.parametrize("options", [(), OPTIONAL], ids=["bare", "all"])
def test_recurrent_and_parallel_twins_are_one_function(T: int, options: tuple[str, ...]):
    inputs = Case(T, B=2, dtype=torch.float64, options=options).inputs()
    recurrent = run(naive_selective_scan, inputs)
    parallel = run(naive_parallel_selective_scan, inputs)
    for name, want in recurrent.items():
        assert relative_error(parallel[name], want, floor=1e-3) < 1e-12, name


@pytest.mark.parametrize("T", [17, 113], ids=lambda n: f"T{n}")
@pytest.mark.parametrize("rate", [0.0, 1e-4, 30.0, 1e4], ids=["none", "slow", "fast", "at-once"])
def test_twins_agree_however_strong_the_decay(rate: float, T: int):
    """exp(A (τ_t - τ_s)) above the diagonal would overflow, and 0 × inf is NaN."""
    inputs = Case(T, C=2, dtype=torch.float64, rate=rate).inputs()
    recurrent = run(naive_selective_scan, inputs)
    parallel = run(naive_parallel_selective_scan, inputs)
    for name, want in recurrent.items():
        assert relative_error(parallel[name], want, floor=1e-3) < 1e-11, name


@needs_triton
@pytest.mark.parametrize("T", BY_LENGTH, ids=lambda n: f"T{n}")
def test_kernel_is_its_twin(T: int, device: str):
    check(Case(T), device)


@needs_triton
@pytest.mark.parametrize("name", [*DTYPES, "fp64"])
def test_every_dtype(name: str, device: str):
    check(Case(11, C=8, N=4, dtype=DTYPES.get(name, torch.float64)), device)


@pytest.mark.thin(keep=4)
@needs_triton
@pytest.mark.parametrize("N", [1, 16, 32, 59, 64, 128, 256], ids=lambda n: f"N{n}")
def test_every_number_of_states(N: int, device: str):
    check(Case(6, N=N, rate=0.3), device)


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("C", [1, 16, 17, 40], ids=lambda n: f"C{n}")
def test_channels_that_fill_no_block(C: int, device: str):
    check(Case(5, C=C), device)


@pytest.mark.thin(keep=5)
@needs_triton
@pytest.mark.parametrize("name", [None, *OPTIONAL])
@pytest.mark.parametrize("softplus", [True, False], ids=["softplus", "plain"])
def test_each_option_alone(name: str | None, softplus: bool, device: str):
    check(Case(6, options=(name,) if name else (), softplus=softplus), device)


@needs_triton
@pytest.mark.parametrize("rate", [0.0, 1e-4, 30.0, 1e4], ids=["none", "slow", "fast", "at-once"])
def test_strong_decay_and_none(rate: float, device: str):
    check(Case(11, rate=rate), device)


@needs_triton
@pytest.mark.parametrize("shift", [-12.0, 30.0], ids=["tiny", "linear"])
def test_step_sizes_at_both_ends_of_softplus(shift: float, device: str):
    """log(1 + e) computed as such would lose four digits at -12, and overflow at 100."""
    inputs = Case(6, options=("delta_bias",), rate=1e-2).inputs(device)
    inputs["delta_bias"] += shift
    got, want = run(fast, inputs), run(naive_selective_scan, wide(inputs))
    for name, value in got.items():
        assert relative_error(value, want[name]) < 1e-5, name


@needs_triton
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    T=st.integers(1, 10),
    C=st.integers(1, 17),
    N=st.integers(1, 9),
    options=st.sets(st.sampled_from(OPTIONAL)),
    seed=st.integers(0, 99),
)
def test_any_shape(T: int, C: int, N: int, options: set[str], seed: int):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    check(Case(T, 1, C, N, torch.float64, tuple(sorted(options))), device, seed)


def halves(inputs: Tensors, at: int) -> list[Tensors]:
    """The arguments of the two parts of a sequence."""
    timed = ("u", "delta", "B", "C", "z")
    first = {k: x[:, :at] if k in timed else x for k, x in inputs.items()}
    return [first, {k: x[:, at:] if k in timed else x for k, x in inputs.items()}]


@pytest.mark.thin(keep=2)
@pytest.mark.parametrize("at", [1, 3, 8, 12])
@pytest.mark.parametrize("name", ["twin", "parallel", pytest.param("kernel", marks=needs_triton)])
def test_a_sequence_split_anywhere_is_the_whole(name: str, at: int, device: str):
    function = {"twin": naive_selective_scan, "parallel": naive_parallel_selective_scan}
    scan: Any = function.get(name, fast)

    def split(**arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = halves(arguments, at)
        y1, state = scan(**first)
        y2, state = scan(**second | {"initial_state": state})
        return torch.cat([y1, y2], dim=1), state

    inputs = Case(13, dtype=torch.float64).inputs(device)
    parts = run(split, inputs)
    for part, want in run(naive_selective_scan, inputs).items():
        assert relative_error(parts[part], want) < 1e-12, part


@needs_triton
def test_steps_one_at_a_time_are_the_scan(device: str):
    inputs = Case(5, B=2).inputs(device)
    want, last = fast(**inputs)
    state = inputs.pop("initial_state")
    before = state.clone()
    timed = ("u", "delta", "B", "C", "z")
    for t in range(5):
        at_t = {k: x[:, t] if k in timed else x for k, x in inputs.items()}
        y, new = selective_scan_step(state, **at_t)
        torch.testing.assert_close(y, want[:, t])
        if t == 0:
            assert torch.equal(state, before)
        state = new
    torch.testing.assert_close(state, last)


@needs_triton
def test_a_step_of_size_zero_changes_nothing(device: str):
    inputs = Case(6, softplus=False, options=("initial_state",)).inputs(device)
    inputs["delta"] = torch.zeros_like(inputs["delta"])
    _, state = fast(**inputs, softplus=False)
    assert torch.equal(state, inputs["initial_state"])


@needs_triton
def test_the_future_does_not_reach_back(device: str):
    inputs = Case(9).inputs(device)
    before = selective_scan(**inputs)
    for name in ("u", "delta", "B", "C", "z"):
        inputs[name][:, 5:] = 7.0
    assert torch.equal(selective_scan(**inputs)[:, :5], before[:, :5])


@needs_triton
def test_sequences_and_channels_keep_to_themselves(device: str):
    inputs = Case(6, B=2, C=20).inputs(device)
    together = selective_scan(**inputs)
    one = {k: x[1:] if k in ("u", "delta", "B", "C", "z", "initial_state") else x
           for k, x in inputs.items()}  # fmt: skip
    assert torch.equal(selective_scan(**one), together[1:])
    for name in ("u", "delta", "z"):
        one[name] = one[name][..., 18:]
    one |= {k: one[k][18:] for k in ("A", "D", "delta_bias")}
    one["initial_state"] = one["initial_state"][:, 18:]
    torch.testing.assert_close(selective_scan(**one), together[1:, :, 18:])


@needs_triton
def test_the_same_inputs_give_the_same_bits(device: str):
    inputs = Case(5, C=40).inputs(device)
    first, second = (run(fast, inputs) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@needs_triton
def test_any_strides_are_read_and_inputs_left_alone(device: str):
    """As a model has them: slices of projections, A transposed, a state with N before C."""
    base = Case(7, B=2, C=6, N=4).inputs(device)
    both = torch.cat([base["B"], base["C"]], dim=-1)
    views = base | {
        "u": base["u"].transpose(1, 2).contiguous().transpose(1, 2),
        "z": torch.cat([base["z"], base["u"]], dim=-1)[..., :6],
        "delta": base["delta"].repeat_interleave(2, dim=-1)[..., ::2],
        "B": both[..., :4],
        "C": both[..., 4:],
        "A": base["A"].T.contiguous().T,
        "initial_state": base["initial_state"].transpose(1, 2).contiguous().transpose(1, 2),
    }
    copies = {name: x.clone() for name, x in views.items()}
    leaves = {name: x.requires_grad_() for name, x in views.items()}
    y, state = fast(**leaves)
    loss = y.sum() + state.sum()  # gradients that are one number, expanded
    found = torch.autograd.grad(loss, list(leaves.values()))
    want: Tensors = {name: x.double().requires_grad_() for name, x in copies.items()}
    twin_y, twin_state = naive_selective_scan(**want)
    wanted = torch.autograd.grad(twin_y.sum() + twin_state.sum(), list(want.values()))
    for name, got, right in zip(leaves, found, wanted, strict=True):
        assert relative_error(got, right) < 1e-5, name
        assert torch.equal(views[name], copies[name]), name


@needs_triton
@pytest.mark.parametrize("used", ["y", "state"])
def test_one_output_unused(used: str, device: str):
    inputs = Case(5).inputs(device)
    names = [n for n in inputs if used == "y" or n not in ("C", "D", "z")]

    def gradients(function, values):
        leaves = {k: x.clone().requires_grad_() for k, x in values.items()}
        output = function(**leaves)[0 if used == "y" else 1]
        return torch.autograd.grad(output.square().sum(), [leaves[n] for n in names])

    want = gradients(naive_selective_scan, wide(inputs))
    for name, got, right in zip(names, gradients(fast, inputs), want, strict=True):
        assert relative_error(got, right) < 1e-5, name


def test_no_steps_hand_the_state_on(device: str):
    inputs = Case(1, options=("initial_state",)).inputs(device)
    first, _ = halves(inputs, 0)
    y, state = selective_scan(**first, output_state=True)
    assert y.shape == (1, 0, 5)
    assert torch.equal(state, inputs["initial_state"])
