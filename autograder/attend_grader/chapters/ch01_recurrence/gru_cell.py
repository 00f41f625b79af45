"""Exercise 01_recurrence/gru_cell: A step of the GRU."""

from attend_solutions import recurrence

from attend_grader.chapters.ch01_recurrence import (
    READY_MADE,
    right,
    wrong_gru,
)
from attend_grader.chapters.ch01_recurrence import props_gates as ch01_gates
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="01_recurrence",
    title="A step of the GRU",
    goal="Write the cell with two gates that needs no second memory.",
    reference=recurrence.gru_cell,
    properties=ch01_gates.GRU,
    draws=ch01_gates.gru_draws,
    misconceptions=wrong_gru.GRU,
    alternatives=right.GRU,
    hints=(
        (
            "Why does this cell have two biases, where the LSTM made do with one? Look at "
            "where the reset gate stands."
        ),
        (
            "Keep what comes from the input, x @ w_x + b_x, and what comes from the state, "
            "h @ w_h + b_h, apart, and split each into three blocks r, z, n."
        ),
        (
            "r and z are sigmoids of the two parts added. The candidate is tanh of the "
            "input's part plus r times the state's part. Return (1 − z) times the candidate"
            " plus z times h."
        ),
    ),
    minutes=12,
    difficulty=2,
    importance=4,
    forbidden=READY_MADE,
)
