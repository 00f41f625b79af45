"""Exercise 05_multi_head/LatentAttention: latent attention."""

from attend_solutions import multi_head

from attend_grader.chapters.ch05_multi_head import (
    READY_MADE,
    right,
    wrong_latent,
)
from attend_grader.chapters.ch05_multi_head import props_latent as ch05_latent
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Latent attention",
    goal="Make all keys and values from one short latent a token; then do without making them.",
    reference=multi_head.LatentAttention,
    properties=ch05_latent.LATENT,
    draws=ch05_latent.latent_draws,
    misconceptions=wrong_latent.LATENT,
    alternatives=right.LATENT,
    hints=(
        (
            "Write forward first: it is multi-head attention, except that keys and values come"
            " from self.compress(x) instead of from x. For forward_absorbed, write one score "
            "as a product of row vectors and move the brackets."
        ),
        (
            "q · k = q W_ukᵀ · c: multiply the query by the head's stored weight, (D, R), and "
            "it is R wide, as the latents are. So all heads can meet the same latents, (B, 1, "
            "T, R), as keys and as values. Mind the scale: it belongs to width D, not R."
        ),
        (
            "self.key.weight.unflatten(0, (self.heads, -1)) is (H, D, R); q (B, H, T, D) @ "
            "that gives the new queries. Attend with keys = values = latents[:, None] and "
            "scale = D ** -0.5. What comes back is (B, H, T, R): multiply it by the value "
            "matrix of each head, transposed to (H, R, D), merge, and project."
        ),
    ),
    minutes=25,
    difficulty=4,
    importance=4,
    uses=("split_heads", "merge_heads"),
    forbidden=READY_MADE,
    results=("output", "weights"),
)
