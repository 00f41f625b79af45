"""Functions that launch kernels: what belongs to them, what is told, here and in the jail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

pytest.importorskip("attend_solutions.interpreted")
from attend_grader import chapters, grade
from attend_grader.checks.slips import Slip
from attend_grader.checks.subject import local
from attend_grader.inside import tracer, watching
from attend_grader.inside.kernels import (
    definitions,
    kernels_of,
    launches,
    plain_constant,
    type_name,
)
from attend_grader.inside.tracer import traced
from attend_grader.judging.judge import judge
from attend_solutions import triton as answers
from attend_solutions import triton_flash_backward
from attend_solutions.interpreted import tl, triton

from .chapter_notebooks import Notebooks

pytestmark = pytest.mark.skipif(
    not hasattr(triton.jit(lambda: None), "rewrite"), reason="kernels are not interpreted here"
)

STUB = '''
@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program adds one block of BLOCK elements."""
    {body}


def vector_add(x: torch.Tensor, y: torch.Tensor, block: int = 16) -> torch.Tensor:
    """Launch one program a block. Shapes: x, y and the result (n,)."""
    out = torch.empty_like(x)
    n = x.numel()
    programs = triton.cdiv(n, block)  # n / block, rounded up
    vector_add_kernel[(programs,)](x, y, out, n, BLOCK=block)
    return {result}
'''
NAMES = {"torch": torch, "triton": triton, "tl": tl}
HERE = "here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK); "
ADD = HERE + "tl.store(out_ptr + here, {}, mask=here < n)"
X, Y = (f"tl.load({name}_ptr + here, mask=here < n)" for name in "xy")


def made(define: Any, body: str, result: str = "out") -> Any:
    return define(STUB.format(body=body, result=result), "vector_add", **NAMES)


def quick(exercise_id: str) -> Any:
    """An exercise without what takes seconds."""
    exercise = chapters.exercise(exercise_id)
    return replace(exercise, properties=tuple(p for p in exercise.properties if not p.slow))


def verdict(candidate: Any) -> Any:
    return judge(local(candidate), quick("17_triton/vector_add"), 3, extra=False)


def test_a_function_has_the_kernels_that_it_names_and_no_others() -> None:
    own = kernels_of(answers.fused_layer_norm_backward)
    assert [k.__name__ for k in own] == ["layer_norm_backward_kernel", "sum_programs_kernel"]
    texts = definitions(answers.vector_add)
    assert [t.split("(")[0].split("\n")[-1] for t in texts] == [
        "def vector_add_kernel",
        "def vector_add",
    ]
    assert kernels_of(answers.block_for_budget) == []


def test_a_function_launches_by_way_of_others() -> None:
    assert launches(answers.vector_add)
    assert launches(triton_flash_backward.gradient_gaps)
    assert launches(triton_flash_backward.flash_attention)
    assert not launches(answers.block_for_budget)


@pytest.mark.parametrize("body", ["raise NotImplementedError()", "pass"])
def test_a_kernel_not_written_is_not_started(define: Any, body: str) -> None:
    report = verdict(made(define, body))
    assert report.status == "not started"


def test_a_kernel_of_ones_own_passes(define: Any) -> None:
    report = verdict(made(define, ADD.format(f"{X} + {Y}")))
    assert report.score == report.max_score


def test_what_no_kernel_wrote_is_told(define: Any) -> None:
    report = verdict(made(define, ADD.format(f"{X} + {Y}"), "x + y"))
    assert "is not as a kernel wrote it" in str(report)
    report = verdict(made(define, ADD.format(f"{X} + {Y} - 1"), "out.add_(1)"))
    assert "is not as a kernel wrote it" in str(report)
    report = verdict(define("def vector_add(x, y, block=16):\n    return x + y", "vector_add"))
    assert report.score < report.max_score
    outcome = local(answers.vector_add).run((torch.ones(3), torch.ones(3)), trace="events")
    assert outcome.trace[0]["by_kernel"] == [True]


def test_launches_of_an_imported_function_are_seen(define: Any) -> None:
    text = "def twice(x):\n    return vector_add(x, x)"
    outcome = local(define(text, "twice", vector_add=answers.vector_add)).run(
        (torch.ones(3),), trace="events"
    )
    assert [launch["kernel"] for launch in outcome.trace] == ["vector_add_kernel"]
    text = "def twice(x):\n    return x + x"
    assert not local(define(text, "twice")).run((torch.ones(3),), trace="events").trace


def test_a_grid_without_a_program_is_told(define: Any) -> None:
    text = STUB.format(body=ADD.format(f"{X} + {Y}"), result="out")
    text = text.replace("triton.cdiv(n, block)", "n // block")
    report = verdict(define(text, "vector_add", **NAMES))
    (told,) = (
        local(define(text, "vector_add", **NAMES))
        .run((torch.ones(5), torch.ones(5)), trace="events")
        .trace
    )
    assert told["buffers"]["out"]["never"] == [[0], [4]]
    assert "are never written" in str(report)


def test_a_store_before_others_add_is_a_collision(define: Any) -> None:
    body = "i = tl.program_id(0); {}tl.atomic_add(out_ptr, i * 1.0)"
    first = "tl.store(out_ptr, 0.0, mask=i == 0); "
    for text, kinds in ((body.format(""), []), (body.format(first), ["two writers"])):
        (launch,) = (
            local(made(define, text)).run((torch.ones(40), torch.ones(40)), trace="events").trace
        )
        assert [e["kind"] for e in launch["events"] if e["kind"] == "two writers"] == kinds


def test_block_pointers_are_traced(define: Any) -> None:
    block = "tl.make_block_ptr({}_ptr, (n,), (1,), (tl.program_id(0) * BLOCK,), (BLOCK,), (0,))"
    x, y, out = (block.format(name) for name in ("x", "y", "out"))
    rest = ', boundary_check=(0,), padding_option="zero")'
    body = f"tl.store({out}, tl.load({x}{rest} + tl.load({y}{rest}, boundary_check=(0,))"
    report = verdict(made(define, body))
    assert report.score == report.max_score
    report = verdict(made(define, body.replace("boundary_check=(0,))", "boundary_check=())")))
    assert "past the end of out" in str(report)


def test_a_mask_without_other_is_told(define: Any) -> None:
    body = HERE + f"tl.store(out_ptr + here, {X} + {Y} + 0 * tl.sum({X}, axis=0), mask=here < n)"
    report = verdict(made(define, body))
    assert "has a mask and no `other`" in str(report)


def test_a_single_other_of_zero_is_one(define: Any) -> None:
    one = "tl.load(x_ptr + n, mask=n < 0, other=0.0)"
    report = verdict(made(define, ADD.format(f"{X} + {Y} + {one}")))
    assert report.score == report.max_score
    report = verdict(made(define, ADD.format(f"{X} + {Y} + {one.replace(', other=0.0', '')}")))
    assert "has a mask and no `other`" in str(report)


def test_an_error_in_the_kernel_names_its_line(define: Any) -> None:
    report = verdict(made(define, ADD.format(f"{X} + tl.arange(0, 3)")))
    assert "vector_add_kernel" in report.findings[0].message
    assert "raised ValueError" in report.findings[0].message


def test_a_launch_is_compiled_with_its_own_types(define: Any) -> None:
    x = torch.ones(20, dtype=torch.float16)
    (launch,) = local(answers.vector_add).run((x, x, 16), trace="events").trace
    assert launch["types"] == {"x_ptr": "*fp16", "y_ptr": "*fp16", "out_ptr": "*fp16", "n": "i32"}
    assert launch["constants"] == {"BLOCK": 16}
    assert [type_name(v) for v in (True, 2**40, 0.5, None)] == ["i1", "i64", "fp32", ""]
    assert plain_constant(tl.float32) == "tl.float32"


def test_a_stray_launch_by_hand_harms_nobody_and_is_told(
    define: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime.interpreter import GridExecutor

    monkeypatch.setattr(GridExecutor, "__call__", GridExecutor.__call__)  # put back afterwards
    told: list[Any] = []
    watching.watch(told.append)
    both = torch.zeros(8)
    body = "tl.store(out_ptr + 4 * 10**9 + tl.arange(0, BLOCK), 1.0)"
    made(define, body)(both[:4], both[:4], 4)
    assert [event["kind"] for event in told[0]["events"]] == ["outside write"]
    assert both.tolist() == [0.0] * 8
    with traced() as mine:
        made(define, body)(both[:4], both[:4], 4)
    assert len(told) == 1, "a tracer of its own tells by itself"
    assert len(mine.launches) == 1
    assert not tracer.active()


def test_without_triton_nothing_is_said_of_an_answer() -> None:
    code = """
import sys
sys.modules["triton"] = None
import attend.kernels
import torch, triton
import triton.language as tl
from attend_grader import check, ready

@triton.jit
def vector_add_kernel(x_ptr, BLOCK: tl.constexpr):
    pass

def vector_add(x, y, block=16):
    vector_add_kernel[(1,)](x, BLOCK=block)

print(ready(vector_add))
report = check(vector_add)
print(repr(report), report.status, report)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Triton is not installed" in done.stdout
    assert "cannot be checked here" in done.stdout
    assert "passed" not in done.stdout


def test_a_slip_that_loses_more_is_not_named(define: Any) -> None:
    exercise = chapters.exercise("17_triton/copy_strided")
    text = "\n\n\n".join(definitions(exercise.reference))
    assert text.count("*x.stride()") == 1
    edited = text.replace("*x.stride()", "*(max(step, 1) for step in x.stride())")
    report = judge(local(define(edited, "copy_strided", **NAMES)), exercise, 1, extra=False)
    lost = [finding.property for finding in report.findings if not finding.passed]
    assert lost == ["the kernel reads any view where it lies, and the result is contiguous"]
    assert report.diagnosis is None, "a mask that is missing would show in memory, too"


def test_where_asking_for_gradients_raises_values_are_not_called_right_alone() -> None:
    exercise = chapters.exercise("19_triton_flash_backward/flash_attention")
    order = (("return dq, dk, dv", "return dk, dv, dq"),)
    report = grade(Slip("", order, "").applied(exercise.reference), exercise.id, 1)
    assert "invalid gradient" in str(report)
    assert str(report.symptom).endswith("calls tried; gradients are not, as marked below.")


PLANTED = {
    "vector_add": ("the store reaches past the end", "every program does the first block"),
    "copy_strided": ("one place for both accesses", "only rows are masked"),
    "fused_softmax": ("masked lanes count as scores of 0", "the load reaches past the row's end"),
    "padded_softmax": ("padding holds 0", "padding never written"),
    "long_softmax": ("the row is read three times", "last block left out of the sum"),
    "fused_layer_norm": ("a grid one row short", "sums in float16"),
    "fused_layer_norm_backward": ("all programs write the first partial sums",),
    "matmul": ("a grid of whole tiles only", "what lies past the inner size counts"),
    "fused_cross_entropy": ("sum not rescaled",),
}
"""Sixteen bugs: values, memory, races, bytes, grids, masks, types."""


@pytest.fixture(scope="module")
def notebooks() -> Iterator[Notebooks]:
    opened = Notebooks("17_triton")
    yield opened
    opened.parent.close()


@pytest.mark.deep
@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_named_in_the_jail_too(notebooks: Notebooks, name: str) -> None:
    from attend_grader.inside.kernels import whole_source

    exercise = chapters.exercise(f"17_triton/{name}")
    for slip in PLANTED[name]:
        wrong = exercise.misconceptions[slip]
        parts = whole_source(wrong).replace(f"def {wrong.__name__}(", f"def {name}(")
        verdicts = notebooks.grade(notebooks.with_answers({name: parts}))
        here = grade(wrong, exercise.id, 7)
        report = verdicts[name].report
        assert report is not None
        assert report.diagnosis == here.diagnosis == slip
