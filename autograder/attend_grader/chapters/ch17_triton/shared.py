"""What the exercises of chapter 17 share: a kernel's properties, and what it may not use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

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

Case = tuple[str, Call, Any]
Cases = Callable[[np.random.Generator], Iterator[Case]]

FINISHED = ("triton.language.softmax", "torch.nn", "torch.softmax", "torch.matmul")
"""Finished operations; and everything else in torch is found by what no kernel wrote."""

SOFTMAX = (*FINISHED, "torch.max", "torch.amax")
"""What the softmaxes' kernels do by themselves."""

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
    """

    def every(rng: np.random.Generator) -> Iterator[Case]:
        yield from fitting[1](rng)
        yield from ragged[1](rng)

    return (
        right_values(*fitting, tolerance=tolerance, same_types=True),
        right_values(*ragged, points=points, tolerance=tolerance, same_types=True),
        *more,
        clean_memory("stays inside its buffers; no two programs write one place", every),
        within_budget(
            "moves no more bytes than are needed", every, needed, factor=factor, cause=counted
        ),
        compiles_as_launched("compiles for an H100", fitting[1]),
    )


def blocks_as_asked(cases: Cases) -> Property:
    """Blocks are no larger than the last arguments: one load and one store for each, at least."""

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, _ in cases(probe.rng):
            sizes = [n for n in call.args if isinstance(n, int)]
            shape = call.args[0].shape[-len(sizes) :]
            least = 2 * math.prod(-(-n // size) for n, size in zip(shape, sizes, strict=True))
            made = sum(n["accesses"] for n in launched(subject, probe, call).trace)
            if made < least:
                text = f"{made} loads and stores in all, at least {least} expected."
                cause = "Are blocks larger than asked, or are some left out?"
                raise Miss(text, cause=cause, topic="too few blocks").on(
                    probe.given(call.args, call.kwargs), why
                )

    return Property("blocks of the size asked for", 1, test)


def calls(cases: Cases, rng: np.random.Generator) -> list[Call]:
    """The calls of some cases, for draws."""
    return [call for _, call, _ in cases(rng)]


def many(number: int, what: str) -> str:
    """``1 row``, ``3 rows``."""
    return f"{number} {what}{'' if number == 1 else 's'}"
