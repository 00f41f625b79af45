"""Clues: what a property may add to a miss, as far as the numbers themselves prove it.

A number in a clue is one that the learner finds by printing the same sum, with its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def near_one(total: float) -> str:
    """A sum that should be 1, as it is told."""
    off = abs(total - 1)
    return f"{total:.4g}" if off > 1e-3 else f"1 {'+' if total > 1 else '−'} {off:.0e}"


def sums(axis: int) -> Callable[[Any], str]:
    """A clue: weights below 0, or by how much slices along ``axis`` miss the sum 1."""

    def clue(weights: Any) -> str:
        if np.isfinite(weights).all() and weights.min(initial=0) < -1e-9:
            return f"Weights must be at least 0; yours include {weights.min():.3g}."
        totals = weights.sum(axis=axis)
        worst = float(np.ravel(totals)[np.argmax(np.abs(np.ravel(totals) - 1))])
        off = abs(worst - 1)
        if off < (1e-9 if weights.dtype == np.float64 else 1e-6) or not np.isfinite(worst):
            return ""
        return f"Along axis {axis} weights must sum to 1; somewhere yours sum to {near_one(worst)}."

    return clue


def sums_to_zero(limit: float) -> Callable[[Any], str]:
    """A clue: the row whose sum is furthest from 0, where all rows should sum to 0."""

    def clue(value: Any) -> str:
        rows = np.ravel(value.sum(axis=-1))
        worst = float(rows[np.argmax(np.abs(rows))])
        if abs(worst) < limit or not np.isfinite(worst):
            return ""
        return (
            f"A row of yours sums to {worst:.4g}; raising all scores alike changes no weight, so "
            "each row must sum to 0."
        )

    return clue
