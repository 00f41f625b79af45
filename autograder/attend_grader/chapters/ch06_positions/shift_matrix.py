"""Exercise 06_positions/shift_matrix: A shift is a rotation."""

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
    title="A shift is a rotation",
    goal="Build the one matrix that moves every encoding by the same offset.",
    reference=positions.shift_matrix,
    properties=ch06_absolute.SHIFT,
    draws=ch06_absolute.shift_draws,
    misconceptions=wrong_absolute.SHIFT,
    alternatives=right.SHIFT,
    hints=(
        (
            "Write sin(a + b) and cos(a + b) with a = pθ and b = offset · θ. Which numbers "
            "multiply sin(pθ) and cos(pθ)? Do they depend on p?"
        ),
        (
            "For each pair you get a 2 × 2 block with cos(offset · θ) on its diagonal, the "
            "sine in the upper right and minus the sine in the lower left. The blocks lie "
            "along the diagonal of a matrix that is 0 elsewhere."
        ),
        (
            "Angles: offset times angular_frequencies(width, base). Stack cos, sin, −sin, cos "
            "on a new last axis, unflatten it to (2, 2), and hand the blocks to "
            "torch.block_diag with a star. Or fill a matrix of zeros in a loop over pairs. "
            "Convert to float32 at the end."
        ),
    ),
    minutes=12,
    difficulty=3,
    importance=4,
    forbidden=READY_MADE,
)
