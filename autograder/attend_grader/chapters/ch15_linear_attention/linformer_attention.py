"""Exercise 15_linear_attention/linformer_attention: softmax attention over mixtures of keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import linear_attention as answers
from attend_solutions.attention import scaled_dot_product_attention, softmax
from attend_solutions.flash import expect_shapes

from attend_grader.chapters.ch15_linear_attention.shared import blanked, qkv
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal


def _case(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, r: int, lead: tuple[int, ...] = ()
) -> Call:
    return Call((*qkv(rng, t, s, d, d_v, lead), normal(rng, r, s), normal(rng, r, s)))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((3, 5, 3, 2, 2), (4, 4, 4, 4, 4), (1, 6, 2, 3, 3), (3, 4, 2, 2, 1)):
        yield f"{sizes[1]} keys mixed into {sizes[4]}", _case(rng, *sizes)
    for which, what in (
        ((3, 4), "a row of zeros in both projections: a mixture of nothing, with the score 0"),
        ((3,), "a row of zeros in project_k: the score 0"),
        ((4,), "a row of zeros in project_v: a mixture of nothing that has its share"),
        ((1, 2), "a key whose numbers and values are zeros"),
    ):
        yield what, Call(blanked(_case(rng, 3, 5, 3, 2, 3).args, 1, which))


def _no_mixing(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = qkv(rng, 3, 5, 4, 2)
    want = scaled_dot_product_attention(q, k, v)[0]
    yield "identity projections: attention as it was", (q, k, v, np.eye(5), np.eye(5)), want
    mean = np.full((1, 5), 0.2)
    same = np.broadcast_to(v.mean(axis=0), (3, 2))
    yield "one mixture, the mean of all: the mean value", (q, k, v, mean, mean), same


def _large(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    keys, v = np.array([[50.0, 0, 0, 0], [45.0, 0, 0, 0], [-50.0, 0, 0, 0]]), normal(rng, 3, 2)
    q = np.array([[40.0, 0, 0, 0]])
    yield "scores 1,000, 900 and −1,000", (q, keys, v, np.eye(3), np.eye(3)), v[:1]
    negative = (-q, keys[:2], v[:2], np.eye(2), np.eye(2))
    yield "scores −1,000 and −900", negative, v[1:2]
    q, k = np.array([[1000.0], [-1000.0]]), np.array([[1.0], [2.0]])
    two = np.eye(2)
    both = "a query with scores 1,000 and 2,000, and one with −1,000 and −2,000"
    yield both, (q, k, v[:2], two, two), v[1::-1]
    stacked = (q[:, None], np.stack([k, k]), np.stack([v[:2], v[:2]]), two, two)
    yield "the same in two entries of a leading axis", stacked, v[1::-1][:, None]
    yield "scores 3,000 and 0", (3 * q[:1], k - 1, v[:2], two, two), v[1:2]


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, leading axes, one mixture, one query."""
    sizes = (
        (3, 5, 4, 2, 2),
        (4, 4, 4, 4, 4),
        (3, 4, 2, 3, 1),
        (1, 6, 3, 2, 4),
    )
    return [_case(rng, 3, 5, 4, 2, 3, (2,)), *(_case(rng, *one) for one in sizes)]


def _misfit(
    what: str, *, queries: int = 3, values: int = 4, e: Any = (2, 4), f: Any = (2, 4)
) -> tuple[str, tuple[Any, ...]]:
    """Arguments for keys (4, 3), one of which may not fit."""
    return what, tuple(map(np.ones, ((2, queries), (4, 3), (values, 2), e, f)))


def by_products(q, k, v, project_k, project_v):  # noqa: D103 (what is told is its slip's)
    scores = q @ np.swapaxes(project_k @ k, -1, -2) / q.shape[-1] ** 0.5
    return scores @ (project_v @ v)


def over_queries(q, k, v, project_k, project_v):  # noqa: D103
    scores = q @ np.swapaxes(project_k @ k, -1, -2) / q.shape[-1] ** 0.5
    return softmax(scores, axis=-2) @ (project_v @ v)


def unscaled(q, k, v, project_k, project_v):  # noqa: D103
    return softmax(q @ np.swapaxes(project_k @ k, -1, -2)) @ (project_v @ v)


def after_the_weights(q, k, v, project_k, project_v):  # noqa: D103
    weights = softmax(q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5)
    return weights @ project_k.T @ (project_v @ v)


def _expect_projections(q, k, v, project_k, project_v):
    expect_shapes(q, k, v)
    if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
        raise ValueError("both projections need the shape (R, S)")


def without_maximum(q, k, v, project_k, project_v):  # noqa: D103
    _expect_projections(q, k, v, project_k, project_v)
    weights = np.exp(q @ np.swapaxes(project_k @ k, -1, -2) / q.shape[-1] ** 0.5)
    return weights / weights.sum(axis=-1, keepdims=True) @ (project_v @ v)


SLIPS = (
    Slip(
        "keys' projection for the values too",
        ("project_v @ v", "project_k @ v"),
        "The values are mixed with the projection of the keys. Mix them with their own, "
        "project_v.",
    ),
    Slip(
        "values' projection for the keys too",
        ("project_k @ k", "project_v @ k"),
        "The keys are mixed with the projection of the values. Mix them with their own, "
        "project_k.",
    ),
    Slip(
        "projections exchanged",
        (("project_k @ k", "project_x @ k"), ("project_v @ v", "project_k @ v"),
         ("project_x", "project_v")),
        "The two projections have changed places.",
    ),
    Slip(
        "forgot 1/√D",
        unscaled,
        "The scores are not divided by √D.",
    ),
    Slip(
        "divided by √R in the place of √D",
        ("scaled_dot_product_attention(q,",
         "scaled_dot_product_attention(q * (q.shape[-1] / len(project_k)) ** 0.5,"),
        "The scores are divided by √R, the number of mixtures. A dot product still has D terms.",
    ),
    Slip(
        "divided by √D_v in the place of √D",
        ("scaled_dot_product_attention(q,",
         "scaled_dot_product_attention(q * (q.shape[-1] / v.shape[-1]) ** 0.5,"),
        "The scores are divided by √D_v, the width of the values. A dot product of q and k has D "
        "terms.",
    ),
    Slip(
        "divided by √S in the place of √D",
        ("scaled_dot_product_attention(q,",
         "scaled_dot_product_attention(q * (q.shape[-1] / k.shape[-2]) ** 0.5,"),
        "The scores are divided by √S, the number of keys. A dot product of q and k has D terms.",
    ),
    Slip(
        "no softmax",
        by_products,
        "The scores are used as weights as they are. Linformer keeps the softmax, over R mixtures.",
    ),
    Slip(
        "softmax over the queries",
        over_queries,
        "Your weights sum to 1 over the queries. Each query's weights should sum to 1 over the "
        "mixtures.",
    ),
    Slip(
        "projected after the softmax",
        after_the_weights,
        "The weights of all S keys are made, and mixed afterwards. Mix keys and values first: "
        "then there are only R scores a query.",
    ),
    Slip(
        "did not subtract each row's maximum",
        without_maximum,
        "e to a large number overflows, and e to numbers far below 0 may be 0 for all mixtures of "
        "a row. Subtract from each row its own largest score first (not one for the whole table), "
        "or use scaled_dot_product_attention of chapter 03, which does.",
    ),
    Slip(
        "weights returned",
        ("(q, project_k @ k, project_v @ v)[0]", "(q, project_k @ k, project_v @ v)[1]"),
        "These are the weights, (…, T, R). The output is wanted, which "
        "scaled_dot_product_attention returns first.",
    ),
    Slip(
        "nothing is mixed",
        (("project_k @ k", "k"), ("project_v @ v", "v")),
        "This is attention over all S keys: the projections make no difference.",
    ),
)  # fmt: skip


def einsum(q, k, v, project_k, project_v):
    """Index by index, softmax by hand."""
    _expect_projections(q, k, v, project_k, project_v)
    keys = np.einsum("rs,...sd->...rd", project_k, k)
    values = np.einsum("rs,...se->...re", project_v, v)
    scores = np.einsum("...td,...rd->...tr", q, keys) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("...tr,...re->...te", weights / weights.sum(-1, keepdims=True), values)


def scores_first(q, k, v, project_k, project_v):
    """The same product in another order: the scores of all keys are mixed, before the softmax."""
    if not k.shape[-2] == v.shape[-2] == project_k.shape[1] == project_v.shape[1]:
        raise ValueError("there must be as many columns as keys and values")
    scores = (q @ np.swapaxes(k, -1, -2)) @ project_k.T / np.sqrt(q.shape[-1])
    return softmax(scores) @ project_v @ v


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="Linformer",
    goal="Softmax attention over a few mixtures of all keys.",
    reference=answers.linformer_attention,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        says=(
            "Shapes that do not fit raise a ValueError; both projections have the same R.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: four values mixed into two, equal keys",
            np.ones((1, 1)),
            np.zeros((4, 1)),
            np.array([[0.0], [2.0], [4.0], [10.0]]),
            np.kron(np.eye(2), [[0.5, 0.5]]),
            np.kron(np.eye(2), [[0.5, 0.5]]),
            want=np.array([[4.0]]),
        ),
        agrees("fresh queries, keys, values and projections", _values),
        known("identity projections change nothing; one mean leaves the mean", _no_mixing),
        known("large scores: no overflow", _large),
        refuses(
            (
                *(
                    _misfit(f"project_k for {columns} keys where there are 4", e=(2, columns))
                    for columns in (1, 3, 5)
                ),
                *(
                    _misfit(f"project_v for {columns} keys where there are 4", f=(2, columns))
                    for columns in (1, 3, 5)
                ),
                _misfit("two projections for 5 keys where there are 4", e=(2, 5), f=(2, 5)),
                *(
                    _misfit(f"{e} mixtures of keys, {f} of values", e=(e, 4), f=(f, 4))
                    for e, f in ((2, 1), (1, 2), (2, 3), (3, 2))
                ),
                _misfit("queries of width 1", queries=1),
                _misfit("queries wider than keys", queries=4),
                _misfit("more values than keys", values=8),
                _misfit("one value, four keys", values=1),
                *(
                    (
                        f"one query, key and value; one mixture {what}",
                        (*np.ones((2, 1, 3)), np.ones((1, 2)), np.ones(e), np.ones(f)),
                    )
                    for what, e, f in (
                        ("of two keys", (1, 2), (1, 2)),
                        ("of keys, two of values", (1, 1), (2, 1)),
                    )
                ),
            ),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"einsum": einsum, "scores first": scores_first},
    hints=(
        "A projection times the keys: which axis of the keys does it mix?",
        "project_k @ k is (..., R, D): R mixtures of keys. Do the same with the values.",
        "Then it is attention as in chapter 03, scale √D included: "
        "scaled_dot_product_attention(q, …, …)[0].",
    ),
    minutes=6,
    difficulty=1,
    importance=2,
)  # fmt: skip
