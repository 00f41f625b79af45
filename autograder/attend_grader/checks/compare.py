"""Comparing what came with what was expected, and saying the difference so that it helps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attend_grader.inside.codec import Opaque

CALLED = "called with"
"""The label of evidence that shows inputs."""

SHOWN_ELEMENTS = 16
"""Arrays up to this size are shown whole in a message."""


@dataclass(frozen=True)
class Tolerance:
    """How far two right answers may differ, relative to the largest expected value.

    Measuring against the largest value of the array (not element by element) is what rounding
    in sums does: an element that cancels to nearly zero carries its neighbours' error.
    ``absolute`` is allowed besides: where all of the answer cancels to zero, terms of the size of
    the inputs (1 to 100 in checks) leave their rounding.
    """

    name: str
    relative: float
    reason: str
    absolute: float = 0.0


FLOAT64 = Tolerance(
    "float64",
    1e-9,
    "sums of up to 10⁴ float64 terms in any order differ by < 10⁴ · 1.1e-16 ≈ 1e-12; "
    "three digits are left for exp and for ill-conditioned inputs",
    absolute=1e-12,
)
FLOAT32 = Tolerance(
    "float32",
    1e-5,
    "float32 rounds at 6e-8; up to 10² terms in any order differ by about 1e-6 to 6e-6",
    absolute=1e-6,
)
PRINTED = Tolerance("printed", 5e-4, "hand-worked numbers are printed to three decimals")


class Miss(Exception):
    """A property does not hold: what was expected, what came, where, and the likely cause.

    Misses of one ``topic`` have one reason, which a card tells once; without a topic, misses of a
    call are the same where their causes are, any others where their messages are.
    """

    def __init__(
        self,
        text: str,
        evidence: Sequence[tuple[str, str]] = (),
        cause: str = "",
        topic: str = "",
    ) -> None:
        super().__init__(text)
        self.text = text
        self.evidence = tuple(evidence)
        self.cause = cause
        self.topic = topic

    @property
    def message(self) -> str:
        """What the learner reads."""
        return f"{self.text} {self.cause}".rstrip()

    def on(self, given: str, why: str, more: Sequence[tuple[str, str]] = ()) -> Miss:
        """The same miss, with the call it happened on and what is special about it."""
        text = f"{why}: {self.text}" if why else self.text
        called = ((CALLED, given),) if given else ()
        evidence = (*called, *self.evidence, *more)
        return Miss(text, evidence, self.cause, self.topic or self.cause)


def expect_close(
    got: Any, want: Any, tolerance: Tolerance = FLOAT64, what: str | Sequence[str] = "result"
) -> None:
    """Hold ``got`` to ``want``: structure, shape, kind of dtype, then values.

    Args:
        got: what the candidate returned.
        want: what the oracle returned: an array, a number, or a tuple of these.
        tolerance: relative to the largest finite value of ``want``.
        what: what to call it in the message; for a tuple, what to call each item.

    Raises:
        Miss: they differ.
    """
    if isinstance(want, tuple):
        names = item_names(what, len(want))
        for index in range(len(want)):
            expect_item(got, want, index, tolerance, names)
        return
    assert isinstance(what, str)
    expect_kind(got, want, what)
    got_array, want_array = _numeric(got), _numeric(want)
    if got_array.shape != want_array.shape:
        text, cause = _shape_message(got_array.shape, want_array.shape, what)
        raise Miss(text, cause=cause)
    if got_array.dtype.kind == "c" != want_array.dtype.kind:
        text = f"wrong type: {what} is complex ({got_array.dtype}), expected real numbers."
        raise Miss(text, cause="Take its real part where it is formed: `.real`.", topic=text)
    if want_array.dtype.kind == "f" and got_array.dtype.kind != "f":
        cause = "Whole numbers and booleans hold no fractions."
        if _is_tensor(want):
            cause = (
                "Whole numbers stay whole under `//`, and where they are returned as they came: "
                "divide by `/`, convert with `.double()` or `.float()`."
            )
        text = f"wrong type: {what} has dtype {got_array.dtype}, expected a floating one."
        raise Miss(text, _shown(got_array, want_array), cause)
    _expect_values(got_array, want_array, tolerance, what)


def expect_kind(got: Any, want: Any, what: str) -> None:
    """Hold ``got`` to being numbers of the kind of ``want``: an array, a tensor or a number.

    Raises:
        Miss: it is something else.
    """
    if got is None:
        text = f"your function returned None instead of the {what}."
        raise Miss(text, topic="None")
    want_array = _numeric(want)
    if _is_tensor(want) and want_array.ndim and isinstance(got, np.ndarray):
        text = f"wrong type: {what} is a NumPy array, expected a torch tensor."
        raise Miss(text, cause="Stay in torch throughout: gradients flow only there.", topic=text)
    if not isinstance(got, (np.ndarray, np.generic, int, float, complex)) and not _is_tensor(got):
        kind = "a number"
        if want_array.ndim:
            kind = "a tensor" if _is_tensor(want) else "an array"
        text = f"wrong type: {what} is of type {_type_name(got)}, expected {kind}."
        raise Miss(text, topic=text)


def expect_item(
    got: Any, want: tuple, index: int, tolerance: Tolerance, names: Sequence[str]
) -> None:
    """Hold one of several values to its counterpart in ``want``, once all are there.

    Raises:
        Miss: the values are not a tuple of that length, or this one differs.
    """
    expect_items(got, names)
    try:
        expect_close(got[index], want[index], tolerance, names[index])
    except Miss as miss:
        order = f"the order is `return {', '.join(names)}`."
        others = [other for other in range(len(names)) if other != index]
        for other in others:
            if np.any(_numeric(want[other])) and _agree(got[index], want[other], tolerance):
                if _agree(got[other], want[other], tolerance):  # in both places, so not exchanged
                    miss.cause = f"That is also your {names[other]}."
                else:
                    miss.cause, miss.topic = f"That is {names[other]}: {order}", order
                raise
        mine = as_array(got[index])
        shape = None if mine is None else mine.shape
        alike = [
            names[other]
            for other in others
            if np.shape(want[other]) == shape != np.shape(got[other])
        ]
        if shape is not None and alike and shape != np.shape(want[index]):
            miss.cause, miss.topic = f"That is the shape of {alike[0]}: {order}", order
        raise


def _agree(got: Any, want: Any, tolerance: Tolerance) -> bool:
    """Whether an array has the shape and the numbers of another."""
    mine = as_array(got)
    if mine is None or mine.dtype.kind != "f" or mine.shape != np.shape(want):
        return False
    return not mismatches(mine, _numeric(want), tolerance).any()


def item_names(what: str | Sequence[str], count: int) -> tuple[str, ...]:
    """Names for the items of a tuple: those given, or "first result", "second result", …"""
    if not isinstance(what, str):
        return tuple(what)
    ordinals = ("first", "second", "third", "fourth", "fifth", "sixth")
    return tuple(f"{ordinals[index]} {what}" for index in range(count))


def expect_items(got: Any, names: Sequence[str]) -> None:
    """Require ``got`` to be a tuple (or list) with one item for each name.

    Raises:
        Miss: it is something else, or has another length.
    """
    named = all(name.isidentifier() for name in names)
    topic = f"expected `return {', '.join(names)}`" if named else f"expected {len(names)} values"
    if got is None:
        text = f"your function returned None; {topic}."
        raise Miss(text, topic=topic)
    if not isinstance(got, (tuple, list)):
        one = _type_name(got)
        mine = as_array(got)
        one = f"one {one}" if mine is None else f"one array of shape {mine.shape}"
        raise Miss(f"your function returned {one}; {topic}.", topic=topic)
    if len(got) != len(names):
        raise Miss(f"your function returned {len(got)} values; {topic}.", topic=topic)


def _expect_values(got: np.ndarray, want: np.ndarray, tolerance: Tolerance, what: str) -> None:
    bad = mismatches(got, want, tolerance)
    if not bad.any():
        return
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.where(bad, np.abs(_wide(got) - _wide(want)), -1.0)
    distance[bad & ~np.isfinite(distance)] = np.inf
    where = np.unravel_index(int(np.argmax(distance)), distance.shape)
    index = f"[{', '.join(map(str, where))}]" if want.ndim else ""
    count = f" ({int(bad.sum())} of {want.size} differ)" if want.size > 1 else ""
    mine, right = told_apart(got[where], want[where])
    message = f"wrong value: {what}{index} is {mine}, expected {right}{count}."
    with np.errstate(all="ignore"):  # a guess may overflow on wild values; then it is no match
        cause = likely_cause(got, want, tolerance)
    raise Miss(message, _shown(got, want), cause)


def mismatches(got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """True where ``got`` is further from ``want`` than rounding explains (NaN never agrees)."""
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = tolerance.relative * scale + tolerance.absolute
        near = allowed > 0 and np.abs(_wide(got) - _wide(want)) <= allowed
    return ~(near | (got == want))


def _wide(array: np.ndarray) -> np.ndarray:
    """In the largest kind of its numbers."""
    return array.astype(complex if array.dtype.kind == "c" else float)


def likely_cause(got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> str:
    """What the difference is as a whole, where one thing explains all of it; else nothing."""

    def same(a: np.ndarray, b: np.ndarray) -> bool:
        return a.shape == b.shape and not mismatches(a, b, tolerance).any()

    if np.isnan(got).any() and not np.isnan(want).any():
        count = int(np.isnan(got).sum())
        return (
            f"{count} of these numbers {'is' if count == 1 else 'are'} NaN, as inf − inf, 0 · inf, "
            "0 / 0 and inf / inf are, and roots and logarithms of negative numbers."
        )
    if np.isinf(got).any() and not np.isinf(want).any():
        return (
            "Some of these numbers are infinite, as after an overflow, a division by 0 or a "
            "logarithm of 0, or from infinite arguments."
        )
    if rounded := _rounded(got, want, tolerance):
        return rounded
    if not np.isfinite(got).all() or not np.isfinite(want).all() or want.size < 2:
        return ""
    if "c" in (got.dtype.kind, want.dtype.kind):
        return ""
    if want.ndim >= 2 and same(np.swapaxes(got, -1, -2), want):
        return "Yours is the transpose (last two axes) of what is expected."
    if same(-got, want):
        return "Every sign is flipped."
    if (want == want.flat[0]).all():  # any constant is a factor, or a shift, of another
        return ""
    ratio = float((got * want).sum() / max(float((want * want).sum()), 1e-300))
    if (
        np.isfinite(ratio)
        and f"{ratio:.4g}" != "1"
        and abs(ratio - 1) > 10 * tolerance.relative  # nearer, a wide one lets others pass
        and 1e-12 < abs(ratio) < 1e12
        and same(got / ratio, want)
        and same(got, ratio * want)  # where the tolerance is wide, one of both says nothing
    ):
        return f"Yours is everywhere {ratio:.4g} times what is expected."
    shift = float((got - want).mean())
    if same(got - shift, want) and np.ptp(got - want) <= 0.01 * abs(shift):
        side = "larger" if shift > 0 else "smaller"
        return f"Yours is everywhere {side} by {abs(shift):.4g}."
    return ""


SINGLE = Tolerance(
    "float32 at best",
    1e-6,
    "float32 rounds at 6e-8; a dozen roundings in a row stay below ten of these",
)


def _rounded(got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> str:
    """What to say of numbers right to float32's digits where float64's are asked for, or ""."""
    if tolerance.relative >= SINGLE.relative or got.dtype.kind not in "fc":
        return ""
    if mismatches(got, want, SINGLE).any():
        return ""
    if got.dtype == np.float32:
        kind = "a Python float or float64" if want.ndim == 0 else "float64"
        return f"Yours is float32, which holds seven digits: expected {kind}."
    if got.dtype == np.complex64:
        return "Yours is complex64, whose parts hold seven digits: expected complex128."
    digits = round(-math.log10(tolerance.relative)) if tolerance.relative else "all"
    return f"Nearly right, but {digits} digits are expected."


def _shape_message(got: tuple[int, ...], want: tuple[int, ...], what: str) -> tuple[str, str]:
    """What differs, and the likely cause."""
    message = f"wrong shape: {what} is {got}, expected {want}."
    extra = len(got) - len(want)
    if sorted(got) == sorted(want):
        return message, "The same lengths, in another order."
    if extra:
        count = "One axis" if abs(extra) == 1 else f"{abs(extra)} axes"
        if [n for n in got if n != 1] == [n for n in want if n != 1]:
            count += " of length 1"
        return message, f"{count} too {'few' if extra < 0 else 'many'}."
    return message, longer(got, want)


def longer(got: tuple[int, ...], want: tuple[int, ...]) -> str:
    """What may have made axes longer that should have length 1; empty where others differ.

    An axis that is lost lets those on its left move up: the new length is one of theirs.
    """
    if len(got) != len(want):
        return ""
    grown = [i for i, length in enumerate(want) if got[i] != length]
    if not grown or any(want[i] != 1 or got[i] not in want[:i] for i in grown):
        return ""
    return (
        "An axis of length 1 has become longer, as by broadcasting: did one get lost on the way, "
        "by squeeze() or in a sum that does not keep its axis?"
    )


def _shown(got: np.ndarray, want: np.ndarray) -> tuple[tuple[str, str], ...]:
    if not want.ndim or want.size > SHOWN_ELEMENTS:
        return ()
    texts: tuple[str, ...] = ()
    for digits in (4, 8, 16):
        texts = tuple(_text(array, digits) for array in (want, got))
        if texts[0] != texts[1]:
            break
    return (("expected", texts[0]), ("got", texts[1]))


def _text(array: np.ndarray, digits: int) -> str:
    with np.errstate(invalid="ignore"):  # memory that nobody wrote holds a NaN that signals
        wide = _wide(array) if array.dtype.kind in "fc" else array  # else printed short
        tiny = wide.dtype.kind == "f" and 0 < np.abs(wide).max(initial=0.0) < 10.0**-digits
    return np.array2string(wide, precision=digits, suppress_small=not tiny)


def told_apart(got: Any, want: Any) -> tuple[str, str]:
    """Two numbers as text, six digits each or as many as it takes to see that they differ.

    Large whole numbers are written out.
    """
    kind = complex if np.iscomplexobj(got) or np.iscomplexobj(want) else float
    sizes = [abs(kind(x)) for x in (got, want)]
    if kind is float and 1e6 <= max(sizes) < 2**53 and all(size.is_integer() for size in sizes):
        return f"{float(got):,.0f}", f"{float(want):,.0f}"
    texts = ("", "")
    for digits in range(6, 18):
        texts = (f"{kind(got):.{digits}g}", f"{kind(want):.{digits}g}")
        if texts[0] != texts[1]:
            break
    return texts


def as_array(value: Any) -> np.ndarray | None:
    """``value`` as a NumPy array if it is an array or a tensor; else None."""
    return _numeric(value) if isinstance(value, np.ndarray) or _is_tensor(value) else None


def _numeric(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray) or not _is_tensor(value):
        return np.asarray(value)
    try:
        return value.detach().numpy()
    except TypeError:  # NumPy has no bfloat16
        return value.detach().float().numpy()


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.startswith("torch") and hasattr(value, "numpy")


def _type_name(value: Any) -> str:
    return value.type_name if isinstance(value, Opaque) else type(value).__name__
