"""Chapter 03: numbers that several exercises draw."""

from __future__ import annotations

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.properties import normal


def qkv(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    """Random q (*lead, t, d), k (*lead, s, d) and v (*lead, s, d_v)."""
    q, k, v = (normal(rng, *lead, *ends) for ends in ((t, d), (s, d), (s, d_v)))
    return q, k, v


def falling(t: int = 3) -> tuple[Array, Array, Array]:
    """q (t, 4), k (24, 4) and v (24, 2) with weights from 0.8 down to 1e-15: none may be dropped.

    The values grow as the weights fall, so that each key gives as much to the output.
    """
    steps = np.arange(24.0)
    q, k = np.full((t, 4), [2.0, 0.0, 0.0, 0.0]), np.outer(-1.5 * steps, [1.0, 0.0, 0.0, 0.0])
    return q, k, np.exp(1.5 * steps)[:, None] * np.stack([steps % 5, 1 + steps % 3], axis=-1)


def distribution(scores: Array) -> Array:
    """Softmax along the last axis of real or complex scores."""
    shares = np.exp(scores - np.real(scores).max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
