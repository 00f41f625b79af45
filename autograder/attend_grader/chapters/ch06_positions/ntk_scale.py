"""Exercise 06_positions/ntk_scale: NTK-aware scaling."""

from __future__ import annotations

import math

import numpy as np
from attend_solutions import longer_positions

from attend_grader.chapters.ch06_positions.shared import python_float
from attend_grader.checks.compare import FLOAT32, PRINTED, told_apart
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.subject import Subject


def _slowest(subject: Subject, probe: Probe) -> None:
    """The slowest pair turns `factor` times more slowly."""
    tries = ((6, 100.0, 2.0), (64, 10_000.0, 4.0), (16, 500_000.0, 32.0), (8, 900.0, 0.25))
    for given in tries:
        width, base, factor = given
        got = probe.call(subject, *given).value
        if not isinstance(got, (int, float)) or not got > 0:
            probe.agree(subject, *given, tolerance=FLOAT32)
        slowest = -(width - 2) / width
        slowed = base**slowest / float(got) ** slowest
        if abs(slowed - factor) > FLOAT32.relative * factor:
            raise probe.miss(
                f"with your base {got:.6g} the slowest pair turns {told_apart(slowed, factor)[0]} "
                f"times more slowly, expected {factor:g} times. Its frequency is base^(−(D−2)/D).",
                *given,
            )


def _published(rng: np.random.Generator) -> Known:
    del rng
    for factor, want in ((2.0, 20_221.3), (4.0, 40_889.9), (8.0, 82_684.6), (1.0, 10_000.0)):
        yield f"Llama's width and base, factor {factor:g}", (128, 10_000.0, factor), want


ANY_SIZE = (
    *((6, 0.01, 4.0), (8, 0.5, 3.0), (6, 1.0, 4.0), (4, 900.0, 0.01), (64, 0.2, 0.3)),
    *((16, 1e9, 1000.0), (4, 1e-9, 0.001)),
)
"""Widths, bases and factors: bases at 1, below it, and very large; new bases below 1."""


def _any(subject: Subject, probe: Probe) -> None:
    """To float64's digits, and as a Python float."""
    drawn = [(w, *map(float, probe.rng.uniform((50, 1), (9000, 20)))) for w in (4, 8, 10, 256)]
    for width, base, factor in (*drawn, (8, 100, 1), (10, 50, 4), *ANY_SIZE):
        want = math.exp(math.log(base) + math.log(factor) * width / (width - 2))
        value = probe.agree(subject, width, base, factor, want=want).value
        python_float(value, probe, "result", width, base, factor)


def draws(rng: np.random.Generator) -> list[Call]:
    """Several widths, bases and factors; a whole base; factor 1."""
    drawn = [
        (width, round(float(rng.uniform(100, 20_000)), 1), round(float(rng.uniform(2, 9)), 2))
        for width in (4, 6, 64, 128)
    ]
    return [Call(args) for args in (*drawn, (8, 100, 3.5), (10, 500.0, 1.0), (6, 1.0, 4.0))]


POWER = " ** (width / (width - 2))"
RAISED = f"base * factor{POWER}"

SLIPS = (
    Slip(
        "base times factor",
        (POWER, ""),
        "The base is multiplied by the factor itself. Then the slowest pair turns factor^((D−2)/D) "
        "times more slowly, not factor times: multiply by factor^(D/(D−2)).",
    ),
    Slip(
        "the wrong number raised",
        (RAISED, f"factor * base{POWER}"),
        "The power D/(D−2) is on the base, but it belongs to the factor: base * factor ** (…). "
        "With factor 1 the base must stay as it is.",
    ),
    Slip(
        "exponent D/(D−1)",
        ("width - 2", "width - 1"),
        "The exponent is D/(D−1), but the slowest frequency is base^(−(D−2)/D): it should be "
        "D/(D−2).",
    ),
    Slip(
        "divided with //",
        (RAISED, "float(base * factor ** (width // (width - 2)))"),
        "D/(D−2) comes out cut to a whole number, as by `//`: that is 1 for every width above 4. "
        "Divide the exponent with `/`.",
    ),
    Slip(
        "base divided by the factor",
        ("(width - 2)", "width - 2"),
        "The base is divided by the factor. If you wrote `width / width - 2`, Python reads that as "
        "(width / width) − 2, which is −1. Multiply by factor ** (width / (width - 2)).",
    ),
    Slip(
        "the base raised too",
        (RAISED, f"(base * factor){POWER}"),
        "The base itself is raised to D/(D−2) too. Raise only the factor: base * factor ** (…).",
    ),
    Slip(
        "exponent without brackets",
        (POWER, "**width / (width - 2)"),
        "What comes out is base · factor^D / (D − 2): so Python reads `factor ** width / (width - "
        "2)`. Put the exponent in brackets: factor ** (width / (width - 2)).",
    ),
)


def by_logarithms(width, base, factor):
    """Sums of logarithms."""
    return math.exp(math.log(base) + math.log(factor) * width / (width - 2))


def by_the_slowest(width, base, factor):
    """Solves for the base whose slowest pair has a frequency `factor` times smaller."""
    slowest = base ** (-(width - 2) / width) / factor
    return slowest ** (-width / (width - 2))


EXERCISE = Exercise(
    chapter="06_positions",
    title="NTK-aware scaling",
    goal="Find the base with which only the slow pairs slow down.",
    reference=longer_positions.ntk_scale,
    contract=Contract(says=("Right to the digits of float64.",)),
    properties=(
        worked("a hand-worked example: width 4", 4, 100.0, 3.0, want=900.0, tolerance=FLOAT32),
        Property("the slowest pair turns factor times more slowly", 1, _slowest),
        known("Llama's published bases; factor 1", _published, tolerance=PRINTED),
        Property("any width, base and factor; a Python float, to float64's digits", 1, _any),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_logarithms, by_the_slowest),
    hints=(
        "Write down the frequency of the slowest pair, i = D/2 − 1, with the old base and with the "
        "new one. What must their ratio be?",
        "new base^(−(D−2)/D) must be base^(−(D−2)/D) divided by the factor. Take both sides to the "
        "power −D/(D−2).",
        "base * factor ** (width / (width - 2)); the brackets are needed.",
    ),
    minutes=6,
    difficulty=2,
    importance=3,
)
