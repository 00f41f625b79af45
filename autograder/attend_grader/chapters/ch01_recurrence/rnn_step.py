"""Exercise 01_recurrence/rnn_step: what must hold, how it goes wrong, other ways to write it."""

from __future__ import annotations

import numpy as np
from attend_solutions import recurrence
from attend_solutions.types import Array

from attend_grader.chapters.ch01_recurrence.shared import (
    LN2,
    LN3,
    PROMISES,
    any_sizes,
    cell_draws,
    each_alone,
    huge_sums,
    step_inputs,
    wide,
)
from attend_grader.checks.exercise import Call, Exercise, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked


def _overflowed(states: Array) -> str:
    if np.isfinite(states).all():
        return ""
    return "Yours are not all finite there. np.tanh is safe for numbers of any size."


def _sums(rng: np.random.Generator) -> Fresh:
    yield from huge_sums(step_inputs)(rng)
    x, h, w_x, w_h, _ = step_inputs(rng, 1, 2, 25)
    yield "sums from −12 to 12", Call((0 * x, 0 * h, w_x, w_h, np.linspace(-12, 12, 25)))


ANSWER = "np.tanh(x @ w_x + h @ w_h + b)"

SLIPS = (
    Slip(
        "bias added after tanh",
        (" + b)", ") + b"),
        "The bias is added after tanh. It belongs inside, with the other two parts of the sum.",
    ),
    Slip(
        "a tanh for each part",
        (ANSWER, "np.tanh(x @ w_x + b) + np.tanh(h @ w_h)"),
        "Input and state go through a tanh each, and then are added. Add first: one tanh of the "
        "whole sum.",
    ),
    Slip(
        "a tanh for each part, the bias outside",
        (ANSWER, "np.tanh(x @ w_x) + np.tanh(h @ w_h) + b"),
        "Input and state go through a tanh each, and the bias through none. Add all three first: "
        "one tanh of the whole sum.",
    ),
    Slip(
        "sigmoid instead of tanh",
        (ANSWER, "sigmoid(x @ w_x + h @ w_h + b)"),
        "Your states lie between 0 and 1: that is the logistic sigmoid. Use np.tanh, whose values "
        "lie between −1 and 1.",
    ),
    Slip(
        "state added after tanh",
        (ANSWER, "np.tanh(x @ w_x + b) + h @ w_h"),
        "Only the input's part and the bias go through tanh; what comes from the state is added "
        "after it, so that states can leave −1 to 1. Put one tanh around all three parts.",
    ),
    Slip(
        "both weight matrices transposed",
        (("x @ w_x", "x @ w_x.T"), ("h @ w_h", "h @ w_h.T")),
        "Both weight matrices are used transposed, as if stored in PyTorch's way; for w_x that "
        "only fits where C = N. Here w_x is (C, N): write x @ w_x and h @ w_h.",
    ),
    Slip(
        "changed h in place",
        (f"return {ANSWER}", f"h[...] = {ANSWER}\n    return h"),
        "The new state is written into the caller's h (as `h[...] =`, `h *=` or `out=h` do). "
        "Return a new array instead.",
    ),
    Slip(
        "input added after tanh",
        (ANSWER, "x @ w_x + np.tanh(h @ w_h + b)"),
        "Only the state's part and the bias go through tanh; what comes from the input is added "
        "after it. Put one tanh around all three parts.",
    ),
)


def one_product(x, h, w_x, w_h, b):
    """Input, state and a 1 side by side, weights below each other: a single product."""
    ones = np.ones((len(x), 1))
    return np.tanh(np.hstack([x, h, ones]) @ np.vstack([w_x, w_h, b[None]]))


def through_exponentials(x, h, w_x, w_h, b):
    """einsum, and tanh a = sign(a) (1 − e^(−2|a|)) / (1 + e^(−2|a|)): no overflow."""
    a = b + np.einsum("bc,cn->bn", x, w_x) + np.einsum("bm,mn->bn", h, w_h)
    small = np.exp(-2 * np.abs(a))
    return np.sign(a) * (1 - small) / (1 + small)


EXERCISE = Exercise(
    chapter="01_recurrence",
    title="One step",
    goal="Make the next state from an input and the state before it.",
    reference=recurrence.rnn_step,
    contract=PROMISES,
    properties=(
        worked(
            "a hand-worked example: sums ln 2 and −ln 3 → 0.6 and −0.8",
            *map(np.array, ([[1.0, 3.0]], [[-0.5, 0.5]], [[-2.0, 1.0], [1.0, -1.0]])),
            *map(np.array, ([[1.0, -1.0], [-1.0, 3.0]], [LN2, -LN3])),
            want=np.array([[0.6, -0.8]]),
            why="the sums are ln 2 and −ln 3",
        ),
        agrees(
            "input, state and bias each count, alone too",
            each_alone(step_inputs, "x", "h", "w_x", "w_h", "b"),
            repeat=1,
        ),
        agrees("any batch, input and state size", any_sizes(step_inputs)),
        agrees(
            "huge sums are safe: the state stays between −1 and 1",
            _sums,
            repeat=1,
            clue=_overflowed,
        ),
    ),
    draws=cell_draws(step_inputs),
    wide=wide(step_inputs),
    slips=SLIPS,
    alternatives=(one_product, through_exponentials),
    hints=(
        "Three things are added before anything is squeezed: one comes from the input, one from "
        "the old state, one is always the same. Which are they?",
        "Rows of x are sequences, and so are rows of h. `x @ w_x` has the shape (B, N), and so "
        "has `h @ w_h`; the bias, of shape (N,), broadcasts over the batch.",
        "Return np.tanh of the sum of x @ w_x, h @ w_h and b, all three inside the brackets.",
    ),
    minutes=6,
    difficulty=1,
    importance=5,
)
