"""What a candidate may have done instead: the answer, given other arguments.

"As if q and k had changed places" and the like are found by calling the reference with changed
arguments, and told only where that gives what came in every case.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attend_grader.checks.bounded import MOST_LINES, MOST_MEMORY, bounded
from attend_grader.checks.calls import (
    Leaf,
    Path,
    is_tensor,
    leaves,
    numbers,
    reference_on,
    replaced,
    usable,
)
from attend_grader.checks.cases import Case
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call
from attend_grader.checks.traits import AXES
from attend_grader.inside.kernels import launches

EditCall = Callable[[Case], Call | None]

AS_IF = "The result is what comes out as if "

MISSING = inspect.Parameter.empty
"""An option that a call does not pass."""


def as_if(cases: Sequence[Case], reference: Callable[..., Any]) -> str | None:
    """Other arguments with which the reference gives what came in all ``cases``: "as if …"."""
    if launches(reference):  # dozens of calls, each interpreted: half a minute
        return None
    if not any(usable(case.got) for case in cases):  # NaN agrees with NaN, whatever it came of
        return None
    first = max(cases, key=telling)
    for text, edit in _edits(cases):
        if _gives(first, edit, reference) and all(
            _gives(case, edit, reference) for case in cases if case is not first
        ):
            changed = sum(_changes(case, edit, reference) for case in cases)
            if changed >= min(2, len(cases)):
                return text
    return None


def apart(
    text: str, cases: Sequence[Case], others: Sequence[Case], reference: Callable[..., Any]
) -> list[Case]:
    """Those ``others`` whose right result changes with what :func:`as_if` said of ``cases``."""
    edit = next(edit for told, edit in _edits(cases) if told == text)
    return [case for case in others if _changes(case, edit, reference)]


def telling(case: Case) -> int:
    """How well a case tells things apart: it is wrong, and has many different lengths."""
    lengths = {n for leaf in case.leaves() for n in numbers(leaf.value).shape}
    return len(lengths) + 100 * case.wrong


def _outcome(case: Case, edit: EditCall, reference: Callable[..., Any]) -> Outcome | None:
    try:
        with np.errstate(all="ignore"):
            call = edit(case)
            if call is None:
                return None
            with bounded(reference, lines=MOST_LINES, memory=MOST_MEMORY):
                return reference_on(reference, call)(call)
    except (ValueError, TypeError, IndexError, RuntimeError, MemoryError, np.exceptions.AxisError):
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
        if numbers(leaf.value).dtype.kind == "c":
            yield f"{name} were conjugated", _on(name, np.conj)
            yield f"{name} had no imaginary parts", _on(name, lambda x: np.real(x) + 0j)
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
        f"{name} were larger by 1": lambda x: x + 1.0,
        f"{name} were smaller by 1": lambda x: x - 1.0,
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
            f"{name} were scaled to norm 1 {along}": (
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
        yield f"{key} were left out", lambda case, k=key: _without(case, k)
    for key in [*keys, *plain]:
        name = key if isinstance(key, str) else key[1]
        place: int | str = key if isinstance(key, str) else key[0]
        seen = [_option(case.call, place) for case in cases]
        known = [v for v in seen if v is None or isinstance(v, (bool, int, float))]
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
        return call.args[place] if place < len(call.args) else MISSING
    return call.kwargs.get(place, MISSING)


def _without(case: Case, key: str) -> Call:
    """The call without an argument, whether it was passed by name or by its place."""
    call, names = case.call, case.names
    place = names.index(key) if key in names else len(call.args)
    rest = dict(zip(names[place + 1 :], call.args[place + 1 :], strict=False))
    named = {k: v for k, v in call.kwargs.items() if k != key}
    return replace(call, args=call.args[:place], kwargs=rest | named)


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
