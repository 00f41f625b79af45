"""Exercise 01_recurrence/bptt: what must hold, how it goes wrong, other ways to write it.

The oracle is a numerical derivative of a recurrence written here, not our formulas.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from attend_solutions import recurrence
from attend_solutions.types import Array

from attend_grader.chapters.ch01_recurrence.shared import (
    PROMISES,
    all_states,
    rotation,
    sequence_inputs,
)
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked
from attend_grader.checks.properties import NUMERICAL, derivative, expect_growth, normal
from attend_grader.checks.sizes import ANY
from attend_grader.checks.subject import Subject

RESULTS = ("grad_x", "grad_h0", "grad_w_x", "grad_w_h", "grad_b")
"""In the order of what they are the gradients of in rnn_forward."""


def problem(
    rng: np.random.Generator, b: int, t: int, c: int, n: int
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Arguments for rnn_forward, and for bptt."""
    x, h0, w_x, w_h, bias = sequence_inputs(rng, b, t, c, n)
    states = all_states(x, h0, w_x, w_h, bias)
    return (x, h0, w_x, w_h, bias), (x, h0, states, w_x, w_h, normal(rng, b, t, n))


def numerical(position: int, result: str) -> Property:
    """One result against a numerical derivative."""

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, 3):
            for sizes in ((2, 3, 2, 3), (3, 3, 3, 3), (1, 2, 3, 1)):
                forward, arguments = problem(probe.rng, *sizes)

                def loss(
                    moved: Array,
                    forward: tuple[Array, ...] = forward,
                    grad_states: Array = arguments[-1],
                ) -> Array:
                    inputs = (moved if i == position else a for i, a in enumerate(forward))
                    return (all_states(*inputs) * grad_states).sum()

                want = list(probe.reference(*arguments))
                want[position] = derivative(loss, forward[position])
                probe.agree(
                    subject,
                    *arguments,
                    want=tuple(want),
                    part=position,
                    tolerance=NUMERICAL,
                    why="compared with a numerical derivative of the recurrence",
                )

    return Property(f"{result} agrees with a numerical derivative", 1, test)


def _one_step(rng: np.random.Generator) -> Fresh:
    yield "sequences of one step", Call(problem(rng, 2, 1, 3, 4)[1])


def saturated(rng: np.random.Generator) -> Fresh:
    """Some states are 1 or −1, and their gradients are large."""
    x, h0, states, w_x, w_h, grad_states = problem(rng, 2, 4, 3, 4)[1]
    states[:, ::2, :2] = np.sign(states[:, ::2, :2])
    grad_states[:, ::2, :2] *= 1e6
    why = "some states are 1 or −1: their slope is 0, so the large gradient there goes nowhere"
    yield why, Call((x, h0, states, w_x, w_h, grad_states))
    x, h0, states, w_x, w_h, grad_states = problem(rng, 2, 5, 3, 4)[1]
    states[:, 2] = np.sign(states[:, 2])
    grad_states[:, 2] *= 1e12
    why = "all states of one step are 1 or −1: nothing gets past it, and the steps before count"
    yield why, Call((x, h0, states, w_x, w_h, grad_states))


def _direction(rng: np.random.Generator) -> Fresh:
    *inputs, grad_states = problem(rng, 2, 5, 4, 3)[1]
    for step, what in ((-1, "the last state only"), (0, "the first state only, which no later")):
        one = np.zeros_like(grad_states)
        one[:, step] = grad_states[:, step]
        yield f"the loss looks at {what}{'' if step else ' input can change'}", Call((*inputs, one))
    x, h0, states, w_x, _, last = problem(rng, 1, 40, 2, 3)[1]
    last[:, :-1] = 0.0
    turn = rotation(rng, 3)  # keeps the gradient's length, so that nothing fades
    why = "40 steps, nearly all states 0, W_h a rotation: the way back has no end but h0"
    yield why, Call((x, h0, 0.1 * states, w_x, turn, last))
    yield from saturated(rng)
    states, last = np.zeros((1, 40, 1)), np.zeros((1, 40, 1))
    states[0, -1], last[0, -1] = 1 - 1e-13, 1.0
    why = "what comes back is tiny at first, and grows by 3 a step"
    one, three = np.ones((1, 1)), np.full((1, 1), 3.0)
    yield why, Call((np.ones((1, 40, 1)), 0 * one, states, one, three, last))
    ones = np.ones((1, 9, 1), int)
    why = "integers, what comes back grows by 1,000 a step"
    yield why, Call((ones, ones[:, 0], 0 * ones, ones[0, :1], np.full((1, 1), 1000), ones))


def _cost(subject: Subject, probe: Probe) -> None:
    """From 8 to 64 steps in time, Python's operations may grow 8-fold, not 64-fold."""
    why = "cost counts for right values only"
    probe.agree(subject, *problem(probe.rng, 2, 4, 2, 3)[1], part=0, why=why)
    state = int(probe.rng.integers(2**31))

    def long(steps: int) -> tuple[Array, ...]:
        return problem(np.random.default_rng(state), 1, steps, 2, 2)[1]

    def first_only(steps: int) -> tuple[Array, ...]:
        *inputs, grad_states = long(steps)
        return *inputs, np.where(np.arange(steps)[:, None] == 0, grad_states, 0.0)

    for arguments in (long, first_only):
        expect_growth(
            subject,
            arguments,
            sizes=(8, 64),
            at_most=14,
            cost="steps",
            of="steps in time",
            advice="Walk back once, from the last step to the first: what comes back to a step "
            "from all later ones together is one array, and each step passes it on.",
        )


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, one step, large gradients."""
    sizes = ((2, 4, 3, 5), (3, 3, 3, 3), (1, 5, 2, 3), (2, 1, 2, 2))
    *inputs, grad_states = problem(rng, 2, 3, 2, 4)[1]
    large = Call((*inputs, 1e4 * grad_states))
    return [*(Call(problem(rng, *each)[1]) for each in sizes), large]


def wide(rng: np.random.Generator) -> list[Call]:
    """Many steps, and a wide state."""
    return [Call(problem(rng, *each)[1]) for each in ((1, 600, 2, 3), (2, 3, 2, 67))]


SLOPE = " * (1 - states[:, t] ** 2)"
TOTAL = "(grad_states[:, t] + carried)"

SLIPS = (
    Slip(
        "nothing comes back from later steps",
        (" + carried", ""),
        "Each step answers for its own state only. The state at t also feeds step t + 1: its "
        "gradient should be grad_states[:, t] plus what that step hands back.",
    ),
    Slip(
        "forgot tanh's slope",
        (SLOPE, ""),
        "tanh is left out on the way back. The derivative of tanh is 1 − tanh², and tanh is the "
        "state itself: multiply by 1 − states[:, t]**2.",
    ),
    Slip(
        "slope on what comes back only",
        (f"{TOTAL}{SLOPE}", f"grad_states[:, t] + carried{SLOPE}"),
        "Only what comes back from later steps is multiplied by tanh's slope, the direct part is "
        "not, as when brackets are missing. Add the two first, then multiply by "
        "1 − states[:, t]**2.",
    ),
    Slip(
        "slope on the direct part only",
        (f"{TOTAL}{SLOPE}", f"grad_states[:, t]{SLOPE} + carried"),
        "Only grad_states is multiplied by tanh's slope; what comes back from later steps is not. "
        "Both reach the sums through the same tanh: add them first, then multiply.",
    ),
    Slip(
        "slope (1 − h)²",
        ("1 - states[:, t] ** 2", "(1 - states[:, t]) ** 2"),
        "The slope is (1 − h)², with the square around the bracket. Only h should be squared: "
        "1 − states[:, t]**2.",
    ),
    Slip(
        "tanh once more in the slope",
        ("states[:, t] ** 2", "np.tanh(states[:, t]) ** 2"),
        "The slope is taken as 1 − tanh²(h), but the states are tanh of the sums already: take "
        "1 − states[:, t]**2.",
    ),
    Slip(
        "new state instead of old in grad_w_h",
        ("before.T", "states[:, t].T"),
        "grad_w_h pairs each step with the state it made. w_h was multiplied by the state before "
        "the step: states[:, t - 1], and h0 for the first.",
    ),
    Slip(
        "the loss at the last step only",
        ("grad_states[:, t] +", "(grad_states[:, t] if t == states.shape[1] - 1 else 0) +"),
        "Of grad_states you use the last step only. The loss may look at every state: at each step "
        "add grad_states[:, t] to what comes back.",
    ),
    Slip(
        "index −1 at the first step",
        (" if t > 0 else h0", ""),
        "At the first step, grad_w_h takes the last state for the one before it, as "
        "states[:, t - 1] gives where t is 0. Take h0 there.",
    ),
    Slip(
        "= instead of += for the weights",
        (("w_x +=", "w_x ="), ("w_h +=", "w_h ="), ("b +=", "b =")),
        "The weights' gradients hold one step only, as when `=` stands where `+=` belongs. The "
        "same weights serve every step: add up over all of them.",
    ),
)


def sums_kept(x, h0, states, w_x, w_h, grad_states):
    """Only the sums' gradients step by step; einsum for the rest."""
    grad_sums, carried = np.empty(states.shape), np.zeros(h0.shape)
    for t in range(states.shape[1] - 1, -1, -1):
        grad_sums[:, t] = (grad_states[:, t] + carried) * (1 - states[:, t] ** 2)
        carried = grad_sums[:, t] @ w_h.T
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.einsum("btc,btn->cn", x, grad_sums)
    grad_w_h = np.einsum("btm,btn->mn", before, grad_sums)
    return [grad_sums @ w_x.T, carried, grad_w_x, grad_w_h, grad_sums.sum(axis=(0, 1))]


def by_sequences(x, h0, states, w_x, w_h, grad_states):
    """One sequence at a time, with outer products."""
    grad_x, grad_h0 = np.zeros(x.shape), np.zeros(h0.shape)
    grad_w_x, grad_w_h = np.zeros(w_x.shape), np.zeros(w_h.shape)
    grad_b = np.zeros(len(w_h))
    for row in range(len(x)):
        back = np.zeros(len(w_h))
        for t in reversed(range(x.shape[1])):
            h = states[row, t]
            back = (back + grad_states[row, t]) * (1 - h) * (1 + h)
            grad_x[row, t] = w_x @ back
            grad_w_x += np.outer(x[row, t], back)
            grad_w_h += np.outer(states[row, t - 1] if t else h0[row], back)
            grad_b += back
            back = w_h @ back
        grad_h0[row] = back
    return grad_x, grad_h0, grad_w_x, grad_w_h, grad_b


EXERCISE = Exercise(
    chapter="01_recurrence",
    title="Back through time",
    goal="Carry a gradient back through every step, to the weights, the inputs and the start.",
    reference=recurrence.bptt,
    contract=replace(
        PROMISES,
        ranges={"grad_states": ANY},
        says=("Python operations grow with T, not with its square.",),
    ),
    properties=(
        worked(
            "a hand-worked example: two steps of one number",
            *map(np.array, ([[[3.0], [5.0]]], [[-1.0]], [[[0.5], [0.0]]])),
            *map(np.array, ([[3.0]], [[2.0]], [[[4.0], [2.0]]])),
            want=(
                np.array([[[18.0], [6.0]]]),  # 6 · 3, 2 · 3
                np.array([[12.0]]),  # 6 · 2
                np.array([[28.0]]),  # 3·6 + 5·2
                np.array([[-5.0]]),  # −1·6 + 0.5·2
                np.array([8.0]),  # 6 + 2
            ),
            why="the sums get 2 · 1 at the last step and (4 + 2 · 2) · 0.75 = 6 at the first",
        ),
        agrees("one step only", _one_step, repeat=1),
        *(numerical(position, result) for position, result in enumerate(RESULTS)),
        agrees(
            "a loss reaches earlier inputs, not later ones, and not through a slope of 0",
            _direction,
            part=0,
        ),
        Property("walks back once: Python operations grow with T, not with its square", 1, _cost),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    related=True,
    alternatives=(sums_kept, by_sequences),
    hints=(
        "In what two ways does the loss depend on the state at step t? One way is given to you in "
        "grad_states. The other is known only after step t + 1 has been worked on.",
        "Walk from the last step to the first with one array in hand, `carried` of shape (B, N), "
        "zeros at the beginning: what comes back from later steps. At each step add "
        "grad_states[:, t], multiply by tanh's slope 1 − h², and you have the gradient of the sums "
        "a_t. All five results follow from it, as in the table.",
        "With da for the gradient of the sums at step t: grad_x[:, t] is da @ w_x.T; to grad_w_x "
        "add x[:, t].T @ da; to grad_w_h add the state before, transposed, @ da (that is "
        "states[:, t - 1], but h0 where t is 0); to grad_b add da summed over axis 0; and carried "
        "becomes da @ w_h.T. After the loop, carried is grad_h0.",
    ),
    minutes=25,
    difficulty=4,
    importance=5,
    results=RESULTS,
)
