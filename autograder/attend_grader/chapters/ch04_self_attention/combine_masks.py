"""Exercise 04_self_attention/combine_masks: several masks at once.

A property of its own asks for booleans; the others take 1 and 0 too, so that this slip costs its
own points only.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
from attend_solutions import self_attention
from attend_solutions.types import Mask

from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.mask_properties import agree_mask
from attend_grader.checks.subject import Subject


def _masks(rng: np.random.Generator, *shapes: tuple[int, ...]) -> tuple[Mask, ...]:
    return tuple(rng.random(shape) < 0.6 for shape in shapes)


def _each_hides(masks: tuple[Mask, ...]) -> tuple[Mask, ...]:
    """The same masks, each of which hides a place that all the others show."""
    for place in range(len(masks)):
        for number, mask in enumerate(masks):
            mask.flat[place] = number != place
    return masks


def _agree(
    probe: Probe,
    subject: Subject,
    masks: tuple[Mask | None, ...],
    why: str = "",
    boolean: bool = False,
) -> None:
    """Hold the subject to the reference; messages call the masks mask_1, mask_2, …"""
    named = replace(probe, names=tuple(f"mask_{i + 1}" for i in range(len(masks))))
    agree_mask(named, subject, *masks, why=why, boolean=boolean)


def _worked(subject: Subject, probe: Probe) -> None:
    """All four cases of two masks."""
    _agree(probe, subject, (np.array([[1, 1], [0, 0]], bool), np.array([[1, 0], [1, 0]], bool)))


def _all(subject: Subject, probe: Probe) -> None:
    for count in (2, 1, 3, 5, 260):
        shape = (3, 4) if count < 12 else (9, 30)
        masks = _masks(probe.rng, *[shape] * count)
        masks = tuple(mask | (probe.rng.random(shape) < 0.5) for mask in masks)
        _agree(probe, subject, _each_hides(masks), f"{count} mask{'s' if count > 1 else ''}")
    (some,) = _masks(probe.rng, (3, 4))
    everything = np.ones((3, 4), bool)
    for one, other, told in (
        (some, ~everything, "the second mask hides everything"),
        (~everything, some, "the first mask hides everything"),
        (everything, some, "the first mask hides nothing"),
        (~everything, ~everything, "both masks hide everything"),
    ):
        _agree(probe, subject, (one, other), told)
    for count in (255, 256):
        _agree(probe, subject, (~everything,) * count, f"{count} masks hide everything")


def _none(subject: Subject, probe: Probe) -> None:
    one, other = _masks(probe.rng, (3, 3), (3, 3))
    hides = np.zeros((3, 3), bool)
    for masks in (
        (None, one),
        (one, None),
        (None, one, None, other),
        (None, hides),
        (None, ~hides),
    ):
        many = "a mask that hides everything" if masks[-1] is hides else "a mask"
        told = ", ".join("None" if mask is None else many for mask in masks)
        _agree(probe, subject, masks, told)


def _nothing(subject: Subject, probe: Probe) -> None:
    _agree(probe, subject, _masks(probe.rng, (2, 3), (2, 3)), "two masks")
    for count in (1, 2, 0):
        masks = (None,) * count
        if probe.call(subject, *masks).value is not None:
            told = f"called with {' and '.join(['None'] * count) or 'no mask'}"
            raise probe.miss(
                f"{told}, your function returns something other than None. Nothing is hidden "
                "then, and None says so.",
                *masks,
            )


def _broadcast(subject: Subject, probe: Probe) -> None:
    for shapes in (
        ((3, 4), (2, 1, 4)),
        ((2, 1, 4), (3, 4)),
        ((4, 4), (4, 1, 4)),
        ((3, 1), (4,), (2, 3, 4)),
    ):
        why = "shapes " + " and ".join(map(str, shapes))
        masks = _masks(probe.rng, *shapes)
        masks[0].flat[0] = False
        _agree(probe, subject, masks, why)
    none, one = np.ones((0, 4), bool), np.ones((1, 4), bool)
    _agree(probe, subject, (none, one), "masks of no rows, and of one")
    small, large = _masks(probe.rng, (4,), (2, 3, 4))
    masks = (small & ~small, large)
    _agree(probe, subject, masks, "a mask (4,) that hides everything, and one (2, 3, 4)")
    masks = (small, ~small, large)
    _agree(probe, subject, masks, "two masks that leave nothing, and a larger one")
    masks = (small, large | ~large)
    _agree(probe, subject, masks, "a mask (4,), and one (2, 3, 4) that hides nothing")


def _booleans(subject: Subject, probe: Probe) -> None:
    masks = _each_hides(_masks(probe.rng, (3, 4), (3, 4), (1, 4)))
    for count in (3, 1):
        why = f"{count} mask{'s' if count > 1 else ''}"
        _agree(probe, subject, masks[:count], why, boolean=True)


def draws(rng: np.random.Generator) -> list[Call]:
    """Two, three, with None, only None, none, broadcasting."""
    one, two, three = _masks(rng, (4, 4), (4, 4), (4, 4))
    for place, values in enumerate(((1, 1, 0), (0, 1, 1), (1, 0, 0), (0, 0, 1), (1, 1, 1))):
        for mask, value in zip((one, two, three), values, strict=True):
            mask.flat[place] = bool(value)
    some = ((one, two), (one, None, two), (one, two, three), (None, three), (None, None), ())
    row = rng.permutation([True, False])  # stored as its column is
    several = (*some, _masks(rng, (3, 4), (2, 1, 4)), (one,), (row, row[:, None]))
    return [Call(masks) for masks in several]


ASK = "if mask is not None:"
STEP = "combined = mask if combined is None else combined & mask"

SLIPS = (
    Slip(
        "or instead of and",
        ("combined & mask", "combined | mask"),
        "What any mask allows is allowed. Allow only what all of them allow: `&` (and), not `|` "
        '(or) or `+`, which is "or" for booleans.',
    ),
    Slip(
        "the first two masks only",
        ("in masks", "in masks[:2]"),
        "Only the first two masks count. There may be any number: go through all of `masks`.",
    ),
    Slip(
        "the last mask only",
        (STEP, "combined = mask"),
        "Only the last mask that is not None counts. Combine each with what you have so far, by "
        "`&`.",
    ),
    Slip(
        "the first mask only",
        (STEP, "return mask"),
        "Only the first mask that is not None counts. Is the `return` inside the loop?",
    ),
    Slip(
        "one None, and all is lost",
        (ASK, "if mask is None:\n            return None\n        else:"),
        "One None makes the whole result None, and all the other masks are lost. Leave None out "
        "and combine the rest.",
    ),
    Slip(
        "stops at the first None",
        (ASK, "if mask is None:\n            break\n        else:"),
        "Only the masks before the first None count. None hides nothing: leave it out, and go on "
        "with those after it.",
    ),
)


def by_reduce(*masks):
    """functools.reduce."""
    given = [mask for mask in masks if mask is not None]
    return reduce(np.logical_and, given) if given else None


def stacked(*masks):
    """Broadcast, stack, all."""
    given = [mask for mask in masks if mask is not None]
    if len(given) == 0:
        return None
    return np.stack(np.broadcast_arrays(*given)).all(axis=0)


EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Several masks at once",
    goal="Allow what every mask allows, with None for a mask that hides nothing.",
    reference=self_attention.combine_masks,
    contract=Contract(
        numpy_only=True,
        views=True,
        arguments_unchanged=True,
        says=("The result holds booleans.",),
    ),
    properties=(
        Property("a hand-worked example: two masks of 2 × 2", 1, _worked),
        Property("any number of masks: what all of them allow", 1, _all),
        Property("None hides nothing", 1, _none),
        Property("nothing but None, or nothing at all, gives None", 1, _nothing),
        Property("shapes broadcast: (T, S) with (B, 1, S)", 1, _broadcast),
        Property("made of booleans", 1, _booleans),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_reduce, stacked),
    hints=(
        "In the function, `masks` is a tuple of all that was passed. What is left of it "
        "when you take out every None? What do you return when nothing is left?",
        "Start with nothing (None) and go through the masks. The first one that is not "
        "None is the result so far; every other one is combined with it by `&`, which "
        "works entry by entry and broadcasts.",
        "combined = None; for each mask that is not None: if combined is None it becomes "
        "the mask, else combined & mask (a new array, not &=). After the loop return "
        "combined.",
    ),
    minutes=6,
    difficulty=2,
    importance=3,
)
