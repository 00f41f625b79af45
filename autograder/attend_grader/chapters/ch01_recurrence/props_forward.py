"""Chapter 01, forwards: what must hold of one recurrent step and of a whole sequence."""

from __future__ import annotations

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import agree_untouched, normal
from attend_grader.checks.subject import Subject

LN2, LN3 = float(np.log(2)), float(np.log(3))
"""tanh of these is exactly 0.6 and 0.8."""


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Random weights of two decimals, small enough that tanh keeps a slope."""
    return (0.6 * rng.standard_normal(shape)).round(2)


def step_inputs(rng: np.random.Generator, b: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, c), h (b, n), w_x (c, n), w_h (n, n) and bias (n,)."""
    h = rng.uniform(-0.9, 0.9, (b, n)).round(2)
    return (
        normal(rng, b, c),
        h,
        weights(rng, c, n),
        weights(rng, n, n),
        normal(rng, n),
    )


def sequence_inputs(rng: np.random.Generator, b: int, t: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, t, c), h0 (b, n), w_x (c, n), w_h (n, n) and bias (n,)."""
    _, h0, *rest = step_inputs(rng, b, c, n)
    return (normal(rng, b, t, c), h0, *rest)


def huge(shape: tuple[int, ...]) -> Array:
    """1000 and −1000 by turns."""
    return np.resize([1000.0, -1000.0], shape)


# rnn_step


def step_worked(subject: Subject, probe: Probe) -> None:
    """Input gives (1, −2), state (−1, 2), bias (ln 2, −ln 3): tanh gives (0.6, −0.8)."""
    x, h = np.array([[1.0, 3.0]]), np.array([[-0.5, 0.5]])
    w_x = np.array([[-2.0, 1.0], [1.0, -1.0]])
    w_h = np.array([[1.0, -1.0], [-1.0, 3.0]])
    want = np.array([[0.6, -0.8]])
    why = "the sums are ln 2 and −ln 3"
    probe.agree(
        subject, x, h, w_x, w_h, np.array([LN2, -LN3]), want=want, tolerance=PRINTED, why=why
    )


def step_parts(subject: Subject, probe: Probe) -> None:
    """Input, state and bias each count when the other two are 0."""
    x, h, w_x, w_h, b = step_inputs(probe.rng, 2, 4, 3)
    no_x, no_h, no_b = np.zeros_like(x), np.zeros_like(h), np.zeros_like(b)
    bias = np.tile(np.tanh(b), (2, 1))
    probe.agree(subject, no_x, no_h, w_x, w_h, b, want=bias, why="input and state are 0")
    probe.agree(subject, x, no_h, w_x, w_h, no_b, why="state and bias are 0")
    probe.agree(subject, no_x, h, w_x, w_h, no_b, why="input and bias are 0")


def step_batch(subject: Subject, probe: Probe) -> None:
    """Any B, C and N; every sequence of the batch goes its own way."""
    for _ in probe.repeat(1, 3):
        for b, c, n in ((3, 2, 5), (4, 4, 4), (1, 3, 2), (3, 1, 3), (2, 5, 1)):
            probe.agree(subject, *step_inputs(probe.rng, b, c, n), why=f"B = {b}, C = {c}, N = {n}")


def step_huge(subject: Subject, probe: Probe) -> None:
    """Sums of ±1000 give states of ±1."""
    x, h, w_x, w_h, b = step_inputs(probe.rng, 2, 3, 4)
    b = huge(b.shape)
    want = np.tile([1.0, -1.0, 1.0, -1.0], (2, 1))

    def clue(states: Array) -> str:
        if np.isfinite(states).all():
            return ""
        return "exp of a large number overflows. np.tanh is safe for numbers of any size."

    probe.agree(subject, x, h, w_x, w_h, b, want=want, why="sums near ±1000", clue=clue)


def step_awkward(subject: Subject, probe: Probe) -> None:
    """Whole numbers, float32, views; and the arguments stay as they were."""
    inputs = (*step_inputs(probe.rng, 2, 4, 3)[:-1], np.zeros(3))
    one_hot = np.eye(4, dtype=int)[probe.rng.permutation(4)[:2]]
    probe.agree(subject, one_hot, *inputs[1:], why="whole numbers as inputs")
    small = [a.astype(np.float32) for a in inputs]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, *inputs)


STEP = (
    Property("a hand-worked example: sums ln 2 and −ln 3 → 0.6 and −0.8", 1, step_worked),
    Property("input, state and bias each count, alone too", 1, step_parts),
    Property("any batch, input and state size", 1, step_batch),
    Property("huge sums are safe: the state stays between −1 and 1", 1, step_huge),
    Property("integers, float32, views; arguments stay as they were", 1, step_awkward),
)


def step_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, huge sums of both signs."""
    x, h, w_x, w_h, b = step_inputs(rng, 2, 3, 4)
    return [
        Call((x, h, w_x, w_h, b)),
        Call(step_inputs(rng, 4, 4, 4)),
        Call(step_inputs(rng, 1, 2, 3)),
        Call((x, h, w_x, w_h, huge(b.shape))),
    ]


# rnn_forward


def forward_worked(subject: Subject, probe: Probe) -> None:
    """x = (ln 2, 0, 0) with W_h = ln 3 / 0.6: the states are 0.6, 0.8 and tanh(1.465)."""
    x = np.array([[[LN2], [0.0], [0.0]]])
    w_h, w_x = np.array([[LN3 / 0.6]]), np.array([[1.0]])
    want = np.array([[[0.6], [0.8], [0.8986]]])
    why = "x = (ln 2, 0, 0), h0 = 0, W_x = 1, W_h = ln 3 / 0.6"
    start = np.zeros((1, 1))
    probe.agree(subject, x, start, w_x, w_h, np.zeros(1), want=want, tolerance=PRINTED, why=why)


def forward_one_step(subject: Subject, probe: Probe) -> None:
    """A sequence of one step: the step's result, with an axis of length 1 for time."""
    inputs = sequence_inputs(probe.rng, 3, 1, 2, 4)
    probe.agree(subject, *inputs, why="sequences of one step")


def forward_start(subject: Subject, probe: Probe) -> None:
    """The first step starts from h0."""
    x, h0, w_x, w_h, b = sequence_inputs(probe.rng, 2, 3, 2, 3)
    why = "inputs of 0 and no bias, so all comes from h0"
    probe.agree(subject, np.zeros_like(x), h0, w_x, w_h, np.zeros_like(b), why=why)


def forward_states(subject: Subject, probe: Probe) -> None:
    """Each state is one step on from the one before; (B, T, N) comes out."""
    for _ in probe.repeat(1, 3):
        for b, t, c, n in ((2, 5, 3, 4), (3, 3, 3, 3), (1, 4, 2, 2), (4, 2, 1, 5)):
            why = f"B = {b}, T = {t}, C = {c}, N = {n}"
            probe.agree(subject, *sequence_inputs(probe.rng, b, t, c, n), why=why)


def forward_pieces(subject: Subject, probe: Probe) -> None:
    """A sequence read in two pieces: the second starts from the (own) last state of the first."""
    x, h0, *rest = sequence_inputs(probe.rng, 2, 6, 3, 4)
    whole = probe.call(subject, x, h0, *rest).value
    if not isinstance(whole, np.ndarray) or whole.shape != (2, 6, 4):
        probe.agree(subject, x, h0, *rest)
    for cut in (1, 4):
        why = f"the first {cut} of 6 steps alone, which know nothing of the later inputs"
        probe.agree(subject, x[:, :cut], h0, *rest, want=whole[:, :cut], why=why)
        why = f"the steps after {cut}, started from your state at step {cut}"
        last = whole[:, cut - 1]
        probe.agree(subject, x[:, cut:], last, *rest, want=whole[:, cut:], why=why)
    changed = np.concatenate([x[:, :3], -x[:, 3:]], axis=1)
    after = probe.call(subject, changed, h0, *rest).value
    if np.array_equal(after[:, 3:], whole[:, 3:]):
        raise probe.miss("other inputs give the same states", changed, h0, *rest)


def forward_awkward(subject: Subject, probe: Probe) -> None:
    """Whole numbers, float32, views; and the arguments stay as they were."""
    inputs = sequence_inputs(probe.rng, 2, 3, 4, 3)
    one_hot = np.eye(4, dtype=int)[probe.rng.integers(0, 4, (2, 3))]
    start = np.zeros((2, 3), dtype=int)
    probe.agree(subject, one_hot, start, *inputs[2:], why="whole numbers as inputs and as h0")
    small = [a.astype(np.float32) for a in inputs]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, *inputs)


FORWARD = (
    Property("a hand-worked example: states 0.6, 0.8, 0.899", 1, forward_worked),
    Property("one step only", 1, forward_one_step),
    Property("starts from h0", 1, forward_start),
    Property("every state, batch first: (B, T, N)", 1, forward_states),
    Property("two pieces give the same as the whole", 1, forward_pieces),
    Property("integers, float32, views; arguments stay as they were", 1, forward_awkward),
)


def forward_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, whole numbers."""
    one_hot = np.eye(3, dtype=int)[rng.integers(0, 3, (2, 4))]
    _, h0, *rest = sequence_inputs(rng, 2, 4, 3, 5)
    return [
        Call(sequence_inputs(rng, 2, 4, 3, 5)),
        Call(sequence_inputs(rng, 3, 3, 3, 3)),
        Call(sequence_inputs(rng, 1, 5, 2, 3)),
        Call((one_hot, h0, *rest)),
    ]
