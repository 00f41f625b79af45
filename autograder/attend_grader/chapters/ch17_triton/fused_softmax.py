"""Exercise 17_triton/fused_softmax: a row a program, one reading and one writing."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton as answers
from attend_solutions.interpreted import tl, triton

from attend_grader.chapters.ch17_triton.shared import (
    LONG,
    LOWEST,
    MANY,
    ROWS,
    SOFTMAX,
    Case,
    calls,
    kernel_properties,
    many,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.kernels import right_values
from attend_grader.checks.torch_numbers import normal


def case(x: torch.Tensor, why: str = "", *options: int) -> Case:
    """A call with its right answer."""
    why = why or f"{many(x.shape[0], 'row')} of {x.shape[1]}"
    return why, Call((x, *options)), torch.softmax(x.double(), -1).float()


def _even(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((3, 8), (2, 16), (2, 1)):
        yield case(normal(rng, *shape))


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((4, 5), (2, 13), (1, 3), (2, 300)):
        yield case(normal(rng, *shape) - 3)


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield case(normal(rng, 1, LONG) + 80, f"1 row of {LONG}, scores near 80")
    yield case(normal(rng, MANY, 2))


def _large(rng: np.random.Generator) -> Iterator[Case]:
    yield case(normal(rng, 3, 6) + 200, "scores near 200")
    yield case(normal(rng, 3, 6) - 200, "scores near −200")
    yield case(normal(rng, 3, 6) + 1e5, "scores near 100,000")
    yield case(1e18 * normal(rng, 2, 6) - 1e20, "scores near −10²⁰")
    yield case(torch.full((2, 3), -1e32), "scores of −10³²")
    yield case(torch.full((2, 3), 1e8), "equal scores of 10⁸")
    yield case(torch.full((2, 3), LOWEST), "float32's lowest score everywhere")
    apart = torch.tensor([200.0, -200.0, 0.0, 199.0, -150.0])
    yield case(normal(rng, 2, 5) + apart, "scores from −200 to 200")
    yield case(normal(rng, 2, 5) - apart, "scores from −200 to 200, the lowest first")


def _bytes(call: Call) -> int:
    return 2 * call.args[0].numel() * call.args[0].element_size()


def draws(rng: np.random.Generator) -> list[Call]:
    """Whole blocks and ragged ones, negative and large scores."""
    return [*calls(_ragged, rng), *calls(_even, rng), *calls(_large, rng)]


LOAD = 'mask=inside, other=-float("inf"))'

SLIPS = (
    Slip(
        "masked lanes count as scores of 0",
        (LOAD, "mask=inside, other=0.0)"),
        "Lanes past the row's end hold 0, and each adds exp(0 − maximum) to the sum. They must "
        "hold −∞, whose exponential is 0.",
    ),
    Slip(
        "masked lanes hold a low number",
        (LOAD, "mask=inside, other=-100.0)"),
        "Masked lanes hold a finite number such as −100. Where a row's scores are near it or "
        "lower, these lanes take weight from it. Only −∞ takes none.",
    ),
    Slip(
        "masked lanes hold a very low number",
        (LOAD, "mask=inside, other=-1e9)"),
        "Masked lanes hold a finite number such as −10⁹. Where a row's scores are near it or "
        "lower, these lanes take weight from it. Only −∞ takes none.",
    ),
    Slip(
        "the load reaches past the row's end",
        (f"column, {LOAD}", "column)"),
        "Lanes past the row's end read the next row or, in the last row, past the end. The load "
        "needs a mask that is False there.",
    ),
    Slip(
        "maximum not subtracted",
        ("scores - tl.max(scores, axis=0)", "scores"),
        "exp of a large score overflows to inf, and of a very low one is 0; inf / inf and 0 / 0 "
        "are NaN. Subtract the row's maximum.",
    ),
    Slip(
        "not divided by the sum",
        ("    weights = weights / tl.sum(weights, axis=0)\n", ""),
        "Weights are not divided by the row's sum.",
    ),
    Slip(
        "rows a block apart",
        ("tl.program_id(0) * columns", "tl.program_id(0) * BLOCK"),
        "Row r begins at r · BLOCK. It should begin at r · columns: rows lie one behind the other.",
    ),
    Slip(
        "only the first row is done",
        ("tl.program_id(0) * columns", "0"),
        "Only the first row is written, as if all programs worked on it, or a mask hid the others. "
        "Program r should write row r.",
    ),
    Slip(
        "the store reaches past the row's end",
        ("weights, mask=inside)", "weights)"),
        "Lanes past the row's end write into the next row or, in the last row, past the end. The "
        "store needs a mask that is False there.",
    ),
)


@triton.jit
def _finite_kernel(x_ptr, out_ptr, columns, LEAST: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + column
    z = tl.load(x_ptr + at, column < columns, other=LEAST)
    z -= tl.max(z, 0)
    e = tl.where(column < columns, tl.exp(z), 0.0)
    tl.store(out_ptr + at, e / tl.sum(e, 0), column < columns)


def finite_sentinel(x):
    """Float32's lowest number for −inf, and masked weights set to 0."""
    out = torch.empty(x.shape)
    block = triton.next_power_of_2(x.shape[1])
    _finite_kernel[(len(x),)](x, out, x.shape[1], LOWEST, BLOCK=block)
    return out


@triton.jit
def _rows_kernel(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    live = (row < rows) & (column < columns)
    z = tl.load(x_ptr + row * columns + column, mask=live, other=-float("inf"))
    z = tl.where(row < rows, z, 0.0)
    e = tl.exp(z - tl.max(z, 1)[:, None])
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, 1)[:, None], mask=live)


def several_rows(x):
    """Two rows a program."""
    out = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    _rows_kernel[(triton.cdiv(len(x), 2),)](x, out, *x.shape, ROWS=2, BLOCK=block)
    return out


EXERCISE = Exercise(
    chapter="17_triton",
    title="A row a program",
    goal="Turn each row of scores into weights, reading it once and writing it once.",
    reference=answers.fused_softmax,
    contract=Contract(
        arguments_unchanged=True,
        forbids=SOFTMAX,
        says=(f"Scores of any size. {ROWS} The kernel reads `x` itself.",),
    ),
    properties=kernel_properties(
        ("rows that fill the block", _even),
        ("rows that do not fill the block, negative scores", _ragged),
        _bytes,
        more=(right_values("scores near 200, near −200, and both in one row", _large),),
        arrays=2,
        beside=(),
        longest=_longest,
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"a finite sentinel": finite_sentinel, "two rows a program": several_rows},
    hints=(
        "Which lanes of the block belong to no element of the row? What must they hold so that "
        "they change neither the maximum nor the sum?",
        '`other=-float("inf")` in the load. Then the largest score, the exponentials of the '
        "differences, their sum.",
        "start = program_id(0) * columns; load x_ptr + start + column with mask and other; "
        "exp(scores - tl.max(scores, axis=0)); divide by tl.sum(…, axis=0); store with the mask.",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
)
