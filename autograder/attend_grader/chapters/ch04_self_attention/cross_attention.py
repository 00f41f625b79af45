"""Exercise 04_self_attention/cross_attention: cross-attention."""

from attend_solutions import self_attention

from attend_grader.chapters.ch04_self_attention import READY_MADE, right
from attend_grader.chapters.ch04_self_attention import props_attention as ch04_attention
from attend_grader.chapters.ch04_self_attention import wrong_attention as wrong
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Cross-attention",
    goal="Let one text look at another, as a translator looks at the source.",
    reference=self_attention.cross_attention,
    properties=ch04_attention.CROSS,
    draws=ch04_attention.cross_draws,
    misconceptions=wrong.CROSS,
    alternatives=right.CROSS,
    hints=(
        (
            "Who asks, and where is the answer found? Which of queries, keys and values come "
            "from x, and which from the context?"
        ),
        (
            "It is self_attention with one change: keys and values are made from the context. "
            "The shapes tell you too: w_k and w_v have C_c rows, as wide as a token of the "
            "context."
        ),
        (
            "Scores: attention_scores of x @ w_q and context @ w_k. Weights: masked_softmax of "
            "scores and mask. Output: weights times context @ w_v. Return output and weights."
        ),
    ),
    minutes=6,
    difficulty=1,
    importance=4,
    uses=("masked_softmax", "self_attention"),
    forbidden=READY_MADE,
    results=("output", "weights"),
)
