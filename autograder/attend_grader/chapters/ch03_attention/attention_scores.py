"""Exercise 03_attention/attention_scores: scores."""

from attend_solutions import attention

from attend_grader.chapters.ch03_attention import READY_MADE, right
from attend_grader.chapters.ch03_attention import props_forward as ch03_forward
from attend_grader.chapters.ch03_attention import wrong_attention as wrong
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="03_attention",
    title="Scores",
    goal="Compare every query with every key in one matrix product, scaled by 1/√D.",
    reference=attention.attention_scores,
    properties=ch03_forward.SCORES,
    draws=ch03_forward.scores_draws,
    misconceptions=wrong.SCORES,
    alternatives=right.SCORES,
    hints=(
        (
            "Entry (t, s) is the dot product of row t of q and row s of k. Which matrix "
            "product holds all of these at once?"
        ),
        (
            "You need k with its last two axes exchanged, and only those two: `.T` would "
            "reverse the leading axes as well. `@` then multiplies matrix by matrix over all "
            "leading axes."
        ),
        (
            "Multiply q by k with its axes -1 and -2 swapped: the shape is (..., T, S). If "
            "`scaled`, divide by the square root of the length of q's last axis, not of the "
            "number of keys and not of D itself."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    forbidden=READY_MADE,
)
