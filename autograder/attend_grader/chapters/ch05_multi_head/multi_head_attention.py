"""Exercise 05_multi_head/MultiHeadAttention: multi-head attention."""

from attend_solutions import multi_head

from attend_grader.chapters.ch05_multi_head import (
    READY_MADE,
    right,
    wrong_attention,
)
from attend_grader.chapters.ch05_multi_head import props_heads as ch05_heads
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Multi-head attention",
    goal="Let every head look for itself, then mix what they found.",
    reference=multi_head.MultiHeadAttention,
    properties=ch05_heads.HEADS,
    draws=ch05_heads.heads_draws,
    misconceptions=wrong_attention.HEADS,
    alternatives=right.HEADS,
    hints=(
        (
            "Follow one token through the five steps at the head of section 4: three "
            "projections, then heads, then attention, then one token again, then the last "
            "projection. Which of your two functions stands where?"
        ),
        (
            "Project first, split afterwards: split_heads(self.query(x), self.heads), and the "
            "same with key and value. masked_attention works on (B, H, T, D) as it is, since "
            "H is one more leading axis; hand it the mask."
        ),
        (
            "masked_attention(q, k, v, mask) returns two results: what the heads found, (B, H,"
            " T, D), and the weights. Merge the first, send it through self.output, and return"
            " that and the weights."
        ),
    ),
    minutes=15,
    difficulty=3,
    importance=5,
    uses=("split_heads", "merge_heads"),
    forbidden=READY_MADE,
    results=("output", "weights"),
)
