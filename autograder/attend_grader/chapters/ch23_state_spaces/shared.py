"""Chapter 23: systems, costs and refusals that several exercises use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.compare import Tolerance
from attend_grader.checks.exercise import Probe, Property
from attend_grader.checks.properties import expect_growth, normal
from attend_grader.checks.subject import Subject

INT64 = "Whole numbers fit into int64, and so do their products."
"""Said where an answer may multiply integers as they are."""

RELATIVE = Tolerance("relative", 1e-9, "tiny numbers are as exact as others: cases are not all 0")

TURN = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
"""A system that turns its state and forgets nothing."""

LINE = np.eye(44, k=-1)
"""A line that hands its numbers on: its kernel is c, then 0."""

CIRCLE = np.roll(np.eye(44), 1, axis=0)
"""A line whose last number comes back to the first."""

DIPS = np.diag(4 * [1e-12] + 4 * [1e12], -1)
"""A line of 9 in which a number shrinks to 1e-48 and grows to its size again."""

PEAKS = np.diag(4 * [1e12] + 4 * [1e-12], -1)
"""A line of 9 in which a number grows to 1e48 and comes back to its size."""


def system(rng: np.random.Generator, size: int) -> tuple[Array, Array, Array]:
    """Matrix (size, size) with small numbers, and two vectors (size,)."""
    return 0.5 * normal(rng, size, size), normal(rng, size), normal(rng, size)


def lasting(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """A system of two numbers that turns and fades by a hundredth a token: for long texts."""
    angle = rng.uniform(0.3, 1)
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return 0.99 * turned, normal(rng, 2), normal(rng, 2)


def changing(rng: np.random.Generator, quiet: int, rest: int) -> Iterator[tuple[str, Array]]:
    """Numbers that look settled for a while, ``quiet`` of them, and then ``rest`` others."""
    j = np.arange(quiet)
    for what, start in (
        ("equal numbers", np.full(quiet, 2.0)),
        ("zeros", np.zeros(quiet)),
        ("tiny numbers", np.full(quiet, 1e-12)),
        ("numbers 1, −1, 1, −1, …", 1.0 - 2 * (j % 2)),
        ("halves of each other", 0.5**j),
    ):
        yield f"{quiet} {what}, then others", np.concatenate([start, 3 + normal(rng, rest)])


def misnamed(names: tuple[str, ...]) -> list[str]:
    """Words that are nearly one of these names: capitals, a part, a letter more, none at all."""
    found = ["", " ".join(names), ", ".join(names)]
    for name in names:
        found += [name.upper(), name.title(), name[:-1], name[1:], f"{name}s", f" {name}"]
    return found


def cost(
    name: str,
    kind: Literal["steps", "peak_bytes"],
    make: Callable[[np.random.Generator, int], tuple[Any, ...]],
    sizes: tuple[int, int],
    at_most: float,
    of: str,
    advice: str,
) -> Property:
    """``kind`` may grow ``at_most`` so many times; counted only where a short call is right."""

    def test(subject: Subject, probe: Probe) -> None:
        probe.agree(subject, *make(probe.rng, 5), why="what it costs counts for right values only")
        state = int(probe.rng.integers(2**31))
        expect_growth(
            subject,
            lambda size: make(np.random.default_rng(state), size),
            sizes=sizes,
            at_most=at_most,
            cost=kind,
            of=of,
            advice=advice,
        )

    return Property(name, 1, test)
