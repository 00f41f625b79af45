"""Exercise 06_positions/LearnedPositions: A learned table."""

from attend_solutions import positions

from attend_grader.chapters.ch06_positions import (
    READY_MADE,
    right,
    wrong_tables,
)
from attend_grader.chapters.ch06_positions import props_tables as ch06_tables
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="06_positions",
    title="A learned table",
    goal="Add a trained row to each token, and refuse positions that have none.",
    reference=positions.LearnedPositions,
    properties=ch06_tables.LEARNED,
    draws=ch06_tables.learned_draws,
    misconceptions=wrong_tables.LEARNED,
    alternatives=right.LEARNED,
    hints=(
        (
            "Which rows of the table belong to T tokens of which the first stands at `start`? "
            "Which of the axes of x counts the tokens?"
        ),
        (
            "The rows are a slice of self.table, from start up to (not including) start + T, "
            "where T is the length of the last axis but one. Leading axes take care of "
            "themselves by broadcasting."
        ),
        (
            "end = start + x.shape[-2]. If end is greater than self.table.shape[0], raise a "
            "ValueError that says so. Otherwise return a new tensor: x plus the slice."
        ),
    ),
    minutes=6,
    difficulty=1,
    importance=3,
    forbidden=READY_MADE,
)
