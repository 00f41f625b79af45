"""Chapter 03: promises, and numbers that several exercises draw."""

from __future__ import annotations

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS, Contract
from attend_grader.checks.properties import normal

PROMISES = Contract(
    numpy_only=True,
    leading_axes=True,
    accepts=(FLOAT64, FLOAT32, INTEGERS),
    views=True,
    arguments_unchanged=True,
)


def qkv(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    """Random q (*lead, t, d), k (*lead, s, d) and v (*lead, s, d_v)."""
    q, k, v = (normal(rng, *lead, *ends) for ends in ((t, d), (s, d), (s, d_v)))
    return q, k, v


def falling(s: int = 24, growth: float = 1.5) -> tuple[Array, Array, Array]:
    """q (3, 4), k (s, 4) and v (s, 2) with weights 0.8 · e^(−1.5 n): none may be dropped.

    The values grow as the weights fall, by e^growth from key to key: at 1.5, each key gives as much
    to the output.
    """
    steps = np.arange(float(s))
    q, k = np.full((3, 4), [2.0, 0.0, 0.0, 0.0]), np.outer(-1.5 * steps, [1.0, 0.0, 0.0, 0.0])
    return q, k, np.exp(growth * steps)[:, None] * np.stack([steps % 5, 1 + steps % 3], axis=-1)


def far_out(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """q (2, 4), k (5, 4) and v (5, 2): scores of some 45,000 (query 0) and −45,000 (query 1).

    They differ by little, so that who cuts them off gets other weights. Whole numbers: all of their
    sums are exact.
    """
    q, k = rng.integers(-2, 3, (2, 4)).astype(float), rng.integers(-2, 3, (5, 4)).astype(float)
    q[:, 0], k[:, 0], k[:, 1] = (300, -300), 300, np.arange(-2, 3)
    q[:, 1] = 1
    return q, k, normal(rng, 5, 2)


def distribution(scores: Array) -> Array:
    """Softmax along the last axis of real or complex scores."""
    shares = np.exp(scores - np.real(scores).max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
