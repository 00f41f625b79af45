"""Exercise 01_recurrence/gradient_norms: how far a gradient reaches."""

from attend_solutions import recurrence

from attend_grader.chapters.ch01_recurrence import (
    READY_MADE,
    right,
    wrong_norms,
)
from attend_grader.chapters.ch01_recurrence import props_backward as ch01_backward
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="01_recurrence",
    title="How far a gradient reaches",
    goal="Measure how strongly the last state depends on each state before it.",
    reference=recurrence.gradient_norms,
    properties=ch01_backward.NORMS,
    draws=ch01_backward.norms_draws,
    misconceptions=wrong_norms.NORMS,
    alternatives=right.NORMS,
    hints=(
        (
            "Back-propagation takes one vector back through the steps. What would you have "
            "to take back to get the whole matrix ∂h_T/∂h_t, and what is it at t = T?"
        ),
        (
            "Start from the identity, one for each sequence: (B, N, N). Walk from the last "
            "step to the first. Note the norm of what you hold, then take it one step back:"
            " its columns times the slopes, then the product with w_h.T."
        ),
        (
            "For t from T − 1 down to 0: norms[:, t] = np.linalg.norm(jacobian, ord=2, "
            "axis=(1, 2)); then multiply jacobian by (1 − states[:, t]**2)[:, None, :] and "
            "then, with @, by w_h.T."
        ),
    ),
    minutes=15,
    difficulty=3,
    importance=4,
    forbidden=READY_MADE,
)
