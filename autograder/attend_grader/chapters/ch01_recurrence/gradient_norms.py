"""Exercise 01_recurrence/gradient_norms: checks, known slips, other ways to write it.

The oracle is a numerical derivative of a recurrence written here, not our formulas.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from attend_solutions import recurrence
from attend_solutions.recurrence import bptt
from attend_solutions.types import Array

from attend_grader.chapters.ch01_recurrence.shared import (
    PROMISES,
    all_states,
    inside,
    rotation,
    sequence_inputs,
    weights,
)
from attend_grader.checks.compare import told_apart
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.properties import NUMERICAL, derivative
from attend_grader.checks.sizes import ANY
from attend_grader.checks.subject import Subject


def _last(rng: np.random.Generator) -> Known:
    states, w_h = inside(rng, 2, 1, 4), weights(rng, 4, 4)
    yield "one step only, and ∂h_T/∂h_T is the identity", (states, w_h), np.ones((2, 1))


def _powers(subject: Subject, probe: Probe) -> None:
    """Powers of the radius, each held to its own size, from 1e-98 to 1e98; in other types, too."""
    turns = [(r, r * rotation(probe.rng, 3)) for r in (0.9, 1.0, 1.1, 1e-3, 1e-14, 1e14)]
    turn = np.eye(3)[[1, 2, 0]]
    tries = [(radius, np.zeros((2, 8, 3)), w_h, "") for radius, w_h in turns]
    tries.append((1000.0, np.zeros((2, 8, 3), int), 1000 * turn.astype(int), ", all int64"))
    for radius in (2.0**-46, 2.0**46):  # float32 holds these, but not all of their powers
        for one, two, word in (
            ("float32", "float64", "states"),
            ("float64", "float32", "W_h"),
            ("float32", "float32", "all"),
        ):
            kinds = np.zeros((2, 8, 3), one), (radius * turn).astype(two)
            tries.append((radius, *kinds, f", {word} float32"))
    for radius, *arguments, kind in tries:
        want = np.tile(radius ** np.arange(7.0, -1, -1), (2, 1))
        why = f"states of 0 and a rotation times {radius:.3g}{kind}: "
        why += f"every step multiplies by {radius:.3g}"
        clue = LIMITS.get(kind.rpartition(" ")[2], "")
        told = {"want": want, "why": why, "clue": lambda _, clue=clue: clue}
        norms = probe.agree(subject, *arguments, **told).value
        off = np.argwhere(np.abs(norms - want) > 1e-6 * want)
        if off.size:
            at = tuple(off[-1])
            mine, right = told_apart(norms[at], want[at])
            said = f"{why}: result{[*map(int, at)]} is {mine}, expected {right}. "
            advice = (
                clue
                or "A gradient may vanish: leave small norms as they are, and do not square them."
            )
            raise probe.miss(said + advice, *arguments)


LIMITS = {
    "int64": "int64 holds numbers up to 9.2e18 only.",
    "float32": "float32 holds numbers from 1e-45 to 3.4e38 only.",
}


def _from_anywhere(rng: np.random.Generator) -> Known:
    """W_h takes a usual start of a power iteration to 0, and the direction across to 3 u."""
    for start in ([1.0, 1.0], [1.0, 2.0], [1.0, -1.0], [1.0, 0.0], [0.0, 1.0]):
        one, two = np.array(start) / np.linalg.norm(start)
        u = rotation(rng, 2)[0]
        w_h = 3 * np.outer(u, [-two, one])
        why = f"w_h @ {start} is 0"
        yield why, (np.zeros((1, 2, 2)), w_h), np.array([[3.0, 1.0]])


def _product(rng: np.random.Generator) -> Known:
    yield from _from_anywhere(rng)
    size = round(rng.uniform(2, 5), 1)
    for w_h, radius, why in (
        (size / 2 * np.array([[1.0, -1.0], [-1.0, 1.0]]), size, "w_h @ equal numbers is 0"),
        (np.diag([0.5, -size]), size, "W_h stretches the second number most"),
        (np.diag([-size, 0.5]), size, "W_h stretches the first number most"),
    ):
        yield why, (np.zeros((1, 4, 2)), w_h), radius ** np.arange(3.0, -1, -1)[None]
    want = np.array([[0.0, 0.0, size, 1.0]])
    why = "W_h times W_h is 0, so nothing gets further than one step"
    yield why, (np.zeros((1, 4, 2)), np.array([[0.0, size], [0.0, 0.0]])), want
    near = np.array([[1.0, 1.0]])
    yield (
        "two lengths that are nearly the same",
        (np.zeros((1, 2, 2)), np.diag([1.0, 0.99999])),
        near,
    )
    across = 1000 * np.outer([0.3, 0.7], [0.7, -0.3])
    yield (
        f"{why}, and its numbers are large",
        (np.zeros((1, 3, 2)), across),
        np.array([[0.0, 580.0, 1.0]]),
    )
    back = np.arange(5, -1, -1)
    powers = (np.array([[0.5**k, k * 6.0 * 0.5 ** (k - 1)], [0.0, 0.5**k]]) for k in back)
    want = np.array([[np.linalg.svd(power, compute_uv=False)[0] for power in powers]])
    why = "both eigenvalues of W_h are 1/2, but at first it stretches"
    yield why, (np.zeros((1, 6, 2)), np.array([[0.5, 6.0], [0.0, 0.5]])), want


def _slopes(rng: np.random.Generator) -> Known:
    turn = 2.0 * rotation(rng, 3)
    for step in (0, 1, 2, 3):
        states = np.zeros((1, 4, 3))
        states[0, step] = 0.6
        factors = np.ones(4)
        factors[:step] = 0.64  # 1 − 0.36
        want = (factors * 2.0 ** np.arange(3.0, -1, -1))[None]
        why = f"only the state at index {step} is not 0: it is 0.6, where tanh has the slope 0.64"
        yield why, (states, turn), want
    states = np.zeros((1, 4, 3))
    states[0, 2] = 1.0, -1.0, 1.0
    why = "the state at index 2 is all 1 and −1, where tanh has the slope 0: nothing gets past it"
    yield why, (states, 1e6 * turn), np.array([[0.0, 0.0, 2e6, 1.0]])


def _numerical(subject: Subject, probe: Probe) -> None:
    """Singular values of a numerical derivative of the recurrence, sequence by sequence."""
    for _ in probe.repeat(1, 3):
        for b, t, n in ((2, 4, 3), (3, 3, 3), (1, 3, 4), (4, 2, 1)):
            x, h0, w_x, w_h, bias = sequence_inputs(probe.rng, b, t, 2, n)
            states = all_states(x, h0, w_x, w_h, bias)
            want = np.ones((b, t))
            for row, start in np.ndindex(b, t - 1):
                ahead = x[row : row + 1, start + 1 :]

                def last(h: Array, ahead: Array = ahead, rest: tuple = (w_x, w_h, bias)) -> Array:
                    return all_states(ahead, h, *rest)[0, -1]

                jacobian = derivative(last, states[row : row + 1, start])[:, 0]
                want[row, start] = np.linalg.svd(jacobian, compute_uv=False)[0]
            why = f"compared with a numerical derivative of the recurrence (B = {b})"
            probe.agree(subject, states, w_h, want=want, tolerance=NUMERICAL, why=why)


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, sizes alike, one step, one number, without tanh, one text at rest or
    almost, W_h symmetric.
    """
    shapes = ((2, 5, 4), (3, 3, 3), (1, 1, 2), (2, 4, 1))
    made = [(inside(rng, b, t, n), 1.5 * weights(rng, n, n)) for b, t, n in shapes]
    plain = Call((np.zeros((1, 4, 3)), 2 * weights(rng, 3, 3)))
    some, one = inside(rng, 2, 3, 3), weights(rng, 3, 3)
    at_rest = Call((some * [[[0]], [[1]]], 1.5 * weights(rng, 3, 3)))
    alike = np.full((1, 60, 1), 0.9) + 5e-6 * (rng.random((1, 60, 1)) < 0.5)
    near = Call((alike, np.array([[5.0]])))
    return [*map(Call, made), plain, at_rest, near, Call((some, one + one.T))]


def wide(rng: np.random.Generator) -> list[Call]:
    """Many steps whose norms stay near 1, and a wide state."""
    many = 0.1 * inside(rng, 1, 150, 3), 1.01 * rotation(rng, 3)
    return [Call(many), Call((inside(rng, 2, 3, 67), 0.2 * weights(rng, 67, 67)))]


NORM = "np.linalg.norm(jacobian, ord=2, axis=(1, 2))"
STEP = "(jacobian * slopes[:, None]) @ w_h.T"
SINGLE = "(np.eye(width) * slopes[:, None]) @ w_h.T"

SLIPS = (
    Slip(
        "Frobenius norm",
        ("ord=2, ", ""),
        "Your numbers are Frobenius norms: the root of the sum of all squared entries, NumPy's "
        "default for a matrix. Wanted is the largest singular value: ord=2.",
    ),
    Slip(
        "product of norms, not norm of the product",
        (STEP, f"jacobian * np.linalg.norm({SINGLE}, ord=2, axis=(1, 2), keepdims=True)"),
        "The norms of the single steps are multiplied. That is an upper bound: what one step "
        "stretches most, the next may shrink. Multiply the matrices, then take the norm.",
    ),
    Slip(
        "largest eigenvalue, not singular value",
        (NORM, "np.abs(np.linalg.eigvals(jacobian)).max(axis=-1)"),
        "Your numbers are the largest absolute eigenvalue of the product. A matrix can stretch a "
        "vector by more than that: take the largest singular value, np.linalg.norm(…, ord=2).",
    ),
    Slip(
        "forgot tanh's slopes",
        (" * slopes[:, None]", ""),
        "The slopes of tanh are missing: these are norms of powers of w_h. Multiply by 1 − h² at "
        "each step, too; the states tell you h.",
    ),
    Slip(
        "Frobenius norm of all but the last",
        (NORM, "np.linalg.norm(jacobian, axis=(1, 2)) if t < steps - 1 else 1.0"),
        "Your numbers but the last, which is 1, are Frobenius norms, NumPy's default for a "
        "matrix. Wanted is the largest singular value: ord=2.",
    ),
    Slip(
        "weights before slopes",
        (STEP, "(jacobian @ w_h.T) * slopes[:, None]"),
        "Slopes and weights come in the wrong order: going back, you meet tanh first and W_h after "
        "it. Multiply the columns by 1 − h², and only then by w_h.T.",
    ),
    Slip(
        "the product in the other order",
        (STEP, f"({SINGLE}) @ jacobian"),
        "The product is in the wrong order: each earlier step is put in front of the later ones. "
        "∂h_T/∂h_t should begin on its left with the last step: write J @ the earlier one.",
    ),
    Slip(
        "slopes on the rows",
        ("slopes[:, None]", "slopes[:, :, None]"),
        "The slopes multiply the rows of what came so far; a row belongs to a number of h_T. They "
        "belong to the columns, the numbers of h_t: slopes[:, None, :].",
    ),
    Slip(
        "single steps only",
        ("(jacobian * slopes", "(np.eye(width) * slopes"),
        "Each of your numbers but the last is the norm of one step alone. From h_t to h_T there "
        "are T − t steps: multiply their matrices.",
    ),
)


def by_svd(states, w_h):
    """One sequence at a time; Jacobians as diagonal matrices; largest singular value by SVD."""
    norms = np.ones(states.shape[:2])
    for row, sequence in enumerate(states):
        product = np.eye(len(w_h))
        for t in range(len(sequence) - 1, 0, -1):
            product = product @ np.diag(1 - sequence[t] ** 2) @ w_h.T
            norms[row, t - 1] = np.linalg.svd(product, compute_uv=False)[0]
    return norms


def through_bptt(states, w_h):
    """Sends every unit vector back with bptt; its grad_h0 is a row of the Jacobian."""
    batch, steps, width = states.shape
    norms = np.ones((batch, steps))
    nothing, identity = np.zeros((width, steps, 1)), np.eye(width)
    for row, start in np.ndindex(batch, steps - 1):
        ahead = np.repeat(states[row : row + 1, start + 1 :], width, axis=0)
        grads = np.zeros_like(ahead)
        grads[:, -1] = identity
        x = nothing[:, start + 1 :]
        rows = bptt(x, np.zeros((width, width)), ahead, np.zeros((1, width)), w_h, grads)[1]
        norms[row, start] = np.sqrt(np.linalg.eigvalsh(rows @ rows.T)[-1])
    return norms


EXERCISE = Exercise(
    chapter="01_recurrence",
    title="How far a gradient reaches",
    goal="Measure how strongly the last state depends on each state before it.",
    reference=recurrence.gradient_norms,
    contract=replace(
        PROMISES,
        ranges={"w_h": ANY},
        says=("Norms may be as small as 1e-100 or as large as 1e100.",),
    ),
    properties=(
        worked(
            "a hand-worked example: one number, 68.4, 19, 10, 1",
            np.array([[[0.5], [0.8], [0.9], [0.0]]]),
            np.array([[10.0]]),
            want=np.array([[68.4, 19.0, 10.0, 1.0]]),
            why="W_h = 10 and tanh's slopes are 0.36, 0.19 and 1",
        ),
        known("the last one is 1, for any state size", _last),
        Property("a stretched rotation without tanh gives powers", 1, _powers),
        known("the norm of the product, not a product of norms", _product),
        known("each slope of tanh counts once, at its own step", _slopes),
        Property("agrees with a numerical derivative, in each sequence", 1, _numerical),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    related=True,
    alternatives=(by_svd, through_bptt),
    hints=(
        "Back-propagation takes one vector back through the steps. What would you have to take "
        "back to get the whole matrix ∂h_T/∂h_t, and what is it at t = T?",
        "Start from the identity, one for each sequence: (B, N, N). Walk from the last step to the "
        "first. Note the norm of what you hold, then take it one step back: its columns times the "
        "slopes, then the product with w_h.T.",
        "For t from T − 1 down to 0: norms[:, t] = np.linalg.norm(jacobian, ord=2, axis=(1, 2)); "
        "then multiply jacobian by (1 − states[:, t]**2)[:, None, :] and then, with @, by w_h.T.",
    ),
    minutes=15,
    difficulty=3,
    importance=4,
)
