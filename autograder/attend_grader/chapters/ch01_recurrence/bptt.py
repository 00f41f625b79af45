"""Exercise 01_recurrence/bptt: back through time."""

from attend_solutions import recurrence

from attend_grader.chapters.ch01_recurrence import (
    READY_MADE,
    right,
    wrong_bptt,
)
from attend_grader.chapters.ch01_recurrence import props_backward as ch01_backward
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="01_recurrence",
    title="Back through time",
    goal="Carry a gradient back through every step, to the weights, the inputs and the start.",
    reference=recurrence.bptt,
    properties=ch01_backward.BPTT,
    draws=ch01_backward.bptt_draws,
    misconceptions=wrong_bptt.BPTT,
    alternatives=right.BPTT,
    hints=(
        (
            "In what two ways does the loss depend on the state at step t? One way is given"
            " to you in grad_states. The other is known only after step t + 1 has been "
            "worked on."
        ),
        (
            "Walk from the last step to the first with one array in hand, `carried` of "
            "shape (B, N), zeros at the beginning: what comes back from later steps. At "
            "each step add grad_states[:, t], multiply by tanh's slope 1 − h², and you have"
            " the gradient of the sums a_t. All five results follow from it, as in the "
            "table."
        ),
        (
            "With da for the gradient of the sums at step t: grad_x[:, t] is da @ w_x.T; to"
            " grad_w_x add x[:, t].T @ da; to grad_w_h add the state before, transposed, @ "
            "da (that is states[:, t - 1], but h0 where t is 0); to grad_b add da summed "
            "over axis 0; and carried becomes da @ w_h.T. After the loop, carried is "
            "grad_h0."
        ),
    ),
    minutes=25,
    difficulty=4,
    importance=5,
    forbidden=(*READY_MADE, "rnn_forward"),
    results=("grad_x", "grad_h0", "grad_w_x", "grad_w_h", "grad_b"),
)
