"""Exercise 04_self_attention/masked_softmax: softmax under a mask."""

from attend_solutions import self_attention

from attend_grader.chapters.ch04_self_attention import READY_MADE, right, wrong_softmax
from attend_grader.chapters.ch04_self_attention import props_softmax as ch04_softmax
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Softmax under a mask",
    goal="Give no weight to hidden places, and none at all where everything is hidden.",
    reference=self_attention.masked_softmax,
    properties=ch04_softmax.MASKED,
    draws=ch04_softmax.masked_draws,
    misconceptions=wrong_softmax.MASKED,
    alternatives=right.MASKED,
    hints=(
        (
            "Which score has an exponential of exactly 0? Put it where the mask is False, and "
            "keep all other scores. What then happens in a row where every score is that one?"
        ),
        (
            "`np.where(mask, a, b)` takes a where the mask is True and b elsewhere, and "
            "broadcasts. Fill first, and find the largest score only then. In an empty row the "
            "largest is −inf and the sum of exponentials is 0: swap each for a harmless number "
            "before you subtract and divide."
        ),
        (
            "Make the scores floats; if there is a mask, replace what it hides by -np.inf. "
            "Take each row's maximum (axis=-1, keepdims=True) and put 0 where it is -np.inf. "
            "Exponentiate the scores minus that. Sum the rows (keepdims), put 1 where the sum "
            "is 0, and divide."
        ),
    ),
    minutes=12,
    difficulty=3,
    importance=5,
    forbidden=READY_MADE,
)
