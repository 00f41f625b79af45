"""Exercise 01_recurrence/rnn_forward: A whole sequence."""

from attend_solutions import recurrence

from attend_grader.chapters.ch01_recurrence import (
    READY_MADE,
    right,
)
from attend_grader.chapters.ch01_recurrence import props_forward as ch01_forward
from attend_grader.chapters.ch01_recurrence import wrong_forward as wrong
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="01_recurrence",
    title="A whole sequence",
    goal="Apply the step along a sequence and keep every state.",
    reference=recurrence.rnn_forward,
    properties=ch01_forward.FORWARD,
    draws=ch01_forward.forward_draws,
    misconceptions=wrong.FORWARD,
    alternatives=right.FORWARD,
    hints=(
        "What does step t need that only step t − 1 can give it? Keep that in a variable.",
        (
            "Time is axis 1 of x: `x[:, t]` holds the inputs of all sequences at step t, of"
            " shape (B, C). Put each new state into a list, and stack the list at the end."
        ),
        (
            "Start with h = h0 and an empty list. For t in range(x.shape[1]): let h be "
            "rnn_step of x[:, t] and h, and append it. Then np.stack the list with axis=1, "
            "which makes (B, T, N)."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    uses=("rnn_step",),
    forbidden=READY_MADE,
)
