"""Exercise 23_state_spaces/hippo_reconstruct: draw the past from the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import state_spaces as answers
from numpy.polynomial import Polynomial

from attend_grader.chapters.ch23_state_spaces.shared import RELATIVE
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import normal


def case(rng: np.random.Generator, size: int, places: int, *lead: int) -> Call:
    """N coefficients, and places from 0 to 1 in any order."""
    return Call((normal(rng, *lead, size), rng.uniform(0, 1, places).round(2)))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    long = ((int(rng.integers(*ends)), 6) for ends in ((66, 129), (192, 257)))
    for size, places in ((4, 7), (1, 3), (5, 5), (2, 1), (9, 4), (40, 6), *long, (300, 4)):
        yield f"N = {size}, {places} places", case(rng, size, places)


def _straight(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """By their powers: 1, √3 (2u − 1), √5 (6u² − 6u + 1)."""
    places = np.linspace(0, 1, 5)
    h = normal(rng, 3)
    whole = h[0] + h[1] * 3**0.5 * (2 * places - 1)
    whole = whole + h[2] * 5**0.5 * Polynomial([1, -6, 6])(places)
    yield "three numbers: a parabola", (h, places), whole
    for scale in (1e-12, 1e12):
        yield f"three numbers times {scale:g}", (scale * h, places), scale * whole
    yield "one number: a constant", (h[:1], places), np.full(5, h[0])


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, as many places as numbers, one number, one place, a stack."""
    return [
        case(rng, 4, 7),
        case(rng, 5, 5),
        case(rng, 1, 3),
        case(rng, 3, 1),
        case(rng, 3, 4, 2),
        case(rng, 8, 6),
    ]


BASIS = "legvander(2 * places - 1, len(n) - 1)"
SLIPS = (
    Slip(
        "no factor √(2n+1)",
        (" * np.sqrt(2 * n + 1)", ""),
        "The factors √(2n+1) are missing: the plain P_n have different sizes.",
    ),
    Slip(
        "divided by √(2n+1)",
        (" * np.sqrt(2 * n + 1)", " / np.sqrt(2 * n + 1)"),
        "Each polynomial is divided by √(2n+1). Multiply it by that.",
    ),
    Slip(
        "2n+1 without its root",
        ("np.sqrt(2 * n + 1)", "(2 * n + 1)"),
        "The factors are 2n+1, without the root. b has the other root already.",
    ),
    Slip(
        "roots counted from 1",
        ("np.sqrt(2 * n + 1)", "np.sqrt(2 * n + 3)"),
        "The factors are those of n + 1: n should count from 0, so that P_0 has the factor 1.",
    ),
    Slip(
        "places from 0 to 1 in P_n",
        ("2 * places - 1", "places"),
        "P_n is read at u, and lives between −1 and 1: read it at 2u − 1.",
    ),
    Slip(
        "turned round in time",
        ("2 * places - 1", "1 - 2 * places"),
        "The past is turned round: u = 1 should be now, where P_n(1) = 1.",
    ),
    Slip(
        "powers in the place of Legendre's",
        (BASIS, "(2 * places - 1)[:, None] ** n"),
        "The coefficients are taken for those of 1, z, z², …. They belong to Legendre's "
        "polynomials.",
    ),
    Slip(
        "degrees from 1",
        (BASIS, "legvander(2 * places - 1, len(n))[:, 1:]"),
        "The polynomials are P_1 to P_N. They should begin with P_0, which is 1.",
    ),
    Slip(
        "Chebyshev's polynomials",
        (BASIS, "np.polynomial.chebyshev.chebvander(2 * places - 1, len(n) - 1)"),
        "These are Chebyshev's polynomials. HiPPO-LegS has Legendre's.",
    ),
    Slip(
        "the last polynomial is missing",
        ("coefficients @ basis.T", "coefficients[..., :-1] @ basis[:, :-1].T"),
        "The last coefficient plays no role: there should be N polynomials, of degree 0 to N − 1.",
    ),
    Slip(
        "coefficients in reverse",
        ("coefficients @", "coefficients[..., ::-1] @"),
        "The coefficients are taken in reverse: the first should go with P_0.",
    ),
)


def by_recurrence(coefficients, places):
    """(n + 1) P_(n+1) = (2n + 1) z P_n − n P_(n−1), and a running sum."""
    z = 2 * np.asarray(places, float) - 1
    before, now, total = np.zeros_like(z), np.ones_like(z), 0.0
    for n in range(coefficients.shape[-1]):
        total = total + coefficients[..., n, None] * (2 * n + 1) ** 0.5 * now
        before, now = now, ((2 * n + 1) * z * now - n * before) / (n + 1)
    return total


def by_series(coefficients, places):
    """NumPy's own sum of a Legendre series."""
    scaled = coefficients * np.sqrt(2 * np.arange(coefficients.shape[-1]) + 1)
    return np.polynomial.legendre.legval(2 * places - 1, np.moveaxis(scaled, -1, 0), tensor=True)


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="Draw it back",
    goal="Draw the past from the N numbers of a state.",
    reference=answers.hippo_reconstruct,
    contract=Contract(
        numpy_only=True,
        leading_axes=("coefficients",),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"places": (0, 1)},
    ),
    properties=(
        worked(
            "by hand: 3 and 1 draw a straight line",
            np.array([3.0, 1.0]),
            np.array([0.0, 0.5, 1.0]),
            want=np.array([3 - 3**0.5, 3.0, 3 + 3**0.5]),
        ),
        agrees("fresh coefficients and places", _values),
        known("one number, and three", _straight, tolerance=RELATIVE),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"recurrence": by_recurrence, "legval": by_series},
    hints=(
        "legvander(z, N - 1) has a row for each z and a column for each polynomial. Which z has "
        "the place u?",
        "z = 2u − 1. Multiply column n by √(2n+1); then each place's answer is a row times the "
        "coefficients.",
        "basis = legvander(2 * places - 1, N - 1) * np.sqrt(2 * np.arange(N) + 1); "
        "return coefficients @ basis.T",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
)
