"""Exercise 01_recurrence/rnn_forward: what must hold, how it goes wrong, other ways to write it."""

from __future__ import annotations

import numpy as np
from attend_solutions import recurrence

from attend_grader.chapters.ch01_recurrence.shared import (
    LN2,
    LN3,
    PROMISES,
    WIDTH,
    rotation,
    sequence_inputs,
)
from attend_grader.checks.compare import PRINTED
from attend_grader.checks.exercise import Call, Exercise, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked


def _one_step(rng: np.random.Generator) -> Fresh:
    yield "sequences of one step", Call(sequence_inputs(rng, 3, 1, 2, 4))


def _start(rng: np.random.Generator) -> Fresh:
    x, h0, w_x, w_h, b = sequence_inputs(rng, 2, 3, 4, 3)
    why = "inputs of 0 and no bias: nothing but h0 should count"
    yield why, Call((np.zeros_like(x), h0, w_x, w_h, np.zeros_like(b)))
    yield "h0 is 0, as at the start of a text", Call((x, np.zeros_like(h0), w_x, w_h, b))
    yield from _slow(rng)


def _slow(rng: np.random.Generator) -> Fresh:
    """States that hardly change from step to step, and still do not stay."""
    nothing, width = np.zeros((2, 100, 4)), 3
    for size, factor, why in (
        (1e-8, 0.5, "no input, a tiny h0, W_h a rotation times 0.5: each state is half as large"),
        (3e-3, 1.0, "no input, a small h0, W_h = 1: the state falls very slowly"),
    ):
        w_h = 0.5 * rotation(rng, width) if factor < 1 else np.eye(width)
        h0 = size * rng.choice((-1.0, 1.0), (2, width))
        yield why, Call((nothing, h0, np.ones((4, width)), w_h, np.zeros(width)))


def _states(rng: np.random.Generator) -> Fresh:
    for b, t, c, n in ((2, 5, 3, 4), (3, 3, 3, 3), (1, 4, 2, 2), (4, 2, 1, 5), (2, 3, 2, 1)):
        yield f"B = {b}, T = {t}, C = {c}, N = {n}", Call(sequence_inputs(rng, b, t, c, n))


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, one step, one-hot inputs."""
    one_hot = np.eye(3)[rng.integers(0, 3, (2, 4))]
    _, h0, *rest = sequence_inputs(rng, 2, 4, 3, 5)
    sizes = ((2, 4, 3, 5), (3, 3, 3, 3), (1, 5, 2, 3), (2, 1, 4, 3))
    return [*(Call(sequence_inputs(rng, *each)) for each in sizes), Call((one_hot, h0, *rest))]


def wide(rng: np.random.Generator) -> list[Call]:
    """A wide state, many steps, and a state at rest that is moved again."""
    sizes = ((2, 3, 2, WIDTH), (1, 1_200, 3, 2))
    x, h0, w_x, w_h, b = sequence_inputs(rng, 1, 9, 2, 3)
    x[:, :6], b = 0, 0 * b
    return [*(Call(sequence_inputs(rng, *each)) for each in sizes), Call((x, 0 * h0, w_x, w_h, b))]


STEP = "h = rnn_step(x[:, t], h, w_x, w_h, b)"
APPEND = "states.append(h)"

SLIPS = (
    Slip(
        "every step starts from h0",
        ("rnn_step(x[:, t], h,", "rnn_step(x[:, t], h0,"),
        "Every step starts from h0 again, so no step knows of those before it. Keep the state in "
        "a variable and hand it to the next step.",
    ),
    Slip(
        "h0 among the states",
        ("h0, []", "h0, [h0]"),
        "Your result has one state too many: h0 itself comes first. Collect the states after each "
        "step only.",
    ),
    Slip(
        "states before the step, not after",
        (f"{STEP}\n        {APPEND}", f"{APPEND}\n        {STEP}"),
        "Entry t holds the state before step t instead of after it: yours begins with h0, and the "
        "last state is missing. Collect the state after the step.",
    ),
    Slip(
        "read from the end",
        (
            ("range(x.shape[1])", "reversed(range(x.shape[1]))"),
            ("stack(states", "stack(states[::-1]"),
        ),
        "The sequence is read from its end. Start at t = 0.",
    ),
    Slip(
        "looped over the batch",
        (("x.shape[1]", "x.shape[0]"), ("x[:, t]", "x[t]")),
        "Axis 0, the sequences, is taken for time, so that with several of them one is read into "
        "the other. Time is axis 1: take range(x.shape[1]) and x[:, t].",
    ),
    Slip(
        "one array for all states",
        ("h = rnn_step", "h[...] = rnn_step"),
        "All your states are the last one, and h0 is changed: each step writes into the same "
        "array, as `h[...] = …` does. `h = …` makes a new one.",
    ),
    Slip(
        "one copy for all states",
        (("h0, []", "np.array(h0, float), []"), ("h = rnn_step", "h[...] = rnn_step")),
        "All your states are the last one, as if the list held one array many times, and each "
        "step wrote into it, as `h[...] = …` does. `h = …` makes a new one.",
    ),
    Slip(
        "h0 in the place of the first state",
        (("h0, []", "h0, [h0]"), ("range(", "range(1, ")),
        "Entry 0 holds h0, and the first input is never read. Entry 0 should be the state after "
        "the first input: begin at t = 0, with h0 as the state before it.",
    ),
    Slip(
        "first step left out",
        ("range(", "range(1, "),
        "Your result is one step short and begins with the second input: the first is never read. "
        "Begin the loop at t = 0: range(x.shape[1]).",
    ),
)


def inputs_first(x, h0, w_x, w_h, b):
    """All inputs through W_x at once; room for all states; self-contained."""
    sums = x @ w_x + b
    states = np.empty(sums.shape)
    for t in range(sums.shape[1]):
        states[:, t] = np.tanh(sums[:, t] + (states[:, t - 1] if t else h0) @ w_h)
    return states


def by_sequences(x, h0, w_x, w_h, b):
    """One sequence after the other."""
    found = []
    for sequence, h in zip(x, h0, strict=True):
        rows = []
        for now in sequence:
            h = np.tanh(now @ w_x + h @ w_h + b)
            rows.append(h)
        found.append(rows)
    return np.array(found)


EXERCISE = Exercise(
    chapter="01_recurrence",
    title="A whole sequence",
    goal="Apply the step along a sequence and keep every state.",
    reference=recurrence.rnn_forward,
    contract=PROMISES,
    properties=(
        worked(
            "a hand-worked example: states 0.6, 0.8, 0.899",
            *map(np.array, ([[[LN2], [0.0], [0.0]]], [[0.0]], [[1.0]], [[LN3 / 0.6]], [0.0])),
            want=np.array([[[0.6], [0.8], [0.8986]]]),
            tolerance=PRINTED,
            why="x = (ln 2, 0, 0), h0 = 0, W_x = 1, W_h = ln 3 / 0.6",
        ),
        agrees("one step only", _one_step, repeat=1),
        agrees("starts from h0", _start, repeat=1),
        agrees("every state, batch first: (B, T, N)", _states),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives=(inputs_first, by_sequences),
    hints=(
        "What does step t need that only step t − 1 can give it? Keep that in a variable.",
        "Time is axis 1 of x: `x[:, t]` holds the inputs of all sequences at step t, of shape "
        "(B, C). Put each new state into a list, and stack the list at the end.",
        "Start with h = h0 and an empty list. For t in range(x.shape[1]): let h be rnn_step of "
        "x[:, t] and h, and append it. Then np.stack the list with axis=1, which makes (B, T, N).",
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    uses=("rnn_step",),
)
