"""Exercise 17_triton/fused_layer_norm: kernel and launch, and what the backward pass will need."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton as answers
from attend_solutions.interpreted import tl, triton
from torch.nn import functional

from attend_grader.chapters.ch17_triton.shared import (
    FINISHED,
    FLOAT16,
    LONG,
    MANY,
    ROWS,
    Case,
    calls,
    kernel_properties,
    many,
)
from attend_grader.checks.compare import Miss, Tolerance, expect_close
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import launched, right_values
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

NORMED = Tolerance(
    "float32, centred",
    2e-5,
    "x − mean loses the digits that the mean takes: means here are up to 100 deviations",
    absolute=5e-6,
)


def _case(why: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> Case:
    double = x.double()
    out = functional.layer_norm(double, x.shape[1:], weight.double(), bias.double(), eps)
    rstd = (double.var(1, unbiased=False) + eps).rsqrt()
    right = out.to(x.dtype), double.mean(1).float(), rstd.float()
    return why, Call((x, weight, bias, eps)), right


def _made(rng: np.random.Generator, rows: int, columns: int, eps: float = 1e-5) -> Case:
    x, weight, bias = normal(rng, rows, columns) + 2, normal(rng, columns), normal(rng, columns)
    return _case(f"{many(rows, 'row')} of {columns}", x, weight, bias, eps)


def _even(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((3, 8), (2, 16)):
        yield _made(rng, *shape)


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((4, 5), (1, 13), (5, 3)):
        yield _made(rng, *shape)
    yield _made(rng, 3, 1, 0.5)


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield _made(rng, 1, LONG)
    yield _made(rng, MANY, 2, 0.5)


def _small(rng: np.random.Generator) -> Iterator[Case]:
    x = 0.1 * normal(rng, 3, 6)
    yield _case("small deviations and a large eps", x, normal(rng, 6), normal(rng, 6), 0.1)
    yield _case("an eps of 0", 0.01 * x, normal(rng, 6), normal(rng, 6), 0.0)
    far = normal(rng, 3, 16) + 100
    yield _case("means of 100 deviations", far, normal(rng, 16), normal(rng, 16), 1e-5)
    same = torch.full((2, 4), 3.0)
    yield _case("rows of equal numbers", same, normal(rng, 4), normal(rng, 4), 0.01)


def _half(rng: np.random.Generator) -> Iterator[Case]:
    weight, bias = normal(rng, 60).half(), normal(rng, 60).half()
    yield _case("float16, means of 704.25", _between(rng, 2, 60), weight, bias, 1e-5)
    wide = (400 * normal(rng, 2, 60)).half()  # squares near 160,000; float16 ends at 65,504
    yield _case("float16, deviations near 400", wide, weight, bias, 1e-5)
    sign = torch.tensor([1.0, -1.0]).repeat(30)
    near, much = (sign + 0.004 * normal(rng, 2, 60)).half(), torch.full((60,), 1000.0).half()
    yield _case(
        "float16, y near 0 as a difference of 1,000s", near, much, -1000 * sign.half(), 1e-5
    )
    x, weight, bias = normal(rng, 2, 9).half(), normal(rng, 9), normal(rng, 9)
    yield _case("float16, weight and bias float32", x, weight, bias, 1e-5)


def _in_float32(subject: Subject, probe: Probe) -> None:
    """Float16 in and out, but mean and rstd have all digits of float32."""
    HALF.test(subject, probe)
    for why, call, want in _half(probe.rng):
        value = launched(subject, probe, call).value
        try:
            expect_close(value[1:], want[1:], NORMED, ("mean", "rstd"))
        except Miss as miss:
            halves = all(torch.equal(x, x.half().float()) for x in value[1:])
            cause = "Is it rounded to float16 before it is stored?" if halves else ""
            raise Miss(miss.text, miss.evidence, cause).on(
                probe.given(call.args, call.kwargs), why
            ) from None


def _between(rng: np.random.Generator, rows: int, columns: int) -> torch.Tensor:
    """Rows of float16 whose mean is no float16: half-way between 704 and 704.5.

    Float16 counts in halves there, so that a mean or a sum in float16 is off by 0.25 at least.
    """
    halves = (8 * normal(rng, rows, columns)).round().long()
    missing = columns // 2 - halves.sum(1, keepdim=True)
    halves += missing // columns + (torch.arange(columns) < missing % columns)
    return (704 + halves / 2).half()


HALF = right_values("float16", _half, tolerance=FLOAT16, same_types=True)


def _bytes(call: Call) -> int:
    x, weight, *_ = call.args
    rows, item = len(x), x.element_size()
    return item * (2 * x.numel() + 2 * rows * weight.numel()) + 8 * rows


def draws(rng: np.random.Generator) -> list[Call]:
    """Blocks that fit and that do not, a large eps."""
    made = [_made(rng, 4, 5), _made(rng, 3, 8), _made(rng, 2, 13, 0.1)]
    return [*(call for _, call, _ in made), *calls(_small, rng)[:1]]


CENTRED = "tl.where(inside, x - mean, 0.0)"
ROOT = "tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)"

SLIPS = (
    Slip(
        "masked lanes count in the deviation",
        (CENTRED, "x - mean"),
        "Masked lanes hold 0, and each adds (0 − mean)² to the sum of squares. Set them to 0 after "
        "the mean was subtracted (`tl.where`).",
    ),
    Slip(
        "divided by the block's size",
        (("axis=0) / columns\n    centred", "axis=0) / BLOCK\n    centred"),
         ("axis=0) / columns + eps", "axis=0) / BLOCK + eps")),
        "Sums are divided by BLOCK, which is larger than the row where the row does not fill it. "
        "Divide by the number of columns.",
    ),
    Slip(
        "n − 1 in the variance",
        ("axis=0) / columns + eps", "axis=0) / (columns - 1) + eps"),
        "The sum of squares is divided by C − 1. Divide it by C.",
    ),
    Slip(
        "eps beside the root",
        (ROOT, "(tl.sqrt(tl.sum(centred * centred, axis=0) / columns) + eps)"),
        "eps is added to the deviation. It belongs under the root, to the variance.",
    ),
    Slip(
        "no eps",
        (" / columns + eps)", " / columns)"),
        "eps is missing: add it to the variance, under the root.",
    ),
    Slip(
        "the weight left out",
        ("centred * rstd * weight + bias", "centred * rstd + bias"),
        "The result is not multiplied by the weight, column by column.",
    ),
    Slip(
        "the bias left out",
        ("centred * rstd * weight + bias", "centred * rstd * weight"),
        "The bias is not added. Add it last, after the weight.",
    ),
    Slip(
        "the deviation in place of its inverse",
        ("tl.store(rstd_ptr + row, rstd)", "tl.store(rstd_ptr + row, 1.0 / rstd)"),
        "The third result is the deviation. It should be 1 / deviation, which multiplies a row.",
    ),
    Slip(
        "sums in float16",
        (".to(tl.float32)", ""),
        "Right in float32; with float16 something is summed or rounded in float16 on the way. "
        "Load, then `.to(tl.float32)`, calculate; the store rounds back by itself.",
    ),
    Slip(
        "a grid one row short",
        ("layer_norm_kernel[(rows,)]", "layer_norm_kernel[(max(rows - 1, 1),)]"),
        "The last row gets no results, as if the grid had one program too few. Launch one a row.",
    ),
)  # fmt: skip


@triton.jit
def _squares_kernel(x_ptr, w_ptr, b_ptr, y_ptr, m_ptr, r_ptr, n, eps, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    live = i < n
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * n + i, live, other=0.0).to(tl.float32)
    mean = tl.sum(x) / n
    d = tl.where(live, x - mean, 0)
    rstd = tl.rsqrt(tl.sum(d * d) / n + eps)
    w, b = tl.load(w_ptr + i, live).to(tl.float32), tl.load(b_ptr + i, live).to(tl.float32)
    tl.store(y_ptr + row * n + i, d * rstd * w + b, live)
    tl.store(m_ptr + row, mean)
    tl.store(r_ptr + row, rstd)


def with_rsqrt(x, weight, bias, eps=1e-5):
    """rsqrt, and arguments in their places."""
    y, stats = torch.empty_like(x), torch.empty(2, len(x))
    size = triton.next_power_of_2(x.shape[1])
    _squares_kernel[(len(x),)](x, weight, bias, y, stats[0], stats[1], x.shape[1], eps, size)
    return y, stats[0], stats[1]


@triton.jit
def _many_kernel(x_ptr, w_ptr, b_ptr, y_ptr, m_ptr, r_ptr, rows, n, eps, P: tl.constexpr, SIZE: tl.constexpr):  # fmt: skip  # noqa: E501
    i = tl.arange(0, SIZE)
    w = tl.load(w_ptr + i, i < n)
    b = tl.load(b_ptr + i, i < n)
    for row in range(tl.program_id(0), rows, P):
        x = tl.load(x_ptr + row * n + i, i < n, other=0).to(tl.float32)
        mean = tl.sum(x, axis=0) / n
        d = (x - mean) * (i < n)
        rstd = 1 / tl.sqrt(tl.sum(d * d, axis=0) / n + eps)
        tl.store(y_ptr + row * n + i, d * rstd * w + b, i < n)
        tl.store(m_ptr + row, mean)
        tl.store(r_ptr + row, rstd)


def few_programs(x, weight, bias, eps=1e-5):
    """Two programs share the rows."""
    y, mean, rstd = torch.empty_like(x), x.new_empty(len(x), dtype=torch.float32), None
    rstd = torch.empty_like(mean)
    programs = min(2, len(x))
    size = triton.next_power_of_2(x.shape[1])
    sizes = len(x), x.shape[1], eps, programs, size
    _many_kernel[(programs,)](x, weight, bias, y, mean, rstd, *sizes)
    return y, mean, rstd


EXERCISE = Exercise(
    chapter="17_triton",
    title="Layer normalisation, and its launch",
    goal="Normalise each row, and keep what the backward pass will need.",
    reference=answers.fused_layer_norm,
    contract=Contract(
        arguments_unchanged=True,
        forbids=FINISHED,
        says=(
            ROWS,
            "float16 too: the first result has the type of `x`, sums are made in float32, mean "
            "and rstd are float32.",
        ),
    ),
    properties=kernel_properties(
        ("rows that fill the block", _even),
        ("rows that do not fill the block", _ragged),
        _bytes,
        counted="What is needed: each program loads its row, weight and bias once, and stores each "
        "of its results once.",
        tolerance=NORMED,
        longest=_longest,
        more=(
            right_values(
                "small deviations, a large eps, means of 100 deviations", _small, tolerance=NORMED
            ),
            Property("float16, summed in float32", 1, _in_float32),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"with rsqrt": with_rsqrt, "two programs for all rows": few_programs},
    hints=(
        "Write it for one row as in fused_softmax. Which of the lanes past its end change the "
        "mean, which the variance, and what must they hold each time?",
        "Load with other=0.0: the mean is right, as it divides by columns. x − mean is not 0 in "
        "those lanes: `tl.where(inside, x - mean, 0.0)`. The launch makes three outputs.",
        "The launch: out = torch.empty_like(x); mean and rstd = torch.empty(rows); "
        "layer_norm_kernel[(rows,)](…, BLOCK=triton.next_power_of_2(columns)).",
    ),
    minutes=16,
    difficulty=3,
    importance=4,
    results=("y", "mean", "rstd"),
)
