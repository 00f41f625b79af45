"""Exercise 06_positions/position_interpolation: position interpolation."""

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
    title="Position interpolation",
    goal="Squeeze the positions of a longer text into the trained range.",
    reference=longer_positions.position_interpolation,
    properties=ch06_longer.INTERPOLATION,
    draws=ch06_longer.interpolation_draws,
    misconceptions=wrong_longer.INTERPOLATION,
    alternatives=right_longer.INTERPOLATION,
    hints=(
        ("By which number must every position be multiplied, and when by none?"),
        (
            "The factor is trained_length / length, but never more than 1. Work in float64: "
            "angles will be made from these positions."
        ),
        ("positions.double() times min(1.0, trained_length / length)."),
    ),
    minutes=4,
    difficulty=1,
    importance=3,
    forbidden=READY_MADE,
)
