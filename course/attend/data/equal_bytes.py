"""Chapter 15's race: which memory recalls most, if each has the same number of bytes?

Pairs of a key and one of 256 codes come one after the other. Then every key is asked for once, by a
noisy copy of it, and an answer is right if the code nearest to it is the one written last under
that key. Each memory may keep 1,024 numbers (4,096 bytes in float32). All but the last of ARMS
keep that; it is the control, and keeps everything.

Each arm has options (step size, sharpness, width of the keys it keeps). They are tried on the seeds
of TUNING; the option with the best mean is then run on SEEDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NUMBERS, EMBEDDING, VALUE, CODES = 1024, 64, 32, 256
MEMORIES = 12
"""Memories of a run, filled side by side."""
TUNING, SEEDS = (100, 101, 102), (0, 1, 2, 3, 4)

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Task:
    """Shapes: keys and asked (MEMORIES, n, 64), codes (256, 32), which (MEMORIES, n), due bool."""

    keys: np.ndarray
    asked: np.ndarray
    codes: np.ndarray
    which: np.ndarray
    due: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """What is written under each key: (MEMORIES, n, 32)."""
        return self.codes[self.which]

    def right(self, answers: np.ndarray) -> np.ndarray:
        """Which answers are nearest to their own code: (MEMORIES, n)."""
        return (answers @ self.codes.T).argmax(axis=-1) == self.which


def unit(x: np.ndarray) -> np.ndarray:
    """The same directions with norm 1."""
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def task(seed: int, pairs: int, noise: float = 0.5, times: int = 1) -> Task:
    """Draw memories' worth of pairs.

    Args:
        seed: of everything random.
        pairs: how many different keys.
        noise: norm of what is added to a key of norm 1 when it is asked for.
        times: how often each key is written, each time with another code; the last is ``due``.
    """
    rng = np.random.default_rng(seed)
    once = unit(rng.standard_normal((MEMORIES, pairs, EMBEDDING)))
    keys = np.concatenate([once] * times, axis=1)
    asked = unit(keys + noise * unit(rng.standard_normal(keys.shape)))
    codes = unit(rng.standard_normal((CODES, VALUE)))
    which = rng.integers(CODES, size=keys.shape[:2])
    due = np.broadcast_to(np.arange(pairs * times) >= pairs * (times - 1), which.shape)
    return Task(keys, asked, codes, which, due)


Arm = Callable[[Functions, Task, np.random.Generator, Any], np.ndarray]


def narrowed(rng: np.random.Generator, given: Task, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and questions, projected at random to a width, of norm 1."""
    projection = rng.standard_normal((EMBEDDING, width))
    return unit(given.keys @ projection), unit(given.asked @ projection)


def summed(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """32 × 32 numbers, written by adding."""
    del option
    keys, asked = narrowed(rng, given, 32)
    return asked @ use["recurrent_form"](keys, keys, given.values)[1]


def positive(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """elu + 1 of keys of width 31 times the option: a mean, with 31 × 32 + 31 numbers."""
    from attend_solutions.linear_attention import elu_plus_one  # not where work is graded

    keys, asked = (elu_plus_one(option * x) for x in narrowed(rng, given, 31))
    return use["linear_attention"](asked, keys, given.values)


def random_features(
    use: Functions, given: Task, rng: np.random.Generator, option: Any
) -> np.ndarray:
    """31 orthogonal random features of the embeddings times the option: a mean likewise."""
    from attend_solutions.linear_attention import gaussian_projection

    projection = gaussian_projection(rng, 31, EMBEDDING, orthogonal=True)
    q, k = (option * EMBEDDING**0.25 * x for x in (given.asked, given.keys))
    return use["performer_attention"](q, k, given.values, projection)


def corrected(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """32 × 32 numbers, written by the delta rule with the option as beta."""
    keys, asked = narrowed(rng, given, 32)
    state = np.zeros((MEMORIES, 32, VALUE))
    for key, value in zip(keys.swapaxes(0, 1), given.values.swapaxes(0, 1), strict=True):
        state = use["delta_rule_update"](state, key, value, option)
    return asked @ state


def cached(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """Softmax over the last pairs, as many as fit; the option is (width of a key, sharpness)."""
    from attend_solutions.attention import scaled_dot_product_attention

    del use
    width, sharpness = option
    keys, asked = narrowed(rng, given, width)
    kept = slice(-(NUMBERS // (width + VALUE)), None)
    q = sharpness * width**0.5 * asked
    return scaled_dot_product_attention(q, keys[:, kept], given.values[:, kept])[0]


def everything(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """Softmax over all pairs, whatever they take."""
    from attend_solutions.attention import scaled_dot_product_attention

    del use, rng
    q = option * EMBEDDING**0.5 * given.asked
    return scaled_dot_product_attention(q, given.keys, given.values)[0]


ARMS: Mapping[str, tuple[Arm, Sequence[Any]]] = {
    "sum": (summed, (None,)),
    "elu + 1": (positive, (0.5, 2, 5, 20, 100, 1000)),
    "random features": (random_features, (0.5, 1, 1.5, 2, 3, 4, 6, 9)),
    "delta rule": (corrected, (0.025, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)),
    "softmax, cache": (cached, [(d, s) for d in (4, 8, 16, 32) for s in (4, 16, 64)]),
    "softmax, all kept": (everything, (4, 16, 64)),
}


def run(use: Functions, arm: str, option: Any, seed: int, **drawn: Any) -> np.ndarray:
    """Which answers are right, of one run: (MEMORIES, n), of the pairs that are due."""
    given = task(seed, **drawn)
    answers = ARMS[arm][0](use, given, np.random.default_rng([seed, 1]), option)
    due = given.right(answers)[given.due]
    return due.reshape(MEMORIES, -1)


def race(use: Functions, arms: Sequence[str] = tuple(ARMS), **drawn: Any) -> list[dict[str, Any]]:
    """Tune each arm, then run it: a row an arm and seed.

    Args:
        use: the learner's functions by name.
        arms: which of ARMS.
        **drawn: ``pairs``, ``noise`` and ``times`` of :func:`task`.

    Returns:
        rows with ``arm``, ``seed``, ``option``, the percentage ``right`` and ``by_age``, the same
        for each quarter of the pairs, oldest first.
    """
    rows = []
    for arm in arms:
        options = ARMS[arm][1]
        tried = [np.mean([run(use, arm, o, s, **drawn).mean() for s in TUNING]) for o in options]
        option = options[int(np.argmax(tried))]
        for seed in SEEDS:
            found = run(use, arm, option, seed, **drawn)
            quarters = [100 * float(q.mean()) for q in np.array_split(found, 4, axis=1)]
            row = {"arm": arm, "seed": seed, "option": option, "by_age": quarters}
            rows.append(row | {"right": 100 * float(found.mean())})
    return rows
