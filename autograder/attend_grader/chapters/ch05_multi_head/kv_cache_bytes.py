"""Exercise 05_multi_head/kv_cache_bytes: the size of the cache."""

from attend_solutions import multi_head

from attend_grader.chapters.ch05_multi_head import (
    READY_MADE,
    right,
    wrong_bytes,
)
from attend_grader.chapters.ch05_multi_head import props_latent as ch05_latent
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="05_multi_head",
    title="The size of the cache",
    goal="Count the bytes of keys and values that a model keeps.",
    reference=multi_head.kv_cache_bytes,
    properties=ch05_latent.BYTES,
    draws=ch05_latent.bytes_draws,
    misconceptions=wrong_bytes.BYTES,
    alternatives=right.BYTES,
    hints=(
        (
            "Count numbers first, bytes at the end. How many numbers does one token need in "
            "one layer?"
        ),
        (
            "One token in one layer: G keys and G values of D numbers each; or, where there is"
            " a latent, only its numbers. Multiply by the tokens that are kept, the layers and"
            " the sentences."
        ),
        (
            "Tokens kept: min(tokens, window), or all where window is None. Multiply all by "
            "bits, divide by 8 once, at the end, and round up: (n + 7) // 8 is an int."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    forbidden=READY_MADE,
)
