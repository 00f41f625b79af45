"""Exercise 03_attention/softmax_jacobian: how every weight changes with every score.

The oracle is a numerical derivative of a softmax written here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from attend_solutions import attention
from attend_solutions.types import Array

from attend_grader.chapters.ch03_attention.shared import PROMISES, distribution
from attend_grader.checks.clues import sums_to_zero
from attend_grader.checks.contract import FLOAT32, FLOAT64
from attend_grader.checks.exercise import Call, Exercise, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.properties import derivative, normal


def _weights(rng: np.random.Generator, *shape: int) -> Array:
    """Random distributions of three decimals along the last axis."""
    weights = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]).round(3)
    rest = np.where(weights == weights.max(axis=-1, keepdims=True), 1, 0)
    rest = rest * (np.cumsum(rest, axis=-1) == 1)  # the first of the largest takes up the rest
    return (weights + rest * (1 - weights.sum(axis=-1, keepdims=True))).round(3)


def _limits(rng: np.random.Generator) -> Known:
    del rng
    yield "equal weights", (np.full(4, 0.25),), (np.eye(4) - 0.25) / 4
    yield "all weight on one key, so no weight moves", (np.eye(5)[2],), np.zeros((5, 5))
    yield "one key only", (np.ones(1),), np.zeros((1, 1))
    p = np.array([0.99998, 1e-5, 1e-5])  # so small a Jacobian shows what finite differences lose
    want = np.array([[1.99996e-5, -9.9998e-6, -9.9998e-6], [0, 0, 0], [0, 0, 0]])
    want[1:] = [[-9.9998e-6, 9.9999e-6, -1e-10], [-9.9998e-6, -1e-10, 9.9999e-6]]
    yield "nearly all weight on one key", (p,), want


def _numerical(rng: np.random.Generator) -> Known:
    for count in (4, 3, 5):
        scores = 2 * normal(rng, count)
        want = derivative(distribution, scores)
        yield "compared with a numerical derivative of softmax", (distribution(scores),), want


def draws(rng: np.random.Generator) -> list[Call]:
    """One distribution, several, more axes, unrounded weights, one place, a nearly saturated one.

    No stack is as long as its rows: what knows one row only raises an error on each of them.
    """
    made = [_weights(rng, *shape) for shape in ((4,), (3, 4), (2, 3, 2))]
    made += [distribution(3 * normal(rng, 5)), np.ones(1)]
    made += [np.array([0.99998, 1e-5, 1e-5])]  # entries from 2e-5 to 1e-10
    made += [np.array([0.2, 0.72, 0.08])]  # in floats their sum is not 1
    return [Call((weights,)) for weights in made]


DIAGONAL, TABLE = "column * identity", "column * row"
NO_TABLE = (
    "A single number is subtracted everywhere: `p @ p.T` is no table here, since for one axis "
    "`.T` does nothing and `@` then sums. All products p_s p_r are a column against a row: "
    "p[..., :, None] * p[..., None, :]."
)

SLIPS = (
    Slip(
        "only the diagonal",
        (f"{DIAGONAL} - {TABLE}", f"{DIAGONAL} * (1 - column)"),
        "This is the diagonal p_s (1 − p_s) only. A score also takes weight from all other keys: "
        "the entries beside the diagonal are −p_s p_r.",
    ),
    Slip(
        "elementwise p (1 − p)",
        (f"{DIAGONAL} - {TABLE}", "weights * (1 - weights)"),
        "This is p (1 − p), one number for each weight: the derivative of the sigmoid. Every "
        "weight changes with every score, so the result is S × S.",
    ),
    Slip(
        "applied softmax to the weights",
        ("column = weights[", "weights = softmax(weights)\n    column = weights["),
        "This is the Jacobian at softmax(p). The argument is already softmax's result: use it as "
        "p.",
    ),
    Slip(
        "forgot diag(p)",
        (f"{DIAGONAL} - ", "-"),
        "This is −p pᵀ only. Add diag(p): a weight's own score raises it.",
    ),
    Slip(
        "right for a single row only",
        (f"{DIAGONAL} - {TABLE}", "np.diag(weights) - np.outer(weights, weights)"),
        "A single row comes out right, several do not, as with np.diag and np.outer, which know "
        "one row only. Use an identity matrix and broadcasting: p[..., :, None] and p[..., None, "
        ":].",
    ),
    Slip("p @ p.T is one number", (TABLE, "weights @ weights.T"), NO_TABLE),
    Slip(
        "p @ p.T is one number, and np.diag",
        (f"{DIAGONAL} - {TABLE}", "np.diag(weights) - weights @ weights.T"),
        NO_TABLE,
    ),
    Slip(
        "1 instead of δ",
        (f"{DIAGONAL} - {TABLE}", f"column - {TABLE}"),
        "Every entry is p_s (1 − p_r). The 1 stands for δ_sr, which is 1 on the diagonal only and "
        "0 beside it: np.eye(S).",
    ),
)


def einsum(weights):
    """Minus the outer product, with p added along the diagonal in place."""
    jacobian = -np.einsum("...i,...j->...ij", weights, weights)
    places = np.arange(weights.shape[-1])
    jacobian[..., places, places] += weights
    return jacobian


def of_a_draw(weights):
    """The covariance of a one-hot draw: the mean of (e_u − p)(e_u − p)ᵀ."""
    away = np.eye(weights.shape[-1]) - weights[..., None, :]
    return np.einsum("...u,...us,...ur->...sr", weights, away, away)


EXERCISE = Exercise(
    chapter="03_attention",
    title="The softmax's Jacobian",
    goal="Write down how every weight changes with every score: diag(p) − p pᵀ.",
    reference=attention.softmax_jacobian,
    contract=replace(PROMISES, accepts=(FLOAT64, FLOAT32)),
    properties=(
        worked(
            "a hand-worked example: p = (0.2, 0.3, 0.5)",
            np.array([0.2, 0.3, 0.5]),
            want=np.array([[0.16, -0.06, -0.10], [-0.06, 0.21, -0.15], [-0.10, -0.15, 0.25]]),
            clue=sums_to_zero(1e-6),
        ),
        known("equal weights; all weight, or nearly all, on one key; one key", _limits),
        known("agrees with a numerical derivative of softmax", _numerical, clue=sums_to_zero(1e-6)),
    ),
    draws=draws,
    slips=SLIPS,
    related=True,
    alternatives=(einsum, of_a_draw),
    hints=(
        "Two terms: one that lives on the diagonal only, and one that is the product of every "
        "weight with every weight. The argument is already p: no exponential is needed.",
        "All products p_s p_r come from broadcasting: p as a column (..., S, 1) against p as a "
        "row (..., 1, S). For the diagonal, `np.diag` handles one row only; an identity matrix "
        "broadcasts over all leading axes.",
        "Add an axis at the end of p to get the column, one before the last to get the row. The "
        "diagonal term is the column times an S×S identity (which keeps p_s at (s, s)); subtract "
        "column times row from it.",
    ),
    minutes=12,
    difficulty=3,
    importance=4,
)
