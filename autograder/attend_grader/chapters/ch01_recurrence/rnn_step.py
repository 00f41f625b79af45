"""Exercise 01_recurrence/rnn_step: one step."""

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
    title="One step",
    goal="Make the next state from an input and the state before it.",
    reference=recurrence.rnn_step,
    properties=ch01_forward.STEP,
    draws=ch01_forward.step_draws,
    misconceptions=wrong.STEP,
    alternatives=right.STEP,
    hints=(
        (
            "Three things are added before anything is squeezed: one comes from the input, "
            "one from the old state, one is always the same. Which are they?"
        ),
        (
            "Rows of x are sequences, and so are rows of h. `x @ w_x` has the shape (B, N),"
            " and so has `h @ w_h`; the bias, of shape (N,), broadcasts over the batch."
        ),
        "Return np.tanh of the sum of x @ w_x, h @ w_h and b, all three inside the brackets.",
    ),
    minutes=6,
    difficulty=1,
    importance=5,
    forbidden=READY_MADE,
)
