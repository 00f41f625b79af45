"""How a result can relate to the right one: a factor, an axis, a shift, some places only, …

Each relation looks at one result over several cases. It is told only where it holds in all of them,
and makes a difference in two at least (in one, where there is one).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from attend_grader.checks.calls import numbers, parts
from attend_grader.checks.cases import Case
from attend_grader.checks.changes import Change, axis_words, changes
from attend_grader.checks.traits import AXES

Pairs = Sequence[tuple[Case, np.ndarray, np.ndarray]]
"""Cases with one result each: what came and what is right."""


DIFFERENT = 3
"""Calls or lengths that tell a rule from chance."""

COARSE, COARSEST = 1e-3, 0.1
"""Errors from which on a result is not nearly right; the second where it is small."""

NUMBERS = {
    -1.0: "the right one with every sign flipped",
    0.5: "half of the right one",
    2.0: "twice the right one",
}
POWERS = {
    0.5: "the root of {}",
    -0.5: "one over the root of {}",
    1.0: "{}",
    -1.0: "one over {}",
    2.0: "the square of {}",
    -2.0: "one over the square of {}",
}


def pairs_of(cases: Sequence[Case], index: int | None) -> Pairs:
    """One result of each case, as NumPy arrays; ``None`` for the only one."""
    made = []
    for case in cases:
        got, want = case.got.value, case.want
        if index is not None:
            got, want = parts(got)[index], parts(want)[index]
        made.append((case, numbers(got), numbers(want)))
    return made


def kind(value: Any) -> str:
    """The kind of an array's or a number's type, as NumPy codes it; empty for what is none."""
    try:
        return numbers(value).dtype.kind
    except (TypeError, ValueError):
        return ""


def array(value: Any) -> bool:
    """Whether it is an array or a number."""
    return kind(value) in tuple("biufc")


def arrays(case: Case) -> bool:
    """Whether a call gave as many arrays or numbers as it should, all of them real."""
    got, want = parts(case.got.value), parts(case.want)
    return len(got) == len(want) and all(kind(part) in tuple("biuf") for part in (*got, *want))


def relation(pairs: Pairs, *, weak: bool = False) -> str | None:
    """What the result is, compared with the right one: words that follow "it is", or None.

    With ``weak`` also what leaves a number open, or one for each slice.
    """
    if any(got.dtype.kind not in "biufc" for _, got, _ in pairs):
        return None
    finds = (_constant, _echo, _changed, _factor, _offset, _powers, _added)
    for find in (*finds, _digits, _some_factor, _some_offset, _one_axis) if weak else finds:
        text = find(pairs)
        if text:
            return text
    return None


def _near(pair: tuple[Case, np.ndarray, np.ndarray], value: np.ndarray) -> bool:
    case, got, _ = pair
    return value.shape == got.shape and case.matches(got, value)


def _holds(pairs: Pairs, change: Change) -> bool:
    """Whether ``change`` makes every right result what came, and changes enough of them."""
    informative = 0
    for pair in pairs:
        want = pair[2]
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(change(want))
        except (ValueError, IndexError, TypeError, np.exceptions.AxisError):
            return False
        if not _near(pair, value):
            return False
        finite = value
        if value.shape == want.shape:  # NaN alone, as of 0 / 0, bears nothing out
            finite = np.where(np.isfinite(value), value, want)
        informative += value.shape != want.shape or not pair[0].matches(finite, want)
    return informative >= min(2, len(pairs))


def _constant(pairs: Pairs) -> str | None:
    """The same number at every place."""
    if not all(got.size for _, got, _ in pairs):
        return None
    first = pairs[0][1].flat[0]
    varied = sum(want.size > 1 and bool((want != want.flat[0]).any()) for _, _, want in pairs)
    if np.isnan(first):
        return "NaN everywhere" if all(np.isnan(got).all() for _, got, _ in pairs) else None
    if all((got == first).all() for _, got, _ in pairs) and varied >= min(2, len(pairs)):
        return f"{first:.4g} everywhere"
    return None


def _echo(pairs: Pairs) -> str | None:
    """One of the arguments, as it came."""
    for leaf in pairs[0][0].leaves():
        for turn, text in (
            (lambda x: x, "{}"),
            (lambda x: np.swapaxes(x, -1, -2), "{} transposed"),
        ):
            found = 0
            for pair in pairs:
                mine = {x.path: x for x in pair[0].leaves()}.get(leaf.path)
                if mine is None or (numbers(mine.value).ndim < 2 and text != "{}"):
                    break
                value = turn(numbers(mine.value))
                if value.dtype.kind not in "iuf" or not _near(pair, value):
                    break
                found += 1
            if found == len(pairs):
                return f"the argument {text.format(leaf.name)}"
    return None


def _changed(pairs: Pairs) -> str | None:
    """One of the usual changes."""
    ranks = {want.ndim for _, _, want in pairs}
    for text, change in changes(min(ranks)):
        if "axes in the order" in text and len(ranks) > 1:
            continue
        if _holds(pairs, change):
            return text
    return None


def _ratio(got: np.ndarray, want: np.ndarray, case: Case) -> float | None:
    """By which one number all of ``want`` is multiplied; None where by none."""
    if got.shape != want.shape or not np.isfinite(got).all():
        return None
    square = float((want.astype(float) ** 2).sum())
    ratio = float((got * want).sum()) / square if square else 0.0
    if not ratio or not case.matches(got / ratio, want.astype(float)):
        return None
    return ratio


def lengths(case: Case) -> dict[str, float]:
    """Numbers that a factor may come from: lengths of axes, whole numbers given."""
    found: dict[str, float] = {}
    for leaf in case.leaves():
        shape = numbers(leaf.value).shape
        for axis in range(-1, -len(shape) - 1, -1):
            name = AXES.get(axis, f"{-axis}th-to-last axis")
            found[f"the length of the {name} of {leaf.name}"] = shape[axis]
    given = {**dict(zip(case.names, case.call.args, strict=False)), **case.call.kwargs}
    if case.call.build is not None:
        given |= {
            f"argument {i + 1} of the constructor": v for i, v in enumerate(case.call.build.args)
        }
        given |= dict(case.call.build.kwargs)
    for name, value in given.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            found[name] = value
    return found


def expression(values: Sequence[float], cases: Sequence[Case]) -> str | None:
    """In words, what gives these numbers in these cases: a constant, a power of a length.

    Whatever fits by chance in two calls is not told: a constant of single numbers needs calls of
    ``DIFFERENT`` kinds, a constant times a power as many different lengths.
    """
    known = [lengths(case) for case in cases]
    if np.allclose(values, values[0], rtol=1e-6, atol=0):
        arrays = all(numbers(part).size > 1 for case in cases for part in parts(case.want))
        kinds = len({tuple(sorted(row.items())) for row in known})
        told = f"{values[0]:.6g}"
        return told if told != "1" and (arrays or kinds >= DIFFERENT) else None
    common = [name for name in known[0] if all(name in row for row in known)]
    for power, words in POWERS.items():
        for name in common:
            made = np.array([row[name] for row in known]) ** power
            if len(set(made)) < 2:
                continue
            share = np.asarray(values) / made
            exact = np.isclose(share[0], 1)
            if not exact and len(set(made)) < DIFFERENT:
                continue
            if np.allclose(share, share[0], rtol=1e-6, atol=0):
                inside = _under_a_root(share[0], power, name)
                if inside:
                    return words.format(inside)
                return ("" if exact else f"{share[0]:.4g} times ") + words.format(name)
    for one, two in permutations(common, 2):
        for power, words in ((0.5, "the root of {}, divided by the root of {}"), (1, "{} / {}")):
            made = np.array([(row[one] / row[two]) ** power for row in known])
            if len(set(made)) > 1 and np.allclose(values, made, rtol=1e-6, atol=0):
                return words.format(one, two)
    return None


def _under_a_root(share: float, power: float, name: str) -> str:
    """A factor in front of a root, as it stands in formulas: √(2L); empty for odd ones."""
    if abs(power) != 0.5:
        return ""
    for number in (2, 3):
        if np.isclose(share, number**power):
            return f"({number} times {name})"
        if np.isclose(share, number**-power):
            return f"({name} / {number})"
    return ""


def _factor(pairs: Pairs) -> str | None:
    ratios, cases = [], []
    for case, got, want in pairs:
        if not want.any() and got.shape == want.shape and not got.any():
            continue  # zero times anything
        ratio = _ratio(got, want, case)
        if ratio is None:
            return None
        ratios.append(ratio)
        cases.append(case)
    if sum(not np.isclose(r, 1, rtol=1e-9) for r in ratios) < min(2, len(pairs)) or not ratios:
        return None
    if all(want.size == 1 for _, _, want in pairs) and len(pairs) < 3:
        return None  # any number is a factor of any other
    if np.allclose(ratios, 1, rtol=1e-6):
        return None  # that is rounding
    for value, text in NUMBERS.items():
        if np.allclose(ratios, value, rtol=1e-6):
            return text
    told = expression(ratios, cases)
    if told is None:
        return None
    return f"the right one times {told}"


def _added(pairs: Pairs) -> str | None:
    """The right one plus or minus one of the arguments, of the same shape; 0 adds nothing."""
    if all(case.matches(got, want) for case, got, want in pairs):
        return None
    for leaf in pairs[0][0].leaves():
        for sign, word in ((1.0, "plus"), (-1.0, "minus")):
            if all(_plus(pair, leaf.path, sign) for pair in pairs):
                return f"the right one {word} the argument {leaf.name}"
    return None


def _plus(pair: tuple[Case, np.ndarray, np.ndarray], path: Any, sign: float) -> bool:
    case, got, want = pair
    mine = {leaf.path: numbers(leaf.value) for leaf in case.leaves()}.get(path, np.array(True))
    if want.dtype.kind != "f" or mine.dtype.kind not in "iuf" or mine.shape != want.shape:
        return False
    return _near(pair, want + sign * mine) and (not mine.any() or not case.matches(got, want))


def _digits(pairs: Pairs) -> str | None:
    """Nearly right: to how many digits, in the worst case and in the best.

    What is small beside the arguments loses more digits, as 1 − 0.99998 does: that is told apart.
    """
    usual, small = [], []
    for case, got, want in pairs:
        if got.shape != want.shape or not np.isfinite(got).all():
            return None
        scale = _largest(want)
        far = _largest(got.astype(float) - want.astype(float))
        given = max((_largest(numbers(leaf.value)) for leaf in case.leaves()), default=0.0)
        group = small if scale < given / 100 else usual
        group.append(far / scale if scale else np.inf if far else 0.0)
    if max(usual + small) < COARSE:
        usual, small = usual + small, []
    if not usual or not 0 < max(usual) < COARSE or max(small, default=0.0) >= COARSEST:
        return None
    least, most, fewest = (
        int(-np.log10(max(each, 1e-16))) for each in (max(usual), min(usual), max(small, default=1))
    )
    digits = f"{least}" if least == most else f"{least} to {most}"
    beside = "where it is below a hundredth of the largest argument"
    lost = f" (to as few as {fewest} {beside})" if small else ""
    return f"right to {digits} digits or so, and no further{lost}"


def _largest(array: np.ndarray) -> float:
    """The size of the largest number that is finite."""
    sizes = np.abs(array.astype(complex if array.dtype.kind == "c" else float))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))


def _some_factor(pairs: Pairs) -> str | None:
    wide = [pair for pair in pairs if pair[2].size > 1 and pair[2].any()]
    ratios = [_ratio(got, want, case) for case, got, want in wide]
    if len(wide) < 2 or any(ratio is None for ratio in ratios):
        return None
    if np.allclose(np.array(ratios, float), ratios[0] or 0.0, rtol=1e-3):
        return None  # one number, for which rounding or a case alone does not fit
    every = [_ratio(got, want, case) for case, got, want in pairs if want.any()]
    known = [ratio for ratio in every if ratio is not None]
    text = "the right one times a number that changes from call to call"
    if len(known) < len(every):
        return text
    return f"{text}, from {min(known):.3g} to {max(known):.3g}"


def _some_offset(pairs: Pairs) -> str | None:
    wide = [pair for pair in pairs if pair[2].size > 1]
    for case, got, want in wide:
        if got.shape != want.shape or not np.isfinite(got).all() or want.dtype.kind == "b":
            return None
        if not case.matches(got - (got - want).mean(), want.astype(float)):
            return None
    return "the right one plus a number that changes from call to call" if len(wide) > 1 else None


def _offset(pairs: Pairs) -> str | None:
    shifts = []
    for case, got, want in pairs:
        if got.shape != want.shape or not np.isfinite(got).all() or want.dtype.kind == "b":
            return None
        shift = float((got - want).mean())
        if not case.matches(got - shift, want.astype(float)):
            return None
        shifts.append(shift)
    sizes = [want.size for _, _, want in pairs]
    if not all(shifts) or (max(sizes) == 1 and len(pairs) < 3):
        return None
    told = expression([abs(s) for s in shifts], [case for case, _, _ in pairs])
    signs = {s > 0 for s in shifts}
    if told is None or len(signs) > 1:
        return None
    return f"the right one {'plus' if shifts[0] > 0 else 'minus'} {told}"


def _powers(pairs: Pairs) -> str | None:
    """A power of the right one, all of it positive."""
    if not all((want > 0).all() and (got > 0).all() for _, got, want in pairs):
        return None
    for power, text in (
        (2.0, "squared"),
        (0.5, "under a root"),
        (-1.0, "turned upside down (1/x)"),
    ):
        if _holds(pairs, lambda w, p=power: w**p):
            return f"the right one {text}"
    return None


def _one_axis(pairs: Pairs) -> str | None:
    """Every slice along one axis is off by a factor, or by a number, of its own."""
    if len(pairs) < 2 or any(want.dtype.kind == "b" for _, _, want in pairs):
        return None
    for axis in (-1, -2):
        if not all(want.ndim >= -axis and want.shape[axis] > 1 for _, _, want in pairs):
            continue
        for how in ("factor", "number"):
            if all(_per_slice(pair, axis, how) for pair in pairs):
                name = axis_words(axis, 2)
                return (
                    f"the right one but for a {how} of its own in each slice along {name}"
                    if how == "factor"
                    else f"the right one plus a number of its own for each slice along {name}"
                )
    return None


def _per_slice(pair: tuple[Case, np.ndarray, np.ndarray], axis: int, how: str) -> bool:
    case, got, want = pair
    if got.shape != want.shape or not np.isfinite(got).all():
        return False
    if how == "number":
        value = want + (got - want).mean(axis, keepdims=True)
    else:
        square = (want * want).sum(axis, keepdims=True)
        with np.errstate(all="ignore"):
            value = want * ((got * want).sum(axis, keepdims=True) / square)
    return bool(np.isfinite(value).all() and got.any()) and case.matches(got, value)
