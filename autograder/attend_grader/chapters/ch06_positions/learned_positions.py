"""Exercise 06_positions/LearnedPositions: a learned table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from attend_solutions.positions import LearnedPositions
from torch import Tensor, nn

from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.contract import EVERY_PARAMETER
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.torch_properties import module_call, normal


def _worked(subject: Subject, probe: Probe) -> None:
    """Two tokens get the first two rows; from start = 1, the next two."""
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    built, inside = probe.build(subject, 4, 2, parameters={"table": table})
    x = torch.tensor([[[10.0, 10.0], [20.0, 20.0]]])
    why = "the rows of the table are (1, 2), (3, 4), (5, 6), (7, 8)"
    want = torch.tensor([[[11.0, 12.0], [23.0, 24.0]]])
    inside.agree(built, x, want=want, tolerance=FLOAT32, why=why)
    want = torch.tensor([[[13.0, 14.0], [25.0, 26.0]]])
    inside.agree(built, x, start=1, want=want, tolerance=FLOAT32, why=why)


def _start(subject: Subject, probe: Probe) -> None:
    """Tokens that follow others go on in the table."""
    built, inside = probe.build(subject, 9, 3)
    x = normal(probe.rng, 2, 4, 3)
    for start in (2, 4):
        inside.agree(built, x, start, tolerance=FLOAT32, why=f"start = {start}")
    inside.agree(built, x[:, :1], start=7, tolerance=FLOAT32)
    for evaluating in (False, True):
        if evaluating:
            built.run(method="eval")
        for graph in (True, False):
            _each_alone(built, inside, x, graph=graph)
    built, inside = probe.build(subject, 300, 2)
    why = "a table of 300 rows, start = 296"
    inside.agree(built, x[..., :2].contiguous(), 296, tolerance=FLOAT32, why=why)


def _each_alone(built: Subject, inside: Probe, x: Tensor, *, graph: bool) -> None:
    """Calls one after the other, each of which begins at its own start, or at 0 without one."""
    for tokens, *start in ((4,), (1,), (4,), (3,), (1, 4), (1,), (1, 5), (1, 0), (2, 3), (2,)):
        given = (x[:, :tokens].contiguous(), *start)
        why = f"start = {start[0]}" if start else "without a start, so from 0"
        why = f"in a row of calls, {tokens} of 4 tokens {why}"
        came = built.run(given, graph=graph)
        inside.agree(built, *given, tolerance=FLOAT32, why=why, came=came)


def _end(subject: Subject, probe: Probe) -> None:
    """The last row can be used; past it there is nothing to add, also where shapes would fit."""
    built, inside = probe.build(subject, 5, 2)
    for count, start in ((2, 3), (1, 4)):
        why = f"5 rows, {count} from start = {start}: the last row, row 4, can be used"
        inside.agree(built, normal(probe.rng, 1, count, 2), start, tolerance=FLOAT32, why=why)
    refused, failed = False, []
    for count, start in ((6, 0), (3, 4), (1, 5), (2, 9), (3, 3)):
        if start == 3:  # after training too
            built.run(method="eval")
        x = normal(probe.rng, 1, count, 2)
        error = built.run((x, start)).error
        if error is not None and error.type == "NotImplementedError":
            raise SubjectError(error, inside.given((x, start), {}))
        if error is not None and error.is_a("ValueError"):
            refused = True
        else:
            did = "answers" if error is None else f"raises {error.type}"
            failed.append((x, start, did, error is None or error.type == "RuntimeError"))
    if not failed:
        why = "after calls that were refused"
        inside.agree(built, normal(probe.rng, 1, 1, 2), tolerance=FLOAT32, why=why)
        return
    x, start, did, by_slice = failed[0]
    advice = ""
    if refused:
        advice = " It does refuse other calls: start + T may be 5 here, and not more."
    elif by_slice:
        advice = (
            " A slice past the end does not fail, it comes out shorter; a clamp or a remainder "
            "takes other rows. Compare start + T with the number of rows first."
        )
    end = start + x.shape[1] - 1
    raise inside.miss(
        f"tokens at positions {start} to {end}, but the table has 5 rows, 0 to 4: expected a "
        f"ValueError; yours {did}.{advice}",
        x,
        start,
    )


def draws(rng: np.random.Generator) -> list[Call]:
    """Two leading axes; a start; equal lengths; up to the last row; past it, by far and by one."""

    def call(rows: int, width: int, *args: Any, **kwargs: Any) -> Call:
        return module_call(LearnedPositions, rng, Call((rows, width)), *args, **kwargs)

    ends = ((3, 2), ()), ((1, 1, 2), (4,)), ((3, 2, 2), (4,)), ((1, 7, 2), ()), ((1, 2, 2), (9,))
    return [
        call(7, 4, normal(rng, 3, 2, 3, 4)),
        call(9, 3, normal(rng, 2, 4, 3), 3),
        call(6, 4, normal(rng, 4, 4, 4), start=2),
        *(call(5, 2, normal(rng, *shape), *start) for shape, start in ends),
    ]


END = "end = start + x.shape[-2]"
REFUSE = "end > self.table.shape[0]"
ROWS = "self.table[start:end]"

SLIPS = (
    Slip(
        "T compared without start",
        (REFUSE, "x.shape[-2] > self.table.shape[0]"),
        "Tokens that `start` moves past the end are not refused with a ValueError, as if only T "
        "were compared with the number of rows. Compare start + T.",
    ),
    Slip(
        "the slice ends at T",
        (ROWS, "self.table[start : x.shape[-2]]"),
        "Your rows come out as if the slice ended at T, wherever it starts: with `start` above 0 "
        "some rows are missing. It must run from start to start + T.",
    ),
    Slip(
        "refused the last row",
        (REFUSE, "end >= self.table.shape[0]"),
        "The last row of the table is refused, though it can be used: the end of a slice is not "
        "part of it, so start + T may be equal to the number of rows.",
    ),
    Slip(
        "length from the second axis",
        (END, "end = start + x.shape[1]"),
        "The length seems to be that of the second axis, shape[1], which need not be the tokens'. "
        "There may be any number of axes before the last two: take x.shape[-2].",
    ),
)


class ByIndex(LearnedPositions):
    """Rows by their numbers."""

    def forward(self, x, start=0):
        """x with rows of the table."""
        rows = torch.arange(start, start + x.size(-2))
        if rows[-1] >= self.table.size(0):
            raise ValueError("too long")
        return self.table[rows] + x


class ByEmbedding(nn.Module):
    """torch's own embedding look-up; the parameter's start values are its own business."""

    def __init__(self, max_length, width):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(max_length, width))

    def forward(self, x, start=0):
        """x with rows of the table."""
        tokens = x.shape[-2]
        if start + tokens > len(self.table):
            raise ValueError(f"{start} + {tokens} is more than {len(self.table)}")
        places = torch.arange(tokens, device=x.device) + start
        return torch.add(x, nn.functional.embedding(places, self.table))


EXERCISE = Exercise(
    chapter="06_positions",
    title="A learned table",
    goal="Add a trained row to each token, and refuse positions that have none.",
    reference=LearnedPositions,
    contract=Contract(
        leading_axes=("x",),
        views=True,
        arguments_unchanged=True,
        gradients=("x", EVERY_PARAMETER),
    ),
    properties=(
        Property("a hand-worked example: two tokens, four rows", 1, _worked),
        Property("start: the first token's row", 2, _start),
        Property("the last row is used; past it, ValueError", 2, _end),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(ByIndex, ByEmbedding),
    hints=(
        "Which rows of the table belong to T tokens of which the first stands at `start`? Which "
        "of the axes of x counts the tokens?",
        "The rows are a slice of self.table, from start up to (not including) start + T, where T "
        "is the length of the last axis but one. Leading axes take care of themselves by "
        "broadcasting.",
        "end = start + x.shape[-2]. If end is greater than self.table.shape[0], raise a "
        "ValueError that says so. Otherwise return a new tensor: x plus the slice.",
    ),
    minutes=6,
    difficulty=1,
    importance=3,
)
