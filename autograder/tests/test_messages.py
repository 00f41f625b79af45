"""What learners read: differences, likely causes, exceptions, cards."""

from typing import Any

import numpy as np
import pytest
from attend_grader.codec import Opaque
from attend_grader.compare import FLOAT32, FLOAT64, PRINTED, Miss, expect_close
from attend_grader.exercise import describe_call
from attend_grader.explain import explain
from attend_grader.report import Finding, Report, empty_report
from attend_grader.subject import CallError


def _miss(got: Any, want: Any, **kwargs: Any) -> Miss:
    with pytest.raises(Miss) as miss:
        expect_close(got, want, **kwargs)
    return miss.value


A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
SQUARE = np.array([[1.0, 2.0], [3.0, 5.0]])

CAUSES = {
    "transpose": (SQUARE.T, SQUARE, "Yours is the transpose"),
    "sign": (-A, A, "Every sign is flipped."),
    "factor": (A * 2, A, "Yours is everywhere 2 times what is expected: a factor is off."),
    "shift": (A + 0.5, A, "Yours is everywhere larger by 0.5: a constant is off."),
    "NaN": (np.where(A > 4, np.nan, A), A, "2 of your values are NaN"),
    "one NaN": (np.where(A > 5, np.nan, A), A, "1 of your values is NaN"),
    "infinite": (np.where(A > 4, np.inf, A), A, "Some of your values are infinite"),
    "nothing in particular": (A * [1, 2, 3], A, "(4 of 6 differ)."),
    "wild": (A * [1, 1e200, 1e307], A, "differ)."),
}


@pytest.mark.parametrize(("got", "want", "cause"), CAUSES.values(), ids=CAUSES)
def test_the_likely_cause_is_told(got: np.ndarray, want: np.ndarray, cause: str) -> None:
    message = _miss(got, want).message
    assert message.startswith("wrong value: result[")
    assert cause in message


SHAPES = {
    "order": ((3, 2), (2, 3), "in another order"),
    "kept": ((2, 1), (2,), "length 1 was kept"),
    "lost": ((2,), (2, 1), "length 1 was lost"),
    "few": ((2,), (2, 3), "One axis too few"),
    "many": ((2, 3, 4, 5), (2, 3), "2 axes too many"),
    "other": ((2, 4), (2, 3), "wrong shape: result is (2, 4), expected (2, 3)."),
}


@pytest.mark.parametrize(("got", "want", "told"), SHAPES.values(), ids=SHAPES)
def test_shapes_are_compared_first(got: tuple, want: tuple, told: str) -> None:
    message = _miss(np.ones(got), np.ones(want)).message
    assert told in message
    assert str(got) in message
    assert str(want) in message


def test_the_largest_difference_is_pointed_out_with_both_values() -> None:
    got = A.copy()
    got[0, 1], got[1, 2] = 2.5, 9.0
    miss = _miss(got, A)
    assert miss.message == "wrong value: result[1, 2] is 9, expected 7 (2 of 6 differ)."
    assert dict(miss.evidence) == {
        "expected": "[[1. 2. 3.]\n [4. 5. 7.]]",
        "got": "[[1.  2.5 3. ]\n [4.  5.  9. ]]",
    }
    assert _miss(np.zeros((5, 5)), np.ones((5, 5))).evidence == ()


TYPES = {
    "None": (None, A, "your function returned None instead of the result. Is `return` missing?"),
    "list": ([1.0], A, "wrong type: result is of type list, expected an array."),
    "string": ("x", 1.0, "wrong type: result is of type str, expected a number."),
    "opaque": (Opaque("generator"), A, "result is of type generator, expected an array."),
    "integers": (A.astype(int), A, "wrong type: result has dtype int64, expected a floating one."),
    "booleans": (A > 3, A, "has dtype bool"),
    "one array for two": (A, (A, A), "expected 2 values (first result, second result), but got"),
    "too many": ((A, A, A), (A, A), "but got 3."),
    "None for two": (None, (A, A), "returned None; expected 2 values"),
}


@pytest.mark.parametrize(("got", "want", "told"), TYPES.values(), ids=TYPES)
def test_structure_and_type_are_told(got: Any, want: Any, told: str) -> None:
    assert told in _miss(got, want).message


def test_results_are_called_by_their_names_and_swaps_noticed() -> None:
    one, two = np.ones((2, 3)), np.ones((4, 3))
    miss = _miss((two, one), (one, two), what=("grad_q", "grad_k"))
    assert miss.message == (
        "wrong shape: grad_q is (4, 3), expected (2, 3). "
        "That is the shape of grad_k: is the order grad_q, grad_k?"
    )


def test_tolerances_scale_with_the_array_and_forgive_rounding_only() -> None:
    expect_close(A * (1 + 1e-12), A)
    expect_close(np.array([1e6, 1e-4]), np.array([1e6, 0.0]), FLOAT64)
    assert _miss(np.array([1.0, 1e-4]), np.array([1.0, 0.0]))
    expect_close(A.astype(np.float32), A, FLOAT32)
    expect_close(np.array([0.401]), np.array([0.40111]), PRINTED)
    assert _miss(np.array([0.402]), np.array([0.40111]), tolerance=PRINTED)
    expect_close(np.array([np.inf, 1.0]), np.array([np.inf, 1.0]))
    assert _miss(np.array([np.nan]), np.array([np.nan]))
    expect_close(np.float64(2.0), 2.0)
    for tolerance in (FLOAT64, FLOAT32, PRINTED):
        assert len(tolerance.reason) > 20


def test_calls_are_described_so_that_they_can_be_repeated() -> None:
    small, large = np.array([1.0, -np.inf]), np.zeros((3, 4))
    text = describe_call(("q", "k"), (small, large), {"scaled": False})
    assert text == "q=[  1., -inf], k (3, 4), scaled=False"
    assert describe_call(("q",), (large.astype(np.float32),), {}) == "q (3, 4) float32"
    assert describe_call(("q",), (np.array([[1, 2], [3, 4]]),), {}) == "q=[[1, 2], [3, 4]]"


def _explained(kind: str, text: str, line: str = "y = a @ b") -> tuple[str, dict[str, str]]:
    error = CallError(kind, text, [["f", 2, line]], {"a": [2, 3], "b": [2, 3], "c": [1]}, True)
    message, evidence = explain(error)
    return message, dict(evidence)


def test_an_exception_is_told_with_line_shapes_and_advice() -> None:
    message, evidence = _explained("ValueError", "operands could not be broadcast together")
    assert message == (
        "your function raised ValueError in line 2 of f: operands could not be broadcast together"
    )
    assert evidence["your line"] == "y = a @ b"
    assert evidence["shapes there"] == "a is (2, 3), b is (2, 3)"
    assert "keepdims=True" in evidence["try"]


def test_numpys_gufunc_wording_is_put_plainly() -> None:
    with pytest.raises(ValueError, match="core dimension") as raised:
        np.matmul(np.ones((2, 3)), np.ones((4, 5)))
    message, evidence = _explained("ValueError", str(raised.value))
    assert "rows on the left have length 3, columns on the right 4" in message
    assert "np.swapaxes" in evidence["try"]


ADVICE = {
    "name": ("NameError", "name 'qq' is not defined", "define `qq` above"),
    "unbound": ("UnboundLocalError", "local variable 'x' referenced", "before using it"),
    "exit": ("SystemExit", "None", "remove the call to exit"),
    "recursion": ("RecursionError", "maximum recursion depth", "what stops it?"),
    "axis": ("AxisError", "axis 2 is out of bounds for array of dimension 1", "from the end"),
    "index": ("IndexError", "index 9 is out of bounds for axis 0 with size 3", "last step"),
    "none": ("TypeError", "unsupported operand: 'NoneType' and 'int'", "without `return`"),
    "arguments": ("TypeError", "f() takes 2 positional arguments but 3", "signature"),
    "unwritten": ("NotImplementedError", "", "f is not written yet"),
}


@pytest.mark.parametrize(("kind", "text", "told"), ADVICE.values(), ids=ADVICE)
def test_common_exceptions_come_with_advice(kind: str, text: str, told: str) -> None:
    assert told in _explained(kind, text)[1]["try"]


def test_an_exception_without_lines_or_text_is_still_told() -> None:
    message, evidence = explain(CallError("KeyError", ""))
    assert message == "your function raised KeyError"
    assert "your line" not in dict(evidence)


HOSTILE = '<script>alert("x")</script>'


def _report(**changes: Any) -> Report:
    findings = (
        Finding("sums to 1", 2, 2),
        Finding("huge", 1, 0, "wrong value", (("got", "[nan]"),)),
        Finding("inf", 1, 0, "wrong value too", (("got", "[inf]\n[1]"),)),
    )
    given: dict[str, Any] = {
        "exercise_id": "03_attention/softmax",
        "findings": findings,
        "status": "partial",
        "diagnosis": "ignored the axis",
        "explanation": "Pass it on.",
        **changes,
    }
    return Report(**given)


def test_the_repr_of_a_report_is_its_score_alone() -> None:
    assert repr(_report()) == "2"
    assert repr(Report(None, (), "invalid")) == "0"
    assert float(repr(_report())) == _report().score


def test_the_text_card_says_it_all() -> None:
    text = str(_report(mend=("softmax",), printed="hello\n", status="partial"))
    for part in (
        "softmax: 2 of 4 points",
        "Looks like: ignored the axis. Pass it on.",
        "✓ 2/2  sums to 1",
        "✗ 0/1  huge",
        "wrong value",
        "got: [inf]\n",
        "Your function printed: hello",
    ):
        assert part in text


def test_the_html_card_escapes_whatever_came_from_the_candidate() -> None:
    finding = Finding(HOSTILE, 1, 0, HOSTILE, ((HOSTILE, HOSTILE),))
    report = _report(
        exercise_id=f"x/{HOSTILE}",
        findings=(finding,),
        note=HOSTILE,
        diagnosis=HOSTILE,
        explanation=HOSTILE,
        mend=(HOSTILE,),
        printed=HOSTILE,
    )
    html = report._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 8


def test_the_html_card_folds_all_evidence_but_that_of_the_first_miss() -> None:
    html = _report()._repr_html_()
    assert html.index("[nan]") < html.index("<details>") < html.index("[inf]")
    assert html.count("<details>") == 1


def test_a_card_of_something_not_started_lists_no_misses() -> None:
    report = empty_report("03_attention/softmax", [("a", 2), ("b", 1)], "not started", "Write it.")
    assert (report.score, report.max_score) == (0, 3)
    assert "✗" not in str(report)
    assert "Write it." in str(report)
    assert "not started" in report._repr_html_()
