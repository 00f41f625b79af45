"""Exercise 02_alignment/attention_decoder_step: one step of the decoder."""

from attend_solutions import alignment

from attend_grader.chapters.ch02_alignment import (
    FINISHED_GRU,
    READY_MADE,
    right,
    wrong_recurrent,
)
from attend_grader.chapters.ch02_alignment import props_recurrent as ch02_recurrent
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="02_alignment",
    title="One step of the decoder",
    goal="Look back with the state, then go on to the next state.",
    reference=alignment.attention_decoder_step,
    properties=ch02_recurrent.STEP,
    draws=ch02_recurrent.step_draws,
    misconceptions=wrong_recurrent.STEP,
    alternatives=right.STEP,
    hints=(
        "Follow the order of the picture: which three things are made, one after the other, "
        "and what does each of them need?",
        (
            "The score functions take queries (B, T, N). Here T = 1: give the state an axis, "
            "`state[:, None]`, and take it away from context and weights afterwards, "
            "`[:, 0]`."
        ),
        (
            "Scores from multiplicative_score(state with its axis, encoded, weight); context "
            "and weights from attend(scores, encoded), both without the axis; then "
            "`torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)`. Return "
            "the new state, the context, the weights."
        ),
    ),
    minutes=12,
    difficulty=3,
    importance=5,
    uses=("multiplicative_score", "attend"),
    forbidden=(*READY_MADE, *FINISHED_GRU),
    results=("state", "context", "weights"),
)
