"""Grading the grader: mutants of a reference, each of which the checks must notice.

Where a mutant behaves like the reference on fresh draws it is *equivalent* and proves nothing; any
other must lose points, or it has *survived* and a check is missing.

Source: DeMillo, Lipton and Sayward 1978, "Hints on test data selection".
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from attend_grader import chapters
from attend_grader.checks.behaviour import behaviour, same_behaviour
from attend_grader.checks.bounded import memory_limit
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.mutation import Mutant, mutants
from attend_grader.checks.subject import local
from attend_grader.judging.judge import judge, references_for

SECONDS_PER_CALL = 20.0
"""A mutant that runs longer loops without end; references answer in milliseconds."""

MORE_MEMORY = 2**28
"""Bytes a mutant may take; one that swaps a width and a base asks for gigabytes, for minutes."""


@dataclass(frozen=True)
class MutationResult:
    """What the checks of one exercise made of its mutants."""

    exercise_id: str
    killed: tuple[Mutant, ...]
    equivalent: tuple[Mutant, ...]
    survived: tuple[Mutant, ...]

    @property
    def share(self) -> float:
        """Killed among those that change behaviour, from 0 to 1."""
        changed = len(self.killed) + len(self.survived)
        return len(self.killed) / changed if changed else 1.0


class MutantHangs(BaseException):
    """Raised inside a mutant that runs too long; no `except Exception` in its way catches it."""


def run_mutants(exercise: Exercise, seeds: tuple[int, ...] = (0, 1, 2)) -> MutationResult:
    """Run every mutant of the exercise's reference through its checks.

    Args:
        exercise: whose checks are tested.
        seeds: draws on which a mutant may show that it behaves differently; the first also
            draws the inputs of the grading that must take points off.
    """
    calls = [c for seed in seeds for c in exercise.draws(np.random.default_rng([seed, 0]))]
    right = behaviour(local(exercise.reference), calls)
    references = references_for(exercise, chapters.references(exercise))
    unnamed = replace(exercise, slips=())  # what a slip is called moves no points
    killed, equivalent, survived = [], [], []
    for mutant in mutants(exercise.reference):
        subject = local(mutant.function, references)
        try:
            with time_limit(SECONDS_PER_CALL), memory_limit(MORE_MEMORY):
                changed = not same_behaviour(behaviour(subject, calls), right)
                report = judge(subject, unnamed, seeds[0], extra=True)
        except (MutantHangs, MemoryError):
            killed.append(mutant)
            continue
        if report.score < exercise.points:
            killed.append(mutant)
        else:
            (survived if changed else equivalent).append(mutant)
    return MutationResult(exercise.id, tuple(killed), tuple(equivalent), tuple(survived))


def table(results: list[MutationResult]) -> str:
    """The results as lines of text, survivors below."""
    lines = [f"{'exercise':44} mutants  equivalent  killed  survived"]
    for r in results:
        total = len(r.killed) + len(r.equivalent) + len(r.survived)
        lines.append(
            f"{r.exercise_id:44} {total:7}  {len(r.equivalent):10}  {len(r.killed):6}  "
            f"{len(r.survived):8}"
        )
    lines += [f"survived: {r.exercise_id}, {m}" for r in results for m in r.survived]
    return "\n".join(lines)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`MutantHangs` after ``seconds`` of processor time; on Windows, never."""
    main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "setitimer") or not main:
        yield
        return

    def stop(signum: int, frame: object) -> None:
        del signum, frame
        raise MutantHangs

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
