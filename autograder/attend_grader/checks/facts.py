"""What every wrong result has and no right one: another shape, NaN, a sum that is not 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attend_grader.checks.relations import Pairs
from attend_grader.checks.traits import AXES

NEARER = "is nearer to 0 than the right one, wherever that is not 0"


def fact(pairs: Pairs) -> str | None:
    """What every result has that no right one has: words that follow "your result".

    It is seen in the calls given only: where others came out right, say of which it speaks.
    """
    gots, wants = [got for _, got, _ in pairs], [want for _, _, want in pairs]
    shapes = [(got.shape, want.shape) for got, want in zip(gots, wants, strict=True)]
    if all(one != other for one, other in shapes):
        more = {len(one) - len(other) for one, other in shapes}
        if len(more) == 1 and (extra := more.pop()):
            count = "one axis" if abs(extra) == 1 else f"{abs(extra)} axes"
            return f"has {count} too {'many' if extra > 0 else 'few'}"
        off = [
            name
            for axis, name in AXES.items()
            if all(len(b) >= -axis and len(a) == len(b) and a[axis] != b[axis] for a, b in shapes)
        ]
        if off:
            one, other = shapes[0]
            lengths = "another length" if len(off) == 1 else "other lengths"
            return (
                f"has {lengths} along its {' and its '.join(off)}, as in {one} instead of {other}"
            )
        return "has another shape than it should"
    if any(one != other for one, other in shapes):
        return None
    if all(got.dtype.kind == want.dtype.kind == "b" for _, got, want in pairs):
        return _one_way(gots, wants)
    for name, test in (("NaN", np.isnan), ("infinite numbers", np.isinf)):
        where = [g.dtype.kind == "f" and test(g) for g in gots]
        if all((w & ~test(want)).any() for w, want in zip(where, wants, strict=True)):
            return f"holds {name}"
    if not all(np.isfinite(got).all() for got in gots):
        return None
    nearer = len(gots) > 2 and all(map(_nearer, gots, wants))
    for sign, word in ((1, "large"), (-1, "small")):
        pairs_ = list(zip(gots, wants, strict=True))
        if len(pairs_) > 2 and all(_beyond(sign * got, sign * want) for got, want in pairs_):
            where = ", at every place" if max(want.size for want in wants) > 1 else ""
            return f"is too {word}{where}"
    if not all(w.size > 1 for w in wants):
        return NEARER if nearer else None
    for axis in (-1, -2):
        if not all(want.ndim >= -axis and want.shape[axis] > 1 for want in wants):
            continue
        for value in (1.0, 0.0):
            right = all(
                np.allclose(want.sum(axis), value, atol=1e-5) and np.abs(want).max() > 1e-2
                for want in wants
            )
            if right and not any(np.allclose(got.sum(axis), value, atol=1e-3) for got in gots):
                name = "it" if max(w.ndim for w in wants) == 1 else f"its {AXES[axis]}"
                return f"does not sum to {value:g} along {name}; the right one does in these calls"
    if all((want >= 0).all() for want in wants) and all(_some_beyond(-got, 0) for got in gots):
        return "holds negative numbers; the right one holds none in these calls"
    if all((want <= 1).all() for want in wants) and all(_some_beyond(got, 1) for got in gots):
        return "holds numbers above 1; the right one holds none in these calls"
    turned = [np.swapaxes(want, -1, -2) for want in wants if want.ndim >= 2]
    symmetric = len(turned) == len(wants) and all(
        a.shape == b.shape and np.allclose(a, b) for a, b in zip(wants, turned, strict=True)
    )
    if symmetric and not any(np.allclose(got, np.swapaxes(got, -1, -2)) for got in gots):
        return "is not symmetric; the right one is in these calls"
    for values in ((0.0, 1.0), (0.0,)):
        if all(np.isin(got, values).all() for got in gots) and not any(
            np.isin(want, values).all() for want in wants
        ):
            return f"holds nothing but {' and '.join(f'{value:g}' for value in values)}"
    whole = all(got.dtype.kind in "iu" for got in gots)
    if whole and all(want.dtype.kind == "f" for want in wants):
        return "holds whole numbers only"
    return NEARER if nearer else None


def _beyond(more: np.ndarray, less: np.ndarray) -> bool:
    """Whether each number is larger than the other, by more than rounding explains."""
    more, less = 1.0 * more, 1.0 * less  # of whole numbers and truth values, too
    return bool((more - less > 1e-6 * np.abs(less).max(initial=0.0)).all())


def _some_beyond(numbers: np.ndarray, limit: float) -> bool:
    """Whether a number is above the limit, by more than rounding explains."""
    return bool((numbers - limit > 1e-6 * np.abs(numbers).max(initial=0.0)).any())


def _one_way(gots: Sequence[np.ndarray], wants: Sequence[np.ndarray]) -> str | None:
    """Of truth values: whether all mistakes are of one kind."""
    for came, belongs in ((False, True), (True, False)):
        if all((want[got != want] == belongs).all() for got, want in zip(gots, wants, strict=True)):
            return f"is {came} at places where {belongs} belongs, never the other way round"
    return None


def _nearer(got: np.ndarray, want: np.ndarray) -> bool:
    """Whether each number has the right sign, or is 0, and is too small in size if it may be."""
    got, want = 1.0 * got, 1.0 * want  # of whole numbers and truth values, too
    smaller = (got * np.sign(want) >= 0) & (np.abs(got) < np.abs(want))
    return bool(want.any() and (smaller | ((got == 0) & (want == 0))).all())
