"""Chapter 01, gates: what must hold of an LSTM's and a GRU's step."""

from __future__ import annotations

from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.chapters.ch01_recurrence.props_forward import LN2, LN3, huge, weights
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import agree_untouched, normal
from attend_grader.checks.subject import Subject

WIDE = 40.0
"""A bias that opens a gate, or with a minus shuts it, as far as float64 can tell."""


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _states(rng: np.random.Generator, b: int, n: int) -> Array:
    return rng.uniform(-0.9, 0.9, (b, n)).round(2)


# lstm_cell


def lstm_inputs(rng: np.random.Generator, b: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, c), h and memory (b, n), w_x (c, 4n), w_h (n, 4n) and bias (4n,)."""
    return (
        normal(rng, b, c),
        _states(rng, b, n),
        normal(rng, b, n),
        weights(rng, c, 4 * n),
        weights(rng, n, 4 * n),
        normal(rng, 4 * n),
    )


def lstm_alike(rng: np.random.Generator, b: int, c: int, n: int) -> tuple[Array, ...]:
    """The same with four equal blocks: the order of the gates does not matter."""
    x, h, memory, w_x, w_h, bias = lstm_inputs(rng, b, c, n)
    w_x, w_h = (np.tile(w[:, :n], (1, 4)) for w in (w_x, w_h))
    return x, h, memory, w_x, w_h, np.tile(bias[:n], 4)


def lstm_worked(subject: Subject, probe: Probe) -> None:
    """Gates 1/4, 3/4 and 1/2, candidate 0.8: the memory is 0.2 + 0.75 · 2 = 1.7."""
    x, h, c = np.array([[1.0]]), np.array([[0.0]]), np.array([[2.0]])
    w_x = np.array([[-LN3, LN3, LN3, 0.0]])
    want = (np.array([[0.4677]]), np.array([[1.7]]))
    why = "the gates i, f, o are 1/4, 3/4, 1/2 and the candidate is 0.8"
    args = (x, h, c, w_x, np.zeros((1, 4)), np.zeros(4))
    for part in (1, 0):
        probe.agree(subject, *args, want=want, part=part, tolerance=PRINTED, why=why)


def _biased(blocks: tuple[float, float, float, float], n: int) -> tuple[Array, Array, Array]:
    """Weights of zero, and a bias with one number for each block."""
    return np.zeros((2, 4 * n)), np.zeros((n, 4 * n)), np.repeat(blocks, n)


def lstm_keeps(subject: Subject, probe: Probe) -> None:
    """Forget gate 1, input gate 0: the memory stays as it was."""
    x, h, c = normal(probe.rng, 3, 2), _states(probe.rng, 3, 4), normal(probe.rng, 3, 4)
    want = (_sigmoid(0.5) * np.tanh(c), c)
    why = "the input gate is shut and the forget gate open, so the memory stays"
    biased = _biased((-WIDE, WIDE, LN2, 0.5), 4)
    probe.agree(subject, x, h, c, *biased, want=want, part=1, why=why)


def lstm_replaces(subject: Subject, probe: Probe) -> None:
    """Forget gate 0, input gate 1: the memory is the candidate, tanh of the third block."""
    x, h, c = normal(probe.rng, 3, 2), _states(probe.rng, 3, 4), normal(probe.rng, 3, 4)
    new = np.full((3, 4), 0.6)
    want = (_sigmoid(0.5) * np.tanh(new), new)
    why = "the input gate is open and the forget gate shut, so the candidate replaces the memory"
    biased = _biased((WIDE, -WIDE, LN2, 0.5), 4)
    probe.agree(subject, x, h, c, *biased, want=want, part=1, why=why)


def lstm_output(subject: Subject, probe: Probe) -> None:
    """The state is the output gate times tanh of the new memory (the learner's own)."""
    for shape in ((3, 2, 4), (2, 5, 1), (3, 3, 3)):
        x, h, c, w_x, w_h, b = lstm_alike(probe.rng, *shape)
        outcome = probe.call(subject, x, h, c, w_x, w_h, b)
        both = isinstance(outcome.value, (tuple, list)) and len(outcome.value) == 2
        own = outcome.value[1] if both else None
        if not isinstance(own, np.ndarray) or own.shape != c.shape:
            probe.agree(subject, x, h, c, w_x, w_h, b)
            continue
        gate = _sigmoid((x @ w_x + h @ w_h + b)[:, -c.shape[1] :])
        why = "expected: the output gate times tanh of your new memory"
        want = (gate * np.tanh(own), own)
        probe.agree(subject, x, h, c, w_x, w_h, b, want=want, part=0, why=why)


def lstm_memory(subject: Subject, probe: Probe) -> None:
    """The new memory, for any B, C and N."""
    for _ in probe.repeat(1, 3):
        for b, c, n in ((2, 3, 5), (4, 4, 4), (1, 2, 3), (3, 5, 1)):
            why = f"B = {b}, C = {c}, N = {n}"
            probe.agree(subject, *lstm_inputs(probe.rng, b, c, n), part=1, why=why)


def lstm_awkward(subject: Subject, probe: Probe) -> None:
    """Huge sums, whole numbers, float32, views; and the arguments stay as they were."""
    inputs = lstm_alike(probe.rng, 2, 4, 3)
    x, h, c, w_x, w_h, b = inputs
    wide = np.tile(huge((3,)), 4)
    probe.agree(subject, x, h, c, w_x, w_h, wide, why="sums near ±1000")
    one_hot = np.eye(4, dtype=int)[probe.rng.permutation(4)[:2]]
    start = np.zeros((2, 3), dtype=int)
    probe.agree(subject, one_hot, start, start + 2, w_x, w_h, b, why="whole numbers")
    small = [a.astype(np.float32) for a in inputs]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, *inputs)


LSTM = (
    Property("a hand-worked example: gates 1/4, 3/4, 1/2", 1, lstm_worked),
    Property("forget gate open, input gate shut: the memory stays", 1, lstm_keeps),
    Property("forget gate shut, input gate open: the candidate replaces it", 1, lstm_replaces),
    Property("state: the output gate times tanh of your new memory", 1, lstm_output),
    Property("the new memory, for any batch, input and state size", 1, lstm_memory),
    Property("huge sums, integers, views; arguments stay as they were", 1, lstm_awkward),
)


def lstm_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, huge sums of both signs."""
    x, h, c, w_x, w_h, b = lstm_inputs(rng, 2, 3, 5)
    return [
        Call((x, h, c, w_x, w_h, b)),
        Call(lstm_inputs(rng, 4, 4, 4)),
        Call(lstm_inputs(rng, 1, 2, 3)),
        Call((x, h, c, w_x, w_h, huge(b.shape))),
    ]


# gru_cell


def gru_inputs(rng: np.random.Generator, b: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, c), h (b, n), w_x (c, 3n), w_h (n, 3n), b_x (3n,) and b_h (3n,)."""
    return (
        normal(rng, b, c),
        _states(rng, b, n),
        weights(rng, c, 3 * n),
        weights(rng, n, 3 * n),
        normal(rng, 3 * n),
        normal(rng, 3 * n),
    )


def gru_worked(subject: Subject, probe: Probe) -> None:
    """Reset 1/2, update 1/4, candidate tanh(1/2 · ln 4) = 0.6: 3/4 · 0.6 + 1/4 · 0.5."""
    x, h = np.array([[1.0]]), np.array([[0.5]])
    w_x = np.array([[0.0, -LN3, 0.0]])
    w_h = np.array([[0.0, 0.0, 4 * LN2]])
    want = np.array([[0.575]])
    why = "reset gate 1/2, update gate 1/4, the candidate's parts are 0 and ln 4"
    args = (x, h, w_x, w_h, np.zeros(3), np.zeros(3))
    probe.agree(subject, *args, want=want, tolerance=PRINTED, why=why)


def _gated(probe: Probe, reset: float, update: float) -> tuple[Array, ...]:
    """Random inputs whose two gates are set by the bias alone."""
    x, h, w_x, w_h, b_x, b_h = gru_inputs(probe.rng, 3, 2, 4)
    w_x[:, :8] = w_h[:, :8] = b_h[:8] = 0.0
    b_x[:8] = np.repeat([reset, update], 4)
    return x, h, w_x, w_h, b_x, b_h


def gru_keeps(subject: Subject, probe: Probe) -> None:
    """Update gate 1: the state stays."""
    inputs = _gated(probe, WIDE, WIDE)
    probe.agree(subject, *inputs, want=inputs[1], why="the update gate is 1, so the state stays")


def gru_replaces(subject: Subject, probe: Probe) -> None:
    """Update gate 0: the candidate replaces the state."""
    inputs = _gated(probe, WIDE, -WIDE)
    why = "the update gate is 0, so the candidate replaces the state"
    probe.agree(subject, *inputs, why=why)


def gru_reset(subject: Subject, probe: Probe) -> None:
    """Reset gate 0 leaves the input's part of the candidate; at 1/2 half of the other comes too."""
    for reset, share in ((-WIDE, 0.0), (0.0, 0.5), (WIDE, 1.0)):
        x, h, w_x, w_h, b_x, b_h = _gated(probe, reset, 0.0)
        b_h[8:] = 0.0
        from_x, from_h = x @ w_x + b_x, h @ w_h
        want = 0.5 * np.tanh(from_x[:, 8:] + share * from_h[:, 8:]) + 0.5 * h
        why = f"the reset gate is {share:g} and the update gate 1/2"
        probe.agree(subject, x, h, w_x, w_h, b_x, b_h, want=want, why=why)


def gru_placed(subject: Subject, probe: Probe) -> None:
    """The reset gate acts after the product with W_h and after its bias, number by number."""
    x, h, w_x, w_h, b_x, b_h = _gated(probe, 0.0, -WIDE)
    b_x[:4] = [-WIDE, WIDE, -WIDE, WIDE]
    shares = np.array([0.0, 1.0, 0.0, 1.0])
    for bias in (np.zeros(12), b_h):
        from_x, from_h = x @ w_x + b_x, h @ w_h + bias
        want = np.tanh(from_x[:, 8:] + shares * from_h[:, 8:])
        side = "with" if bias.any() else "without"
        why = f"reset gates 0, 1, 0, 1 and update gates 0, {side} the state's bias b_h"
        probe.agree(subject, x, h, w_x, w_h, b_x, bias, want=want, why=why)


def gru_sizes(subject: Subject, probe: Probe) -> None:
    """Any B, C and N."""
    for _ in probe.repeat(1, 3):
        for b, c, n in ((2, 3, 5), (4, 4, 4), (1, 2, 3), (3, 5, 1)):
            probe.agree(subject, *gru_inputs(probe.rng, b, c, n), why=f"B = {b}, C = {c}, N = {n}")


def gru_awkward(subject: Subject, probe: Probe) -> None:
    """Huge sums, whole numbers, float32, views; and the arguments stay as they were.

    The reset gate is open, so that it does not matter where it acts.
    """
    inputs = gru_inputs(probe.rng, 2, 4, 3)
    x, h, w_x, w_h, b_x, b_h = inputs
    b_x[:3] = WIDE
    wide = np.concatenate([np.full(3, 1000.0), huge((6,))])
    probe.agree(subject, x, h, w_x, w_h, wide, b_h, why="sums near ±1000")
    one_hot = np.eye(4, dtype=int)[probe.rng.permutation(4)[:2]]
    start = np.zeros((2, 3), dtype=int)
    probe.agree(subject, one_hot, start, w_x, w_h, b_x, b_h, why="whole numbers")
    small = [a.astype(np.float32) for a in inputs]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, *inputs)


GRU = (
    Property("a hand-worked example: gates 1/2 and 1/4 → 0.575", 1, gru_worked),
    Property("update gate 1 keeps the state", 1, gru_keeps),
    Property("update gate 0 replaces it by the candidate", 1, gru_replaces),
    Property("the reset gate mutes what comes from the state", 1, gru_reset),
    Property("it does so after the product and the bias, number by number", 1, gru_placed),
    Property("any batch, input and state size", 1, gru_sizes),
    Property("huge sums, integers, views; arguments stay as they were", 1, gru_awkward),
)


def gru_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, huge sums of both signs."""
    x, h, w_x, w_h, b_x, b_h = gru_inputs(rng, 2, 3, 5)
    return [
        Call((x, h, w_x, w_h, b_x, b_h)),
        Call(gru_inputs(rng, 4, 4, 4)),
        Call(gru_inputs(rng, 1, 2, 3)),
        Call((x, h, w_x, w_h, huge(b_x.shape), b_h)),
    ]
