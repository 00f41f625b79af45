"""Exercise 02_alignment/encode: the encoder."""

from attend_solutions import alignment

from attend_grader.chapters.ch02_alignment import (
    FINISHED_GRU,
    right,
    wrong_recurrent,
)
from attend_grader.chapters.ch02_alignment import props_recurrent as ch02_recurrent
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="02_alignment",
    title="The encoder",
    goal="Read a sentence in both directions, and keep what was known at every word.",
    reference=alignment.encode,
    properties=ch02_recurrent.ENCODE,
    draws=ch02_recurrent.encode_draws,
    misconceptions=wrong_recurrent.ENCODE,
    alternatives=right.ENCODE,
    hints=(
        (
            "Start with one direction: a state of zeros, a loop over the words, a list that "
            "grows by one state at each word. What changes for the other direction?"
        ),
        (
            "The second loop runs over the words from the last to the first, with the other "
            "cell and a fresh state of zeros. Its list grows in that order too: turn it round "
            "before stacking, so that entry s belongs to word s."
        ),
        (
            "The state of zeros is (B, N): `x.new_zeros(B, N)`, N from the second tensor of a "
            "cell, `cell[1].shape[1]`. In the loop, `h = torch.gru_cell(x[:, s], h, *cell)`, "
            "then append. `torch.stack(states, dim=1)` gives (B, S, N); `torch.cat` puts both "
            "directions side by side along the last axis."
        ),
    ),
    minutes=15,
    difficulty=3,
    importance=4,
    forbidden=FINISHED_GRU,
)
