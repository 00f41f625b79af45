"""Calling a learner's function from a widget: the answer is arrays, or a sentence to show."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Answer:
    """What came back: the arrays, or (in `problem`) the sentence to show in their place.

    `remark` tells what else happened: a warning, or something printed.
    """

    arrays: tuple[np.ndarray, ...] = ()
    problem: str = ""
    remark: str = ""


def ask(
    function: Callable[..., Any],
    exercise: str,
    arguments: tuple[np.ndarray, ...],
    shapes: dict[str, tuple[int, ...]],
) -> Answer:
    """Call `function` on copies of `arguments` and check what it returns against `shapes` (name →
    shape).

    One name: the function returns an array; several: a tuple of that many. A function that is not
    started, raises, prints, warns or returns the wrong thing gives a sentence that names the
    exercise.
    """
    printed = io.StringIO()
    advice = f"Run check({exercise}) to see what to fix."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                result = function(*(argument.copy() for argument in arguments))
            except NotImplementedError:
                problem = (
                    f"This picture waits for the exercise {exercise}, which is not started yet:"
                    " write it, then run this cell again."
                )
                return Answer(problem=problem)
            except (
                Exception
            ) as error:  # a learner's function may raise anything: report it as words
                words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
                return Answer(problem=f"Your {exercise} stopped with {words}. {advice}")
    parts = (result,) if len(shapes) == 1 else result
    wanted = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if len(shapes) > 1 and not (isinstance(result, tuple | list) and len(result) == len(shapes)):
        problem = f"Your {exercise} should return {wanted}; it returned {_kind(result)}. {advice}"
        return Answer(problem=problem)
    arrays = []
    for (name, shape), part in zip(shapes.items(), parts, strict=True):
        array = _array(part)
        if array is None or array.dtype.kind not in "fiu" or array.shape != shape:
            wanted = f"{name} of shape {shape}"
            problem = f"Your {exercise} should return {wanted}; it returned {_kind(part)}. {advice}"
            return Answer(problem=problem)
        if not np.isfinite(array).all():
            problem = (
                f"Your {exercise} returned {name} with NaN or infinity for these vectors. {advice}"
            )
            return Answer(problem=problem)
        arrays.append(array.astype(float))
    return Answer(tuple(arrays), remark=_remark(exercise, printed.getvalue(), caught))


def _array(value: object) -> np.ndarray | None:
    """Return an array, or None where there is none to be had (also from ragged lists)."""
    try:
        return np.asarray(value)
    except (RuntimeError, TypeError, ValueError):
        return None


def _kind(value: Any) -> str:
    """Say in a few words what a value is."""
    if value is None:
        return "nothing (None)"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and type {value.dtype}"
    if type(value).__module__.startswith("torch") and hasattr(value, "shape"):
        return f"a tensor of shape {tuple(value.shape)} and type {value.dtype}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def _remark(exercise: str, printed: str, caught: list[warnings.WarningMessage]) -> str:
    """Say what the function warned of or printed, shortly."""
    words = []
    if caught:
        words.append(f"Your {exercise} warned: {str(caught[0].message).splitlines()[0][:120]}.")
    if printed.strip():
        words.append(f"Your {exercise} printed: {' '.join(printed.split())[:120]}")
    return " ".join(words)
