"""Exercise 23_state_spaces/discretize: from a differential equation to a recurrence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from attend_solutions import state_spaces as answers
from attend_solutions.state_spaces import expect_system, matrix_exponential
from attend_solutions.types import Array

from attend_grader.chapters.ch23_state_spaces.shared import misnamed, system
from attend_grader.checks.compare import Tolerance
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Cases, agrees, known, refuses, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject

METHODS = ("zoh", "bilinear")
ROLL = np.array([[0.0, 1.0], [0.0, 0.0]])
"""Place and speed: a singular matrix."""
HIDDEN = np.array([[3.0, -1.0, 3.0], [3.0, -3.0, -4.0], [-9.0, 5.0, -2.0]])
"""It has no inverse, though np.linalg.det rounds its determinant to another number than 0."""


def _with(method: str) -> Cases:
    def cases(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
        for size, delta in ((3, 0.5), (2, 0.1), (4, 1.3), (1, 0.7)):
            a, b, _ = system(rng, size)
            yield f"{method}, N = {size}", Call((a, b, delta, method))
        for delta in (1, 3):
            yield f"{method}, Δ = {delta}, an integer", Call((*system(rng, 2)[:2], delta, method))
        yield f"{method}, b = 0", Call((system(rng, 2)[0], np.zeros(2), 0.5, method))
        a, b, c = system(rng, 3)
        yield f"{method}, a long step", Call((a - a.T - np.eye(3), b, 4.0, method))
        yield f"{method}, an A without inverse", Call((HIDDEN, c, 0.4, method))
        yield f"{method}, Δ = 1e-12", Call((a, 1e5 * b, 1e-12, method))
        low = 1e-4 if method == "zoh" else 1e-12  # an exponential of b / low has fewer digits
        slow, fast = (low * a, low * b, 0.5 / low), (1e11 * a, 1e5 * b, 0.5e-11)
        yield f"{method}, a slow system and a long step", Call((*slow, method))
        yield f"{method}, a fast system and a short step", Call((*fast, method))

    return cases


LEFT = Tolerance(
    "absolute", 0.0, "where Ā is 0, what is left is judged beside b̄, which is near 1", absolute=1e-9
)


def _at_rest(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """Steps after which nothing is left, however many squarings that takes."""
    a, b, _ = system(rng, 3)
    fades = a - a.T - np.eye(3)
    for delta in (1e3, 1e6, 1e9, 1e12):
        left = np.zeros((3, 3)), -np.linalg.solve(fades, b)
        yield f"zoh, Δ = {delta:g}", (fades, b, delta, "zoh"), left
    yield "zoh, A times 1e11", (1e11 * fades, b, 1.0, "zoh"), left


def _then(first: Property, second: Property) -> Property:
    """The first, and the second for the same points."""

    def test(subject: Subject, probe: Probe) -> None:
        first.test(subject, probe)
        second.test(subject, probe)

    return replace(first, test=test)


def _singular(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    b = np.array([0.0, 1.0])
    rolled = (np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([0.125, 0.5]))
    still = np.round(rng.standard_normal(3), 2)
    for method in METHODS:
        yield f"place and speed, {method}", (ROLL, b, 0.5, method), rolled
        nothing = np.zeros((3, 3))
        yield f"A = 0, {method}", (nothing, still, 0.5, method), (np.eye(3), 0.5 * still)
    force, away = np.eye(3)[2], np.array([[1.0, 0.5, 0.125], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    moved = (away, np.array([1 / 48, 0.125, 0.5]))
    yield "place, speed and force", (np.eye(3, k=1), force, 0.5, "zoh"), moved
    yield "one number fades, one stays", *_of_rank_one(np.diag([0.0, -3.0]), still[:2], 1.0)
    for matrix in (np.outer(*normal(rng, 2, 3)), np.array([[-1.0, 1.0], [1.0, -1.0]])):
        yield "an A of rank 1", *_of_rank_one(matrix, still[: len(matrix)], 0.7)


def _of_rank_one(a: Array, b: Array, delta: float) -> tuple[Any, Any]:
    """Zoh's arguments and answer where A² = r A, so that e^(ΔA) = 1 + (e^(Δr) − 1)/r · A."""
    r = np.trace(a)
    first = np.expm1(delta * r) / r if r else delta
    second = (first - delta) / r if r else delta**2 / 2
    step = np.eye(len(b)) + first * a, delta * b + second * (a @ b)
    return (a, b, delta, "zoh"), step


def draws(rng: np.random.Generator) -> list[Call]:
    """Both methods, one number, a singular matrix, the default method, a long step."""
    made = []
    for size, delta, method in ((3, 0.5, "zoh"), (3, 0.5, "bilinear"), (1, 0.7, "zoh")):
        made.append(Call((*system(rng, size)[:2], delta, method)))
    made.append(Call((*system(rng, 2)[:2], 1.6)))
    for size, delta in ((4, 1.4), (3, 2.0)):
        made.append(Call((*system(rng, size)[:2], delta, "bilinear")))
    rank_one = np.outer(*normal(rng, 2, 3))
    made.append(Call((rank_one, normal(rng, 3), 0.5, "zoh")))
    made.append(Call((np.round(system(rng, 2)[0]).astype(int), np.array([1, 2]), 1, "bilinear")))
    whole = np.round(system(rng, 2)[0]).astype(int), 0.5 + np.arange(2), 1
    made += [Call((*whole, method)) for method in METHODS]
    return [*made, Call((ROLL, np.round(rng.standard_normal(2), 2), 0.5, "zoh"))]


def by_inverse(a, b, delta, method="zoh"):  # noqa: D103 (what a learner is told is its slip's)
    if method == "bilinear":
        return padded(a, b, delta, method)
    a_bar = matrix_exponential(delta * a)
    return a_bar, np.linalg.solve(a, (a_bar - np.eye(len(b))) @ b)


def two_terms(a, b, delta, method="zoh"):  # noqa: D103
    if method == "bilinear" or np.linalg.matrix_rank(a) == len(b):
        return padded(a, b, delta, method)
    return matrix_exponential(delta * a), delta * b + delta**2 / 2 * (a @ b)


SLIPS = (
    Slip(
        "two terms where A has no inverse",
        two_terms,
        "With zoh, where A has no inverse, b̄ is Δ b + Δ²/2 A b, the beginning of a series. The "
        "exponential of the matrix with one row and one column more needs no inverse, and no case "
        "of its own.",
    ),
    Slip(
        "b̄ by the inverse of A",
        by_inverse,
        "With zoh, b̄ is as by A⁻¹ (Ā − 1) b, which fails where A has no inverse and loses digits "
        "where A nearly has none or ΔA is small. The exponential of the matrix with one row and "
        "one column more needs no inverse.",
    ),
    Slip(
        "zoh with b in the place of Δ b",
        ("= delta * a, delta * b", "= delta * a, b"),
        "With zoh, b̄ lacks the factor Δ: Δ b should stand in the last column of the matrix.",
    ),
    Slip(
        "a first-order step",
        ("step = matrix_exponential(system)", "step = np.eye(size + 1) + system"),
        "With zoh, Ā is 1 + ΔA and b̄ is Δ b: only the beginning of a series. Take the exponential.",
    ),
    Slip(
        "zoh with b̄ = Δ b",
        ("step[:size, :size], step[:size, size]", "step[:size, :size], delta * b"),
        "With zoh, b̄ is Δ b: A should move what x adds early in the step, too. Take b̄ from the "
        "last column of the exponential.",
    ),
    Slip(
        "the exponential of each number",
        ("return step[:size, :size],", "return np.exp(delta * a),"),
        "With zoh, Ā holds e to the power of each number of ΔA. The exponential of a matrix is "
        "another thing: use matrix_exponential.",
    ),
    Slip(
        "the exponential of each number of the whole",
        ("step = matrix_exponential(system)", "step = np.exp(system)"),
        "With zoh, Ā and b̄ hold e to the power of each number of ΔA and Δ b. The exponential of a "
        "matrix is another thing: use matrix_exponential.",
    ),
    Slip(
        "Δ does not reach A",
        ("= delta * a, delta * b", "= a, delta * b"),
        "With zoh, A is not multiplied by Δ: Ā is e^A, whatever Δ is.",
    ),
    Slip(
        "bilinear with signs exchanged",
        (
            ("np.eye(size) - half", "np.eye(size) - -half"),
            ("np.eye(size) + half", "np.eye(size) - half"),
        ),
        "With bilinear, this is the step of −A. Invert 1 − ΔA/2, and multiply by 1 + ΔA/2.",
    ),
    Slip(
        "bilinear with whole steps",
        ("delta / 2 * a", "delta * a"),
        "With bilinear, ΔA stands where ΔA/2 belongs: each end of the step should have half of it.",
    ),
    Slip(
        "bilinear with b̄ = Δ b",
        ("np.linalg.solve(back, delta * b)", "delta * b"),
        "With bilinear, b̄ is Δ b: the inverse of 1 − ΔA/2 belongs in front of it, as of Ā.",
    ),
    Slip(
        "Euler's step for both methods",
        (
            ("np.linalg.solve(back, np.eye(size) + half)", "np.eye(size) + delta * a"),
            ("np.linalg.solve(back, delta * b)", "delta * b"),
            ("step = matrix_exponential(system)", "step = np.eye(size + 1) + system"),
        ),
        "Whatever the method, the step is 1 + ΔA and Δ b (Euler's). Take the exponential for zoh, "
        "the mean of the slopes at both ends for bilinear.",
    ),
    Slip(
        "always zoh",
        ('if method == "bilinear":', "if False:"),
        "As if the method were not looked at: bilinear gives zoh's numbers.",
    ),
    Slip(
        "bilinear with the new state alone",
        (("delta / 2 * a", "delta * a"), ("np.eye(size) + half", "np.eye(size)")),
        "With bilinear, all of the change follows the new state (backward Euler). Half of it "
        "should follow the old one.",
    ),
)


def padded(a, b, delta, method="zoh"):
    """Np.block and an explicit inverse."""
    expect_system(a, b)
    n = b.size
    if method == "zoh":
        system = np.block([[a, b[:, None]], [np.zeros((1, n + 1))]])
        step = matrix_exponential(delta * system)
        return step[:-1, :-1], step[:-1, -1]
    if method != "bilinear":
        raise ValueError(method)
    back = np.linalg.inv(np.identity(n) - 0.5 * delta * a)
    return back @ (np.identity(n) + 0.5 * delta * a), delta * back @ b


def by_series(a, b, delta, method="zoh"):
    """Ā and b̄ of a tiny step by their series, then doubled."""
    expect_system(a, b)
    if method not in METHODS:
        raise ValueError(method)
    one = np.eye(len(b))
    if method == "bilinear":
        back = one - delta / 2 * a
        return np.linalg.solve(back, one + delta / 2 * a), np.linalg.solve(back, b) * delta
    halvings = 20 + max(0, math.ceil(math.log2(delta)))
    small = delta / 2**halvings * a
    a_bar = one + small + small @ small / 2 + small @ small @ small / 6
    b_bar = delta / 2**halvings * (one + small / 2 + small @ small / 6) @ b
    for _ in range(halvings):
        a_bar, b_bar = a_bar @ a_bar, a_bar @ b_bar + b_bar
    return a_bar, b_bar


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="From an equation to steps",
    goal="Turn a differential equation into a recurrence, in two ways.",
    reference=answers.discretize,
    contract=Contract(
        numpy_only=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"a": AS_DRAWN, "b": (-5e5, 5e5)},
        says=(
            "Beyond that `b` the exponential loses digits.",
            "A may have no inverse.",
            "Shapes that do not fit and other methods raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "by hand, zoh: 1/2 and 3/2",
            -np.ones((1, 1)),
            3 * np.ones(1),
            math.log(2),
            "zoh",
            want=(np.array([[0.5]]), np.array([1.5])),
        ),
        worked(
            "by hand, bilinear: 1/3 and 2",
            -np.ones((1, 1)),
            3 * np.ones(1),
            1.0,
            "bilinear",
            want=(np.array([[1 / 3]]), np.array([2.0])),
        ),
        _then(
            agrees("zero-order hold of fresh systems", _with("zoh")),
            # b̄ too should be held to this; a series for b̄ counts as right until that is decided
            known("Ā after a long step", _at_rest, part=0, tolerance=LEFT),
        ),
        agrees(
            "bilinear of fresh systems; either method for numbers of any size", _with("bilinear")
        ),
        known("an A without inverse: place and speed, and A = 0", _singular),
        refuses(
            (
                *(
                    (f"another method, {other!r},", (-np.ones((1, 1)), np.ones(1), 0.1, other))
                    for other in ("euler", "tustin", "foh", *misnamed(METHODS))
                ),
                ("an A that is not square", (np.ones((2, 3)), np.ones(2), 0.1)),
                ("a b that is too long", (np.eye(2), np.ones(3), 0.1)),
                ("a b of shape (N, 1)", (np.eye(2), np.ones((2, 1)), 0.1, "bilinear")),
            ),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"np.block and an inverse": padded, "a tiny step, doubled": by_series},
    hints=(
        "Bilinear: solve (1 − ΔA/2) Ā = 1 + ΔA/2 with np.linalg.solve. Zoh: which matrix of "
        "N + 1 rows moves h and a constant x at once?",
        "Zoh: the matrix with ΔA at the top left, Δb in the last column and zeros in the last "
        "row. Its exponential has Ā and b̄ in the same places.",
        "system = np.zeros((N + 1, N + 1)); system[:N, :N] = delta * a; system[:N, N] = delta * b; "
        "step = matrix_exponential(system); return step[:N, :N], step[:N, N].",
    ),
    minutes=15,
    difficulty=3,
    importance=5,
    results=("a_bar", "b_bar"),
)
