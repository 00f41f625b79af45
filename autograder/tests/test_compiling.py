"""The compile report: what a GPU's compiler makes of an interpreted kernel, without a GPU."""

from __future__ import annotations

import os
import signal
from typing import Never

import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl
from attend_grader.checks.kernels import summary
from attend_grader.inside import compiling
from attend_grader.inside.compiling import compiled

from .test_kernels import add_kernel, needs_compiler, pytestmark

__all__ = ["pytestmark"]

TYPES = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_known", {})


@needs_compiler
def test_a_kernel_is_compiled_for_a_gpu_that_is_not_here() -> None:
    report = compiled(add_kernel, TYPES, {"BLOCK": 1024}, instructions=True)
    assert report["spilled"] == 0
    assert 8 <= report["registers"] <= 64
    assert report["instructions"]["FADD"] >= 8
    assert summary(report).startswith("compiles for an H100: ")
    assert "nothing spilled, no shared memory" in summary(report)


@needs_compiler
def test_tensor_cores_are_read_from_what_the_assembler_gets() -> None:
    types = {"x_ptr": "*fp16", "out_ptr": "*fp16"}
    for rows, used in ((64, "HGMMA"), (32, "HMMA")):
        report = compiled(product_kernel, types, {"ROWS": rows}, instructions=True)
        found = {name for name, count in report["products"].items() if count}
        assert found == {used} == {n for n in report["instructions"] if n.endswith("MMA")}


@triton.jit
def product_kernel(x_ptr, out_ptr, ROWS: tl.constexpr):  # noqa: N803  # Triton's habit
    i = tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64)[None, :]
    j = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(out_ptr + i, tl.dot(tl.load(x_ptr + i), tl.load(x_ptr + j)).to(tl.float16))


@needs_compiler
def test_kernels_are_compiled_while_other_things_are_done() -> None:
    blocks = (64, 128, 256)
    for block in blocks:
        assert compiled(add_kernel, TYPES, {"BLOCK": block}, ahead=True) == {}
    reports = [compiled(add_kernel, TYPES, {"BLOCK": block}) for block in reversed(blocks)]
    assert reports == [compiled(add_kernel, TYPES, {"BLOCK": block}) for block in reversed(blocks)]
    alone = []
    for block in reversed(blocks):
        compiling._known.clear()
        alone.append(compiled(add_kernel, TYPES, {"BLOCK": block}))
    assert reports == alone
    assert len({report["registers"] for report in reports}) > 1


@needs_compiler
def test_what_was_begun_in_a_compiler_that_ended_is_compiled_by_another() -> None:
    compiled(add_kernel, TYPES, {"BLOCK": 64}, ahead=True)
    first = compiling._compiler(os.getpid())
    os.killpg(first._process.pid, signal.SIGKILL)
    compiled(add_kernel, TYPES, {"BLOCK": 128}, ahead=True)
    assert "error" not in compiled(add_kernel, TYPES, {"BLOCK": 64})
    assert "error" not in compiled(add_kernel, TYPES, {"BLOCK": 128})
    assert compiling._compiler(os.getpid()) is not first


@needs_compiler
def test_a_compiler_that_was_ended_is_started_again() -> None:
    assert "error" not in compiled(add_kernel, TYPES, {"BLOCK": 32})
    first = compiling._compiler(os.getpid())
    first._process.kill()
    first._process.wait()
    assert "error" not in compiled(add_kernel, TYPES, {"BLOCK": 16})
    assert compiling._compiler(os.getpid()) is not first


@needs_compiler
def test_where_no_process_forks_each_kernel_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "FORKS", False)
    for block in (512, 2048):
        assert "error" not in compiled(add_kernel, TYPES, {"BLOCK": block})
    monkeypatch.setattr(compiling, "_compile", lambda request: {"registers": request["n"]})
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    assert compiling._alone({"n": 7}) == {"registers": 7}


def test_a_compiler_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(request: object) -> None:
        os.write(2, b"what it said last\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def forever(request: object) -> Never:
        while True:
            pass

    monkeypatch.setattr(compiling, "_compile", fails)
    told = compiling._in_a_fork({})
    assert told == {"error": "the compiler ended with: what it said last", "line": 0}
    monkeypatch.setattr(compiling, "SECONDS", 1)
    monkeypatch.setattr(compiling, "_compile", forever)
    assert "not done after 1 s" in compiling._in_a_fork({})["error"]


@needs_compiler
@pytest.mark.deep
def test_spills_are_told() -> None:
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    report = compiled(sort_kernel, types, {"BLOCK": 16384}, warps=1)
    assert report["spilled"] > 0


@triton.jit
def sort_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803  # Triton's habit
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    total = tl.sum(x, axis=0)
    tl.store(out_ptr + i, x / total, mask=i < n)
