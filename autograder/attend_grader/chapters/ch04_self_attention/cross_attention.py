"""Exercise 04_self_attention/cross_attention: one text looks at another."""

from __future__ import annotations

import math

import numpy as np
from attend_solutions import self_attention
from attend_solutions.self_attention import masked_softmax
from attend_solutions.types import Array

from attend_grader.chapters.ch04_self_attention.shared import (
    FARTHER,
    FILLED,
    far_below,
    late,
    looking,
    own_masked,
    own_output,
    scale_clue,
    seen,
    under_masks,
    with_empty_row,
)
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject

_SIZES = (
    (3, 6, 2, 5, 4, 3),
    (3, 3, 4, 4, 4, 4),
    (4, 1, 2, 3, 5, 2),
    (1, 4, 3, 3, 9, 2),
    (2, 5, 3, 3, 1, 3),
)
"""T, S, C, C_c, D, D_v: all different; all equal; one key; one query; D = 1."""


def two_texts(
    rng: np.random.Generator,
    t: int,
    s: int,
    c: int,
    c_c: int,
    d: int,
    d_v: int,
    lead: tuple[int, ...] = (),
) -> tuple[Array, Array, Array, Array, Array]:
    """Random x (*lead, t, c), context (*lead, s, c_c), w_q (c, d), w_k (c_c, d), w_v (c_c, d_v)."""
    x, context = normal(rng, *lead, t, c), normal(rng, *lead, s, c_c)
    return x, context, normal(rng, c, d), normal(rng, c_c, d), normal(rng, c_c, d_v)


def _values(x: Array, context: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return context @ w_v


def _two_queries() -> tuple[Array, ...]:
    """D = 4: three context tokens with weights 1 : 2 : 1 and, for the other query, all equal."""
    context = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    w_q, w_k = np.zeros((3, 4)), np.array([[0.0] * 4, [1.0] * 4])
    w_q[0] = np.log(2.0) / 2
    x = np.array([[1.0, 5.0, 0.0], [0.0, 7.0, 1.0]])
    return x, context, w_q, w_k, np.array([[4.0], [12.0]])


def _weights(subject: Subject, probe: Probe) -> None:
    for _ in probe.repeat(1, 3):
        for t, s, c, c_c, d, d_v in _SIZES:
            args = two_texts(probe.rng, t, s, c, c_c, d, d_v)
            widths = {"C": c, "C_c": c_c, "S": s, "T": t}
            clue = scale_clue(args[0] @ args[2], args[1] @ args[3], widths)
            why = f"T = {t}, S = {s}, C = {c}, C_c = {c_c}, D = {d}"
            probe.agree(subject, *args, part=1, why=why, clue=clue)


def _plain(rng: np.random.Generator) -> Fresh:
    for sizes in _SIZES:
        yield "", Call(two_texts(rng, *sizes))


def _masked(rng: np.random.Generator) -> Fresh:
    args = two_texts(rng, 3, 5, 2, 4, 3, 2)
    mask = seen(rng, 3, 5)
    yield "", Call((*args, mask))
    yield "one mask (5,) for all queries", Call((*args, seen(rng, 5)))
    yield "query 1 may look at nothing", Call((*args, with_empty_row(mask, 1)))
    yield "nobody may look at anything", Call((*args, np.zeros((3, 5), bool)))
    yield "one context, and two masks of False", Call((*args, np.zeros((2, 1, 5), bool)))
    for t in (3, 1):
        one = np.arange(t)[:, None] > 0
        yield "one key, hidden from query 0", Call((*two_texts(rng, t, 1, 2, 4, 3, 2), one))
    batch = two_texts(rng, 4, 3, 2, 5, 3, 2, (2, 2))
    yield "2 leading axes, mask (2, 1, 1, 3)", Call((*batch, seen(rng, 2, 1, 1, 3)))
    batch = two_texts(rng, 4, 3, 2, 5, 3, 2, (4,))  # a mask (4, 3) would fit and be wrong
    yield "4 sentences of 4 queries, mask (4, 1, 3)", Call((*batch, seen(rng, 4, 1, 3)))
    yield "4 sentences of 4 queries, one mask (4, 3)", Call((*batch, seen(rng, 4, 3)))


def _far(rng: np.random.Generator) -> Fresh:
    for name, size in FARTHER.items():
        x, context, w_q, w_k, w_v = two_texts(rng, 3, 5, 2, 4, 3, 2)
        x, w_q, w_k, w_v = far_below(x, w_q, w_k, w_v, size)
        args = (x, min(size, 1e12) * (np.abs(context) + 1), w_q, w_k, w_v)
        yield f"scores near {name}", Call(args)
        yield f"scores near {name}, and a mask", Call((*args, seen(rng, 3, 5)))
    q, k, v, mask = late(rng, 2, 3)
    context, matrices = np.concatenate([k, v], axis=-1), np.split(np.eye(5), [2], axis=1)
    args = (q, context, np.eye(2), *matrices, mask)
    yield "the first 135 of 140 keys hidden, low scores", Call(args)


def _order(subject: Subject, probe: Probe) -> None:
    x, context, *matrices = two_texts(probe.rng, 3, 5, 2, 4, 3, 2)
    probe.agree(subject, x, context[:1], *matrices, part=1, why="one key, whose weight is 1")
    output, weights = probe.call(subject, x, context, *matrices).value
    turn = probe.rng.permutation(5)
    why = "context in another order: your weights should move along, the output stay"
    want = (output, weights[:, turn])
    probe.agree(subject, x, context[turn], *matrices, want=want, why=why)
    why = "one of the queries alone: its row should stay"
    want = (output[1:2], weights[1:2])
    probe.agree(subject, x[1:2], context, *matrices, want=want, why=why)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, all equal, masks (also with an empty row), a batch."""
    some = with_empty_row(seen(rng, 3, 5), 1)
    return [
        Call(two_texts(rng, 3, 5, 2, 4, 3, 2)),
        Call((*two_texts(rng, 4, 4, 3, 3, 2, 3), seen(rng, 4, 4))),
        Call(two_texts(rng, 4, 4, 4, 4, 4, 4)),
        Call((*two_texts(rng, 3, 5, 2, 4, 3, 3), some)),
        Call((*two_texts(rng, 3, 4, 4, 2, 4, 3, (2,)), seen(rng, 2, 1, 4))),
    ]


SCORES = "attention_scores(x @ w_q, context @ w_k)"
OR_TRUE = "(True if mask is None else mask)"
TURNED = f"np.swapaxes(np.where({OR_TRUE}, {SCORES}, -np.inf), -1, -2)"
SIZES = "(x.shape[-2], context.shape[-2])"

SLIPS = (
    Slip(
        "x and context exchanged",
        ((SCORES, "attention_scores(context @ w_q, x @ w_k)"), ("(context @ w_v)", "(x @ w_v)")),
        "The context asks and x answers, wherever the shapes allow it. Queries should come from "
        "x, keys and values from the context.",
    ),
    Slip(
        "masked after the softmax",
        (f"masked_softmax({SCORES}, mask)", f"masked_softmax({SCORES}) * {OR_TRUE}"),
        "Hidden weights are set to 0 after the softmax, so a row of weights lacks what they had. "
        "Hide before it: masked_softmax(scores, mask).",
    ),
    Slip(
        "softmax over the queries",
        (f"masked_softmax({SCORES}, mask)", f"np.swapaxes(masked_softmax({TURNED}), -1, -2)"),
        "The softmax runs over the queries, down each column of the weights. It should run over "
        "the keys, the last axis of the scores.",
    ),
    Slip(
        "scaled by the context's width",
        (
            SCORES,
            "attention_scores(x @ w_q, context @ w_k, scaled=False) / np.sqrt(context.shape[-1])",
        ),
        "Scores are divided by √C_c, the width of a token of the context. What is multiplied are "
        "queries and keys, D = w_k.shape[-1] wide. attention_scores divides by √D itself.",
    ),
    Slip(
        "filled with a low number instead of −inf",
        (f"{SCORES}, mask", f"np.where({OR_TRUE}, {SCORES}, -1e9)"),
        FILLED,
    ),
    *(
        Slip(
            name,
            (f"{SCORES}, mask", f"{SCORES}, np.tri(*{SIZES}, {shift}, dtype=bool) & {OR_TRUE}"),
            "Each query sees the context only up to its own place, as under a causal mask. Nothing "
            "should be hidden unless a mask says so: the context is there as a whole.",
        )
        for name, shift in (
            ("a causal mask that nobody asked for", "0"),
            ("a causal mask, aligned at the end", "context.shape[-2] - x.shape[-2]"),
        )
    ),
)


def by_einsum(x, context, w_q, w_k, w_v, mask=None):
    """einsum for every product."""
    q = np.einsum("...tc,cd->...td", x, w_q)
    k, v = (np.einsum("...sc,cd->...sd", context, w) for w in (w_k, w_v))
    scores = np.einsum("...td,...sd->...ts", q, k) * w_q.shape[-1] ** -0.5
    weights = masked_softmax(scores, mask)
    return np.einsum("...ts,...sv->...tv", weights, v), weights


def absorbed(x, context, w_q, w_k, w_v, mask=None):
    """The key matrix moved over to the query: x W_q W_kᵀ contextᵀ; values projected last."""
    asks = x @ (w_q @ w_k.T)
    scores = asks @ np.swapaxes(context, -1, -2) / math.sqrt(w_k.shape[-1])
    if mask is None:
        mask = np.ones(scores.shape[-2:], dtype=bool)
    weights = masked_softmax(scores, mask)
    return (weights @ context) @ w_v, weights


EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Cross-attention",
    goal="Let one text look at another, as a translator looks at the source.",
    reference=self_attention.cross_attention,
    contract=looking(("x", "context", "mask")),
    properties=(
        worked(
            "a hand-worked example: two queries, three keys, D = 4",
            *_two_queries(),
            want=(np.array([[9.0], [8.0]]), np.array([[0.25, 0.5, 0.25], [1 / 3, 1 / 3, 1 / 3]])),
            parts=(1, 0),
        ),
        Property("weights: x asks, the context answers; divided by √D", 1, _weights),
        own_output("output: your weights times context W_v", _plain, _values),
        own_masked("the mask hides; a query that sees nothing gets 0", _masked, _values, 1),
        under_masks("scores far below 0 are safe", _far, parts=(1, 0)),
        Property("the context is a set; queries do not mix", 1, _order),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_einsum, absorbed),
    hints=(
        "Who asks, and where is the answer found? Which of queries, keys and values come "
        "from x, and which from the context?",
        "It is self_attention with one change: keys and values are made from the context. "
        "The shapes tell you too: w_k and w_v have C_c rows, as wide as a token of the "
        "context.",
        "Scores: attention_scores of x @ w_q and context @ w_k. Weights: masked_softmax of "
        "scores and mask. Output: weights times context @ w_v. Return output and weights.",
    ),
    minutes=6,
    difficulty=1,
    importance=4,
    uses=("masked_softmax", "self_attention"),
    results=("output", "weights"),
)
