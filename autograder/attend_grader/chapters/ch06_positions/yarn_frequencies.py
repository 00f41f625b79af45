"""Exercise 06_positions/yarn_frequencies: yaRN."""

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
    title="YaRN",
    goal="Slow the pairs that never turned full circle, keep the fast ones, blend between.",
    reference=longer_positions.yarn_frequencies,
    properties=ch06_longer.YARN,
    draws=ch06_longer.yarn_draws,
    misconceptions=wrong_longer.YARN,
    alternatives=right_longer.YARN,
    hints=(
        (
            "How many full turns does a pair with frequency θ make in trained_length steps? "
            "Which share of θ does it keep at alpha turns, at beta turns, and halfway between?"
        ),
        (
            "turns = trained_length · θ / 2π. The share is (turns − alpha) / (beta − alpha), "
            "held between 0 and 1. The new frequency is share · θ + (1 − share) · θ / factor."
        ),
        (
            "θ = angular_frequencies(width, base); clamp the share with .clamp(0, 1); return "
            "two things: the blended frequencies, and 0.1 * math.log(factor) + 1."
        ),
    ),
    minutes=12,
    difficulty=3,
    importance=3,
    forbidden=READY_MADE,
    results=("frequencies", "scale"),
)
