"""Chapter 01: promises, numbers that several exercises draw, and the recurrence as an oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS, Contract, Draws
from attend_grader.checks.helpers import Cases, Fresh
from attend_grader.checks.probe import Call
from attend_grader.checks.properties import normal

PROMISES = Contract(
    numpy_only=True, accepts=(FLOAT64, FLOAT32, INTEGERS), views=True, arguments_unchanged=True
)

GATES = "Gates may be off by 10⁻¹⁰."
"""Said of cells: the course's own sigmoid is off by 10⁻¹⁶, and memories may be large."""

LN2, LN3 = float(np.log(2)), float(np.log(3))
"""tanh of these is exactly 0.6 and 0.8."""

SIZES = ((3, 2, 5), (4, 4, 4), (1, 3, 2), (3, 1, 3), (2, 5, 1))
"""(B, C, N) of one step: all different, all alike, and each of them 1."""


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Random weights of two decimals, small enough that tanh keeps a slope."""
    return (0.6 * rng.standard_normal(shape)).round(2)


def inside(rng: np.random.Generator, *shape: int) -> Array:
    """Random states between −0.9 and 0.9, of two decimals."""
    return rng.uniform(-0.9, 0.9, shape).round(2)


Inputs = Callable[[np.random.Generator, int, int, int], tuple[Array, ...]]
"""Makes the arguments of one step of a cell from B, C and N."""


def any_sizes(inputs: Inputs) -> Cases:
    """Batches, inputs and states of all sizes."""

    def cases(rng: np.random.Generator) -> Fresh:
        for b, c, n in SIZES:
            yield f"B = {b}, C = {c}, N = {n}", Call(inputs(rng, b, c, n))

    return cases


def each_alone(inputs: Inputs, *names: str) -> Cases:
    """Each argument but the weights is 0 alone, and then all others are."""

    def cases(rng: np.random.Generator) -> Fresh:
        arguments = inputs(rng, 2, 4, 3)
        free = [name for name in names if name not in ("w_x", "w_h")]
        for name in free:
            rest = [other for other in free if other != name]
            for zero, why in (([name], f"{name} is 0"), (rest, f"{' and '.join(rest)} are 0")):
                both = zip(names, arguments, strict=True)
                yield why, Call(tuple(np.zeros_like(a) if own in zero else a for own, a in both))

    return cases


WIDTH = 203
"""A state so wide is no multiple of the sizes in which code takes blocks."""


def wide(inputs: Inputs) -> Draws:
    """One step of a state that is wider than any in the draws."""
    return lambda rng: [Call(inputs(rng, 2, 3, WIDTH))]


def _huge(arguments: tuple[Array, ...], bias: int) -> Call:
    """The same with a bias of 1000 and −1000 by turns."""
    changed = list(arguments)
    changed[bias] = np.resize([1000.0, -1000.0], changed[bias].size)
    return Call(tuple(changed))


def huge_sums(inputs: Inputs, bias: int = -1) -> Cases:
    """Sums of both signs that are huge, by one of the arguments."""
    return lambda rng: [("sums near ±1000", _huge(inputs(rng, 2, 4, 3), bias))]


def overflowed(value: Any) -> str:
    """A clue: numbers that are not finite."""
    if np.isfinite(value).all():
        return ""
    return "Yours are not all finite there. The sigmoid given above lstm_cell is safe for any sum."


def cell_draws(inputs: Inputs, bias: int = -1) -> Draws:
    """Draws of one step: oblong, all sizes alike, one sequence, also from zeros; huge sums."""

    def draws(rng: np.random.Generator) -> list[Call]:
        first, *others = (inputs(rng, *sizes) for sizes in ((2, 3, 5), (4, 4, 4), (1, 2, 3)))
        begun = inputs(rng, 1, 2, 4)
        begun[1][...] = 0.0  # the state
        return [*map(Call, (first, *others, begun)), _huge(first, bias)]

    return draws


def step_inputs(rng: np.random.Generator, b: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, c), h (b, n), w_x (c, n), w_h (n, n) and bias (n,)."""
    w_x, w_h = weights(rng, c, n), weights(rng, n, n)
    return normal(rng, b, c), inside(rng, b, n), w_x, w_h, normal(rng, n)


def sequence_inputs(rng: np.random.Generator, b: int, t: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, t, c), h0 (b, n), w_x (c, n), w_h (n, n) and bias (n,)."""
    _, h0, *rest = step_inputs(rng, b, c, n)
    return (normal(rng, b, t, c), h0, *rest)


def all_states(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    """All states (B, T, N) of real or complex inputs."""
    found = []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ w_x + h @ w_h + b)
        found.append(h)
    return np.stack(found, axis=1)


def rotation(rng: np.random.Generator, n: int) -> Array:
    """A random orthogonal matrix (n, n): it keeps every vector's length."""
    orthogonal, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return orthogonal


WIDE = 40.0
"""A bias that opens a gate, or with a minus shuts it, as far as float64 can tell."""


def logistic(sums: Any) -> Any:
    """The sigmoid by its formula; the overflow of exp ends in 1 / inf = 0."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-np.asarray(sums)))
