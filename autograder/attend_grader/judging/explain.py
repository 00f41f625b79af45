"""Explaining an exception to the person who caused it: their lines, the shapes, what to try.

Advice is given only where it holds whatever the cause; a guess that points the wrong way costs
more than silence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

import numpy as np

from attend_grader.checks.subject import CallError

Results = Mapping[str, Sequence[str]]
"""Earlier functions that return several values: name → what these are called."""

_WIDTHS = ("D", "d", "d_k", "dk", "D_k", "dim", "d_model", "width")
"""What people call the width of a query before they have computed it."""


def explain(
    error: CallError, results: Results | None = None
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """One sentence about ``error``, and evidence: the learner's lines and the shapes alive there.

    Args:
        error: what the candidate raised.
        results: earlier functions that it may call and that return several values.

    Returns:
        (message, ((label, text), …)).
    """
    lines = [line for line in error.lines if line[2]] or list(error.lines)
    where = f" in line {lines[-1][1]} of {lines[-1][0]}" if lines else ""
    first = "" if error.type == "SystemExit" else _plain(error.message.strip().split("\n")[0])
    kind = error.type.removeprefix("_")
    kind = "UFuncTypeError" if kind.startswith("UFunc") else kind
    message = f"your function raised {kind}{where}{': ' if first else ''}{first}"
    evidence: list[tuple[str, str]] = []
    line = lines[-1][2] if lines else ""
    if lines:
        evidence.append(("your line", line))
        used = set(re.findall(r"[A-Za-z_]\w*", line))
        shapes = {n: s for n, s in error.shapes.items() if n in used} or {
            n: s for n, s in error.shapes.items() if not _is_none(s)
        }
        if shapes:
            each = [f"{n} is {s if isinstance(s, str) else tuple(s)}" for n, s in shapes.items()]
            evidence.append(("shapes there", ", ".join(each)))
        if lines[0][0] != lines[-1][0]:
            evidence.append(("called in", f"{lines[0][2]} (line {lines[0][1]} of {lines[0][0]})"))
    advice = (
        _about_none(error, line)
        or _about_unpacking(error, line, results or {})
        or _about_names(error)
        or _about_shapes(error, line)
        or _about_kinds(error)
        or _about_torch(error, line)
    )
    if advice:
        evidence.append(("try", advice))
    return message, tuple(evidence)


def _plain(message: str) -> str:
    """NumPy's wording where it says less than it could, in plain words."""
    pattern = r"mismatch in its core dimension.*\(size (\d+) is different from (\d+)\)"
    inner = re.search(pattern, message)
    if inner:
        right, left = inner.groups()
        return (
            f"matrix product of shapes that do not fit (rows on the left have length {left}, "
            f"columns on the right {right})"
        )
    return message


def _is_none(shape: Sequence[int] | str) -> bool:
    return isinstance(shape, str) and shape.startswith("None")


def _about_none(error: CallError, line: str) -> str:
    """A name in ``line`` is None, and the error comes of it."""
    if not any(sign in error.message for sign in ("NoneType", "not have enough dimensions")):
        return ""
    for name, shape in error.shapes.items():
        if not _is_none(shape) or not re.search(rf"(?<![\w.]){re.escape(name)}\b(?!\s*=)", line):
            continue
        if shape == "None":
            return f"`{name}` is None here: was it given so, or by a function without `return`?"
        return f"`{name}` is {shape}: settle that case first, `if {name} is None`."
    return ""


def _about_unpacking(error: CallError, line: str, results: Results) -> str:
    """A tuple of results is used in ``line`` as if it were one array."""
    if "inhomogeneous shape" in error.message:
        for function, names in results.items():
            if re.search(rf"\b{re.escape(function)}\(", line):
                words = {2: "two", 3: "three"}.get(len(names), str(len(names)))
                return (
                    f"{function} returns {words} things, {', '.join(names)}: take the one you "
                    f"need, as in `{function}(…)[0]`."
                )
    for name, shape in error.shapes.items():
        if (
            not isinstance(shape, str)
            or _is_none(shape)
            or not re.search(rf"\b{re.escape(name)}\b(?!\[)", line)
            or re.search(rf"[(,]\s*\*{re.escape(name)}\b", line)  # unpacked already
        ):
            continue
        for function, names in results.items():
            if shape.endswith(f" {len(names)}"):
                words = {2: "two", 3: "three"}.get(len(names), str(len(names)))
                return (
                    f"{function} returns {words} things: take them apart, "
                    f"`{', '.join(names)} = {function}(…)`."
                )
        if "must be Tensor, not tuple" in error.message:
            return f"`{name}` is {shape}: a star passes them one by one, `*{name}`."
        return f"`{name}` is {shape} results: take them apart, as in `a, b = {name}`."
    return ""


def _about_names(error: CallError) -> str:
    text = error.message
    if error.type == "NameError":
        match = re.search(r"name '(\w+)'", text)
        name = match.group(1) if match else "it"
        alike = [n for n in error.shapes if n.lower() == name.lower()]
        if alike:
            return f"capitals count in names: did you mean `{alike[0]}`?"
        if name in _WIDTHS and "q" in error.shapes:
            return f"give `{name}` a value first; the width of a query is `q.shape[-1]`."
        if name == "math":
            return "`import math` for numbers; whole arrays and tensors need np.exp, torch.exp, …"
        if name == "np":
            return "run the notebook's first cells; if none of them does, `import numpy as np`."
        if callable(getattr(np, name, None)):
            return f"in NumPy it is called `np.{name}`."
        return f"define `{name}` above, or import it; run the cells above this one first."
    if error.type == "UnboundLocalError":
        return "the name is assigned later in the function; give it a value before using it."
    if error.type == "NotImplementedError" and error.own:
        return "write this part; or delete this line, if your code stands beside it."
    if error.type == "NotImplementedError" and error.lines:
        return f"{error.lines[-1][0]} is not written yet: do that exercise first."
    if error.type == "SystemExit":
        return "a function should return, not end Python: remove the call to exit."
    if error.type == "RecursionError":
        return "the function calls itself without end; what stops it?"
    if "for integer string conversion" in text:
        return (
            "Python writes whole numbers of 4,300 digits at most as text. Did a sum or a product "
            "of whole numbers grow without end? Work with floats."
        )
    if "Unable to allocate" in text or error.type == "MemoryError":
        return "the array would not fit in memory: look at the lengths it is made with."
    if "too large to convert" in text or "int too large" in text:
        return "a whole number is larger than any float: divide first, or work with floats."
    missing = re.search(r"ndarray' object has no attribute '(\w+)'", text)
    if missing and callable(getattr(np, missing.group(1), None)):
        return f"arrays have no such method; write the function, `np.{missing.group(1)}(…)`."
    keyword = re.search(r"unexpected keyword argument '(\w+)'", text)
    if keyword and keyword.group(1) in ("keepdim", "keep_dims", "keep_dim"):
        return "the argument is called `keepdims`."
    return ""


def _about_shapes(error: CallError, line: str) -> str:
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


def _about_kinds(error: CallError) -> str:
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


def _about_torch(error: CallError, line: str) -> str:
    """Advice on what only torch says."""
    text = error.message
    if "must match the size of tensor b" in text:
        return (
            "two lengths fit when they are equal or when one is 1, compared from the last axis. "
            "Was an axis summed away (keepdim=True keeps it), or is one missing "
            "(x.unsqueeze(dim) adds it)?"
        )
    if "Expected size for first two dimensions of batch2" in text or "at dimension 0" in text:
        return "in `a @ b` the leading axes must be equal (or 1), and the inner lengths too."
    if "must have same number of dimensions" in text:
        return (
            "one has an axis more: `x[:, None]` adds an axis of length 1, `x[:, 0]` takes it out."
        )
    if "view size is not compatible" in text:
        return "`.view` needs memory in order, which a transposed tensor has not: use `.reshape`."
    if re.search(r"shape '\[.*\b0\b.*\]' is invalid for input of size", text):
        return "one length came out as 0: a whole number was divided by a larger one."
    if "is invalid for input of size" in text:
        return "the new shape must hold as many numbers as the old one: multiply the lengths."
    if "Dimension out of range" in text:
        return "count axes from the end (-1 is the last): inputs may have any number of axes."
    if "same dtype" in text or ("expected scalar type" in text and "found" in text):
        return "two tensors of different dtype meet here: make yours with `dtype=x.dtype`."
    if "leaf Variable" in text and "in-place operation" in text:
        return (
            "an operation that ends in `_`, or one such as `+=`, changes an argument or a "
            "parameter: use one that makes a new tensor."
        )
    if "inplace operation" in text or "in-place operation" in text:
        return "autograd still needs the old numbers: assign `x = x + y` instead of `x += y`."
    if "does not require grad" in text:
        return "something before this cuts the graph: .detach(), .data, .numpy() or .item()."
    if "tensors used as indices must be long" in text:
        return "an index is a whole number: halve with `//`, cut a fraction off with `.long()`."
    if "must be tuple of Tensors, not Tensor" in text:
        return "tensors to be joined go in as one tuple: `torch.cat((a, b), dim=-1)`."
    if "block_diag" in text or ("element 0 in argument 0" in text and "block_diag" in line):
        return "the matrices go in one by one, with a star: `torch.block_diag(*blocks)`."
    if re.search(r"'input' \(position 1\) must be Tensor, not (float|int)", text):
        return "torch's functions take tensors; for a single number there is `math`."
    if "can't be cast to the desired output type" in text:
        return "a tensor of whole numbers cannot take fractions: `.float()` makes floats of it."
    if "must have the same number of dimensions as input" in text:
        return "gather's index needs as many axes as the tensor: `index[..., None]` adds one."
    if "zero-dimensional tensor" in text:
        return (
            "a single number has no axis to be joined along. squeeze() without an axis takes every "
            "axis of length 1: name the one, as in squeeze(1)."
        )
    return _about_cells(text)


def _about_cells(text: str) -> str:
    """Advice on what torch.gru_cell and its like say of lengths; a cell's weights come first."""
    if "inconsistent hidden_size" in text:
        return (
            "the state is (B, N), and N is the second length of the second weight, here what is "
            "expected (its first length is a multiple of N)."
        )
    if "inconsistent input_size" in text:
        return (
            "the input is (B, C), as wide as the second length of the first weight, here what is "
            "expected: is a part left out, or one too many?"
        )
    if "doesn't match hidden0 batch size" in text:
        return (
            "input and state need the same number of rows: x[:, s] is place s of every row of x, "
            "x[s] is row s with all its places."
        )
    return ""
