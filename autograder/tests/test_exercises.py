"""Every exercise of the course: right answers pass, known slips are named, trivial answers fail."""

import inspect
import sys
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from attend_grader import exercises, grade
from attend_grader.chapters import INDEX
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.subject import local
from attend_grader.inside import compiling
from attend_grader.inside.kernels import kernels_of
from attend_grader.judging import judge as judging
from attend_grader.judging.diagnose import behaviour, explanation, same_behaviour
from attend_grader.judging.judge import judge
from attend_grader.judging.report import Report
from attend_grader.session import NOTEBOOK_SEED

from .seeds import EVERY_SEED

QUICK = (0, 1)
"""Seeds that `make test` tries; the deep tests try more."""
SEEDS = range(2, 20 if EVERY_SEED else 8)
SEEDS_OF_TENSORS = range(2, 6 if EVERY_SEED else 4)
"""A call of a torch function costs some ten times that of a NumPy one."""
EXERCISES = [pytest.param(e, id=e.id) for e in exercises()]
FEW, FEW_KERNELS = 4, 1
"""How many answers of a kind `make test` tries of each exercise, on one seed, and of those with
kernels, for these are interpreted, which takes long. The deep tests try all."""


def _imports(exercise: Exercise, library: str) -> bool:
    """Whether the answer's module knows a library by its name: ``triton``, ``torch``."""
    return library in vars(sys.modules[exercise.reference.__module__])


def _marks(exercise: Exercise, place: int, few: int = FEW) -> tuple[pytest.MarkDecorator, ...]:
    few = FEW_KERNELS if _imports(exercise, "triton") else few
    return (pytest.mark.deep,) if place >= few else ()


KERNELS_DEEP = [pytest.param(e, id=e.id, marks=_marks(e, 1)) for e in exercises()]
"""All exercises, those with kernels in the deep tests."""


RIGHT = [
    pytest.param(e, f, id=f"{e.id}-{name}", marks=_marks(e, place, 2))
    for e in exercises()
    for place, (name, f) in enumerate({"reference": e.reference, **e.right_answers}.items())
]
WRONG = [
    pytest.param(e, name, f, id=f"{e.id}-{name}", marks=_marks(e, place))
    for e in exercises()
    for place, (name, f) in enumerate(e.misconceptions.items())
]


@pytest.fixture(autouse=True)
def slips_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip of a kernel is known by what it does; to compile each of them takes minutes."""
    before = compiling.compiled

    def compiled(kernel: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if compiling.python_function(kernel).__code__.co_filename.startswith("<slip "):
            return {
                "registers": 32,
                "spilled": 0,
                "shared": 0,
                "products": {"HGMMA": 1},
                "instructions": {},
            }
        return before(kernel, *args, **kwargs)

    monkeypatch.setattr(compiling, "compiled", compiled)


def seeds(exercise: Exercise) -> range:
    """As many as the exercise's calls are cheap."""
    return SEEDS_OF_TENSORS if _imports(exercise, "torch") else SEEDS


def expect_full_marks(exercise: Exercise, candidate: Callable[..., Any], seed: int) -> None:
    report = grade(candidate, exercise.id, seed)
    assert report.score == report.max_score == exercise.points, str(report)
    assert report.status == "passed"
    assert report.diagnosis is None
    assert report.fix_first == ()


def expect_named(exercise: Exercise, name: str, candidate: Callable[..., Any], seed: int) -> None:
    report = grade(candidate, exercise.id, seed)
    assert report.score < exercise.points
    assert report.diagnosis == name, str(report)
    assert report.explanation == explanation(candidate)


@pytest.mark.parametrize(("exercise", "candidate"), RIGHT)
def test_right_answers_get_full_marks(exercise: Exercise, candidate: Callable[..., Any]) -> None:
    twice = candidate is exercise.reference and not _imports(exercise, "torch")
    for seed in QUICK if twice else QUICK[:1]:
        expect_full_marks(exercise, candidate, seed)


@pytest.mark.deep
@pytest.mark.parametrize(("exercise", "candidate"), RIGHT)
def test_right_answers_get_full_marks_on_many_seeds(
    exercise: Exercise, candidate: Callable[..., Any]
) -> None:
    for seed in seeds(exercise):
        expect_full_marks(exercise, candidate, seed)


@pytest.mark.parametrize(("exercise", "name", "candidate"), WRONG)
def test_misconceptions_lose_points_and_are_named(
    exercise: Exercise, name: str, candidate: Callable[..., Any]
) -> None:
    expect_named(exercise, name, candidate, QUICK[0])


@pytest.mark.deep
@pytest.mark.parametrize(("exercise", "name", "candidate"), WRONG)
def test_misconceptions_lose_points_and_are_named_on_many_seeds(
    exercise: Exercise, name: str, candidate: Callable[..., Any]
) -> None:
    for seed in seeds(exercise):
        expect_named(exercise, name, candidate, seed)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_banks_are_large_enough_and_explained(exercise: Exercise) -> None:
    assert len(exercise.alternatives) >= 2
    assert len(exercise.misconceptions) >= 4
    for name, wrong in exercise.misconceptions.items():
        assert len(name) <= 50
        assert len(explanation(wrong)) > 30, f"{name}: say what to do about it"


@pytest.mark.parametrize("exercise", KERNELS_DEEP)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.deep) for n in (1, 2))])
def test_no_two_misconceptions_behave_alike(exercise: Exercise, seed: int) -> None:
    calls = exercise.draws(np.random.default_rng(seed))
    shown = {n: behaviour(local(f), calls) for n, f in exercise.misconceptions.items()}
    right = behaviour(local(exercise.reference), calls)
    for one, other in combinations(shown, 2):
        if same_behaviour(shown[one], right):  # told by what is lost: see the test of names
            continue
        assert not same_behaviour(shown[one], shown[other]), f"{one} = {other}"


@pytest.mark.parametrize("exercise", KERNELS_DEEP)
def test_no_misconception_is_told_by_errors_alone(exercise: Exercise) -> None:
    calls = exercise.draws(np.random.default_rng(0))
    for name, wrong in exercise.misconceptions.items():
        errors = [outcome.error for outcome in behaviour(local(wrong), calls)]
        assert any(error is None for error in errors), f"{name}: any crash would be called that"


@pytest.mark.parametrize("exercise", EXERCISES)
def test_registry_is_complete(exercise: Exercise) -> None:
    assert exercise.name in INDEX[exercise.chapter]
    assert len({p.name for p in exercise.properties}) == len(exercise.properties)
    assert exercise.points >= 4
    assert 1 <= len(exercise.hints) <= 3
    assert exercise.minutes > 0
    assert exercise.difficulty in range(1, 6)
    assert exercise.importance in range(1, 6)
    assert exercise.title
    assert exercise.goal.endswith(".")


def _like(value: Any, fill: float) -> Any:
    """The right structure and shapes, every number ``fill``."""
    if isinstance(value, tuple):
        return tuple(_like(item, fill) for item in value)
    if hasattr(value, "new_full"):
        return value.new_full(value.shape, fill)
    return np.full(np.shape(value), fill) if isinstance(value, np.ndarray) else fill


TRIVIAL: dict[str, Callable[[tuple[Any, ...], Any], Any]] = {
    "zeros": lambda args, right: _like(right, 0.0),
    "ones": lambda args, right: _like(right, 1.0),
    "one half": lambda args, right: _like(right, 0.5),
    "identity": lambda args, right: args[0],
    "echo": lambda args, right: args[0] if len(args) == 1 else args,
    "last argument": lambda args, right: args[-1],
    "first argument for all": lambda args, right: _repeat(args[0], right),
    "nothing": lambda args, right: None,
    "one number": lambda args, right: 0.5,
}
"""What an answer returns that knows its arguments and, at best, the shape of what is right."""


def _repeat(value: Any, right: Any) -> Any:
    return (value,) * len(right) if isinstance(right, tuple) else value


TRIED = [
    pytest.param(e, trivial, id=f"{e.id}-{name}", marks=_marks(e, place, len(TRIVIAL)))
    for e in exercises()
    for place, (name, trivial) in enumerate(TRIVIAL.items())
]


@pytest.mark.parametrize(("exercise", "trivial"), TRIED)
def test_trivial_answers_earn_next_to_nothing(
    exercise: Exercise, trivial: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the points count here; to find out what to say about them takes most of the time.
    monkeypatch.setattr(judging, "symptom", lambda *args: None)
    monkeypatch.setattr(judging, "diagnose", lambda *args, **kwargs: (None, ""))
    answer = _trivial_answer(exercise.reference, trivial)
    report = grade(answer, exercise.id, QUICK[0])
    assert report.score <= 0.2 * exercise.points, str(report)


def _trivial_answer(reference: Any, trivial: Callable[..., Any]) -> Callable[..., Any]:
    def trivial_method(right: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *args, **kwargs: trivial(args, right(self, *args, **kwargs))

    if isinstance(reference, type):
        methods = {n: m for n, m in vars(reference).items() if inspect.isfunction(m)}
        asked = {n: trivial_method(m) for n, m in methods.items() if not n.startswith("_")}
        return type(reference.__name__, (reference,), asked)

    def answer(*args: Any, **kwargs: Any) -> Any:
        return trivial(args, reference(*args, **kwargs))

    answer.__signature__ = inspect.signature(reference)  # type: ignore[attr-defined]
    return answer


BODIES = {
    "raise": "raise NotImplementedError()",
    "raise bare": "raise NotImplementedError",
    "pass": "pass",
    "ellipsis": "...",
    "docstring": '"""Only words."""',
    "nbgrader": '"""Words."""\n    # YOUR CODE HERE\n    raise NotImplementedError()',
}


@pytest.mark.parametrize("exercise", EXERCISES)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_blank_stubs_are_not_started(exercise: Exercise, body: str, define: Any) -> None:
    parameters = ", ".join(inspect.signature(exercise.reference).parameters)
    source = f"def {exercise.name}({parameters}):\n    {body}\n"
    if isinstance(exercise.reference, type):
        methods = [n for n, m in vars(exercise.reference).items() if inspect.isfunction(m)]
        inner = body.replace("\n", "\n    ")
        source = f"class {exercise.name}:\n" + "".join(
            f"    def {name}(self, {parameters}):\n        {inner}\n" for name in methods
        )
    stub = define(source, exercise.name)
    report = grade(stub, exercise.id, 0)
    assert report.score == 0
    assert report.max_score == exercise.points
    assert report.status == "not started"
    assert "Traceback" not in str(report)


PACE = 0.025
"""Processor seconds of :func:`pace` where 2 s are promised: 2 processors, nothing else to do."""
TRIES = 5


def pace() -> float:
    """Processor seconds of some fixed work, of the kind that checks do.

    Beside other work a processor does less in a second, and so it does on an older machine.
    """
    import torch

    start = time.process_time()
    x = torch.ones(4, 4)
    for _ in range(2000):
        x = (x @ x).softmax(-1) + x.mT
        sorted({place: place for place in range(20)})
    return time.process_time() - start


def expect_quick(exercise: Exercise, candidate: Callable[..., Any]) -> Report:
    """Hold a check to the time that learners are told, and return what it says."""
    promised = 4.0 if kernels_of(exercise.reference) else 2.0  # kernels are interpreted
    taken = []
    for _ in range(TRIES):
        before = pace()
        start = time.process_time()  # the clock would count what else this machine does
        report = judge(local(candidate), exercise, NOTEBOOK_SEED, extra=False)
        seconds = time.process_time() - start
        taken.append(seconds / max(1.0, (before + pace()) / 2 / PACE))
        if taken[-1] <= promised:
            return report
    pytest.fail(f"a check took {', '.join(f'{each:.1f}' for each in taken)} s, {promised} promised")


@pytest.mark.parametrize("exercise", KERNELS_DEEP)
def test_a_check_is_quick_and_the_same_seed_gives_the_same_verdict(exercise: Exercise) -> None:
    expect_quick(exercise, exercise.reference)
    wrong = next(iter(exercise.misconceptions.values()))
    first, second = (expect_quick(exercise, wrong) for _ in range(2))
    assert first.findings[0] == second.findings[0]
    assert [f.earned for f in first.findings] == [f.earned for f in second.findings]
    assert first.seed == second.seed == NOTEBOOK_SEED


@pytest.mark.deep
@pytest.mark.parametrize("exercise", EXERCISES)
def test_no_check_takes_longer_than_promised(exercise: Exercise) -> None:
    for candidate in (*exercise.right_answers.values(), *exercise.misconceptions.values()):
        expect_quick(exercise, candidate)
