"""What learners read: differences, their likely causes, calls."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from attend_grader import chapters, grade
from attend_grader.chapters.ch04_self_attention.masked_softmax import EXERCISE as MASKED_SOFTMAX
from attend_grader.checks.clues import sums_to_zero
from attend_grader.checks.compare import (
    FLOAT32,
    FLOAT64,
    PRINTED,
    Miss,
    Tolerance,
    expect_close,
    likely_cause,
)
from attend_grader.checks.replay import describe_call
from attend_grader.inside.codec import Opaque


def _miss(got: Any, want: Any, **kwargs: Any) -> Miss:
    with pytest.raises(Miss) as miss:
        expect_close(got, want, **kwargs)
    return miss.value


A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
SQUARE = np.array([[1.0, 2.0], [3.0, 5.0]])

CAUSES = {
    "transpose": (SQUARE.T, SQUARE, "Yours is the transpose"),
    "sign": (-A, A, "Every sign is flipped."),
    "factor": (A * 2, A, "Yours is everywhere 2 times what is expected."),
    "shift": (A + 0.5, A, "Yours is everywhere larger by 0.5."),
    "shift down": (A - 0.25, A, "Yours is everywhere smaller by 0.25."),
    "NaN": (np.where(A > 4, np.nan, A), A, "2 of these numbers are NaN"),
    "one NaN": (np.where(A > 5, np.nan, A), A, "1 of these numbers is NaN"),
    "where NaN comes from": (np.where(A > 5, np.nan, A), A, "0 · inf, 0 / 0 and inf / inf are"),
    "infinite": (np.where(A > 4, np.inf, A), A, "Some of these numbers are infinite"),
    "where infinity comes from": (np.where(A > 4, -np.inf, A), A, "or from infinite arguments."),
    "nothing in particular": (A * [1, 2, 3], A, "(4 of 6 differ)."),
    "constants": (np.full(3, 2.0), np.full(3, 0.5), "(3 of 3 differ)."),
    "wild": (A * [1, 1e200, 1e307], A, "differ)."),
}


@pytest.mark.parametrize(("got", "want", "cause"), CAUSES.values(), ids=CAUSES)
def test_the_likely_cause_is_told(got: np.ndarray, want: np.ndarray, cause: str) -> None:
    message = _miss(got, want).message
    assert message.startswith("wrong value: result[")
    assert cause in message
    assert ("everywhere" in message) is ("everywhere" in cause)


IMAGINARY = {
    "floats": (A + 1j, A),
    "without an imaginary part": (A + 0j, A),
    "whole numbers": (np.array([1 + 3j, 2]), np.array([1, 2])),
    "one whole number": (3 + 4j, 3),
    "booleans": (np.array([1 + 3j, 0]), np.array([True, False])),
    "tensors": (torch.tensor([1 + 3j]), torch.tensor([1.0])),
}


@pytest.mark.parametrize(("got", "want"), IMAGINARY.values(), ids=IMAGINARY)
def test_imaginary_parts_are_no_real_numbers(got: Any, want: Any) -> None:
    miss = _miss(got, want)
    assert miss.text.startswith("wrong type: result is complex (complex")
    assert "`.real`" in miss.cause


def test_exact_results_may_be_nearly_right() -> None:
    exact = Tolerance("exact", 0.0, "a copy changes no digit")
    third = np.array([1 / 3, 2 / 3])
    cause = likely_cause(third.astype(np.float32).astype(float) * (1 + 1e-9), third, exact)
    assert cause == "Nearly right, but all digits are expected."


def test_complex_numbers_are_compared_whole() -> None:
    expect_close(A + 1j, A + 1j)
    assert _miss(A + 2j, A + 1j).text.startswith("wrong value: result[")


def test_sums_are_told_with_their_signs() -> None:
    rows = np.array([[0.5, -0.25, -0.25], [-0.5, 0.25, 0.0], [0.5, -0.5, 0.125]])
    assert sums_to_zero(1e-6)(rows).startswith("A row of yours sums to -0.25; ")
    assert sums_to_zero(1e-6)(-rows).startswith("A row of yours sums to 0.25; ")
    assert sums_to_zero(1e-6)(rows[:1]) == ""
    for exercise in ("02_alignment/hard_attention_sample", "03_attention/softmax_jacobian"):
        known = chapters.exercise(exercise)
        slips = [grade(slip, exercise, 1) for slip in known.misconceptions.values()]
        told = [f.message for card in slips for f in card.findings]
        assert any("A row of yours sums to -" in message for message in told)


def test_adding_minus_infinity_is_told_apart_from_putting_it_there() -> None:
    added = MASKED_SOFTMAX.misconceptions["−inf added, not put in its place"]
    report = grade(added, "04_self_attention/masked_softmax", 1)
    (lost,) = [finding for finding in report.findings if not finding.passed]
    assert (
        "np.where does not care what stood there, while adding and multiplying do" in lost.message
    )


SHAPES = {
    "order": ((3, 2), (2, 3), "in another order"),
    "kept": ((2, 1), (2,), "One axis of length 1 too many"),
    "lost": ((2,), (2, 1), "One axis of length 1 too few"),
    "few": ((2,), (2, 3), "One axis too few"),
    "many": ((2, 3, 4, 5), (2, 3), "2 axes too many"),
    "other": ((2, 4), (2, 3), "wrong shape: result is (2, 4), expected (2, 3)."),
    "longer, as its neighbour": ((2, 2, 3), (2, 1, 3), "as by broadcasting: did one get lost"),
    "longer, as no other": ((2, 4), (2, 1), "wrong shape: result is (2, 4), expected (2, 1)."),
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


WHOLES = {
    "large": (2**30, 2**31, "is 1,073,741,824, expected 2,147,483,648."),
    "a fraction": (1234567.5, 2**31, "is 1.23457e+06, expected 2.14748e+09."),
    "small": (480, 960, "is 480, expected 960."),
}


@pytest.mark.parametrize(("got", "want", "told"), WHOLES.values(), ids=WHOLES)
def test_large_whole_numbers_are_written_out(got: float, want: int, told: str) -> None:
    assert told in _miss(got, want).message


ALMOST = np.array([0.421697, 1.2])
ROUNDED = {
    "float32": (ALMOST.astype(np.float32), ALMOST, "Yours is float32", "float64."),
    "on the way": (
        ALMOST.astype(np.float32).astype(float),
        ALMOST,
        "Nearly right",
        "but 9 digits are expected.",
    ),
    "a number": (np.float32(41829.4), 41829.4, "Yours is float32", "a Python float or float64."),
    "complex64": ((1j * ALMOST).astype(np.complex64), 1j * ALMOST, "Yours is complex64", "128."),
    "complex": (1j * ALMOST * (1 + 3e-8), 1j * ALMOST, "Nearly right", "digits are expected."),
    "a factor near 1": (A * (1 + 2e-5), A, "(6 of 6 differ).", ""),
}


@pytest.mark.parametrize(("got", "want", "told", "end"), ROUNDED.values(), ids=ROUNDED)
def test_numbers_that_differ_late_are_told_apart_and_why(
    got: Any, want: Any, told: str, end: str
) -> None:
    miss = _miss(got, want)
    ((mine, right),) = re.findall(r"is (\S+), expected (\S+?)\.? ", miss.message)
    assert mine != right
    assert told in miss.message
    assert miss.message.endswith(end)
    assert "1 times" not in miss.message
    shown = dict(miss.evidence)
    assert not shown or shown["got"] != shown["expected"]


def test_float32_is_no_cause_where_it_is_allowed_or_far_off() -> None:
    off = ALMOST.astype(np.float32) + np.float32(0.1)
    for tolerance in (FLOAT64, FLOAT32):
        assert "float32" not in _miss(off, ALMOST, tolerance=tolerance).message


def test_one_cause_is_one_topic() -> None:
    one, two = (_miss(-A, A).on(given, "") for given in ("f(1)", "f(2)"))
    assert one.topic == two.topic == "Every sign is flipped."


def test_torchs_answers_are_asked_for_in_torchs_words() -> None:
    want = torch.ones(2)
    assert "of type list, expected a tensor." in _miss([1.0, 1.0], want).message
    told = _miss(torch.tensor([1, 1]), want).message
    assert "dtype int64, expected a floating one. Whole numbers stay whole under `//`" in told


TYPES = {
    "None": (None, A, "your function returned None instead of the result."),
    "list": ([1.0], A, "wrong type: result is of type list, expected an array."),
    "string": ("x", 1.0, "wrong type: result is of type str, expected a number."),
    "opaque": (Opaque("generator"), A, "result is of type generator, expected an array."),
    "integers": (A.astype(int), A, "wrong type: result has dtype int64, expected a floating one."),
    "booleans": (A > 3, A, "has dtype bool"),
    "one array for two": (A, (A, A), "returned one array of shape (2, 3); expected 2 values."),
    "too many": ((A, A, A), (A, A), "your function returned 3 values; expected 2 values."),
    "None for two": (None, (A, A), "returned None; expected 2 values."),
}


@pytest.mark.parametrize(("got", "want", "told"), TYPES.values(), ids=TYPES)
def test_structure_and_type_are_told(got: Any, want: Any, told: str) -> None:
    assert told in _miss(got, want).message


def test_results_are_called_by_their_names_and_swaps_noticed() -> None:
    one, two = np.ones((2, 3)), np.ones((4, 3))
    names = ("grad_q", "grad_k")
    order = "the order is `return grad_q, grad_k`."
    miss = _miss((two, one), (one, two), what=names)
    assert (
        miss.message == f"wrong shape: grad_q is (4, 3), expected (2, 3). That is grad_k: {order}"
    )
    miss = _miss((3 * two, one), (one, two), what=names)
    assert miss.message.endswith(f"(2, 3). That is the shape of grad_k: {order}")
    miss = _miss((SQUARE, SQUARE), (SQUARE + 1, SQUARE), what=names)
    assert miss.message.endswith("That is also your grad_k.")
    miss = _miss((SQUARE, SQUARE + 1), (SQUARE + 1, SQUARE), what=names)
    assert miss.message.endswith(f"(4 of 4 differ). That is grad_k: {order}")
    assert miss.topic == order
    miss = _miss((3 * two, two), (one, two), what=names)  # grad_k is in its own place too
    assert "order" not in miss.message
    other, zero = _miss((SQUARE, SQUARE), (SQUARE + 1, SQUARE + 2), what=names), np.zeros((2, 2))
    assert "grad_k" not in other.message
    assert "grad_k" not in _miss((zero, zero), (SQUARE, zero), what=names).message


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
    small, single = np.array([0.1 + 0.2, -np.inf]), np.ones((1, 2), np.float32)
    one = describe_call("f", ("q",), (small,), {"axis": 0})
    assert one == "f(np.array([0.3, -np.inf]), axis=0)"
    two = describe_call("f", ("q", "k"), (small, single), {"scaled": False})
    assert two.splitlines() == [
        "q = np.array([0.3, -np.inf])",
        "k = np.array([[1.0, 1.0]], dtype=np.float32)",
        "f(q, k, scaled=False)",
    ]
    called = []
    exec(two, {"np": np, "f": lambda *args, **kwargs: called.append((args, kwargs))})
    ((q, k), kwargs) = called[0]
    np.testing.assert_allclose(q, small)
    np.testing.assert_array_equal(k, single)
    assert k.dtype == np.float32
    assert kwargs == {"scaled": False}


def test_zeros_are_written_in_short() -> None:
    cell = (torch.zeros(3, 1), torch.zeros(3), torch.zeros(2), np.zeros((2, 2)), np.zeros(3))
    told = describe_call("f", ("cell",), (cell,), {})
    assert told.startswith("cell = (torch.zeros(3, 1), torch.zeros(3), torch.tensor([0.0, 0.0]), ")
    assert "np.zeros((2, 2)), np.zeros(3))" in told
    assert "-0.0" in describe_call("f", ("x",), (-np.zeros(3),), {})


def test_calls_that_cannot_be_written_down_are_told_by_shapes() -> None:
    small, large = np.array([1, 2]), np.zeros((3, 6))
    text = describe_call("f", ("q", "k"), (small, large), {"scaled": False})
    assert text == "q (2,) int64, k (3, 6), scaled=False"
    view = np.ones((2, 6))[:, ::2]
    assert describe_call("f", ("q",), (view.astype(np.float32)[::-1],), {}) == "q (2, 3) float32"
    assert describe_call("f", ("q",), (view,), {}) == "q (2, 3)"


def test_calls_with_tuples_are_replayed_or_told_by_their_shapes() -> None:
    cell = (np.array([1.0]), np.array([2.0, 3.0]))
    assert describe_call("f", ("x", "cell"), (np.array([0.0]), cell), {}) == (
        "x = np.array([0.0])\ncell = (np.array([1.0]), np.array([2.0, 3.0]))\nf(x, cell)"
    )
    large = (np.zeros((3, 9)), np.zeros(9))
    assert describe_call("f", ("cell",), (large,), {}) == "cell of (3, 9), (9,)"


def test_of_a_dict_of_arrays_the_card_tells_names_and_shapes() -> None:
    weights = {"taps": torch.zeros(8, 4), "skip": torch.zeros(8, dtype=torch.float64)}
    told = describe_call("f", ("block", "x"), (weights, torch.zeros(2, 9)), {})
    assert told == "block of {taps (8, 4), skip (8,) float64}, x (2, 9)"


def test_a_factor_is_told_only_where_it_fits_both_ways() -> None:
    wide = Tolerance("wide", 1e-3, "cancelled", absolute=5e-2)
    want = np.array([-1e-4, 2e-4, 3e-4])  # all within the tolerance of 0
    got = np.array([2.0, -1.0, 0.5])
    assert likely_cause(got, want, wide) == ""
    assert "everywhere 4e+04 times" in likely_cause(4e4 * want, want, wide)
