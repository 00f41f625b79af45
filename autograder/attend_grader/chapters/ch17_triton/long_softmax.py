"""Exercise 17_triton/long_softmax: rows longer than a block, with a running maximum and sum."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton as answers
from attend_solutions.interpreted import tl, triton

from attend_grader.chapters.ch17_triton.fused_softmax import case
from attend_grader.chapters.ch17_triton.shared import (
    LONG,
    LOWEST,
    MANY,
    ROWS,
    SOFTMAX,
    Case,
    blocks_as_asked,
    calls,
    kernel_properties,
    many,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.kernels import right_values
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, rows: int, columns: int, block: int) -> Case:
    why = f"{many(rows, 'row')} of {columns} in blocks of {block}"
    return case(3 * normal(rng, rows, columns) - 2, why, block)


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(rng, 1, 56, 8)


def _counted(rng: np.random.Generator) -> Iterator[Case]:
    yield from _longest(rng)
    yield _case(rng, 1, 7, 1)
    yield _case(rng, 1, 8192, 4096)


def _even(rng: np.random.Generator) -> Iterator[Case]:
    yield from _longest(rng)
    for sizes in ((2, 8, 8), (1, 4, 1)):
        yield _case(rng, *sizes)


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    for sizes in ((2, 21, 8), (3, 5, 8), (1, 1, 4)):
        yield _case(rng, *sizes)


def _farthest(rng: np.random.Generator) -> Iterator[Case]:
    block = 16_384
    later = 83.0 * (torch.arange(LONG) >= block)  # all of a softmax's sums overflow if not rescaled
    why = f"1 row of {LONG} in blocks of {block}, scores near 0, then near 83"
    yield case(normal(rng, 1, LONG) + later, why, block)
    yield _case(rng, 1, 600, 8)
    yield _case(rng, MANY, 2, 4)


def _climbing(rng: np.random.Generator) -> Iterator[Case]:
    steps = torch.arange(12.0) * 30
    yield case(normal(rng, 2, 12) + steps, "scores that climb by 30 from place to place", 4)
    yield case(normal(rng, 2, 12) - steps, "scores that fall by 30 from place to place", 4)
    yield case(normal(rng, 2, 6) - 200, "scores near −200, the last block not full", 4)
    yield case(1e18 * normal(rng, 2, 6) - 1e20, "scores near −10²⁰", 4)
    yield case(torch.full((1, 6), 1e8), "equal scores of 10⁸", 4)
    yield case(torch.full((1, 6), LOWEST), "float32's lowest score everywhere", 4)
    yield _case(rng, 1, 70, 1)


def _bytes(call: Call) -> int:
    return 3 * call.args[0].numel() * call.args[0].element_size()


def draws(rng: np.random.Generator) -> list[Call]:
    """Several blocks, ragged and not, one block, climbing scores."""
    return [*calls(_even, rng)[:1], *calls(_ragged, rng)[:2], *calls(_climbing, rng)]


FIRST = "    running_sum = 0.0\n    for first in range(0, columns, BLOCK):\n"
LOADED = 'other=-float("inf"))\n        new_max'
WEIGHTS = "tl.exp(scores - running_max) / running_sum"


@triton.jit
def _three_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    start, lane = tl.program_id(0) * columns, tl.arange(0, BLOCK)
    highest, total = -float("inf"), 0.0
    for first in range(0, columns, BLOCK):
        at = first + lane
        z = tl.load(x_ptr + start + at, at < columns, other=-float("inf"))
        highest = tl.maximum(highest, tl.max(z, axis=0))
    for first in range(0, columns, BLOCK):
        at = first + lane
        z = tl.load(x_ptr + start + at, at < columns, other=-float("inf"))
        total += tl.sum(tl.exp(z - highest), axis=0)
    for first in range(0, columns, BLOCK):
        at = first + lane
        z = tl.load(x_ptr + start + at, at < columns, other=-float("inf"))
        tl.store(out_ptr + start + at, tl.exp(z - highest) / total, at < columns)


def three_readings(x, block=16):  # noqa: D103 (what a learner is told is its slip's)
    out = torch.empty_like(x)
    _three_kernel[(len(x),)](x, out, x.shape[1], BLOCK=block)
    return out


SLIPS = (
    Slip(
        "sum not rescaled",
        ("running_sum * tl.exp(running_max - new_max)", "running_sum * 1.0"),
        "When a later block brings a larger score, the sum so far was measured from the old "
        "maximum. Multiply it by exp(old maximum − new maximum).",
    ),
    Slip(
        "the running maximum begins at 0",
        ('running_max = -float("inf")', "running_max = 0.0"),
        "Where all scores are very low the sum is 0, as if the running maximum began at 0. Begin "
        "at −∞, which masked lanes should hold, too.",
    ),
    Slip(
        "each block a softmax of its own",
        (WEIGHTS,
         "tl.exp(scores - tl.max(scores, axis=0)) / "
         "tl.sum(tl.exp(scores - tl.max(scores, axis=0)), axis=0)"),
        "The weights of each block add up to 1. Those of the whole row should.",
    ),
    Slip(
        "not divided by the sum",
        (WEIGHTS, "tl.exp(scores - running_max)"),
        "Weights are not divided by the row's sum.",
    ),
    Slip(
        "maximum of the last block",
        ("tl.maximum(running_max, tl.max(scores, axis=0))", "tl.max(scores, axis=0)"),
        "The running maximum is the last block's: it forgets larger scores before it, and where "
        "these are much larger the sums overflow.",
    ),
    Slip(
        "maximum and sum of the last block",
        (("tl.maximum(running_max, tl.max(scores, axis=0))", "tl.max(scores, axis=0)"),
         ("running_sum * tl.exp(running_max - new_max)", "0.0")),
        "The weights are measured by the last block alone: maximum and sum forget the blocks "
        "before it.",
    ),
    Slip(
        "weights measured from the last block's maximum",
        (("running_max = new_max", "running_max = new_max\n        last = tl.max(scores, axis=0)"),
         (WEIGHTS, "tl.exp(scores - last) / running_sum")),
        "The sum is measured from the row's maximum, the weights from the last block's. Both "
        "should take the row's.",
    ),
    Slip(
        "masked lanes count as scores of 0",
        (LOADED, "other=0.0)\n        new_max"),
        "Lanes past the row's end hold 0 and count as scores. They must hold −∞.",
    ),
    Slip(
        "last block left out of the sum",
        (FIRST, FIRST.replace("columns, BLOCK", "columns - BLOCK + 1, BLOCK")),
        "A last block that is not full is left out of maximum and sum. Mask it, and count it.",
    ),
    Slip(
        "only the first block in the sum",
        (FIRST, FIRST.replace("0, columns, BLOCK", "0, BLOCK, BLOCK")),
        "Maximum and sum come from the first block only.",
    ),
    Slip(
        "the row is read three times",
        three_readings,
        "Values are right, but each row is read three times, as if for maximum, sum and weights in "
        "turn. Take running maximum and running sum from one reading, the weights from a second.",
    ),
    Slip(
        "maximum not subtracted",
        ((" - new_max), axis=0)", "), axis=0)"),
         ("running_sum * tl.exp(running_max - new_max)", "running_sum"),
         (WEIGHTS, "tl.exp(scores) / running_sum")),
        "exp of a large score overflows, and of very low ones nothing is left. Subtract the "
        "running maximum.",
    ),
)  # fmt: skip


@triton.jit
def _lanes_kernel(x_ptr, out_ptr, columns, LEAST: tl.constexpr, BLOCK: tl.constexpr):
    start, lane = tl.program_id(0) * columns, tl.arange(0, BLOCK)
    highest = tl.full([BLOCK], LEAST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, columns, BLOCK):
        live = first + lane < columns
        z = tl.load(x_ptr + start + first + lane, live, other=LEAST)
        larger = tl.maximum(highest, z)
        total = total * tl.exp(highest - larger) + tl.where(live, tl.exp(z - larger), 0.0)
        highest = larger
    most = tl.max(highest, axis=0)
    whole = tl.sum(total * tl.exp(highest - most), axis=0)
    for first in range(0, columns, BLOCK):
        live = first + lane < columns
        z = tl.load(x_ptr + start + first + lane, live, other=0.0)
        tl.store(out_ptr + start + first + lane, tl.exp(z - most) / whole, live)


def lane_by_lane(x, block=16):
    """A running maximum and sum in each lane, merged at the end."""
    out = torch.empty_like(x)
    _lanes_kernel[(len(x),)](x, out, x.shape[1], LOWEST, BLOCK=block)
    return out


@triton.jit
def _behind_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * columns
    out_ptr += tl.program_id(0) * columns
    last = (tl.cdiv(columns, BLOCK) - 1) * BLOCK
    top, total = float("-inf"), 0.0
    for before in range(0, last + 1, BLOCK):
        at = last - before + tl.arange(0, BLOCK)
        z = tl.load(x_ptr + at, at < columns, other=float("-inf"))
        new = tl.maximum(tl.max(z), top)
        total = tl.sum(tl.exp(z - new)) + tl.exp(top - new) * total
        top = new
    for before in range(0, last + 1, BLOCK):
        at = last - before + tl.arange(0, BLOCK)
        z = tl.load(x_ptr + at, at < columns, other=0.0)
        tl.store(out_ptr + at, tl.exp(z - top) / total, at < columns)


def from_behind(x, block=16):
    """The last block first."""
    out = torch.empty_like(x)
    _behind_kernel[(len(x),)](x, out, x.shape[1], BLOCK=block)
    return out


EXERCISE = Exercise(
    chapter="17_triton",
    title="Rows longer than a block",
    goal="Weights of rows of any length, with two readings of a row.",
    reference=answers.long_softmax,
    contract=Contract(
        arguments_unchanged=True,
        forbids=SOFTMAX,
        says=(
            f"Blocks are of `block` numbers, up to 75 a row. {ROWS} Scores of any size. The "
            "kernel reads `x` itself.",
        ),
    ),
    properties=kernel_properties(
        ("rows of whole blocks", _even),
        ("rows that are no multiple of the block", _ragged),
        _bytes,
        counted="What is needed: each score is loaded twice, and each weight stored once.",
        points=1,
        arrays=2,
        beside=(4,),
        longest=_farthest,
        more=(
            blocks_as_asked(_counted, 2, 5),
            right_values(
                "scores that climb or fall by 30 from place to place, or are very low", _climbing
            ),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"lane by lane": lane_by_lane, "from the last block on": from_behind},
    hints=(
        "What do you have to remember of the blocks you have seen, so that you can go on without "
        "them? It is two numbers.",
        "For each block: the new maximum is that of the old one and the block's; the sum is the "
        "old sum times exp(old maximum − new maximum), plus the block's exponentials.",
        "for first in range(0, columns, BLOCK): load block `first + lane`, update both. Then the "
        "same loop again: load, exp(scores − maximum) / sum, store.",
    ),
    minutes=14,
    difficulty=3,
    importance=5,
)
