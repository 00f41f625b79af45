"""Exercise 03_attention/softmax: softmax."""

from attend_solutions import attention

from attend_grader.chapters.ch03_attention import READY_MADE, right, wrong_softmax
from attend_grader.chapters.ch03_attention import props_softmax as ch03_softmax
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="03_attention",
    title="Softmax",
    goal="Turn any scores into weights that are positive and sum to 1, without overflow.",
    reference=attention.softmax,
    properties=ch03_softmax.SOFTMAX,
    draws=ch03_softmax.softmax_draws,
    misconceptions=wrong_softmax.SOFTMAX,
    alternatives=right.SOFTMAX,
    hints=(
        (
            "Follow the worked number: which score did you subtract from all of them first, "
            "and why did that not change the weights?"
        ),
        (
            "Three steps, all along `axis`: shift, exponentiate, normalise. The maximum and "
            "the sum each remove an axis; ask NumPy to keep it with length 1, so that the "
            "result broadcasts back against the scores."
        ),
        (
            "Make a new float array rather than changing the input: take away each slice's "
            "own maximum (`axis=axis, keepdims=True`), take `np.exp` of what is left, and "
            "divide by the sum of those exponentials along the same axis, kept in the same "
            "way."
        ),
    ),
    minutes=10,
    difficulty=2,
    importance=5,
    forbidden=READY_MADE,
)
