"""Exercise 02_alignment/additive_score: checks, known slips, other ways to write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import alignment
from torch import Tensor

from attend_grader.chapters.ch02_alignment.shared import PROMISES
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.torch_numbers import normal

Inputs = tuple[Tensor, ...]


def _inputs(
    rng: np.random.Generator, t: int, s: int, n: int, e: int, a: int, lead: tuple[int, ...] = ()
) -> Inputs:
    """queries (*lead, T, N), keys (*lead, S, E), w_query (N, A), w_key (E, A), v (A,)."""
    shapes = ((*lead, t, n), (*lead, s, e), (n, a), (e, a), (a,))
    return tuple(normal(rng, *shape) for shape in shapes)


def _limits(rng: np.random.Generator) -> Known:
    queries, keys, w_query, w_key, v = _inputs(rng, 2, 3, 4, 2, 5)
    nothing = (0 * queries, 0 * keys, w_query, w_key, v)
    yield "queries and keys of zeros", nothing, torch.zeros(2, 3)
    ones = (torch.ones(2, 4), torch.ones(3, 2), torch.ones(4, 5), torch.ones(2, 5))
    why = "large positive sums: each tanh is 1, and the score is the sum of v"
    yield why, (50 * ones[0], *ones[1:], v), v.sum().expand(2, 3).clone()


def _pairs(rng: np.random.Generator) -> Known:
    for t, s, n, e, a in ((3, 4, 5, 2, 6), (4, 4, 4, 4, 4), (1, 3, 2, 5, 4), (3, 2, 1, 2, 1)):
        queries, keys, w_query, w_key, v = _inputs(rng, t, s, n, e, a)
        want = torch.zeros(t, s)
        for i, j in np.ndindex(t, s):
            want[i, j] = torch.tanh(queries[i] @ w_query + keys[j] @ w_key) @ v
        why = f"T = {t}, S = {s}, N = {n}, E = {e}, A = {a}"
        yield why, (queries, keys, w_query, w_key, v), want


def draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different, alike, one hidden unit, leading axes; large sums; an identity."""
    stacked = ((3, 4, 2, 5, 2, (2,)), (3, 3, 3, 3, 3, (3,)))
    sizes: list[Any] = [(3, 4, 5, 2, 6), (4, 4, 4, 4, 4), (2, 3, 1, 1, 1), *stacked]
    queries, *others = _inputs(rng, 3, 2, 4, 5, 6)
    query, key, _, w_key, v = _inputs(rng, 1, 1, 4, 3, 4)
    return [
        *(Call(_inputs(rng, *each)) for each in sizes),
        Call((100 * queries, *others)),
        Call((query, key, torch.eye(4), w_key, v)),
    ]


QUERY = "(queries @ w_query)[..., :, None, :]"
KEY = "(keys @ w_key)[..., None, :, :]"
HIDDEN = "torch.tanh(query_part + key_part)"

SLIPS = (
    Slip(
        "tanh before the sum",
        (HIDDEN, "(torch.tanh(query_part) + torch.tanh(key_part))"),
        "tanh is taken of query part and key part, each by itself, before they are added. So a "
        "query only adds one number to all its scores. Add first: tanh(query part + key part).",
    ),
    Slip(
        "tanh after v",
        (f"{HIDDEN} @ v", "torch.tanh((query_part + key_part) @ v)"),
        "tanh comes last, after v, so that all scores lie between -1 and 1. It belongs to the A "
        "hidden units, before the product with v.",
    ),
    Slip(
        "v before the tanh",
        (f"{HIDDEN} @ v", "torch.tanh((query_part + key_part) * v).sum(dim=-1)"),
        "The hidden units are multiplied by v before the tanh. Take the tanh first, then v: it "
        "should weigh what comes out of the units.",
    ),
    Slip(
        "ReLU instead of tanh",
        ("torch.tanh", "torch.relu"),
        "The hidden units are cut off at 0 (ReLU). Bahdanau's score uses tanh.",
    ),
    Slip(
        "sigmoid instead of tanh",
        ("torch.tanh", "torch.sigmoid"),
        "The hidden units lie between 0 and 1 (sigmoid). Bahdanau's score uses tanh.",
    ),
    Slip(
        "product instead of sum",
        ("query_part + key_part", "query_part * key_part"),
        "The query's part is multiplied by the key's. This score is called additive: add them.",
    ),
    Slip(
        "query t with key t only",
        ((QUERY, "queries @ w_query"), (KEY, "keys @ w_key")),
        "Query t meets key t only: where that is no error, a whole axis is missing. Let every "
        "query meet every key: give each part an axis for the other's places, (T, 1, A) and (1, "
        "S, A).",
    ),
    Slip(
        "new axes for one leading axis",
        ((QUERY, "(queries @ w_query)[:, :, None]"), (KEY, "(keys @ w_key)[:, None]")),
        "It is right with exactly one leading axis, as (B, T, N): new axes are counted from the "
        "start. Count from the end: x[..., :, None, :] and x[..., None, :, :].",
    ),
    Slip(
        "axes counted from the start",
        ((QUERY, "(queries @ w_query).unsqueeze(1)"), (KEY, "(keys @ w_key).unsqueeze(0)")),
        "It is right for one table. With leading axes, the new ones come too far in front: they "
        "are counted from the start. Count from the end: unsqueeze(-2) for queries, unsqueeze(-3) "
        "for keys.",
    ),
)


def einsum(queries, keys, w_query, w_key, v):
    """einsum throughout."""
    q = torch.einsum("...tn,na->...ta", queries, w_query).unsqueeze(-2)
    k = torch.einsum("...se,ea->...sa", keys, w_key).unsqueeze(-3)
    return torch.einsum("...tsa,a->...ts", torch.tanh(q + k), v)


def concatenated(queries, keys, w_query, w_key, v):
    """One matrix for query and key together, as the papers draw it."""
    t, s = queries.shape[-2], keys.shape[-2]
    q = queries[..., :, None, :].expand(*queries.shape[:-1], s, queries.shape[-1])
    k = keys[..., None, :, :].expand(*keys.shape[:-2], t, *keys.shape[-2:])
    both = torch.cat([q, k], dim=-1)
    return torch.matmul(torch.tanh(both @ torch.cat([w_query, w_key])), v[:, None]).squeeze(-1)


EXERCISE = Exercise(
    chapter="02_alignment",
    title="Additive score",
    goal="Compare a state with every encoded word by a small network.",
    reference=alignment.additive_score,
    contract=replace(
        PROMISES,
        leading_axes=("queries", "keys"),
        gradients=("queries", "keys", "w_query", "w_key", "v"),
        ranges={"v": (-1e3, 1e3)},
    ),
    properties=(
        worked(
            "a hand-worked example: scores 6 and 14",
            torch.tensor([[1.0]]),
            torch.tensor([[0.0], [1.0]]),
            torch.tensor([[np.log(2.0), 0.0]]).float(),
            torch.tensor([[0.0, np.log(3.0)]]).float(),
            torch.tensor([10.0, 10.0]),
            want=torch.tensor([[6.0, 14.0]]),
            why="tanh(ln 2) = 0.6, tanh(ln 3) = 0.8; v = (10, 10)",
            tolerance=PRINTED,
        ),
        known("zeros score 0; large sums saturate at the sum of v", _limits, tolerance=FLOAT32),
        known("every query (row) with every key (column)", _pairs, points=2, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(einsum, concatenated),
    hints=(
        "Two products make the query's part, A numbers for each query, and the key's part, A "
        "numbers for each key. Which shape must their sum have, so that every pair has A numbers "
        "of its own?",
        "The sum has the shape (..., T, S, A). Give the query's part an axis of length 1 for the "
        "keys, and the key's part one for the queries; broadcasting does the rest.",
        "`(queries @ w_query)[..., :, None, :]` is (..., T, 1, A); make the key's part "
        "(..., 1, S, A) in the same way. Add, take `torch.tanh`, and multiply by `v` with `@`: "
        "that sums over the last axis.",
    ),
    minutes=12,
    difficulty=3,
    importance=4,
)
