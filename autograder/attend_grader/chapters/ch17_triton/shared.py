"""What the exercises of chapter 17 share: a kernel's properties, and what it may not use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from attend_grader.checks.compare import FLOAT32, Miss, Tolerance
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.kernels import (
    ONCE,
    clean_memory,
    compiles_as_launched,
    launched,
    right_values,
    within_budget,
)
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal
from attend_grader.inside.views import view_of

Case = tuple[str, Call, Any]
Cases = Callable[[np.random.Generator], Iterator[Case]]

FINISHED = ("triton.language.softmax", "torch.nn", "torch.softmax", "torch.matmul")
"""Finished operations; and everything else in torch is found by what no kernel wrote."""

SOFTMAX = (*FINISHED, "torch.max", "torch.amax")
"""What the softmaxes' kernels do by themselves."""

LONG = 70_000
"""Columns of the longest rows, more than two bytes count."""

LOWEST = torch.finfo(torch.float32).min
MANY = 100
"""Rows of the tallest matrices."""

ROWS = f"Up to {MANY} rows of up to {LONG:,} columns."

FLOAT16 = Tolerance(
    "float16",
    2e-3,
    "results are rounded to float16 once, at 5e-4; sums in float16 err by more",
    absolute=1e-3,
)


def kernel_properties(
    fitting: tuple[str, Cases],
    ragged: tuple[str, Cases],
    needed: Callable[[Call], int],
    *,
    factor: float = 1.1,
    counted: str = ONCE,
    points: int = 2,
    tolerance: Tolerance = FLOAT32,
    more: tuple[Property, ...] = (),
    arrays: int | None = None,
    beside: tuple[Any, ...] | None = None,
    longest: Cases | None = None,
    reads: Callable[[Call], int] | None = None,
) -> tuple[Property, ...]:
    """Values twice, ``more``, memory, bytes, and the compiler's word.

    Args:
        fitting: the card's line and cases in which blocks fit.
        ragged: the same where they do not.
        needed: bytes of a call.
        factor: of these, what may be moved.
        counted: what is counted as needed, in words.
        points: of the values where blocks do not fit.
        tolerance: of values.
        more: properties between those of values and of memory.
        arrays: how many a kernel is given, the results among them; None leaves that open.
        beside: what a function takes beside a matrix of (2, 6) that its kernel reads itself; None
            leaves that open.
        longest: cases at the largest sizes that the contract names, for values; and the first for
            bytes.
        reads: of the first argument, how many numbers are read at most; None leaves that open.
    """
    name, sizes = ragged

    def valued(rng: np.random.Generator) -> Iterator[Case]:
        yield from sizes(rng)
        yield from longest(rng) if longest else ()

    def every(rng: np.random.Generator) -> Iterator[Case]:
        yield from fitting[1](rng)
        yield from sizes(rng)

    def counted_on(rng: np.random.Generator) -> Iterator[Case]:
        yield from every(rng)
        yield from islice(longest(rng), 1) if longest else ()

    budget = within_budget(
        "moves no more bytes than are needed",
        counted_on,
        needed,
        factor=factor,
        cause=counted,
        arrays=arrays,
        reads=reads,
    )
    return (
        right_values(*fitting, tolerance=tolerance, same_types=True),
        right_values(name, valued, points=points, tolerance=tolerance, same_types=True),
        *more,
        clean_memory("stays inside its buffers; no two programs write one place", every),
        budget if beside is None else _of_its_argument(budget, beside),
        compiles_as_launched("compiles for an H100", fitting[1]),
    )


def _of_its_argument(prop: Property, beside: tuple[Any, ...]) -> Property:
    """The property, of a kernel that reads its argument and nothing that torch made of it."""

    def test(subject: Subject, probe: Probe) -> None:
        stored = normal(probe.rng, 4, 6)
        launcher = f"{view_of.__module__}:{view_of.__name__}"
        args = stored, (2, 6), (6, 1), 6, *beside
        launches = subject.run(args, launcher=launcher, trace="events").trace
        read = {b["storage"] for launch in launches for b in launch["buffers"].values()}
        if launches and stored.numel() not in read:
            text = "the kernel does not read x, but other numbers, which torch made before."
            raise Miss(text, topic="arrays").on(probe.given((stored[1:3], *beside), {}), "")
        prop.test(subject, probe)

    return replace(prop, test=test)


def blocks_as_asked(cases: Cases, each: int, most: float = math.inf) -> Property:
    """Blocks are as large as the last arguments: of so many loads and stores for each of them.

    Args:
        cases: what is tried.
        each: loads and stores of a block, at least.
        most: with more of them blocks are smaller than asked; a row may have four besides.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, _ in cases(probe.rng):
            sizes = [n for n in call.args if isinstance(n, int)]
            whole = call.args[0].shape
            rows, shape = whole[: -len(sizes)], whole[-len(sizes) :]
            blocks = math.prod(-(-n // size) for n, size in zip(shape, sizes, strict=True))
            made = sum(n["accesses"] for n in launched(subject, probe, call).trace)
            given = probe.given(call.args, call.kwargs)
            if made < each * blocks:
                text = f"{made} loads and stores in all, at least {each * blocks} expected."
                cause = "Are blocks larger than asked, or are some left out?"
                raise Miss(text, cause=cause, topic="too few blocks").on(given, why)
            usual = most * blocks + 4 * sum(rows)
            if made > usual:
                text = f"{made} loads and stores in all, at most {usual} expected."
                cause = "Are blocks smaller than asked?"
                raise Miss(text, cause=cause, topic="too many blocks").on(given, why)

    return Property("blocks of the size asked for", 1, test)


def calls(cases: Cases, rng: np.random.Generator) -> list[Call]:
    """The calls of some cases, for draws."""
    return [call for _, call, _ in cases(rng)]


def many(number: int, what: str) -> str:
    """``1 row``, ``3 rows``."""
    return f"{number} {what}{'' if number == 1 else 's'}"
