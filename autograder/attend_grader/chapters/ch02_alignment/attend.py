"""Exercise 02_alignment/attend: attend."""

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
    title="Attend",
    goal="Turn scores into weights, and the weights into one context for each query.",
    reference=alignment.attend,
    properties=ch02_scores.ATTEND,
    draws=ch02_scores.attend_draws,
    misconceptions=wrong_scores.ATTEND,
    alternatives=right.ATTEND,
    hints=(
        "Each row of scores belongs to one query. Along which axis do its weights sum to 1?",
        "The softmax runs along the last axis. A context is a sum over the same axis: weight "
        "times value, for every key.",
        (
            "`torch.softmax(scores, dim=-1)` gives the weights (..., T, S). Multiplied with "
            "the values (..., S, E) by `@` they give the contexts. Return contexts, then "
            "weights."
        ),
    ),
    minutes=6,
    difficulty=1,
    importance=5,
    forbidden=READY_MADE,
    results=("contexts", "weights"),
)
