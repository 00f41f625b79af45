"""Exercise 15_linear_attention/performer_attention: softmax's weights, by random features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import linear_attention as answers
from attend_solutions.attention import scaled_dot_product_attention
from attend_solutions.flash import expect_shapes
from attend_solutions.linear_attention import linear_attention, positive_random_features

from attend_grader.chapters.ch15_linear_attention.shared import blanked, cost, qkv
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal


def _case(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, m: int, lead: tuple[int, ...] = ()
) -> Call:
    return Call((*qkv(rng, t, s, d, d_v, lead), normal(rng, m, d)))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((3, 5, 3, 2, 6), (4, 4, 4, 4, 4), (1, 6, 2, 3, 3), (3, 2, 5, 1, 8)):
        yield f"{sizes[1]} keys of width {sizes[2]}, {sizes[4]} features", _case(rng, *sizes)
    blank = blanked(_case(rng, 3, 5, 3, 2, 6).args, 2, (1, 2))
    yield "a key whose numbers and values are zeros, which has its share all the same", Call(blank)


def _limits(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = qkv(rng, 3, 5, 4, 2)
    projection = normal(rng, 6, 4)
    alike = np.broadcast_to(k[:1], k.shape).copy()
    want = np.broadcast_to(v.mean(axis=0), (3, 2))
    yield "equal keys: the plain mean", (q, alike, v, projection), want
    yield "values of 1: a mean of ones", (q, k, np.ones((5, 2)), projection), np.ones((3, 2))
    q = k = np.full((5, 4), 5.0)  # of norm 7 after division by √2: features of about e^(-25)
    directions = projection / 100
    want = np.broadcast_to(v.mean(axis=0), (5, 2))
    yield "long vectors: weights of about 1e-21", (q, k, v, directions), want
    apart, far = np.array([[20.0], [-20.0]]), np.full((5, 1), -20.0)
    why = "exponents 200 and −600 for queries, −600 and 200 for keys: weights of about 1e-174"
    yield why, (-far[:2], far, v, apart), want[:2]
    # what is left of a query or of a key once its largest exponent is taken off may be 0
    why = "the same, with queries and keys of either sign: e to 400 against e to −400"
    yield why, (apart, apart, v[:2], apart), v[:2]
    why, long = "an exponent of 596, whose first part is 792", np.full((1, 4), 14.0)
    yield why, (long, 0 * k[:2], v[:2], np.full((1, 4), 20.0)), v[:2].mean(0, keepdims=True)
    both = np.stack([-far[:2], far[:2]])
    why, want = "two heads: features of e^200, and of e^−600", v[:2].mean(axis=0)
    given = np.zeros((2, 2, 1)), both, np.stack([v[:2], v[:2]]), apart[:1]
    yield why, given, np.broadcast_to(want, (2, 2, 2))


def _large(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    return _case(rng, length, length, 8, 8, 8).args


def _few_keys(rng: np.random.Generator, keys: int) -> tuple[Any, ...]:
    """Fewer keys than features: the table has fewer numbers than what is mapped."""
    return _case(rng, 1024, keys, 2, 64, 64).args


def _small(rng: np.random.Generator) -> tuple[Any, ...]:
    return _case(rng, 4, 6, 3, 2, 5).args


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, leading axes, one query, width 16, width 1."""
    sizes = (
        (3, 5, 4, 2, 6),
        (4, 4, 4, 4, 4),
        (1, 6, 3, 2, 5),
        (3, 4, 16, 2, 8),
        (3, 4, 1, 2, 5),
    )
    return [_case(rng, 3, 5, 4, 2, 3, (2,)), *(_case(rng, *one) for one in sizes)]


def _misfit(
    what: str, *, queries: int = 3, values: int = 4, projection: int = 3
) -> tuple[str, tuple[Any, ...]]:
    """Arguments for keys (4, 3), one of which may not fit."""
    shapes = ((2, queries), (4, 3), (values, 2), (5, projection))
    return what, tuple(map(np.ones, shapes))


def exact(q, k, v, projection):  # noqa: D103 (what a learner is told is its slip's)
    del projection
    return scaled_dot_product_attention(q, k, v)[0]


def not_divided(q, k, v, projection):  # noqa: D103
    root = q.shape[-1] ** 0.25
    mapped_q, mapped_k = (positive_random_features(x / root, projection) for x in (q, k))
    return mapped_q @ (np.swapaxes(mapped_k, -1, -2) @ v)


def table(q, k, v, projection):  # noqa: D103
    root = q.shape[-1] ** 0.25
    mapped_q, mapped_k = (positive_random_features(x / root, projection) for x in (q, k))
    weights = mapped_q @ np.swapaxes(mapped_k, -1, -2)
    return weights / weights.sum(axis=-1, keepdims=True) @ v


SLIPS = (
    Slip(
        "not scaled",
        ("q.shape[-1] ** 0.25", "1.0"),
        "The scores that are imitated are q · k, not q · k / √D. Divide q and k by the fourth "
        "root of D each.",
    ),
    Slip(
        "divided by √D each",
        ("q.shape[-1] ** 0.25", "q.shape[-1] ** 0.5"),
        "q and k are divided by √D each, so the scores are divided by D. The fourth root on each "
        "side makes √D.",
    ),
    Slip(
        "only the queries are scaled",
        (("q / root", "q / root**2"), ("k / root", "k")),
        "All of the scale went into the queries. The scores that are imitated are right, but long "
        "keys make the features noisy: divide both by the fourth root of D.",
    ),
    Slip(
        "only the keys are scaled",
        (("k / root", "k / root**2"), ("q / root", "q")),
        "All of the scale went into the keys. The scores that are imitated are right, but long "
        "queries make the features noisy: divide both by the fourth root of D.",
    ),
    Slip(
        "the fourth root is rounded",
        ("q.shape[-1] ** 0.25", "round(q.shape[-1] ** 0.25)"),
        "Queries and keys are divided by a whole number. For most D the fourth root is no whole "
        "number.",
    ),
    Slip(
        "norm of the keys left out",
        ("positive_random_features(k / root, projection)", "np.exp(k / root @ projection.T)"),
        "The features of a key lack e^(−‖x‖²/2), where x is the scaled key, so long keys weigh "
        "too much. Map queries and keys with positive_random_features.",
    ),
    Slip(
        "other directions for the keys",
        ("(k / root, projection)", "(k / root, projection[::-1])"),
        "Queries and keys are mapped with the directions in different order. Feature i of both "
        "should belong to the same direction w_i.",
    ),
    Slip(
        "elu + 1 of the dot products",
        (("mapped_q = positive_random_features(q / root, projection)",
          "mapped_q = elu_plus_one(q / root @ projection.T)"),
         ("mapped_k = positive_random_features(k / root, projection)",
          "mapped_k = elu_plus_one(k / root @ projection.T)")),
        "The features are elu + 1 of w · x. Those that imitate the softmax are "
        "positive_random_features.",
    ),
    Slip(
        "a number added to the features",
        (("mapped_q = positive_random_features(q / root, projection)",
          "mapped_q = positive_random_features(q / root, projection) + 1e-6"),
         ("mapped_k = positive_random_features(k / root, projection)",
          "mapped_k = positive_random_features(k / root, projection) + 1e-6")),
        "A millionth is added to each feature, as some code does against a division by 0. The "
        "weights are then a little off, and far off where features are small. Take the features "
        "as they are.",
    ),
    Slip(
        "√M in the place of √D",
        ("q.shape[-1] ** 0.25", "len(projection) ** 0.25"),
        "Queries and keys are divided by the fourth root of M, the number of features. Take that "
        "of their width D.",
    ),
    Slip(
        "scaled by the width of the values",
        ("q.shape[-1] ** 0.25", "v.shape[-1] ** 0.25"),
        "Queries and keys are divided by the fourth root of D_v, the width of the values. Take "
        "that of their own width D.",
    ),
    Slip(
        "not divided by the total weight",
        not_divided,
        "These are sums, not means: divide by the total weight, as linear_attention does.",
    ),
    Slip(
        "exact attention",
        exact,
        "This is exact softmax attention, which computes T × S scores. Let the features take "
        "their place.",
    ),
    Slip(
        "makes all the weights",
        table,
        "Values are right, but a table of T × S weights is made. Multiply features of keys with "
        "values first, as linear_attention should.",
    ),
)  # fmt: skip


def in_one_go(q, k, v, projection):
    """Scaled projection in the place of scaled vectors, products by einsum."""
    expect_shapes(q, k, v)
    half = 2 * np.sqrt(q.shape[-1])
    turned = projection.T / q.shape[-1] ** 0.25
    mapped_q = np.exp(q @ turned - (q * q).sum(-1)[..., None] / half)
    mapped_k = np.exp(k @ turned - (k * k).sum(-1)[..., None] / half)
    memory = np.einsum("...sm,...se->...me", mapped_k, v)
    total = np.einsum("...tm,...m->...t", mapped_q, mapped_k.sum(-2))
    return np.einsum("...tm,...me->...te", mapped_q, memory) / total[..., None]


def shifted(q, k, v, projection):
    """Features times a constant: it cancels. The paper's code does so against overflow."""
    scale = q.shape[-1] ** -0.25
    mapped_q = 7.0 * positive_random_features(scale * q, projection)
    mapped_k = 0.5 * positive_random_features(scale * k, projection)
    return linear_attention(mapped_q, mapped_k, v)


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="Performer",
    goal="Imitate softmax attention through random features.",
    reference=answers.performer_attention,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"q": (-20, 20), "k": (-20, 20), "projection": (-20, 20)},
        says=(
            "No table of T × S numbers.",
            "Shapes that do not fit raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: D = 16, so q and k are halved",
            2 * np.eye(16)[:1],
            2 * np.eye(16)[:2],
            np.array([[8.0], [0.0]]),
            np.eye(16)[:1],
            want=np.array([[8 * np.e / (np.e + 1)]]),
            why="with w = (1, 0, …) the weights of the keys are as e to 1",
        ),
        agrees("fresh queries, keys, values and projections", _values),
        known("a mean: equal keys, equal values, small weights", _limits),
        cost(
            "memory grows with T + S, not with T × S",
            "peak_bytes",
            _large,
            (128, 1024),
            12,
            "T × S numbers are stored. Map queries and keys, then use linear_attention.",
            _small,
            (_few_keys, (2, 30), 1.08),
            (_few_keys, (2, 60), 1.15),
        ),
        refuses(
            (
                *(
                    _misfit(f"a projection of width {width} for keys of width 3", projection=width)
                    for width in (1, 2, 4)
                ),
                _misfit("queries of width 1", queries=1),
                _misfit("queries wider than keys", queries=4),
                _misfit("more values than keys", values=8),
                _misfit("one value, four keys", values=1),
                (
                    "one direction of width 1 for one query and one key of width 3",
                    (*np.ones((2, 1, 3)), np.ones((1, 2)), np.ones((1, 1))),
                ),
            ),
            cause="positive_random_features refuses a projection of another width; if you cut it "
            "or map q and k yourself, compare the widths yourself. `expect_shapes` in the line "
            "above refuses q, k and v that do not fit: keep it.",
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"scaled projection": in_one_go, "features times a constant": shifted},
    hints=(
        "The features imitate e^(x · y). Which x and y make x · y = q · k / √D?",
        "Divide both, so that neither is long: by the fourth root of D.",
        "root = q.shape[-1] ** 0.25; map q / root and k / root with positive_random_features, and "
        "hand both to linear_attention with v.",
    ),
    minutes=6,
    difficulty=2,
    importance=3,
    uses=("linear_attention", "positive_random_features"),
)
