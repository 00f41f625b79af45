"""Exercise 05_multi_head/repeat_kv: sharing keys and values."""

from attend_solutions import multi_head

from attend_grader.chapters.ch05_multi_head import (
    READY_MADE,
    right,
    wrong_shared,
)
from attend_grader.chapters.ch05_multi_head import props_shared as ch05_shared
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Sharing keys and values",
    goal="Hand every head of keys to a group of neighbouring query heads.",
    reference=multi_head.repeat_kv,
    properties=ch05_shared.REPEAT,
    draws=ch05_shared.repeat_draws,
    misconceptions=wrong_shared.REPEAT,
    alternatives=right.REPEAT,
    hints=(
        "With two heads and repeats = 3, in which order stand the six? Look at the example.",
        (
            "The copies of one head are neighbours: 0, 0, 0, 1, 1, 1. `x.repeat` lays whole "
            "rounds behind each other, 0, 1, 0, 1, 0, 1."
        ),
        (
            "Put a new axis behind the heads, x[:, :, None], expand it to `repeats` entries, "
            "and reshape (B, G, repeats, S, D) to (B, G * repeats, S, D). Or let torch do the "
            "same: there is a method whose name says that copies are interleaved."
        ),
    ),
    minutes=6,
    difficulty=2,
    importance=4,
    forbidden=READY_MADE,
)
