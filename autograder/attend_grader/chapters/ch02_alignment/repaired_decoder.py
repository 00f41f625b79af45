"""Exercise 02_alignment/repaired_decoder: a decoder whose new state asks, one step too late.

The broken function stands in the notebook. Its own test uses sources of one word, where every
context is that word. The oracle is ``attention_decoder_step``, one step after the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import alignment
from attend_solutions.alignment import attention_decoder_step
from torch import Tensor

from attend_grader.chapters.ch02_alignment.attention_decoder_step import faint_step, step_inputs
from attend_grader.chapters.ch02_alignment.shared import PROMISES, gru_by_hand, sums, undecided
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

SIZES = ((2, 3, 4, 3, 5, 6), (3, 3, 3, 3, 3, 3), (1, 4, 5, 2, 4, 4), (2, 5, 3, 1, 1, 2))
"""(B, T, S, C, N, E): all different, all alike, one sentence, one number."""

MANY = 6
"""From so many steps on, weights are smaller: see :func:`_inputs`."""


def _inputs(rng: np.random.Generator, b: int, t: int, *sizes: int) -> tuple[Any, ...]:
    """Arguments of T steps, from B, T, S, C, N and E; without E, for the dot score.

    Its weights are small: with larger ones rounding grows from step to step, and after twelve two
    right answers may differ in the fourth digit.
    """
    _, state, encoded, weight, cell = step_inputs(rng, b, *sizes)
    small = 0.5 if t < MANY else 0.3
    weight = None if weight is None else small * weight
    return normal(rng, b, t, sizes[1]), state, encoded, weight, tuple(small * w for w in cell)


def _worked(subject: Subject, probe: Probe) -> None:
    """Scores ln 3 · h and 0: weights 3/4 and 1/4 for h = 1; the cell sees the context alone."""
    encoded, weight = torch.tensor([[[1.0], [0.0]]]), torch.tensor([[3.0]]).log()
    first = 0.5 + 0.5 * np.tanh(1.5)
    share = 3**first / (3**first + 1)
    second = 0.5 * first + 0.5 * np.tanh(2 * share)

    def column(*values: float) -> Tensor:
        return torch.tensor(values, dtype=torch.float32)[None, :, None]

    rows = torch.tensor([[[0.75, 0.25], [share, 1 - share]]], dtype=torch.float32)
    want = column(first, second), column(0.75, share), rows
    arguments = (torch.full((1, 2, 1), 5.0), torch.tensor([[1.0]]), encoded, weight)
    why = "two steps; scores ln 3 · h and 0; the new state is tanh(2 c) / 2 + h / 2"
    for part in (2, 1, 0):
        cell = undecided([0.0, 2.0])
        probe.agree(subject, *arguments, cell, want=want, part=part, tolerance=PRINTED, why=why)


def _first(rng: np.random.Generator) -> Known:
    made = [_inputs(rng, *sizes) for sizes in ((2, 1, 4, 3, 5, 6), (1, 1, 3, 2, 4, 4))]
    word, *rest = faint_step(rng)
    for embedded, *others in (*made, (word[:, None], *rest)):
        want = attention_decoder_step(embedded[:, 0], *others)
        why = "T = 1: one step of attention_decoder_step"
        yield why, (embedded, *others), tuple(part[:, None] for part in want)


def _all(rng: np.random.Generator) -> Fresh:
    for sizes in SIZES:
        yield f"B, T, S, C, N, E = {', '.join(map(str, sizes))}", Call(_inputs(rng, *sizes))
    yield "weight is None, so the dot score", Call(_inputs(rng, 2, 3, 4, 2, 3))
    yield "twelve steps", Call(_inputs(rng, 2, 12, 4, 3, 5, 6))
    words, state, encoded, weight, cell = _inputs(rng, 1, 4, 3, 1, 1, 1)
    w_x, w_h, b_x, b_h = (torch.zeros_like(part) for part in cell)
    w_x[1, 0], w_x[2, 0], b_x[1] = -200.0, 1.0, 100.0
    words[0, :, 0] = torch.tensor([0.0, 1.0, 0.0, 2.0])
    told = "a state that only the words 2 and 4 may change"
    yield told, Call((words, state, encoded, weight, (w_x, w_h, b_x, b_h)))


def draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different, alike, the dot score, one of each, many steps; a weight of zeros."""
    sizes = ((2, 3, 4, 3, 5, 6), (3, 3, 3, 3, 3, 3), (2, 3, 4, 3, 5), (1, 4, 3, 2, 4, 4))
    sizes = (
        *sizes,
        (2, 1, 3, 2, 3, 4),
        (2, 3, 1, 2, 3, 4),
        (2, int(rng.integers(20, 40)), 3, 1, 2, 2),
    )
    words, state, encoded, weight, cell = _inputs(rng, 2, 3, 4, 3, 5, 5)
    even = Call((words, state, encoded, 0 * weight, cell))
    return [*(Call(_inputs(rng, *each)) for each in sizes), even]


def wide(rng: np.random.Generator) -> list[Call]:
    """A sentence of 300 words."""
    return [Call(_inputs(rng, 1, 300, 3, 1, 2, 2))]


START = "states, contexts, looked = [], [], []"
ASK = (
    "        scores = multiplicative_score(state[:, None], encoded, weight)  # (B, 1, S)\n"
    "        context, weights = (part[:, 0] for part in attend(scores, encoded))\n"
)
STEP = "        state = torch.gru_cell(torch.cat([y, context], dim=-1), state, *cell)\n"
KEEP = "        states.append(state)\n"
LATER = (ASK + STEP, STEP + ASK)
AHEAD = (START, "".join(f"{line.strip()}\n    " for line in ASK.splitlines()) + START)

SLIPS = (
    Slip(
        "not repaired",
        ((START, f"{START}\n    context = encoded.mean(dim=1)"), LATER),
        "This still asks with the state *after* the step: the first step gets the plain mean, and "
        "what you return with each state is the next step's context. Ask first, then call "
        "torch.gru_cell.",
    ),
    Slip(
        "started with a context of zeros",
        ((START, f"{START}\n    context = torch.zeros_like(encoded[:, 0])"), LATER),
        "The first step gets a context of zeros, and what you return with each state is the next "
        "step's context. The start is not the mistake: ask before the cell's step, in every step.",
    ),
    Slip(
        "asked once, before the loop",
        ((ASK, ""), AHEAD),
        "Every step has the context of the first, as if the decoder asked once, before the loop. "
        "Let each step ask again, with its own state.",
    ),
    Slip(
        "returned what the state after the step sees",
        (AHEAD, LATER),
        "The states are right, but the contexts and weights that you return lie one step ahead: "
        "each was made with the state *after* its step. Return those that went into the step.",
    ),
    Slip(
        "kept the state before the step",
        (STEP + KEEP, KEEP + STEP),
        "The state that you keep is the one from before its step. Call torch.gru_cell first, then "
        "append.",
    ),
    Slip(
        "the plain mean goes into the cell",
        (STEP, STEP.replace("context", "encoded.mean(dim=1)")),
        "In every step the cell gets the plain mean of the encoded words, whatever the state asked "
        "for. Give it the context that attend has just returned.",
    ),
    Slip(
        "the state not carried on",
        (STEP + KEEP, STEP.replace("state =", "after =") + KEEP.replace("(state)", "(after)")),
        "Every step starts from the state that was handed in: the new state is not passed on. "
        "Assign it to `state`, so that the next step asks with it and goes on from it.",
    ),
    Slip(
        "each context goes into the next step",
        (
            (START, f"{START}\n    before = encoded.mean(dim=1)"),
            (STEP, f"{STEP.replace('context', 'before')}        before = context\n"),
        ),
        "The right state asks, but each context goes into the step after, and the first step gets "
        "the plain mean. Give the context just made to torch.gru_cell in the same step.",
    ),
    Slip(
        "looped over the sentences",
        ("embedded.unbind(dim=1)", "embedded"),
        "The loop runs over the sentences, and takes all words of one for a step. Let it run over "
        "the steps: embedded.unbind(dim=1), or embedded[:, t] for each t.",
    ),
    Slip(
        "context before the word",
        ("[y, context]", "[context, y]"),
        "The cell reads the context first, then the word. Its weights expect the word first: "
        "torch.cat([y, context], dim=-1).",
    ),
    Slip(
        "detached in the loop",
        ("multiplicative_score(state[:, None],", "multiplicative_score(state[:, None].detach(),"),
        "The values are right, but the words before do not get their whole gradient: in the loop a "
        "state or a context is detached. Pass on both as they are.",
    ),
)  # fmt: skip


def by_steps(embedded, state, encoded, weight, cell):
    """Calls the step of the exercise before."""
    found = []
    for t in range(embedded.shape[1]):
        found.append(attention_decoder_step(embedded[:, t], state, encoded, weight, cell))
        state = found[-1][0]
    return tuple(torch.stack(part, 1) for part in zip(*found, strict=True))


def einsum(embedded, state, encoded, weight, cell):
    """Self-contained: einsum, softmax, the cell by hand."""
    keys = encoded if weight is None else encoded @ weight.T
    rows = []
    for y in embedded.transpose(0, 1):
        a = torch.einsum("bn,bsn->bs", state, keys).softmax(-1)
        c = torch.einsum("bs,bse->be", a, encoded)
        state = gru_by_hand(torch.cat((y, c), 1), state, *cell)
        rows.append((state, c, a))
    return [torch.stack([row[i] for row in rows], dim=1) for i in range(3)]


EXERCISE = Exercise(
    chapter="02_alignment",
    title="Repair a decoder",
    goal="Find what is wrong in a loop whose own test passes, and repair it.",
    reference=alignment.repaired_decoder,
    contract=replace(
        PROMISES,
        gradients=("embedded", "state", "encoded", "weight", "cell"),
        says=("You may call your attention_decoder_step.",),
    ),
    properties=(
        Property("two steps worked by hand: weights 3/4 and 1/4 first", 1, _worked),
        known("one step: the state before it asks", _first, tolerance=FLOAT32),
        agrees(
            "one source word: still right",
            lambda rng: [("one source word only", Call(_inputs(rng, 3, 4, 1, 2, 4, 5)))],
            part=0,
            tolerance=FLOAT32,
        ),
        agrees("weights of every step", _all, part=2, tolerance=FLOAT32, clue=sums),
        agrees(
            "contexts of every step: means by the right weights", _all, part=1, tolerance=FLOAT32
        ),
        agrees("states: each context goes into its own step", _all, part=0, tolerance=FLOAT32),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives=(by_steps, einsum),
    hints=(
        "Write down which context goes into the first step. Then compare with section 5: which "
        "state asks, and into which step does the answer go?",
        "The lines of the loop are right, each by itself. Their order is not.",
        "Scores and context first, with the state as it is, and only then torch.gru_cell. The line "
        "that makes a context before the loop is not needed any more.",
    ),
    minutes=6,
    difficulty=2,
    importance=4,
    uses=("multiplicative_score", "attend", "attention_decoder_step"),
    results=("states", "contexts", "weights"),
)
