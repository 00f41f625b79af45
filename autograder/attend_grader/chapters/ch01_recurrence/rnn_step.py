"""Exercise 01_recurrence/rnn_step: what must hold, how it goes wrong, other ways to write it."""

from __future__ import annotations

import math

import numpy as np
from attend_solutions import recurrence
from attend_solutions.types import Array

from attend_grader.chapters.ch01_recurrence.shared import LN2, LN3, SIZES, alone, huge, step_inputs
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked


def _parts(rng: np.random.Generator) -> Fresh:
    names = ("x", "h", "w_x", "w_h", "b")
    for why, arguments in alone(names, step_inputs(rng, 2, 4, 3), ("w_x", "w_h")):
        yield why, Call(arguments)


def _sizes(rng: np.random.Generator) -> Fresh:
    for b, c, n in SIZES:
        yield f"B = {b}, C = {c}, N = {n}", Call(step_inputs(rng, b, c, n))


def _huge(rng: np.random.Generator) -> Fresh:
    *inputs, b = step_inputs(rng, 2, 3, 5)
    yield "sums near ±1000", Call((*inputs, huge(b.size)))


def _overflowed(states: Array) -> str:
    if np.isfinite(states).all():
        return ""
    return "Yours are not all finite there. np.tanh is safe for numbers of any size."


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, huge sums of both signs."""
    x, h, w_x, w_h, b = step_inputs(rng, 2, 3, 4)
    return [
        Call((x, h, w_x, w_h, b)),
        Call(step_inputs(rng, 4, 4, 4)),
        Call(step_inputs(rng, 1, 2, 3)),
        Call((x, h, w_x, w_h, huge(b.size))),
    ]


ANSWER = "np.tanh(x @ w_x + h @ w_h + b)"

SLIPS = (
    Slip(
        "no tanh",
        (ANSWER, "x @ w_x + h @ w_h + b"),
        "These are the sums themselves, before tanh. Squeeze them: np.tanh(…) around all three "
        "parts. Without it the state can grow without limit.",
    ),
    Slip(
        "forgot the state",
        (" + h @ w_h", ""),
        "The old state h does not count. Without h @ w_h in the sum, nothing is remembered from "
        "one step to the next.",
    ),
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
        "sigmoid instead of tanh",
        (ANSWER, "sigmoid(x @ w_x + h @ w_h + b)"),
        "Your states lie between 0 and 1: that is the logistic sigmoid. Use np.tanh, whose values "
        "lie between −1 and 1.",
    ),
    Slip(
        "state added after tanh",
        (ANSWER, "np.tanh(x @ w_x + b) + h @ w_h"),
        "Only the input's part and the bias go through tanh; what comes from the state is added "
        "after it, so that states leave −1 to 1. One tanh around all three parts.",
    ),
    Slip(
        "w_h transposed",
        ("h @ w_h", "h @ w_h.T"),
        "w_h is used transposed; as it is square, no error tells you. Row i of w_h says where "
        "number i of the state goes: h @ w_h.",
    ),
    Slip(
        "both weight matrices transposed",
        (("x @ w_x", "x @ w_x.T"), ("h @ w_h", "h @ w_h.T")),
        "Both weight matrices are used transposed, as PyTorch stores them; for w_x that only fits "
        "where C = N. Here w_x is (C, N): x @ w_x and h @ w_h, as they are.",
    ),
    Slip(
        "changed h in place",
        (f"return {ANSWER}", f"h[...] = {ANSWER}\n    return h"),
        "The new state is written into the caller's h (as `h[...] =`, `h *=` or `out=h` do). "
        "Return a new array instead.",
    ),
    Slip(
        "tanh overflows",
        (f"return {ANSWER}", "a = x @ w_x + h @ w_h + b\n    return np.sinh(a) / np.cosh(a)"),
        "tanh is made of exponentials, and exp of a large number is infinite: inf / inf is NaN. "
        "Use np.tanh, which is safe.",
    ),
)


def one_product(x, h, w_x, w_h, b):
    """Input, state and a 1 side by side, weights below each other: a single product."""
    ones = np.ones((len(x), 1))
    return np.tanh(np.hstack([x, h, ones]) @ np.vstack([w_x, w_h, b[None]]))


def by_loops(x, h, w_x, w_h, b):
    """Number by number, with Python's own tanh."""
    new = np.zeros((x.shape[0], b.shape[0]))
    for row, column in np.ndindex(new.shape):
        total = float(b[column])
        total += sum(float(x[row, c]) * float(w_x[c, column]) for c in range(x.shape[1]))
        total += sum(float(h[row, m]) * float(w_h[m, column]) for m in range(h.shape[1]))
        new[row, column] = math.tanh(total)
    return new


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
    contract=Contract(
        numpy_only=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
    ),
    properties=(
        worked(
            "a hand-worked example: sums ln 2 and −ln 3 → 0.6 and −0.8",
            np.array([[1.0, 3.0]]),
            np.array([[-0.5, 0.5]]),
            np.array([[-2.0, 1.0], [1.0, -1.0]]),
            np.array([[1.0, -1.0], [-1.0, 3.0]]),
            np.array([LN2, -LN3]),
            want=np.array([[0.6, -0.8]]),
            why="the sums are ln 2 and −ln 3",
        ),
        agrees("input, state and bias each count, alone too", _parts, repeat=1),
        agrees("any batch, input and state size", _sizes),
        agrees(
            "huge sums are safe: the state stays between −1 and 1",
            _huge,
            repeat=1,
            clue=_overflowed,
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(one_product, by_loops, through_exponentials),
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
