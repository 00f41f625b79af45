"""Explaining an exception to the person who caused it: their lines, the shapes, what to try."""

from __future__ import annotations

import re

from attend_grader.subject import CallError


def explain(error: CallError) -> tuple[str, tuple[tuple[str, str], ...]]:
    """One sentence about ``error``, and evidence: the learner's lines and the shapes alive there.

    Returns:
        (message, ((label, text), …)).
    """
    lines = [line for line in error.lines if line[2]] or list(error.lines)
    where = f" in line {lines[-1][1]} of {lines[-1][0]}" if lines else ""
    first = "" if error.type == "SystemExit" else _plain(error.message.strip().split("\n")[0])
    message = (
        f"your function raised {error.type}{where}: {first}"
        if first
        else (f"your function raised {error.type}{where}")
    )
    evidence: list[tuple[str, str]] = []
    if lines:
        evidence.append(("your line", lines[-1][2]))
        used = set(re.findall(r"[A-Za-z_]\w*", lines[-1][2]))
        shapes = {n: s for n, s in error.shapes.items() if n in used} or error.shapes
        if shapes:
            text = ", ".join(f"{n} is {tuple(shape)}" for n, shape in shapes.items())
            evidence.append(("shapes there", text))
    advice = _advice(error)
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


def _advice(error: CallError) -> str:
    text = error.message
    if error.type == "NameError":
        match = re.search(r"name '(\w+)'", text)
        name = match.group(1) if match else "it"
        return f"define `{name}` above, or import it; run the cells above this one first."
    if error.type == "UnboundLocalError":
        return "the name is assigned later in the function; give it a value before using it."
    if error.type == "NotImplementedError" and error.lines:
        return f"{error.lines[-1][0]} is not written yet: do that exercise first."
    if error.type == "SystemExit":
        return "a function should return, not end Python: remove the call to exit."
    if error.type == "RecursionError":
        return "the function calls itself without end; what stops it?"
    if "could not be broadcast" in text:
        return (
            "shapes are compared from the right: two lengths fit when equal or when one is 1. "
            "Keep a summed axis with keepdims=True, or insert one with None."
        )
    if any(sign in text for sign in ("core dimension", "not aligned", "mat1 and mat2")):
        return (
            "in `a @ b` the last axis of a must be as long as the second-to-last axis of b; "
            "np.swapaxes(b, -1, -2) turns the last two axes round."
        )
    if error.type == "AxisError":
        return "count axes from the end (−1 is the last): inputs may have any number of axes."
    if "NoneType" in text:
        return "something is None: does a function you call end without `return`?"
    if error.type in ("IndexError", "KeyError"):
        return "check the first and the last step of your loop against the length of that axis."
    if error.type == "TypeError" and "positional argument" in text:
        return "compare the call with the function's signature."
    return ""
