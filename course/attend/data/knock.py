"""Four small networks that learned chapter 01's copy task, for its first picture.

Two plain ones, a GRU and an LSTM, of nearly as many weights each, trained alike on the lag LAG by
``python course/01_recurrence/train.py knock``. They are run by functions that are handed in, and
may be a learner's. NumPy only.

Source: the copy task, :mod:`attend.data.copy_task`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attend.data.copy_task import TOKENS, copy_task

Array = npt.NDArray[np.floating]
Numbers = npt.NDArray[np.integer]

WEIGHTS = Path(__file__).with_name("knock.npz")
LAG = 30
NETWORKS = {
    "plain": "plain, as PyTorch starts it",
    "plain, orthogonal": "plain, orthogonal × 1.1",
    "GRU": "GRU, gate open",
    "LSTM": "LSTM, gate open",
}
"""Name here → arm of ``train.py``."""

LETTERS = "abcdefgh12345678?"
"""How tokens are written: symbols, fillers, the question."""


@cache
def weights(network: str) -> dict[str, Array]:
    """w_x (C, GN), w_h (N, GN), b_x, b_h (GN,), w_o (N, 8), b_o (8,) in double precision.

    G is 1, 3 or 4: the blocks of a plain network, a GRU, an LSTM.
    """
    with np.load(WEIGHTS) as stored:
        names = ("w_x", "w_h", "b_x", "b_h", "w_o", "b_o")
        return {name: stored[f"{network}.{name}"].astype(float) for name in names}


def curve(network: str) -> Array:
    """Training loss every 20 steps, in nats."""
    with np.load(WEIGHTS) as stored:
        return stored[f"{network}.curve"]


def sequences(seed: int, count: int) -> tuple[Numbers, Numbers]:
    """Fresh sequences (count, LAG + 2) and their answers (count,)."""
    return copy_task(np.random.default_rng([1, seed]), count, LAG)


def exchanged(tokens: Numbers, place: int) -> Numbers:
    """The sequence with another token of the same kind at a place. Shapes: (T,) -> (T,)."""
    kind, changed = tokens[place] // 8 * 8, tokens.copy()
    changed[place] = kind + (tokens[place] - kind + 3) % 8
    return changed


def read(
    network: str, tokens: Numbers, step: Callable[..., Any], gate_shift: float = 0.0
) -> tuple[Array, Array]:
    """Run one network over sequences.

    Args:
        network: one of NETWORKS.
        tokens: (B, T).
        step: rnn_step, gru_cell or lstm_cell, as the network needs it.
        gate_shift: added to the bias of the gate that keeps: the LSTM's forget gate, the GRU's
            update gate; a plain network has none.

    Shapes:
        returns: states (B, T, N), and scores of the eight symbols after the last token (B, 8)
    """
    w = weights(network)
    x, n = np.eye(TOKENS)[tokens], len(w["w_h"])
    b_x = w["b_x"].copy()
    if len(b_x) > n:
        b_x[n : 2 * n] += gate_shift
    h = c = np.zeros((len(tokens), n))
    states = []
    for t in range(tokens.shape[1]):
        if network == "LSTM":
            h, c = step(x[:, t], h, c, w["w_x"], w["w_h"], b_x + w["b_h"])
        elif network == "GRU":
            h = step(x[:, t], h, w["w_x"], w["w_h"], b_x, w["b_h"])
        else:
            h = step(x[:, t], h, w["w_x"], w["w_h"], b_x + w["b_h"])
        states.append(h)
    return np.stack(states, axis=1), h @ w["w_o"] + w["b_o"]
