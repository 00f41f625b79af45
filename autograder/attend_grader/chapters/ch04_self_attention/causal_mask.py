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

LONG, MANY = 300, "more than eight bits can count"
"""Places that small integers do not hold."""


def _worked(subject: Subject, probe: Probe) -> None:
    want = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    agree_mask(probe, subject, 4, want=want)


def _square(subject: Subject, probe: Probe) -> None:
    for count in (2, 3, 7):
        agree_mask(probe, subject, count, why=f"{count} tokens")
    agree_mask(probe, subject, 3, None, why="keys=None")
    agree_mask(probe, subject, 3, 3, why="as many keys as queries")
    agree_mask(probe, subject, 1, why="one token, which sees itself")


def _more_keys(subject: Subject, probe: Probe) -> None:
    want = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], bool)
    agree_mask(probe, subject, 2, 4, want=want, why="the last 2 places of 4")
    for queries, keys in ((1, 5), (3, 7), (4, 5)):
        why = f"the last {queries} of {keys} places: the last rows of the mask for all {keys}"
        agree_mask(probe, subject, queries, keys, why=why)
    agree_mask(probe, subject, 2, LONG, why=f"the last 2 of {LONG} places, {MANY}")


def _fewer_keys(subject: Subject, probe: Probe) -> None:
    want = np.array([[0, 0], [0, 0], [1, 0], [1, 1]], bool)
    why = "4 queries, 2 keys: the first 2 queries stand before every key"
    agree_mask(probe, subject, 4, 2, want=want, why=why)
    agree_mask(probe, subject, 6, 1, why="6 queries, 1 key")
    agree_mask(probe, subject, 3, 0, why="3 queries, no key yet (0 keys is not None)")


def _boolean(subject: Subject, probe: Probe) -> None:
    agree_mask(probe, subject, 3, boolean=True)
    agree_mask(probe, subject, 4, 4, boolean=True)
    agree_mask(probe, subject, 2, 5, boolean=True)


def draws(rng: np.random.Generator) -> list[Call]:
    """Square, more keys, fewer keys, none, one query, keys by name."""
    queries = int(rng.integers(2, 5))
    return [
        Call((queries + 1,)),
        Call((queries, queries + 3)),
        Call((queries + 2, queries)),
        Call((1, 4)),
        Call((3,), {"keys": None}),
        Call((2,), {"keys": 3}),
    ]


LOOKS = "np.arange(keys) <= place"
SHIFT = " + keys - queries"

SLIPS = (
    Slip(
        "a token does not see itself",
        (LOOKS, "np.arange(keys) < place"),
        "No query sees itself. A token may look at its own place: s <= t, not s < t.",
    ),
    Slip(
        "one place too far",
        (LOOKS, f"{LOOKS} + 1"),
        "Every query sees one place ahead of itself: s <= t, where your mask allows s <= t + 1.",
    ),
    Slip(
        "future instead of past",
        (LOOKS, "np.arange(keys) >= place"),
        "Your queries see themselves and what comes after. Turn the triangle over: key s is "
        "allowed where s <= t (np.tril keeps that part, np.triu the other).",
    ),
    Slip(
        "True taken for hidden",
        (LOOKS, "np.arange(keys) > place"),
        'Your mask is True where looking is forbidden. Here True means "may look": write `~` in '
        "front of it, or turn the comparison round.",
    ),
    Slip(
        "aligned at the start, not at the end",
        (SHIFT, ""),
        "The triangle starts at the upper left, so the last query does not see the last keys. The "
        "queries are the last places: query t stands at place t + keys − queries.",
    ),
    Slip(
        "always square",
        ("queries if keys is None else keys", "queries"),
        "Your mask is always square. Make it queries × keys where keys are given.",
    ),
    Slip(
        "shifted the wrong way",
        (SHIFT, " + queries - keys"),
        "The triangle is shifted the wrong way: query t stands at place t + keys − queries, not "
        "t + queries − keys.",
    ),
    Slip(
        "numbers instead of booleans",
        (LOOKS, f"({LOOKS}).astype(float)"),
        "The entries are 1 and 0, not True and False. `~` and np.where read such numbers "
        "otherwise than you mean: compare places (`<=`), or say dtype=bool.",
    ),
    Slip(
        "0 and −inf instead of booleans",
        (LOOKS, f"np.where({LOOKS}, 0.0, -np.inf)"),
        "The entries are 0 and −inf, to be added to scores. That is another kind of mask; here it "
        "is boolean, True where the query may look.",
    ),
    Slip(
        "right of the diagonal only",
        (SHIFT, " + max(keys - queries, 0)"),
        "With fewer keys than queries your triangle starts at the upper left, and the first query "
        "sees a key. The queries are the last places there, too: query t stands at place t + keys "
        "− queries, which may be below 0.",
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


def end_of_the_whole(queries, keys=None):
    """The last rows and columns of one large triangle."""
    keys = queries if keys is None else keys
    size = max(queries, keys)
    places = np.arange(size)
    return np.greater_equal.outer(places, places)[size - queries :, size - keys :]


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
        Property("each query sees itself and what is before it", 1, _square),
        Property("more keys than queries: the last query sees all", 2, _more_keys),
        Property("fewer keys than queries: the first ones see nothing", 1, _fewer_keys),
        Property("made of booleans", 1, _boolean),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_tril, by_loops, end_of_the_whole),
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
