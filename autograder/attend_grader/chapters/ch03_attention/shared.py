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


def distribution(scores: Array) -> Array:
    """Softmax along the last axis of real or complex scores."""
    shares = np.exp(scores - np.real(scores).max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
