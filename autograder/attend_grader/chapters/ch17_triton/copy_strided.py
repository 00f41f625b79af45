"""Exercise 17_triton/copy_strided: a tile of two axes a program, from any view."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton as answers
from attend_solutions.interpreted import tl, triton

from attend_grader.chapters.ch17_triton.shared import (
    Case,
    blocks_as_asked,
    calls,
    kernel_properties,
)
from attend_grader.checks.compare import Miss, Tolerance, expect_close
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import launched, with_cause
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.torch_numbers import normal
from attend_grader.inside.views import memory_of, view_of

EXACT = Tolerance("exact", 0.0, "a copy changes no digit")


def _case(why: str, view: torch.Tensor, block: tuple[int, int]) -> Case:
    return why, Call((view, *block)), view.contiguous()


def _even(rng: np.random.Generator) -> Iterator[Case]:
    yield _case("whole tiles", normal(rng, 8, 16), (4, 8))
    yield _case("a transposed matrix, whole tiles", normal(rng, 8, 4).T, (4, 4))
    yield _case("every other column, whole tiles", normal(rng, 4, 16)[:, ::2], (4, 8))


def _counted(rng: np.random.Generator) -> Iterator[Case]:
    yield from _even(rng)
    yield _case("128 x 64 in tiles of 64 x 64", normal(rng, 128, 64), (64, 64))


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    yield _case("5 x 13 in tiles of 4 x 8", normal(rng, 5, 13), (4, 8))
    yield _case("a transposed matrix of 7 x 3", normal(rng, 3, 7).T, (4, 8))
    yield _case("every other column", normal(rng, 3, 10)[:, ::2], (2, 4))
    yield _case("one element", normal(rng, 1, 1), (4, 8))
    yield _case("float64", (normal(rng, 5, 3).double() / 3).T, (4, 8))
    yield _case("int8", (9 * normal(rng, 3, 4)).to(torch.int8), (2, 4))
    yield _case("float16", normal(rng, 3, 4).half(), (2, 4))
    yield _case("large whole numbers", _large(rng, 3, 5), (4, 8))


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield _case("3 x 300 in tiles of 4 x 64", normal(rng, 3, 300), (4, 64))
    yield _case("300 x 5 in tiles of 8 x 4", normal(rng, 300, 5), (8, 4))
    yield _case("5 x 300 in tiles of 4 x 8", normal(rng, 5, 300), (4, 8))


def _large(rng: np.random.Generator, rows: int, columns: int) -> torch.Tensor:
    """Whole numbers of which float32, and float64, would lose the last digits."""
    return 2**60 + (10 * normal(rng, rows, columns)).to(torch.int64)


VIEWS = (
    ("the left half of a matrix", 24, (3, 4), (8, 1), 0),
    ("one row, repeated: x.expand(3, 6)", 6, (3, 6), (0, 1), 0),
    ("one column, repeated: x.expand(4, 5)", 4, (4, 5), (1, 0), 0),
    ("rows that overlap: x.unfold(0, 4, 1)", 8, (5, 4), (1, 1), 0),
    ("rows 20,000 places apart", 60_000, (3, 5), (20_000, 1), 0),
    ("every other row of a transpose, from the second on", 42, (3, 6), (2, 7), 1),
)
"""What it is, elements stored, shape, strides, offset."""

COPIED = "your kernel never sees the view: it was copied before. Reading it is the kernel's part."


def _bytes(call: Call) -> int:
    return 2 * call.args[0].numel() * call.args[0].element_size()


def _where_it_lies(subject: Subject, probe: Probe) -> None:
    call = Call((normal(probe.rng, 3, 20)[:, ::4],))
    for launch in launched(subject, probe, call).trace:
        if any(b["storage"] > b["elements"] for b in launch["buffers"].values()):
            break
    else:
        raise probe.miss(COPIED, *call.args)
    for why, size, shape, strides, offset in VIEWS:
        stored = normal(probe.rng, size)
        args = stored, shape, strides, offset, 2, 4
        outcome = subject.run(args, launcher=f"{view_of.__module__}:{view_of.__name__}")
        given = f"x of shape {shape} with strides {strides}, tile_rows=2, tile_columns=4"
        if outcome.error is not None:
            raise SubjectError(outcome.error, given)
        if size not in [b["storage"] for n in outcome.trace for b in n["buffers"].values()]:
            raise Miss(COPIED, topic="copied").on(given, why)
        try:
            expect_close(outcome.value, stored.as_strided(shape, strides, offset), EXACT)
        except Miss as miss:
            made = Call(args, launcher=f"{view_of.__module__}:{view_of.__name__}")
            raise with_cause(miss, subject, made, outcome).on(given, why) from None
    stored = normal(probe.rng, 3, 5)
    outcome = subject.run((stored,), launcher=f"{memory_of.__module__}:{memory_of.__name__}")
    if outcome.error is not None:
        raise SubjectError(outcome.error, "the transpose of a 3 x 5 matrix")
    try:
        expect_close(outcome.value, stored.T.reshape(-1), EXACT)
    except Miss as miss:
        text = "in memory, the numbers of your result are not those of x row by row."
        raise Miss(text, miss.evidence, topic=text).on(
            "the transpose of a 3 x 5 matrix", ""
        ) from None


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged and whole, transposed, every other row; tall tiles."""
    found = [*calls(_even, rng)[1:], *calls(_ragged, rng)]
    return [*found, Call((normal(rng, 9, 2), 8, 1))]


ROW = "tl.program_id(0) * ROWS"
COLUMN = "tl.program_id(1) * COLUMNS"
READ = "row * row_stride + column * column_stride"

SLIPS = (
    Slip(
        "one place for both accesses",
        (READ, "row * columns + column"),
        "Numbers stand in the output as they stand in the memory of x. Read x with `row_stride` "
        "and `column_stride`, and write element (row, column) to place row · columns + column.",
    ),
    Slip(
        "float32 on the way",
        ("column, tile, mask", "column, tile.to(tl.float32), mask"),
        "Numbers pass through float32 on their way, which rounds large whole numbers and float64. "
        "Keep them in the type of x.",
    ),
    Slip(
        "strides exchanged",
        (READ, "row * column_stride + column * row_stride"),
        "The two strides are exchanged. Multiply rows by `row_stride`.",
    ),
    Slip(
        "output transposed",
        ("out_ptr + row * columns + column", "out_ptr + column * rows + row"),
        "The output is written column by column. Write element (row, column) to place row · "
        "columns + column.",
    ),
    Slip(
        "only rows are masked",
        ("(row < rows) & (column < columns)", "(row < rows) & (column >= 0)"),
        "Columns past the end are not masked out: a tile that reaches past the right edge goes on "
        "into the next row or, from the last row, past the end. Combine both masks by `&`: in the "
        "interpreter `and` keeps the second one alone.",
    ),
    Slip(
        "only columns are masked",
        ("(row < rows) & (column < columns)", "(row >= 0) & (column < columns)"),
        "Rows past the end are not masked out. Combine both masks by `&`: in the interpreter "
        "`and` keeps the second one alone.",
    ),
    Slip(
        "the mask does not ask for row and column",
        ("(row < rows) & (column", "(row < rows) | (column"),
        "Let an element through only if its row *and* its column exist: `&`. Without a mask, or "
        "where one of both is enough (`|`), others pass.",
    ),
    Slip(
        "program axes exchanged",
        ((ROW, "tl.program_id(9) * ROWS"), (COLUMN, "tl.program_id(0) * COLUMNS"),
         ("tl.program_id(9)", "tl.program_id(1)")),
        "Axis 0 of the grid counts tiles downwards and axis 1 to the right; yours are exchanged.",
    ),
    Slip(
        "columns not masked in the store",
        ("column, tile, mask=inside)", "column, tile)"),
        "The store does not mask out columns past the end: a tile that reaches past the right edge "
        "writes into the next row or, from the last row, past the end.",
    ),
)  # fmt: skip


@triton.jit
def _line_kernel(
    x_ptr, out_ptr, rows, columns, down, right, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    for i in range(ROWS):
        row = tl.program_id(0) * ROWS + i
        mask = (column < columns) & (row < rows)
        line = tl.load(x_ptr + row * down + column * right, mask)
        tl.store(out_ptr + row * columns + column, line, mask)


def line_by_line(x, tile_rows=4, tile_columns=8):
    """A loop over the tile's rows."""
    out = x.new_empty(x.shape)
    grid = (-(-x.shape[0] // tile_rows), -(-x.shape[1] // tile_columns))
    _line_kernel[grid](x, out, *x.shape, *x.stride(), tile_rows, tile_columns)
    return out


@triton.jit
def _flat_kernel(x_ptr, out_ptr, n, columns, down, right, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + i // columns * down + i % columns * right, mask=i < n)
    tl.store(out_ptr + i, value, mask=i < n)


def by_number(x, tile_rows=4, tile_columns=8):
    """One block of the output's elements a program, whatever row they are in."""
    out = torch.empty(x.shape, dtype=x.dtype)
    size = tile_rows * tile_columns
    _flat_kernel[(triton.cdiv(x.numel(), size),)](
        x, out, x.numel(), x.shape[1], *x.stride(), BLOCK=size
    )
    return out


EXERCISE = Exercise(
    chapter="17_triton",
    title="Two axes and strides",
    goal="Copy any view of a matrix into contiguous memory, one tile a program.",
    reference=answers.copy_strided,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        says=(
            "Any type of numbers; the result has the same. The kernel reads the view itself. Up "
            "to 300 rows and columns.",
        ),
    ),
    properties=kernel_properties(
        ("whole tiles", _even),
        ("ragged edges, strides, other types", _ragged),
        _bytes,
        tolerance=EXACT,
        longest=_longest,
        more=(
            Property(
                "the kernel reads any view where it lies, and the result is contiguous",
                1,
                _where_it_lies,
            ),
            blocks_as_asked(_counted, 2),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"line by line": line_by_line, "by number": by_number},
    hints=(
        "Write the row numbers of the tile as a column, `[:, None]`, and the column numbers as a "
        "row, `[None, :]`. What shape has their sum?",
        "Program (i, j) begins at row i * ROWS and column j * COLUMNS. Element (r, c) of x lies "
        "r * row_stride + c * column_stride elements after x_ptr; where in the output?",
        "inside = (row < rows) & (column < columns), for both accesses. The output's index is "
        "row * columns + column.",
    ),
    minutes=10,
    difficulty=2,
    importance=4,
)
