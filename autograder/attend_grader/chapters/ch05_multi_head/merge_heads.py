"""Exercise 05_multi_head/merge_heads: merging heads."""

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
    title="Merging heads",
    goal="Lay the heads of every token side by side again.",
    reference=multi_head.merge_heads,
    properties=ch05_heads.MERGE,
    draws=ch05_heads.merge_draws,
    misconceptions=wrong_heads.MERGE,
    alternatives=right.MERGE,
    hints=(
        "It undoes what split_heads did. In which order must its two steps be undone?",
        (
            "Bring the tokens before the heads again, then make one axis of the last two. "
            "After a transpose the numbers no longer lie in reading order in memory: `.view` "
            "refuses, `.reshape` copies."
        ),
        "Transpose axes 1 and 2, which gives (B, T, H, D), then reshape that to (B, T, H * D).",
    ),
    minutes=4,
    difficulty=1,
    importance=4,
    forbidden=READY_MADE,
)
