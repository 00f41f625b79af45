"""What the d_k explorer shows: scores, softmax entropy and gradient norm for every d_k.

Queries q and keys k have independent standard-normal components. Then q·k has variance d_k
(Vaswani et al., 2017, section 3.2.1, footnote 4); a softmax over scores that far apart puts nearly
everything on one key, where its Jacobian diag(p) - p pᵀ vanishes. Dividing by √d_k keeps the
variance at 1 for every d_k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

WIDTHS = tuple(2**power for power in range(10))  # d_k: 1, 2, 4 … 512
KEYS = 16
DRAWS = 256


@dataclass(frozen=True)
class Measures:
    """What one choice of scores gives, averaged over the draws.

    Shapes: scores (DRAWS, KEYS), weights (KEYS,) of the first draw. Entropy in nats, at most ln
    KEYS; gradient: mean Frobenius norm of the softmax Jacobian.
    """

    scores: np.ndarray
    weights: np.ndarray
    entropy: float
    gradient: float


@lru_cache(maxsize=8)
def measure(seed: int) -> dict[int, tuple[Measures, Measures]]:
    """Return (unscaled, scaled) measures for every d_k, all from the same draws.

    Smaller d_k use the first components of the same queries and keys, so that only d_k changes.
    """
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((DRAWS, 1, WIDTHS[-1]))
    k = rng.standard_normal((DRAWS, KEYS, WIDTHS[-1]))
    products = q * k
    found = {}
    for d_k in WIDTHS:
        dots = products[..., :d_k].sum(axis=-1)
        found[d_k] = (_summarise(dots), _summarise(dots / math.sqrt(d_k)))
    return found


def _summarise(scores: np.ndarray) -> Measures:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = exponentials / exponentials.sum(axis=-1, keepdims=True)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy = -(p * logs).sum(axis=-1)
    squares = (p**2).sum(axis=-1)
    # ‖diag(p) - p pᵀ‖² = Σp² - 2Σp³ + (Σp²)²; rounding may leave it a hair below 0
    norms = np.sqrt(np.maximum(squares - 2 * (p**3).sum(axis=-1) + squares**2, 0.0))
    return Measures(scores, p[0], float(entropy.mean()), float(norms.mean()))
