"""The selective scan with time cut into segments that run side by side: the same answers."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import naive_selective_scan
from attend_kernels.common import fallback
from attend_kernels.ops.selective_scan import tiles as selective_scan_tiles

from .numerics import DTYPES, relative_error
from .recurrences import run, wide
from .scan_cases import OPTIONAL, Case, check, fast

pytestmark = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)


@pytest.fixture(autouse=True)
def small_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for eight warps: chunks of 8 steps, a segment each up to T = 64 with 16 channels."""
    monkeypatch.setattr(selective_scan_tiles, "CHUNK", 8)
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 2)


def segments(case: Case, device: str) -> int:
    """How many a case is cut into."""
    length = selective_scan_tiles.segment(case.inputs(device)["u"], case.N)
    return -(-case.T // length)


@pytest.mark.thin(keep=2)
@pytest.mark.parametrize("T", [17, 24, 25], ids=lambda n: f"T{n}")
@pytest.mark.parametrize("options", [(), OPTIONAL], ids=["bare", "all"])
def test_segments_are_the_twin(T: int, options: tuple[str, ...], device: str):
    case = Case(T, options=options)
    assert segments(case, device) == -(-T // 8)
    check(case, device)


@pytest.mark.thin(keep=2)
@pytest.mark.parametrize("name", [*DTYPES, "fp64"])
def test_every_dtype(name: str, device: str):
    check(Case(19, C=8, N=4, dtype=DTYPES.get(name, torch.float64)), device)


@pytest.mark.thin(keep=2)
@pytest.mark.parametrize("N", [1, 16, 59, 256], ids=lambda n: f"N{n}")
def test_every_number_of_states(N: int, monkeypatch: pytest.MonkeyPatch, device: str):
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 16)
    case = Case(18, C=2, N=N, rate=0.3)
    assert segments(case, device) == 3
    check(case, device)


@pytest.mark.thin(keep=1)
@pytest.mark.parametrize("rate", [0.0, 1e-4, 30.0, 1e4], ids=["none", "slow", "fast", "at-once"])
def test_strong_decay_and_none(rate: float, device: str):
    check(Case(18, rate=rate), device)


def test_segments_of_several_chunks(monkeypatch: pytest.MonkeyPatch, device: str):
    """Five chunks in three segments: 16, 16 and 2 steps."""
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 1)
    case = Case(34)
    assert segments(case, device) == 3
    check(case, device)


@pytest.mark.deep
def test_one_pass_and_two_give_the_same(monkeypatch: pytest.MonkeyPatch, device: str):
    monkeypatch.setattr(selective_scan_tiles, "CHUNK", 4)
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 4)
    case = Case(10, B=2, dtype=torch.float64)
    assert segments(case, device) == 3
    inputs = case.inputs(device)
    cut = run(fast, inputs)
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 0)
    for name, want in run(fast, inputs).items():
        assert relative_error(cut[name], want, floor=1e-3) < 1e-12, name


@pytest.mark.deep
def test_the_same_bits_each_time(device: str):
    inputs = Case(18, C=9).inputs(device)
    first, second = (run(fast, inputs) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.mark.thin(keep=1)
@pytest.mark.parametrize("used", ["y", "state"])
def test_one_output_unused(used: str, device: str):
    inputs = Case(18).inputs(device)
    names = [n for n in inputs if used == "y" or n not in ("C", "D", "z")]

    def gradients(function: Any, values: Any) -> Any:
        leaves = {k: x.clone().requires_grad_() for k, x in values.items()}
        output = function(**leaves)[0 if used == "y" else 1]
        return torch.autograd.grad(output.square().sum(), [leaves[n] for n in names])

    want = gradients(naive_selective_scan, wide(inputs))
    for name, got, right in zip(names, gradients(fast, inputs), want, strict=True):
        assert relative_error(got, right) < 1e-5, name


RULE = {  # (B, T, C, N): steps a segment on a GPU of 132 multiprocessors
    (8, 4096, 2048, 16): 4096,  # 512 warps for 528 slots
    (2, 4096, 2048, 16): 1024,  # 128 warps: four segments
    (1, 16_384, 2048, 16): 2048,
    (1, 4096, 2048, 64): 2048 * 2,  # 256 warps: two segments would gain nothing
    (1, 128, 64, 16): 128,  # two chunks
    (1, 192, 64, 16): 64,
    (1, 1, 64, 16): 1,
}


@pytest.mark.parametrize(("shape", "steps"), RULE.items(), ids=lambda x: str(x))
def test_the_rule(shape: tuple[int, ...], steps: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selective_scan_tiles, "CHUNK", 64)
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: 132)
    B, T, C, N = shape  # noqa: N806
    assert selective_scan_tiles.segment(torch.empty(B, T, C, device="meta"), N) == steps
