"""Exercise 17_triton/padded_softmax: repair a kernel whose masked lanes hold the wrong value."""

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
)
from attend_grader.checks.compare import Miss, as_array
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import launched
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal


def _case(why: str, x: torch.Tensor, lengths: list[int]) -> Case:
    length = torch.tensor(lengths)
    hidden = torch.arange(x.shape[1]) >= length[:, None]
    right = torch.softmax(x.double().masked_fill(hidden, -torch.inf), -1)
    return why, Call((x, length)), right.float()


def _full(rng: np.random.Generator) -> Iterator[Case]:
    yield _case("no padding", normal(rng, 3, 8), [8, 8, 8])
    yield _case("no padding, rows of 5", normal(rng, 2, 5), [5, 5])


def _padded(rng: np.random.Generator) -> Iterator[Case]:
    yield _case("rows of 8, padded", normal(rng, 4, 8), [3, 8, 1, 6])
    yield _case("all scores below 0", -normal(rng, 3, 7).abs() - 4, [2, 7, 5])
    yield _case("all scores above 0", normal(rng, 3, 6).abs() + 4, [1, 4, 6])
    yield _case("scores near −200", normal(rng, 2, 6) - 200, [3, 5])
    yield _case("scores near 200", normal(rng, 2, 6) + 200, [5, 2])
    yield _case("scores near −10²⁰", 1e18 * normal(rng, 2, 6) - 1e20, [3, 5])
    yield _case("scores far apart", 15 * normal(rng, 2, 7), [6, 4])
    yield _case("rows of 3,000", normal(rng, 2, 3000), [2900, 20])
    yield _case("rows of 40, of which few are left", normal(rng, 2, 40), [3, 7])
    yield _case("equal scores of 10⁸", torch.full((2, 6), 1e8), [3, 5])
    yield _case("float32's lowest score everywhere", torch.full((2, 6), LOWEST), [3, 5])


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(f"a row of {LONG:,}", normal(rng, 1, LONG), [LONG - 9])
    yield _case(f"{MANY} rows of 2", normal(rng, MANY, 2), [1, 2] * (MANY // 2))


TINY = (
    "A small weight is no 0. Does the padding hold a low number rather than −∞, or is a smallest "
    "weight set at the end?"
)


def _zeros(subject: Subject, probe: Probe) -> None:
    for why, call, _ in _padded(probe.rng):
        x, lengths = call.args
        got = as_array(launched(subject, probe, call).value)
        hidden = (torch.arange(x.shape[1]) >= lengths[:, None]).numpy()
        if got is None or got.shape != hidden.shape:
            raise Miss("the result does not have the shape of x.", topic="shape")
        wrong = got[hidden & (got != 0)]
        if wrong.size:
            small = bool((np.abs(wrong) < 1e-6).all())
            text = f"a weight in the padding is {wrong[0]:.3g}, expected exactly 0."
            cause = TINY if small else ""
            raise Miss(text, cause=cause).on(probe.given(call.args, call.kwargs), why)


def _bytes(call: Call) -> int:
    x, lengths = call.args
    return 4 * (int(lengths.sum()) + x.numel()) + 8 * len(x)


def _read(call: Call) -> int:
    return int(call.args[1].sum())


def draws(rng: np.random.Generator) -> list[Call]:
    """Padded rows, low and high scores, and full rows."""
    return [*calls(_padded, rng), *calls(_full, rng)]


LOAD = 'mask=lane < length, other=-float("inf"))'
BEYOND = 'z = tl.where(lane < columns, z, -float("inf"))'

SLIPS = (
    Slip(
        "padding holds 0",
        (LOAD, "mask=lane < length, other=0.0)"),
        "The padding counts as a score of 0, and so do lanes past the row's end: each adds "
        "exp(0 − maximum) to the sum. What number adds nothing?",
    ),
    Slip(
        "the kernel as it was",
        (LOAD, f"mask=lane < length, other=0.0)\n    {BEYOND}"),
        "This behaves as the kernel did before the repair: only the lanes past the row's end hold "
        "−∞. What does the padding hold, between `length` and `columns`?",
    ),
    Slip(
        "one place of padding too many",
        ("mask=lane < length", "mask=(lane <= length) & (lane < columns)"),
        "The first place of the padding counts as a score. Only places with lane < length should "
        "count.",
    ),
    Slip(
        "lane <= length",
        ("mask=lane < length", "mask=lane <= length"),
        "`lane <= length` lets one place too many count: the first of the padding or, where a full "
        "row does not fill the block, what lies behind it. Only those with lane < length should.",
    ),
    Slip(
        "padding holds a low number",
        (LOAD, "mask=lane < length, other=-1e6)"),
        "The padding holds a low number such as −10⁶. Where a row's scores are near it or lower, "
        "it takes weight from them. Only −∞ takes none.",
    ),
    Slip(
        "weights of the padding set to 0 at the end",
        ((LOAD, "mask=lane < length, other=0.0)"),
         ("e / tl.sum(e, axis=0), mask",
          "tl.where(lane < length, e / tl.sum(e, axis=0), 0.0), mask")),
        "The padding's own weights are 0, but maximum and sum still count masked lanes as scores "
        "of 0. They must hold −∞ before both.",
    ),
    Slip(
        "one place too few",
        ("mask=lane < length", "mask=lane < length - 1"),
        "The last score of each row is left out. All places with lane < length should count.",
    ),
    Slip(
        "length ignored",
        (LOAD, 'mask=lane < columns, other=-float("inf"))'),
        "The padding is read and gets weight. Only the first `length` places should count.",
    ),
    Slip(
        "rows read as if they were length apart",
        ("x_ptr + row * columns", "x_ptr + row * length"),
        "Rows of x are read as if each began `length` numbers after the one before, and the "
        "padding is part of a row, too: row r begins at place r · columns.",
    ),
    Slip(
        "padding never written",
        ("axis=0), mask=lane < columns)", "axis=0), mask=lane < length)"),
        "The output's padding is never written. Store its weights, 0, as well.",
    ),
    Slip(
        "maximum not subtracted",
        ("tl.exp(z - tl.max(z, axis=0))", "tl.exp(z)"),
        "exp of a large score overflows, and where all of a row are very low it is 0 for each. "
        "Subtract the row's maximum.",
    ),
)  # fmt: skip


@triton.jit
def _where_kernel(x_ptr, length_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    live = column < tl.load(length_ptr + row)
    z = tl.load(x_ptr + row * columns + column, mask=live, other=0.0)
    z = tl.where(live, z, float("-inf"))
    e = tl.exp(z - tl.max(z))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e), mask=column < columns)


def with_where(x, lengths):
    """−inf by tl.where, after the load."""
    out = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    _where_kernel[(len(x),)](x, lengths, out, x.shape[1], block)
    return out


@triton.jit
def _clean_kernel(x_ptr, length_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    live = column < tl.load(length_ptr + row)
    z = tl.load(x_ptr + row * columns + column, mask=live, other=-3.4028234663852886e38)
    e = tl.where(live, tl.exp(z - tl.max(z, axis=0)), 0.0)
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=column < columns)


def finite_sentinel(x, lengths):
    """Float32's lowest score, and its weight set to 0 before the sum."""
    out = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    _clean_kernel[(len(x),)](x, lengths, out, x.shape[1], block)
    return out


EXERCISE = Exercise(
    chapter="17_triton",
    title="Repair: rows with padding",
    goal="Find what the padding of each row does to its weights, and repair the kernel.",
    reference=answers.padded_softmax,
    contract=Contract(
        arguments_unchanged=True,
        forbids=SOFTMAX,
        says=(
            f"Lengths are 1 or more. {ROWS} Scores of any size. Weights in the padding are exactly "
            "0, and the padding is not read. The kernel reads `x` itself.",
        ),
    ),
    properties=kernel_properties(
        ("rows without padding", _full),
        ("rows with padding", _padded),
        _bytes,
        counted="What is needed: the first `length` scores of each row are loaded once, and each "
        "weight is stored once.",
        points=1,
        longest=_longest,
        reads=_read,
        arrays=3,
        beside=(torch.tensor([3, 5]),),
        more=(Property("weights in the padding are exactly 0", 1, _zeros),),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"by tl.where": with_where, "a finite sentinel": finite_sentinel},
    hints=(
        "Run it on one row: scores −5 and −5, then padding. Which weights come, and what do they "
        "add up to? What if the scores are +5?",
        "What do the lanes hold that the first load masks out, and what does exp make of it?",
        "The load's `other` must be −∞. Nothing else has to change.",
    ),
    minutes=6,
    difficulty=2,
    importance=4,
)
