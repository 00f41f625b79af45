"""What kind of value came, and how many: the form of a result, whatever its numbers are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attend_grader.checks.calls import numbers, parts
from attend_grader.checks.cases import Case
from attend_grader.checks.relations import array, kind


def form(cases: Sequence[Case], names: Sequence[str]) -> str | None:
    """What is wrong with the form of the results in all ``cases``; None where it is right in one.

    Args:
        cases: calls that came to a result.
        names: of the results, in order.
    """
    values, wants = [case.got.value for case in cases], [case.want for case in cases]
    if not all(case.wrong for case in cases):
        return None
    if all(value is None for value in values):
        return "It returns None."
    if isinstance(wants[0], (tuple, list)):
        return _of_several(cases, names)
    if all(isinstance(value, list) for value in values):
        return "A list is returned where an array or a number belongs."
    if all(isinstance(value, (tuple, list)) for value in values):
        return "Several values are returned where one belongs."
    if all(kind(v) == "c" != kind(w) for v, w in zip(values, wants, strict=True)):
        right = all(c.matches(np.real(numbers(c.got.value)), c.want) for c in cases)
        also = "; their real parts are right" if right else ""
        return f"Complex numbers are returned where real ones belong{also}."
    return None


def _of_several(cases: Sequence[Case], names: Sequence[str]) -> str | None:
    """Of several results, one alone came, or another number of them, or another order."""
    values = [case.got.value for case in cases]
    if not any(isinstance(value, (tuple, list)) for value in values):
        for index, name in enumerate(names):
            if all(
                array(c.got.value) and c.matches(c.got.value, parts(c.want)[index]) for c in cases
            ):
                others = [other for other in names if other != name]
                rest = f"{' and '.join(others)} {'is' if len(others) == 1 else 'are'}"
                return f"Only {name} is returned, and it is right; {rest} missing."
        return "One value is returned where several belong."
    counts = {len(parts(value)) for value in values}
    if counts == {len(names)}:
        return _exchanged(cases, names)
    return (
        f"{counts.pop()} values are returned where {len(names)} belong."
        if len(counts) == 1
        else None
    )


def _exchanged(cases: Sequence[Case], names: Sequence[str]) -> str | None:
    """All results are right but in another order."""
    fits = [
        [
            j
            for j in range(len(names))
            if all(c.matches(parts(c.got.value)[i], parts(c.want)[j]) for c in cases)
        ]
        for i in range(len(names))
    ]
    if any(len(places) != 1 for places in fits) or len({p for (p,) in fits}) < len(names):
        return None
    if all(place == i for i, (place,) in enumerate(fits)):
        return None
    told = ", ".join(names[place] for (place,) in fits)
    return f"The results are right but in another order: you return {told}."
