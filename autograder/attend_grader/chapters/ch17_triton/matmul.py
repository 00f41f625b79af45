"""Exercise 17_triton/matmul: a tile of the product a program, the sum in steps."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton as answers
from attend_solutions.interpreted import tl, triton

from attend_grader.chapters.ch17_triton.shared import (
    FINISHED,
    FLOAT16,
    Case,
    calls,
    kernel_properties,
)
from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import compile_launch, expect_compiled, launched, right_values
from attend_grader.checks.probe import Test, begun_by
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal


def _case(
    rng: np.random.Generator, rows: int, inner: int, columns: int, *options: int, scale: float = 1
) -> Case:
    a, b = scale * normal(rng, rows, inner), scale * normal(rng, inner, columns)
    why = f"({rows}, {inner}) times ({inner}, {columns})"
    return why, Call((a, b, *options)), (a.double() @ b.double()).float()


def _even(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(rng, 32, 16, 16)
    yield _case(rng, 16, 48, 32, 16, 1, scale=200)  # past float16's 65,504


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(rng, 37, 20, 18, 16, 2)
    yield _case(rng, 1, 1, 1)
    yield _case(rng, 40, 18, 40, 32, 3)
    why, call, right = _case(rng, 5, 6, 4)
    call.args[0][2], right[2] = 0, 0  # a result of 0 is written, too
    yield f"{why}, a row of zeros", call, right


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(rng, 70, 5, 70, 64, 2)
    yield _case(rng, 2, 300, 3)
    yield _case(rng, 300, 5, 20)
    yield _case(rng, 20, 5, 300)


def _half(rng: np.random.Generator) -> Iterator[Case]:
    a, b = (normal(rng, *shape).half() for shape in ((8, 240), (240, 4)))
    a[:, :16], b[:16], a[:, -16:], b[-16:] = 8, 8, 8, -8  # 1024 first, -1024 last
    yield (
        "float16, sums of 240 products",
        Call((a, b)),
        (a.double() @ b.double()).half(),
    )
    first, then = torch.full((1, 128), 128.0).half(), torch.ones(128, 3).half()
    first[:, :64:16] = 129  # each step adds 2049, which float16 makes 2048; then takes 2048 away
    then[64:] = -1
    scale = torch.tensor([[1.0], [2.0], [0.5]])[torch.from_numpy(rng.permutation(3))].half()
    yield "float16, steps that cancel", Call((scale * first, then)), (4 * scale).expand(3, 3).half()


def _bytes(call: Call) -> int:
    (a, b), block = call.args[:2], [*call.args[2:], 16][0]
    (rows, inner), columns = a.shape, b.shape[1]
    loads = rows * inner * -(-columns // block) + inner * columns * -(-rows // block)
    return a.element_size() * (loads + rows * columns)


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged and whole tiles, several groups."""
    return [*calls(_ragged, rng), *calls(_even, rng), _case(rng, 5, 5, 5)[1]]


A_MASK = "(row < rows) & (right < inner)"
STEPS = "range(0, inner, STEP)"

SLIPS = (
    Slip(
        "only the last step's product",
        ("total += tl.dot", "total = tl.dot"),
        "Only the last step of the inner sum is left: add each step's product to the total.",
    ),
    Slip(
        "only the first step's product",
        (STEPS, "range(0, STEP, STEP)"),
        "Only the first step of the inner sum counts. Go on in steps of STEP up to `inner`.",
    ),
    Slip(
        "the last step left out",
        (STEPS, "range(0, inner - STEP + 1, STEP)"),
        "Where the inner size is no multiple of STEP, the rest is left out. Mask the last step, "
        "and count it.",
    ),
    Slip(
        "what lies past the inner size counts",
        ((A_MASK, "(row < rows)"), ("(down < inner) & (column < columns)", "(column < columns)")),
        "Lanes past the inner size go into the sum of the last step, whatever they hold. Both "
        "loads need a mask there, and other=0.0: without `other` masked lanes hold anything.",
    ),
    Slip(
        "the sum in float16",
        (
            'total += tl.dot(a, b, input_precision="ieee")',
            'total = (total + tl.dot(a, b, input_precision="ieee")).to(tl.float16).to(tl.float32)',
        ),
        "The running sum is rounded to float16 at each step. Keep it in float32; round once, at "
        "the store.",
    ),
    Slip(
        "a read with the product's width",
        ("a_ptr + row * inner + right", "a_ptr + row * columns + right"),
        "Rows of a are read as if they were `columns` numbers long. Take `inner` for them.",
    ),
    Slip(
        "b read as its transpose",
        ("b_ptr + down * columns + column", "b_ptr + down + column * inner"),
        "b is read as if it were stored column by column. Read element (k, column) at place k · "
        "columns + column.",
    ),
    Slip(
        "rows and columns of tiles exchanged",
        (("tile_row * BLOCK", "tile_other * BLOCK"), ("tile_column * BLOCK", "tile_row * BLOCK"),
         ("tile_other", "tile_column")),
        "Tile rows and tile columns are exchanged, which only a square grid of tiles forgives.",
    ),
    Slip(
        "a grid of whole tiles only",
        ("triton.cdiv(rows, block) * triton.cdiv(columns, block),)",
         "max(rows // block, 1) * max(columns // block, 1),)"),
        "The grid counts whole tiles only, so programs are missing where a ragged tile follows "
        "whole ones. Round both numbers up: triton.cdiv.",
    ),
    Slip(
        "tiles of 16 whatever block is",
        (("BLOCK=block", "BLOCK=16"),
         ("triton.cdiv(rows, block) * triton.cdiv(columns, block)",
          "triton.cdiv(rows, 16) * triton.cdiv(columns, 16)")),
        "As much is loaded as with tiles of 16, whatever `block` is. Take tiles of `block`.",
    ),
    Slip(
        "the store is not masked at every edge",
        ("element_ty), mask=inside)", "element_ty))"),
        "The store has no mask, or one that lets columns past the end through: a tile that reaches "
        "past the right edge writes into the next row or, from the last row, past the end.",
    ),
)  # fmt: skip


@triton.jit
def _plain_kernel(a_ptr, b_ptr, c_ptr, m, n, k, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    j = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for start in range(0, k, SIZE):
        s = start + tl.arange(0, SIZE)
        left = (i[:, None] < m) & (s[None, :] < k)
        under = (s[:, None] < k) & (j[None, :] < n)
        a = tl.load(a_ptr + i[:, None] * k + s[None, :], left, other=0.0)
        b = tl.load(b_ptr + s[:, None] * n + j[None, :], under, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    mask = (i[:, None] < m) & (j[None, :] < n)
    tl.store(c_ptr + i[:, None] * n + j[None, :], acc, mask)


def two_axes(a, b, block=16, group=2):
    """A grid of two axes, no groups, steps as long as the block."""
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    grid = (triton.cdiv(a.shape[0], block), triton.cdiv(b.shape[1], block))
    _plain_kernel[grid](a, b, out, a.shape[0], b.shape[1], a.shape[1], SIZE=block)
    return out


@triton.jit
def _outer_kernel(a_ptr, b_ptr, c_ptr, m, n, k, SIZE: tl.constexpr):
    across = tl.cdiv(n, SIZE)
    i = (tl.program_id(0) // across * SIZE + tl.arange(0, SIZE))[:, None]
    j = (tl.program_id(0) % across * SIZE + tl.arange(0, SIZE))[None, :]
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for s in range(k):
        a = tl.load(a_ptr + i * k + s, i < m, other=0.0).to(tl.float32)
        acc += a * tl.load(b_ptr + s * n + j, j < n, other=0.0).to(tl.float32)
    tl.store(c_ptr + i * n + j, acc, (i < m) & (j < n))


def outer_products(a, b, block=16, group=2):
    """A sum of outer products, without tl.dot."""
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    tiles = triton.cdiv(a.shape[0], block) * triton.cdiv(b.shape[1], block)
    _outer_kernel[(tiles,)](a, b, out, a.shape[0], b.shape[1], a.shape[1], SIZE=block)
    return out


def _all_digits(subject: Subject, probe: Probe) -> Test:
    """Expect float32 not to go to the tensor cores, which would cut its numbers to tf32."""
    small, wide = (_case(probe.rng, 16, 5, 16, block) for block in (16, 64))
    calls_made = [call for _, call, _ in (*list(_even(probe.rng))[:1], small, wide)]
    launches = [each for call in calls_made for each in launched(subject, probe, call).trace]
    for launch in launches:
        compile_launch(subject, launch, ahead=True)

    def test(subject: Subject, probe: Probe) -> None:
        del probe
        for launch in launches:
            report = compile_launch(subject, launch)
            expect_compiled(report)
            if any(report["products"].values()):
                raise Miss(
                    "compiled for an H100, float32 goes to the tensor cores, which cut it to 11 "
                    "binary digits (tf32). Triton also does that with products summed by tl.sum; "
                    '`input_precision="ieee"` in tl.dot keeps 24.',
                    topic="tf32",
                )

    return test


DIGITS = Property(
    "compiles for an H100, float32 with all its digits",
    1,
    begun_by(_all_digits),
    slow=True,
    begin=_all_digits,
)
VALUES = kernel_properties(
    ("whole tiles", _even),
    ("sizes that are no multiple of the tile", _ragged),
    _bytes,
    counted="What is needed: each program loads the numbers of a and b that its tile needs once, "
    "and stores its tile once.",
    longest=_longest,
    more=(right_values("float16, summed in float32", _half, tolerance=FLOAT16, same_types=True),),
)

EXERCISE = Exercise(
    chapter="17_triton",
    title="A matrix product in tiles",
    goal="Multiply two matrices, one tile of the product a program.",
    reference=answers.matmul,
    contract=Contract(
        arguments_unchanged=True,
        forbids=FINISHED,
        says=(
            "Sizes up to 300; `block` is 16, 32 or 64. The tiles come in any order. float32 keeps "
            "all its digits. float16 too, summed in float32; the result has the type of `a`.",
        ),
    ),
    properties=(*VALUES[:-1], DIGITS),
    draws=draws,
    slips=SLIPS,
    alternatives={"a grid of two axes": two_axes, "outer products": outer_products},
    hints=(
        "What does one tile of the product need of a and of b? All of some rows and all of some "
        "columns: more than fits, so take STEP of the inner size at a time.",
        "total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32). In each step load a tile of a "
        "(BLOCK × STEP) and of b (STEP × BLOCK), masked with other=0.0, and add tl.dot of both.",
        "Launch: a grid of one axis with cdiv(rows, block) * cdiv(columns, block) programs, "
        "BLOCK=block, STEP=16, GROUP=group; out = torch.empty(rows, columns, dtype=a.dtype).",
    ),
    minutes=20,
    difficulty=4,
    importance=5,
)
