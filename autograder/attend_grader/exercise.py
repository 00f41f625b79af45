"""What an exercise is: its answer, its checks, and what is known about how people get it wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attend_grader.compare import FLOAT64, Miss, Tolerance, expect_close
from attend_grader.subject import Outcome, Subject, SubjectError


@dataclass(frozen=True)
class Call:
    """One set of arguments for an exercise's function."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """What a check works with: fresh random numbers and the exercise's oracle.

    Attributes:
        rng: this property's own generator; its numbers depend on the seed and the property alone.
        reference: the oracle.
        extra: true when grading: run more cases than a notebook check does.
        names: parameter names of the reference, for messages.
    """

    rng: np.random.Generator
    reference: Callable[..., Any]
    extra: bool
    names: tuple[str, ...]

    def repeat(self, usual: int, extra: int) -> range:
        """How often to repeat a random case: ``usual`` in a notebook, ``extra`` when grading."""
        return range(extra if self.extra else usual)

    def agree(
        self,
        subject: Subject,
        *args: Any,
        tolerance: Tolerance = FLOAT64,
        why: str = "",
        **kwargs: Any,
    ) -> Outcome:
        """Call subject and reference on the same arguments and hold them to each other.

        Args:
            subject: what is being checked.
            *args: arguments for both.
            tolerance: how far values may differ.
            why: said in front of a miss: what is special about these arguments.
            **kwargs: keyword arguments for both.

        Returns:
            The subject's outcome.

        Raises:
            Miss: shape, dtype or values differ.
            SubjectError: the candidate raised.
        """
        outcome = subject.run(args, kwargs)
        if outcome.error is not None:
            raise SubjectError(outcome.error)
        want = self.reference(*args, **kwargs)
        try:
            expect_close(outcome.value, want, tolerance)
        except Miss as miss:
            given = describe_call(self.names, args, kwargs)
            warned = tuple(("NumPy warned", text) for text in outcome.warnings[:1])
            raise miss.on(given, why, warned) from None
        return outcome


Test = Callable[[Subject, Probe], None]
"""Raises :class:`Miss` (or lets a ``SubjectError`` through) where the property does not hold."""


@dataclass(frozen=True)
class Property:
    """One line of the card: a thing that must hold, and what it is worth."""

    name: str
    points: int
    test: Test


@dataclass(frozen=True)
class Exercise:
    """One graded function or class.

    Attributes:
        chapter: ``"03_attention"``.
        title: what the header calls it, in words.
        goal: one sentence: what the learner's function will do.
        reference: the answer, from ``attend_solutions``; its name is the exercise's.
        properties: what is checked, cheap first; their points are the exercise's.
        draws: fresh random calls that show behaviour: used to name a misconception, to tell
            mutants apart and as the smoke test before a widget runs the learner's function.
        misconceptions: name → wrong implementation; its docstring is what the learner is told.
        alternatives: name → right implementation in another style.
        uses: names of earlier exercises the answer calls (follow-through marks).
        forbidden: dotted names the answer may not call.
        importance: 1 (nice to know) to 5 (everything later rests on it).
    """

    chapter: str
    title: str
    goal: str
    reference: Callable[..., Any]
    properties: tuple[Property, ...]
    draws: Callable[[np.random.Generator], Sequence[Call]]
    misconceptions: Mapping[str, Callable[..., Any]]
    alternatives: Mapping[str, Callable[..., Any]]
    hints: tuple[str, ...]
    minutes: int
    difficulty: int
    importance: int
    uses: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's name, as the learner writes it."""
        return self.reference.__name__

    @property
    def id(self) -> str:
        """``"03_attention/softmax"``: unique in the course."""
        return f"{self.chapter}/{self.name}"

    @property
    def points(self) -> int:
        """The most an answer can earn."""
        return sum(p.points for p in self.properties)


@dataclass(frozen=True)
class Chapter:
    """A chapter's exercises, in the order in which it asks them."""

    id: str
    title: str
    question: str
    exercises: tuple[Exercise, ...]


def describe_call(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """``q (3, 4), k (5, 4), scaled=False``: the arguments of a call, short."""
    pairs = [*zip(names, args, strict=False), *kwargs.items()]
    return ", ".join(
        f"{name} {value.shape}" if hasattr(value, "shape") else f"{name}={value!r}"
        for name, value in pairs
    )
