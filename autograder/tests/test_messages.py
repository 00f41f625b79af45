"""What learners read: differences, likely causes, exceptions, cards."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from attend_grader.codec import Opaque
from attend_grader.compare import FLOAT32, FLOAT64, PRINTED, Miss, expect_close
from attend_grader.explain import explain
from attend_grader.replay import describe_call
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
    "shift down": (A - 0.25, A, "Yours is everywhere smaller by 0.25: a constant is off."),
    "NaN": (np.where(A > 4, np.nan, A), A, "2 of your values are NaN"),
    "one NaN": (np.where(A > 5, np.nan, A), A, "1 of your values is NaN"),
    "infinite": (np.where(A > 4, np.inf, A), A, "Some of your values are infinite"),
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


SHAPES = {
    "order": ((3, 2), (2, 3), "in another order"),
    "order, perhaps": (
        (2, 3, 2),
        (2, 2, 3),
        "in another order: are axes exchanged, or is it chance",
    ),
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
    "on the way": (ALMOST.astype(np.float32).astype(float), ALMOST, "Right to six digits", "?"),
    "a number": (np.float32(41829.4), 41829.4, "Yours is float32", "a Python float or float64."),
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
    "None": (None, A, "your function returned None instead of the result. Is `return` missing?"),
    "list": ([1.0], A, "wrong type: result is of type list, expected an array."),
    "string": ("x", 1.0, "wrong type: result is of type str, expected a number."),
    "opaque": (Opaque("generator"), A, "result is of type generator, expected an array."),
    "integers": (A.astype(int), A, "wrong type: result has dtype int64, expected a floating one."),
    "booleans": (A > 3, A, "has dtype bool"),
    "one array for two": (A, (A, A), "returned one array of shape (2, 3); expected 2 values."),
    "too many": ((A, A, A), (A, A), "your function returned 3 values; expected 2 values."),
    "None for two": (None, (A, A), "returned None; expected 2 values. Is `return` missing?"),
}


@pytest.mark.parametrize(("got", "want", "told"), TYPES.values(), ids=TYPES)
def test_structure_and_type_are_told(got: Any, want: Any, told: str) -> None:
    assert told in _miss(got, want).message


def test_results_are_called_by_their_names_and_swaps_noticed() -> None:
    one, two = np.ones((2, 3)), np.ones((4, 3))
    names = ("grad_q", "grad_k")
    order = "is the order `return grad_q, grad_k`?"
    miss = _miss((two, one), (one, two), what=names)
    assert (
        miss.message == f"wrong shape: grad_q is (4, 3), expected (2, 3). That is grad_k: {order}"
    )
    miss = _miss((3 * two, one), (one, two), what=names)
    assert miss.message.endswith(f"(2, 3). That is the shape of grad_k: {order}")
    miss = _miss((SQUARE, SQUARE), (SQUARE + 1, SQUARE), what=names)
    assert miss.message.endswith("That is grad_k, which you return in its own place too.")
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


def _explained(
    kind: str, text: str, line: str = "y = a @ b", own: bool = True
) -> tuple[str, dict[str, str]]:
    shapes: dict[str, Any] = {"a": [2, 3], "b": [2, 3], "c": [1], "q": [2, 2], "stack": [2, 3, 4]}
    shapes["pair"] = "a tuple of 2"
    error = CallError(kind, text, [["f", 2, line]], shapes, own)
    message, evidence = explain(error, {"earlier": ("first", "second")})
    return message, dict(evidence)


def test_an_exception_is_told_with_line_shapes_and_advice() -> None:
    text = "operands could not be broadcast together with shapes (2,3) (1,) "
    message, evidence = _explained("ValueError", text, "y = a - c")
    assert message == f"your function raised ValueError in line 2 of f: {text.strip()}"
    assert evidence["your line"] == "y = a - c"
    assert evidence["shapes there"] == "a is (2, 3), c is (1,)"
    assert "keepdims=True" in evidence["try"]
    assert _explained("_UFuncOutputCastingError", "x")[0].startswith("your function raised UFunc")


def test_a_tuple_behind_a_star_is_not_blamed() -> None:
    line = "h = torch.gru_cell(x, h, *weights)"
    shapes = {"weights": "a tuple of 4", "x": [2, 3], "h": [2, 5]}

    def advice(text: str, line: str) -> str:
        error = CallError("RuntimeError", text, [["f", 2, line]], shapes, True)
        return dict(explain(error, {})[1]).get("try", "")

    told = advice("hidden0 has inconsistent hidden_size: got 5, expected 4", line)
    assert "the state is (B, N)" in told
    told = advice("mat1 and mat2 must have the same dtype, but got Float and Double", line)
    assert "dtype=x.dtype" in told
    told = advice("argument 'w_ih' must be Tensor, not tuple", line.replace("*", ""))
    assert "`*weights`" in told
    told = advice("Tensors must have same number of dimensions: got 2 and 3", line)
    assert "x[:, 0]" in told


def test_numpys_gufunc_wording_is_put_plainly() -> None:
    with pytest.raises(ValueError, match="core dimension") as raised:
        np.matmul(np.ones((2, 3)), np.ones((4, 5)))
    message, evidence = _explained("ValueError", str(raised.value))
    assert "rows on the left have length 3, columns on the right 4" in message
    assert evidence["try"].endswith("as long as the second-to-last axis of b.")
    stacked = _explained("ValueError", str(raised.value), "y = a @ stack.T")[1]["try"]
    assert stacked.endswith("`.T` turns all axes round, np.swapaxes(x, -1, -2) only the last two.")
    assert ".T" not in _explained("ValueError", str(raised.value), "y = a.T @ stack")[1]["try"]


WHOLE = "argument 'shape' failed to unpack … type must be tuple of ints,but got float"
ADVICE = {
    "float length": ("TypeError", WHOLE, "`//` a whole number"),
    "float count": ("TypeError", "argument 'chunks' must be int, not float", "`//`"),
    "float of NumPy": ("TypeError", "'float' object cannot be interpreted as an integer", "`//`"),
    "length 0": ("RuntimeError", "shape '[2, 3, 6, 0]' is invalid for input of size 24", "as 0"),
    "lengths": ("RuntimeError", "shape '[2, 30]' is invalid for input of size 24", "multiply"),
    "in-place shape": ("ValueError", "non-broadcastable output operand", "keeps the shape"),
    "norm of a stack": ("ValueError", "Improper number of dimensions to norm.", "axis=(1, 2)"),
    "split rows": ("ValueError", "array split does not result in an equal division", "axis=-1"),
    "read-only": ("ValueError", "output array is read-only", "may be read"),
    "name": ("NameError", "name 'qq' is not defined", "define `qq` above"),
    "unbound": ("UnboundLocalError", "local variable 'x' referenced", "before using it"),
    "exit": ("SystemExit", "None", "remove the call to exit"),
    "recursion": ("RecursionError", "maximum recursion depth", "what stops it?"),
    "axis": ("AxisError", "axis 2 is out of bounds for array of dimension 1", "from the end"),
    "order of axes": ("ValueError", "axes don't match array", "from the end"),
    "too many indices": ("IndexError", "too many indices for array", "from the end"),
    "index": ("IndexError", "index 9 is out of bounds for axis 0 with size 3", "past the end"),
    "width": ("NameError", "name 'd_k' is not defined", "the width of a query is `q.shape[-1]`"),
    "capital": ("NameError", "name 'Q' is not defined", "did you mean `q`?"),
    "numpy": ("NameError", "name 'sqrt' is not defined", "in NumPy it is called `np.sqrt`"),
    "import": ("NameError", "name 'np' is not defined", "the cell at the top of the notebook"),
    "method": ("AttributeError", "'numpy.ndarray' object has no attribute 'exp'", "`np.exp(…)`"),
    "keepdim": ("TypeError", "_amax() got an unexpected keyword argument 'keepdim'", "`keepdims`"),
    "scalar": ("TypeError", "only length-1 arrays can be converted to Python scalars", "np.exp"),
    "overflow": ("OverflowError", "math range error", "subtract the largest first"),
    "truth": ("ValueError", "The truth value of an array with more than one", "np.max"),
    "own max": ("TypeError", "max() takes no keyword arguments", "NumPy's is `np.max(…)`"),
    "own sum": ("TypeError", "'axis' is an invalid keyword argument for sum()", "Python's own"),
    "casting": ("UFuncTypeError", "Cannot cast ufunc 'subtract' output from", "`a = a - b`"),
    "math": ("NameError", "name 'math' is not defined", "np.exp"),
    "list index": ("TypeError", "list indices must be integers or slices, not tuple", "asarray"),
    "mask index": ("IndexError", "boolean index did not match indexed array along", "np.where"),
    "list method": ("AttributeError", "'list' object has no attribute 'var'", "np.array"),
    "lists": ("TypeError", "unsupported operand type(s) for /: 'list' and 'float'", "np.array"),
    "numbers": ("ValueError", "matmul: Input operand 0 does not have enough dimensions", "`*`"),
    "none": ("TypeError", "unsupported operand: 'NoneType' and 'int'", "without `return`"),
    "arguments": ("TypeError", "f() takes 2 positional arguments but 3", "signature"),
    "torch's float index": ("IndexError", "tensors used as indices must be long, int", "`//`"),
    "torch's join": ("TypeError", "(position 1) must be tuple of Tensors, not Tensor", "((a, b)"),
    "no star": ("RuntimeError", "torch.block_diag: Input tensors must have 2 or", "with a star"),
    "torch's truth": ("RuntimeError", "Boolean value of Tensor with more", "`if x is not None`"),
    "gather": (
        "RuntimeError",
        "Index tensor must have the same number of dimensions as input t",
        "[..., None]",
    ),
    "joined number": (
        "RuntimeError",
        "zero-dimensional tensor (at position 1) cannot",
        "squeeze(1)",
    ),
    "state": ("RuntimeError", "hidden0 has inconsistent hidden_size: got 9, expected 3", "(B, N)"),
    "input": ("RuntimeError", "input has inconsistent input_size: got 3 expected 4", "(B, C)"),
    "rows": ("RuntimeError", "Input batch size 5 doesn't match hidden0 batch size 2", "x[:, s]"),
    "torch's number": ("TypeError", "'input' (position 1) must be Tensor, not float", "`math`"),
    "unwritten": ("NotImplementedError", "", "write this part; or delete this line"),
}


@pytest.mark.parametrize(("kind", "text", "told"), ADVICE.values(), ids=ADVICE)
def test_common_exceptions_come_with_advice(kind: str, text: str, told: str) -> None:
    assert told in _explained(kind, text)[1]["try"]


def test_an_earlier_function_that_is_not_written_is_named() -> None:
    assert "f is not written yet" in _explained("NotImplementedError", "", own=False)[1]["try"]


def test_an_error_in_a_function_that_was_called_shows_both_lines() -> None:
    lines = [["f", 2, "w = g(x)"], ["g", 3, "return x * 1.0"]]
    evidence = dict(explain(CallError("TypeError", "?", lines))[1])
    assert evidence["your line"] == "return x * 1.0"
    assert evidence["called in"] == "w = g(x) (line 2 of f)"
    assert "called in" not in dict(explain(CallError("TypeError", "?", lines[1:]))[1])


TUPLES = {
    "as an array": ("y = np.swapaxes(pair, 0, 1)", "`first, second = earlier(…)`"),
    "taken apart": ("y = pair[0] @ a", None),
    "elsewhere": ("y = a @ b", None),
}


@pytest.mark.parametrize(("line", "told"), TUPLES.values(), ids=TUPLES)
def test_a_tuple_used_as_an_array_is_to_be_taken_apart(line: str, told: str | None) -> None:
    advice = _explained("ValueError", "inhomogeneous shape", line)[1].get("try", "")
    assert (told or "") in advice
    assert ("take them apart" in advice) is (told is not None)
    error = CallError("ValueError", "?", [["f", 2, line]], {"pair": "a tuple of 3"}, True)
    advice = dict(explain(error)[1]).get("try", "")
    assert ("as in `a, b = pair`" in advice) is (told is not None)


BROADCAST = {
    "product": ("return q * k", "(3,4) (5,4)", "did you mean a matrix product, `@`?"),
    "difference": ("return q - k", "(3,4) (5,4)", "two lengths fit"),
    "both": ("return p * (d - m)", "(3,4) (5,4)", "two lengths fit"),
    "part of a statement": ("q * k)", "(3,4) (5,4)", "two lengths fit"),
    "axis lost": ("return p * d.sum(axis=-1)", "(3,4) (3,)", "Was an axis summed away?"),
    "axis lost under a name": ("return p * c", "(3,4) (1,)", "Was an axis summed away?"),
    "an axis fewer for another reason": ("s / np.sqrt(q.shape)", "(3,4) (2,)", "two lengths fit"),
}


@pytest.mark.parametrize(("line", "shapes", "told"), BROADCAST.values(), ids=BROADCAST)
def test_shapes_that_do_not_broadcast_get_no_wrong_advice(
    line: str, shapes: str, told: str
) -> None:
    text = f"operands could not be broadcast together with shapes {shapes} "
    advice = _explained("ValueError", text, line)[1]["try"]
    assert told in advice
    assert ("`@`" in advice) is ("`@`" in told)
    assert ("keepdims" in advice) is ("summed away" in told)


def test_a_shape_taken_apart_is_not_a_result_taken_apart() -> None:
    text = "too many values to unpack (expected 2)"
    assert "x.shape[-1]" in _explained("ValueError", text, "T, D = q.shape")[1]["try"]
    assert "try" not in _explained("ValueError", text, "o, w = f(q)")[1]


def test_a_row_given_to_one_place_is_told() -> None:
    text = "setting an array element with a sequence."
    assert "takes one number" in _explained("ValueError", text, "J[i, j] = a[i]")[1]["try"]
    assert "try" not in _explained("ValueError", text, "return np.array([a, q])")[1]


NONE = {
    "argument": ("y = a @ given", "`given` is None in this call: settle that case first"),
    "local": ("y = a @ made", "`made` is None here: was it given so"),
    "neither": ("y = a @ b", "a single number"),
    "an attribute": ("y = a @ b.given", "a single number"),
    "keyword": ("y = a @ f(made=1)", "a single number"),
}


@pytest.mark.parametrize(("line", "told"), NONE.values(), ids=NONE)
def test_what_is_none_is_named(line: str, told: str) -> None:
    shapes = {"a": [2, 2], "given": "None in this call", "made": "None"}
    text = "matmul: Input operand 1 does not have enough dimensions"
    evidence = dict(explain(CallError("ValueError", text, [["f", 2, line]], shapes))[1])
    assert told in evidence["try"]
    away = dict(explain(CallError("ValueError", "?", [["f", 2, "return 1"]], shapes))[1])
    assert away["shapes there"] == "a is (2, 2)"
    assert "try" not in dict(explain(CallError("KeyError", "?", [["f", 2, line]], shapes))[1])


def test_a_call_that_returns_a_tuple_used_as_an_array_is_told() -> None:
    text = "setting an array element with a sequence. … inhomogeneous shape after 1 dimensions."
    told = _explained("ValueError", text, "return a @ earlier(q)")[1]["try"]
    assert told.startswith("earlier returns two things, first, second")
    assert "try" not in _explained("ValueError", text, "return a @ other(q)")[1]


SILENT = {
    "unknown": ("ValueError", "something else"),
    "key": ("KeyError", "'x'"),
    "division": ("ZeroDivisionError", "division by zero"),
}


@pytest.mark.parametrize(("kind", "text"), SILENT.values(), ids=SILENT)
def test_where_nothing_is_known_nothing_is_advised(kind: str, text: str) -> None:
    assert "try" not in _explained(kind, text)[1]


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
        "wrong value too",
        "got: [nan]\n",
        "Your function printed: hello",
    ):
        assert part in text
    assert "[inf]" not in text, "arrays are shown at the first miss only"


def test_cards_keep_what_is_short_at_every_miss() -> None:
    evidence = (("called with", "f(1)"), ("your line", "y = a @ b"), ("try", "a.T"))
    findings = (Finding("one", 1, 0, "wrong"), Finding("two", 1, 0, "raised", evidence))
    report = _report(findings=findings)
    text, html = str(report), report._repr_html_()
    assert "your line: y = a @ b" in text
    assert "try: a.T" in text
    assert "called with" not in text
    assert html.index("a.T") < html.index("<details>") < html.index("f(1)")


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
