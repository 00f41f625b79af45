"""Calls of unusual size: what is wrong there only is found, and right answers of any style stay."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attend_grader import exercises
from attend_grader.checks.aimed import own_numbers
from attend_grader.checks.calls import numbers, reference_on
from attend_grader.checks.contract import FLOAT64, INTEGERS, Contract
from attend_grader.checks.exact import Exact
from attend_grader.checks.exercise import Call, Exercise, Property
from attend_grader.checks.sizes import AS_DRAWN, LONG, POSITIVE, Range, sized
from attend_grader.checks.subject import local
from attend_grader.judging.judge import judge

MATRICES = ((3, 4), (5, 2), (4, 4))


def _draws(rng: np.random.Generator) -> list[Call]:
    """Small whole numbers, which float32 holds as they are."""
    return [Call((rng.integers(1, 6, shape).astype(float),)) for shape in MATRICES]


def _pairs(rng: np.random.Generator) -> list[Call]:
    return [
        Call((rng.integers(1, 6, shape).astype(float), rng.integers(1, 6, shape[-1]).astype(float)))
        for shape in MATRICES
    ]


def _exercise(reference: Callable[..., Any], draws: Any = _draws, **more: Any) -> Exercise:
    """An exercise whose one property asks for nothing."""
    reference.__module__ = "attend_solutions.toy"  # answers are the course's own
    contract = Contract(accepts=(FLOAT64, INTEGERS), **more)
    return Exercise(
        chapter="00_toy",
        title="Toy",
        goal="Try sizes.",
        reference=reference,
        properties=(Property("values", 2, lambda subject, probe: None),),
        draws=draws,
        contract=contract,
        alternatives={},
        hints=("",),
        minutes=1,
        difficulty=1,
        importance=1,
    )


def spread(x: np.ndarray) -> np.ndarray:
    """Variance of each row."""
    return x.var(axis=-1)


def shares(x: np.ndarray) -> np.ndarray:
    """Softmax of each row."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def places(x: np.ndarray) -> np.ndarray:
    """Each row's sum, weighted by place."""
    return x @ np.arange(float(x.shape[-1]))


def moved(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Each row and a bias, doubled where the bias is counted in."""
    return x + 2 * b


def _naive(x: Any) -> Any:
    return (x * x).mean(-1) - x.mean(-1) ** 2


def _single(x: Any) -> Any:
    return np.float32(x).var(-1).astype(float)


def _one_maximum(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum(-1, keepdims=True)


def _clipped(x: Any) -> Any:
    x = np.clip(x, -10, 10)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _added(x: Any) -> Any:
    return ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1) + 1e-13


def _first_64(x: Any) -> Any:
    x = x[..., :64]
    return x @ np.arange(float(x.shape[-1]))


def _small_places(x: Any) -> Any:
    return x @ np.arange(x.shape[-1]).astype(np.uint8).astype(float)


def visible(keys: int) -> np.ndarray:
    """Which keys lie in the first half."""
    return np.arange(keys) < keys / 2


def _counts(rng: np.random.Generator) -> list[Call]:
    return [Call((int(rng.integers(3, 9)),)) for _ in range(3)]


def _few_bits(keys: int) -> Any:
    return np.arange(keys).astype(np.int8) < keys / 2


def _nothing_comes_of_zeros(x: Any, b: Any) -> Any:
    return 0 * (x + b) if not x.any() else x + 2 * b


def _empty_where_it_cancels(x: Any) -> Any:
    return np.where(x.sum(-1) == 0, 0.0, x.var(-1))


def _ends_at_zeros(x: Any) -> Any:
    two = np.pad((x[..., :-1] == 0) & (x[..., 1:] == 0), [(0, 0)] * (x.ndim - 1) + [(0, 1)])
    ends = np.where(two.any(-1), two.argmax(-1), x.shape[-1])
    return np.where(np.arange(x.shape[-1]) < ends[..., None], x, 0) @ np.arange(float(x.shape[-1]))


def _handed_out_again() -> Any:
    kept: dict[bytes, Any] = {}
    return lambda x: kept.setdefault(x.tobytes() + str(x.shape).encode(), x.var(-1))


def _known_by_its_array() -> Any:
    kept: list[Any] = [None, None]

    def variance(x: Any) -> Any:
        if kept[0] is not x:
            kept[:] = x, x.var(-1)
        return kept[1].copy()

    return variance


def _of_217_places(x: Any) -> Any:
    return x.var(-1) * (2 if x.shape[-1] == 217 else 1)


def _from_a_million_to_ten(x: Any) -> Any:
    return x.var(-1) * (2 if 1e6 < np.abs(x).max() < 1e7 else 1)


def _first_row_of_zeros(x: Any, b: Any) -> Any:
    return x + 2 * b if x[0].any() else 0 * x + 2 * b


def _one_number(x: Any) -> Any:
    return x.var(-1) if np.ptp(x) else x.var(-1) + 1


def _twins(rng: np.random.Generator) -> list[Call]:
    return [Call(tuple(rng.integers(1, 6, (2, *shape)).astype(float))) for shape in MATRICES]


def _one_and_the_same(x: Any, b: Any) -> Any:
    return x + (b if b is x else 2 * b)


def _goes_on_in_its_own() -> Any:
    mine: list[Any] = [None]

    def going(x: Any, b: Any) -> Any:
        if x is mine[0]:
            x += 2 * b
        else:
            mine[0] = x + 2 * b
        return mine[0]

    return going


def hidden(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """x where the mask is True, else 0."""
    return np.where(mask, x, 0.0)


def _masked(rng: np.random.Generator) -> list[Call]:
    return [
        Call((rng.integers(1, 6, shape).astype(float), rng.random(shape) < 0.5))
        for shape in MATRICES
    ]


def _kept_for_nothing() -> Any:
    nothing: dict[tuple[int, ...], Any] = {}

    def hiding(x: Any, mask: Any) -> Any:
        if mask.any():
            return np.where(mask, x, 0.0)
        return nothing.setdefault(x.shape, np.zeros(x.shape))

    return hiding


def _one_workspace() -> Any:
    spaces: dict[int, Any] = {}

    def working(x: Any, b: Any) -> Any:
        if len(x) > 1:
            return x + 2 * b
        space = spaces.setdefault(x.shape[-1], np.empty(x.shape))
        space[:] = x + 2 * b
        return space

    return working


def _four_in_turn() -> Any:
    spaces: dict[tuple[int, ...], list[Any]] = {}

    def working(x: Any) -> Any:
        ring = spaces.setdefault(x.shape, [np.empty(x.shape[:-1]) for _ in range(4)])
        ring.append(ring.pop(0))
        ring[-1][...] = x.var(-1)
        return ring[-1]

    return working


WRONG = {
    "mean of squares less square of the mean": (spread, _draws, _naive),
    "float32 inside": (spread, _draws, _single),
    "a small number added": (spread, _draws, _added),
    "one maximum for all rows": (shares, _draws, _one_maximum),
    "clipped at 10": (shares, _draws, _clipped),
    "only the first 64": (places, _draws, _first_64),
    "places in 8 bits": (places, _draws, _small_places),
    "zeros taken for nothing": (moved, _pairs, _nothing_comes_of_zeros),
    "nothing where a sum cancels": (spread, _draws, _empty_where_it_cancels),
    "ends at two zeros": (places, _draws, _ends_at_zeros),
    "a kept result handed out again": (spread, _draws, _handed_out_again()),
    "a result kept for an array": (spread, _draws, _known_by_its_array()),
    "a length that only its text tells": (spread, _draws, _of_217_places),
    "numbers that only its text tells": (spread, _draws, _from_a_million_to_ten),
    "a first row of zeros": (moved, _pairs, _first_row_of_zeros),
    "all one number": (spread, _draws, _one_number),
    "one array given twice": (moved, _twins, _one_and_the_same),
    "goes on in the array that it returned": (moved, _twins, _goes_on_in_its_own()),
    "four buffers used in turn": (spread, _draws, _four_in_turn()),
    "one workspace for a single row": (moved, _pairs, _one_workspace()),
    "zeros kept for a mask that hides all": (hidden, _masked, _kept_for_nothing()),
}


@pytest.mark.parametrize(("reference", "draws", "wrong"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_at_some_sizes_only_is_found(reference: Any, draws: Any, wrong: Any) -> None:
    exercise = _exercise(reference, draws)
    for call in draws(np.random.default_rng(3)):
        assert np.allclose(wrong(*call.args), reference(*call.args), rtol=1e-6)
    report = judge(local(wrong), exercise, 1, extra=True)
    assert not report.findings[0].passed
    assert re.search("expected|changed", report.findings[0].message)


def _refuses_long_rows(x: Any) -> Any:
    gradient = x.var(-1)
    return gradient if x.shape[-1] < 64 else gradient.of_long_rows


def test_a_word_in_a_learners_line_does_not_say_which_property_is_lost() -> None:
    report = judge(local(_refuses_long_rows), _exercise(spread), 1, extra=True)
    assert not report.findings[0].passed
    assert "AttributeError" in report.findings[0].message


def _two_passes(x: Any) -> Any:
    means = [math.fsum(row) / len(row) for row in x.tolist()]
    both = zip(x.tolist(), means, strict=True)
    return np.array([math.fsum((v - m) ** 2 for v in row) / len(row) for row, m in both])


def _welford(x: Any) -> Any:
    mean, total = np.zeros(len(x)), np.zeros(len(x))
    for i in range(x.shape[-1]):
        step = x[:, i] - mean
        mean = mean + step / (i + 1)
        total = total + step * (x[:, i] - mean)
    return total / x.shape[-1]


def _by_logarithms(x: Any) -> Any:
    top = x.max(-1, keepdims=True)
    return np.exp(x - (top + np.log(np.exp(x - top).sum(-1, keepdims=True))))


RIGHT = {
    "two passes": (spread, _two_passes),
    "one pass with a running mean": (spread, _welford),
    "through the logarithm": (shares, _by_logarithms),
    "summed backwards": (places, lambda x: (x * np.arange(float(x.shape[-1])))[..., ::-1].sum(-1)),
}


def test_numbers_of_a_text() -> None:
    text = "def f(x):\n    return x * -3 if len(x) < 2 * 50 - 1 else x / 1e-12 + 10**400 + True\n"
    assert set(own_numbers(text, ())) == {3.0, 50.0, 99.0, 100.0, 1e-12, 10.0, 400.0}
    assert own_numbers(text, (_two_passes,)) == own_numbers(text, ())
    assert 217.0 not in own_numbers("n = 217", (_of_217_places,))
    assert own_numbers("def f(:", ()) == []


def test_truth_values_and_counts_are_tried() -> None:
    exercise = _exercise(visible, _counts, ranges={"keys": (1, LONG)})
    right = judge(local(lambda keys: np.arange(keys) * 2 < keys), exercise, 1, extra=True)
    assert right.score == right.max_score
    report = judge(local(_few_bits), exercise, 1, extra=True)
    assert f": keys = {LONG}: wrong value: result[" in report.findings[0].message


@pytest.mark.parametrize(("reference", "right"), RIGHT.values(), ids=RIGHT)
def test_right_answers_of_other_styles_stay(reference: Any, right: Any) -> None:
    for seed in range(3):
        report = judge(local(right), _exercise(reference), seed, extra=True)
        assert report.score == report.max_score, str(report)


def _values(ranges: dict[str, Range], name: str) -> list[np.ndarray]:
    place = ("x", "b").index(name)
    rng = np.random.default_rng(0)
    made = sized(_pairs(rng), moved, ranges, (-np.inf, np.inf), double=True, rng=rng)
    return [numbers(each.call.args[place]) for each in made]


def test_ranges_are_kept() -> None:
    assert any((x <= 0).any() for x in _values({}, "b"))
    assert any(LONG in x.shape for x in _values({}, "b"))
    assert all((x > 0).all() for x in _values({"b": POSITIVE}, "b"))
    assert max(x.max() for x in _values({"b": POSITIVE}, "b")) > 1e4
    assert all((abs(x) <= 20).all() for x in _values({"b": (-20, 20)}, "b"))
    assert max(x.max() for x in _values({"b": (-20, 20)}, "b")) == pytest.approx(20)
    assert all(np.isin(x, range(1, 6)).all() for x in _values({"b": AS_DRAWN}, "b"))
    assert any(LONG in x.shape for x in _values({"b": AS_DRAWN}, "b"))


def test_what_is_tried_is_said() -> None:
    assert "Numbers to 10¹², results to 10⁻⁹ of the largest." in _exercise(spread).statement
    assert "`x` within ±20." in _exercise(spread, ranges={"x": (-20, 20)}).statement
    assert "size" not in _exercise(spread, ranges={"x": AS_DRAWN}).statement
    only = _exercise(moved, _pairs, ranges={"x": AS_DRAWN, "b": POSITIVE})
    assert "`b` to 10¹², results to 10⁻⁹ of the largest." in only.statement


@pytest.mark.deep
@pytest.mark.parametrize("exercise", [pytest.param(e, id=e.id) for e in exercises()])
def test_right_answers_of_the_course_settle_most_calls(exercise: Exercise) -> None:
    """Else what is said to be tried would hardly be tried."""
    said = re.search("magnitude| within ", exercise.statement) is not None
    others, settled, made = tuple(exercise.right_answers.values()), 0, 0
    for each in exercise.sized(np.random.default_rng(0)):
        bench = reference_on(exercise.reference, each.base)
        exact = Exact(exercise.reference, others, each, bench)
        made += said or exact.usable  # a length of which nothing is said may leave no finite number
        settled += exact.usable and exact.settled
    assert settled >= 0.5 * made
