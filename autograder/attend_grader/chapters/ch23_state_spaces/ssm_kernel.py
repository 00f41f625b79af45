"""Exercise 23_state_spaces/ssm_kernel: what an input is worth, j tokens later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import state_spaces as answers
from attend_solutions.state_spaces import expect_system

from attend_grader.chapters.ch23_state_spaces.shared import (
    CIRCLE,
    DIPS,
    INT64,
    LINE,
    PEAKS,
    TURN,
    changing,
    lasting,
    system,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.sizes import AS_DRAWN

SIZES = ((3, 5), (2, 7), (4, 4), (1, 3), (3, 1))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for size, length in SIZES:
        yield f"N = {size}, {length} taps", Call((*system(rng, size), length))
    a_bar, _, c = system(rng, 2)
    yield "a b̄ whose sum is 0", Call((a_bar, np.array([1.0, -1.0]), c, 5))
    length = int(rng.integers(150, 300))
    yield f"N = 2, {length} taps", Call((*lasting(rng), length))


def _impulse(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """The kernel is the answer of the recurrence to 1, 0, 0, …"""
    a_bar, b_bar, c = system(rng, 3)
    y, _ = answers.ssm_recurrent(a_bar, b_bar, c, np.eye(1, 6)[0])
    yield "the recurrence's answer to 1, 0, 0, …", (a_bar, b_bar, c, 6), y
    rates, b_bar, c = normal(rng, 3) / 2, normal(rng, 3), normal(rng, 3)
    taps = (c * b_bar * rates ** np.arange(6.0)[:, None]).sum(axis=1)
    yield "a diagonal Ā: a sum of powers", (np.diag(rates), b_bar, c, 6), taps
    tiny, large = 1e-12 * b_bar, 1e12 * c
    yield "b̄ times 1e-12, c times 1e12", (np.diag(rates), tiny, large, 6), taps
    one, j = np.array([[0.5, 1.0], [0.0, 0.5]]), np.arange(6)
    line, (first, *_, last) = np.eye(7, k=-1), np.eye(7)
    yield "a line of 7 that hands on: six taps of 0, then a 1", (line, first, last, 9), np.eye(9)[6]
    turn = np.roll(np.eye(5), 1, axis=0)
    again = np.array([1.0, 0, 0, 0, 0, 1, 0])
    yield "a circle of 5: a 1, four times 0, a 1", (turn, first[:5], first[:5], 7), again
    late = np.eye(2)[1], np.eye(2)[0]
    yield "an Ā with one eigenvector only", (one, *late, 6), j * 0.5 ** np.maximum(j - 1, 0)
    yield from _in_a_line(rng)


def _in_a_line(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """Taps and states that look settled, and are not: N = 44 holds back a change the longest."""
    first, *_, last = np.eye(44)
    for what, c in changing(rng, 43, 1):
        yield f"a line of 44, taps of {what}", (LINE, first, c, 50), np.append(c, np.zeros(6))
    turns = np.eye(1, 100, 43)[0] + np.eye(1, 100, 87)[0]
    yield "a circle of 44: a 1 at places 43 and 87", (CIRCLE, first, last, 100), turns
    first, *_, last = np.eye(9)
    yield "a state that shrinks to 1e-48 and grows again", (DIPS, first, last, 9), last
    yield "a state that grows to 1e48 and shrinks again", (PEAKS, first, last, 9), last


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, N = T, one number, one tap; an Ā that has one eigenvector only."""
    made = [Call((*system(rng, size), length)) for size, length in SIZES]
    defective = 0.5 * np.eye(3) + np.eye(3, k=1)
    return [*made, Call((defective, normal(rng, 3), normal(rng, 3), 6))]


def wide(rng: np.random.Generator) -> list[Call]:
    """Many taps of a system that forgets nothing, and of one that forgets slowly."""
    return [Call((keeps * TURN, *normal(rng, 2, 2), 1_200)) for keeps in (1.0, 0.9995)]


def by_eigenvectors(a_bar, b_bar, c, length):  # noqa: D103 (what a learner is told is its slip's)
    expect_system(a_bar, b_bar, c)
    rates, vectors = np.linalg.eig(a_bar)
    weights = (c @ vectors) * (np.linalg.pinv(vectors) @ b_bar)
    return (rates ** np.arange(length)[:, None] @ weights).real


SLIPS = (
    Slip(
        "starts one step late",
        ("moved = [], b_bar", "moved = [], a_bar @ b_bar"),
        "The kernel starts with c · Ā b̄. A token should be read at once: K_0 should be c · b̄.",
    ),
    Slip(
        "the matrix is transposed",
        ("a_bar @ moved", "moved @ a_bar"),
        "Ā is transposed, or b̄ and c have changed places. Start with b̄, move it by Ā, read with c.",
    ),
    Slip(
        "powers of each number",
        ("c @ moved", "c @ a_bar ** len(kernel) @ b_bar"),
        "Each number of Ā is taken to the power of j, which makes all ones for j = 0. Ā^j should "
        "be Ā times itself, again and again, and Ā^0 the identity.",
    ),
    Slip(
        "only the diagonal",
        ("a_bar @ moved", "np.diag(a_bar) * moved"),
        "Only the diagonal of Ā is used. Ā b̄ is a matrix times a vector.",
    ),
    Slip(
        "newest last",
        ("np.array(kernel, dtype=float)", "np.array(kernel[::-1], dtype=float)"),
        "The kernel is the wrong way round: K_0 should stand first.",
    ),
    Slip(
        "what came before is added up",
        ("np.array(kernel, dtype=float)", "np.cumsum(kernel)"),
        "This is the answer to 1, 1, 1, …: the taps are added up. K_j should stand alone.",
    ),
    Slip(
        "a tap too many",
        ("range(length)", "range(length + 1)"),
        "There is a tap too many: K_0 should count as one of `length`.",
    ),
    Slip(
        "b̄ is left out",
        ("[], b_bar", "[], np.ones(len(b_bar))"),
        "b̄ plays no role. Start from it, not from ones.",
    ),
    Slip(
        "changes b̄",
        ("        moved = a_bar @", "        moved[...] = a_bar @"),
        "b̄ itself is moved: the array that was given is changed in place. Make a new one.",
    ),
    Slip(
        "by eigenvectors",
        by_eigenvectors,
        "Right where Ā has N eigenvectors that are far from dependent. Elsewhere digits are lost, "
        "up to all of them: multiply by Ā again and again.",
    ),
)


def by_matrix_powers(a_bar, b_bar, c, length):
    """A list of matrix powers."""
    expect_system(a_bar, b_bar, c)
    return np.array([c @ np.linalg.matrix_power(a_bar, j) @ b_bar for j in range(length)]) * 1.0


def by_rows(a_bar, b_bar, c, length):
    """The row c is moved in the place of b."""
    expect_system(a_bar, b_bar, c)
    taps, row = np.empty(length), c
    for j in range(length):
        taps[j] = row.dot(b_bar)
        row = row.dot(a_bar)
    return taps


def by_doubling(a_bar, b_bar, c, length):
    """Twice as many columns at each step."""
    expect_system(a_bar, b_bar, c)
    columns, power = b_bar[:, None].astype(float), a_bar
    while columns.shape[1] < length:
        columns = np.concatenate([columns, power @ columns], axis=1)
        power = power @ power
    return c @ columns[:, :length]


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="The kernel",
    goal="List what an input is worth at the output, now and later.",
    reference=answers.ssm_kernel,
    contract=Contract(
        numpy_only=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"a_bar": AS_DRAWN},
        says=(
            INT64,
            "Shapes of the system that do not fit raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "by hand: 6, 3, 1.5",
            np.array([[0.5]]),
            np.array([3.0]),
            np.array([2.0]),
            3,
            want=np.array([6.0, 3.0, 1.5]),
        ),
        agrees("the kernel of fresh systems", _values),
        known(
            "the recurrence's answer to 1, 0, 0, …; a diagonal Ā; one eigenvector",
            _impulse,
        ),
        refuses(
            (
                ("a c that does not fit", (np.eye(2), np.ones(2), np.ones(3), 4)),
                ("a c of length 1", (np.eye(2), np.ones(2), np.ones(1), 4)),
                ("a b of shape (N, 1)", (np.eye(2), np.ones((2, 1)), np.ones(2), 4)),
            )
        ),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={
        "matrix powers": by_matrix_powers,
        "rows": by_rows,
        "doubling": by_doubling,
    },
    hints=(
        "Feed 1, 0, 0, … to the recurrence by hand. Which state comes after each step?",
        "b̄, then Ā b̄, then Ā Ā b̄, …: each is Ā times the one before. Read each with c.",
        "moved = b_bar; for each tap: kernel.append(c @ moved), then moved = a_bar @ moved.",
    ),
    minutes=8,
    difficulty=2,
    importance=5,
)
