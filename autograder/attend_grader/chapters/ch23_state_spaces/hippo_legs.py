"""Exercise 23_state_spaces/hippo_legs: the matrix whose state holds polynomials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import state_spaces as answers

from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked

ROOT3 = 3**0.5


def _sizes(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    some = (rng.integers(*ends) for ends in ((4, 12), (12, 44), (192, 257)))
    for size in (3, 1, *map(int, some), 44):
        yield f"N = {size}", Call((size,))


def _facts(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """What a constant input leaves: h = −A⁻¹ b is 1, 0, 0, …"""
    del rng
    for size in (2, 5):
        a, b = answers.hippo_legs(size)
        yield f"N = {size}, whose resting state −A⁻¹ b is 1, 0, 0, …", (size,), (a, b)


def draws(rng: np.random.Generator) -> list[Call]:
    """From one number up."""
    del rng
    return [Call((size,)) for size in (1, 2, 3, 5, 8)]


SLIPS = (
    Slip(
        "the sign of the paper",
        (("-np.outer", "np.outer"), ("- np.diag", "+ np.diag")),
        "A has the sign of HiPPO's own paper, which writes −A. Here A goes into h' = A h + b x: "
        "change its sign, else the state explodes.",
    ),
    Slip(
        "upper triangle",
        ("np.tril(-np.outer(root, root), -1)", "np.triu(-np.outer(root, root), 1)"),
        "A is transposed: row n should have its numbers in the columns k ≤ n.",
    ),
    Slip(
        "both triangles",
        ("np.tril(-np.outer(root, root), -1)", "(np.diag(root**2) - np.outer(root, root))"),
        "There are numbers above the diagonal, where n < k. They should be 0.",
    ),
    Slip(
        "the root on the diagonal, too",
        ("np.tril(-np.outer(root, root), -1) - np.diag(n + 1.0)", "np.tril(-np.outer(root, root))"),
        "The diagonal is −(2n + 1) here. It should be −(n + 1).",
    ),
    Slip(
        "a diagonal of n",
        ("n + 1.0", "1.0 * n"),
        "The diagonal is −n, so that the first number never fades. It should be −(n + 1).",
    ),
    Slip(
        "without roots in A",
        ("-np.outer(root, root)", "-np.outer(root, root) ** 2"),
        "Roots are missing below the diagonal of A: −√(2n+1) √(2k+1) belongs there.",
    ),
    Slip(
        "without roots",
        ("np.sqrt(2 * n + 1)", "2.0 * n + 1"),
        "Roots are missing: A should have −√(2n+1) √(2k+1) below the diagonal, b √(2n+1).",
    ),
    Slip(
        "b is 1",
        ("return a, root", "return a, np.ones(size)"),
        "b is 1 everywhere. It should be √(2n+1).",
    ),
    Slip(
        "counted from 1",
        ("np.sqrt(2 * n + 1)", "np.sqrt(2 * n + 3)"),
        "The roots are those of n + 1: n should count from 0.",
    ),
    Slip(
        "only the diagonal",
        ("np.tril(-np.outer(root, root), -1) - ", "-"),
        "Only the diagonal of A is there. Below it should stand −√(2n+1) √(2k+1).",
    ),
)


def by_loops(size):
    """Number by number."""
    a, b = np.zeros((size, size)), np.zeros(size)
    for n in range(size):
        b[n] = (2 * n + 1) ** 0.5
        for k in range(n):
            a[n, k] = -(((2 * n + 1) * (2 * k + 1)) ** 0.5)
        a[n, n] = -n - 1
    return a, b


def by_choice(size):
    """np.where on a grid."""
    n, k = np.mgrid[:size, :size]
    below = np.sqrt((2 * n + 1.0) * (2 * k + 1))
    return -np.where(n > k, below, np.where(n == k, n + 1.0, 0.0)), np.sqrt(2 * n[:, 0] + 1)


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="HiPPO's matrix",
    goal="Write down the system that remembers its past as polynomials.",
    reference=answers.hippo_legs,
    contract=Contract(numpy_only=True),
    properties=(
        worked(
            "by hand: N = 2",
            2,
            want=(np.array([[-1.0, 0.0], [-ROOT3, -2.0]]), np.array([1.0, ROOT3])),
        ),
        agrees("A for any N", _sizes, part=0),
        agrees("b for any N", _sizes, part=1),
        known("what rests under a constant input", _facts),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"loops": by_loops, "np.where": by_choice},
    hints=(
        "b first: √(2n+1) for n = 0, …, N − 1. Which product of it with itself stands below the "
        "diagonal of A?",
        "np.outer(b, b) has √(2n+1) √(2k+1) everywhere; np.tril(…, -1) keeps what is below the "
        "diagonal.",
        "np.tril(-np.outer(b, b), -1) - np.diag(n + 1.0)",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    results=("a", "b"),
)
