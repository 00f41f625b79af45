"""Exercise 04_self_attention/padding_mask: hide what fills a batch.

Properties of their own ask for booleans and for the axis of length 1; the others take 1 and 0, and
do without the axis, so that these slips cost their own points only.
"""

from __future__ import annotations

import numpy as np
from attend_solutions import self_attention

from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip, Test
from attend_grader.checks.mask_properties import agree_mask
from attend_grader.checks.subject import Subject


def _worked(subject: Subject, probe: Probe) -> None:
    want = np.array([[[1, 1, 0, 0]], [[1, 1, 1, 0]]], bool)
    agree_mask(probe, subject, [2, 3], 4, want=want, squeezed=True)


def _side(side: str) -> Test:
    """The filling stands on one side: from none to all tokens, and more than eight bits count."""

    def test(subject: Subject, probe: Probe) -> None:
        cases = [(probe.rng.permutation(size + 1).tolist(), size) for size in (4, 7, 1)]
        if side == "left":
            cases += [([2, 4, 0], 5)]  # room on the left of all sentences
        for lengths, size in (*cases, ([300, 256, 130], 300)):
            why = f"lengths {lengths}, filled on the {side}"
            agree_mask(probe, subject, lengths, size, side=side, squeezed=True, why=why)
            if side == "right":
                agree_mask(probe, subject, lengths, size, squeezed=True, why=f"lengths {lengths}")

    return test


def _shape(subject: Subject, probe: Probe) -> None:
    for lengths, size in (
        *(([1, 2], 4), ([2], 3), ([3, 0, 2], 3), ([1], 1)),
        *(([3, 3], 3), ([0, 0], 2), ([2, 2], 4)),  # all alike: none, all, or some are filling
    ):
        why = f"{len(lengths)} sentence{'s' * (len(lengths) > 1)} of {size} places"
        agree_mask(probe, subject, lengths, size, why=why)
        agree_mask(probe, subject, lengths, size, side="left", why=f"{why}, filled on the left")


def _types(subject: Subject, probe: Probe) -> None:
    for side in ("right", "left"):
        for why, lengths in (("an array", np.array([2, 5, 0])), ("a list", [2, 5, 0])):
            told = {"why": f"lengths as {why}", "boolean": True, "squeezed": True}
            agree_mask(probe, subject, lengths, 5, side=side, **told)


def draws(rng: np.random.Generator) -> list[Call]:
    """Both sides, as many sentences as places, none and all."""
    lengths, left = rng.permutation(4), {"side": "left"}
    made = [Call((lengths, 5)), Call((lengths, 5), left), Call((rng.permutation(3), 3))]
    return [*made, Call((rng.permutation(3), 3), left), Call(([0, 4], 4), {"side": "right"})]


LEFT, RIGHT = "place >= size - count", "place < count"

SLIPS = (
    Slip(
        "no axis for the queries",
        ("[:, None, None]", "[:, None]"),
        "The shape is (B, S). Against scores (B, T, S) NumPy would line B up with T, which with "
        "more than one sentence fails or gives them each other's masks. Put an axis of length 1 "
        "between: (B, 1, S).",
    ),
    Slip(
        "left and right exchanged",
        ('side == "left"', 'side == "right"'),
        "Left and right are exchanged. `side` says where the filling is: on the right, the tokens "
        "should come first.",
    ),
    Slip(
        "one place too many",
        ((LEFT, f"{LEFT} - 1"), (RIGHT, "place <= count")),
        "One place of filling counts as a token. Places start at 0: with 3 tokens they are 0, 1, "
        "2, so allow place < 3, and on the left place >= size − 3.",
    ),
    Slip(
        "left side counted from the wrong end",
        (LEFT, "place >= count"),
        "On the left side your tokens start at place n, for a sentence of n tokens. They should "
        "be the last n places and start at size − n.",
    ),
    Slip(
        "left side of an empty sentence",
        (LEFT, f"({LEFT}) | (count == 0)"),
        "On the left side a sentence of length 0 is all tokens, as by `row[-n:]`, which for n = 0 "
        "is the whole row: −0 is 0. `row[size - n:]` is empty then.",
    ),
)


def by_sentences(lengths, size, side="right"):
    """One sentence at a time."""
    mask = np.zeros((len(lengths), 1, size), dtype=bool)
    for b, length in enumerate(lengths):
        if side == "right":
            mask[b, :, :length] = True
        else:
            mask[b, :, size - length :] = True
    return mask


def turned(lengths, size, side="right"):
    """The left-filled mask is the right-filled one read backwards."""
    mask = np.less.outer(np.arange(size), np.array(lengths)).T
    mask = mask if side == "right" else np.flip(mask, axis=-1)
    return np.expand_dims(mask, 1)


EXERCISE = Exercise(
    chapter="04_self_attention",
    title="The padding mask",
    goal="Hide what only fills a batch of sentences of different lengths.",
    reference=self_attention.padding_mask,
    contract=Contract(
        numpy_only=True,
        arguments_unchanged=True,
        ranges={"size": (300, 300)},
        says=("`lengths` may be a list or an array of int64; the mask holds booleans.",),
    ),
    properties=(
        Property("a hand-worked example: lengths 2 and 3 of 4", 1, _worked),
        Property("right: the first places are tokens, from none to all", 1, _side("right")),
        Property("left: the last places are tokens", 2, _side("left")),
        Property("shape (B, 1, S), whatever B and S are", 1, _shape),
        Property("booleans; lists and arrays of lengths", 1, _types),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_sentences, turned),
    hints=(
        "A sentence of 3 tokens in 5 places: which places are tokens when the filling is "
        "on the right? And when it is on the left? What do you compare the place with?",
        "np.arange(size) holds the places. To compare them with each sentence's length, "
        "the lengths need the shape (B, 1, 1): the result is then (B, 1, S).",
        "Turn the lengths into an array and give it two more axes with [:, None, None]. "
        "Right: places less than the length. Left: places greater than or equal to size − "
        "length. Return the comparison.",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
)
