"""Checks of masks: tables of True (may look) and False, and how one goes wrong.

A mask is told apart from numbers: what is added to scores (0 and -inf) and a table of 1 and 0 are
near misses that deserve their own words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attend_grader.checks.compare import Miss, as_array, expect_close
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Probe
from attend_grader.checks.subject import Subject

SHOWN = 64
"""Masks up to this many places are shown whole."""


def agree_mask(
    probe: Probe,
    subject: Subject,
    *args: Any,
    want: np.ndarray | None = None,
    why: str = "",
    boolean: bool = False,
    squeezed: bool = False,
    what: str = "mask",
    **kwargs: Any,
) -> Outcome:
    """Call the subject and compare the mask it returns with the right one.

    Args:
        probe: names the inputs and gives the reference.
        subject: what is being checked.
        *args: arguments for the subject (and the reference).
        want: the right mask; without it, the reference is asked.
        why: said in front of a miss: what is special about these arguments.
        boolean: require the type bool too; else numbers 0 and 1 will do.
        squeezed: take axes of length 1 that are missing or too many as right.
        what: what a message calls it.
        **kwargs: keyword arguments for subject and reference.

    Raises:
        Miss: type, shape or an entry differs.
        SubjectError: the candidate raised.
    """
    outcome = probe.call(subject, *args, **kwargs)
    want = probe.reference(*args, **kwargs) if want is None else want
    assert want is not None
    try:
        expect_mask(outcome.value, want, boolean=boolean, squeezed=squeezed, what=what)
    except Miss as miss:
        raise miss.on(probe.given(args, kwargs), why) from None
    return outcome


def expect_mask(
    got: Any,
    want: np.ndarray,
    *,
    boolean: bool = False,
    squeezed: bool = False,
    what: str = "mask",
) -> None:
    """Hold ``got`` to the mask ``want``; see :func:`agree_mask`.

    Raises:
        Miss: they differ.
    """
    array = as_array(got)
    if array is None:
        expect_close(got, want, what=what)  # says what came instead
        raise Miss("wrong type: the result is no array.")
    if squeezed and array.squeeze().shape == want.squeeze().shape:
        array = array.reshape(want.shape)
    expect_close(np.zeros(array.shape), np.zeros(want.shape), what=what)
    shown = _shown(array, want)
    odd = array[(array != 0) & (array != 1)]
    if odd.size:
        text = f"wrong values: a {what} says True or False, but yours holds {odd.flat[0]:g}."
        cause = ""
        if np.isneginf(odd).any():
            cause = "That is what is added to scores; here True means: this query may look."
        raise Miss(text, shown, cause, topic=text)
    truth = array != 0
    wrong = truth != want
    if wrong.any():
        where = tuple(int(i[0]) for i in np.nonzero(wrong))
        place = f"[{', '.join(map(str, where))}]"
        text = (
            f"wrong value: {what}{place} is {bool(truth[where])}, expected {bool(want[where])} "
            f"({int(wrong.sum())} of {want.size} differ)."
        )
        raise Miss(text, shown, _cause(truth, want))
    if boolean and array.dtype != bool:
        text = f"wrong type: the {what} has dtype {array.dtype}, expected bool."
        cause = "A comparison (`<`, `<=`, …) gives booleans, .astype(bool) turns numbers into them."
        raise Miss(text, shown, cause, topic=text)


def _cause(got: np.ndarray, want: np.ndarray) -> str:
    """A guess from the pattern of the difference, or an empty string."""
    if (got != want).all():
        return "Every entry is the opposite of what is expected: True means that it may look."
    turned = np.swapaxes(got, -1, -2)
    if turned.shape == want.shape and (turned == want).all():
        return "Yours is the transpose: a row belongs to a query, a column to a key."
    return ""


def _shown(got: np.ndarray, want: np.ndarray) -> tuple[tuple[str, str], ...]:
    if want.size > SHOWN or not want.ndim:
        return ()
    return (("expected", _text(want)), ("got", _text(got)))


def _text(mask: np.ndarray) -> str:
    """1 and 0 rather than True and False: columns stay under each other."""
    return np.array2string(mask.astype(int) if mask.dtype == bool else mask)
