"""Exercise 04_self_attention/permutation_matrix_test: moving the tokens."""

from attend_solutions import self_attention

from attend_grader.chapters.ch04_self_attention import READY_MADE, right
from attend_grader.chapters.ch04_self_attention import props_permutation as ch04_permutation
from attend_grader.chapters.ch04_self_attention import wrong_attention as wrong
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Moving the tokens",
    goal="Find out whether self-attention notices in which order the tokens come.",
    reference=self_attention.permutation_matrix_test,
    properties=ch04_permutation.PERMUTATION,
    draws=ch04_permutation.permutation_draws,
    misconceptions=wrong.PERMUTATION,
    alternatives=right.PERMUTATION,
    hints=(
        (
            "Three runs of self_attention: on x, on P x with the same mask, on P x with the "
            "mask moved. Which of them gets P applied to its output?"
        ),
        (
            "Row i of P has its only 1 in column order[i]. `np.eye(T)` has a row for every "
            "place: take its rows in that order. P M Pᵀ is `p @ mask @ p.T`; it comes out in "
            "numbers, and a mask is made of booleans."
        ),
        (
            "P is np.eye(T) indexed with the order. First result: P times the output of x "
            "under the mask. Second: the output of P @ x under the mask. Third: the output of "
            "P @ x under P @ mask @ P.T, compared with 0 to get booleans; without a mask it "
            "stays None. self_attention returns two things: take the output."
        ),
    ),
    minutes=12,
    difficulty=3,
    importance=3,
    uses=("masked_softmax", "self_attention"),
    forbidden=READY_MADE,
    results=("expected", "mask_stays", "mask_moves"),
)
