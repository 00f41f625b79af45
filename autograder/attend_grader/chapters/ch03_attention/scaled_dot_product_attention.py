"""Exercise 03_attention/scaled_dot_product_attention: scores, weights, mean of the values."""

from __future__ import annotations

import numpy as np
from attend_solutions import attention
from attend_solutions.attention import attention_scores

from attend_grader.chapters.ch03_attention.shared import PROMISES, falling, far_out, qkv
from attend_grader.checks.clues import sums
from attend_grader.checks.compare import PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known, worked
from attend_grader.checks.subject import Subject

CAT_SAT_MAT = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def _limits(rng: np.random.Generator) -> Known:
    q, k, v = qkv(rng, 3, 1, 4, 2)
    want = (np.repeat(v, 3, axis=0), np.ones((3, 1)))
    yield "one key only, so its value is the answer", (q, k, v), want
    q, k, v = qkv(rng, 2, 5, 4, 3)
    want = (np.repeat(v.mean(axis=0, keepdims=True), 2, axis=0), np.full((2, 5), 0.2))
    same = np.repeat(k[:1], 5, axis=0)
    yield "equal keys, so the mean of the values", (q, same, v), want
    q, k, v = qkv(rng, 3, 5, 4, 2)
    for why, inputs in (
        ("scores of ±10,000", (100 * q, 100 * k, v)),
        ("24 keys, the smallest weight 1e-15, with the largest value", falling()),
        ("scores of some 45,000 and −45,000, near each other", far_out(rng)),
    ):
        yield why, inputs, attention.scaled_dot_product_attention(*inputs)


def _weights(rng: np.random.Generator) -> Fresh:
    for t, s, d in ((2, 3, 5), (4, 4, 4), (1, 5, 9), (3, 4, 1)):
        yield "", Call(qkv(rng, t, s, d, 2))


def _output(subject: Subject, probe: Probe) -> None:
    """The output is the weights (the learner's own) times v; v has its own width."""
    for t, s, d, d_v in ((3, 5, 3, 2), (4, 4, 4, 4), (2, 3, 2, 5), (1, 4, 3, 2), (3, 2, 1, 1)):
        q, k, v = qkv(probe.rng, t, s, d, d_v)
        outcome = probe.call(subject, q, k, v)
        own = outcome.value[1] if isinstance(outcome.value, (tuple, list)) else None
        want = probe.reference(q, k, v)
        if not isinstance(own, np.ndarray) or own.shape != want[1].shape:
            probe.agree(subject, q, k, v)
        why = "expected: the right weights times v"
        if isinstance(own, np.ndarray) and np.isfinite(own).all() and own.any():
            want, why = (own @ v, own), "expected: your weights times v"
        probe.agree(subject, q, k, v, want=want, part=0, why=why)


def draws(rng: np.random.Generator) -> list[Call]:
    """Lengths that are equal in one call and not in another; leading axes, large scores, ones."""
    q, k, v = qkv(rng, 2, 3, 4, 2)
    made = [qkv(rng, 3, 5, 4, 2), qkv(rng, 4, 4, 4, 4), qkv(rng, 3, 4, 5, 2, (2,))]
    sizes = ((1, 1, 2, 3), (5, 2, 3, 3), (1, 4, 3, 2), (3, 1, 2, 1), (2, 3, 1, 4), (4, 3, 5, 3))
    more = [qkv(rng, *each) for each in sizes]
    return [Call(each) for each in (*made, (100 * q, 100 * k, v), *more)]


CALL = "softmax(attention_scores(q, k))"
ROOT = "np.sqrt(q.shape[-1])"

SLIPS = (
    Slip(
        "forgot 1/√D",
        (CALL, "softmax(attention_scores(q, k, scaled=False))"),
        "Your weights come from scores that are not divided by √D. attention_scores divides "
        "unless you tell it scaled=False.",
    ),
    Slip(
        "scaled by the number of keys",
        (CALL, "softmax(attention_scores(q, k, scaled=False) / np.sqrt(k.shape[-2]))"),
        "Your scores are divided by the square root of how many keys there are. The spread comes "
        "from the width of a query: q.shape[-1].",
    ),
    Slip(
        "scaled by the width of the values",
        (CALL, "softmax(attention_scores(q, k, scaled=False) / np.sqrt(v.shape[-1]))"),
        "Your scores are divided by √D_v. D is the width of queries and keys: q.shape[-1].",
    ),
    Slip(
        "normalised over queries instead of keys",
        (CALL, "softmax(attention_scores(q, k), axis=-2)"),
        "Your columns sum to 1: the softmax ran over the queries. Each query shares one unit of "
        "weight among the keys, which lie on the last axis.",
    ),
    Slip(
        "normalised over the first axis",
        (CALL, "softmax(attention_scores(q, k), axis=0)"),
        "The softmax ran over the first axis: the queries of a matrix, the entries of a stack. "
        "Each query shares one unit of weight among the keys, which lie on the last axis: "
        "axis=-1.",
    ),
    Slip(
        "normalised over axis 1, counted from the start",
        (CALL, "softmax(attention_scores(q, k), axis=1)"),
        "Single matrices come out right, stacks do not, as if the softmax ran over axis 1. In a "
        "stack that is another axis: the keys lie on the last one, axis=-1.",
    ),
    Slip(
        "hid later keys",
        (CALL, "softmax(np.where(np.tri(*(z := attention_scores(q, k)).shape[-2:]), z, -np.inf))"),
        "Query t gets nothing from the keys after key t, as with the causal mask of a language "
        "model. Here every query sees every key; masks come in chapter 04.",
    ),
    Slip(
        "the scores, not the weights, times the values",
        ("weights @ v", "attention_scores(q, k) @ v"),
        "The weights are right, but the output is the scores times the values. Each output is the "
        "mean of the values under the weights: weights @ v.",
    ),
    Slip(
        "scaled after softmax",
        (CALL, f"softmax(attention_scores(q, k, scaled=False)) / {ROOT}"),
        "The weights are divided by √D, after softmax, so that they no longer sum to 1. The scale "
        "belongs to the scores, before softmax.",
    ),
)


def self_contained(q, k, v):
    """Calls nothing of the chapter."""
    scores = np.einsum("...td,...sd->...ts", q, k) / np.sqrt(q.shape[-1])
    scores = np.exp(scores - np.amax(scores, -1, keepdims=True))
    weights = scores / np.add.reduce(scores, -1, keepdims=True)
    return np.einsum("...ts,...sv->...tv", weights, v), weights


def divides_last(q, k, v):
    """Divides by the sum of the exponentials at the very end, as online softmax does."""
    scores = attention_scores(q, k, scaled=False) / q.shape[-1] ** 0.5
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    total = shares.sum(-1, keepdims=True)
    return [(shares @ v) / total, shares / total]


EXERCISE = Exercise(
    chapter="03_attention",
    title="Attention",
    goal="Build the soft look-up: scores, weights, and the weighted mean of the values.",
    reference=attention.scaled_dot_product_attention,
    contract=PROMISES,
    properties=(
        worked(
            "a hand-worked example: cat, sat, mat",
            CAT_SAT_MAT,
            CAT_SAT_MAT,
            np.array([[10.0, 0.0], [0.0, 4.0], [20.0, 10.0]]),
            want=(
                np.array([[12.033, 4.802], [10.000, 5.616], [12.552, 6.028]]),
                np.array(
                    [[0.4011, 0.1978, 0.4011], [0.1978, 0.4011, 0.4011], [0.2483, 0.2483, 0.5035]]
                ),
            ),
            tolerance=PRINTED,
            why="the embeddings of cat, sat, mat as q and k, other values as v",
        ),
        known("one key; equal keys; huge scores; small weights", _limits),
        agrees(
            "weights: the softmax of the scaled scores, over the keys",
            _weights,
            part=1,
            clue=sums(-1),
        ),
        Property("output: your weights times the values", 1, _output),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(self_contained, divides_last),
    hints=(
        "You have already written two thirds of it. Which two functions take you from q and k to "
        "weights?",
        "Each query has its own distribution over the keys: the weights must sum to 1 along the "
        "key axis, which is the last. The output row of a query is its weights times the rows of "
        "v.",
        "Call attention_scores on q and k (scaled), pass the result to softmax along the last "
        "axis, and matrix-multiply the weights (..., T, S) with v (..., S, D_v). Return the "
        "product first, the weights second.",
    ),
    minutes=8,
    difficulty=1,
    importance=5,
    uses=("attention_scores", "softmax"),
    results=("output", "weights"),
)
