"""Exercise 06_positions/ntk_scale: NTK-aware scaling."""

from attend_solutions import longer_positions

from attend_grader.chapters.ch06_positions import (
    READY_MADE,
    right_longer,
    wrong_longer,
)
from attend_grader.chapters.ch06_positions import props_longer as ch06_longer
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="06_positions",
    title="NTK-aware scaling",
    goal="Find the base with which only the slow pairs slow down.",
    reference=longer_positions.ntk_scale,
    properties=ch06_longer.NTK,
    draws=ch06_longer.ntk_draws,
    misconceptions=wrong_longer.NTK,
    alternatives=right_longer.NTK,
    hints=(
        (
            "Write down the frequency of the slowest pair, i = D/2 − 1, with the old base "
            "and with the new one. What must their ratio be?"
        ),
        (
            "new base^(−(D−2)/D) must be base^(−(D−2)/D) divided by the factor. Take both "
            "sides to the power −D/(D−2)."
        ),
        ("base * factor ** (width / (width - 2)); the brackets are needed."),
    ),
    minutes=6,
    difficulty=2,
    importance=3,
    forbidden=READY_MADE,
)
