"""Advice on shapes that do not fit and on kinds of values, as NumPy and Python tell of them."""

from __future__ import annotations

import ast
import re

import numpy as np

from attend_grader.checks.outcomes import CallError


def about_shapes(error: CallError, line: str) -> str:
    """Shapes that do not fit, axes that are not there, places out of range."""
    text = error.message
    broadcast = re.search(r"could not be broadcast together with shapes (\(.*?\)) (\(.*?\))", text)
    if broadcast:
        pair = [[int(n) for n in re.findall(r"\d+", shape)] for shape in broadcast.groups()]
        fit = "two lengths fit when they are equal or when one is 1, compared from the last axis."
        if len(pair[0]) != len(pair[1]) and _reduces(error, line, min(pair, key=len)):
            return f"{fit} Was an axis summed away? keepdims=True keeps it, with length 1."
        if _multiplies(line):
            return f"did you mean a matrix product, `@`? `*` multiplies entry by entry, where {fit}"
        return fit
    product = ("core dimension", "not aligned", "mat1 and mat2")
    if any(sign in text for sign in product) and "same dtype" not in text:
        rule = "in `a @ b` the last axis of a must be as long as the second-to-last axis of b."
        stacks = [n for n, s in error.shapes.items() if not isinstance(s, str) and len(s) > 2]
        if any(re.search(rf"\b{re.escape(name)}\.T\b", line) for name in stacks):
            return f"{rule} `.T` turns all axes round, np.swapaxes(x, -1, -2) only the last two."
        return rule
    if "not have enough dimensions" in text and "matmul" in text:
        return (
            "`@` multiplies arrays; one of these is a single number, for which it is `*`. What a "
            "loop begins with in the place of an array is np.zeros(…) of its shape."
        )
    if built_in := _about_numpy(text, line):
        return built_in
    if re.search(r"axis -\d+ is out of bounds", text):
        return (
            "the array has fewer axes than you count. Is one summed or indexed away? And squeeze() "
            "without an axis takes out every axis of length 1: `x[..., 0, :]` takes out one."
        )
    if "too many indices" in text and (few := _cut_too_deep(error, line)):
        return few
    if error.type == "AxisError" or "axes don't match" in text or "too many indices" in text:
        return "count axes from the end (-1 is the last): inputs may have any number of axes."
    if "values to unpack" in text and "np.split(" in line:
        return (
            "np.split(x, n, axis=-1) cuts the last axis into n blocks: n is how many names are on "
            "the left, not how long a block is."
        )
    if "values to unpack" in text and ".shape" in line:
        return (
            "inputs may have any number of axes: x.shape[-1] is the length of the last one, "
            "x.shape[-2] of the one before."
        )
    if "setting an array element with a sequence" in text and re.search(r"\]\s*=[^=]", line):
        return "one place of an array takes one number; what it is given here is an array."
    if "boolean index did not match" in text:
        return (
            "a mask in brackets must have the array's own shape; np.where(mask, a, b) broadcasts."
        )
    if error.type == "IndexError" and re.search(r"index -\d+ is out of bounds", text):
        return (
            "an index is before the first place of its axis: −1 is the last one. A huge negative "
            "one is what NaN becomes as a whole number."
        )
    if error.type == "IndexError" and "out of bounds" in text:
        return "an index is past the end of its axis: the last one is the axis's length minus 1."
    return ""


def _cut_too_deep(error: CallError, line: str) -> str:
    """Brackets that count from the end already, or what has no axis at all; empty for others."""
    count = re.search(r"dimension (\d+)|is (\d+)-dimensional", error.message)
    if not count:
        return ""
    axes = int(count[1] or count[2])
    here = [n for n, s in error.shapes.items() if not isinstance(s, str) and len(s) == axes]
    cut = [n for n in here if re.search(rf"\b{re.escape(n)}\[\s*\.\.\.", line)]
    if axes and not cut:
        return ""
    name = f"`{(cut or here)[0]}`" if len(cut or here) == 1 else "what is cut"
    has = {0: "no axes", 1: "one axis"}.get(axes, f"{axes} axes")
    return (
        f"{name} has {has} here, fewer than the brackets take. What broadcasts may have fewer axes "
        "than what it meets: can it be handed on as it is?"
    )


def _about_numpy(text: str, line: str) -> str:
    """Advice on what NumPy says of its own functions' arguments, and of arrays written to."""
    if "non-broadcastable output operand" in text:
        return (
            "`a += b` keeps the shape of a, and b has more numbers or axes than fit in there: sum "
            "over the axis that is too many, or write `a = a + b` where the larger shape is meant."
        )
    if "Improper number of dimensions to norm" in text:
        return (
            "this is a stack of matrices: tell np.linalg.norm which two axes are the matrix, "
            "axis=(1, 2) or axis=(-2, -1)."
        )
    if "does not result in an equal division" in text:
        if re.search(r"axis\s*=\s*-1", line):
            return "the last axis cannot be cut into so many equal blocks: how many are there?"
        return "np.split cuts axis 0 unless told otherwise: axis=-1 cuts the last one."
    if "is read-only" in text:
        return (
            "this array may be read, not written: np.broadcast_to gives such arrays. `a = a * b` "
            "makes a new one where `a *= b` writes."
        )
    return ""


def _reduces(error: CallError, line: str, shape: list[int]) -> bool:
    """Whether what has an axis fewer is a name in ``line``, or comes from a sum or the like."""
    named = [n for n, s in error.shapes.items() if not isinstance(s, str) and [*s] == shape]
    if any(re.search(rf"\b{re.escape(name)}\b", line) for name in named):
        return True
    return re.search(r"\b(np\.)?(sum|max|amax|min|amin|mean)\(", line) is not None


def _multiplies(line: str) -> bool:
    """Whether `*` is what may have failed in ``line``: there is no sum or difference."""
    try:
        operators = {type(n.op) for n in ast.walk(ast.parse(line)) if isinstance(n, ast.BinOp)}
    except SyntaxError:  # one line of a longer statement
        return False
    return ast.Mult in operators and not operators & {ast.Add, ast.Sub}


def about_kinds(error: CallError) -> str:
    """A kind of value where another belongs: an array for a number, a list for an array."""
    text = error.message
    if "Cannot cast ufunc" in text:
        return (
            "`a -= b` and the like cannot put fractions into an array of whole numbers; "
            "`a = a - b` makes a new array."
        )
    if "converted to Python scalar" in text or "only 0-dimensional" in text:
        return "Python's math and float() take one number; np.exp, np.sqrt, … take whole arrays."
    if "math range error" in text:
        return "exp above 709 overflows: a softmax subtracts the largest, a sigmoid uses tanh."
    if "truth value of an array" in text:
        return (
            "Python's own max, min, and, or, if ask whether an array is true; for arrays there "
            "are np.max, np.maximum, np.where, …"
        )
    if "Boolean value of Tensor" in text:
        return (
            "if, and, or, max, min of Python ask whether a tensor is true: `if x is not None` asks "
            "whether there is one; number by number there are torch.where, torch.maximum, …"
        )
    if re.search(r"\b(max|min|sum)\(\) (takes|got)|keyword argument for (max|min|sum)\(\)", text):
        return "that is Python's own function; NumPy's is `np.max(…)` or the method `x.max(…)`."
    if re.search(r"(ints,? ?but got|ints?, not) float|'float' object cannot be interpreted", text):
        return "lengths and counts are whole numbers: `/` makes a float, `//` a whole number."
    if "list indices must be integers or slices, not" in text:
        return "a list takes one whole number in brackets; `np.asarray(…)` makes an array of it."
    listed = re.search(r"'list' object has no attribute '(\w+)'", text)
    if listed and hasattr(np.ndarray, listed.group(1)):
        return "a list has no such method; `np.array(…)` makes an array of it."
    if "unsupported operand" in text and "'list'" in text:
        return "lists do not calculate entry by entry; `np.array(…)` makes an array of one."
    if "NoneType" in text:
        return "something is None: was it given so, or by a function without `return`?"
    if error.type == "TypeError" and "positional argument" in text:
        return "compare the call with the function's signature."
    return ""
