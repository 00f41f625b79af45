"""Chapter 06: what several exercises are measured by: limits of rounding, types of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attend_grader.checks.compare import Tolerance
from attend_grader.checks.exercise import Probe, Property
from attend_grader.checks.subject import Subject

READY_MADE = ("transformers", "torchtune", "rotary_embedding_torch", "x_transformers")
"""Libraries that hold finished position codes."""

FAR = 100_000
MILLION = 1_000_000

THIRD = 1 / 3
"""Added to numbers between whole ones: no number of decimals holds it."""

NEARLY_WHOLE = (0.03, 1e-3, -1e-5)
"""Steps from a whole number: small beside 100,000, large beside 10⁻⁶, which is promised."""

REORDERED = ((7, 3, 5, 12, 5, 0), (7, 12, 5, 3, 5, 0))
"""Positions with the same first and last, smallest and largest, mean and number: what is kept from
one call for another must know them all."""


def reordered() -> Iterator[tuple[str, Tensor]]:
    """What is special about positions, and positions: the second only reorder the first."""
    for after, where in zip(("", ", after the same in another order"), REORDERED, strict=True):
        yield f"at {', '.join(map(str, where))}{after}", torch.tensor(where)
    yield "at 0, 2, 1, 4, 3, 5", torch.tensor([0, 2, 1, 4, 3, 5])


def partly_alike() -> Iterator[tuple[str, Tensor]]:
    """What is special about positions of sequences, and positions: all but one sequence alike.

    A look at some of the sequences, or at some of their positions, does not tell which one.
    """
    one, other = map(torch.tensor, REORDERED)
    for place, word in enumerate(("first", "second", "last")):
        where = one.repeat(3, 1, 1)
        where[place] = other
        yield f"three sequences, the {word} one at other positions", where
    where = one.repeat(3, 3, 1, 1)
    where[1, 1] = other
    yield "3 · 3 sequences, the middle one at other positions", where
    lone = where[1, ..., 1:2].clone()
    yield "a token of each of three sequences, the second at another position", lone


BETWEEN_SLOWED = torch.tensor([1.0, 0.5, 0.25, 1.0], dtype=torch.float64)
"""Frequencies times these are no powers of one base, though they begin and end like such."""

NO_FLOAT32 = 300.1
"""A base that float32 does not hold."""

ROUNDED = Tolerance(
    "one rounding",
    1e-6,
    "sines of float64 angles, rounded once to float32, are off by 6e-8; float32 angles at position "
    "10⁵ by thousandths",
)


def python_float(value: Any, probe: Probe, name: str, *args: Any) -> None:
    """Hold a number to being a Python float, once its value is right.

    Raises:
        Miss: it is something else, such as a tensor.
    """
    if not isinstance(value, float):
        kind = "a tensor" if isinstance(value, Tensor) else f"of type {type(value).__name__}"
        text = (
            f"your {name} is {kind}, expected a Python float: use `math`, or finish with float()."
        )
        raise probe.miss(text, *args)


def comes_out(kind: torch.dtype, *calls: tuple[Any, ...]) -> Property:
    """The result has this type, whether its numbers are right or not."""

    def test(subject: Subject, probe: Probe) -> None:
        for args in calls:
            value = probe.call(subject, *args).value
            if not isinstance(value, Tensor):
                probe.agree(subject, *args)  # says what came instead
            if value.dtype != kind:
                todo = "convert the finished result."
                if kind == torch.float64:
                    todo = "work in float64 from the start: converting late brings no digits back."
                text = f"your answer has dtype {value.dtype}, expected {kind}: {todo}"
                raise probe.miss(text, *args)

    return Property(f"{str(kind).removeprefix('torch.')} comes out", 1, test)
