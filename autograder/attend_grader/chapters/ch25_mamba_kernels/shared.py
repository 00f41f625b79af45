"""Chapter 25: tensors that several exercises draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.compare import FLOAT32, Miss, expect_close
from attend_grader.checks.compare import FLOAT64 as WIDE
from attend_grader.checks.kernels import (
    clean_memory,
    compiles_as_launched,
    launched,
    right_values,
    within_budget,
)
from attend_grader.checks.probe import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

GONE = (-60.0, -41.0, -46.0)
"""Log decays: two such steps leave of 1e36 nothing, 2 and 1e-4."""

Cases = Callable[[np.random.Generator], Iterator[tuple[str, Call, Any]]]


def logs(rng: np.random.Generator, *shape: int) -> Tensor:
    """Logarithms of decays from −2 to −0.05, two decimals."""
    return -torch.from_numpy(rng.uniform(0.05, 2.0, shape).round(2)).float()


def once(log: float, tokens: int, *, at: int) -> Tensor:
    """Log decays of one head that are 0 but at one step."""
    found = torch.zeros(1, tokens, 1)
    found[:, at] = log
    return found


def in_turn() -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """300 steps whose log decays are −60 and −0.37: every other step is read once more.

    The right answer too. A running sum of the logs reaches 9,000, where float32 counts in 0.001.
    """
    one = torch.ones(1, 300, 1, 1)
    log_decay = torch.tensor([-60.0, -0.37]).repeat(150)[None, :, None]
    want = one + torch.exp(torch.tensor([-math.inf, -0.37])).repeat(150)[None, :, None, None]
    return (one, log_decay, one[..., 0], one[..., 0]), want


def faint(log: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, log_decay, b and c of a first product of 1e36 that is read two steps later.

    Whoever takes a segment's sum below some bound for that bound, or for −inf, is wrong there.
    """
    first, last = torch.tensor([[1e12, 0, 0], [0, 0, 1e12]], dtype=torch.float64)[:, None, :, None]
    return first[..., None], torch.full_like(first, log), first, last


def expect_faint(subject: Subject, probe: Probe, *more: Any) -> None:
    """Expect what is left of 1e36 after two steps to be right, not beside larger outputs."""
    for log in GONE:
        why = f"x, b and c of 10¹² and two log decays of {log:g}".replace("-", "−")
        y = torch.zeros(1, 3, 1, 1, dtype=torch.float64)
        y[:, 2] = 1e36 * math.exp(2 * log)
        want = (y, y[:, 2:] / 1e12) if probe.results else y
        probe.agree(subject, *faint(log), *more, want=want, tolerance=WIDE, why=why)


def sequence(
    rng: np.random.Generator, batch: int, tokens: int, heads: int, width: int, state: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, log_decay, b and c of one sequence."""
    return (
        normal(rng, batch, tokens, heads, width),
        logs(rng, batch, tokens, heads),
        normal(rng, batch, tokens, state),
        normal(rng, batch, tokens, state),
    )


def kernel_properties(
    usual: Cases,
    others: Cases,
    far: Cases,
    what: str,
    needed: Callable[[Call], int],
    largest: Cases,
) -> tuple[Property, ...]:
    """Right values, clean memory, bytes within a budget, and a GPU's compiler.

    Args:
        usual: calls of usual sizes with their right results; the first is compiled.
        others: of other sizes.
        far: of large sizes, or numbers far apart, whose values count only.
        what: is special about others.
        needed: bytes that a call has to move.
        largest: of the sizes up to which the kernel is compiled.
    """

    def first(rng: np.random.Generator) -> Iterator[tuple[str, Call, Any]]:
        yield next(iter(usual(rng)))

    def both(rng: np.random.Generator) -> Iterator[tuple[str, Call, Any]]:
        yield from first(rng)
        yield from others(rng)

    said = "compiles for an H100, nothing spilled"
    built = [compiles_as_launched(said, cases) for cases in (first, largest)]

    def compiled(subject: Subject, probe: Probe) -> None:
        for _, call, want in first(probe.rng):
            try:
                expect_close(launched(subject, probe, call).value, want, FLOAT32)
            except Miss:
                told = "this counts where the values are right, and here they are not."
                raise Miss(told, topic=told) from None
        for each in built:
            each.test(subject, probe)

    return (
        right_values("values", usual, points=3),
        right_values(
            f"{what}, and other sizes", lambda rng: chain(others(rng), far(rng)), points=2
        ),
        clean_memory("touches its own memory only", both),
        within_budget("reads once, writes once", both, needed),
        Property(said, 1, compiled),
    )


def chunks_of(text: Tensor, chunk: int) -> int:
    """How many chunks a text (B, T, …) has."""
    return math.ceil(text.shape[1] / chunk)
