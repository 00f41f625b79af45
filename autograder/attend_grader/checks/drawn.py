"""What is worked out once for an exercise and serves all candidates.

Telling what is wrong with a candidate takes calls, and what the reference and known slips do on
them. These calls are the same for every candidate: a name or a sentence earns no points, so that
nothing is given away. Points are earned on fresh inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attend_grader.checks.exercise import Exercise
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call
from attend_grader.checks.subject import local
from attend_grader.inside.kernels import launches

DRAWN = 1
"""Seed of these calls."""

DRAWS = 2
"""How often the exercise's draws are made: a slip is named where behaviour agrees on all."""

MOST = 36
"""How much is kept: of each exercise of a chapter, three things."""

_made: dict[tuple[int, Callable[..., Any]], tuple[Exercise, Any]] = {}


def once(exercise: Exercise, make: Callable[[Exercise], Any]) -> Any:
    """What ``make`` makes of the exercise, made when it is first asked for."""
    key = id(exercise), make
    if key not in _made:
        made = make(exercise)
        while len(_made) >= MOST:
            _made.pop(next(iter(_made)), None)
        _made[key] = exercise, made  # its id is its own as long as it is held here
    return _made[key][1]


class Compared:
    """What the reference and the slips do on the exercise's draws, found out as far as needed."""

    def __init__(self, exercise: Exercise) -> None:
        rounds = 1 if launches(exercise.reference) else DRAWS  # interpreted: each takes long
        self.calls: list[Call] = [
            call
            for number in range(rounds)
            for call in exercise.draws(np.random.default_rng([DRAWN, number]))
        ]
        self._done: dict[tuple[Callable[..., Any], int], Outcome] = {}

    def of(self, candidate: Callable[..., Any]) -> Iterator[Outcome]:
        """What a function or class of our own does on each call."""
        subject = local(candidate)
        for place, call in enumerate(self.calls):
            if (candidate, place) not in self._done:
                self._done[candidate, place] = call.on(subject)
            yield self._done[candidate, place]
