"""What a candidate does on given calls, and whether two candidates do the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from attend_grader.checks.calls import numbers, parts
from attend_grader.checks.compare import Tolerance, as_array, mismatches
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call
from attend_grader.checks.subject import Subject

SAME = Tolerance(
    "same behaviour",
    1e-6,
    "two ways to write one slip differ by rounding only; slips differ by far more than 1e-6",
    absolute=1e-9,
)
SAME_SINGLE = Tolerance(
    "same behaviour in float32",
    2e-5,
    "as above, where rounding is 6e-8 and some 10² terms are summed in another order",
    absolute=1e-6,
)


def behaviour(subject: Subject, calls: Sequence[Call]) -> list[Outcome]:
    """What ``subject`` does on each call."""
    return subject.many(calls)


def same_behaviour(one: Iterable[Outcome], other: Iterable[Outcome]) -> bool:
    """Whether two candidates did the same on the same calls; looks no further than a difference."""
    return all(same_outcome(a, b) for a, b in zip(one, other, strict=True))


def same_outcome(a: Outcome, b: Outcome) -> bool:
    """Whether two calls did the same: value, type of error, arguments changed."""
    if a.error is not None or b.error is not None:
        return a.error is not None and b.error is not None and a.error.type == b.error.type
    return list(a.mutated) == list(b.mutated) and same_value(a.value, b.value)


def same_value(a: Any, b: Any) -> bool:
    """Equal up to rounding, NaN agreeing with NaN; tuples and lists item by item."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    if _is_number(a) and _is_number(b):
        x, y = (np.asarray(v if as_array(v) is None else as_array(v)) for v in (a, b))
        if x.shape != y.shape or x.dtype.kind != y.dtype.kind:
            return False
        single = any(v.dtype.kind == "f" and v.dtype.itemsize < 8 for v in (x, y))
        nan = np.isnan(x) & np.isnan(y)
        tolerance = SAME_SINGLE if single else SAME
        return not mismatches(np.where(nan, 0, x), np.where(nan, 0, y), tolerance).any()
    return type(a) is type(b) and a == b


def same_count(got: Any, want: Any) -> bool:
    """Whether a result is one value, or as many as the right one is."""
    if isinstance(want, (tuple, list)) != isinstance(got, (tuple, list)):
        return False
    return len(parts(got)) == len(parts(want))


def same_structure(got: Any, want: Any) -> bool:
    """Whether a result is one value or several as the right one is, and no whole number for it."""
    return same_count(got, want) and not any(
        numbers(b).dtype.kind == "f" and numbers(a).dtype.kind not in "f"
        for a, b in zip(parts(got), parts(want), strict=True)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (np.generic, int, float)) or as_array(value) is not None
