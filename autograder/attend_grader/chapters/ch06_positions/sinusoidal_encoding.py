"""Exercise 06_positions/sinusoidal_encoding: sines and cosines."""

from attend_solutions import positions

from attend_grader.chapters.ch06_positions import (
    READY_MADE,
    right,
    wrong_absolute,
)
from attend_grader.chapters.ch06_positions import props_absolute as ch06_absolute
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="06_positions",
    title="Sines and cosines",
    goal="Encode any position by pairs of sines and cosines, exactly even at 100,000.",
    reference=positions.sinusoidal_encoding,
    properties=ch06_absolute.SINUSOID,
    draws=ch06_absolute.sinusoid_draws,
    misconceptions=wrong_absolute.SINUSOID,
    alternatives=right.SINUSOID,
    hints=(
        (
            "How large is the table of angles: a row for each position, a column for each "
            "frequency? Which two axes must meet so that each position is multiplied by each "
            "frequency?"
        ),
        (
            "Positions as a column times the frequencies as a row give the angles (T, C/2), in "
            "float64. Sine and cosine of an angle must end up next to each other: put them "
            "side by side on a new last axis, then merge the last two axes."
        ),
        (
            "positions[:, None] times angular_frequencies(width, base); torch.stack of the "
            "sine and the cosine with dim=-1 gives (T, C/2, 2); flatten(-2) makes it (T, C); "
            "convert to float32 at the very end."
        ),
    ),
    minutes=10,
    difficulty=2,
    importance=5,
    forbidden=READY_MADE,
)
