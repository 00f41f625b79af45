"""Exercise 06_positions/relative_bias: A bias for each distance."""

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
    title="A bias for each distance",
    goal="Look up T5's bias: near distances one by one, far ones in widening buckets.",
    reference=positions.relative_bias,
    properties=ch06_tables.BIAS,
    draws=ch06_tables.bias_draws,
    misconceptions=wrong_tables.BIAS,
    alternatives=right.BIAS,
    hints=(
        (
            "Three questions, one after the other: which part of the table, how far away, and "
            "which bucket has that distance? Only then is anything looked up."
        ),
        (
            "If bidirectional: each side has half of the buckets, keys after the query "
            "(relative > 0) start at that half, and the distance is the absolute value. Else: "
            "all buckets, start 0, and the distance is −relative, but at least 0. Work out the "
            "bucket for near and for far distances, and choose between them with torch.where."
        ),
        (
            "With side buckets for one side and exact = side // 2: far = exact + (side − exact)"
            " · log(distance / exact) / log(max_distance / exact). Clamp that to 0 … side − 1 "
            "(distance 0 gives log 0 = −inf), and only then cut off with .long(). Choose near "
            "or far, add where the side starts, look up, and mind the order of the axes."
        ),
    ),
    minutes=20,
    difficulty=4,
    importance=3,
    forbidden=READY_MADE,
)
