"""Exercise 04_self_attention/padding_mask: the padding mask."""

from attend_solutions import self_attention

from attend_grader.chapters.ch04_self_attention import READY_MADE, right, wrong_masks
from attend_grader.chapters.ch04_self_attention import props_masks as ch04_masks
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="04_self_attention",
    title="The padding mask",
    goal="Hide what only fills a batch of sentences of different lengths.",
    reference=self_attention.padding_mask,
    properties=ch04_masks.PADDING,
    draws=ch04_masks.padding_draws,
    misconceptions=wrong_masks.PADDING,
    alternatives=right.PADDING,
    hints=(
        (
            "A sentence of 3 tokens in 5 places: which places are tokens when the filling is "
            "on the right? And when it is on the left? What do you compare the place with?"
        ),
        (
            "np.arange(size) holds the places. To compare them with each sentence's length, "
            "the lengths need the shape (B, 1, 1): the result is then (B, 1, S)."
        ),
        (
            "Turn the lengths into an array and give it two more axes with [:, None, None]. "
            "Right: places less than the length. Left: places greater than or equal to size − "
            "length. Return the comparison."
        ),
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    forbidden=READY_MADE,
)
