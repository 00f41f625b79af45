"""Properties that recur: a worked example, agreement with the reference or with an oracle.

What a contract promises (types, views, leading axes, gradients) needs no property here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attend_grader.checks.compare import FLOAT64, Miss, Tolerance
from attend_grader.checks.instances import target_of
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call, Probe, Property
from attend_grader.checks.properties import NUMERICAL, derivative
from attend_grader.checks.subject import Subject

Fresh = Iterable[tuple[str, Call]]
"""Fresh cases: what is special about the call, in words, and the call."""

Known = Iterable[tuple[str, Sequence[Any], Any]]
"""Cases whose answer is known: what is special, the arguments, the right value."""

Cases = Callable[[np.random.Generator], Fresh]

Clue = Callable[[Any], str]

ANEW = "Each result is new."
"""What a contract says of a function without arrays among its arguments; a last look checks it."""


def no_clue(value: Any) -> str:
    """Nothing to say of the candidate's numbers."""
    del value
    return ""


def _asked(subject: Subject, drawn: Fresh) -> Iterator[tuple[str, Call, Outcome | None]]:
    """Cases and what the candidate did on them, where it was asked already.

    The first is left to be asked alone, as a wrong answer often fails it; the others are carried
    together.
    """
    cases = iter(drawn)
    for why, call in itertools.islice(cases, 1):
        yield why, call, None
    others = list(cases)
    came = subject.many([call for _, call in others])
    for (why, call), outcome in zip(others, came, strict=True):
        yield why, call, outcome


def worked(
    name: str,
    *args: Any,
    want: Any,
    points: int = 1,
    parts: Sequence[int | None] = (None,),
    why: str = "",
    tolerance: Tolerance = FLOAT64,
    clue: Clue = no_clue,
    **kwargs: Any,
) -> Property:
    """One call whose answer was worked out by hand.

    Args:
        name: the card's line.
        *args: the call's arguments.
        want: the right value, or values.
        points: what it is worth.
        parts: of several results, look at these, one after the other.
        why: said in front of a miss.
        tolerance: how far values may differ.
        clue: the likely cause, given the candidate's numbers.
        **kwargs: the call's keyword arguments.
    """

    def test(subject: Subject, probe: Probe) -> None:
        told: dict[str, Any] = {"why": why, "tolerance": tolerance, "clue": clue, **kwargs}
        for part in parts:
            probe.agree(subject, *args, want=want, part=part, **told)

    return Property(name, points, test)


def agrees(
    name: str,
    cases: Cases,
    *,
    points: int = 1,
    repeat: int = 3,
    part: int | None = None,
    tolerance: Tolerance = FLOAT64,
    clue: Clue = no_clue,
) -> Property:
    """Fresh cases on which the candidate must agree with the reference.

    Args:
        name: the card's line.
        cases: makes them.
        points: what it is worth.
        repeat: how often they are made when grading; once in a notebook.
        part: of several results, look at this one only.
        tolerance: how far values may differ.
        clue: the likely cause, given the candidate's numbers.
    """

    def test(subject: Subject, probe: Probe) -> None:
        drawn = (case for _ in probe.repeat(1, repeat) for case in cases(probe.rng))
        for why, call, came in _asked(subject, drawn):
            on, at = subject, probe
            if call.build is not None:
                built = call.build
                if came is not None and came.error is None:
                    at = probe.on(target_of(probe.reference, call), built.args, built.kwargs)
                else:  # once more where it raised: does the constructor?
                    came = None
                    on, at = probe.build(
                        subject, *built.args, parameters=call.parameters, **built.kwargs
                    )
            at.agree(
                on,
                *call.args,
                part=part,
                tolerance=tolerance,
                why=why,
                clue=clue,
                method=call.method,
                came=came,
                **call.kwargs,
            )

    return Property(name, points, test, fresh=True)


def known(
    name: str,
    cases: Callable[[np.random.Generator], Known],
    *,
    points: int = 1,
    part: int | None = None,
    tolerance: Tolerance = FLOAT64,
    clue: Clue = no_clue,
    options: Mapping[str, Any] | None = None,
) -> Property:
    """Cases whose answer is known without the reference: limits and invariants.

    Args:
        name: the card's line.
        cases: makes (what is special, arguments, right value).
        points: what it is worth.
        part: of several results, look at this one only.
        tolerance: how far values may differ.
        clue: the likely cause, given the candidate's numbers.
        options: keyword arguments of every call.
    """

    def test(subject: Subject, probe: Probe) -> None:
        drawn = [
            (why, Call(tuple(args), options or {}), want) for why, args, want in cases(probe.rng)
        ]
        asked = _asked(subject, ((why, call) for why, call, _ in drawn))
        for (why, call, came), (_, _, want) in zip(asked, drawn, strict=True):
            probe.agree(
                subject,
                *call.args,
                want=want,
                part=part,
                why=why,
                tolerance=tolerance,
                clue=clue,
                came=came,
                **call.kwargs,
            )

    return Property(name, points, test)


def gradient_by_hand(
    name: str,
    position: int,
    inputs: Callable[[np.random.Generator], Iterable[tuple[np.ndarray, ...]]],
    loss: Callable[..., Any],
    *,
    points: int = 1,
    repeat: int = 3,
) -> Property:
    """One of several gradients that the candidate works out, against complex steps.

    Args:
        name: the card's line.
        position: which result, and the argument it is the gradient of.
        inputs: makes the arguments of some calls.
        loss: of the same arguments: the number that is differentiated; must take complex numbers.
        points: what it is worth.
        repeat: how often inputs are made when grading.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, repeat):
            for args in inputs(probe.rng):

                def moved(value: np.ndarray, args: tuple[np.ndarray, ...] = args) -> Any:
                    return loss(*(value if i == position else a for i, a in enumerate(args)))

                want = list(probe.reference(*args))
                want[position] = derivative(moved, args[position])
                probe.agree(
                    subject,
                    *args,
                    want=tuple(want),
                    part=position,
                    tolerance=NUMERICAL,
                    why="compared with a numerical derivative",
                )

    return Property(name, points, test)


def refuses(
    cases: Iterable[tuple[Any, ...]],
    *,
    name: str = "bad input raises a ValueError",
    cause: str = "The lines above your own code do that: keep them.",
) -> Property:
    """Bad input raises a ValueError, or an exception derived from it.

    Args:
        cases: what is wrong, positional arguments, keyword arguments where there are any, and a
            cause of its own where it has one.
        name: the card's line.
        cause: what to try, for the message.
    """

    def test(subject: Subject, probe: Probe) -> None:
        drawn = [(Call(args, *more[:1]), what, *more[1:]) for what, args, *more in cases]
        came = subject.many([call for call, *_ in drawn])
        for (call, what, *more), outcome in zip(drawn, came, strict=True):
            likely: str = more[0] if more else cause
            if outcome.error is not None and outcome.error.is_a("ValueError"):
                continue
            gave = "a result" if outcome.error is None else outcome.error.type
            text = f"{what} must raise a ValueError; your function gave {gave}."
            given = probe.given(call.args, call.kwargs)
            raise Miss(text, cause=likely, topic="bad input").on(given, "")

    return Property(name, 1, test, fresh=False)
