"""Exercise 17_triton/fused_layer_norm_backward: sums over rows that many programs share."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton as answers
from attend_solutions.interpreted import tl, triton
from torch.nn import functional

from attend_grader.chapters.ch17_triton.shared import (
    FINISHED,
    Case,
    calls,
    kernel_properties,
    many,
)
from attend_grader.checks.compare import Miss, Tolerance
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import launched
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

GRADIENT = Tolerance(
    "float32 gradients",
    3e-5,
    "differences of sums that nearly cancel; rounding is 6e-8 a term, rstd up to 10",
    absolute=1e-5,
)


def _case(rng: np.random.Generator, rows: int, columns: int, programs: int) -> Case:
    grad, x, weight = normal(rng, rows, columns), normal(rng, rows, columns), normal(rng, columns)
    x = x + 1
    leaves = [t.double().requires_grad_() for t in (x, weight, torch.zeros(columns))]
    out = functional.layer_norm(leaves[0], (columns,), *leaves[1:], 0.01)
    right = tuple(g.float() for g in torch.autograd.grad(out, leaves, grad.double()))
    mean = x.double().mean(1).float()
    rstd = (x.double().var(1, unbiased=False) + 0.01).rsqrt().float()
    why = f"{many(rows, 'row')} of {columns}, {many(programs, 'program')}"
    return why, Call((grad, x, weight, mean, rstd, programs)), right


def _even(rng: np.random.Generator) -> Iterator[Case]:
    for sizes in ((6, 8, 2), (4, 4, 1)):
        yield _case(rng, *sizes)


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    for sizes in ((7, 5, 3), (2, 300, 1), (2, 6, 4), (1, 2, 2), (11, 3, 11)):
        yield _case(rng, *sizes)


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(rng, 1, 600, 1)
    yield _case(rng, 40, 2, 1)
    yield _case(rng, 64, 2, 64)


def _bytes(call: Call) -> int:
    x, programs = call.args[1], call.args[5]
    rows, columns = x.shape
    return 4 * (3 * rows * columns + 5 * programs * columns + 2 * rows + 2 * columns)


def _sharing(subject: Subject, probe: Probe) -> None:
    """As many programs share the rows as an even share needs."""
    most_programs = list(_longest(probe.rng))[-1]
    for why, call, _ in (*_even(probe.rng), *_ragged(probe.rng), most_programs):
        rows, programs = len(call.args[0]), call.args[5]
        least = -(-rows // -(-rows // programs))
        first = launched(subject, probe, call).trace[0]
        made = math.prod(first["grid"])
        if made < least:
            text = f"the first launch has {many(made, 'program')}, expected {least} or more."
            raise Miss(text, topic="programs").on(probe.given(call.args, call.kwargs), why)
        share, columns = -(-rows // programs), call.args[1].shape[1]
        most = 4 * (share * (3 * columns + 2) + 3 * columns)
        if first["busiest"] > 1.3 * most:
            text = f"one program of the first launch moves {first['busiest']:,} bytes; "
            text += f"{many(share, 'row')} of {columns} are {most:,}."
            cause = "Does one program do the rows of others, or load what it summed before?"
            raise Miss(text, cause=cause, topic="share").on(
                probe.given(call.args, call.kwargs), why
            )


def draws(rng: np.random.Generator) -> list[Call]:
    """Rows that share evenly and not, more programs than rows, long rows."""
    wide = _case(rng, 5, 140, 2)[1]  # not only the launch with one program has long rows
    return [*calls(_ragged, rng), *calls(_even, rng), wide]


NORMED = "tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)"
DX = "(scaled - common - normed * along) * rstd"

SLIPS = (
    Slip(
        "all programs write the first partial sums",
        (("partial_ptr + 2 * program * columns", "partial_ptr"),
         ("partial_ptr + (2 * program + 1) * columns", "partial_ptr + columns")),
        "With several programs, places are added up that none of them wrote, as if all wrote to "
        "the same ones. Give each program rows of its own in `partial`, and add just those.",
    ),
    Slip(
        "only the first program's sums are added",
        ("partial_ptr + program * n + here", "partial_ptr + here"),
        "The first program's sums are added again and again. Read those of program p from p · n "
        "on.",
    ),
    Slip(
        "rows that do not share evenly are left out",
        ("range(program, rows, PROGRAMS)", "range(program, rows - rows % PROGRAMS, PROGRAMS)"),
        "Where there are more rows than programs, and no multiple of them, the last rows are left "
        "out.",
    ),
    Slip(
        "the mean of the gradients not subtracted",
        (DX, "(scaled - normed * along) * rstd"),
        "dx lacks the part that comes through the mean: subtract the row's mean of weight · grad.",
    ),
    Slip(
        "the part through the deviation left out",
        (DX, "(scaled - common) * rstd"),
        "dx lacks the part that comes through the deviation: subtract h · mean(weight · grad · h).",
    ),
    Slip(
        "dx not divided by the deviation",
        (DX, "(scaled - common - normed * along)"),
        "dx is not multiplied by rstd, the inverse deviation of its row.",
    ),
    Slip(
        "the weight left out of dx",
        ("scaled = grad * weight", "scaled = grad"),
        "dx ignores the weight. Put weight · grad for grad in it.",
    ),
    Slip(
        "means over the block's size",
        (("normed, axis=0) / columns", "normed, axis=0) / BLOCK"),
         ("scaled, axis=0) / columns", "scaled, axis=0) / BLOCK")),
        "For the means in dx the row's sums are divided by BLOCK. Divide them by `columns`.",
    ),
    Slip(
        "x for h in the weight's gradient",
        ("weight_sum += grad * normed", "weight_sum += grad * x"),
        "The weight's gradient sums grad · x. It should sum grad · h.",
    ),
    Slip(
        "gradients of weight and bias exchanged",
        ("return dx, sums[0], sums[1]", "return dx, sums[1], sums[0]"),
        "The second and third result are exchanged. Return the weight's gradient first.",
    ),
)  # fmt: skip


@triton.jit
def _blocks_kernel(g_ptr, x_ptr, w_ptr, m_ptr, r_ptr, dx_ptr, pw_ptr, pb_ptr, rows, n, EACH: tl.constexpr, SIZE: tl.constexpr):  # fmt: skip  # noqa: E501
    p, i = tl.program_id(0), tl.arange(0, SIZE)
    w = tl.load(w_ptr + i, i < n, other=0.0)
    dw, db = tl.zeros([SIZE], tl.float32), tl.zeros([SIZE], tl.float32)
    for k in range(EACH):
        row = p * EACH + k
        live = (i < n) & (row < rows)
        g = tl.load(g_ptr + row * n + i, live, other=0.0)
        x = tl.load(x_ptr + row * n + i, live, other=0.0)
        m, r = tl.load(m_ptr + row, row < rows, 0.0), tl.load(r_ptr + row, row < rows, 0.0)
        h = tl.where(live, (x - m) * r, 0.0)
        dh = g * w
        tl.store(dx_ptr + row * n + i, r * (dh - (tl.sum(dh) + h * tl.sum(dh * h)) / n), live)
        dw += g * h
        db += g
    tl.store(pw_ptr + p * n + i, dw, i < n)
    tl.store(pb_ptr + p * n + i, db, i < n)


@triton.jit
def _total_kernel(p_ptr, out_ptr, n, P: tl.constexpr, SIZE: tl.constexpr, PADDED: tl.constexpr):
    i, p = tl.arange(0, SIZE)[None, :], tl.arange(0, PADDED)[:, None]
    part = tl.load(p_ptr + p * n + i, (i < n) & (p < P), other=0.0)
    lane = tl.arange(0, SIZE)
    tl.store(out_ptr + lane, tl.sum(part, axis=0), lane < n)


def rows_in_blocks(grad, x, weight, mean, rstd, programs=4):
    """Neighbouring rows to a program; a tile of partial sums is added at once."""
    (rows, n), size = x.shape, triton.next_power_of_2(x.shape[1])
    each = triton.cdiv(rows, min(programs, rows))
    programs = triton.cdiv(rows, each)
    dx, dw, db = torch.empty_like(x), torch.empty(n), torch.empty(n)
    pw, pb = torch.empty(programs, n), torch.empty(programs, n)
    _blocks_kernel[(programs,)](
        grad, x, weight, mean, rstd, dx, pw, pb, rows, n, EACH=each, SIZE=size
    )
    padded = triton.next_power_of_2(programs)
    for partial, out in ((pw, dw), (pb, db)):
        _total_kernel[(1,)](partial, out, n, programs, size, padded)
    return dx, dw, db


@triton.jit
def _flat_sum_kernel(p_ptr, out_ptr, n, programs):
    i = tl.program_id(0)
    total = 0.0
    for p in range(programs):
        total += tl.load(p_ptr + p * n + i)
    tl.store(out_ptr + i, total)


def column_by_column(grad, x, weight, mean, rstd, programs=4):
    """Neighbouring rows to a program; one program adds one column of the partial sums."""
    (rows, n), size = x.shape, triton.next_power_of_2(x.shape[1])
    each = -(-rows // min(programs, rows))
    programs = -(-rows // each)
    dx, partial, total = x.new_empty(rows, n), x.new_empty(2, programs, n), x.new_empty(2, n)
    tensors = grad, x, weight, mean, rstd, dx, partial[0], partial[1]
    _blocks_kernel[(programs,)](*tensors, rows, n, EACH=each, SIZE=size)
    for k in range(2):
        _flat_sum_kernel[(n,)](partial[k], total[k], n, programs)
    return dx, *total


EXERCISE = Exercise(
    chapter="17_triton",
    title="Its gradient, with sums that programs share",
    goal="Gradients of x, weight and bias; each program sums its own rows first.",
    reference=answers.fused_layer_norm_backward,
    contract=Contract(
        arguments_unchanged=True,
        forbids=(*FINISHED, "triton.language.atomic_add"),
        instead="What each program sums goes to rows of its own, which a second kernel adds.",
        says=(
            "1 to 64 `programs` share the rows; there may be fewer rows. Rows have up to 600 "
            "columns.",
        ),
    ),
    properties=kernel_properties(
        ("rows that share evenly", _even),
        ("rows that do not, and fewer rows than programs", _ragged),
        _bytes,
        counted="What is needed: grad and x are loaded once, weight once by each program; "
        "partial sums are stored once and loaded once, and each result is stored once.",
        factor=1.3,
        points=1,
        tolerance=GRADIENT,
        longest=_longest,
        more=(Property("the rows are shared by `programs`", 1, _sharing),),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"neighbouring rows": rows_in_blocks, "column by column": column_by_column},
    hints=(
        "Which results does a row have for itself, and which are sums over all rows? Where may a "
        "program put its part of a sum, so that no other writes there?",
        "First kernel: for row in range(program, rows, PROGRAMS): store the row of dx, add to two "
        "vectors of BLOCK sums. After the loop store these in this program's rows of a buffer of "
        "programs × 2 × columns. Second kernel: add the programs' rows.",
        "dx = (g·w − mean(g·w) − normed · mean(g·w·normed)) · rstd. The launch takes "
        "min(programs, rows) programs, makes `partial` and the outputs with torch.empty, and "
        "starts both kernels one after the other.",
    ),
    minutes=25,
    difficulty=4,
    importance=4,
    results=("dx", "dweight", "dbias"),
)
