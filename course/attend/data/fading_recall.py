"""Chapter 22's races: what do memories of equal size recall of a long text, and of which age?

A text is a row of pairs, a key and one of 256 codes each. After the last pair some keys are asked
for, by noisy copies. An answer is right if the code nearest to it is the one that was written last
under that key. All arms but "softmax, all kept" keep 1,024 numbers (4,096 bytes in float32).

Each arm has options. They are tried on the seeds of TUNING, each at what is asked; the best mean is
then run on SEEDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NUMBERS, EMBEDDING, VALUE, CODES = 1024, 64, 32, 256
TEXTS = 12
"""Texts of a run, read side by side."""
TUNING, SEEDS = (100, 101, 102), (0, 1, 2, 3, 4)

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Task:
    """Texts, and the places that are asked for.

    Shapes: keys and asked (TEXTS, n, 64), codes (256, 32), which (TEXTS, n); starts (n,) is True at
    the first pair of each document; due: places that are asked for.
    """

    keys: np.ndarray
    asked: np.ndarray
    codes: np.ndarray
    which: np.ndarray
    starts: np.ndarray
    due: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """What is written under each key: (TEXTS, n, 32)."""
        return self.codes[self.which]

    def right(self, answers: np.ndarray) -> np.ndarray:
        """Percentage of texts whose answers, (TEXTS, due, 32), are nearest to their own code."""
        found = (answers @ self.codes.T).argmax(axis=-1)
        return 100 * (found == self.which[:, self.due]).mean(axis=0)


def unit(x: np.ndarray) -> np.ndarray:
    """The same directions with norm 1."""
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def task(seed: int, documents: int, pairs: int, due: Sequence[int], noise: float = 0.5) -> Task:
    """Draw documents, in each of which the same keys get new codes, in a new order.

    Args:
        seed: of everything random.
        documents: how many, one after the other.
        pairs: how many keys there are, which is also how many pairs a document has.
        due: ages that are asked for: 1 is the last pair of all.
        noise: norm of what is added to a key of norm 1 when it is asked for.
    """
    rng = np.random.default_rng(seed)
    once = unit(rng.standard_normal((TEXTS, pairs, EMBEDDING)))
    order = rng.random((TEXTS, documents, pairs)).argsort(axis=-1).reshape(TEXTS, -1)
    keys = np.take_along_axis(once, order[..., None], axis=1)
    asked = unit(keys + noise * unit(rng.standard_normal(keys.shape)))
    codes = unit(rng.standard_normal((CODES, VALUE)))
    which = rng.integers(CODES, size=order.shape)
    starts = np.arange(order.shape[1]) % pairs == 0
    return Task(keys, asked, codes, which, starts, order.shape[1] - np.asarray(due))


Arm = Callable[[Functions, Task, np.random.Generator, Any], np.ndarray]


def narrowed(rng: np.random.Generator, given: Task, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and questions, projected at random to a width, of norm 1."""
    projection = rng.standard_normal((EMBEDDING, width))
    return unit(given.keys @ projection), unit((given.asked @ projection)[:, given.due])


def fading(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """32 × 32 numbers that fade by the option with every pair."""
    keys, asked = narrowed(rng, given, 32)
    return asked @ use["retention_chunked"](keys, keys, given.values, option)[1]


def gated(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """32 × 32 numbers that are forgotten where a document starts, moved by the option."""
    keys, asked = narrowed(rng, given, 32)
    gates = np.where(np.roll(given.starts, option), -50.0, 0.0)[:, None]
    gates = np.broadcast_to(gates, keys.shape)
    return asked @ use["gated_linear_attention"](keys, keys, given.values, gates, 16)[1]


def corrected(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """32 × 32 numbers, written by the delta rule with the option for all step sizes."""
    keys, asked = narrowed(rng, given, 32)
    steps = np.full(keys.shape[:-1], option)
    return asked @ use["delta_rule_chunked"](keys, keys, given.values, steps)[1]


def cached(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """Softmax over the last pairs; the option is (width of a key, sharpness, pairs at most)."""
    from attend_solutions.attention import scaled_dot_product_attention  # not where work is graded

    del use
    width, sharpness, most = option
    keys, asked = narrowed(rng, given, width)
    kept = slice(-min(most, NUMBERS // (width + VALUE)), None)
    q = sharpness * width**0.5 * asked
    return scaled_dot_product_attention(q, keys[:, kept], given.values[:, kept])[0]


def everything(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """Softmax over all pairs, whatever they take."""
    from attend_solutions.attention import scaled_dot_product_attention

    del use, rng
    q = option * EMBEDDING**0.5 * given.asked[:, given.due]
    return scaled_dot_product_attention(q, given.keys, given.values)[0]


LATE = "gates, half a document late"
DECAYS = (0.6, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995)
CACHES = [(d, s, n) for d in (4, 8, 16, 32) for s in (4, 16, 64) for n in (8, 99)]
ARMS: Mapping[str, tuple[Arm, Sequence[Any]]] = {
    "no decay": (fading, (1.0,)),
    "one decay": (fading, DECAYS),
    "gates, told": (gated, (0,)),
    LATE: (gated, (None,)),
    "delta rule": (corrected, (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)),
    "softmax, cache": (cached, CACHES),
    "softmax, all kept": (everything, (4, 16, 64)),
}


def run(use: Functions, arm: str, option: Any, seed: int, **drawn: Any) -> np.ndarray:
    """Percentage of right answers of one run, for each age that is asked for."""
    given = task(seed, **drawn)
    if arm == LATE:
        option = drawn["pairs"] // 2
    return given.right(ARMS[arm][0](use, given, np.random.default_rng([seed, 1]), option))


def race(use: Functions, arms: Sequence[str], **drawn: Any) -> list[dict[str, Any]]:
    """Tune each arm, then run it: a row an arm and seed.

    Args:
        use: the learner's functions by name.
        arms: which of ARMS.
        **drawn: arguments of :func:`task`.

    Returns:
        rows with ``arm``, ``seed``, ``option`` and ``right``, the percentage over all ages.
    """
    rows = []
    for arm in arms:
        options = ARMS[arm][1]
        tried = [np.mean([run(use, arm, o, s, **drawn) for s in TUNING]) for o in options]
        option = options[int(np.argmax(tried))]
        for seed in SEEDS:
            right = float(run(use, arm, option, seed, **drawn).mean())
            rows.append({"arm": arm, "seed": seed, "option": option, "right": right})
    return rows


def by_age(use: Functions, arms: Mapping[str, tuple[str, Any]], pairs: int) -> list[dict[str, Any]]:
    """What is recalled of one long document, by age: a row an arm, seed and group of ages.

    Args:
        use: the learner's functions by name.
        arms: name of a line to an arm of ARMS and its option.
        pairs: the document's length; groups of ages are 1, 2, 3-4, 5-8 and so on.
    """
    rows = []
    for line, (arm, option) in arms.items():
        for seed in SEEDS:
            right = run(use, arm, option, seed, documents=1, pairs=pairs, due=range(1, pairs + 1))
            for power in range(int(np.log2(pairs)) + 1):
                found = right[2 ** (power - 1) if power else 0 : 2**power].mean()
                rows.append({"age": 2**power, "right": found, "arm": line, "seed": seed})
    return rows
