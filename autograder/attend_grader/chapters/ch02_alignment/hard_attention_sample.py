"""Exercise 02_alignment/hard_attention_sample: hard attention."""

from attend_solutions import alignment

from attend_grader.chapters.ch02_alignment import props_places as ch02_places
from attend_grader.chapters.ch02_alignment import (
    right,
    wrong_hard,
)
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="02_alignment",
    title="Hard attention",
    goal="Draw one place instead of mixing all, and estimate the gradient from the reward.",
    reference=alignment.hard_attention_sample,
    properties=ch02_places.HARD,
    draws=ch02_places.hard_draws,
    misconceptions=wrong_hard.HARD,
    alternatives=right.HARD,
    hints=(
        (
            "Lay the weights end to end on a line from 0 to 1. Where does each piece end, and "
            "how many pieces end at u or before it?"
        ),
        (
            "The ends are `weights.cumsum(dim=-1)`; how many of them are ≤ u is the place "
            "(not beyond S - 1). For the estimate you need its reward and the row: 1 at the "
            "place, 0 elsewhere, minus the weights."
        ),
        (
            "Compare the ends with `uniforms[..., None]`, sum over the last axis, clamp. "
            "`rewards.gather(-1, places[..., None])` picks one reward for each query and "
            "keeps the axis. The row of zeros and a one is `torch.arange(S) == places[..., "
            "None]`, turned into the weights' dtype. (reward - baseline) times (row - weights)."
        ),
    ),
    minutes=18,
    difficulty=4,
    importance=3,
    forbidden=("torch.multinomial", "torch.distributions"),
    results=("places", "gradients"),
)
