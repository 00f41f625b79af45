"""Who can tell? Change one token and see which outputs move.

A mask says what each output *may* depend on. This measures what it *does* depend on: a token is
changed, everything else stays, and outputs are compared number by number. The function is never
opened, so it does not matter where a leak is: in a mask, in a mean over tokens, in a shift by one.

For any function from tokens (S, C) to outputs (T, …) that repeats bit for bit. One of torch tensors
fits in a wrapper: ``lambda x: model(torch.from_numpy(x)).detach().numpy()``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[[np.ndarray], Any]


def influence(function: Function, x: np.ndarray, *, size: float = 1.0, seed: int = 0) -> np.ndarray:
    """Measure how far each output moves when one token is changed.

    Entry (t, s) is the largest change of any number of output t when random numbers are added
    to token s. It is exactly 0 where not a single bit changed (0 and -0 count as the same), and
    infinite where a number became NaN or infinite, or stopped being so.

    Args:
        function: from tokens to outputs; called S + 1 times, each time with a copy.
        x: the tokens.
        size: standard deviation of what is added. A large one finds leaks that a small one misses,
            where a hidden score is only very low.
        seed: of what is added.

    Shapes:
        x: (S, C), floating point
        returns: (T, S)

    Raises:
        ValueError: x has another number of axes or holds whole numbers, or the outputs have no
            axis or change their shape.
    """
    x = np.asarray(x)
    if x.ndim != 2 or x.dtype.kind != "f":
        raise ValueError(
            f"influence: x must be tokens (S, C) of floats; got shape {x.shape} and type {x.dtype}."
            " Take one sentence of a batch; give whole numbers as their embeddings."
        )
    noise = (size * np.random.default_rng(seed).standard_normal(x.shape)).astype(x.dtype)
    before = np.array(function(x.copy()))
    if before.ndim == 0:
        raise ValueError(
            "influence: the function must return one row for each output; it returned one number."
            " Does it return several things? Take the output: lambda x: attention(x)[0]."
        )
    moved = []
    for s in range(len(x)):
        tokens = x.copy()
        tokens[s] += noise[s]
        after = np.asarray(function(tokens))
        if after.shape != before.shape:
            raise ValueError(
                f"influence: the shape of the outputs changed from {before.shape} to {after.shape}"
                f" when token {s} did. They must not depend on what the tokens say."
            )
        moved.append(_change(before, after).reshape(len(before), -1).max(axis=1))
    return np.stack(moved, axis=1)


def leak_test(
    function: Function,
    x: np.ndarray,
    allowed: np.ndarray | None = None,
    *,
    size: float = 1.0,
    seed: int = 0,
) -> list[tuple[int, int]]:
    """Name every leak: (t, s) where output t changes with a token s that it may not depend on.

    An empty list is no proof for all inputs: it says that these changes were not noticed.

    Args:
        function: as in :func:`influence`.
        x: the tokens, (S, C).
        allowed: what may depend on what, (T, S); None means causal: only s ≤ t. A token hidden from
            itself by a mask still asks its own question: allow (t, t) all the same.
        size: as in :func:`influence`.
        seed: as in :func:`influence`.

    Raises:
        ValueError: as in :func:`influence`, or ``allowed`` is no table of booleans (T, S).
    """
    changed = influence(function, x, size=size, seed=seed)
    if allowed is None:
        allowed = np.tril(np.ones(changed.shape, dtype=bool))
    allowed = np.asarray(allowed)
    if allowed.shape != changed.shape or allowed.dtype != bool:
        raise ValueError(
            f"leak_test: allowed must be booleans of shape {changed.shape}, one row for each"
            f" output; got shape {allowed.shape} and type {allowed.dtype}."
        )
    return [(int(t), int(s)) for t, s in zip(*np.nonzero((changed > 0) & ~allowed), strict=True)]


def _change(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """How far each number moved; 0 where it is the same, also NaN for NaN."""
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.abs(after.astype(float) - before.astype(float))
    change = np.where(np.isfinite(change), change, np.inf)
    tiny = np.nextafter(0, 1)  # a difference too small for float64 is one all the same
    return np.where(same, 0.0, np.maximum(change, tiny))
