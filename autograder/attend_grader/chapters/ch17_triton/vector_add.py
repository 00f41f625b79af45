"""Exercise 17_triton/vector_add: the first kernel, one block a program."""

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
    Case,
    blocks_as_asked,
    kernel_properties,
    many,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, n: int, block: int) -> Case:
    x, y = normal(rng, n), normal(rng, n)
    return f"{many(n, 'element')} in blocks of {block}", Call((x, y, block)), x + y


def _even(rng: np.random.Generator) -> Iterator[Case]:
    for n, block in ((64, 16), (32, 32), (8, 2), (3, 1)):
        yield _case(rng, n, block)


def _counted(rng: np.random.Generator) -> Iterator[Case]:
    yield from _even(rng)
    yield _case(rng, 8192, 4096)


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    for n, block in ((37, 16), (1, 8), (5, 8), (33, 32), (700, 512)):
        yield _case(rng, n, block)


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    for n, block in ((4 * 16_384 + 1, 16_384), (LONG, 32_768), (300, 4)):
        yield _case(rng, n, block)


def _bytes(call: Call) -> int:
    return 3 * call.args[0].numel() * call.args[0].element_size()


def draws(rng: np.random.Generator) -> list[Call]:
    """Whole blocks, one block, a ragged end, one element, many."""
    sizes = ((37, 16), (64, 16), (16, 16), (1, 8), (30, 4), (2100, 512))
    return [_case(rng, n, block)[1] for n, block in sizes]


HERE = "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
MASKED = (", mask=inside", "")

SLIPS = (
    Slip(
        "a load reads past the end",
        (("tl.load(x_ptr + here, mask=inside)", "tl.load(x_ptr + here)"),
         ("tl.load(y_ptr + here, mask=inside)", "tl.load(y_ptr + here)")),
        "Where the last block reaches past the end, a load reads what lies there. Each load "
        "needs a mask that is False there.",
    ),
    Slip(
        "the store reaches past the end",
        ("tl.store(out_ptr + here, x + y, mask=inside)", "tl.store(out_ptr + here, x + y)"),
        "Where a later block reaches past the end, it writes into whatever lies behind the "
        "output. The store needs a mask that is False there.",
    ),
    Slip(
        "every program does the first block",
        (HERE, "tl.arange(0, BLOCK)"),
        "Only the first block is written, as if all programs worked on it. Program p should begin "
        "at p * BLOCK.",
    ),
    Slip(
        "programs one element apart",
        (HERE, "tl.program_id(0) + tl.arange(0, BLOCK)"),
        "Program p begins at element p. It should begin at p * BLOCK.",
    ),
    Slip(
        "last element left out",
        ("here < n", "here < n - 1"),
        "The last element gets no sum. Let all indices below n through the masks.",
    ),
    Slip(
        "one element too many",
        ("here < n", "here <= n"),
        "The mask lets element n through, which is one past the end: indices run from 0 to n − 1.",
    ),
    Slip(
        "subtracts",
        ("x + y", "x - y"),
        "The second vector is subtracted.",
    ),
    Slip(
        "adds x to itself",
        ("tl.load(y_ptr + here", "tl.load(x_ptr + here"),
        "The result is 2x. It should be x + y.",
    ),
)  # fmt: skip


@triton.jit
def _masked_value_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    x_ptr += start
    y_ptr += start
    lane = tl.arange(0, BLOCK)
    total = tl.load(x_ptr + lane, mask=lane < n - start, other=0.0)
    total += tl.load(y_ptr + lane, mask=lane < n - start, other=0.0)
    tl.store(out_ptr + start + lane, total, mask=lane < n - start)


def moved_pointers(x, y, block=16):
    """Pointers are moved to the block first."""
    out = x.new_empty(x.shape)
    _masked_value_kernel[(-(-len(x) // block),)](x, y, out, len(x), block)
    return out


@triton.jit
def _strided_kernel(x_ptr, y_ptr, out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, PROGRAMS * BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) + tl.load(y_ptr + i, i < n), i < n)


def few_programs(x, y, block=16):
    """Two programs at most, each walks over its blocks."""
    out = torch.empty_like(x)
    programs = min(2, triton.cdiv(x.numel(), block))
    _strided_kernel[(programs,)](x, y, out, x.numel(), PROGRAMS=programs, BLOCK=block)
    return out


EXERCISE = Exercise(
    chapter="17_triton",
    title="One block a program",
    goal="Add two vectors, a block at a time.",
    reference=answers.vector_add,
    contract=Contract(
        arguments_unchanged=True,
        says=(
            f"Lengths up to {LONG:,}. Blocks are of `block` numbers, any power of two; at most 75 "
            "are needed.",
        ),
    ),
    properties=kernel_properties(
        ("whole blocks", _even),
        ("lengths that are no multiple of the block", _ragged),
        _bytes,
        more=(blocks_as_asked(_counted, 3, 4),),
        longest=_longest,
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"pointers moved": moved_pointers, "two programs for all": few_programs},
    hints=(
        "Which elements does program p own? Write their indices as a block of BLOCK numbers: the "
        "first is p * BLOCK.",
        "`tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)` are the indices; `x_ptr + indices` the "
        "addresses. Which of the indices may be used?",
        "inside = indices < n. Load x and y with mask=inside, store their sum with mask=inside.",
    ),
    minutes=8,
    difficulty=1,
    importance=5,
)
