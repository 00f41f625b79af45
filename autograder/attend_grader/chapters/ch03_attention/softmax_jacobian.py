"""Exercise 03_attention/softmax_jacobian: the softmax's Jacobian."""

from attend_solutions import attention

from attend_grader.chapters.ch03_attention import READY_MADE, right, wrong_backward
from attend_grader.chapters.ch03_attention import props_backward as ch03_backward
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="03_attention",
    title="The softmax's Jacobian",
    goal="Write down how every weight answers to every score: diag(p) − p pᵀ.",
    reference=attention.softmax_jacobian,
    properties=ch03_backward.JACOBIAN,
    draws=ch03_backward.jacobian_draws,
    misconceptions=wrong_backward.JACOBIAN,
    alternatives=right.JACOBIAN,
    hints=(
        (
            "Two terms: one that lives on the diagonal only, and one that is the product of "
            "every weight with every weight. The argument is already p: no exponential is "
            "needed."
        ),
        (
            "All products p_i p_j come from broadcasting: p as a column (..., S, 1) against p"
            " as a row (..., 1, S). For the diagonal, `np.diag` handles one row only; an "
            "identity matrix broadcasts over all leading axes."
        ),
        (
            "Add an axis at the end of p to get the column, one before the last to get the "
            "row. The diagonal term is the column times an S×S identity (which keeps p_i at "
            "(i, i)); subtract column times row from it."
        ),
    ),
    minutes=12,
    difficulty=3,
    importance=4,
    forbidden=READY_MADE,
)
