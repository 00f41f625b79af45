"""Parts that checks of several chapters are made of: layouts, cost, derivatives.

Each ``expect_…`` raises :class:`Miss` with a message that says what to try.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from attend_grader.checks.compare import Miss, Tolerance
from attend_grader.checks.subject import Subject, SubjectError

NUMERICAL = Tolerance(
    "numerical derivative",
    1e-9,
    "a complex step has no subtraction and so no cancellation: it is as exact as the function",
    absolute=1e-12,
)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Standard normal numbers of two decimals: a card can show a case as it was, and briefly."""
    return rng.standard_normal(shape).round(2)


def transposed(array: np.ndarray) -> np.ndarray:
    """The same values in reversed memory order: what a view like ``x.T`` looks like inside."""
    return np.array(array.T, order="C").T


def strided(array: np.ndarray) -> np.ndarray:
    """The same values with gaps between them: what a view like ``x[..., 1::2]`` looks like."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., 1::2] = array
    return wide[..., 1::2]


VIEWS = {
    "arguments stored transposed (a view, as `x.T` gives)": transposed,
    "arguments stored with gaps (a view, as `x[..., 1::2]` gives)": strided,
}
"""Memory layouts that are not contiguous, and how to tell them in a message."""


def expect_growth(
    subject: Subject,
    make: Callable[[int], tuple[Any, ...]],
    *,
    sizes: tuple[int, int],
    at_most: float,
    cost: Literal["steps", "peak_bytes"],
    of: str,
    advice: str,
) -> None:
    """Hold the subject's cost to growing by no more than ``at_most`` from one size to the other.

    Counted bytecode steps and peak bytes are the same on every machine, unlike seconds.

    Args:
        subject: the candidate.
        make: the arguments of a call of a given size.
        sizes: a smaller and a larger size.
        at_most: the largest allowed ratio of the two costs.
        cost: ``"steps"`` (in the candidate's own code) or ``"peak_bytes"``.
        of: what the size counts, for the message: "keys".
        advice: what to try, for the message.

    Raises:
        Miss: it grows faster.
        SubjectError: the candidate raised.
    """
    first = subject.run(make(sizes[0]))  # whatever is loaded on first use is paid here
    costs = []
    for size in sizes:
        outcome = subject.run(make(size), measure=True) if first.error is None else first
        if outcome.error is not None:
            raise SubjectError(outcome.error)
        costs.append(getattr(outcome, cost))
    ratio = costs[1] / max(costs[0], 1)
    if ratio <= at_most:
        return
    small, large = (_amount(c, cost) for c in costs)
    what, much = ("slow", "many operations") if cost == "steps" else ("large", "much memory")
    raise Miss(
        f"too {what}: {sizes[1] / sizes[0]:g} times as many {of} cost {ratio:.3g} times as {much} "
        f"({small} at {sizes[0]}, {large} at {sizes[1]}). {advice}",
        topic=f"{cost} grow with {of}",
    )


def _amount(count: int, cost: str) -> str:
    return f"{count:,} operations" if cost == "steps" else f"{count / 1024:,.0f} KiB"


def derivative(loss: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Derivative of a function of an array by complex steps: one entry is moved at a time.

    Shapes:
        at: any shape ``I``; ``loss`` maps it (as complex numbers) to shape ``O``
        returns: (*O, *I)

    Source: Squire and Trapp 1998, "Using complex variables to estimate derivatives of real
    functions", SIAM Review 40(1).
    """
    step = 1e-30
    columns = []
    for index in np.ndindex(at.shape):
        moved = at.astype(complex)
        moved[index] += 1j * step
        columns.append(np.imag(loss(moved)) / step)
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape(*stacked.shape[:-1], *at.shape)
