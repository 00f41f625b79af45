"""Advice on names: unknown ones, and those that stand for None or for several results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from attend_grader.checks.outcomes import CallError

Results = Mapping[str, Sequence[str]]
"""Earlier functions that return several values: name → what these are called."""

_WIDTHS = ("D", "d", "d_k", "dk", "D_k", "dim", "d_model", "width")
"""What people call the width of a query before they have computed it."""


def is_none(shape: Sequence[int] | str) -> bool:
    """Whether what stands for a shape says that the name is None."""
    return isinstance(shape, str) and shape.startswith("None")


def about_none(error: CallError, line: str) -> str:
    """A name in ``line`` is None, and the error comes of it."""
    if not any(sign in error.message for sign in ("NoneType", "not have enough dimensions")):
        return ""
    for name, shape in error.shapes.items():
        if not is_none(shape) or not re.search(rf"(?<![\w.]){re.escape(name)}\b(?!\s*=)", line):
            continue
        if shape == "None":
            return f"`{name}` is None here: was it given so, or by a function without `return`?"
        return f"`{name}` is {shape}: settle that case first, `if {name} is None`."
    return ""


def about_unpacking(error: CallError, line: str, results: Results) -> str:
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
            or is_none(shape)
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


def about_names(error: CallError) -> str:
    """Names that are not there, of variables, attributes and arguments."""
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
        return f"{error.lines[-1][0]} is not written yet: that comes first."
    if error.type == "SystemExit":
        return "a function should return, not end Python: remove the call to exit."
    if error.type == "RecursionError":
        return (
            "it calls itself without end, or once a step for too many steps: a loop has no depth."
        )
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
