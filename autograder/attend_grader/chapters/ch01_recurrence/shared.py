"""Chapter 01: numbers that several exercises draw, and the recurrence as an oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.properties import normal

LN2, LN3 = float(np.log(2)), float(np.log(3))
"""tanh of these is exactly 0.6 and 0.8."""

SIZES = ((3, 2, 5), (4, 4, 4), (1, 3, 2), (3, 1, 3), (2, 5, 1))
"""(B, C, N) of one step: all different, all alike, and each of them 1."""


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Random weights of two decimals, small enough that tanh keeps a slope."""
    return (0.6 * rng.standard_normal(shape)).round(2)


def inside(rng: np.random.Generator, *shape: int) -> Array:
    """Random states between −0.9 and 0.9, of two decimals."""
    return rng.uniform(-0.9, 0.9, shape).round(2)


def alone(
    names: Sequence[str], arguments: Sequence[Array], kept: Sequence[str]
) -> Iterator[tuple[str, tuple[Array, ...]]]:
    """A call's arguments with each but those kept 0 alone, and with all others 0."""
    free = [name for name in names if name not in kept]
    for name in free:
        rest = [other for other in free if other != name]
        for zero, why in (([name], f"{name} is 0"), (rest, f"{' and '.join(rest)} are 0")):
            both = zip(names, arguments, strict=True)
            yield why, tuple(np.zeros_like(a) if own in zero else a for own, a in both)


def huge(count: int) -> Array:
    """1000 and −1000 by turns: a bias for sums of any size."""
    return np.resize([1000.0, -1000.0], count)


def step_inputs(rng: np.random.Generator, b: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, c), h (b, n), w_x (c, n), w_h (n, n) and bias (n,)."""
    w_x, w_h = weights(rng, c, n), weights(rng, n, n)
    return normal(rng, b, c), inside(rng, b, n), w_x, w_h, normal(rng, n)


def sequence_inputs(rng: np.random.Generator, b: int, t: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, t, c), h0 (b, n), w_x (c, n), w_h (n, n) and bias (n,)."""
    _, h0, *rest = step_inputs(rng, b, c, n)
    return (normal(rng, b, t, c), h0, *rest)


def all_states(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    """All states (B, T, N) of real or complex inputs."""
    found = []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ w_x + h @ w_h + b)
        found.append(h)
    return np.stack(found, axis=1)


def rotation(rng: np.random.Generator, n: int) -> Array:
    """A random orthogonal matrix (n, n): it keeps every vector's length."""
    orthogonal, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return orthogonal


WIDE = 40.0
"""A bias that opens a gate, or with a minus shuts it, as far as float64 can tell."""


def logistic(sums: Any) -> Any:
    """The sigmoid by its formula; the overflow of exp ends in 1 / inf = 0."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-np.asarray(sums)))
