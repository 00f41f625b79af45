"""Chapter 15's race: which memory recalls most, if each has the same number of bytes?

Pairs of a key and one of 256 codes come one after the other. Then every key is asked for once, by a
noisy copy of it, and an answer is right if the code nearest to it is the one written last under
that key. Each memory may keep 1,024 numbers (4,096 bytes in float32). The arms "all kept" are
controls, and keep everything.

Each arm has options (step size, sharpness, width of the keys it keeps). They are tried on the seeds
of TUNING; the option with the best mean is then run on SEEDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

NUMBERS, EMBEDDING, VALUE, CODES = 1024, 64, 32, 256
MEMORIES = 12
"""Memories of a run, filled side by side."""
TUNING, SEEDS = (100, 101, 102), tuple(range(20))

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Task:
    """Shapes: keys and asked (MEMORIES, n, 64), codes (C, 32), which (MEMORIES, n), due bool."""

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


def task(seed: int, pairs: int, noise: float = 0.5, times: int = 1, codes: int = CODES) -> Task:
    """Draw memories' worth of pairs.

    Args:
        seed: of everything random.
        pairs: how many different keys.
        noise: norm of what is added to a key of norm 1 when it is asked for.
        times: how often each key is written, in random order, each time with a code drawn anew;
            the last is ``due``.
        codes: how many a value is one of.
    """
    rng = np.random.default_rng(seed)
    once = unit(rng.standard_normal((MEMORIES, pairs, EMBEDDING)))
    order = rng.permuted(np.tile(np.arange(pairs), (MEMORIES, times)), axis=1)
    keys = np.take_along_axis(once, order[..., None], axis=1)
    asked = unit(keys + noise * unit(rng.standard_normal(keys.shape)))
    drawn = unit(rng.standard_normal((codes, VALUE)))
    which = rng.integers(codes, size=keys.shape[:2])
    again = np.triu(order[:, :, None] == order[:, None, :], 1)  # the same key, later
    due = ~again.any(axis=-1)
    return Task(keys, asked, drawn, which, due)


def narrowed(rng: np.random.Generator, given: Task, width: int, value: int) -> Task:
    """The same task in fewer numbers: keys of one width, codes of another, all of norm 1.

    Both are multiplied by random matrices with orthonormal columns, the same way for every arm.
    """
    by_key, by_code = (
        np.linalg.qr(rng.standard_normal(shape))[0]
        for shape in ((EMBEDDING, width), (VALUE, value))
    )
    keys, asked, codes = given.keys @ by_key, given.asked @ by_key, given.codes @ by_code
    return replace(given, keys=unit(keys), asked=unit(asked), codes=unit(codes))


Arm = Callable[[Functions, Task, np.random.Generator, Any], np.ndarray]
"""Which answers are right, (MEMORIES, writes), of a task with one option."""


def summed(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """A matrix written by adding; the option is its height, the width of a key."""
    few = narrowed(rng, given, option, NUMBERS // option)
    return few.right(few.asked @ use["recurrent_form"](few.keys, few.keys, few.values)[1])


def positive(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """elu + 1 of keys: a mean, kept as a matrix and the sum of the keys; option: width, length."""
    from attend_solutions.linear_attention import elu_plus_one  # not where work is graded

    width, length = option
    few = narrowed(rng, given, width, NUMBERS // width - 1)
    q, k = elu_plus_one(length * few.asked), elu_plus_one(length * few.keys)
    return few.right(use["linear_attention"](q, k, few.values))


def random_features(
    use: Functions, given: Task, rng: np.random.Generator, option: Any
) -> np.ndarray:
    """Orthogonal random features of whole keys: a mean likewise; option: features, length."""
    from attend_solutions.linear_attention import gaussian_projection

    features, length = option
    few = narrowed(rng, given, EMBEDDING, NUMBERS // features - 1)
    projection = gaussian_projection(rng, features, EMBEDDING, orthogonal=True)
    q, k = (length * EMBEDDING**0.25 * x for x in (few.asked, few.keys))
    return few.right(use["performer_attention"](q, k, few.values, projection))


def corrected(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """A matrix written by the delta rule; the option is (width of a key, beta)."""
    width, beta = option
    few = narrowed(rng, given, width, NUMBERS // width)
    state = np.zeros((MEMORIES, width, NUMBERS // width))
    for key, value in zip(few.keys.swapaxes(0, 1), few.values.swapaxes(0, 1), strict=True):
        state = use["delta_rule_update"](state, key, value, beta)
    return few.right(few.asked @ state)


def cached(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """Softmax over the last pairs, as many as fit; option: widths of key and value, sharpness."""
    del use
    width, value, _ = option
    few = narrowed(rng, given, width, value)
    last = NUMBERS // (width + value)
    return _attend(few, few.keys[:, -last:], few.values[:, -last:], option[2])


def recent(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """The cache with a bias for recent pairs; option: widths, sharpness, cost of a step back.

    A pair's place counts as one of its numbers.
    """
    del use
    width, value, sharpness, step = option
    few = narrowed(rng, given, width, value)
    last = NUMBERS // (width + value + 1)
    return _attend(few, few.keys[:, -last:], few.values[:, -last:], sharpness, step)


def replaced(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """The cache, but a pair takes the place of an earlier one with an equal key."""
    del use
    width, value, _ = option
    few = narrowed(rng, given, width, value)
    last = NUMBERS // (width + value)
    keys, values = (x[few.due].reshape(MEMORIES, -1, x.shape[-1]) for x in (few.keys, few.values))
    return _attend(few, keys[:, -last:], values[:, -last:], option[2])


def everything(use: Functions, given: Task, rng: np.random.Generator, option: Any) -> np.ndarray:
    """Softmax over all pairs, whatever they take; option: sharpness, cost of a step back."""
    del use, rng
    return _attend(given, given.keys, given.values, *option)


def _attend(
    few: Task, keys: np.ndarray, values: np.ndarray, sharpness: float, step: float = 0.0
) -> np.ndarray:
    """Softmax of sharpness · (similarity of the keys − step · how many pairs ago)."""
    from attend_solutions.attention import scaled_dot_product_attention

    q = few.asked
    if step:  # one more number a key, its place; what is the same for all keys cancels
        places = np.broadcast_to(np.arange(keys.shape[1])[:, None], (*keys.shape[:2], 1))
        keys = np.concatenate([keys, places], axis=-1)
        q = np.concatenate([q, np.full((*q.shape[:2], 1), step)], axis=-1)
    q = sharpness * keys.shape[-1] ** 0.5 * q
    return few.right(scaled_dot_product_attention(q, keys, values)[0])


HEIGHTS = (32, 48, 64)
"""Widths of a key in a matrix of 1,024 numbers; a value has the other side."""
CACHES = tuple(
    (d, v, s) for d in (6, 8, 12, 16, 24) for v in (2, 3, 4, 8, 32) for s in (16, 64, 256)
)
STEPS = (0.0003, 0.001, 0.003, 0.01, 0.03)
"""What a step back may cost of a similarity, which is 1 at most."""
ARMS: Mapping[str, tuple[Arm, Sequence[Any]]] = {
    "sum": (summed, HEIGHTS),
    "elu + 1": (positive, [(d, x) for d in (31, 46, 60) for x in (2, 5, 20, 100, 1000)]),
    "random features": (
        random_features,
        [(m, x) for m in (31, 60, 113, 204, 256, 341) for x in (1, 2, 4, 8, 16, 24)],
    ),
    "delta rule": (
        corrected,
        [(d, beta) for d in HEIGHTS for beta in (0.025, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)],
    ),
    "softmax, cache": (cached, CACHES),
    "cache, recent first": (
        recent,
        [
            (d, v, s, step)
            for d in (8, 12, 16)
            for v in (2, 4, 8)
            for s in (64, 256, 1024)
            for step in STEPS
        ],
    ),
    "cache, replacing": (replaced, CACHES),
    "softmax, all kept": (everything, [(s, 0) for s in (4, 16, 64)]),
    "all kept, recent first": (everything, [(s, x) for s in (16, 64, 256) for x in STEPS]),
}
ONCE = ("sum", "elu + 1", "random features", "delta rule", "softmax, cache", "softmax, all kept")
"""The arms that are raced where no key is written twice."""


def run(use: Functions, arm: str, option: Any, seed: int, **drawn: Any) -> np.ndarray:
    """Which answers are right, of one run: (MEMORIES, n), of the pairs that are due."""
    given = task(seed, **drawn)
    right = ARMS[arm][0](use, given, np.random.default_rng([seed, 1]), option)
    return right[given.due].reshape(MEMORIES, -1)


def race(use: Functions, arms: Sequence[str] = tuple(ARMS), **drawn: Any) -> list[dict[str, Any]]:
    """Tune each arm, then run it: a row an arm and seed.

    Args:
        use: the learner's functions by name.
        arms: which of ARMS.
        **drawn: ``pairs``, ``noise``, ``times`` and ``codes`` of :func:`task`.

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
