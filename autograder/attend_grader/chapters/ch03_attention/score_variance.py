"""Exercise 03_attention/score_variance: variance of the scores."""

from attend_solutions import attention

from attend_grader.chapters.ch03_attention import READY_MADE, right
from attend_grader.chapters.ch03_attention import props_forward as ch03_forward
from attend_grader.chapters.ch03_attention import wrong_attention as wrong
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="03_attention",
    title="Variance of the scores",
    goal="Measure what the derivation predicts: dot products of width D have variance D.",
    reference=attention.score_variance,
    properties=ch03_forward.VARIANCE,
    draws=ch03_forward.variance_draws,
    misconceptions=wrong.VARIANCE,
    alternatives=right.VARIANCE,
    hints=(
        ("Row i of q meets row i of k only: you want n numbers, not an n × n table."),
        (
            "A dot product is an elementwise product followed by a sum. Over which axis must "
            "the sum run, so that n numbers remain?"
        ),
        (
            "Multiply q and k elementwise and sum over the last axis. If `scaled`, divide "
            "these n numbers by √D. Then take their population variance (divide by n, NumPy's"
            " default) and turn it into a Python float."
        ),
    ),
    minutes=6,
    difficulty=1,
    importance=3,
    forbidden=READY_MADE,
)
