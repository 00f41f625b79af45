"""Exercise 07_block/residual_init: a start at which L blocks add little to the stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import block

from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.torch_numbers import normal

READ, WRITE = (0, 1, 2, 4), (3, 5)
NAMES = ("query", "key", "value", "output", "w_in", "w_out")


def _case(rng: np.random.Generator, width: int, inner: int, layers: int) -> Call:
    four = (normal(rng, width, width) for _ in range(4))
    return Call((*four, normal(rng, inner, width), normal(rng, width, inner), layers))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for width, inner, layers in ((3, 5, 12), (2, 8, 2), (4, 4, 24), (3, 1, 6), (1, 3, 200)):
        yield f"L = {layers}", _case(rng, width, inner, layers)


def _also_one(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield from _usual(rng)
    yield "L = 1", _case(rng, 2, 8, 1)


def draws(rng: np.random.Generator) -> list[Call]:
    """Several depths, also one block; F above, at and below C, and 1."""
    return [
        _case(rng, 3, 5, 12),
        _case(rng, 4, 4, 3),
        _case(rng, 2, 8, 1),
        _case(rng, 3, 2, 24),
        _case(rng, 2, 1, 6),
    ]


ROOT = "(2 * layers) ** -0.5"
RETURNED = "query, key, value, output * smaller, w_in, w_out * smaller"

SLIPS = (
    Slip(
        "L in the place of 2L",
        (ROOT, "layers ** -0.5"),
        "The factor is 1/√L. Each block adds twice, so there are 2L additions.",
    ),
    Slip(
        "no root",
        (ROOT, "(2 * layers) ** -1.0"),
        "The factor is 1/(2L). What is added is nearly independent at the start, so variances "
        "add, and the numbers need the root: 1/√(2L).",
    ),
    Slip(
        "all six",
        (
            RETURNED,
            "query * smaller, key * smaller, value * smaller, output * smaller, w_in * smaller, "
            "w_out * smaller",
        ),
        "All six matrices are made smaller. Only those whose results are added to the stream "
        "should be.",
    ),
    Slip(
        "attention only",
        ("w_out * smaller", "w_out"),
        "output is made smaller, w_out is not. The feed-forward network adds to the stream too.",
    ),
    Slip(
        "feed-forward only",
        ("output * smaller", "output"),
        "w_out is made smaller, output is not. Attention adds to the stream too.",
    ),
    Slip(
        "the way in",
        ("w_in, w_out * smaller", "w_in * smaller, w_out"),
        "w_in is made smaller in the place of w_out. What w_in makes goes through the activation "
        "first; w_out writes to the stream.",
    ),
    Slip(
        "values too",
        ("value, output", "value * smaller, output"),
        "value is made smaller as well, so what attention adds is multiplied by 1/(2L) in all. "
        "One matrix on each way is enough: the last.",
    ),
    Slip(
        "larger",
        (ROOT, "(2 * layers) ** 0.5"),
        "output and w_out grow by √(2L). They should shrink by it.",
    ),
    Slip(
        "a fourth root",
        (ROOT, "(2 * layers) ** -0.25"),
        "The factor is the fourth root of 1/(2L). It should be the square root.",
    ),
)


def by_division(query, key, value, output, w_in, w_out, layers):
    """Divides by the root, out of place."""
    root = torch.tensor(2.0 * layers).sqrt()
    return query, key, value, output / root, w_in, w_out / root


def by_place(query, key, value, output, w_in, w_out, layers):
    """Copies of all, then the fourth and the sixth."""
    made = [m.clone() for m in (query, key, value, output, w_in, w_out)]
    for place in WRITE:
        made[place] /= (layers + layers) ** 0.5
    return tuple(made)


_TWO = torch.eye(2)
SIZES = (3, 5, 7, 11, 13, 17)
"""Of the six matrices of the worked example; no power of 2 leads from one to another."""

EXERCISE = Exercise(
    chapter="07_block",
    title="A small start",
    goal="Make the matrices smaller that write to the stream, so that at the start it grows about "
    "as much in 24 blocks as in 2.",
    reference=block.residual_init,
    contract=Contract(
        arguments_unchanged=True,
        views=True,
        gradients=NAMES,
    ),
    properties=(
        worked(
            "the worked example: with 8 blocks the factor is 1/4",
            *(4 * n * _TWO for n in SIZES),
            8,
            want=tuple((n if i in WRITE else 4 * n) * _TWO for i, n in enumerate(SIZES)),
            tolerance=FLOAT32,
        ),
        agrees("output", _usual, part=3, tolerance=FLOAT32),
        agrees("w_out", _usual, part=5, tolerance=FLOAT32),
        agrees("all six, also of one block", _also_one, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"by division": by_division, "by place": by_place},
    hints=(
        "Follow a block from its input to each of its two sums. Which matrix comes last before "
        "each?",
        "2L independent terms of variance v add up to 2L v. By what must each be multiplied so "
        "that the sum keeps the variance v?",
        "output and w_out times (2 * layers) ** -0.5, the other four as they are, all six in "
        "order.",
    ),
    minutes=8,
    difficulty=2,
    importance=3,
    results=NAMES,
)
