"""The benchmark harness: what it does with wrong, absent and broken peers, time, and results."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from attend_kernels.bench import cli, machine, report
from attend_kernels.bench.case import AbsentError, Case, Tensors, in_float64
from attend_kernels.bench.runner import RESERVE, Results, run_all, run_case
from attend_kernels.bench.timing import FEWEST, MOST, Budget, Run, Times, ceilings, measure
from attend_kernels.common import fallback

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)


class FakeClock:
    """Says that every call takes ``ms`` and counts the calls it was asked to make."""

    def __init__(self, ms: float = 2.0) -> None:
        self.ms = ms
        self.asked: list[int] = []

    def __call__(self, run: Run, repeats: int) -> list[float]:
        self.asked.append(repeats)
        for number in range(min(repeats, 2)):
            run(number)
        return [self.ms] * repeats


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def make(seed: int) -> Tensors:
    return (torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)),)


def case(peers: dict[str, Callable[[], Callable[..., Any]]] | None = None, **more: Any) -> Case:
    plain = Case(
        family="norm",
        name="double",
        size={"rows": 4, "C": 8},
        wave=0,
        make=make,
        learn=(0,),
        peers={"attend": lambda: double} if peers is None else peers,
        oracle=in_float64(double, (0,)),
        flops={"forward": 32.0, "backward": 32.0, "both": 64.0},
        bytes={"forward": 256.0, "backward": 256.0, "both": 512.0},
    )
    return replace(plain, **more)


def test_every_direction_of_a_right_peer_is_timed():
    rows = run_case(case(), FakeClock(ms=2.0), cache_bytes=0)
    assert [(r["direction"], r["status"], r["median_ms"]) for r in rows] == [
        ("forward", "ok", 2.0),
        ("backward", "ok", 2.0),
        ("both", "ok", 2.0),
    ]
    assert all(r["output_error"] < 1e-6 and len(r["round_medians_ms"]) == 2 for r in rows)


def test_a_direction_without_bytes_is_not_timed():
    rows = run_case(case(bytes={"forward": 1.0, "both": 1.0}), FakeClock(), cache_bytes=0)
    assert [r["direction"] for r in rows] == ["forward", "both"]


def absent() -> Callable[..., Any]:
    raise AbsentError("not installed here")


def breaks(_: torch.Tensor) -> torch.Tensor:
    raise torch.cuda.OutOfMemoryError("CUDA out of memory.\nTried to allocate 1 PiB")


def poisons(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(8) < 7, 2 * x, float("nan"))


class OnlyForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return 3 * grads[0]


BAD: dict[str, tuple[Callable[[], Callable[..., Any]], str, str]] = {
    "absent": (absent, "absent", "not installed here"),
    "out-of-memory": (lambda: breaks, "failed", "OutOfMemoryError: CUDA out of memory."),
    "wrong": (lambda: torch.square, "wrong", "relative error"),
    "wrong-gradient": (lambda: OnlyForward.apply, "wrong", "gradients 5.0e-01"),
    "nan": (lambda: poisons, "failed", "NaN or infinity"),
    "shape": (lambda: lambda x: 2 * x[:1], "failed", "expected shape (4, 8), got (1, 8)"),
}


@pytest.mark.parametrize(("build", "status", "reason"), BAD.values(), ids=BAD)
def test_a_bad_peer_is_recorded_with_its_reason_and_harms_no_other(
    build: Callable[[], Callable[..., Any]], status: str, reason: str
):
    rows = run_case(case({"attend": lambda: double, "bad": build}), FakeClock(), cache_bytes=0)
    bad = [r for r in rows if r["peer"] == "bad"]
    assert [r["status"] for r in bad] == [status]
    assert reason in bad[0]["reason"]
    assert "median_ms" not in bad[0]
    assert sum(r["status"] == "ok" for r in rows if r["peer"] == "attend") == 3


def test_a_peer_that_breaks_while_it_is_timed_is_recorded_once():
    calls = []

    def tires(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("too many calls")
        return 2 * x

    rows = run_case(case({"tires": lambda: tires}), FakeClock(), cache_bytes=0)
    assert {(r["direction"], r["status"]) for r in rows} >= {("forward", "failed")}
    assert len({r["direction"] for r in rows}) == len(rows)


def test_input_sets_outrun_the_cache_and_peers_may_work_in_place():
    seen: set[int] = set()

    def in_place(x: torch.Tensor) -> torch.Tensor:
        seen.add(x.data_ptr())
        return x.mul_(2) if not x.requires_grad else 2 * x

    peers = {"in place": lambda: in_place, "attend": lambda: double}
    rows = run_case(case(peers), FakeClock(), cache_bytes=1000)
    assert {r["status"] for r in rows} == {"ok"}
    assert len(seen) > 2


@pytest.mark.parametrize(
    ("ms", "repeats"), [(0.001, MOST), (6.0, 10), (1000.0, FEWEST)], ids=["fast", "fits", "slow"]
)
def test_repeats_fit_the_time(ms: float, repeats: int):
    clock = FakeClock(ms)
    assert measure(lambda _: None, clock, seconds=0.06) == [ms] * repeats
    assert clock.asked == [3, repeats]


def test_times_are_medians_and_fifths_of_all_rounds():
    times = Times.of([[1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 3.0, 4.0, 5.0, 60.0]])
    assert times == Times(3.5, 2.0, 5.0, (3.0, 4.0), 10)


def test_ceilings_count_operations_and_bytes():
    found = ceilings(FakeClock(ms=1.0), torch.device("cpu"), side=64, copied=1000)
    assert found["matmul_tflops"] == pytest.approx(2 * 64**3 / 1e-3 / 1e12)
    assert found["copy_gbps"] == pytest.approx(2 * 1000 / 1e-3 / 1e9)
    assert found["read_gbps"] == pytest.approx(1000 / 1e-3 / 1e9)


def test_the_budget_trims_the_last_waves_and_says_what_it_cut():
    now = [0.0]

    def slow_start(x: torch.Tensor) -> torch.Tensor:
        now[0] += 1.0  # a second a call, by the clock that the budget reads
        return 2 * x

    made = [
        case({"attend": lambda: slow_start}, wave=w, size={"rows": 4, "C": w}) for w in (2, 0, 1)
    ]
    results, saves, said = Results(), [], []
    budget = Budget(RESERVE + 5, now=lambda: now[0])
    run_all(
        made, results, FakeClock(), budget, 0, said.append, lambda: saves.append(len(results.rows))
    )
    assert {r["size"]["C"] for r in results.rows} == {0}
    assert results.cut == ["norm double rows4 C1", "norm double rows4 C2"]
    assert saves == [3]
    assert len(said) == 1


ROW = {
    "family": "flash",
    "name": "causal",
    "size": {"D": 128, "N": 4096, "B": 4, "H": 16},
    "direction": "forward",
    "status": "ok",
    "median_ms": 1.0,
    "low_ms": 0.9,
    "high_ms": 1.1,
    "flops": 4e11,
    "bytes": 1e8,
}
DOCUMENT: dict[str, Any] = {
    "date": "2000-01-01 00:00 UTC",
    "device": {"name": "Invented GPU"},
    "versions": {"torch": "0.0"},
    "sources": "0123",
    "ceilings": {"matmul_tflops": 800.0, "copy_gbps": 4000.0, "read_gbps": 4400.0},
    "budget": {"seconds": 600.0, "spent": 12.3},
    "cut": ["norm rms rows1 C1"],
    "aborted": None,
    "rows": [
        {**ROW, "peer": "sdpa-flash", "median_ms": 1.5},
        {**ROW, "peer": "attend"},
        {**ROW, "peer": "attend", "size": {**ROW["size"], "N": 512}, "median_ms": 0.8},
        {**ROW, "peer": "attend", "family": "rope", "size": {"T": 9}, "flops": 1e8},
        {**ROW, "peer": "flex", "status": "failed", "direction": None, "reason": "Error: no room"},
    ],
}


def test_tables_hold_rates_ratios_failures_and_cuts():
    text = report.markdown(DOCUMENT)
    assert "## flash, forward (TFLOP/s)" in text
    assert "| causal | 128 | 4096 | 4 | 16 | 400 ±10% | 267 ±7% | 50% | 1.50× |" in text
    assert "| causal | 128 | 512 | 4 | 16 | 500 ±13% | – | 62% | – |" in text
    assert "## rope, forward (GB/s)" in text
    assert "| causal | 9 | 100 ±10% | 2% | – |" in text
    assert "- flex (failed) at flash causal D128 N4096 B4 H16: Error: no room" in text
    assert "## Cut for want of time\n\n- norm rms rows1 C1" in text
    assert "ended early" not in text


def test_a_run_that_ended_early_says_so():
    assert "**The run ended early.** gone" in report.markdown({**DOCUMENT, "aborted": "gone"})


def test_results_are_never_overwritten(tmp_path: Path):
    path = report.free_path(tmp_path / "new", "a")
    report.write(path, DOCUMENT)
    assert report.read(path) == json.loads(json.dumps(DOCUMENT))
    assert report.free_path(tmp_path / "new", "a").name == "a-2.json"


def test_report_only_remakes_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "run.json"
    report.write(path, {**DOCUMENT, "rows": DOCUMENT["rows"][:3]})
    assert cli.main(["--report", str(path)]) == 0
    assert path.with_suffix(".md").read_text(encoding="utf-8") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--only", "flash,gemm"], "no kernel 'gemm'"), (["--minutes", "0"], "positive number")],
    ids=["unknown-kernel", "no-time"],
)
def test_bad_arguments_say_what_there_is(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert message in capsys.readouterr().err


@needs_triton
def test_every_case_for_a_gpu_can_be_listed(monkeypatch: pytest.MonkeyPatch):
    """The grid itself, without a GPU: titles differ, and every wave has something."""
    from attend_kernels.bench import memory

    monkeypatch.setattr(memory, "_device", lambda tiny: "cpu")
    found = cli._cases(cli.FAMILIES, tiny=False)
    titles = [c.title for c in found]
    assert len(set(titles)) == len(titles) > 40
    assert {c.wave for c in found} == {0, 1, 2}
    assert all("attend" in c.peers for c in found)
    flash = {(c.size["D"], c.size["N"], c.name) for c in found if c.family == "flash"}
    assert {(d, n, "causal") for d in (64, 128) for n in (512, 1024, 4096, 16_384)} <= flash


def test_slug_and_fingerprint():
    assert machine.slug("NVIDIA H200 (SXM)") == "nvidia-h200-sxm"
    assert machine.sources() == machine.sources()
    assert machine.describe(torch.device("cpu"))["type"] == "cpu"
    assert "torch" in machine.versions()


@needs_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here: the command would measure")
def test_the_command_without_a_gpu_checks_the_kernels_and_says_what_it_did_not_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for family in cli.FAMILIES:
        assert f"\n{family} " in "\n" + said
    assert said.count(": right (error ") >= 10
    assert "NOT measured: any speed" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
def test_a_minute_of_measuring_on_a_gpu(tmp_path: Path):
    command = [sys.executable, "-m", "attend_kernels.bench", "--only", "rope,softmax"]
    command += ["--minutes", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*[0-9a-z].json")
    ok = [r for r in report.read(path)["rows"] if r["status"] == "ok" and r["peer"] == "attend"]
    assert ok
