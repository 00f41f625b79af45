"""Chapter 15: numbers and properties that several exercises use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.exercise import Probe, Property
from attend_grader.checks.properties import expect_growth, normal
from attend_grader.checks.subject import Subject


def qkv(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    """Random q (*lead, t, d), k (*lead, s, d), v (*lead, s, d_v) of either sign."""
    q, k, v = (normal(rng, *lead, *ends) for ends in ((t, d), (s, d), (s, d_v)))
    return q, k, v


def features(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    """The same with q and k from 0.1 up."""
    q, k, v = qkv(rng, t, s, d, d_v, lead)
    return abs(q).round(2) + 0.1, abs(k).round(2) + 0.1, v


def blanked(
    arrays: Sequence[Array], where: int | slice, which: Collection[int]
) -> tuple[Array, ...]:
    """The same arrays, some of them (``which``) with zeros in a row, or in several (``where``).

    A token of zeros is one all the same: it may not be taken for padding.
    """
    made = tuple(array.copy() for array in arrays)
    for place in which:
        made[place][..., where, :] = 0.0
    return made


def tiny(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """The same text with features so small that nothing may be added to their products."""
    return TINY * q, TINY * k, v


def whole_features(array: Array) -> Array:
    """Positive whole numbers in the place of positive numbers."""
    return np.ceil(2 * array)


SMALL = (np.array([[2.0, 4.0], [3.0, 1.0]]) / 64, np.array([[4.0, 2.0], [1.0, 3.0]]) / 64)
"""Features of two queries and of two keys, so small that total weights are below 0.01."""

TINY = 2.0**-50
"""Features times this make weights of 1e-33 to 1e-28, which any number added would hide."""

ADDED = (
    "The divisor is kept away from 0, by a small number that is added or by a floor. Features may "
    "be tiny, so a total weight may be smaller than that number, and then the mean is wrong. "
    "Divide by the total alone, which is above 0."
)

WHOLE = {"q": whole_features, "k": whole_features}


def past_sums(q: Any, k: Any, v: Any, state: Any = None) -> tuple[Any, Any]:
    """Unnormalised causal linear attention by its T × T matrix, and the memory at the end."""
    turned = np.swapaxes(k, -1, -2)
    empty = 0 * (turned @ v)
    state = empty if state is None else state
    return np.tril(q @ turned) @ v + q @ state, state + turned @ v


Layout = tuple[Callable[[np.random.Generator, int], tuple[Any, ...]], tuple[int, int], float]
"""What makes arguments of a given size, a small and a large size, and the ratio allowed."""


def cost(
    name: str,
    kind: str,
    make: Callable[[np.random.Generator, int], tuple[Any, ...]],
    sizes: tuple[int, int],
    at_most: float,
    advice: str,
    first: Callable[[np.random.Generator], tuple[Any, ...]],
    *more: Layout,
) -> Property:
    """Memory (``peak_bytes``) or ``steps`` may grow ``at_most`` so many times.

    Args:
        name: the card's line.
        kind: "peak_bytes" or "steps".
        make: arguments of a call of a given length.
        sizes: a short and a long length.
        at_most: the ratio of their costs.
        advice: what to try.
        first: arguments of a call that must be right before anything is counted.
        *more: calls of other forms, with sizes and ratios of their own.
    """

    def test(subject: Subject, probe: Probe) -> None:
        probe.agree(subject, *first(probe.rng), why="what it costs counts for right values only")
        state = int(probe.rng.integers(2**31))
        for form, lengths, ratio in ((make, sizes, at_most), *more):
            expect_growth(
                subject,
                lambda size, form=form: form(np.random.default_rng(state), size),
                sizes=lengths,
                at_most=ratio,
                cost=kind,  # type: ignore[arg-type]
                of="tokens",
                advice=advice,
            )

    return Property(name, 1, test)
