"""Chapter 04, masks: what must hold of the causal mask, the padding mask, and their combination.

A property of its own asks for booleans; the others take 1 and 0 too, so that one slip costs its
own points only. Likewise for the axis of length 1 of a padding mask.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from attend_solutions.types import Mask

from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.mask_properties import agree_mask
from attend_grader.checks.properties import VIEWS, expect_unchanged
from attend_grader.checks.subject import Subject

# causal_mask


def causal_worked(subject: Subject, probe: Probe) -> None:
    """Four tokens, written out."""
    want = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    agree_mask(probe, subject, 4, want=want)


def causal_square(subject: Subject, probe: Probe) -> None:
    """Any number of tokens; keys left out, None or equal to the queries."""
    for count in (2, 3, 7):
        agree_mask(probe, subject, count, why=f"{count} tokens")
    agree_mask(probe, subject, 3, None, why="keys=None")
    agree_mask(probe, subject, 3, 3, why="as many keys as queries")
    agree_mask(probe, subject, 1, why="one token, which sees itself")


def causal_more_keys(subject: Subject, probe: Probe) -> None:
    """The queries are the last places: the last one sees all."""
    want = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], bool)
    agree_mask(probe, subject, 2, 4, want=want, why="the last 2 places of 4")
    for queries, keys in ((1, 5), (3, 7)):
        why = f"the last {queries} of {keys} places: the last rows of the mask for all {keys}"
        agree_mask(probe, subject, queries, keys, why=why)


def causal_fewer_keys(subject: Subject, probe: Probe) -> None:
    """The first queries stand before all keys."""
    want = np.array([[0, 0], [0, 0], [1, 0], [1, 1]], bool)
    why = "4 queries, 2 keys: the first 2 queries stand before every key"
    agree_mask(probe, subject, 4, 2, want=want, why=why)
    agree_mask(probe, subject, 6, 1, why="6 queries, 1 key")


def causal_boolean(subject: Subject, probe: Probe) -> None:
    """True and False, not 1 and 0."""
    agree_mask(probe, subject, 3, boolean=True)
    agree_mask(probe, subject, 4, 4, boolean=True)


CAUSAL = (
    Property("a hand-worked example: four tokens", 1, causal_worked),
    Property("each query sees itself and what is before it", 1, causal_square),
    Property("more keys than queries: the last query sees all", 2, causal_more_keys),
    Property("fewer keys than queries: the first ones see nothing", 1, causal_fewer_keys),
    Property("made of booleans", 1, causal_boolean),
)


def causal_draws(rng: np.random.Generator) -> list[Call]:
    """Square, more keys, fewer keys, one query, keys by name."""
    queries = int(rng.integers(2, 5))
    return [
        Call((queries + 1,)),
        Call((queries, queries + 3)),
        Call((queries + 2, queries)),
        Call((1, 4)),
        Call((3,), {"keys": None}),
        Call((2,), {"keys": 3}),
    ]


# padding_mask


def padding_worked(subject: Subject, probe: Probe) -> None:
    """Lengths 2 and 3 in four places."""
    want = np.array([[[1, 1, 0, 0]], [[1, 1, 1, 0]]], bool)
    agree_mask(probe, subject, [2, 3], 4, want=want, squeezed=True)


def padding_right(subject: Subject, probe: Probe) -> None:
    """The first places are tokens; from none to all of them."""
    for size in (1, 4, 6):
        lengths = probe.rng.permutation(size + 1)
        why = f"lengths {lengths.tolist()}"
        agree_mask(probe, subject, lengths, size, squeezed=True, why=why)
        agree_mask(probe, subject, lengths, size, side="right", squeezed=True, why=why)


def padding_left(subject: Subject, probe: Probe) -> None:
    """The last places are tokens."""
    want = np.array([[[0, 0, 0, 1, 1]], [[0, 1, 1, 1, 1]], [[0, 0, 0, 0, 0]]], bool)
    why = "lengths [2, 4, 0], filled on the left"
    agree_mask(probe, subject, [2, 4, 0], 5, side="left", want=want, squeezed=True, why=why)
    for size in (3, 6):
        lengths = probe.rng.permutation(size + 1)
        why = f"lengths {lengths.tolist()}, filled on the left"
        agree_mask(probe, subject, lengths, size, side="left", squeezed=True, why=why)


def padding_shape(subject: Subject, probe: Probe) -> None:
    """(B, 1, S), also where B is 1 or S."""
    for lengths, size in (([1, 3], 4), ([2], 3), ([3, 0, 2], 3)):
        why = f"{len(lengths)} sentences of {size} places"
        agree_mask(probe, subject, lengths, size, why=why)
    agree_mask(probe, subject, [2, 1], 3, side="left", why="2 sentences, filled on the left")


def padding_awkward(subject: Subject, probe: Probe) -> None:
    """Lists and arrays of lengths, booleans out, and the lengths stay as they were."""
    for side in ("right", "left"):
        for why, lengths in (("as an array", np.array([2, 5, 0])), ("as a list", [2, 5, 0])):
            why = f"lengths {why}"
            outcome = agree_mask(
                probe, subject, lengths, 5, side=side, why=why, boolean=True, squeezed=True
            )
            expect_unchanged(probe, outcome)


PADDING = (
    Property("a hand-worked example: lengths 2 and 3 of 4", 1, padding_worked),
    Property("right: the first places are tokens, from none to all", 1, padding_right),
    Property("left: the last places are tokens", 2, padding_left),
    Property("shape (B, 1, S), whatever B and S are", 1, padding_shape),
    Property("booleans; lists and arrays of lengths", 1, padding_awkward),
)


def padding_draws(rng: np.random.Generator) -> list[Call]:
    """Both sides, as many sentences as places, none and all."""
    lengths = rng.permutation(4)
    return [
        Call((lengths, 5)),
        Call((lengths, 5), {"side": "left"}),
        Call((rng.permutation(3), 3)),
        Call((rng.permutation(3), 3), {"side": "left"}),
        Call(([0, 4], 4), {"side": "right"}),
    ]


# combine_masks


def _named(probe: Probe, count: int) -> Probe:
    """A probe whose messages call the masks mask_1, mask_2, …"""
    return replace(probe, names=tuple(f"mask_{i + 1}" for i in range(count)))


def _masks(rng: np.random.Generator, *shapes: tuple[int, ...]) -> tuple[Mask, ...]:
    return tuple(rng.random(shape) < 0.6 for shape in shapes)


def combine_worked(subject: Subject, probe: Probe) -> None:
    """All four cases of two masks."""
    one, other = np.array([[1, 1], [0, 0]], bool), np.array([[1, 0], [1, 0]], bool)
    want = np.array([[1, 0], [0, 0]], bool)
    agree_mask(_named(probe, 2), subject, one, other, want=want)


def combine_all(subject: Subject, probe: Probe) -> None:
    """One, two, three, five masks: only what all allow."""
    for count in (2, 1, 3, 5):
        masks = _masks(probe.rng, *[(3, 4)] * count)
        masks = tuple(mask | (probe.rng.random((3, 4)) < 0.5) for mask in masks)
        why = f"{count} mask{'s' if count > 1 else ''}"
        agree_mask(_named(probe, count), subject, *masks, why=why)


def combine_none(subject: Subject, probe: Probe) -> None:
    """None hides nothing, wherever it stands."""
    one, other = _masks(probe.rng, (3, 3), (3, 3))
    for masks in ((None, one), (one, None), (None, one, None, other)):
        told = ", ".join("None" if mask is None else "a mask" for mask in masks)
        agree_mask(_named(probe, len(masks)), subject, *masks, why=told)


def combine_nothing(subject: Subject, probe: Probe) -> None:
    """Nothing to combine: None, which hides nothing."""
    agree_mask(_named(probe, 2), subject, *_masks(probe.rng, (2, 3), (2, 3)), why="two masks")
    for count in (1, 2, 0):
        named = _named(probe, count)
        masks = (None,) * count
        outcome = named.call(subject, *masks)
        if outcome.value is not None:
            told = f"called with {' and '.join(['None'] * count) or 'no mask'}"
            raise named.miss(
                f"{told}, your function returns something other than None. Nothing is hidden "
                "then, and None says so.",
                *masks,
            )


def combine_broadcast(subject: Subject, probe: Probe) -> None:
    """(T, S) with (B, 1, S), in either order, and a lone row."""
    shapes = (
        ((3, 4), (2, 1, 4)),
        ((2, 1, 4), (3, 4)),
        ((4, 4), (4, 1, 4)),
        ((3, 1), (4,), (2, 3, 4)),
    )
    for some in shapes:
        why = "shapes " + " and ".join(map(str, some))
        agree_mask(_named(probe, len(some)), subject, *_masks(probe.rng, *some), why=why)


def combine_awkward(subject: Subject, probe: Probe) -> None:
    """Booleans out; views; and no mask is written into."""
    masks = _masks(probe.rng, (3, 4), (3, 4), (1, 4))
    named = _named(probe, 3)
    expect_unchanged(named, agree_mask(named, subject, *masks, boolean=True))
    for why, lay in VIEWS.items():
        agree_mask(named, subject, *(lay(mask) for mask in masks), boolean=True, why=why)


COMBINE = (
    Property("a hand-worked example: two masks of 2 × 2", 1, combine_worked),
    Property("any number of masks: what all of them allow", 1, combine_all),
    Property("None hides nothing", 1, combine_none),
    Property("nothing but None, or nothing at all, gives None", 1, combine_nothing),
    Property("shapes broadcast: (T, S) with (B, 1, S)", 1, combine_broadcast),
    Property("booleans; views; arguments stay as they were", 1, combine_awkward),
)


def combine_draws(rng: np.random.Generator) -> list[Call]:
    """Two, three, with None, only None, none, broadcasting."""
    one, two, three = _masks(rng, (4, 4), (4, 4), (4, 4))
    for place, values in enumerate(((1, 1, 0), (0, 1, 1), (1, 0, 0), (0, 0, 1), (1, 1, 1))):
        for mask, value in zip((one, two, three), values, strict=True):
            mask.flat[place] = bool(value)
    return [
        Call((one, two)),
        Call((one, None, two)),
        Call((one, two, three)),
        Call((None, three)),
        Call((None, None)),
        Call(()),
        Call(_masks(rng, (3, 4), (2, 1, 4))),
        Call((one,)),
    ]
