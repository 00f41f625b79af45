"""Exercise 03_attention/scaled_dot_product_attention: attention."""

from attend_solutions import attention

from attend_grader.chapters.ch03_attention import READY_MADE, right
from attend_grader.chapters.ch03_attention import props_forward as ch03_forward
from attend_grader.chapters.ch03_attention import wrong_attention as wrong
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="03_attention",
    title="Attention",
    goal="Build the soft look-up: scores, weights, and the weighted mean of the values.",
    reference=attention.scaled_dot_product_attention,
    properties=ch03_forward.ATTENTION,
    draws=ch03_forward.attention_draws,
    misconceptions=wrong.ATTENTION,
    alternatives=right.ATTENTION,
    hints=(
        (
            "You have already written two thirds of it. Which two functions take you from q "
            "and k to weights?"
        ),
        (
            "Each query has its own distribution over the keys: the weights must sum to 1 "
            "along the key axis, which is the last. The output row of a query is its weights "
            "times the rows of v."
        ),
        (
            "Call attention_scores on q and k (scaled), pass the result to softmax along the "
            "last axis, and matrix-multiply the weights (..., T, S) with v (..., S, D_v). "
            "Return the product first, the weights second."
        ),
    ),
    minutes=8,
    difficulty=1,
    importance=5,
    uses=("attention_scores", "softmax"),
    forbidden=READY_MADE,
    results=("output", "weights"),
)
