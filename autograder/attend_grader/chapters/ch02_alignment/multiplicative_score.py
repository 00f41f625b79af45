"""Exercise 02_alignment/multiplicative_score: multiplicative score."""

from attend_solutions import alignment

from attend_grader.chapters.ch02_alignment import (
    READY_MADE,
    right,
    wrong_scores,
)
from attend_grader.chapters.ch02_alignment import props_scores as ch02_scores
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="02_alignment",
    title="Multiplicative score",
    goal="Compare them by a product instead: dot, or general with a weight in between.",
    reference=alignment.multiplicative_score,
    properties=ch02_scores.MULTIPLICATIVE,
    draws=ch02_scores.multiplicative_draws,
    misconceptions=wrong_scores.MULTIPLICATIVE,
    alternatives=right.MULTIPLICATIVE,
    hints=(
        "Without a weight: which matrix product holds the dot product of every query with "
        "every key?",
        (
            "The last two axes of the keys have to be exchanged, and only those: `keys.mT`. "
            "With a weight (N, E), the queries become as wide as the keys first."
        ),
        (
            "If `weight` is not None, let the queries be `queries @ weight`, (..., T, E). Then "
            "multiply by `keys.mT`. Do not divide by anything."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    forbidden=READY_MADE,
)
