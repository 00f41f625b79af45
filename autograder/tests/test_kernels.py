"""Kernels under test: the tracer, what checks say of planted bugs, and the compile report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

if "triton" not in sys.modules and not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

import triton
import triton.language as tl
from attend_grader import exercises
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.kernels import (
    clean_memory,
    compiles,
    right_values,
    within_budget,
)
from attend_grader.checks.launch_words import idle
from attend_grader.checks.subject import local
from attend_grader.inside.tracer import traced
from attend_grader.judging.judge import judge
from attend_kernels.ops.softmax.kernels import softmax_forward_kernel

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="kernels are traced in the interpreter"
)

LAUNCHER = "attend_test_launchers:softmax"
ROWS = 2


def softmax(kernel: Any, x: torch.Tensor, rows: int = ROWS) -> torch.Tensor:
    """Launch a softmax kernel with the signature of the course's own, one block a row."""
    out = torch.empty(x.shape, dtype=x.dtype)
    options = {"ONE_BLOCK": True, "ROWS": rows, "BLOCK": triton.next_power_of_2(x.shape[1])}
    grid = (triton.cdiv(x.shape[0], rows),)
    strides = x.stride()
    kernel[grid](x, out, *x.shape, *strides, **options, ACCUMULATE=tl.float32)
    return out


@pytest.fixture(autouse=True)
def launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("attend_test_launchers")
    module.softmax = softmax  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "attend_test_launchers", module)


def cases(rng: np.random.Generator) -> Iterator[tuple[str, Call, torch.Tensor]]:
    """Lengths that are no multiple of a block, negative scores, rows with gaps between them."""
    for shape in ((5, 13), (4, 8), (1, 3)):
        x = torch.from_numpy(rng.standard_normal(shape) - 3).float()
        yield "", Call((x,), launcher=LAUNCHER), torch.softmax(x.double(), -1).float()
    wide = torch.from_numpy(rng.standard_normal((3, 12))).float()[:, :6]
    yield (
        "rows with gaps between them",
        Call((wide,), launcher=LAUNCHER),
        torch.softmax(wide.double(), -1).float(),
    )


def needed(call: Call) -> int:
    return 2 * call.args[0].numel() * call.args[0].element_size()


TYPES = {"x_ptr": "*fp32", "out_ptr": "*fp32"} | dict.fromkeys(
    ("n_rows", "n_columns", "row_stride", "column_stride"), "i32"
)
CONSTANTS = {"ONE_BLOCK": True, "ROWS": 1, "BLOCK": 1024}
"""ACCUMULATE is a Triton type, which a compile request cannot carry as plain data."""

PROPERTIES = (
    right_values("right at lengths that are no multiple of a block", cases, points=2),
    clean_memory("touches its own memory only", cases, points=2),
    within_budget("reads once, writes once", cases, needed),
)

LOAD = 'tl.load(x_row + column.to(tl.int64) * column_stride, mask=live, other=-float("inf"))'
ONE_BLOCK_LOAD = f"        x = {LOAD}\n"
STORE = "tl.store(out_row + column, (weights / row_sum).to(out_ptr.dtype.element_ty), mask=live)"
DEFINED = "    row = tl.program_id(0).to(tl.int64) * ROWS"

BUGS: dict[str, tuple[tuple[str, str], str, str]] = {
    "a load without the columns' mask": (
        (ONE_BLOCK_LOAD, ONE_BLOCK_LOAD.replace("mask=live", "mask=live_row")),
        "touches its own memory only",
        "past the end of x",
    ),
    "a store without the columns' mask": (
        (STORE, STORE.replace("mask=live", "mask=live_row & (column < BLOCK)")),
        "touches its own memory only",
        "elements past the end of out",
    ),
    "a read before the beginning": (
        (ONE_BLOCK_LOAD, ONE_BLOCK_LOAD.replace("(x_row + ", "(x_row - 1 + ")),
        "touches its own memory only",
        "before the beginning of x (the first 1 before it)",
    ),
    "strides taken for contiguous": (
        (ONE_BLOCK_LOAD, ONE_BLOCK_LOAD.replace(" * column_stride", "")),
        "touches its own memory only",
        "in gaps of x",
    ),
    "programs that overlap": (
        (DEFINED, DEFINED + " // 2"),
        "touches its own memory only",
        "program 1 and program 0 both write",
    ),
    "rows left out": (
        ("live_row = row < n_rows", "live_row = row < n_rows - 1"),
        "right at lengths that are no multiple of a block",
        "elements of out are never written",
    ),
    "the output read before it is written": (
        ("        weights = tl.exp(x - row_max)\n",
         "        x += 0 * tl.load(out_row + column, mask=live)\n"
         "        weights = tl.exp(x - row_max)\n"),
        "touches its own memory only",
        "before any program has written there",
    ),
    "a program that relies on the one before it": (
        (f"        {STORE}\n",
         f"        {STORE}\n"
         "        early = live & (row >= ROWS)\n"
         "        tl.load(out_row - ROWS * n_columns + column, mask=early)\n"),
        "touches its own memory only",
        "programs run in any order",
    ),
    "scores read twice": (
        (ONE_BLOCK_LOAD, 2 * ONE_BLOCK_LOAD),
        "reads once, writes once",
        "1.5 × the",
    ),
    "results written twice": (
        (f"        {STORE}\n", 2 * f"        {STORE}\n"),
        "reads once, writes once",
        "the budget is 1.1 ×",
    ),
    "programs without work": (
        (DEFINED, DEFINED + " * 8"),
        "touches its own memory only",
        "read and write nothing",
    ),
}  # fmt: skip
"""Planted bug → its edit of the kernel, the property that must tell it, and words of the card."""

OUTSIDE = {
    "where all of it lies outside": (
        ONE_BLOCK_LOAD,
        ONE_BLOCK_LOAD.replace("(x_row + ", "(x_row + 500 + "),
    ),
    "where a part does": (ONE_BLOCK_LOAD, ONE_BLOCK_LOAD.replace("mask=live", "mask=live_row")),
}

WRONG_OTHER = Slip(
    "the wrong `other`",
    (ONE_BLOCK_LOAD, ONE_BLOCK_LOAD.replace('-float("inf")', "0.0")),
    "Masked lanes count as scores of 0, and exp(0) = 1 is added for each: let them be −inf.",
)
NO_MAXIMUM = Slip(
    "did not subtract the maximum",
    ("tl.exp(x - row_max)", "tl.exp(x)"),
    "exp of a large score overflows. Subtract the row's largest score first.",
)


def draws(rng: np.random.Generator) -> list[Call]:
    return [call for _, call, _ in cases(rng)]


def exercise(*slips: Slip) -> Exercise:
    return Exercise(
        chapter="17_triton",
        title="Softmax",
        goal="One row a program.",
        reference=softmax_forward_kernel,
        properties=PROPERTIES,
        draws=draws,
        alternatives={},
        hints=(),
        minutes=1,
        difficulty=1,
        importance=1,
        contract=Contract(),
        slips=slips,
    )


def broken(edit: tuple[str, str]) -> Any:
    return Slip("planted", edit, "").applied(softmax_forward_kernel)


def test_a_right_kernel_gets_full_marks() -> None:
    report = judge(local(softmax_forward_kernel), exercise(), 1, extra=True)
    assert report.score == report.max_score == 5, str(report)


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_named(bug: str) -> None:
    edit, line, words = BUGS[bug]
    report = judge(local(broken(edit)), exercise(), 1, extra=True)
    found = {f.property: f.message for f in report.findings if not f.passed}
    assert line in found, str(report)
    assert words in found[line], found[line]


@pytest.mark.parametrize("which", OUTSIDE)
def test_a_mask_is_advised_only_where_a_part_of_an_access_lies_outside(which: str) -> None:
    report = judge(local(broken(OUTSIDE[which])), exercise(), 1, extra=True)
    (told,) = [f.message for f in report.findings if f.property == "touches its own memory only"]
    assert ("needs a mask" in told) == (which == "where a part does"), told
    assert ("look at its offsets" in told) == (which != "where a part does"), told


def test_reading_twice_is_told_of_the_number_that_is_read_twice() -> None:
    once = within_budget("once", cases, needed, factor=9, once=True)
    twice = broken((ONE_BLOCK_LOAD, 2 * ONE_BLOCK_LOAD))
    report = judge(local(twice), replace(exercise(), properties=(once,)), 1, extra=True)
    assert "65 of 65 elements of x are read more than once" in report.findings[0].message


def test_bytes_that_go_astray_are_not_called_read_too_often() -> None:
    left_out = (STORE, STORE.replace(", mask=live", ", mask=column < BLOCK"))
    report = judge(local(broken(left_out)), exercise(), 1, extra=True)
    (budget,) = [f.message for f in report.findings if f.property == "reads once, writes once"]
    assert "past the end of out" in budget, str(report)
    assert "the budget is" not in budget


@pytest.mark.parametrize("slip", [WRONG_OTHER, NO_MAXIMUM], ids=lambda slip: slip.name)
def test_slips_of_kernels_are_named_by_behaviour(slip: Slip) -> None:
    candidate = slip.applied(softmax_forward_kernel)
    report = judge(local(candidate), exercise(WRONG_OTHER, NO_MAXIMUM), 1, extra=True)
    if slip is NO_MAXIMUM:
        assert report.score == report.max_score, "no score of these draws overflows"
    else:
        assert report.diagnosis == slip.name, str(report)


def test_an_error_in_a_kernel_is_told_with_its_line() -> None:
    edit = ("        weights = tl.exp(x - row_max)\n",
            "        weights = tl.exp(x - row_max) + tl.arange(0, 3)\n")  # fmt: skip
    report = judge(local(broken(edit)), exercise(), 1, extra=False)
    assert "raised ValueError" in report.findings[0].message
    assert "softmax_forward_kernel" in report.findings[0].message


@pytest.mark.parametrize("left", ["", "6 of 8 elements of out are never written"])
def test_idle_programs_are_no_large_grid_where_places_are_left(left: str) -> None:
    miss = idle({"idle": [[1, 0, 0], [2, 0, 0]], "grid": [4, 1, 1]}, left)
    assert "2 of 4 programs read and write nothing, the first is program 1" in miss.text
    assert ("larger than the work" in miss.text) == (not left)
    assert ("look at the offsets" in miss.cause) == bool(left)


def as_any(kernel: Any) -> Any:
    """A kernel that takes plain numbers for its compile-time arguments, as it does."""
    return kernel


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803  # Triton's habit
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n)


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803  # Triton's habit
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), axis=0))


@triton.jit
def alone_kernel(x_ptr, out_ptr):
    tl.atomic_add(out_ptr, tl.load(x_ptr + tl.program_id(0)), scope="cta")


@triton.jit
def dot_kernel(x_ptr, out_ptr):
    at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.dot(x, x))


@pytest.mark.parametrize("n", [1, 17, 64, 97])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
def test_the_tracer_does_not_change_what_a_right_kernel_computes(
    n: int, dtype: torch.dtype
) -> None:
    x, y = ((torch.randn(n, generator=torch.Generator().manual_seed(n)) * 9).to(dtype), torch.ones(
        n, dtype=dtype))  # fmt: skip
    plain, seen = torch.empty_like(x), torch.empty_like(x)
    as_any(add_kernel)[(triton.cdiv(n, 32),)](x, y, plain, n, BLOCK=32)
    with traced() as tracer:
        as_any(add_kernel)[(triton.cdiv(n, 32),)](x, y, seen, n, BLOCK=32)
    assert torch.equal(plain, seen)
    (launch,) = tracer.to_plain()
    assert launch["events"] == []
    assert launch["bytes_read"] == 2 * launch["bytes_written"] == 2 * n * x.element_size()
    assert launch["grid"] == [triton.cdiv(n, 32), 1, 1]


def test_views_of_one_storage_stay_views_of_one() -> None:
    both = torch.arange(8.0)
    with traced() as tracer:
        as_any(add_kernel)[(1,)](both[:4], both[:4], both[4:], 4, BLOCK=4)
    assert both.tolist() == [0, 1, 2, 3, 0, 2, 4, 6]
    assert tracer.launches[0].events == []
    (buffer,) = tracer.to_plain()[0]["buffers"].values()
    assert buffer["again"] == 4, "what both loads read"


@triton.jit
def block_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: N803  # pragma: no cover
    """Copy by block pointers, whose masks the interpreter keeps as plain arrays."""
    x = tl.make_block_ptr(x_ptr, (n,), (1,), (tl.program_id(0) * BLOCK,), (BLOCK,), (0,))
    out = tl.make_block_ptr(out_ptr, (n,), (1,), (tl.program_id(0) * BLOCK,), (BLOCK,), (0,))
    part = tl.load(x, boundary_check=(0,), padding_option="zero")
    tl.store(out, part, boundary_check=(0,))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_block_pointers_are_traced() -> None:
    x, out = torch.arange(5.0), torch.zeros(5)
    with traced() as tracer:
        as_any(block_kernel)[(2,)](x, out, 5, BLOCK=4)
    assert out.tolist() == x.tolist()
    assert tracer.launches[0].events == []
    assert (tracer.launches[0].bytes_read, tracer.launches[0].bytes_written) == (20, 20)


def test_atomic_sums_are_no_collision() -> None:
    x, total = torch.ones(100), torch.zeros(1)
    with traced() as tracer:
        as_any(sum_kernel)[(4,)](x, total, 100, BLOCK=32)
    assert total.item() == 100
    assert tracer.launches[0].events == []


def test_an_atomic_sum_of_one_programs_threads_is_a_collision() -> None:
    with traced() as tracer:
        as_any(alone_kernel)[(3,)](torch.ones(3), torch.zeros(1))
    assert [event.kind for event in tracer.launches[0].events] == ["two writers"]


def test_the_log_holds_each_access_in_order() -> None:
    x, out = torch.ones(4), torch.zeros(4)
    with traced(log=True) as tracer:
        as_any(add_kernel)[(2,)](x, x, out, 4, BLOCK=2)
    log = tracer.launches[0].log
    assert [(entry[0][0], entry[1], entry[3]) for entry in log] == [
        (p, kind, [2 * p, 2 * p + 1]) for p in (0, 1) for kind in ("load", "load", "store")
    ]


def test_memory_made_meanwhile_is_poisoned_and_restored_afterwards() -> None:
    before: Callable[..., torch.Tensor] = torch.empty
    with traced():
        assert torch.empty(3).isnan().all()
        assert torch.empty_like(torch.ones(2, dtype=torch.float16)).isnan().all()
        assert torch.empty(2, dtype=torch.bfloat16).isnan().all()
        assert torch.ones(2).tolist() == [1, 1]
    assert torch.empty is before


needs_compiler = pytest.mark.skipif(
    sys.platform != "linux", reason="ptxas of Triton's wheel is for Linux"
)


@needs_compiler
def test_what_only_the_interpreter_accepts_is_told() -> None:
    x, out = torch.eye(8), torch.empty(8, 8)
    as_any(dot_kernel)[(1,)](x, out)
    assert torch.equal(out, x), "the interpreter multiplies blocks of any size"
    line = compiles("compiles for an H100", {"x_ptr": "*fp32", "out_ptr": "*fp32"}, {})
    report = judge(local(dot_kernel), _only(exercise(), dot_kernel, line), 1, extra=False)
    told = "does not compile for sm_90: line 5: `tl.store(out_ptr + at, tl.dot(x, x))`"
    assert told in report.findings[0].message, str(report)
    assert "16" in report.findings[0].message


def _only(like: Exercise, kernel: Any, line: Any) -> Exercise:
    from dataclasses import replace

    return replace(like, reference=kernel, properties=(line,), slips=(), contract=None)


def test_a_result_of_another_type_is_told_by_its_name_before_its_values() -> None:
    exercise = {e.name: e for e in exercises()}["flash_lse"]
    made = "lse = torch.empty(T, dtype=torch.float32"
    edit = Slip("", (made, made.replace("torch.float32", "q.dtype")), "")
    report = judge(local(edit.applied(exercise.reference)), exercise, 0, extra=False)
    lost = [finding.property for finding in report.findings if not finding.passed]
    assert lost == ["float16 in, float32 in the sums"]
    assert "LSE has the type float16, expected float32" in str(report)
