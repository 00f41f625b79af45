"""Exercise 25_mamba_kernels/segsum: sums of all segments, to the last digit."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba_kernels as answers

from attend_grader.chapters.ch25_mamba_kernels import READY_MADE
from attend_grader.chapters.ch25_mamba_kernels.shared import logs
from attend_grader.checks.compare import FLOAT32, expect_close
from attend_grader.checks.compare import FLOAT64 as WIDE
from attend_grader.checks.contract import FLOAT64
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, agrees, known, worked
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject

NONE = -math.inf


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for shape in ((5,), (2, 3, 4), (3, 3, 3), (2, 2), (1,)):
        yield "", Call((logs(rng, *shape),))


def _large(subject: Subject, probe: Probe) -> None:
    """Sums of small terms are compared by themselves: beside large ones they would not count."""
    small = logs(probe.rng, 12).double().round(decimals=2)
    terms_of = (
        (-900, (1,), torch.float32, FLOAT32),
        (-4e7, (1,), torch.float32, FLOAT32),
        (-1e12, (1,), torch.float32, FLOAT32),
        (-4e11, (1,), torch.float64, WIDE),
        (-4e7, (1, 4, 7, 10), torch.float32, FLOAT32),
        (-1e12, (1, 4, 7, 10), torch.float64, WIDE),
    )
    for size, places, dtype, tolerance in terms_of:
        many = len(places) > 1
        terms = small[: 12 if many else 7].to(dtype)
        terms[0], terms[list(places)] = -3.0, size
        number = f"{size:,.0f}".replace("-", "−")
        why = f"{'some terms are' if many else 'one term is'} {number} and the others are small"
        want = answers.segsum(terms.double()).to(dtype)
        got = probe.agree(subject, terms, want=want, tolerance=tolerance, why=why).value
        lost = (got - want).tril().abs() / want.abs().clamp(min=10).tril() * 10
        lost = lost.nan_to_num()  # 0 / 0 above the diagonal
        t, s = divmod(int(lost.argmax()), len(lost))
        if lost[t, s] > 40 * torch.finfo(got.dtype).eps:  # running sums lose half of it
            raise probe.miss(
                f"{why}: result[{t}, {s}] is {got[t, s]:.6g}, expected {want[t, s]:.6g}, although "
                f"{'no' if many else 'the'} large term is {'' if many else 'not '}in that "
                "segment. Let each entry add up its own terms.",
                terms,
            )
    terms = torch.full((100,), -0.25)
    terms[1], why = -4e7, "100 terms, one of which is −40,000,000"
    want = answers.segsum(terms.double()).float()[2:, 2:]
    got = probe.agree(subject, terms, why=why, tolerance=FLOAT32).value
    expect_close(got[2:, 2:], want, FLOAT32, "result[2:, 2:]")
    for dtype, tolerance in ((torch.float32, FLOAT32), (torch.float64, WIDE)):
        terms = torch.full((300,), -1e12, dtype=dtype)
        want = answers.segsum(terms.double()).to(dtype)
        why = "300 terms of −10¹², whose sums are finite"
        probe.agree(subject, terms, want=want, tolerance=tolerance, why=why)


def _empty(rng: np.random.Generator) -> Known:
    terms = logs(rng, 2, 6)
    terms[0, 2] = terms[1, 0] = terms[1, 5] = NONE
    want = torch.full((2, 6, 6), NONE)
    for row in range(2):
        for t in range(6):
            for s in range(t + 1):
                want[row, t, s] = sum(terms[row, s + 1 : t + 1].tolist())
    yield "a decay of 0: its logarithm is −inf", (terms,), want
    yield "one step, and its term −inf", (torch.full((2, 1), NONE),), torch.zeros(2, 1, 1)


def draws(rng: np.random.Generator) -> list[Call]:
    """Leading axes, one step, a term that swallows the others."""
    long = logs(rng, 4)
    long[1] = -4e7
    return [Call((logs(rng, *shape),)) for shape in ((2, 5), (3, 3), (1,), (2, 2, 4))] + [
        Call((long,))
    ]


SUMS = "terms.masked_fill(~below, 0.0).cumsum(dim=-2)"
RUNNING = "log_decay.cumsum(-1)[..., :, None] - log_decay.cumsum(-1)[..., None, :]"
HIDE = 'sums.masked_fill(below.mT, float("-inf"))'

SLIPS = (
    Slip(
        "differences of running sums",
        (SUMS, RUNNING),
        "Entries come out as differences of two running sums. After one large term these have "
        "fewer digits left for small ones, and −inf − (−inf) is NaN. Let each entry add up its "
        "own terms.",
    ),
    Slip(
        "the segment begins one step too early",
        (SUMS, f"{SUMS} + log_decay[..., None, :]"),
        "Entry (t, s) contains a_s too. What step s writes should not be faded by step s itself: "
        "begin the segment with a_{s+1}. The diagonal should be 0.",
    ),
    Slip(
        "0 above the diagonal",
        (HIDE, "sums.masked_fill(below.mT, 0.0)"),
        "Above the diagonal stands 0, so its exponential is 1: the past would read the future "
        "unfaded. There it must be −inf, whose exponential is 0.",
    ),
    Slip(
        "the diagonal is hidden too",
        (HIDE, 'sums.masked_fill(~below, float("-inf"))'),
        "The diagonal is −inf, so no step sees itself. It should be 0, the sum of no terms.",
    ),
    Slip(
        "transposed",
        (HIDE, 'sums.masked_fill(below.mT, float("-inf")).mT'),
        "The matrix is transposed. Row t should be the later step, column s the earlier one.",
    ),
    Slip(
        "a large negative number for −inf",
        (HIDE, "sums.masked_fill(below.mT, -1e9)"),
        "Above the diagonal stands a large negative number where −inf is asked for.",
    ),
    Slip(
        "decays instead of their logarithms",
        (HIDE, 'sums.masked_fill(below.mT, float("-inf")).exp()'),
        "Returned are the exponentials. segsum should return the sums; whoever calls it takes exp.",
    ),
)


def by_columns(log_decay):
    """One column after another, from where it begins."""
    tokens = log_decay.shape[-1]
    columns = []
    for s in range(tokens):
        hidden = log_decay.new_full((*log_decay.shape[:-1], s), NONE)
        own = torch.cat([torch.zeros_like(log_decay[..., :1]), log_decay[..., s + 1 :]], dim=-1)
        columns.append(torch.cat([hidden, own.cumsum(-1)], dim=-1))
    return torch.stack(columns, dim=-1)


def by_rows(log_decay):
    """Each row is the one before plus its own term."""
    tokens = log_decay.shape[-1]
    row = torch.full_like(log_decay, NONE)
    rows = []
    for t in range(tokens):
        place = torch.arange(tokens) == t
        row = torch.where(place, torch.zeros_like(row), row + log_decay[..., t : t + 1])
        rows.append(row)
    return torch.stack(rows, -2)


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="Sums of all segments",
    goal="Add up the log decays from each step to each later one, without losing digits.",
    reference=answers.segsum,
    contract=Contract(
        leading_axes=True,
        accepts=(FLOAT64,),
        views=True,
        same_dtype=True,
        arguments_unchanged=True,
        ranges={"log_decay": AS_DRAWN},
        forbids=READY_MADE,
        says=(
            "A term may be −inf, others reach −10¹².",
            "A large term costs other entries no digits.",
        ),
    ),
    properties=(
        worked(
            "the worked example: −1, −2, −4",
            torch.tensor([-1.0, -2.0, -4.0]),
            want=torch.tensor([[0.0, NONE, NONE], [-2.0, 0.0, NONE], [-6.0, -4.0, 0.0]]),
            tolerance=FLOAT32,
        ),
        agrees("usual terms, any length", _usual, tolerance=FLOAT32),
        Property("a large term costs the others no digits", 1, _large),
        known("a term may be −inf", _empty, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"column by column": by_columns, "row by row": by_rows},
    hints=(
        "Which terms does entry (t, s) add up? Write the three rows of the worked example with "
        "their terms in the place of their sums.",
        "Make a matrix whose entry (t, s) is a_t where t > s and 0 elsewhere. Its running sum "
        "down each column is what you want, below the diagonal.",
        "`log_decay[..., :, None].expand(*log_decay.shape, T)`, `masked_fill` outside "
        "`torch.ones(T, T, dtype=torch.bool).tril(-1)`, `cumsum(dim=-2)`, and `masked_fill` with "
        "−inf above the diagonal.",
    ),
    minutes=12,
    difficulty=3,
    importance=4,
)
