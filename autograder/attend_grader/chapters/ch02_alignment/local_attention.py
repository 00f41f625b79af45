"""Exercise 02_alignment/local_attention: local attention."""

from attend_solutions import alignment

from attend_grader.chapters.ch02_alignment import (
    READY_MADE,
    right,
    wrong_local,
)
from attend_grader.chapters.ch02_alignment import props_places as ch02_places
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="02_alignment",
    title="Local attention",
    goal="Attend to the places near a centre only, and more to the nearer ones.",
    reference=alignment.local_attention,
    properties=ch02_places.LOCAL,
    draws=ch02_places.local_draws,
    misconceptions=wrong_local.LOCAL,
    alternatives=right.LOCAL,
    hints=(
        "How far is every place from every query's centre? Almost all you need follows from "
        "that one table, (..., T, S).",
        (
            "The distances are `torch.arange(S) - centre[..., None]`. Where they are larger "
            "than the window, in either direction, the score must be -inf before the softmax. "
            "The bell multiplies what comes out of it."
        ),
        (
            "`scores.masked_fill(distance.abs() > window, -torch.inf)`, softmax along the last "
            "axis; if `gaussian`, times `torch.exp(-distance**2 / (2 * sigma**2))` with sigma "
            "= window / 2. Do not divide by the new sum. The contexts are these weights @ "
            "values."
        ),
    ),
    minutes=12,
    difficulty=3,
    importance=3,
    forbidden=READY_MADE,
    results=("contexts", "weights"),
)
