"""Exercise 04_self_attention/causal_mask: hide the future.

A property of its own asks for booleans; the others take 1 and 0 too, so that this slip costs its
own points only.
"""

from __future__ import annotations

import numpy as np
from attend_solutions import self_attention

from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.mask_properties import agree_mask
from attend_grader.checks.subject import Subject


def _worked(subject: Subject, probe: Probe) -> None:
    want = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    agree_mask(probe, subject, 4, want=want)


def _of(
    name: str, points: int, *cases: tuple[tuple[int | None, ...], str], boolean: bool = False
) -> Property:
    """The masks of these arguments; each case says what is special about them."""

    def test(subject: Subject, probe: Probe) -> None:
        for args, why in cases:
            agree_mask(probe, subject, *args, why=why, boolean=boolean)

    return Property(name, points, test)


def draws(rng: np.random.Generator) -> list[Call]:
    """Square, more keys, fewer keys, none, one query, keys by name."""
    n = int(rng.integers(2, 5))
    plain = [Call(sizes) for sizes in ((n + 1,), (n, n + 3), (n + 2, n), (1, 4))]
    return [*plain, Call((3,), {"keys": None}), Call((2,), {"keys": 3})]


LOOKS = "np.arange(keys) <= place"
SHIFT = " + keys - queries"

SLIPS = (
    Slip(
        "a token does not see itself",
        (LOOKS, "np.arange(keys) < place"),
        "No query sees itself. Allow its own place, too: s <= t + keys − queries.",
    ),
    Slip(
        "one place too far",
        (LOOKS, f"{LOOKS} + 1"),
        "Your mask allows one place ahead of each query. Allow s <= t + keys − queries, and no "
        "place more.",
    ),
    Slip(
        "future instead of past",
        (LOOKS, "np.arange(keys) >= place"),
        "Your queries see themselves and what comes after. Turn the triangle over: allow key s "
        "where s <= t + keys − queries (np.tril keeps that part, np.triu the other).",
    ),
    Slip(
        "aligned at the start, not at the end",
        (SHIFT, ""),
        "The triangle starts at the upper left, so with more keys than queries the last query "
        "does not see the last keys. The queries are the last places: query t should stand at "
        "place t + keys − queries.",
    ),
    Slip(
        "shifted the wrong way",
        (SHIFT, " + queries - keys"),
        "The triangle is shifted the wrong way: query t should stand at place t + keys − queries, "
        "not t + queries − keys.",
    ),
    Slip(
        "never shifted to the left",
        (SHIFT, " + max(keys - queries, 0)"),
        "With fewer keys than queries your triangle starts at the upper left. The queries are the "
        "last places there, too: query t should stand at place t + keys − queries, which may be "
        "below 0.",
    ),
)


def by_tril(queries, keys=None):
    """A triangle of ones, shifted to the right."""
    keys = keys if keys is not None else queries
    return np.tril(np.ones((queries, keys), dtype=bool), k=keys - queries)


def by_loops(queries, keys=None):
    """Pair by pair; counts from the end, where both end together."""
    keys = queries if keys is None else keys
    return np.array(
        [[queries - t <= keys - s for s in range(keys)] for t in range(queries)], dtype=bool
    )


EXERCISE = Exercise(
    chapter="04_self_attention",
    title="The causal mask",
    goal="Hide the future, for a whole text and for the last few places of one.",
    reference=self_attention.causal_mask,
    contract=Contract(
        ranges={"queries": (1, 300), "keys": (1, 300)},
        numpy_only=True,
        says=("The mask holds booleans; 0 keys are allowed.",),
    ),
    properties=(
        Property("a hand-worked example: four tokens", 1, _worked),
        _of(
            "each query sees itself and what is before it",
            1,
            *(((count,), f"{count} tokens") for count in (2, 3, 7)),
            ((3, None), "keys=None"),
            ((3, 3), "as many keys as queries"),
            ((1,), "one token, which sees itself"),
        ),
        _of(
            "more keys than queries: the last query sees all",
            2,
            *(
                ((t, s), f"the last {t} of {s} places: the last rows of the mask for all {s}")
                for t, s in ((2, 4), (1, 5), (3, 7), (4, 5))
            ),
            ((2, 300), "the last 2 of 300 places, more than eight bits can count"),
        ),
        _of(
            "fewer keys than queries: the first ones see nothing",
            1,
            ((4, 2), "4 queries, 2 keys: the first 2 queries stand before every key"),
            ((6, 1), "6 queries, 1 key"),
            ((3, 0), "3 queries, no key yet (0 keys is not None)"),
            ((1, 0), "one query, no key yet"),
        ),
        _of(
            "made of booleans",
            1,
            ((3,), ""),
            ((4, 4), ""),
            ((2, 5), ""),
            ((2, 0), ""),
            boolean=True,
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_tril, by_loops),
    hints=(
        "Write down the mask for 2 queries and 5 keys by hand. The queries are the last "
        "two places: at which place does query 0 stand, counted from 0?",
        "Query t stands at place t + keys − queries. It may look at key s if s is not "
        "after that place. Comparing a column of places with a row of places gives the "
        "whole table.",
        "If keys is None, it equals queries. Make a column with np.arange(queries)[:, "
        "None], add keys − queries, and compare: the row np.arange(keys) must be less than "
        "or equal to it. The comparison is the mask.",
    ),
    minutes=8,
    difficulty=2,
    importance=5,
)
