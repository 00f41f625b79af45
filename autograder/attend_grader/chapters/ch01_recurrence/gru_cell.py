"""Exercise 01_recurrence/gru_cell: what must hold, how it goes wrong, other ways to write it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from attend_solutions import recurrence
from attend_solutions.types import Array

from attend_grader.chapters.ch01_recurrence.shared import (
    GATES,
    LN2,
    LN3,
    PROMISES,
    WIDE,
    any_sizes,
    cell_draws,
    each_alone,
    huge_sums,
    inside,
    logistic,
    overflowed,
    weights,
    wide,
)
from attend_grader.checks.exercise import Call, Exercise, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known, worked
from attend_grader.checks.properties import normal

Inputs = tuple[Array, ...]


def _inputs(rng: np.random.Generator, b: int, c: int, n: int) -> Inputs:
    """Random x (b, c), h (b, n), w_x (c, 3n), w_h (n, 3n), b_x (3n,) and b_h (3n,)."""
    w_x, w_h = weights(rng, c, 3 * n), weights(rng, n, 3 * n)
    return normal(rng, b, c), inside(rng, b, n), w_x, w_h, normal(rng, 3 * n), normal(rng, 3 * n)


def _gated(rng: np.random.Generator, reset: float, update: float) -> Inputs:
    """Random inputs whose two gates are set by the bias alone."""
    x, h, w_x, w_h, b_x, b_h = _inputs(rng, 3, 2, 4)
    w_x[:, :8] = w_h[:, :8] = b_h[:8] = 0.0
    b_x[:8] = np.repeat([reset, update], 4)
    return x, h, w_x, w_h, b_x, b_h


def _keeps(rng: np.random.Generator) -> Known:
    inputs = _gated(rng, WIDE, WIDE)
    yield "the update gate is 1, so the state stays", inputs, inputs[1]


def _replaces(rng: np.random.Generator) -> Known:
    inputs = x, h, w_x, w_h, b_x, b_h = _gated(rng, WIDE, -WIDE)
    candidate = np.tanh((x @ w_x + b_x + h @ w_h + b_h)[:, 8:])
    yield "the update gate is 0, so the candidate replaces the state", inputs, candidate


def _resets(rng: np.random.Generator) -> Known:
    for reset, share in ((-WIDE, 0.0), (0.0, 0.5), (WIDE, 1.0)):
        x, h, w_x, w_h, b_x, b_h = _gated(rng, reset, 0.0)
        b_h[8:] = 0.0
        candidate = np.tanh((x @ w_x + b_x)[:, 8:] + share * (h @ w_h)[:, 8:])
        why = f"the reset gate is {share:g} and the update gate 1/2"
        yield why, (x, h, w_x, w_h, b_x, b_h), 0.5 * candidate + 0.5 * h


def _placed(rng: np.random.Generator) -> Known:
    x, h, w_x, w_h, b_x, b_h = _gated(rng, 0.0, -WIDE)
    b_x[:4] = [-WIDE, WIDE, -WIDE, WIDE]
    shares = np.array([0.0, 1.0, 0.0, 1.0])
    for side, bias in (("without", np.zeros(12)), ("with", b_h)):
        want = np.tanh((x @ w_x + b_x)[:, 8:] + shares * (h @ w_h + bias)[:, 8:])
        why = f"reset gates 0, 1, 0, 1 and update gates 0, {side} the state's bias b_h"
        yield why, (x, h, w_x, w_h, b_x, bias), want


def _sizes(rng: np.random.Generator) -> Fresh:
    yield from any_sizes(_inputs)(rng)
    yield from each_alone(_inputs, "x", "h", "w_x", "w_h", "b_x", "b_h")(rng)


def _huge(rng: np.random.Generator) -> Fresh:
    yield from huge_sums(_inputs, bias=4)(rng)
    x, h, w_x, w_h, b_x, b_h = _inputs(rng, 2, 4, 3)
    w_h[:] = 0.0
    b_x[3:6] = -1000.0
    why = "an update gate's sum near −1000, and a state near 1,000, of which nothing is left"
    yield why, Call((x, 1e3 * h, w_x, w_h, b_x, b_h))
    x, h, w_x, w_h, b_x, b_h = _gated(rng, WIDE, -WIDE)
    b_x[8:], b_h[8:] = -2e11, 3e11
    yield "sums of −2e11 from the input and 3e11 from the state", Call((x, h, w_x, w_h, b_x, b_h))


CANDIDATE = "np.tanh(x_n + reset * h_n)"
MEAN = "(1 - update) * candidate + update * h"

SLIPS = (
    Slip(
        "update gate the other way round (Chung et al.)",
        (MEAN, "update * candidate + (1 - update) * h"),
        "Your update gate of 1 replaces the state, as in Chung et al. 2014. Here, as in PyTorch "
        "and in Cho et al. 2014, it should keep it: (1 − z) · candidate + z · h.",
    ),
    Slip(
        "reset before the product (Cho et al.)",
        (
            CANDIDATE,
            "np.tanh(x_n + (reset * h) @ np.split(w_h, 3, axis=-1)[2] + np.split(b_h, 3)[2])",
        ),
        "The reset gate multiplies the state before the product with W_h, as in Cho et al. 2014. "
        "Here, as in PyTorch, it should multiply the third block of h @ w_h + b_h.",
    ),
    Slip(
        "bias outside the reset gate",
        (("+ b_x", "+ b_x + b_h"), ("h @ w_h + b_h", "h @ w_h")),
        "The reset gate multiplies h @ w_h, and the bias b_h is added outside it. It belongs "
        "to what comes from the state: r · (h @ w_h + b_h).",
    ),
    Slip(
        "input's bias inside the reset gate",
        ("+ reset * h_n", "- (1 - reset) * np.split(b_x, 3)[2] + reset * h_n"),
        "The reset gate multiplies the input's bias b_x too. It should mute only what comes from "
        "the state, h @ w_h + b_h: leave b_x with the input's part.",
    ),
    Slip(
        "reset and update exchanged",
        ("reset, update =", "update, reset ="),
        "Reset gate and update gate are exchanged. Take the first block for the reset gate r, the "
        "second for the update gate z.",
    ),
    Slip(
        "no reset gate",
        ("reset * h_n", "h_n"),
        "The reset gate has no effect. In the candidate, multiply what comes from the state by it.",
    ),
    Slip(
        "reset gate on the input too",
        ("x_n + reset * h_n", "reset * (x_n + h_n)"),
        "The reset gate multiplies the whole candidate's sum, the input's part as well. It should "
        "mute only what comes from the state: x_n + r · h_n.",
    ),
    Slip(
        "candidate added in full",
        ("(1 - update) * candidate", "candidate"),
        "The candidate is added in full. The two shares should make 1 together: (1 − z) of the "
        "candidate, z of the old state.",
    ),
    Slip(
        "old state added in full",
        ("update * h", "h"),
        "The old state is added in full. The two shares should make 1 together: (1 − z) of the "
        "candidate, z of the old state.",
    ),
    Slip(
        "sigmoid for the candidate",
        (CANDIDATE, "sigmoid(x_n + reset * h_n)"),
        "The candidate went through a sigmoid. It should be no gate but new content between −1 "
        "and 1: take np.tanh.",
    ),
    Slip(
        "reset gate on the old state too",
        ("update * h", "update * (reset * h)"),
        "The reset gate also multiplies the old state that is kept. It should act in the "
        "candidate only: keep z · h.",
    ),
)


def sliced(x, h, w_x, w_h, b_x, b_h):
    """Blocks by slices; the mean written as a step from the candidate towards the state."""
    n = h.shape[1]
    from_x, from_h = x @ w_x + b_x, h @ w_h + b_h
    both = logistic(from_x[:, : 2 * n] + from_h[:, : 2 * n])
    reset, update = both[:, :n], both[:, n:]
    candidate = np.tanh(from_x[:, 2 * n :] + reset * from_h[:, 2 * n :])
    return candidate + update * (h - candidate)


def blocks_as_axis(x, h, w_x, w_h, b_x, b_h):
    """The three blocks as an axis of their own, einsum for the products."""
    shape = (len(x), 3, -1)
    from_x = (np.einsum("bc,cn->bn", x, w_x) + b_x).reshape(shape)
    from_h = (np.einsum("bm,mn->bn", h, w_h) + b_h).reshape(shape)
    gates = (np.tanh((from_x[:, :2] + from_h[:, :2]) / 2) + 1) / 2
    candidate = np.tanh(from_x[:, 2] + gates[:, 0] * from_h[:, 2])
    return gates[:, 1] * h + (1 - gates[:, 1]) * candidate


EXERCISE = Exercise(
    chapter="01_recurrence",
    title="A step of the GRU",
    goal="Write the cell with two gates that needs no second memory.",
    reference=recurrence.gru_cell,
    contract=replace(PROMISES, ranges={"h": (-1e3, 1e3)}, says=(GATES,)),
    properties=(
        worked(
            "a hand-worked example: gates 1/2 and 1/4 → 0.575",
            *map(np.array, ([[1.0]], [[0.5]], [[0.0, -LN3, 0.0]], [[0.0, 0.0, 4 * LN2]])),
            *np.zeros((2, 3)),
            want=np.array([[0.575]]),
            why="reset gate 1/2, update gate 1/4, the candidate's parts are 0 and ln 4",
        ),
        known("update gate 1 keeps the state", _keeps),
        known("update gate 0 replaces it by the candidate", _replaces),
        known("the reset gate mutes what comes from the state", _resets),
        known("it does so after the product and the bias, number by number", _placed),
        agrees("any batch, input and state size; input, state and biases each 0, too", _sizes),
        agrees("huge sums are safe", _huge, repeat=1, clue=overflowed),
    ),
    draws=cell_draws(_inputs, bias=4),
    wide=wide(_inputs),
    slips=SLIPS,
    alternatives=(sliced, blocks_as_axis),
    hints=(
        "Why does this cell have two biases, where the LSTM made do with one? Look at where the "
        "reset gate stands.",
        "Keep what comes from the input, x @ w_x + b_x, and what comes from the state, "
        "h @ w_h + b_h, apart, and split each into three blocks r, z, n.",
        "r and z are sigmoids of the two parts added. The candidate is tanh of the input's part "
        "plus r times the state's part. Return (1 − z) times the candidate plus z times h.",
    ),
    minutes=12,
    difficulty=2,
    importance=4,
)
