"""When a result is wrong: what all failing calls have in common, and no other call."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import combinations

from attend_grader.checks.calls import numbers
from attend_grader.checks.cases import Case
from attend_grader.checks.traits import AXES, IS_WORD

FIRST = (
    " is given",
    " is None",
    " is left out",
    " is passed",
    IS_WORD,
    ' is not "',
    "leading axes",
    "integers",
    "fractions",
    "a view",
    "float32",
    "float64",
    "−inf",
    "all False",
    "holds a False",
    "are large",
    "is small",
    "is empty",
    "length 1",
    "is zero",
    "is not zero",
    "is 1",
    "is 0 or 1",
    "is neither 0 nor 1",
    "is False",
    "is True",
    "negative",
    "or more axes",
    "fewer than",
    "one axis only",
    "differ in length",
    "equally long",
    "is not square",
    "is square",
    "is not empty",
    "longer than 1",
    "is not 1",
)
"""Traits in the order in which they are told, where several would do; others come last."""

ABOVE = re.compile(" is (shorter|longer) than the ")
LENGTHS = re.compile(" square|empty|length 1|longer than|shorter than|in length|equally long")
"""Traits that say how long axes are."""

RARE = 3
"""Cases on either side that a trait needs which is not listed above."""


def when(
    some: Sequence[Case],
    cases: Sequence[Case],
    *,
    plain: bool = False,
    only: Collection[str] | None = None,
) -> str:
    """What all of ``some`` have in common, and no other case; empty where nothing.

    With ``plain``, nothing that only lengths bear out: shapes that do not fit raise where
    lengths differ, of arguments that may have no part in it.

    With ``only``, names of arguments: one trait, and of lengths theirs alone. The calls that are
    not among ``some`` may be so by chance of their numbers then.
    """
    inside = {id(case) for case in some}
    others = [case for case in cases if id(case) not in inside]
    if not some or not others:
        return ""
    common = [
        trait
        for trait in dict.fromkeys(t for case in some for t in case.traits)
        if all(case.traits.get(trait, False) for case in some)
    ]
    if only is not None:
        named = {leaf.name for case in cases for leaf in case.leaves()} - set(only)
        common = [t for t in common if not (LENGTHS.search(t) and named & set(t.split()))]
    common.sort(key=_rank)
    enough = len(some) >= RARE and len(others) >= RARE

    def apart(*traits: str) -> bool:
        return not any(all(case.traits.get(t, False) for t in traits) for case in others)

    alone = [
        t
        for t in common
        if apart(t) and (enough or _rank(t) < len(FIRST)) and not _chance(t, some, others)
        if not (plain and ABOVE.search(t))
    ]
    if alone:
        twins = [t for t in alone[1:] if _rank(t) == _rank(alone[0]) and "axis of" in t]
        also = f" (these are the calls where {twins[0]}, too)" if twins else ""
        return alone[0] + also
    known = [
        t
        for t in common
        if _rank(t) < len(FIRST)
        and not (plain and LENGTHS.search(t))
        and " negative number" not in t  # of random numbers, some always are
    ]
    pairs = combinations(known, 2) if enough and only is None else ()
    return next((f"{a} and {b}" for a, b in pairs if apart(a, b)), "")


def _rank(trait: str) -> int:
    return next((i for i, part in enumerate(FIRST) if part in trait), len(FIRST))


def _chance(trait: str, some: Sequence[Case], others: Sequence[Case]) -> bool:
    """Whether "odd" or "even", or a sign, may be chance: lengths on the two sides differ too."""
    if " negative number" in trait:  # of random numbers few have no sign: lengths may decide it
        forms = [
            {tuple(numbers(x.value).shape for x in c.leaves()) for c in g} for g in (some, others)
        ]
        return not forms[0] & forms[1]
    found = re.fullmatch(r"the (.+) of (\w+) has an (?:odd|even) length", trait)
    if not found:
        return False
    axis = next(number for number, word in AXES.items() if word == found[1])

    def lengths(cases: Sequence[Case]) -> set[int]:
        shapes = (numbers(x.value).shape for c in cases for x in c.leaves() if x.name == found[2])
        return {shape[axis] for shape in shapes if len(shape) >= -axis}

    return min(len(lengths(some)), len(lengths(others))) < RARE
