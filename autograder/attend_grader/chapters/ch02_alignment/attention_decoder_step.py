"""Exercise 02_alignment/attention_decoder_step: checks, known slips, other ways to write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import alignment
from attend_solutions.alignment import attend, multiplicative_score
from torch import Tensor

from attend_grader.chapters.ch02_alignment.shared import (
    FAINT,
    PROMISES,
    faint,
    gru,
    gru_by_hand,
    sums,
    undecided,
)
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

SIZES = ((2, 4, 3, 5, 6), (3, 3, 3, 3, 3), (1, 5, 2, 4, 4), (2, 3, 1, 1, 2))
"""(B, S, C, N, E): all different, all alike, one sentence, one number."""


def step_inputs(
    rng: np.random.Generator, b: int, s: int, c: int, n: int, e: int | None = None
) -> tuple[Any, ...]:
    """Arguments of one step; without ``e``, for the dot score (E = N)."""
    weight = None if e is None else 0.5 * normal(rng, n, e)
    e = e or n
    vectors = normal(rng, b, c), normal(rng, b, n), normal(rng, b, s, e)
    return *vectors, weight, gru(rng, c + e, n)


def faint_step(rng: np.random.Generator) -> tuple[Any, ...]:
    """Arguments of one step with the dot score, whose weights are those of :func:`faint`."""
    embedded, _, _, _, cell = step_inputs(rng, 2, 12, 2, 12)
    scores, encoded = faint(rng, 12)
    state = scores * scores.exp()  # of the other factor, the encoded words hold the inverse
    return embedded, state.repeat(2, 1), encoded.repeat(2, 1, 1), None, cell


def _general(rng: np.random.Generator) -> Fresh:
    for sizes in SIZES:
        told = f"B, S, C, N, E = {', '.join(map(str, sizes))}"
        yield told, Call(step_inputs(rng, *sizes))
    yield FAINT, Call(faint_step(rng))


def _state(subject: Subject, probe: Probe) -> None:
    """The next state is torch's GRU cell on embedding and context (the learner's own)."""
    for sizes in SIZES:
        inputs = embedded, state, _, _, cell = step_inputs(probe.rng, *sizes)
        want = list(probe.reference(*inputs))
        value = probe.call(subject, *inputs).value
        own = value[1] if isinstance(value, (tuple, list)) and len(value) == 3 else None
        if isinstance(own, Tensor) and own.shape == want[1].shape:
            together = torch.cat([embedded, own.detach().to(state.dtype)], dim=-1)
            want[0] = torch.gru_cell(together, state, *cell)
        else:
            probe.agree(subject, *inputs, part=1, tolerance=FLOAT32)
        why = "expected: torch's GRU cell on [embedded; your context]"
        probe.agree(subject, *inputs, want=tuple(want), part=0, tolerance=FLOAT32, why=why)


def _huge(subject: Subject, probe: Probe) -> None:
    """Scores in the thousands, no two of them alike."""
    embedded, _, _, _, cell = step_inputs(probe.rng, 2, 4, 2, 3)
    spread = probe.rng.permuted(np.tile([-3.0, -2, 1, 4], (2, 3, 1)), axis=2)
    encoded, state = torch.from_numpy(spread).float().mT.contiguous(), torch.eye(3)[:2]
    for size in (1000.0, -1000.0):
        why = "scores some 1,000 apart, so the largest takes all"
        inputs = (embedded, state, encoded, size * torch.eye(3), cell)
        probe.agree(subject, *inputs, part=2, tolerance=FLOAT32, why=why, clue=sums)


def draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different, alike, the dot score, one sentence, one word."""
    sizes = ((2, 4, 3, 5, 6), (3, 3, 3, 3, 3), (2, 4, 3, 5), (1, 3, 2, 4, 4), (2, 1, 2, 3, 4))
    return [Call(step_inputs(rng, *each)) for each in sizes]


ATTEND = "attend(scores, encoded)"
QUERY = "context, weights = context[:, 0], weights[:, 0]"
SCORES = "multiplicative_score(state[:, None], encoded, weight)"
CELL = "torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)"

SLIPS = (
    Slip(
        "context before the embedding",
        ("[embedded, context]", "[context, embedded]"),
        "The cell reads the context first, then the embedding. Its weights expect the embedding "
        "first: torch.cat([embedded, context], dim=-1).",
    ),
    Slip(
        "looked back with the state after the step",
        (
            "return state, context, weights",
            f"context, weights = attend({SCORES}, encoded)\n"
            "    return state, context[:, 0], weights[:, 0]",
        ),
        "The context and weights that you return belong to the state *after* the step. Return "
        "those for which the state before it asked: look back once, before torch.gru_cell.",
    ),
    Slip(
        "softmax over the axis of the one query",
        (ATTEND, "(lambda w: (w @ encoded, w))(torch.softmax(scores, dim=1))"),
        "All weights are 1, and the context is the sum of the encoded words: the softmax ran over "
        "an axis of length 1. Let it run over the words: the last axis.",
    ),
    Slip(
        "the new state asks",
        (
            (f"    state = {CELL}\n", ""),
            (
                "    scores = ",
                f"    context = encoded.mean(dim=1)\n    state = {CELL}\n    scores = ",
            ),
        ),
        "The cell gets the plain mean of the encoded words, and the state *after* the step asks. "
        "Ask first, with the state as it was handed in; give that context to torch.gru_cell.",
    ),
    Slip(
        "scores divided by the root of the width",
        (SCORES, f"{SCORES} / state.shape[-1] ** 0.5"),
        "The weights are those of scores divided by the root of N, the width of the state. That "
        "scale came in 2017 (chapter 03): hand to attend what multiplicative_score returns.",
    ),
    Slip(
        "ignored the weight",
        ("encoded, weight)", "encoded)"),
        "The score is the dot product even where a weight is given. Pass it on: "
        "multiplicative_score(query, encoded, weight).",
    ),
    Slip(
        "the first state asks every sentence",
        ("state[:, None]", "state[None]"),
        "The first sentence's state asks all sentences, as when [:, 0] takes the first query of "
        "state[None], which is (1, B, N). Let each state ask its own: state[:, None] is (B, 1, N).",
    ),
    Slip(
        "mean of all words as context",
        (QUERY, "context, weights = encoded.mean(dim=1), weights[:, 0]"),
        "The context is the plain mean of the encoded words, whatever the weights are. Take what "
        "attend returns first.",
    ),
    Slip(
        "the plain mean goes into the cell",
        ("[embedded, context]", "[embedded, encoded.mean(dim=1)]"),
        "Context and weights are right, but the cell gets the plain mean of the encoded words. "
        "Give it the context that attend has just returned.",
    ),
    Slip(
        "returned the scores",
        ("return state, context, weights", "return state, context, scores[:, 0]"),
        "State and context are right; what you return as weights are the scores. Return the "
        "weights, the second result of attend.",
    ),
    Slip(
        "the embedding asks",
        ("state[:, None]", "embedded[:, None]"),
        "The embedding of the last word asks, which fits where C = N only. Let the state ask: "
        "state[:, None].",
    ),
    Slip(
        "started the cell from zeros",
        ("dim=-1), state,", "dim=-1), torch.zeros_like(state),"),
        "The cell starts from zeros, so that the old state is not carried on. Its second argument "
        "should be the state before the step.",
    ),
    Slip(
        "detached before the cell",
        ("[embedded, context]", "[embedded, context.detach()]"),
        "The values are right, but the gradient from the next state back is cut in part: the "
        "context or the old state is detached before it goes into the cell. Hand over both as "
        "they are.",
    ),
)


def einsum(embedded, state, encoded, weight, cell):
    """Self-contained: einsum, and the cell by hand."""
    query = state if weight is None else state @ weight
    weights = torch.softmax(torch.einsum("be,bse->bs", query, encoded), dim=1)
    context = torch.einsum("bs,bse->be", weights, encoded)
    after = gru_by_hand(torch.cat([embedded, context], 1), state, *cell)
    return after, context, weights


def by_sentences(embedded, state, encoded, weight, cell):
    """One sentence at a time."""
    states, contexts, rows = [], [], []
    for y, h, words in zip(embedded, state, encoded, strict=True):
        context, weights = attend(multiplicative_score(h[None], words, weight), words)
        states.append(torch.gru_cell(torch.cat([y[None], context], -1), h[None], *cell))
        contexts.append(context)
        rows.append(weights)
    return torch.cat(states), torch.cat(contexts), torch.cat(rows)


EXERCISE = Exercise(
    chapter="02_alignment",
    title="One step of the decoder",
    goal="Look back with the state, then go on to the next state.",
    reference=alignment.attention_decoder_step,
    contract=replace(PROMISES, gradients=("embedded", "state", "encoded", "weight", "cell")),
    properties=(
        worked(
            "a hand-worked example: weights 3/4 and 1/4",
            *map(torch.tensor, ([[5.0]], [[1.0]], [[[1.0], [0.0]]])),
            torch.tensor([[3.0]]).log(),
            undecided([0.0, 2.0]),
            want=(
                torch.tensor([[0.5 + 0.5 * np.tanh(1.5)]], dtype=torch.float32),
                torch.tensor([[0.75]]),
                torch.tensor([[0.75, 0.25]]),
            ),
            parts=(2, 1, 0),
            tolerance=PRINTED,
            why="scores ln 3 and 0; all gates 1/2; the cell reads 0 · word + 2 · context",
        ),
        agrees(
            "weights: from the state before the step",
            _general,
            part=2,
            tolerance=FLOAT32,
            clue=sums,
        ),
        agrees("context: a mean by the right weights", _general, part=1, tolerance=FLOAT32),
        Property("state: the cell on the embedding, then the context", 2, _state),
        agrees(
            "without a weight, the dot score",
            lambda rng: [("weight is None, so the dot score", Call(step_inputs(rng, 2, 4, 3, 5)))],
            tolerance=FLOAT32,
        ),
        agrees(
            "one encoded vector is the context itself",
            lambda rng: [("one encoded vector only", Call(step_inputs(rng, 3, 1, 2, 4, 5)))],
            tolerance=FLOAT32,
        ),
        Property("huge scores are safe", 1, _huge),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(einsum, by_sentences),
    hints=(
        "Follow the order of the picture: which three things are made, one after the other, and "
        "what does each of them need?",
        "The score functions take queries (B, T, N). Here T = 1: give the state an axis, "
        "`state[:, None]`, and take it away from context and weights afterwards, `[:, 0]`.",
        "Scores from multiplicative_score(state with its axis, encoded, weight); context and "
        "weights from attend(scores, encoded), both without the axis; then "
        "`torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)`. Return the new "
        "state, the context, the weights.",
    ),
    minutes=12,
    difficulty=3,
    importance=5,
    uses=("multiplicative_score", "attend"),
    results=("state", "context", "weights"),
)
