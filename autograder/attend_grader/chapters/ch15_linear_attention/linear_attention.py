"""Exercise 15_linear_attention/linear_attention: weights without a softmax, never made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import linear_attention as answers
from attend_solutions.flash import expect_shapes

from attend_grader.chapters.ch15_linear_attention.shared import (
    ADDED,
    SMALL,
    WHOLE,
    cost,
    features,
    tiny,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.sizes import POSITIVE


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((3, 5, 3, 2), (4, 4, 4, 4), (1, 7, 2, 3), (6, 2, 5, 1)):
        yield f"{sizes[0]} queries, {sizes[1]} keys", Call(features(rng, *sizes))


def _limits(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = features(rng, 3, 5, 4, 2)
    alike = np.broadcast_to(k[:1], k.shape).copy()
    yield "equal keys: the plain mean", (q, alike, v), np.broadcast_to(v.mean(axis=0), (3, 2))
    yield "values of 1: a mean of ones", (q, k, np.ones((5, 2))), np.ones((3, 2))
    yield "one key: its value", (q, k[:1], v[:1]), np.broadcast_to(v[0], (3, 2))
    weights = SMALL[0] @ SMALL[1].T
    mean = weights / weights.sum(axis=-1, keepdims=True) @ v[:2]
    yield "a total weight below 0.01: a mean all the same", (*SMALL, v[:2]), mean
    small = tiny(q, k, np.ones((5, 2)))
    yield "weights below 1e-28: a mean of ones all the same", small, np.ones((3, 2))


def _large(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    return features(rng, length, length, 8, 8)


def _few_keys(rng: np.random.Generator, keys: int) -> tuple[Any, ...]:
    """Of large width: the table has fewer numbers than the queries."""
    return features(rng, 2048, keys, 64, 16)


def _small(rng: np.random.Generator) -> tuple[Any, ...]:
    return features(rng, 4, 6, 3, 2)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, leading axes, one query, width 1, tiny features.

    Where there are as many keys as leading axes, a sum along axis 0 has the shape of one along the
    keys: only then does it give numbers, and differs from a sum that is not made a column.
    """
    sizes = ((3, 5, 3, 2), (4, 4, 4, 4), (1, 6, 3, 2), (5, 3, 1, 3))
    stacked = (Call(features(rng, 3, 4, 5, 2, (2,))), Call(features(rng, 3, 4, 4, 2, (4,))))
    small = Call(tiny(*features(rng, 3, 5, 3, 2)))
    return [*stacked, *(Call(features(rng, *one)) for one in sizes), small]


def table(q, k, v):  # noqa: D103 (what a learner is told is its slip's)
    expect_shapes(q, k, v)
    weights = q @ np.swapaxes(k, -1, -2)
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def over_queries(q, k, v):  # noqa: D103
    expect_shapes(q, k, v)
    weights = q @ np.swapaxes(k, -1, -2)
    return weights / weights.sum(axis=-2, keepdims=True) @ v


def with_softmax(q, k, v):  # noqa: D103
    expect_shapes(q, k, v)
    weights = np.exp(q @ np.swapaxes(k, -1, -2))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def query_by_query(q, k, v):  # noqa: D103
    expect_shapes(q, k, v)
    rows = []
    for t in range(q.shape[-2]):
        weights = q[..., t : t + 1, :] @ np.swapaxes(k, -1, -2)
        rows.append(weights / weights.sum(axis=-1, keepdims=True) @ v)
    return np.concatenate(rows, axis=-2)


READ = "(q @ memory) / (q @ total)"
SLIPS = (
    Slip(
        "makes all the weights",
        table,
        "Values are right, but a table of T × S weights is made. Multiply keys with values first; "
        "the divisor, q · Σ k, needs no table either.",
    ),
    Slip(
        "a loop over tokens",
        query_by_query,
        "Values are right, but it takes a step in Python for each query or key. Two matrix "
        "products do all at once: kᵀ v, then q times the result.",
    ),
    Slip(
        "not divided",
        (READ, "q @ memory"),
        "These are sums, not means: divide each row by its total weight, q · Σ k.",
    ),
    Slip(
        "divided by the number of keys",
        (READ, "(q @ memory) / k.shape[-2]"),
        "The sums are divided by S. Weights differ from query to query: divide by q · Σ k.",
    ),
    Slip(
        "memory divided by the sum of the keys",
        (READ, "q @ (memory / total)"),
        "Each row of the memory is divided by its own total. A mean divides once, by the sum of "
        "all weights of a query: q · Σ k.",
    ),
    Slip(
        "features mapped again",
        ("memory = np", "q, k = elu_plus_one(q), elu_plus_one(k)\n    memory = np"),
        "Queries and keys go through elu + 1. They are features already: use them as they come.",
    ),
    Slip(
        "normalised over the queries",
        over_queries,
        "Your weights sum to 1 over the queries. Each query's weights should sum to 1 over the "
        "keys.",
    ),
    Slip(
        "softmax",
        with_softmax,
        "The weights are those of a softmax of q · k. Take the products q · k themselves, divided "
        "by their sum.",
    ),
    Slip(
        "divisor kept away from 0",
        (READ, "(q @ memory) / (q @ total + 1e-10)"),
        ADDED,
    ),
    Slip(
        "two axes only",
        ("(q @ total)", "(q @ k.sum(axis=-2))[..., None]"),
        "Right without leading axes only; with them it raises, or is wrong. Count axes from the "
        "end: `k.T` turns all axes round (np.swapaxes turns the last two), axis=0 is the first of "
        "all, and `q @ z` takes a sum z of shape (…, D) for a matrix: make it a column, z[..., "
        "None].",
    ),
)


def ones_column(q, k, v):
    """The total is the answer for a value of 1."""
    expect_shapes(q, k, v)
    wide = np.concatenate([v, np.ones((*v.shape[:-1], 1))], axis=-1)
    read = q @ (np.swapaxes(k, -1, -2) @ wide)
    return read[..., :-1] / read[..., -1:]


def einsum(q, k, v):
    """Index by index."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    memory = np.einsum("...sd,...se->...de", k, v)
    total = np.einsum("...td,...d->...t", q, k.sum(axis=-2))
    return np.einsum("...td,...de->...te", q, memory) / total[..., None]


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="Linear attention",
    goal="Attend to any number of keys through a matrix of D × D_v numbers.",
    reference=answers.linear_attention,
    contract=Contract(
        numpy_only=True,
        leading_axes=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"q": POSITIVE, "k": POSITIVE},
        whole=WHOLE,
        says=(
            "In long texts no table of T × S numbers, and no loop over tokens.",
            "Shapes that do not fit raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: weights 1/4 and 3/4",
            np.array([[1.0, 1.0]]),
            np.array([[1.0, 0.0], [1.0, 2.0]]),
            np.array([[8.0], [4.0]]),
            want=np.array([[5.0]]),
        ),
        agrees("fresh features of any sizes", _values),
        known("limits: equal keys, equal values, one key, small features", _limits),
        cost(
            "memory grows with T + S, not with T × S",
            "peak_bytes",
            _large,
            (128, 1024),
            12,
            "Something of T × S numbers is stored. Multiply keys with values before any query "
            "comes: that is D × D_v numbers.",
            _small,
            (_few_keys, (2, 12), 1.12),
            (_few_keys, (2, 60), 1.12),
        ),
        cost(
            "no loop over tokens",
            "steps",
            _large,
            (16, 128),
            2,
            "A loop runs over tokens. Two matrix products, keys with values and queries with the "
            "result, do for all at once.",
            _small,
        ),
        refuses(
            (
                ("keys of another width", (np.ones((2, 3)), np.ones((4, 1)), np.ones((4, 2)))),
                ("more values than keys", (np.ones((2, 3)), np.ones((4, 3)), np.ones((8, 2)))),
                ("one key, four values", (np.ones((2, 3)), np.ones((1, 3)), np.ones((4, 2)))),
                ("four keys, one value", (np.ones((2, 3)), np.ones((4, 3)), np.ones((1, 2)))),
                ("queries of width 1", (np.ones((2, 1)), np.ones((4, 3)), np.ones((4, 2)))),
                ("one query, one wider key", (np.ones((1, 1)), np.ones((1, 3)), np.ones((1, 2)))),
                ("one query and key, no such value", (*np.ones((2, 1, 3)), np.ones((4, 2)))),
            ),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"a column of ones": ones_column, "einsum": einsum},
    hints=(
        "A product of three matrices may be bracketed as you like. Which bracket has no T × S "
        "numbers in it?",
        "keys transposed times values is a (D, D_v) matrix, whatever S is. The total weight of a "
        "query is q times the sum of all keys.",
        "memory = np.swapaxes(k, -1, -2) @ v; total = k.sum(axis=-2)[..., None], which is "
        "(..., D, 1); then q @ memory divided by q @ total.",
    ),
    minutes=12,
    difficulty=2,
    importance=5,
)
