"""SSD against its twins: three forms, one answer; outputs, last states and all gradients."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from attend_kernels import naive_ssd, naive_ssd_chunked, naive_ssd_quadratic, segsum, ssd, ssd_step
from attend_kernels.common import fallback

from .numerics import DTYPES, poisoned, relative_error
from .recurrences import Tensors, run, wide
from .ssd_cases import Case, check, fast, part

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)

FORMS: dict[str, Any] = {
    "quadratic": naive_ssd_quadratic,
    "chunks-of-1": partial(naive_ssd_chunked, chunk=1),
    "chunks-of-7": partial(naive_ssd_chunked, chunk=7),
    "chunks-of-64": naive_ssd_chunked,
}
RATES = {"no-decay": 0.0, "slow": 0.01, "usual": 1.0, "strong": 50.0}


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_twins_are_one_function(form: Any, rate: float):
    inputs = wide(Case(19, B=2, H=4, G=2, P=3, N=5, rate=rate).inputs())
    got, want = run(form, inputs), run(naive_ssd, inputs)
    for name, value in got.items():
        assert relative_error(value, want[name], floor=1e-3) < 1e-12, name


def test_segsum_keeps_the_digits_that_differences_of_running_sums_lose():
    log_decay = torch.tensor([-3e4, -1e-3, -1e-3])
    assert segsum(log_decay)[2, 0] == pytest.approx(-2e-3, rel=1e-6)
    since = log_decay.cumsum(0)
    assert since[2] - since[0] != pytest.approx(-2e-3, rel=1e-2)


@needs_triton
@pytest.mark.parametrize("T", [1, 2, 17, 64, 97], ids=lambda n: f"T{n}")
def test_lengths(T: int, device: str):
    check(Case(T), device)


@pytest.mark.thin(keep=3)
@needs_triton
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
def test_dtypes_and_decays(rate: float, name: str, device: str):
    check(Case(40, rate=rate, dtype=DTYPES[name]), device)


@pytest.mark.thin(keep=3)
@needs_triton
@pytest.mark.parametrize("N", [1, 16, 24, 64, 128, 256], ids=lambda n: f"N{n}")
def test_state_sizes(N: int, device: str):
    check(Case(35, H=1, N=N), device)


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("P", [1, 16, 40, 64, 128], ids=lambda n: f"P{n}")
def test_head_widths(P: int, device: str):
    """On a CPU a program owns at most 32 rows of the state: 64 and 128 are split."""
    check(Case(35, H=1, P=P), device)


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize("P", [24, 32, 37], ids=lambda n: f"P{n}")
def test_heads_wider_than_a_program_takes(P: int, monkeypatch: pytest.MonkeyPatch, device: str):
    """In pieces of 16, for speed, as on a GPU in pieces of 128: no row knows of another."""
    from attend_kernels.ops.ssd import pieces

    monkeypatch.setattr(pieces, "WIDEST", 16)
    assert pieces.Pieces(P).count > 1
    check(Case(18, H=4, G=2, P=P), device)


@needs_triton
def test_a_head_twice_as_wide_as_a_program_takes(device: str):
    check(Case(6, H=1, P=160, N=16), device)


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize(("H", "G"), [(4, 1), (4, 2), (3, 3), (9, 1)], ids=lambda n: f"{n}")
def test_groups(H: int, G: int, device: str):
    """Nine heads are more than one program adds up for dB and dC: two shares."""
    check(Case(18, H=H, G=G), device)


@needs_triton
@pytest.mark.parametrize("options", [(), ("D",), ("initial_state",)], ids=lambda o: "-".join(o))
def test_options(options: tuple[str, ...], device: str):
    got = check(Case(34, options=options), device)
    assert {f"d{name}" for name in options} <= set(got)


@needs_triton
def test_batch_rows_do_not_mix(device: str):
    check(Case(34, B=3, H=1), device)


@needs_triton
@pytest.mark.parametrize("chunk", [16, 32, 128], ids=lambda n: f"chunk{n}")
def test_the_chunk_does_not_change_the_answer(chunk: int, device: str):
    check(Case(50), device, chunk=chunk)


@needs_triton
@pytest.mark.parametrize("name", DTYPES)
def test_every_other_step_forgets_everything(name: str, device: str):
    """Sums of log decays reach the thousands, and small ones must survive beside them."""
    inputs = Case(60, dtype=DTYPES[name]).inputs(device)
    inputs["dt"][:, ::3] = 200.0
    inputs["dt"][:, 1::3] = 1e-3
    with poisoned():
        got = run(fast, inputs)
    want = run(naive_ssd, wide(inputs))
    limit = {"fp32": 1e-5, "fp16": 2e-3, "bf16": 1e-2}[name]
    for key, value in got.items():
        assert relative_error(value, want[key], floor=1e-2) < limit, key


@needs_triton
def test_a_step_of_size_0_changes_nothing(device: str):
    inputs = Case(20, options=("initial_state",)).inputs(device)
    inputs["dt"].zero_()
    got = run(fast, inputs)
    assert torch.equal(got["state"], inputs["initial_state"])
    want = run(naive_ssd, wide(inputs))
    for name, value in got.items():
        assert relative_error(value, want[name], floor=1e-2) < 1e-5, name


@needs_triton
@pytest.mark.parametrize("at", [1, 32, 49], ids=lambda n: f"at{n}")
def test_a_split_anywhere_is_the_whole(at: int, device: str):
    """Outputs, last state and, through the state handed over, every gradient."""
    inputs = Case(50).inputs(device)

    def split(**arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        first, state = fast(**part(arguments, slice(None, at)))
        rest = part(arguments, slice(at, None)) | {"initial_state": state}
        second, state = fast(**rest)
        return torch.cat([first, second], dim=1), state

    got, want = run(split, inputs), run(naive_ssd, wide(inputs))
    for name, value in got.items():
        assert relative_error(value, want[name], floor=1e-2) < 1e-5, name


@needs_triton
def test_steps_are_the_scan(device: str):
    inputs = Case(5, B=2, H=4, G=2, P=24, N=40).inputs(device)
    y, last = fast(**inputs)
    state = given = inputs.pop("initial_state")
    kept = given.clone()
    for t in range(5):
        now = {k: m[:, t] if k in ("x", "dt", "B", "C") else m for k, m in inputs.items()}
        before = state
        with poisoned():
            out, state = ssd_step(before, **now)
        assert relative_error(out, y[:, t].double()) < 1e-6
    assert relative_error(state, last.double()) < 1e-6
    assert torch.equal(given, kept)


@needs_triton
def test_a_step_has_a_gradient(device: str):
    inputs = Case(1).inputs(device)
    state = inputs["initial_state"].requires_grad_()
    now = {k: inputs[k][:, 0] for k in ("x", "dt", "B", "C")}
    y, new = ssd_step(state, **now, A=inputs["A"])
    (got,) = torch.autograd.grad(y.sum() + new.sum(), state)
    decay = torch.exp(now["dt"] * inputs["A"])[..., None, None]
    want = decay * (1 + now["C"].repeat_interleave(2, 1)[:, :, None])
    assert relative_error(got, want.double().expand(got.shape)) < 1e-6


@needs_triton
def test_bias_and_softplus(device: str):
    inputs = Case(18).inputs(device)
    raw = torch.randn(inputs["dt"].shape, generator=torch.Generator().manual_seed(3)).to(device)
    bias = torch.tensor([0.5, -1.0], device=device)
    inputs |= {"dt": raw, "dt_bias": bias}
    got = run(partial(fast, softplus=True), inputs)

    def twin(dt: torch.Tensor, dt_bias: torch.Tensor, **rest: Any) -> Any:
        return naive_ssd(dt=torch.nn.functional.softplus(dt + dt_bias), **rest)

    want = run(twin, wide(inputs))
    for name, value in got.items():
        assert relative_error(value, want[name], floor=1e-2) < 1e-5, name


@pytest.mark.deep
@needs_triton
def test_the_same_bits_each_time(device: str):
    inputs = Case(40, H=4, dtype=torch.bfloat16).inputs(device)
    first, second = run(fast, inputs), run(fast, inputs)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@needs_triton
def test_layouts_of_a_real_block(device: str):
    """x, B and C as slices of one projection, dt transposed: no argument is contiguous."""
    inputs = Case(20, H=2, P=16, N=16).inputs(device)
    flat = torch.cat([inputs[k].flatten(2) for k in ("x", "B", "C")], dim=-1)
    views = flat.split([32, 16, 16], dim=-1)
    strided = inputs | {
        "x": views[0].unflatten(-1, (2, 16)),
        "B": views[1].unflatten(-1, (1, 16)),
        "C": views[2].unflatten(-1, (1, 16)),
        "dt": inputs["dt"].mT.contiguous().mT,
        "initial_state": inputs["initial_state"].mT.contiguous().mT,
    }
    assert not any(strided[k].is_contiguous() for k in ("x", "B", "C", "dt", "initial_state"))
    y, state = fast(**strided)
    want, last = fast(**inputs)
    assert torch.equal(y, want)
    assert torch.equal(state, last)
    grouped: Tensors = strided | {"B": views[1], "C": views[2]}
    assert torch.equal(ssd(**grouped, groups=1), want)


@needs_triton
@pytest.mark.parametrize(("B", "T"), [(0, 5), (2, 0)], ids=["no-batch", "no-steps"])
def test_nothing_to_do(B: int, T: int, device: str):
    inputs = Case(T, B=B).inputs(device)
    got, (y, state) = run(fast, inputs), naive_ssd(**inputs)
    assert torch.equal(got["y"], y)
    assert torch.equal(got["state"], state)
    assert all(not got[f"d{name}"].any() for name in ("x", "dt", "A", "B", "C", "D"))
    assert got["dinitial_state"].shape == inputs["initial_state"].shape
