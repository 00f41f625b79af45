"""At which places of a result numbers are wrong: the last column, above the diagonal, one entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from attend_grader.checks.relations import Pairs
from attend_grader.checks.traits import AXES

LONG = 4
"""Length of an axis from which halves and odd places are told."""

Pattern = Callable[[np.ndarray], np.ndarray]
"""The places, True, for a right result."""


def places(pairs: Pairs) -> str | None:
    """Where the result is wrong, in words that follow "it is wrong"; None without a pattern."""
    wrongs = []
    for case, got, want in pairs:
        if got.shape != want.shape or not want.ndim:
            return None
        wrongs.append(_wrong(case, got, want))
        if not wrongs[-1].any():  # by so little that no place stands out
            return None
    rank = min(want.ndim for _, _, want in pairs)
    for text, pattern in _patterns(pairs, rank):
        hits, found, covered = 0, 0, 0
        for wrong, (_, _, want) in zip(wrongs, pairs, strict=True):
            where = np.broadcast_to(pattern(want), want.shape)
            if (wrong & ~where).any():
                break
            found, covered = found + int(wrong.sum()), covered + int(where.sum())
            hits += not where.all()
        else:
            if hits >= min(2, len(pairs)) and 2 * found >= covered:  # the rest by chance
                return f"{text}{_nan(pairs, wrongs)}"
    return None


def _nan(pairs: Pairs, wrongs: list[np.ndarray]) -> str:
    for name, test in (("NaN", np.isnan), ("infinite", np.isinf)):
        if all(test(got[w]).all() for (_, got, _), w in zip(pairs, wrongs, strict=True)):
            return f" (it is {name} there)"
    if all((got[w] == 0).all() for (_, got, _), w in zip(pairs, wrongs, strict=True)):
        return " (it is 0 there)"
    return ""


def _wrong(case, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    a, b = got.astype(float), want.astype(float)
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max(initial=0.0)) if want.dtype.kind != "b" else 1.0
    limit = (1e-4 if case.single else 1e-8) * max(scale, 1e-12)
    with np.errstate(invalid="ignore"):  # inf − inf
        near = np.abs(a - b) <= limit
    return ~np.where(finite, near, (a == b) | (np.isnan(a) & np.isnan(b)))


def _at(axis: int, place: int) -> Pattern:
    def pattern(want: np.ndarray) -> np.ndarray:
        where = np.zeros(want.shape, bool)
        index: list = [slice(None)] * want.ndim
        index[axis] = place
        where[tuple(index)] = True
        return where

    return pattern


def _not_at(axis: int, place: int) -> Pattern:
    return lambda want: ~_at(axis, place)(want)


def _diagonal(order: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Pattern:
    def pattern(want: np.ndarray) -> np.ndarray:
        rows, columns = np.ogrid[: want.shape[-2], : want.shape[-1]]
        return np.broadcast_to(order(rows, columns), want.shape)

    return pattern


def _patterns(pairs: Pairs, rank: int) -> Iterator[tuple[str, Pattern]]:
    axes = [  # where all have the same length, a place may be chance
        axis
        for axis in (-1, -2, -3)
        if -axis <= rank and len({want.shape[axis] for _, _, want in pairs}) > 1
    ]
    for axis in axes:
        name = "axis" if rank == 1 else AXES[axis]
        yield f"at the last place of the {name} only", _at(axis, -1)
        yield f"at the first place of the {name} only", _at(axis, 0)
        yield f"at places of the {name} other than its first", _not_at(axis, 0)
        yield f"at places of the {name} other than its last", _not_at(axis, -1)
    if rank >= 2:
        yield "on the diagonal only", _diagonal(lambda r, c: r == c)
        yield "beside the diagonal only", _diagonal(lambda r, c: r != c)
        yield "above the diagonal only", _diagonal(lambda r, c: c > r)
        yield "below the diagonal only", _diagonal(lambda r, c: c < r)
    if any(want.dtype.kind != "b" for _, _, want in pairs):  # of truth values a fact says more
        yield "only where the right result is 0", lambda want: want == 0
    if any((want < 0).any() for _, _, want in pairs) and any((w > 0).any() for _, _, w in pairs):
        yield "only where the right result is negative", lambda want: want < 0
        yield "only where the right result is positive", lambda want: want > 0
    for axis in axes:
        if min(want.shape[axis] for _, _, want in pairs) < LONG:
            continue
        name = "axis" if rank == 1 else AXES[axis]

        def half(want: np.ndarray, axis: int = axis, late: bool = True) -> np.ndarray:
            count = want.shape[axis]
            where = (np.arange(count) >= count // 2) == late
            return where.reshape([-1] + [1] * (-axis - 1))

        yield f"in the second half of the {name} only", half
        yield f"in the first half of the {name} only", lambda w, h=half: h(w, late=False)
        for odd, word in ((1, "odd"), (0, "even")):
            yield (
                f"at the {word} places of the {name} only (counted from 0)",
                lambda w, a=axis, o=odd: (np.arange(w.shape[a]) % 2 == o).reshape(
                    [-1] + [1] * (-a - 1)
                ),
            )
