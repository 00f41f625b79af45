"""Exercise 05_multi_head/split_heads: splitting into heads."""

from attend_solutions import multi_head

from attend_grader.chapters.ch05_multi_head import (
    READY_MADE,
    right,
    wrong_heads,
)
from attend_grader.chapters.ch05_multi_head import props_heads as ch05_heads
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Splitting into heads",
    goal="Cut every token's numbers into heads, and bring the heads before the tokens.",
    reference=multi_head.split_heads,
    properties=ch05_heads.SPLIT,
    draws=ch05_heads.split_draws,
    misconceptions=wrong_heads.SPLIT,
    alternatives=right.SPLIT,
    hints=(
        (
            "Two steps, not one. First cut: which axis becomes two, and how long are these "
            "two? Then move: which two axes change places?"
        ),
        (
            "The width C becomes (heads, D) with D = C // heads, so the shape is (B, T, heads,"
            " D) in between. reshape does that, because it keeps the reading order."
        ),
        (
            "Read B, T, C from x.shape. Reshape x to (B, T, heads, C // heads), then transpose"
            " axes 1 and 2 of that. Reshaping straight to (B, heads, T, D) gives the right "
            "shape with wrong numbers."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    forbidden=READY_MADE,
)
