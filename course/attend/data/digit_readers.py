"""Handwritten digits read pixel by pixel, and how five kinds of model do on them (chapter 23).

The digits are scikit-learn's: 1,797 images of 8 × 8 pixels (Alpaydin and Kaynak 1998). ``by_arm``
and ``weights`` read what ``python course/23_state_spaces/train.py`` made.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).with_suffix(".json")
WEIGHTS = Path(__file__).with_suffix(".npz")
ORDERS = ("pixels in order", "pixels permuted")
PARTS = {"train": slice(0, 1100), "validation": slice(1100, 1397), "test": slice(1397, 1797)}


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Pixels (1797, 64), row by row, −0.5 for paper to 0.5 for ink, and what they show (1797,).

    In a random order that never changes.
    """
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    order = np.random.default_rng(23).permutation(len(found.target))
    return found.data[order] / 16 - 0.5, found.target[order]


def split(part: str) -> tuple[Any, Any]:
    """Pixels (n, 64) in float32 and what they show (n,), as tensors, of one of PARTS."""
    import torch

    pixels, kinds = digits()
    chosen = PARTS[part]
    return torch.tensor(pixels[chosen], dtype=torch.float32), torch.tensor(kinds[chosen])


@cache
def table() -> dict[str, dict[str, dict[str, Any]]]:
    """By order of pixels and arm: numbers in the model, tuning, best rate, losses, accuracy."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def by_arm() -> dict[str, tuple[list[float], ...]]:
    """Shares of right answers by arm: one list an order of pixels, one number a run."""
    first, second = (table()[order] for order in ORDERS)
    return {arm: (first[arm]["accuracy"], second[arm]["accuracy"]) for arm in first}


@cache
def weights() -> dict[str, np.ndarray]:
    """The weights of one trained reader, S4D with the pixels in order."""
    with np.load(WEIGHTS) as stored:
        return {name: stored[name].astype(float) for name in stored.files}


def tuning_rows() -> list[dict[str, Any]]:
    """One row an arm, rate and seed of tuning, pixels in order: the start that was chosen."""
    found = []
    for arm, row in table()[ORDERS[0]].items():
        for tried, shares in row["tuning"].items():
            rate, start = (float(part) for part in tried.split(", "))
            if start == row["start"]:
                found += [{"arm": arm, "rate": rate, "right": 100 * share} for share in shares]
    return found
