"""Exercise 06_positions/alibi_bias: ALiBi's bias."""

from attend_solutions import longer_positions

from attend_grader.chapters.ch06_positions import (
    READY_MADE,
    right_longer,
    wrong_alibi,
)
from attend_grader.chapters.ch06_positions import props_alibi as ch06_alibi
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="06_positions",
    title="ALiBi's bias",
    goal="Penalise each key by its distance from the query, a slope for each head.",
    reference=longer_positions.alibi_bias,
    properties=ch06_alibi.ALIBI,
    draws=ch06_alibi.alibi_draws,
    misconceptions=wrong_alibi.ALIBI,
    alternatives=right_longer.ALIBI,
    hints=(
        ("Which table (T, S) holds how far each key is from each query, without a sign?"),
        (
            "Query positions as a column minus key positions as a row, absolute value. Then "
            "each head multiplies the whole table by its slope, with a minus: which shape must "
            "the slopes have?"
        ),
        (
            "distance = (query_positions[:, None] - key_positions).abs(); slopes[:, None, "
            "None] has the shape (H, 1, 1) and broadcasts against (T, S). Mind the sign."
        ),
    ),
    minutes=6,
    difficulty=1,
    importance=4,
    forbidden=READY_MADE,
)
