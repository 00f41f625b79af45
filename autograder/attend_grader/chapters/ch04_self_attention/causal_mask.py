"""Exercise 04_self_attention/causal_mask: the causal mask."""

from attend_solutions import self_attention

from attend_grader.chapters.ch04_self_attention import READY_MADE, right, wrong_masks
from attend_grader.chapters.ch04_self_attention import props_masks as ch04_masks
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="04_self_attention",
    title="The causal mask",
    goal="Hide the future, for a whole text and for the last few places of one.",
    reference=self_attention.causal_mask,
    properties=ch04_masks.CAUSAL,
    draws=ch04_masks.causal_draws,
    misconceptions=wrong_masks.CAUSAL,
    alternatives=right.CAUSAL,
    hints=(
        (
            "Write down the mask for 2 queries and 5 keys by hand. The queries are the last "
            "two places: at which place does query 0 stand, counted from 0?"
        ),
        (
            "Query t stands at place t + keys − queries. It may look at key s if s is not "
            "after that place. Comparing a column of places with a row of places gives the "
            "whole table."
        ),
        (
            "If keys is None, it equals queries. Make a column with np.arange(queries)[:, "
            "None], add keys − queries, and compare: the row np.arange(keys) must be less than "
            "or equal to it. The comparison is the mask."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    forbidden=READY_MADE,
)
