"""Exercise 02_alignment/additive_score: additive score."""

from attend_solutions import alignment

from attend_grader.chapters.ch02_alignment import (
    READY_MADE,
    right,
    wrong_scores,
)
from attend_grader.chapters.ch02_alignment import props_scores as ch02_scores
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="02_alignment",
    title="Additive score",
    goal="Compare a state with every encoded word by a small network.",
    reference=alignment.additive_score,
    properties=ch02_scores.ADDITIVE,
    draws=ch02_scores.additive_draws,
    misconceptions=wrong_scores.ADDITIVE,
    alternatives=right.ADDITIVE,
    hints=(
        (
            "Two products make the query's part, A numbers for each query, and the key's "
            "part, A numbers for each key. Which shape must their sum have, so that every "
            "pair has A numbers of its own?"
        ),
        (
            "The sum has the shape (..., T, S, A). Give the query's part an axis of length 1 "
            "for the keys, and the key's part one for the queries; broadcasting does the rest."
        ),
        (
            "`(queries @ w_query)[..., :, None, :]` is (..., T, 1, A); make the key's part "
            "(..., 1, S, A) in the same way. Add, take `torch.tanh`, and multiply by `v` with "
            "`@`: that sums over the last axis."
        ),
    ),
    minutes=12,
    difficulty=3,
    importance=4,
    forbidden=READY_MADE,
)
