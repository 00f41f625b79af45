"""Exercise 04_self_attention/self_attention: self-attention."""

from attend_solutions import self_attention

from attend_grader.chapters.ch04_self_attention import READY_MADE, right
from attend_grader.chapters.ch04_self_attention import props_attention as ch04_attention
from attend_grader.chapters.ch04_self_attention import wrong_attention as wrong
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Self-attention",
    goal="Let the tokens of a sentence look at each other, as far as a mask allows.",
    reference=self_attention.self_attention,
    properties=ch04_attention.SELF,
    draws=ch04_attention.self_draws,
    misconceptions=wrong.SELF,
    alternatives=right.SELF,
    hints=(
        (
            "Chapter 03's attention needs queries, keys and values. Which three products make "
            "them from x, and which of them does each matrix give?"
        ),
        (
            "`x @ w_q` projects every token of every sentence at once. Compare queries and "
            "keys with attention_scores, which divides by √D. Then your masked_softmax takes "
            "the place of softmax."
        ),
        (
            "Scores: attention_scores of x @ w_q and x @ w_k. Weights: masked_softmax of the "
            "scores and the mask (it knows what None means). Output: weights times x @ w_v. "
            "Return the output first, the weights second."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    uses=("masked_softmax",),
    forbidden=READY_MADE,
    results=("output", "weights"),
)
