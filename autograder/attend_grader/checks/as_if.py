"""What a candidate may have done instead: the answer on other arguments, the answer with one edit.

"As if q and k had changed places" and the like are found by calling the reference with changed
arguments; what part of the work goes wrong, by single edits of the reference (mutants). Either is
told only where it gives what came in every case.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from attend_grader.checks.calls import (
    Leaf,
    Path,
    is_tensor,
    leaves,
    numbers,
    parameters_of,
    reference_on,
    replaced,
)
from attend_grader.checks.cases import AXES, Case
from attend_grader.checks.mutation import edits
from attend_grader.checks.probe import Call
from attend_grader.checks.subject import Outcome, local

VAGUE = (
    "a number in the formula were another one",
    "one quantity were used in the place of another",
)

MOST_MUTANTS = 400
"""Edits of one answer that are tried."""

EditCall = Callable[[Case], Call | None]


def as_if(cases: Sequence[Case], reference: Callable[..., Any]) -> str | None:
    """Other arguments with which the reference gives what came in all ``cases``: "as if …"."""
    first = max(cases, key=_telling)
    for text, edit in _edits(cases):
        if _gives(first, edit, reference) and all(
            _gives(case, edit, reference) for case in cases if case is not first
        ):
            changed = sum(_changes(case, edit, reference) for case in cases)
            if changed >= min(2, len(cases)):
                return text
    return None


def _telling(case: Case) -> int:
    """How well a case tells things apart: it is wrong, and has many different lengths."""
    lengths = {n for leaf in case.leaves() for n in numbers(leaf.value).shape}
    return len(lengths) + 100 * case.wrong


def _outcome(case: Case, edit: EditCall, reference: Callable[..., Any]) -> Outcome | None:
    try:
        with np.errstate(all="ignore"):
            call = edit(case)
            if call is None:
                return None
            return reference_on(reference, call)(call)
    except (ValueError, TypeError, IndexError, RuntimeError, np.exceptions.AxisError):
        return None


def _gives(case: Case, edit: EditCall, reference: Callable[..., Any]) -> bool:
    outcome = _outcome(case, edit, reference)
    if outcome is None or outcome.error is not None:
        return False
    return case.got.error is None and case.agrees(outcome.value)


def _changes(case: Case, edit: EditCall, reference: Callable[..., Any]) -> bool:
    outcome = _outcome(case, edit, reference)
    return outcome is not None and not case.matches(outcome.value, case.want)


def _edits(cases: Sequence[Case]) -> Iterator[tuple[str, EditCall]]:
    """Other arguments, plainest first."""
    yield from _options(cases)
    rows = [case.leaves() for case in cases]
    names = list(dict.fromkeys(leaf.name for leaf in rows[0] if all(_has(r, leaf) for r in rows)))
    numeric = [n for n in names if _leaf(rows[0], n).kind in ("floating", "integer")]
    for i, one in enumerate(names):
        for two in names[i + 1 :]:
            yield f"{one} and {two} had changed places", _swap(one, two)
    for name in names:
        leaf = _leaf(rows[0], name)
        if leaf.kind == "boolean":
            yield f"True and False were exchanged in {name}", _on(name, lambda x: ~x)
            yield f"all of {name} were True", _on(name, lambda x: x | ~x)
            yield f"{name} were transposed", _on(name, lambda x: np.swapaxes(x, -1, -2))
    for name in numeric:
        yield from _numeric(name)
    for one in numeric:
        for two in numeric:
            if one != two:
                yield f"{one} were put in the place of {two}", _copy(one, two)
    yield (
        "the last two axes of every argument were exchanged",
        _all(lambda x: np.swapaxes(x, -1, -2)),
    )
    yield (
        "only the first entry of the first axis counted, for all",
        _all(lambda x: np.broadcast_to(x[:1], x.shape)),
    )
    for place, word in ((slice(None, -1), "last"), (slice(1, None), "first")):
        yield (
            f"the {word} entry along the second-to-last axis of every argument were missing",
            _all(lambda x, p=place: x[..., p, :]),
        )
    for text, change in (
        ("the arguments were float32", lambda x: x.astype(np.float32).astype(x.dtype)),
        ("the arguments were float16", lambda x: x.astype(np.float16).astype(x.dtype)),
    ):
        yield text, _all(change)


def _has(row: Sequence[Leaf], leaf: Leaf) -> bool:
    return any(other.name == leaf.name for other in row)


def _leaf(row: Sequence[Leaf], name: str) -> Leaf:
    return next(leaf for leaf in row if leaf.name == name)


def _like(value: Any, array: np.ndarray) -> Any:
    """An array as what ``value`` is: a tensor of its type, or NumPy's."""
    if not is_tensor(value):
        return np.array(array)
    import torch

    made = torch.from_numpy(np.array(array))
    return made if value.dtype in (torch.int64, torch.bool) else made.to(value.dtype)


def _on(name: str, change: Callable[[np.ndarray], np.ndarray]) -> EditCall:
    def edit(case: Case) -> Call | None:
        leaf = next((x for x in case.leaves() if x.name == name), None)
        if leaf is None:
            return None
        return replaced(case.call, {leaf.path: _like(leaf.value, change(numbers(leaf.value)))})

    return edit


def _all(change: Callable[[np.ndarray], np.ndarray]) -> EditCall:
    def edit(case: Case) -> Call | None:
        changes: dict[Path, Any] = {
            leaf.path: _like(leaf.value, change(numbers(leaf.value)))
            for leaf in case.leaves()
            if leaf.kind == "floating"
        }
        return replaced(case.call, changes) if changes else None

    return edit


def _swap(one: str, two: str) -> EditCall:
    def edit(case: Case) -> Call | None:
        row = {leaf.name: leaf for leaf in case.leaves()}
        if one not in row or two not in row:
            return None
        a, b = row[one], row[two]
        return replaced(case.call, {a.path: b.value, b.path: a.value})

    return edit


def _copy(one: str, two: str) -> EditCall:
    def edit(case: Case) -> Call | None:
        row = {leaf.name: leaf for leaf in case.leaves()}
        if one not in row or two not in row:
            return None
        return replaced(case.call, {row[two].path: row[one].value})

    return edit


def _numeric(name: str) -> Iterator[tuple[str, EditCall]]:
    """Changes of one array of numbers."""
    simple: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        f"{name} were all zeros": lambda x: x * 0.0,
        f"{name} were all ones": lambda x: x * 0.0 + 1.0,
        f"{name} had the other sign": lambda x: -x,
        f"{name} were doubled": lambda x: 2.0 * x,
        f"{name} were halved": lambda x: x / 2.0,
        f"{name} were squared": lambda x: x * x,
        f"{name} were multiplied by ln 2 (2 in the place of e)": lambda x: x * np.log(2.0),
        f"{name} were multiplied by ln 10 (10 in the place of e)": lambda x: x * np.log(10.0),
        f"{name} were transposed (last two axes)": lambda x: np.swapaxes(x, -1, -2),
        f"the softmax were taken of {name} first": lambda x: _softmax(x),
        f"exp were taken of {name} first": np.exp,
        f"the logarithm were taken of {name} first": np.log,
        f"tanh were taken of {name} first": np.tanh,
        f"the sigmoid were taken of {name} first": lambda x: 1 / (1 + np.exp(-x)),
        f"everything below 0 in {name} were 0": lambda x: np.maximum(x, 0),
        f"{name} had no signs": np.abs,
        f"{name} were cut to whole numbers": np.trunc,
        f"{name} were rounded to whole numbers": np.round,
        f"−inf in {name} were −1e9": lambda x: np.maximum(x, -1e9),
        f"−inf in {name} were 0": lambda x: np.where(np.isneginf(x), 0.0, x),
    }
    for text, change in simple.items():
        yield text, _on(name, change)
    for axis in (-1, -2, -3):
        along = f"along its {AXES[axis]}"

        def guard(
            change: Callable[[np.ndarray], np.ndarray], axis: int = axis
        ) -> Callable[[np.ndarray], np.ndarray]:
            def run(x: np.ndarray) -> np.ndarray:
                if x.ndim < -axis:
                    raise ValueError("no such axis")
                return change(x)

            return run

        size: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
            f"{name} were divided by the root of the length of its {AXES[axis]}": (
                lambda x, a: x / np.sqrt(x.shape[a])
            ),
            f"{name} were divided by the length of its {AXES[axis]}": lambda x, a: x / x.shape[a],
            f"{name} were multiplied by the root of the length of its {AXES[axis]}": (
                lambda x, a: x * np.sqrt(x.shape[a])
            ),
            f"{name} were in reversed order {along}": lambda x, a: np.flip(x, a),
            f"{name} were shifted {along} by one, later": lambda x, a: np.roll(x, 1, a),
            f"{name} were shifted {along} by one, earlier": lambda x, a: np.roll(x, -1, a),
            f"{name} were shifted {along} by one, later, with a 0 in front": (
                lambda x, a: _pushed(x, a, 1)
            ),
            f"{name} were shifted {along} by one, earlier, with a 0 at the end": (
                lambda x, a: _pushed(x, a, -1)
            ),
            f"{name} were sorted {along}": lambda x, a: np.sort(x, a),
            f"{name} were shortened to length 1 {along}": (
                lambda x, a: x / np.linalg.norm(x, axis=a, keepdims=True)
            ),
            f"{name} had its mean taken away {along}": (lambda x, a: x - x.mean(a, keepdims=True)),
            f"{name} were the same all {along}, as its first entry": (
                lambda x, a: np.broadcast_to(np.take(x, [0], a), x.shape)
            ),
            f"{name} were the same all {along}, as its last entry": (
                lambda x, a: np.broadcast_to(np.take(x, [-1], a), x.shape)
            ),
            f"{name} were 0 at the first place {along}": lambda x, a: _zeroed(x, a, 0),
            f"{name} were 0 at the last place {along}": lambda x, a: _zeroed(x, a, -1),
        }
        for text, change in size.items():
            yield text, _on(name, guard(lambda x, c=change, a=axis: c(x, a)))


def _softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def _zeroed(x: np.ndarray, axis: int, place: int) -> np.ndarray:
    made = np.array(x, dtype=float if x.dtype.kind in "iu" else x.dtype)
    index: list[Any] = [slice(None)] * x.ndim
    index[axis] = place
    made[tuple(index)] = 0
    return made


def _pushed(x: np.ndarray, axis: int, step: int) -> np.ndarray:
    return _zeroed(np.roll(x, step, axis), axis, 0 if step > 0 else -1)


def _options(cases: Sequence[Case]) -> Iterator[tuple[str, EditCall]]:
    """Options at other values: left out, True, False, None, small numbers, those of other calls."""
    first = cases[0].call
    names = cases[0].names
    keys = list(dict.fromkeys(key for case in cases for key in case.call.kwargs))
    plain = [
        (position, names[position])
        for position, value in enumerate(first.args)
        if position < len(names) and not leaves(Call((value,)), ("x",))
    ]
    for key in keys:
        yield f"{key} were left out", lambda case, k=key: _without(case.call, k)
    for key in [*keys, *plain]:
        name = key if isinstance(key, str) else key[1]
        place: int | str = key if isinstance(key, str) else key[0]
        seen = [_option(case.call, place) for case in cases]
        known = [v for v in seen if isinstance(v, (bool, int, float, type(None)))]
        values = list(dict.fromkeys((type(v).__name__, v) for v in [*known, *_usual(known)]))
        for _, value in values:
            yield f"{name} were always {value}", lambda case, p=place, v=value: _with(case, p, v)
        if any(isinstance(v, int) and not isinstance(v, bool) for v in known):
            for step in (1, -1):
                text = f"{name} were one {'more' if step > 0 else 'less'}"
                yield text, lambda case, p=place, s=step: _step(case, p, s)


def _usual(known: Sequence[Any]) -> list[Any]:
    kinds = {type(value) for value in known}
    values: list[Any] = []
    if bool in kinds:
        values += [True, False]
    if int in kinds:
        values += [-1, 0, 1, 2]
    if kinds & {float, int}:
        values += [0.0, 1.0]
    return values


def _option(call: Call, place: int | str) -> Any:
    if isinstance(place, int):
        return call.args[place] if place < len(call.args) else None
    return call.kwargs.get(place)


def _without(call: Call, key: str) -> Call:
    return replace(call, kwargs={k: v for k, v in call.kwargs.items() if k != key})


def _with(case: Case, place: int | str, value: Any) -> Call | None:
    call = case.call
    if isinstance(place, str):
        return replace(call, kwargs={**call.kwargs, place: value})
    return replaced(call, {(place,): value}) if place < len(call.args) else None


def _step(case: Case, place: int | str, step: int) -> Call | None:
    value = _option(case.call, place)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return _with(case, place, value + step)


# Single edits of the answer


@dataclass(frozen=True)
class Variant:
    """The reference with one edit: what kind of edit, on what it bears, and the code."""

    told: str
    function: Callable[..., Any]


@lru_cache(maxsize=64)
def variants(reference: Callable[..., Any]) -> tuple[Variant, ...]:
    """Single edits of a reference, each with words that do not give its lines away."""
    made = []
    for before, after, function in edits(reference):
        told = _told(before, after, reference)
        if told:
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
        case ast.UnaryOp(op=ast.USub()), _:
            return f"a minus sign were missing{on}"
        case ast.UnaryOp(op=ast.Not() | ast.Invert()), _:
            return f"a condition were turned round{on}"
        case ast.Call(), ast.Call():
            return _told_call(before, after, on)
        case ast.Call(), _:
            name = _word(before.func)
            return f"{name} were missing{on}" if name else ""
        case ast.Compare(), _:
            return f"a comparison were another one (< for ≤, or turned round){on}"
        case ast.Constant(value=bool()), _:
            return ""  # an option, or its default: when it is wrong says more
        case ast.Constant(), _:
            return f"{VAGUE[0]}{on}"
        case ast.Tuple(), _:
            return "two results were exchanged"
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


def edited(cases: Sequence[Case], reference: Callable[..., Any]) -> tuple[str, str]:
    """What single edit of the reference gives what came in all ``cases``: "as if …".

    Returns:
        the first that says what, and the first of which little can be said without giving the
        line away; empty where there is none.
    """
    first = max(cases, key=_telling)
    rest = [case for case in cases if case is not first]
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
    outcome = case.call.on(local(variant.function))
    if outcome.error is not None or case.got.error is not None:
        return (
            outcome.error is not None
            and case.got.error is not None
            and outcome.error.type == case.got.error.type
        )
    return list(outcome.mutated) == list(case.got.mutated) and case.agrees(outcome.value)
