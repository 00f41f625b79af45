"""Exercise 06_positions/alibi_slopes: ALiBi's slopes."""

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
    title="ALiBi's slopes",
    goal="Give each head its own slope, for any number of heads.",
    reference=longer_positions.alibi_slopes,
    properties=ch06_alibi.SLOPES,
    draws=ch06_alibi.slopes_draws,
    misconceptions=wrong_alibi.SLOPES,
    alternatives=right_longer.SLOPES,
    hints=(
        ("What are the slopes of 4 heads, and of 8? Which of the 8 lie between two of the 4?"),
        (
            "Find the largest power of two that is not above the number of heads. Its slopes "
            "are 2^(−8h/power) for h = 1 … power. What is missing comes from the list for "
            "twice that many heads: every other slope, beginning with the first."
        ),
        (
            "power = 2 ** int(math.log2(heads)). First part: 2.0 ** (−8/power · arange(1, "
            "power + 1)). Second part: the odd h of twice as many heads, 2.0 ** (−4/power · "
            "arange(1, 2 · power, 2)). Join them with torch.cat and keep the first `heads`."
        ),
    ),
    minutes=10,
    difficulty=2,
    importance=2,
    forbidden=READY_MADE,
)
