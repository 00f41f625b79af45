"""Calls aimed at the numbers that an answer's own text holds.

A floor, a limit, a length from which another way is taken: a right answer gives right values on
both sides of it, and a call drawn without knowing the number seldom comes near.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from attend_grader.checks.calls import leaves, numbers, parameters_of, replaced
from attend_grader.checks.probe import Call
from attend_grader.checks.sizes import (
    Range,
    Sized,
    as_like,
    free_arrays,
    in_float64,
    longer,
    of_each_form,
    plain_numbers,
    with_value,
)

MOST = 6
"""Numbers of a text that are aimed at."""

LONGEST = 1_100
"""Whole numbers up to it may be a length."""

USUAL = frozenset((0.0, 0.5, 1.0, 2.0))
"""Numbers that stand in most answers, and around which draws lie."""

SIDES = (0.7, 3.0)
"""Arrays are scaled until their largest number is so many times the one that is aimed at."""

LARGEST, LEAST = 1e100, 1e-100
"""Beyond these nothing is aimed at: squares and cubes would be no floats."""


def own_numbers(text: str, others: Iterable[Any]) -> list[float]:
    """Numbers that stand in an answer's text and in none of the course's right answers.

    Args:
        text: the answer.
        others: right answers, as functions or classes.
    """
    known = USUAL.union(*map(_known, others))
    return [number for number in dict.fromkeys(_numbers(text)) if number not in known]


@cache
def _known(answer: Any) -> frozenset[float]:
    """Numbers that stand in a right answer."""
    with suppress(OSError, TypeError):
        return frozenset(_numbers(inspect.getsource(answer)))
    return frozenset()


def _numbers(text: str) -> Iterator[float]:
    """The size of each number in a text, of each sum, product and power of such too."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(textwrap.dedent(text))):
            found = _value(node) if isinstance(node, ast.expr) else None
            if found is not None and (found == 0 or LEAST <= abs(found) <= LARGEST):
                yield abs(found)


def _value(node: ast.expr) -> float | None:
    """What an expression of numbers alone comes to."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return _float(lambda: float(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _value(operand)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _value(left), _value(right)
            if one is None or other is None:
                return None
            match op:
                case ast.Add():
                    return one + other
                case ast.Sub():
                    return one - other
                case ast.Mult():
                    return one * other
                case ast.Div():
                    return _float(lambda: one / other)
                case ast.Pow():
                    return _float(lambda: math.pow(one, other))
    return None


def _float(compute: Any) -> float | None:
    with suppress(ArithmeticError, ValueError):
        return compute()
    return None


def aimed(
    draws: Sequence[Call],
    reference: Any,
    ranges: Mapping[str, Range],
    usual: Range,
    *,
    double: bool,
    at: Sequence[float],
    rng: np.random.Generator,
) -> Iterator[Sized]:
    """Calls with numbers, counts and lengths on both sides of given numbers.

    Args:
        draws: calls of usual size.
        reference: whose parameters they are.
        ranges: of arguments, by name.
        usual: of other arrays of floats.
        double: whether arrays of torch are made float64.
        at: the numbers; of many, a few are picked.
        rng: picks them, and of each kind of call the draw that it is made of.
    """
    made = of_each_form(draws, reference, double=double)
    every = in_float64(draws, reference, double=double)
    for number in rng.permutation(np.array(at, float))[:MOST].tolist():
        found: dict[str, list[Sized]] = {}
        for call in made:
            names = parameters_of(reference, call.method)
            around = _around(call, names, ranges, usual, number)
            for each in (*around, *_counts(call, names, ranges, number)):
                found.setdefault(each.what, []).append(each)
        for same in found.values():
            yield same[rng.integers(len(same))]
        if number == round(number) and 2 < number <= LONGEST:
            for length in (int(number) + step for step in (-1, 0, 1)):
                yield from longer(made, reference, ranges, usual, rng, length)
            length = int(1.5 * number)
            for call in every:  # what goes wrong there may show for some numbers only
                made_long = longer([call], reference, ranges, usual, rng, length)
                yield from (each for each in made_long if not _square(each.call, length))


def _square(call: Call, length: int) -> bool:
    """Whether a matrix grew with both its axes: its powers would grow, too."""
    return any(leaf.value.shape.count(length) > 1 for leaf in leaves(call, ()))


def _around(
    call: Call, names: Sequence[str], ranges: Mapping[str, Range], usual: Range, number: float
) -> Iterator[Sized]:
    """Arrays whose largest number is a little less than this one, and more; or further by it.

    What is compared with it may be a square of them, a root or a quotient, or their exponential.
    """
    sizes = {number, math.sqrt(number), 1 / number, 1 / math.sqrt(number), abs(math.log(number))}
    together: dict[str, dict] = {}
    free = free_arrays(call, names, ranges, usual)
    for leaf, (low, high) in free:
        values = numbers(leaf.value).astype(float)
        top = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        if not top:
            continue
        tries = [
            (f"with numbers up to {side * size:.3g}", values * (side * size / top))
            for size in sorted(sizes)
            if size
            for side in SIDES
        ]
        for by in (number, SIDES[1] * number):
            tries.append((f"larger by {by:.6g}", values + by))
            tries.append((f"smaller by {by:.6g}", values - by))
        narrow = numbers(leaf.value).dtype.itemsize < 8
        for word, changed in tries:
            finite = changed[np.isfinite(values)]
            size = float(np.abs(finite).max(initial=0.0))
            if (narrow and not 1e-9 < size < 1e9) or not ((finite >= low) & (finite <= high)).all():
                continue
            value = as_like(leaf.value, changed)
            together.setdefault(word, {})[leaf.path] = value
            yield Sized(f"{leaf.name} {word}", replaced(call, {leaf.path: value}), call)
    for word, changes in together.items():
        if len(changes) > 1 and len(changes) == len(free):
            yield Sized(f"every argument {word}", replaced(call, changes), call)


def _counts(
    call: Call, names: Sequence[str], ranges: Mapping[str, Range], number: float
) -> Iterator[Sized]:
    """Arguments that are numbers: this one, a little less and a little more.

    A count without a range may be any that all right answers take.
    """
    for place, value, (low, high) in plain_numbers(call, names, ranges, (1, LONGEST)):
        others: list[float] = [number * side for side in (*SIDES, 1.0)]
        if isinstance(value, int):
            others = [int(number) + step for step in (-1, 0, 1)] if number < 2**31 else []
        for other in others:
            if low <= other <= high and other != value:
                yield with_value(call, names, place, other)
