"""Exercise 04_self_attention/self_attention: a sentence looks at itself."""

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
    text,
    under_masks,
    with_empty_row,
)
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject

_SIZES = ((3, 5, 4, 2), (4, 4, 4, 4), (5, 2, 9, 3), (2, 3, 1, 3), (5, 3, 2, 5))
"""T, C, D, D_v: all different; all equal; D = 1."""


def _values(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return x @ w_v


def _two_tokens() -> tuple[Array, ...]:
    """D = 4, so that the scores ln 9 are halved: weights (1/4, 3/4) and (1/2, 1/2)."""
    w_q, w_k = np.zeros((4, 4)), np.zeros((4, 4))
    w_q[0], w_k[1] = np.log(3.0) / 2, 1.0
    w_v = np.array([[8.0, 0.0, 4.0], [0.0, 4.0, 0.0], [5.0, 5.0, 5.0], [7.0, 7.0, 7.0]])
    return np.eye(2, 4), w_q, w_k, w_v


def _weights(subject: Subject, probe: Probe) -> None:
    for _ in probe.repeat(1, 3):
        for t, c, d, d_v in _SIZES:
            x, w_q, w_k, w_v = text(probe.rng, t, c, d, d_v)
            clue = scale_clue(x @ w_q, x @ w_k, {"C": c, "T": t})
            why = f"T = {t}, C = {c}, D = {d}"
            probe.agree(subject, x, w_q, w_k, w_v, part=1, why=why, clue=clue)


def _plain(rng: np.random.Generator) -> Fresh:
    for sizes in _SIZES:
        yield "", Call(text(rng, *sizes))


def _masked(rng: np.random.Generator) -> Fresh:
    for t in (3, 5):
        yield "", Call((*text(rng, t, 3, 2, 4), seen(rng, t, t)))
    mask = with_empty_row(seen(rng, 4, 4), 2)
    yield "token 2 may look at nothing", Call((*text(rng, 4, 3, 2, 5), mask))
    args = text(rng, 4, 3, 2, 5)
    yield "nobody may look at anything", Call((*args, np.zeros((4, 4), bool)))
    nobody = np.zeros((2, 1, 3), bool)
    yield "one text, and two masks of False", Call((*text(rng, 3, 4, 2, 5), nobody))
    one = np.zeros((1, 1), bool)
    yield "one token, which may not look at itself", Call((*text(rng, 1, 3, 2, 4), one))
    for b in (2, 3):  # as many sentences as tokens, too: there a mask (B, T) fits and is wrong
        batch = text(rng, 3, 4, 2, 5, (b,))
        yield f"a mask ({b}, 1, 3), one row a sentence", Call((*batch, seen(rng, b, 1, 3)))
        yield f"{b} sentences of 3 tokens, one mask (3, 3)", Call((*batch, seen(rng, 3, 3)))


def _far(rng: np.random.Generator) -> Fresh:
    shapes = (5, 3, 2, 4), (4, 2, 4, 3), (3, 1, 1, 2)
    for (name, size), sizes in zip(FARTHER.items(), shapes, strict=True):
        args, t = far_below(*text(rng, *sizes), size), sizes[0]
        yield f"scores near {name}", Call(args)
        yield f"scores near {name}, and a mask", Call((*args, seen(rng, t, t)))
    q, k, v, mask = late(rng, 1, 2)
    tokens = np.concatenate([np.pad(q, ((0, 137), (0, 0))), k, v], axis=-1)
    matrices = np.split(np.eye(4), [1, 2], axis=1)
    yield "the first 135 of 140 keys hidden, low scores", Call((tokens, *matrices, mask))


def _moved(subject: Subject, probe: Probe) -> None:
    x, w_q, w_k, w_v = text(probe.rng, 5, 3, 2, 4)
    probe.agree(subject, x[:1], w_q, w_k, w_v, why="one token only, which looks at itself")
    args = (np.ones((4, 3)), normal(probe.rng, 3, 2), w_k, np.ones((3, 5)))
    want = (np.full((4, 5), 3.0), np.full((4, 4), 0.25))
    probe.agree(subject, *args, want=want, part=1, why="equal tokens: equal weights")
    output, weights = probe.call(subject, x, w_q, w_k, w_v).value
    order = probe.rng.permutation(5)
    why = "tokens in another order: your rows (and columns of the weights) should follow"
    want = (output[order], weights[order][:, order])
    probe.agree(subject, x[order], w_q, w_k, w_v, want=want, why=why)


def draws(rng: np.random.Generator) -> list[Call]:
    """All widths different, all equal, masks (also with an empty row), a batch, large scores."""
    x, *matrices = text(rng, 3, 2, 3, 2)
    return [
        Call(text(rng, 4, 3, 2, 5)),
        Call((*text(rng, 5, 3, 2, 3), seen(rng, 5, 5))),
        Call(text(rng, 4, 4, 4, 4)),
        Call((*text(rng, 4, 3, 4, 4), with_empty_row(seen(rng, 4, 4), 1))),
        Call((*text(rng, 3, 4, 4, 2, (2,)), seen(rng, 2, 1, 3))),
        Call((10 * x, *matrices, seen(rng, 3, 3))),
    ]


SCORES = "attention_scores(x @ w_q, x @ w_k)"
WEIGHTS = f"masked_softmax({SCORES}, mask)"
TURNED = f"np.swapaxes(np.where(True if mask is None else mask, {SCORES}, -np.inf), -1, -2)"

SLIPS = (
    Slip(
        "scaled by √C instead of √D",
        (SCORES, "attention_scores(x @ w_q, x @ w_k, scaled=False) / np.sqrt(x.shape[-1])"),
        "Scores are divided by √C, the width of a token. What is multiplied are queries and keys: "
        "D = w_q.shape[-1] wide. attention_scores divides by √D itself.",
    ),
    Slip(
        "masked after the softmax",
        (WEIGHTS, f"masked_softmax({SCORES}) * (True if mask is None else mask)"),
        "Hidden weights are set to 0 after the softmax, so a row of weights lacks what they had. "
        "Hide before it: masked_softmax(scores, mask).",
    ),
    Slip(
        "filled with a low number instead of −inf",
        (WEIGHTS, f"masked_softmax(np.where(True if mask is None else mask, {SCORES}, -1e9))"),
        FILLED,
    ),
    Slip(
        "NaN where everything is hidden",
        (WEIGHTS, f"{WEIGHTS} / {WEIGHTS}.sum(axis=-1, keepdims=True)"),
        "A token that may look at nothing gets NaN. Chapter 03's softmax cannot settle such a "
        "row; your masked_softmax does.",
    ),
    Slip(
        "softmax over the queries",
        (WEIGHTS, f"np.swapaxes(masked_softmax({TURNED}), -1, -2)"),
        "The softmax runs over the queries, down each column of the weights. It should run over "
        "the keys, the last axis of the scores.",
    ),
)


def by_einsum(x, w_q, w_k, w_v, mask=None):
    """einsum for every product; −inf put in by hand."""
    q, k, v = (np.einsum("...tc,cd->...td", x, w) for w in (w_q, w_k, w_v))
    scores = np.einsum("...td,...sd->...ts", q, k) / math.sqrt(w_q.shape[1])
    weights = masked_softmax(np.where(True if mask is None else mask, scores, -np.inf))
    return np.einsum("...ts,...sv->...tv", weights, v), weights


def one_matrix(x, w_q, w_k, w_v, mask=None):
    """The three matrices side by side, the scale in front, values projected last."""
    d = w_q.shape[-1]
    q, k = np.split(np.matmul(x, np.concatenate([w_q, w_k], axis=-1)), 2, axis=-1)
    weights = masked_softmax((q / d**0.5) @ np.swapaxes(k, -1, -2), mask=mask)
    return [(weights @ x) @ w_v, weights]


EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Self-attention",
    goal="Let the tokens of a sentence look at each other, as far as a mask allows.",
    reference=self_attention.self_attention,
    contract=looking(("x", "mask")),
    properties=(
        worked(
            "a hand-worked example: two tokens, D = 4",
            *_two_tokens(),
            want=(
                np.array([[2.0, 3.0, 1.0], [4.0, 2.0, 2.0]]),
                np.array([[0.25, 0.75], [0.5, 0.5]]),
            ),
            parts=(1, 0),
        ),
        Property("weights: x W_q asks, x W_k answers; divided by √D", 2, _weights),
        own_output("output: your weights times x W_v", _plain, _values),
        own_masked("the mask hides; a token that sees nothing gets 0", _masked, _values, 2),
        under_masks("scores far below 0 are safe", _far, parts=(1, 0)),
        Property("tokens moved move the outputs; equal tokens; one token", 1, _moved),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_einsum, one_matrix),
    hints=(
        "Chapter 03's attention needs queries, keys and values. Which three products make "
        "them from x, and which of them does each matrix give?",
        "`x @ w_q` projects every token of every sentence at once. Compare queries and "
        "keys with attention_scores, which divides by √D. Then your masked_softmax takes "
        "the place of softmax.",
        "Scores: attention_scores of x @ w_q and x @ w_k. Weights: masked_softmax of the "
        "scores and the mask (it knows what None means). Output: weights times x @ w_v. "
        "Return the output first, the weights second.",
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    uses=("masked_softmax",),
    results=("output", "weights"),
)
