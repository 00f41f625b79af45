"""Naming the slip: compare what a candidate does with what known misconceptions do.

Behaviour is what a call returns, which error it raises, and which inputs it changes, over the
exercise's draws. A misconception is named where all of it agrees.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attend_grader.checks.behaviour import behaviour, same_behaviour
from attend_grader.checks.compare import Tolerance, mismatches
from attend_grader.checks.contract import UNCHANGED
from attend_grader.checks.drawn import DRAWN, Compared, once
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.subject import Subject, local
from attend_grader.inside.kernels import launches
from attend_grader.judging.report import Finding
from attend_grader.judging.run import LAST_LOOK, NOT_YET, loss, passes, run_properties


def diagnose(
    subject: Subject, exercise: Exercise, findings: Sequence[Finding], seed: int, *, extra: bool
) -> tuple[str | None, str]:
    """The misconception whose behaviour ``subject`` shows: (name, explanation) or (None, "").

    Slips that change no value (but a gradient, or the cost) agree with the reference on every
    draw; those are told apart by the properties they lose, and by the reasons.
    """
    known: Compared = once(exercise, Compared)
    interpreted = launches(exercise.reference)  # observe() makes such calls again
    shown = behaviour(replace(subject, log=[]) if interpreted else subject, known.calls)
    looks_right = same_behaviour(shown, known.of(exercise.reference))
    slow = {prop.name for prop in exercise.properties if prop.slow}
    lost = [(f.property, f.reason) for f in findings if not f.passed and f.property not in slow]
    on_kernels = _OnKernels(subject, exercise, lost, extra) if interpreted else None
    for name, wrong in exercise.misconceptions.items():
        if not same_behaviour(shown, known.of(wrong)):
            continue
        if not looks_right:
            return name, explanation(wrong)
        if on_kernels and on_kernels.tested:
            if on_kernels.loses_alike(wrong):
                return name, explanation(wrong)
        elif _loses(local(wrong), exercise, lost, seed, extra):
            return name, explanation(wrong)
    return None, ""


def _loses(subject: Subject, exercise: Exercise, lost: Misses, seed: int, extra: bool) -> bool:
    """Whether a subject loses these properties, for these reasons, and no others."""
    if any(passes(subject, exercise, (name,), seed, extra=extra) for name in _tested(lost)):
        return False  # most are told apart by the first of them
    return _same_misses(_lost(subject, exercise, seed, extra), lost)


def _tested(lost: Misses) -> list[str]:
    """Those that are lost in their own test, not in a last look or by a call of another's."""
    return [
        name
        for name, reason in lost
        if name != UNCHANGED and not reason.startswith((LAST_LOOK, NOT_YET))
    ]


class _Lost:
    """Why slips lose properties on fixed draws, found out as far as needed."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self._known: dict[tuple[Callable[..., Any], str, bool], str] = {}

    def why(self, wrong: Callable[..., Any], name: str, extra: bool) -> str:
        """Why a slip loses a property, or ""."""
        key = wrong, name, extra
        if key not in self._known:
            self._known[key] = loss(local(wrong), self.exercise, name, DRAWN, extra=extra)
        return self._known[key]


class _OnKernels:
    """Whether slips lose what a candidate does. Interpreted, a property takes long: each is tested
    on fixed draws, once of a slip and once of the candidate."""

    def __init__(self, subject: Subject, exercise: Exercise, lost: Misses, extra: bool) -> None:
        self.tested = _tested(lost)
        gone = {name for name, _ in lost}
        self._held = [
            prop.name
            for prop in exercise.properties
            if not (prop.slow or prop.promise or prop.name in gone)
        ]
        self._subject = replace(subject, log=[], printed=[])
        self._exercise, self._extra = exercise, extra
        self._said: dict[str, str] = {}

    def loses_alike(self, wrong: Callable[..., Any]) -> bool:
        """Whether a slip loses the same properties for the same reasons, and no others."""
        slips: _Lost = once(self._exercise, _Lost)
        for name in self.tested:
            if name not in self._said:
                about = self._subject, self._exercise, name, DRAWN
                self._said[name] = loss(*about, extra=self._extra)
            if not _same_message(self._said[name], slips.why(wrong, name, self._extra)):
                return False
        others = (slips.why(wrong, name, self._extra) for name in self._held)
        return any(self._said.values()) and not any(others)


def shows(subject: Subject, exercise: Exercise, name: str) -> bool:
    """Whether ``subject`` does on all draws what the named misconception does."""
    known: Compared = once(exercise, Compared)
    does = behaviour(subject, known.calls)
    return same_behaviour(does, known.of(exercise.misconceptions[name]))


Misses = Sequence[tuple[str, str]]
"""Properties that are lost, each with its reason."""


def _lost(subject: Subject, exercise: Exercise, seed: int, extra: bool) -> Misses:
    findings = run_properties(subject, exercise, seed, extra=extra, slow=False) or []
    return [(f.property, f.reason) for f in findings if not f.passed]


def _same_misses(one: Misses, other: Misses) -> bool:
    """Whether the same properties are lost and the same is said of them."""
    return [name for name, _ in one] == [name for name, _ in other] and all(
        _same_message(a, b) for (_, a), (_, b) in zip(one, other, strict=True)
    )


_PLACE = re.compile(r" in line \d+ of \w+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_ROUNDING = Tolerance(
    "numbers in messages",
    1e-3,
    "rounding moves the sixth digit at most; the gradients of two slips differ by far more",
    absolute=1e-6,
)


def _same_message(one: str, other: str) -> bool:
    """The same words, numbers up to rounding; an error may come from another line."""
    one, other = _PLACE.sub("", one), _PLACE.sub("", other)
    if _NUMBER.split(one) != _NUMBER.split(other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return not any(
        mismatches(np.asarray(float(a)), np.asarray(float(b)), _ROUNDING) for a, b in pairs
    )


def explanation(misconception: Callable[..., Any]) -> str:
    """What the learner is told: the misconception's docstring on one line."""
    return " ".join((inspect.getdoc(misconception) or "").split())
