"""Chapter 01, backwards: what must hold of back-propagation through time and of ∂h_T/∂h_t.

The oracle for both is a numerical derivative of a recurrence written here, not our formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.chapters.ch01_recurrence.props_forward import sequence_inputs, weights
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import (
    NUMERICAL,
    agree_untouched,
    derivative,
    expect_growth,
    normal,
)
from attend_grader.checks.subject import Subject


def _states(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    """All states (B, T, N) of real or complex inputs."""
    found = []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ w_x + h @ w_h + b)
        found.append(h)
    return np.stack(found, axis=1)


def _rotation(rng: np.random.Generator, n: int) -> Array:
    rotation, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return rotation


# bptt

POSITIONS = {"grad_x": 0, "grad_h0": 1, "grad_w_x": 2, "grad_w_h": 3, "grad_b": 4}
"""Result → its place, which is also that of what it is the gradient of in rnn_forward."""


def _problem(
    rng: np.random.Generator, b: int, t: int, c: int, n: int
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Arguments for rnn_forward, and for bptt."""
    forward = sequence_inputs(rng, b, t, c, n)
    return forward, _arguments(forward, normal(rng, b, t, n))


def _arguments(forward: tuple[Array, ...], grad_states: Array) -> tuple[Array, ...]:
    x, h0, w_x, w_h, b = forward
    return x, h0, _states(x, h0, w_x, w_h, b), w_x, w_h, grad_states


def bptt_worked(subject: Subject, probe: Probe) -> None:
    """Two steps of one number: states 0.5 and 0, so the slopes are 0.75 and 1."""
    x, h0 = np.array([[[3.0], [5.0]]]), np.array([[-1.0]])
    states = np.array([[[0.5], [0.0]]])
    w_x, w_h = np.array([[3.0]]), np.array([[2.0]])
    grad_states = np.array([[[4.0], [2.0]]])
    want = (
        np.array([[[18.0], [6.0]]]),  # 6 · 3, 2 · 3
        np.array([[12.0]]),  # 6 · 2
        np.array([[28.0]]),  # 3·6 + 5·2
        np.array([[-5.0]]),  # −1·6 + 0.5·2
        np.array([8.0]),  # 6 + 2
    )
    why = "the sums get 2 · 1 at the last step and (4 + 2 · 2) · 0.75 = 6 at the first"
    probe.agree(subject, x, h0, states, w_x, w_h, grad_states, want=want, why=why)


def _numerical(name: str) -> Callable[[Subject, Probe], None]:
    """A test of the gradient called ``name`` against a numerical derivative."""
    position = POSITIONS[name]

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, 3):
            for b, t, c, n in ((2, 3, 2, 3), (3, 3, 3, 3)):
                forward, arguments = _problem(probe.rng, b, t, c, n)

                def loss(
                    moved: Array,
                    forward: tuple[Array, ...] = forward,
                    grad_states: Array = arguments[-1],
                ) -> Array:
                    inputs = (moved if i == position else a for i, a in enumerate(forward))
                    return (_states(*inputs) * grad_states).sum()

                want: list[Any] = list(probe.reference(*arguments))
                want[position] = derivative(loss, forward[position])
                why = "compared with a numerical derivative of the recurrence"
                probe.agree(
                    subject,
                    *arguments,
                    want=tuple(want),
                    part=position,
                    tolerance=NUMERICAL,
                    why=why,
                )

    return test


def bptt_one_step(subject: Subject, probe: Probe) -> None:
    """One step: nothing comes back from later ones, and the state before it is h0."""
    _, arguments = _problem(probe.rng, 2, 1, 3, 4)
    probe.agree(subject, *arguments, why="sequences of one step")


def bptt_direction(subject: Subject, probe: Probe) -> None:
    """A loss at one step reaches every earlier input, and no later one."""
    (x, h0, states, w_x, w_h, grad_states) = _problem(probe.rng, 2, 5, 3, 3)[1]
    only_last, only_first = np.zeros_like(states), np.zeros_like(states)
    only_last[:, -1], only_first[:, 0] = grad_states[:, -1], grad_states[:, 0]
    why = "the loss looks at the last state only"
    probe.agree(subject, x, h0, states, w_x, w_h, only_last, part=0, why=why)

    def clue(grad_x: Array) -> str:
        if np.any(grad_x[:, 1:]):
            return "Later inputs cannot change the first state: their gradient is 0."
        return ""

    why = "the loss looks at the first state only"
    probe.agree(subject, x, h0, states, w_x, w_h, only_first, part=0, why=why, clue=clue)
    batch, steps, width = 1, 40, 3
    x, h0, states, w_x, _, grad_states = _problem(probe.rng, batch, steps, 2, width)[1]
    only_last = np.zeros_like(states)
    only_last[:, -1] = grad_states[:, -1]
    turn = _rotation(probe.rng, width)  # keeps the gradient's length, so that nothing fades
    why = f"{steps} steps, nearly all states 0, W_h a rotation: the way back has no end but h0"
    probe.agree(subject, x, h0, 0.1 * states, w_x, turn, only_last, part=0, why=why)


def bptt_batch(subject: Subject, probe: Probe) -> None:
    """Sequences do not mix; the weights' gradients (the learner's own) add up over them."""
    x, h0, states, w_x, w_h, grad_states = _problem(probe.rng, 3, 4, 2, 3)[1]
    arguments = (x, h0, states, w_x, w_h, grad_states)
    whole = probe.call(subject, *arguments).value
    if not isinstance(whole, (tuple, list)) or [np.shape(a) for a in whole] != [
        np.shape(a) for a in probe.reference(*arguments)
    ]:
        probe.agree(subject, *arguments)
    rows = [slice(0, 1), slice(1, 3)]
    parts = [(x[r], h0[r], states[r], w_x, w_h, grad_states[r]) for r in rows]
    for row, part in zip(rows, parts, strict=True):
        alone = probe.reference(*part)
        why = f"{row.stop - row.start} of the 3 sequences alone"
        want = (whole[0][row], whole[1][row], *alone[2:])
        probe.agree(subject, *part, want=want, part=0, why=why)
        probe.agree(subject, *part, want=want, part=1, why=why)
    twice = tuple(np.concatenate([a, a]) if a.ndim == 3 or a is h0 else a for a in arguments)
    for place in (2, 3, 4):
        want = list(probe.reference(*twice))
        want[place] = 2 * whole[place]
        why = "every sequence twice in the batch, so twice your gradient of the weights"
        probe.agree(subject, *twice, want=tuple(want), part=place, why=why)


def bptt_awkward(subject: Subject, probe: Probe) -> None:
    """Whole numbers, float32, views; and the arguments stay as they were."""
    forward, arguments = _problem(probe.rng, 2, 3, 4, 3)
    one_hot = np.eye(4, dtype=int)[probe.rng.integers(0, 4, (2, 3))]
    whole = _arguments((one_hot, np.zeros((2, 3), dtype=int), *forward[2:]), arguments[-1])
    probe.agree(subject, *whole, why="whole numbers as inputs and as h0")
    small = [a.astype(np.float32) for a in arguments]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, *arguments)


def bptt_cost(subject: Subject, probe: Probe) -> None:
    """From 8 to 64 steps, the work may grow 8-fold, not 64-fold."""
    why = "cost counts for right values only"
    arguments = _problem(probe.rng, 2, 4, 2, 2)[1]
    probe.agree(subject, *arguments, part=0, why=why)
    state = int(probe.rng.integers(2**31))

    def make(steps: int) -> tuple[Array, ...]:
        return _problem(np.random.default_rng(state), 1, steps, 2, 2)[1]

    advice = (
        "Walk back once, from the last step to the first: what comes back to a step from all "
        "later ones together is one array, and each step passes it on."
    )
    expect_growth(
        subject, make, sizes=(8, 64), at_most=14, cost="steps", of="steps in time", advice=advice
    )


BPTT = (
    Property("a hand-worked example: two steps of one number", 1, bptt_worked),
    Property("one step only", 1, bptt_one_step),
    *(
        Property(f"{name} agrees with a numerical derivative", 1, _numerical(name))
        for name in POSITIONS
    ),
    Property("a loss at one step reaches earlier inputs, not later ones", 1, bptt_direction),
    Property("sequences do not mix; gradients of weights add up over them", 1, bptt_batch),
    Property("integers, float32, views; arguments stay as they were", 1, bptt_awkward),
    Property("walks back once: work grows with T, not with its square", 1, bptt_cost),
)


def bptt_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, one step, a longer sequence."""
    return [Call(_problem(rng, *sizes)[1]) for sizes in _DRAWN]


_DRAWN = ((2, 4, 3, 5), (3, 3, 3, 3), (1, 5, 2, 3), (2, 1, 2, 2))


# gradient_norms


def norms_worked(subject: Subject, probe: Probe) -> None:
    """One number, W_h = 10, slopes 1, 0.19 and 0.36 on the way from h_1 to h_4."""
    states = np.array([[[0.5], [0.8], [0.9], [0.0]]])
    want = np.array([[68.4, 19.0, 10.0, 1.0]])
    why = "W_h = 10 and tanh's slopes are 0.36, 0.19 and 1"
    probe.agree(subject, states, np.array([[10.0]]), want=want, why=why)


def norms_last(subject: Subject, probe: Probe) -> None:
    """∂h_T/∂h_T is the identity: 1, however large N is."""

    def clue(norms: Array) -> str:
        if np.isclose(norms[0, -1], np.sqrt(8.0)):
            return (
                "√8 is the root of the sum of the squares of both sequences' 4 × 4 identities. "
                "Wanted is one number for each, its largest singular value: "
                "np.linalg.norm(…, ord=2, axis=(1, 2))."
            )
        if np.isclose(norms[0, -1], 2.0):
            return (
                "2 = √4 is the Frobenius norm (the root of the sum of squares) of the 4 × 4 "
                "identity. Wanted is the spectral norm, the largest singular value: ord=2."
            )
        return ""

    states = probe.rng.uniform(-0.9, 0.9, (2, 1, 4)).round(2)
    why = "one step only, and ∂h_T/∂h_T is the identity"
    w_h = weights(probe.rng, 4, 4)
    probe.agree(subject, states, w_h, want=np.ones((2, 1)), why=why, clue=clue)


def norms_powers(subject: Subject, probe: Probe) -> None:
    """A rotation stretched by r, without tanh: exactly r, r², r³, …"""
    for radius in (0.9, 1.0, 1.1):
        want = np.tile(radius ** np.arange(7.0, -1, -1), (2, 1))
        why = f"states of 0 and a rotation times {radius}: every step multiplies by {radius}"
        w_h = radius * _rotation(probe.rng, 3)
        probe.agree(subject, np.zeros((2, 8, 3)), w_h, want=want, why=why)


def norms_product(subject: Subject, probe: Probe) -> None:
    """The norm of the product is not the product of the norms: this W_h forgets in two steps."""
    w_h = np.array([[0.0, 4.0], [0.0, 0.0]])
    want = np.array([[0.0, 0.0, 4.0, 1.0]])
    why = "W_h times W_h is 0, so nothing gets further than one step"
    probe.agree(subject, np.zeros((1, 4, 2)), w_h, want=want, why=why)
    w_h = np.array([[0.5, 6.0], [0.0, 0.5]])
    why = "both eigenvalues of W_h are 1/2, but at first it stretches"
    probe.agree(subject, np.zeros((1, 6, 2)), w_h, why=why)


def norms_slopes(subject: Subject, probe: Probe) -> None:
    """The slope of tanh at state t counts on the way from t−1 to t, not on the way onwards."""
    for step in (0, 1, 2, 3):
        states = np.zeros((1, 4, 1))
        states[0, step] = 0.6
        factors = np.ones(4)
        factors[:step] = 0.64  # 1 − 0.36
        want = (factors * 2.0 ** np.arange(3.0, -1, -1))[None]
        why = f"only the state at index {step} is not 0: it is 0.6, where tanh has the slope 0.64"
        probe.agree(subject, states, np.array([[2.0]]), want=want, why=why)


def norms_numerical(subject: Subject, probe: Probe) -> None:
    """Singular values of a numerical derivative of the recurrence."""
    for _ in probe.repeat(1, 3):
        for t, n in ((4, 3), (3, 4)):
            x, h0, w_x, w_h, b = sequence_inputs(probe.rng, 1, t, 2, n)
            states = _states(x, h0, w_x, w_h, b)
            want = np.ones((1, t))
            for start in range(t - 1):

                def last(
                    h: Array,
                    rest: tuple[Array, ...] = (x[:, start + 1 :], w_x, w_h, b),
                ) -> Array:
                    return _states(rest[0], h, *rest[1:])[0, -1]

                jacobian = derivative(last, states[:, start])[:, 0]
                want[0, start] = np.linalg.svd(jacobian, compute_uv=False)[0]
            why = "compared with a numerical derivative of the recurrence"
            probe.agree(subject, states, w_h, want=want, tolerance=NUMERICAL, why=why)


def norms_batch(subject: Subject, probe: Probe) -> None:
    """Each sequence has its own states, and so its own norms (N = 1: the norm is the size)."""
    for b, t in ((3, 4), (3, 3), (2, 5)):
        states = probe.rng.uniform(-0.9, 0.9, (b, t, 1)).round(2)
        why = f"B = {b}, T = {t}, N = 1"
        probe.agree(subject, states, np.array([[-1.5]]), why=why)


def norms_awkward(subject: Subject, probe: Probe) -> None:
    """float32, views; and the arguments stay as they were (N = 1: the norm is the size)."""
    states = probe.rng.uniform(-0.9, 0.9, (2, 4, 1)).round(2)
    w_h = np.array([[1.5]])
    small = states.astype(np.float32), w_h.astype(np.float32)
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, states, w_h)


NORMS = (
    Property("a hand-worked example: one number, 68.4, 19, 10, 1", 1, norms_worked),
    Property("the last one is 1, for any state size", 1, norms_last),
    Property("a stretched rotation without tanh gives powers", 1, norms_powers),
    Property("the norm of the product, not a product of norms", 1, norms_product),
    Property("each slope of tanh counts once, at its own step", 1, norms_slopes),
    Property("agrees with a numerical derivative", 1, norms_numerical),
    Property("each sequence has norms of its own", 1, norms_batch),
    Property("float32, views; arguments stay as they were", 1, norms_awkward),
)


def norms_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one step, without tanh."""

    def states(*shape: int) -> Array:
        return rng.uniform(-0.9, 0.9, shape).round(2)

    return [
        Call((states(2, 5, 4), weights(rng, 4, 4))),
        Call((states(3, 3, 3), weights(rng, 3, 3))),
        Call((states(1, 1, 2), weights(rng, 2, 2))),
        Call((np.zeros((1, 4, 3)), 2 * weights(rng, 3, 3))),
    ]
