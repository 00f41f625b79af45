"""Chapter 02: promises, cells of a GRU and a clue that several exercises use."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.contract import FLOAT32, FLOAT64, Contract
from attend_grader.checks.torch_numbers import normal

PROMISES = Contract(
    accepts=(FLOAT32, FLOAT64), views=True, same_dtype=True, arguments_unchanged=True
)

Cell = tuple[Tensor, ...]


def gru(rng: np.random.Generator, inputs: int, n: int) -> Cell:
    """The weights of a GRU with N states: (3N, inputs), (3N, N), (3N,), (3N,)."""
    shapes = ((3 * n, inputs), (3 * n, n), (3 * n,), (3 * n,))
    return tuple(normal(rng, *shape) for shape in shapes)


def undecided(*rows: list[float]) -> Cell:
    """A GRU whose gates are all 1/2: the new state is tanh(input · row) / 2 + state / 2."""
    n, zeros = len(rows), torch.zeros(2 * len(rows), len(rows[0]))
    w_input = torch.cat([zeros, torch.tensor(rows)])
    return w_input, torch.zeros(3 * n, n), torch.zeros(3 * n), torch.zeros(3 * n)


def gru_by_hand(x: Tensor, h: Tensor, w_input: Tensor, w_state: Tensor, *biases: Tensor) -> Tensor:
    """A GRU's step from its equations, in PyTorch's order: reset, update, new."""
    n = h.shape[1]
    given, kept = x @ w_input.T + biases[0], h @ w_state.T + biases[1]
    reset = torch.sigmoid(given[:, :n] + kept[:, :n])
    update = torch.sigmoid(given[:, n : 2 * n] + kept[:, n : 2 * n])
    new = torch.tanh(given[:, 2 * n :] + reset * kept[:, 2 * n :])
    return (1 - update) * new + update * h


def faint(rng: np.random.Generator, s: int) -> tuple[Tensor, Tensor]:
    """Scores (S,) from 0 to -20, and values (S, S) that make up for the weights.

    The smallest weight is 2e-9, beyond what a comparison of weights tells from 0. Its value is as
    much larger, so that every number of the context is the same.
    """
    scores = torch.from_numpy(rng.permutation(np.linspace(-20, 0, s))).float()
    return scores, torch.diag(torch.exp(-scores))


FAINT = "weights from 0.8 down to 2 · 10⁻⁹, with values that make up for it"


def sums(weights: Any) -> str:
    """A clue: rows of weights that do not sum to 1."""
    rows = np.ravel(weights.sum(axis=-1))
    worst = float(rows[np.argmax(np.abs(rows - 1))])
    if abs(worst - 1) < 1e-4 or not np.isfinite(worst):
        return ""
    return f"Each row of weights must sum to 1; one of yours sums to {worst:.4g}."
