"""Exercise 15_linear_attention/memory_width: design a memory for an error, judged by measuring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import linear_attention as answers

from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known, refuses
from attend_grader.checks.subject import Subject

CASES = ((9, 0.5), (24, 0.25), (40, 2.0), (3, 0.125))
"""Pairs and errors that are measured."""


def measured(rng: np.random.Generator, pairs: int, width: int, times: int = 100) -> Any:
    """Relative squared error of summed memories of random keys of norm 1: one number a memory."""
    k = rng.standard_normal((times, pairs, width))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    v = rng.standard_normal((times, pairs, 16))
    wrong = k @ (np.swapaxes(k, -1, -2) @ v) - v
    return (wrong**2).mean(axis=(1, 2)) / (v**2).mean(axis=(1, 2))


def _width(subject: Subject, probe: Probe, pairs: int, error: float) -> int:
    width = probe.call(subject, pairs, error).value
    if type(width) is not int or not 1 <= width <= 10_000:
        text = f"returned {width!r}; expected a whole number (an int), 1 or more."
        raise Miss(text, topic="a whole number").on(probe.given((pairs, error), {}), "")
    return width


def _good_enough(subject: Subject, probe: Probe) -> None:
    """Measured error: at most 15 % above what is allowed; sampling explains 5 %."""
    for pairs, error in CASES:
        width = _width(subject, probe, pairs, error)
        found = float(measured(probe.rng, pairs, width).mean())
        if found > 1.15 * error + 0.02:
            raise Miss(
                f"{pairs} pairs in a memory of width {width}: measured error {found:.3f}, allowed "
                f"{error}. The memory is too small."
            ).on(probe.given((pairs, error), {}), "")


def _no_waste(subject: Subject, probe: Probe) -> None:
    """A third less must miss the error, as measured."""
    for pairs, error in CASES:
        width = _width(subject, probe, pairs, error)
        if width < 3:
            continue
        found = float(measured(probe.rng, pairs, width * 2 // 3).mean())
        if found < 1.1 * error:
            raise Miss(
                f"{pairs} pairs: you chose {width}. Of width {width * 2 // 3} a memory has a "
                f"measured error of {found:.3f}, and {error} is allowed. The memory is too large."
            ).on(probe.given((pairs, error), {}), "")


def _least(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for _ in range(4):
        pairs, eighths = (int(n) for n in rng.integers([2, 1], [200, 16]))
        yield "the least width that will do", Call((pairs, eighths / 8))
    pairs, eighths = (int(n) for n in rng.integers([5_000, 1], [50_000, 16]))
    yield "thousands of pairs", Call((pairs, eighths / 8))


def _edges(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    del rng
    yield "nothing disturbs a single pair", (1, 0.5), 1
    yield "a width of less than 1 is none", (3, 8.0), 1
    yield "9 pairs, error 1/2: 8 others, each 1/D", (9, 0.5), 16
    yield "6 pairs, error 3/4: 6.67 is not whole", (6, 0.75), 7
    for error, least in ((64, 3), (1024, 2), (16_384, 2)):  # all exact in binary
        pairs = (least - 1) * error + 2
        above = f"{pairs - 1:,}/{error:,} is a little above {least - 1}"
        yield f"{above}: rounded up", (pairs, float(error)), least
    yield "1,001 pairs, error 1/4: 4,000", (1001, 0.25), 4000
    yield "250,001 pairs, error 1/8: 2,000,000", (250_001, 0.125), 2_000_000
    yield "2 pairs, error 2⁻²⁰: 1,048,576", (2, 2.0**-20), 2**20
    yield "9 pairs, error a little below 1: a little more than 8", (9, 1 - 2.0**-40), 9
    yield "16,777,218 pairs, error 1: more digits than float32 has", (2**24 + 2, 1.0), 2**24 + 1


def draws(rng: np.random.Generator) -> list[Call]:
    """Errors below and above 1, one pair, quotients that are whole and not, many pairs."""
    pairs = int(rng.integers(20, 90))
    return [
        Call((pairs, 0.25)),
        Call((pairs, 3.0)),
        Call((9, 0.5)),
        Call((1, 0.5)),
        Call((6, 0.75)),
        Call((2, 4.0)),
        Call((int(rng.integers(30_000, 40_000)), 0.125)),
    ]


CEIL = "math.ceil((pairs - 1) / error)"
SLIPS = (
    Slip(
        "the pair itself counts as noise",
        ("(pairs - 1)", "pairs"),
        "Your width follows n / error. A pair does not disturb itself: n − 1 others do.",
    ),
    Slip(
        "rounded down",
        ("math.ceil((pairs - 1) / error)", "int((pairs - 1) / error)"),
        "Your width is rounded down, so the error may be larger than allowed. Round up.",
    ),
    Slip(
        "one too many where the quotient is whole",
        ("math.ceil((pairs - 1) / error)", "int((pairs - 1) / error) + 1"),
        "Your width is one too large where (n − 1) / error is whole and above 0, as if 1 were "
        "added after rounding down: that makes 17 of 16.5, and of 16 as well. math.ceil leaves 16 "
        "as it is.",
    ),
    Slip(
        "rounded to the nearest",
        (CEIL, "round((pairs - 1) / error)"),
        "Your width is rounded to the nearest, which may be too small. Round up.",
    ),
    Slip(
        "error squared",
        ("/ error)", "/ error**2)"),
        "Your width follows (n − 1) / error². The error is a mean square already.",
    ),
    Slip(
        "root of the error",
        ("/ error)", "/ error**0.5)"),
        "Your width follows (n − 1) / √error. The error is a mean square: it falls as 1/D.",
    ),
    Slip(
        "as many as there are pairs",
        (CEIL, "pairs"),
        "Your width is the number of pairs, whatever the error. That would do for orthogonal "
        "keys; random ones disturb each other.",
    ),
    Slip(
        "multiplied by the error",
        ("/ error)", "* error)"),
        "Your width grows with the error that is allowed. A larger error needs less room.",
    ),
    Slip(
        "no least width",
        ("max(1, ", "max(0, "),
        "Your width can be 0. A key has at least one number.",
    ),
    Slip(
        "a float",
        ("return max(", "return 1.0 * max("),
        "The number is right, but it is a float, as np.ceil gives one. A width counts numbers, and "
        "shapes need an int: math.ceil gives an int, int(…) makes one.",
    ),
)


def by_search(pairs, error):
    """The first width that will do."""
    if pairs < 1 or not error > 0:
        raise ValueError("one pair or more, an error above 0")
    width = 1
    while (pairs - 1) / width > error:
        width += 1
    return width


def by_division(pairs, error):
    """Round up with floor division."""
    if not (pairs >= 1 and error > 0):
        raise ValueError("one pair or more, an error above 0")
    return max(1, int(-((1 - pairs) // error)))


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="Design: how large a memory?",
    goal="Choose a width that meets an error, and not a larger one; it will be measured.",
    reference=answers.memory_width,
    contract=Contract(
        says=(
            "The result is an `int`, 1 or more.",
            "No pair, or an error that is not above 0, raises a ValueError.",
        )
    ),
    properties=(
        Property("measured: the error is met", 1, _good_enough),
        Property("measured: a third less would not do", 1, _no_waste),
        agrees("the least width, for any pairs and errors", _least),
        known("by hand: one pair, large errors, rounding, many pairs", _edges),
        refuses(
            (
                ("no pair", (0, 0.5)),
                ("−3 pairs", (-3, 0.5)),
                ("an error of 0", (3, 0.0)),
                ("an error of −1", (3, -1.0)),
                ("a single pair and an error of 0", (1, 0.0)),
                ("a single pair and an error of −1", (1, -1.0)),
                ("two pairs and an error of −1e-9", (2, -1e-9)),
                ("no pair and an error of 100", (0, 100.0)),
                ("no pair and an error of 1", (0, 1.0)),
                ("−3 pairs and an error of −1", (-3, -1.0)),
            ),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"search": by_search, "floor division": by_division},
    hints=(
        "Read at k₁: the answer is v₁ plus (k₁ · k_i) v_i for each other pair. What is the mean "
        "square of k₁ · k_i for random directions of norm 1?",
        "It is 1/D: a vector of norm 1 has D squares that add up to 1. The n − 1 others are "
        "independent, so their squares add: error (n − 1) / D.",
        "D must be at least (n − 1) / error, rounded up (math.ceil), and at least 1.",
    ),
    minutes=8,
    difficulty=3,
    importance=4,
)
