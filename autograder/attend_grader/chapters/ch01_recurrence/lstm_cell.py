"""Exercise 01_recurrence/lstm_cell: A step of the LSTM."""

from attend_solutions import recurrence

from attend_grader.chapters.ch01_recurrence import (
    READY_MADE,
    right,
    wrong_lstm,
)
from attend_grader.chapters.ch01_recurrence import props_gates as ch01_gates
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="01_recurrence",
    title="A step of the LSTM",
    goal="Write the cell with three gates and a memory that is added to, not overwritten.",
    reference=recurrence.lstm_cell,
    properties=ch01_gates.LSTM,
    draws=ch01_gates.lstm_draws,
    misconceptions=wrong_lstm.LSTM,
    alternatives=right.LSTM,
    hints=(
        (
            "The sums are those of rnn_step before its tanh, four times as wide. Which four "
            "things do they decide, in which order, and which of them is no gate?"
        ),
        (
            "np.split(sums, 4, axis=-1) gives the blocks i, f, g, o. Sigmoid for the three "
            "gates, tanh for g. The new memory first, then the new state from it."
        ),
        (
            "new_c is sigmoid(f) times c plus sigmoid(i) times tanh(g), number by number; "
            "new_h is sigmoid(o) times tanh(new_c). Return new_h, new_c."
        ),
    ),
    minutes=12,
    difficulty=2,
    importance=4,
    forbidden=READY_MADE,
    results=("new_h", "new_c"),
)
