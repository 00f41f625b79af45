"""Cards say nothing that a call shown on them, or made for them, contradicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attend_grader import chapters
from attend_grader.checks.replay import describe_call
from attend_grader.checks.subject import local
from attend_grader.judging.judge import judge
from attend_grader.judging.report import Report
from attend_solutions.attention import attention_scores, softmax
from attend_solutions.self_attention import masked_softmax

SELF, CROSS = (
    chapters.exercise(f"04_self_attention/{name}") for name in ("self_attention", "cross_attention")
)

EMPTY = {
    "booleans": np.zeros((0, 4), bool),
    "floats": np.zeros((2, 0)),
    "integers": np.zeros((0, 1, 3), int),
    "float32": np.zeros(0, np.float32),
    "a row of floats": np.zeros(0),
}


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
def test_arrays_without_numbers_are_written_with_shape_and_type(empty: np.ndarray) -> None:
    called: list[Any] = []
    exec(describe_call("f", ("x",), (empty,), {}), {"np": np, "f": called.append})
    assert called[0].shape == empty.shape
    assert called[0].dtype == empty.dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_tensors_without_numbers_are_written_with_shape_and_type(dtype: torch.dtype) -> None:
    empty, called = torch.zeros((0, 4), dtype=dtype), []
    exec(describe_call("f", ("x",), (empty,), {}), {"torch": torch, "f": called.append})
    assert called[0].shape == empty.shape
    assert called[0].dtype == empty.dtype


def _judged(wrong: Callable[..., Any], name: str) -> Report:
    return judge(local(wrong), chapters.exercise(f"04_self_attention/{name}"), 1, extra=False)


def test_calls_that_do_not_raise_are_right_only_if_all_that_were_seen_are() -> None:
    def turned(x: Any, w_q: Any, w_k: Any, w_v: Any, mask: Any = None) -> Any:
        weights = masked_softmax(x @ w_q @ (x @ w_k).T / w_q.shape[-1] ** 0.5, mask)
        return weights @ (x @ w_v), weights

    x = np.ones((1, 4, 3)) * np.arange(4)[:, None]
    args = (x, np.eye(3, 4), np.eye(3, 4), np.ones((3, 4)), np.ones((4, 4), bool))
    assert turned(*args)[1].shape == (4, 4, 4) != SELF.reference(*args)[1].shape  # by chance, fits
    said = str(_judged(turned, "self_attention").symptom)
    assert said.startswith("It raises ValueError in ")
    assert "right" not in said
    assert "out an error" in said


def test_where_all_other_calls_are_right_that_is_told() -> None:
    def alike(*masks: Any) -> Any:
        given = [mask for mask in masks if mask is not None]
        return np.stack(given).all(axis=0) if given else None

    report = _judged(alike, "combine_masks")
    assert str(report.symptom).endswith("in the others it is right.")
    lost = [finding.property for finding in report.findings if not finding.passed]
    assert lost == ["shapes broadcast: (T, S) with (B, 1, S)", "made of booleans"]


def _triangle(queries: int, keys: int | None = None) -> np.ndarray:
    keys = queries if keys is None else keys
    return np.tri(queries, keys, keys - queries, dtype=bool)


def test_a_relation_holds_of_calls_on_the_card_too() -> None:
    def one_row(queries: int, keys: int | None = None) -> Any:
        mask = _triangle(queries, keys)
        return mask[0] if queries == 1 else mask

    assert one_row(1).shape == (1,) != np.squeeze(_triangle(1)).shape
    said = _judged(one_row, "causal_mask").symptom
    told = (
        "In all calls tried, your result is the right one without its "
        "first axis where that has length 1."
    )
    assert said == told


def test_a_relation_of_ordinary_calls_is_told_of_these() -> None:
    def half(queries: int, keys: int | None = None) -> Any:
        mask = _triangle(queries, keys)
        return mask if (queries, keys) == (2, 4) else 0.5 * mask  # no draw has these

    said = _judged(half, "causal_mask").symptom
    assert said == "In all ordinary calls tried, your result is half of the right one."


def test_nan_alone_bears_no_relation_out() -> None:
    def unguarded(scores: Any, mask: Any = None) -> Any:
        return softmax(np.asarray(scores, float)) if mask is None else masked_softmax(scores, mask)

    with np.errstate(invalid="ignore"):
        assert np.isnan(unguarded(np.full(3, -np.inf))).all()
        assert "divided by its sums" not in str(_judged(unguarded, "masked_softmax").symptom)


def test_calls_with_many_masks_are_told_apart() -> None:
    def forgets(*masks: Any) -> Any:
        combined = before = None
        for mask in masks:
            if mask is not None:
                combined = mask if before is None else before & mask
                before = mask
        return combined

    said = str(_judged(forgets, "combine_masks").symptom)
    assert "just those where a third one of masks is given (None is not counted)" in said


def test_a_promise_of_masks_counts_the_calls_that_it_drew() -> None:
    def unscaled(x: Any, context: Any, w_q: Any, w_k: Any, w_v: Any, mask: Any = None) -> Any:
        scores = attention_scores(x @ w_q, context @ w_k, scaled=False)
        weights = masked_softmax(scores, mask)
        return weights @ (context @ w_v), weights

    nobody = np.zeros((3, 5), bool)
    args = CROSS.draws(np.random.default_rng(0))[0].args
    np.testing.assert_array_equal(
        unscaled(*args, mask=nobody)[1], CROSS.reference(*args, mask=nobody)[1]
    )
    (lost,) = [
        finding.message
        for finding in _judged(unscaled, "cross_attention").findings
        if "could not be tried" in finding.message
    ]
    drawn = sum(
        leaf.dtype == bool for call in CROSS.draws(np.random.default_rng(0)) for leaf in call.args
    )
    assert f"of the {drawn} drawn here it gets none right" in lost
