"""Exercise 19_triton_flash_backward/flash_delta: one number for each query."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton_flash_backward as answers

from attend_grader.chapters.ch19_triton_flash_backward.shared import (
    Case,
    Cases,
    Size,
    as_edits,
    usual,
)
from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import (
    clean_memory,
    compiles_as_launched,
    launched,
    right_values,
    within_budget,
)
from attend_grader.checks.subject import Subject

WHOLE = ((1, 32, 16, 16), (2, 16, 32, 16), (3, 64, 16, 32))
RAGGED = ((2, 21, 16, 16), (1, 1, 16, 16), (3, 5, 32, 32), (2, 33, 64, 16))
WIDE = (1, 17, 128, 32)
LONGEST = ((64, 1, 16, 16), (1, 1024, 16, 16))
"""H, T, D, BLOCK_T."""


def _case(out: torch.Tensor, d_out: torch.Tensor, block: int, why: str = "") -> Case:
    h, t, d = out.shape
    right = (out.double() * d_out.double()).sum(-1).float()
    return why or f"{h} × {t} queries, width {d}", Call((out, d_out, block)), right


def _inputs(rng: np.random.Generator, h: int, t: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    q, _, _, d_out = usual(rng, Size(h, t, 1, d))
    return q, d_out


def _at(*sizes: tuple[int, int, int, int]) -> Cases:
    def make(rng: np.random.Generator) -> Iterator[Case]:
        for h, t, d, block in sizes:
            yield _case(*_inputs(rng, h, t, d), block)

    return make


def _half(rng: np.random.Generator) -> Iterator[Case]:
    out, d_out = _inputs(rng, 2, 5, 32)
    yield _case(200 + out, (100 + d_out).half(), 16, "a gradient in float16, products of 20,000")
    yield _case((200 + out).half(), 100 + d_out, 16, "an output in float16, products of 20,000")
    for width in (16, 32, 64, 128):
        out, d_out = _inputs(rng, 2, 5, width)
        why = f"both in float16, width {width}"
        yield _case((200 + out).half(), (100 + d_out).half(), 16, why)


def _compiled(rng: np.random.Generator) -> Iterator[Case]:
    out, d_out = _inputs(rng, 1, 64, 64)
    yield _case(out, d_out.half(), 64)


MEMORY = _at(*WHOLE, *RAGGED)
GRIDS = _at((2, 21, 16, 16), (3, 37, 16, 32), (1, 32, 16, 16), *LONGEST)


def _bytes(call: Call) -> int:
    return 4 * (2 * call.args[0].numel() + call.args[0][..., 0].numel())


def _one_grid(subject: Subject, probe: Probe) -> None:
    """One launch, whose grid has the tiles of each head's queries along its first axis."""
    for why, call, _ in GRIDS(probe.rng):
        (h, t, _), block = call.args[0].shape, call.args[2]
        launches = launched(subject, probe, call).trace
        given = probe.given(call.args, call.kwargs)
        if len(launches) > 1:
            text = f"{len(launches)} launches were made: the grid's second axis takes all heads."
            raise Miss(text, topic="launches").on(given, why)
        grid, want = launches[0]["grid"], [-(-t // block), h, 1]
        if grid != want:
            text = (
                f"the grid is {tuple(grid)}, expected {tuple(want)}: {want[0]} tiles of {block} "
                f"queries, {h} heads."
            )
            missing = math.prod(want) - math.prod(grid)  # tells slips apart, as the case does
            raise Miss(text, topic=f"grid {np.sign(missing)} {why}").on(given, why)


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, whole; one head, one query."""
    sizes = ((3, 21, 16, 16), *RAGGED[1:3], (1, 33, 16, 16), (3, 1, 16, 16), WHOLE[1])
    return [_case(*_inputs(rng, h, t, d), block)[1] for h, t, d, block in sizes]


ROW = "row = tl.program_id(1) * T + t"
OUT = "out = tl.load(out_ptr + places, mask=t[:, None] < T, other=0.0)"
SUM = "delta = tl.sum(out.to(tl.float32) * d_out.to(tl.float32), axis=1)"
STORE = "tl.store(delta_ptr + row, delta, mask=t < T)"

SLIPS = (
    Slip(
        "only the first head's rows are written",
        (ROW, "row = t"),
        "No head but the first has its rows written. Begin head h's at row h · T, let masks "
        "compare t with T, not that row, and launch programs for all H heads.",
    ),
    Slip(
        "every head stores where the first one does",
        (STORE, "tl.store(delta_ptr + t, delta, mask=t < T)"),
        "Rows are read from each head and stored to the first one's places. Head h's should begin "
        "at h · T.",
    ),
    Slip(
        "stored past a head's last row",
        (STORE, "tl.store(delta_ptr + row, delta)"),
        "Where T is no multiple of the block, the last program of a head writes behind its last "
        "row: into the next head's first, or behind the buffer. The store needs the mask t < T.",
    ),
    Slip(
        "the sum in the inputs' type",
        (SUM, "delta = tl.sum(out * d_out, axis=1).to(d_out.dtype)"),
        "With float16 inputs the products, or their sum, become float16, whose largest number is "
        "65,504. Convert both inputs to tl.float32 before you multiply, and leave the sum float32.",
    ),
    Slip(
        "the mean in the place of the sum",
        (SUM, f"{SUM} / D"),
        "The sum is divided by the width. Delta should be the sum over the columns itself.",
    ),
    Slip(
        "the sum of the gradient alone",
        (SUM, "delta = tl.sum(d_out.to(tl.float32), axis=1) + 0 * tl.sum(out, axis=1)"),
        "The gradient is summed without the output. Multiply number by number first.",
    ),
    Slip(
        "queries of the first tile only",
        ("t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)", "t = tl.arange(0, BLOCK_T)"),
        "Rows of each head's first tile alone are written, as if every program took it, or no "
        "other were launched. Tile i should begin at i · BLOCK_T, and belong to program i.",
    ),
    Slip(
        "a grid that leaves out the last tile",
        ("triton.cdiv(T, block_t), H", "max(1, T // block_t), H"),
        "Behind the first tile, a partly empty one is not written, as if it had no program: T // "
        "block_t rounds down, triton.cdiv up.",
    ),
    Slip(
        "the grid's axes exchanged",
        ("triton.cdiv(T, block_t), H", "H, triton.cdiv(T, block_t)"),
        "The kernel takes tiles from the first axis and heads from the second; in the grid it is "
        "the other way round. The grid should be (tiles, heads).",
    ),
    Slip(
        "one program too many",
        ("triton.cdiv(T, block_t), H", "T // block_t + 1, H"),
        "Where T is a multiple of the block there is a program without a query. triton.cdiv "
        "rounds up only where it must.",
    ),
)

ALTERNATIVES = as_edits(
    answers.flash_delta,
    {
        "pointers moved to the head": (
            (f"    {ROW}  # of all heads' rows, one under the other\n",
             "    out_ptr += tl.program_id(1) * T * D\n    d_out_ptr += tl.program_id(1) * T * D\n"
             "    delta_ptr += tl.program_id(1) * T\n    row = t\n"),
            (OUT, "out = tl.load(out_ptr + places, mask=(t < T)[:, None], other=1.0)"),
        ),
        "columns first": (
            ("places = row[:, None] * D + tl.arange(0, D)[None, :]",
             "places = row[None, :] * D + tl.arange(0, D)[:, None]"),
            (OUT, OUT.replace("t[:, None]", "t[None, :]")),
            ("tl.load(d_out_ptr + places, mask=t[:, None] < T, other=0.0)",
             "tl.load(d_out_ptr + places, mask=t[None, :] < T, other=0.0)"),
            (SUM, SUM.replace("axis=1", "axis=0")),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="19_triton_flash_backward",
    title="One number for each query",
    goal="Write δ, the sum of output times gradient, for each query of every head.",
    reference=answers.flash_delta,
    contract=Contract(
        arguments_unchanged=True,
        says=(
            "H is 1 to 64, T 1 to 1,024; D is 16, 32, 64 or 128.",
            "Arrays without gaps, each float32 or float16; sums and result are float32.",
            "Each number is read once; no program is without a query.",
        ),
    ),
    properties=(
        right_values("whole tiles", _at(*WHOLE)),
        right_values(
            "lengths that are no multiple of a tile", _at(*RAGGED, WIDE, *LONGEST), points=2
        ),
        right_values("float16 in, float32 in the sums", _half, same_types=True),
        clean_memory("stays inside its buffers; no two programs write one place", MEMORY, points=2),
        within_budget("reads each number once", MEMORY, _bytes, factor=1, once=True),
        Property("one launch: a program for each tile of each head", 1, _one_grid),
        compiles_as_launched("compiles for an H100", _compiled),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "The heads lie one under the other: row t of head h is row h · T + t of a matrix with "
        "H · T rows and D columns. But what ends at T is t, not that row.",
        "t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T); row = tl.program_id(1) * T + t. "
        "Load two tiles at row[:, None] * D + columns[None, :], with the mask t[:, None] < T.",
        "delta = tl.sum(out.to(tl.float32) * d_out.to(tl.float32), axis=1), stored at delta_ptr + "
        "row with the mask t < T. The grid is (triton.cdiv(T, block_t), H).",
    ),
    minutes=10,
    difficulty=2,
    importance=4,
)
