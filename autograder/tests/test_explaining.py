"""What learners read of an exception: their lines, the shapes there, what to try."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attend_grader.checks.outcomes import CallError
from attend_grader.judging.explain import explain


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
    "recursion": ("RecursionError", "maximum recursion depth", "a loop has no depth"),
    "axis": ("AxisError", "axis 2 is out of bounds for array of dimension 1", "from the end"),
    "axis from the end": ("AxisError", "axis -2 is out of bounds for array", "squeeze()"),
    "order of axes": ("ValueError", "axes don't match array", "from the end"),
    "too many indices": ("IndexError", "too many indices for array", "from the end"),
    "index": ("IndexError", "index 9 is out of bounds for axis 0 with size 3", "past the end"),
    "width": ("NameError", "name 'd_k' is not defined", "the width of a query is `q.shape[-1]`"),
    "capital": ("NameError", "name 'Q' is not defined", "did you mean `q`?"),
    "numpy": ("NameError", "name 'sqrt' is not defined", "in NumPy it is called `np.sqrt`"),
    "import": ("NameError", "name 'np' is not defined", "run the notebook's first cells"),
    "method": ("AttributeError", "'numpy.ndarray' object has no attribute 'exp'", "`np.exp(…)`"),
    "keepdim": ("TypeError", "_amax() got an unexpected keyword argument 'keepdim'", "`keepdims`"),
    "scalar": ("TypeError", "only length-1 arrays can be converted to Python scalars", "np.exp"),
    "overflow": ("OverflowError", "math range error", "a softmax subtracts the largest"),
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
    "a leaf changed": (
        "RuntimeError",
        "a leaf Variable that requires grad is being used in an in-place operation.",
        "ends in `_`",
    ),
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


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("tensor of dimension 0", "mask = mask[..., :n, :n]", "`mask` has no axes here"),
        ("tensor of dimension 0", "", "`mask` has no axes here"),
        ("tensor of dimension 1", "y = row[..., :n, :n]", "`row` has one axis here"),
        ("array: array is 1-dimensional, but 2 were indexed", "row[..., 0, 0]", "`row` has one"),
        ("tensor of dimension 1", "y = row[:, 0]", "count axes from the end"),
        ("tensor of dimension 1", "", "count axes from the end"),
    ],
)
def test_brackets_that_take_more_axes_than_there_are(text: str, line: str, told: str) -> None:
    error = CallError(
        "IndexError", f"too many indices for {text}", [["f", 2, line]], {"mask": [], "row": [3]}
    )
    assert told in dict(explain(error)[1])["try"]


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


def test_split_is_told_what_is_wrong_with_it_and_nothing_else() -> None:
    text = "array split does not result in an equal division"
    last, first = "a, b, c = np.split(x, 4, axis=-1)", "a, b = np.split(x, 4)"
    assert "so many equal blocks" in _explained("ValueError", text, last)[1]["try"]
    assert "axis=-1 cuts the last one" in _explained("ValueError", text, first)[1]["try"]
    text = "not enough values to unpack (expected 4, got 1)"
    line = "i, f, g, o = np.split(x, x.shape[-1] // 4, axis=-1)"
    advice = _explained("ValueError", text, line)[1]["try"]
    assert "how many names" in advice
    assert "any number of axes" not in advice


def test_a_row_given_to_one_place_is_told() -> None:
    text = "setting an array element with a sequence."
    assert "takes one number" in _explained("ValueError", text, "J[i, j] = a[i]")[1]["try"]
    assert "try" not in _explained("ValueError", text, "return np.array([a, q])")[1]


NONE = {
    "argument": ("y = a @ given", "`given` is None in this call: settle that case first"),
    "local": ("y = a @ made", "`made` is None here: was it given so"),
    "neither": ("y = a @ b", "a single number"),
    "a start value": ("y = g + later @ w.T", "np.zeros(…) of its shape"),
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
