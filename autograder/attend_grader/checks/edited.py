"""What a candidate may have done instead: the answer with one edit.

What part of the work goes wrong is found by single edits of the reference (mutants), and told only
where an edit gives what came in every case, in words that do not give the answer's lines away.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from attend_grader.checks.as_if import telling
from attend_grader.checks.behaviour import same_structure
from attend_grader.checks.bounded import MOST_LINES, MOST_MEMORY, bounded
from attend_grader.checks.calls import parameters_of
from attend_grader.checks.cases import Case
from attend_grader.checks.mutation import axes, calls, edits, returned, to_write
from attend_grader.checks.outcomes import CallError
from attend_grader.checks.subject import local
from attend_grader.inside.kernels import launches

VAGUE = (
    "a number in the formula were another one",
    "one quantity were used in the place of another",
)

USED = re.compile(r", where [^,]+ (is|are) used$")
"""End of what is told of an edit: which arguments the edited part works on."""

MOST_MUTANTS = 400
"""Edits of one answer that are tried."""


@dataclass(frozen=True)
class Variant:
    """The reference with one edit: what kind of edit, on what it bears, and the code."""

    told: str
    function: Callable[..., Any]


@lru_cache(maxsize=64)
def variants(reference: Callable[..., Any]) -> tuple[Variant, ...]:
    """Single edits of what learners write, each with words that do not give its lines away."""
    made, written = [], to_write(reference)
    for before, after, function in edits(reference):
        told = _told(before, after, reference)
        if told and (written is None or getattr(before, "lineno", None) in written):
            made.append(Variant(told, function))
        if len(made) == MOST_MUTANTS:
            break
    return tuple(made)


WORDS = {
    "swapaxes": "a transpose",
    "transpose": "a transpose",
    "mT": "a transpose",
    "exp": "the exponential",
    "sum": "a sum",
    "mean": "a mean",
    "max": "a maximum",
    "amax": "a maximum",
    "min": "a minimum",
    "sqrt": "a root",
    "log": "a logarithm",
    "tanh": "tanh",
    "sigmoid": "a sigmoid",
    "softmax": "a softmax",
    "where": "a choice between two values",
    "masked_fill": "the mask",
    "cumsum": "a running sum",
    "flip": "turning round",
    "var": "a variance",
    "std": "a standard deviation",
    "reshape": "a change of shape",
    "stack": "putting results side by side",
    "concatenate": "putting results side by side",
    "cat": "putting results side by side",
}
"""What a library's function does, for a learner who may have used another one."""


def _told(before: ast.AST, after: ast.AST, reference: Callable[..., Any]) -> str:
    """What an edit does, in words; empty for one that says nothing."""
    on = _bears_on(before, reference)
    match before, after:
        case ast.BinOp(op=ast.Add() | ast.Sub()), _ if after in (before.left, before.right):
            return f"one term of a sum or difference were missing{on}"
        case ast.BinOp(op=ast.Div()), _ if after is before.left:
            return f"a division were missing{on}"
        case ast.BinOp(op=ast.Mult()), _ if after in (before.left, before.right):
            return f"one factor of a product were missing{on}"
        case ast.BinOp(op=ast.Pow()), _ if after is before.left:
            return f"a root or power were missing{on}"
        case ast.BinOp(op=op), ast.BinOp(op=other) if type(op) is not type(other):
            signs = {ast.Add: "+", ast.Sub: "−", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@"}
            one, two = signs.get(type(op)), signs.get(type(other))
            return f"`{two}` stood where `{one}` belongs{on}" if one and two else ""
        case ast.BinOp(), ast.Name() | ast.BinOp() | ast.Call() if after in (
            before.left,
            before.right,
        ):
            return f"one side of an operation were missing{on}"
        case ast.BinOp(), ast.BinOp():
            return f"the two sides of an operation were exchanged{on}"
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))), ast.Constant():
            return f"{number} stood where −{number} belongs{on}"
        case ast.UnaryOp(op=ast.USub()), _:
            return f"a minus sign were missing{on}"
        case ast.UnaryOp(op=ast.Not() | ast.Invert()), _:
            return f"a condition were turned round{on}"
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=[one, *_]),
            ast.Call(args=[ast.Constant() as other, *_]),
        ) if isinstance(one, ast.Constant) and one.value != other.value:
            return f"`self.{name}` were given another number"
        case ast.Subscript(), ast.Subscript() if after.value is before.value:
            return f"an index were another one{on}"
        case ast.Call(), ast.Call() if after not in _inputs(before):
            return _told_call(before, after, on)
        case ast.Call(), _:
            name = _word(before.func)
            if _name(before.func) == "stack":  # a list of results is a stack along axis 0
                return f"results were put side by side along the first axis, or not at all{on}"
            where = " in one place" if calls(reference, _name(before.func)) > 1 else ""
            return f"{name} were missing{where}{on}" if name else ""
        case ast.Compare(), _:
            return f"a comparison were another one (< for ≤, or turned round){on}"
        case ast.Constant(value=bool()), _:
            return ""  # an option, or its default: when it is wrong says more
        case ast.Constant(), _ if (before.lineno, before.col_offset) in axes(reference):
            return f"another axis were exchanged{on}"
        case ast.Constant(), _:
            return f"{VAGUE[0]}{on}"
        case ast.Tuple(), _ if any(map(_indexes, before.elts)):
            return f"an index stood on another axis{on}"
        case ast.Tuple(), _ if (before.lineno, before.col_offset) in returned(reference):
            return "two results were exchanged"
        case ast.Tuple(), _:
            return f"two values that stand side by side were exchanged{on}"
        case ast.If() | ast.IfExp(), _:
            return f"a condition were not looked at, or turned round{on}"
        case ast.Assign() | ast.AugAssign(), _:
            return f"a step were left out{on}"
        case ast.Name(id=one), ast.Name(id=two):
            names = parameters_of(reference)
            if one in names and two in names:
                return f"{two} were used in a place where {one} belongs"
            return f"{VAGUE[1]}{on}"
        case ast.Subscript(), _:
            return f"other entries were picked{on}"
    return ""


def _indexes(item: ast.expr) -> bool:
    """Whether an item of a tuple stands in brackets only: `:`, `...` or `None`."""
    bare = isinstance(item, ast.Constant) and item.value in (None, ...)
    return bare or isinstance(item, ast.Slice)


def _inputs(call: ast.Call) -> list[ast.expr]:
    """What a call works on: its arguments, and the object whose method it is."""
    return [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]


def _told_call(before: ast.Call, after: ast.Call, on: str) -> str:
    name = _word(before.func) or "a function"
    old = {k.arg: ast.unparse(k.value) for k in before.keywords}
    new = {k.arg: ast.unparse(k.value) for k in after.keywords}
    if old.get("keepdims", old.get("keepdim")) and not new.get("keepdims", new.get("keepdim")):
        return f"{name} lost the axis that it runs along{on}"
    for key in ("axis", "dim"):
        if old.get(key) != new.get(key):
            return f"{name} ran along another axis, or over all{on}"
    if _name(after.func) != _name(before.func):
        return f"{_word(after.func)} stood where {name} belongs{on}"
    if [ast.dump(a) for a in before.args] != [ast.dump(a) for a in after.args]:
        return f"two inputs of {name} were exchanged{on}"
    return f"an option of {name} were left out{on}"


def _name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _word(function: ast.expr) -> str:
    name = _name(function)
    return WORDS.get(name, f"`{name}`" if name else "")


def _bears_on(node: ast.AST, reference: Callable[..., Any]) -> str:
    """Which arguments the edited part works on directly, in words."""
    names = parameters_of(reference)
    used = [n for n in names if any(isinstance(x, ast.Name) and x.id == n for x in ast.walk(node))]
    if not used or len(used) == len(names) > 1:
        return ""
    return f", where {' and '.join(used)} {'is' if len(used) == 1 else 'are'} used"


def edited(
    cases: Sequence[Case], reference: Callable[..., Any], seen: Sequence[Case] = ()
) -> tuple[str, str]:
    """What single edit of the reference gives what came in all ``cases``: "as if …".

    Args:
        cases: what it is looked for in.
        reference: the answer.
        seen: other calls, which it may not contradict: the card shows them.

    Returns:
        the first that says what, and the first of which little can be said without giving the
        line away; empty where there is none.
    """
    if launches(reference):  # hundreds of edits, each interpreted: half a minute
        return "", ""
    first = max(cases, key=telling)
    rest = [case for case in (*cases, *seen) if case is not first]
    vague = ""
    for variant in variants(reference):
        unclear = variant.told.startswith(VAGUE)
        if unclear and vague:
            continue
        with np.errstate(all="ignore"):
            same = _does(first, variant) and all(_does(case, variant) for case in rest)
        if same and not unclear:
            return variant.told, vague
        vague = vague or (variant.told if same else "")
    return "", vague


def _does(case: Case, variant: Variant) -> bool:
    with bounded(variant.function, lines=MOST_LINES, memory=MOST_MEMORY):
        outcome = case.call.on(local(variant.function))
    if outcome.error is not None or case.got.error is not None:
        return _same_error(outcome.error, case.got.error)
    if case.wrong and not same_structure(case.got.value, outcome.value):
        return False  # right numbers in a wrong form, such as whole ones: no edit that keeps it
    return list(outcome.mutated) == list(case.got.mutated) and case.agrees(outcome.value)


def _same_error(one: CallError | None, other: CallError | None) -> bool:
    """Whether both raised, and for one reason: a ValueError may say that a helper refuses shapes,
    or that NumPy cannot add them.
    """
    if one is None or other is None or one.type != other.type:
        return False
    return re.sub(r"\d+", "0", one.message) == re.sub(r"\d+", "0", other.message)
