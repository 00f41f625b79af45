"""The checks against mutants of the references: nearly all must lose points."""

import sys

import numpy as np
import pytest
from attend_grader import exercises
from attend_grader.checks.bounded import bounded, memory_limit
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.mutation import mutants
from attend_grader.judging import judge as judging

from .mutation_testing import MutantHangs, run_mutants, table, time_limit

EXPLAINED: dict[str, dict[str, str]] = {}
"""Exercise id → surviving mutant → why no check should notice it."""


@pytest.mark.deep
@pytest.mark.parametrize("exercise", [pytest.param(e, id=e.id) for e in exercises()])
def test_mutants_that_change_behaviour_lose_points(
    exercise: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Points alone count here; to find out what to say about a mutant takes most of the time.
    monkeypatch.setattr(judging, "symptom", lambda *args: None)
    result = run_mutants(exercise)
    print(table([result]))
    assert result.killed
    assert result.share >= 0.95, table([result])
    explained = EXPLAINED.get(exercise.id, {})
    assert {str(m) for m in result.survived} == set(explained)


def shift(x: float, by: int = 1, up: bool = True) -> float:
    """An example with one of everything.

    Not part of any exercise.
    """
    y = max(x, by)
    if up and x < 3:
        y = y + by
    return y


def test_every_kind_of_mutant_is_made() -> None:
    made = {str(m).split(": ", 1)[1] for m in mutants(shift)}
    assert {
        "max(x, by) → max(by, x)",
        "y = max(x, by) → nothing",
        "up and x < 3 → up or x < 3",
        "x < 3 → x <= 3",
        "x < 3 → x > 3",
        "3 → 4",
        "y + by → y - by",
        "True → False",
        "1 → 0",
        "return y → nothing",
        "if up and x < 3: → if not (up and x < 3):",
    } <= made


def test_a_mutant_runs_in_the_namespace_of_its_reference() -> None:
    by_text = {str(m).split(": ", 1)[1]: m.function for m in mutants(shift)}
    assert shift(1.0) == 2.0
    assert by_text["y + by → y - by"](1.0) == 0.0
    assert by_text["return y → nothing"](1.0) is None


def test_a_mutant_that_hangs_is_stopped() -> None:
    def hang() -> None:
        while True:
            pass

    with pytest.raises(MutantHangs), time_limit(0.05):
        hang()


@pytest.mark.skipif(sys.platform != "linux", reason="memory in use is read from /proc")
def test_a_mutant_that_takes_all_memory_is_refused() -> None:
    with memory_limit(2**28):
        assert np.zeros(2**25, np.uint8).size == 2**25
        with pytest.raises(MemoryError):
            np.zeros(2**29, np.uint8)
    assert np.zeros(2**29, np.uint8).size == 2**29


def test_an_edit_that_loops_without_end_is_stopped() -> None:
    def loop() -> None:
        while True:
            pass

    def short() -> int:
        return sum(range(10**5))

    stopped = pytest.raises(RuntimeError, match="more than 1,000 lines")
    with stopped, bounded(loop, lines=1_000, memory=2**28):
        loop()
    with bounded(short, lines=1_000, memory=2**28):
        assert short() == 4999950000
