"""Exercise 06_positions/apply_rope: rotary embedding."""

from attend_solutions import positions

from attend_grader.chapters.ch06_positions import (
    READY_MADE,
    right,
    wrong_rope,
)
from attend_grader.chapters.ch06_positions import props_rope as ch06_rope
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="06_positions",
    title="Rotary embedding",
    goal="Turn queries and keys, so that their score knows only how far apart they are.",
    reference=positions.apply_rope,
    properties=ch06_rope.ROPE,
    draws=ch06_rope.rope_draws,
    misconceptions=wrong_rope.ROPE,
    alternatives=right.ROPE,
    hints=(
        (
            "By which angle is pair i of the token at position p turned? What are the two "
            "numbers of a pair after a turn by that angle?"
        ),
        (
            "Angles: positions with a new last axis, times the frequencies, both in float64: "
            "(..., T, D/2). Cut x into its two halves along the last axis. The new first half "
            "is first · cos − second · sin; find the other one from the turn of (0, 1)."
        ),
        (
            "angles = positions[..., None].double() * frequencies.double(); cos and sin of "
            "them, each converted with .to(x.dtype); first, second = x.chunk(2, dim=-1); then "
            "torch.cat of the two new halves, both made from the old ones: the second is "
            "second · cos + first · sin."
        ),
    ),
    minutes=15,
    difficulty=3,
    importance=5,
    forbidden=READY_MADE,
)
