"""Exercise 04_self_attention/combine_masks: several masks at once."""

from attend_solutions import self_attention

from attend_grader.chapters.ch04_self_attention import READY_MADE, right, wrong_masks
from attend_grader.chapters.ch04_self_attention import props_masks as ch04_masks
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Several masks at once",
    goal="Allow what every mask allows, with None for a mask that hides nothing.",
    reference=self_attention.combine_masks,
    properties=ch04_masks.COMBINE,
    draws=ch04_masks.combine_draws,
    misconceptions=wrong_masks.COMBINE,
    alternatives=right.COMBINE,
    hints=(
        (
            "In the function, `masks` is a tuple of all that was passed. What is left of it "
            "when you take out every None? What do you return when nothing is left?"
        ),
        (
            "Start with nothing (None) and go through the masks. The first one that is not "
            "None is the result so far; every other one is combined with it by `&`, which "
            "works entry by entry and broadcasts."
        ),
        (
            "combined = None; for each mask that is not None: if combined is None it becomes "
            "the mask, else combined & mask (a new array, not &=). After the loop return "
            "combined."
        ),
    ),
    minutes=6,
    difficulty=2,
    importance=3,
    forbidden=READY_MADE,
)
