"""Exercise 05_multi_head/GroupedQueryAttention: grouped-query attention."""

from attend_solutions import multi_head

from attend_grader.chapters.ch05_multi_head import (
    READY_MADE,
    right,
    wrong_shared,
)
from attend_grader.chapters.ch05_multi_head import props_shared as ch05_shared
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Grouped-query attention",
    goal="Write attention whose heads share keys and values, with MHA and MQA as its ends.",
    reference=multi_head.GroupedQueryAttention,
    properties=ch05_shared.GROUPED,
    draws=ch05_shared.grouped_draws,
    misconceptions=wrong_shared.GROUPED,
    alternatives=right.GROUPED,
    hints=(
        (
            "It is multi-head attention with one difference. How many heads do queries have, "
            "and how many have keys and values?"
        ),
        (
            "self.key(x) is only G·D wide: split it into self.kv_heads heads, not into "
            "self.heads. Before you attend, queries and keys must have equally many heads."
        ),
        (
            "Split the queries into self.heads, keys and values into self.kv_heads; repeat_kv "
            "both by self.heads // self.kv_heads; the rest is as in MultiHeadAttention."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    uses=("split_heads", "merge_heads", "repeat_kv"),
    forbidden=READY_MADE,
    results=("output", "weights"),
)
