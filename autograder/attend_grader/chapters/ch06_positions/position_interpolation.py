"""Exercise 06_positions/position_interpolation: position interpolation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import longer_positions
from torch import Tensor

from attend_grader.chapters.ch06_positions.shared import MILLION, comes_out, reordered
from attend_grader.checks.compare import FLOAT32 as SINGLE
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked


def _squeezes(rng: np.random.Generator) -> Fresh:
    for trained, length, shape in ((64, 1024, 6), (10, 15, 6), (2048, 8192, (2, 1, 3)), (3, 99, 1)):
        where = torch.from_numpy(rng.integers(0, length, shape))
        why = f"trained on {trained}, reads {length}; {where.numel()} of its positions"
        yield why, Call((where, trained, length))
    yield "three early positions of a longer text", Call((torch.tensor([0, 2, 5]), 10, 40))
    for why, where in reordered():
        yield why, Call((where, 3, 40))
    for why, where in _as_many():
        yield why, Call((where, 3, 6))
        yield f"{why}, as many as were trained", Call((where, 6, 12))
    far = torch.from_numpy(900_000 + rng.integers(0, 1000, 3))
    for kind in (torch.int32, torch.float32):
        why = f"positions about 900,000 in {str(kind).removeprefix('torch.')}"
        yield why, Call((far.to(kind), 2999, MILLION))


def _as_many() -> Iterator[tuple[str, Tensor]]:
    """What is special about positions, and positions: as many as a text of 6 has, but no run."""
    shuffled, doubled = torch.tensor([[0, 2, 1, 4, 3, 5], [0, 1, 1, 4, 4, 5]])
    yield "six positions in any order", shuffled
    yield "six positions, some of them twice", doubled
    yield "two times three positions", torch.tensor([[0, 1, 2], [0, 1, 2]])
    yield "two times six positions", torch.stack((shuffled, doubled))


def _short(rng: np.random.Generator) -> Fresh:
    del rng
    for length in (8, 10):
        yield "the text fits", Call((torch.arange(8), 10, length))
    for why, where in _as_many():
        yield f"the text fits; {why}", Call((where, 10, 6))
    yield "one token too many", Call((torch.arange(11), 10, 11))


def draws(rng: np.random.Generator) -> list[Call]:
    """Longer, a little longer, and no longer than what was trained; float32; two axes."""

    def where(length: int, *shape: int) -> Tensor:
        return torch.from_numpy(rng.integers(1, length, shape))

    return [
        Call((where(40, 5), 10, 40)),
        Call((torch.arange(14), 10, 14)),
        Call((torch.arange(7), 10, 7)),
        Call((where(1024, 2, 3).float(), 64, 1024)),
        Call((where(9, 4).float(), 12, 9)),
        Call((where(9, 4), 12, 30)),
    ]


SHARE = "min(1.0, trained_length / length)"
SQUEEZED = f"positions.double() * {SHARE}"

SLIPS = (
    Slip(
        "stretched instead of squeezed",
        (SHARE, "max(1.0, length / trained_length)"),
        "Positions are stretched, not squeezed: the factor is upside down. It should be trained / "
        "wanted.",
    ),
    Slip(
        "held at the last trained position",
        (SQUEEZED, "positions.double().clamp(max=trained_length - 1)"),
        "Positions past the trained length are all held at its last one, as by a clamp, so they "
        "cannot be told apart. Multiply all positions by the same ratio.",
    ),
    Slip(
        "wrapped around",
        (SQUEEZED, "positions.double() % trained_length"),
        "Positions past the trained length begin again at 0, as by a remainder, so tokens that are "
        "trained_length apart share one. Multiply all positions by the same ratio.",
    ),
    Slip(
        "counted the positions given",
        ("/ length", "/ positions.numel()"),
        "Your ratio comes out as if the text were as long as `positions`, which may hold only some "
        "of the text's. Use the argument `length`.",
    ),
    Slip(
        "a whole factor",
        (SQUEEZED, "positions.double() / max(1, length // trained_length)"),
        "The ratio of the lengths is cut to a whole number. Divide with `/`, not `//`.",
    ),
    Slip(
        "last to last",
        ("trained_length / length", "(trained_length - 1) / (length - 1)"),
        "In a longer text the last position is mapped to the last trained one, by (trained − 1) / "
        "(wanted − 1). Chen et al. multiply by trained / wanted.",
    ),
    Slip(
        "float32 on the way",
        (SQUEEZED, f"(positions * {SHARE}).double()"),
        "The values are right to seven digits only: something on the way was float32, as whole "
        "numbers times a Python float or torch.tensor of a fraction are. Keep everything in "
        "float64: positions.double() first, and the ratio a plain number.",
    ),
)


def by_branches(positions, trained_length, length):
    """Asks first."""
    positions = positions.to(torch.float64)
    if length <= trained_length:
        return positions
    return positions / (length / trained_length)


def in_numpy(positions, trained_length, length):
    """In NumPy."""
    factor = np.minimum(1, np.float64(trained_length) / length)
    return torch.from_numpy(np.asarray(positions, dtype=np.float64) * factor)


EXERCISE = Exercise(
    chapter="06_positions",
    title="Position interpolation",
    goal="Squeeze the positions of a longer text into the trained range.",
    reference=longer_positions.position_interpolation,
    contract=Contract(
        accepts=(FLOAT32, FLOAT64, INTEGERS),
        views=True,
        arguments_unchanged=True,
        says=("Right to the digits of float64.",),
    ),
    properties=(
        worked(
            "a hand-worked example: twice the trained length",
            *(torch.tensor([0, 1, 3, 7]), 4, 8),
            want=torch.tensor([0.0, 0.5, 1.5, 3.5], dtype=torch.float64),
            tolerance=SINGLE,
        ),
        agrees("p times trained over wanted length, for any lengths", _squeezes, repeat=1),
        agrees("a text that fits keeps its positions", _short, repeat=1, tolerance=SINGLE),
        comes_out(torch.float64, (torch.arange(8), 10, 8), (torch.arange(9), 3, 9)),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_branches, in_numpy),
    hints=(
        "By which number must every position be multiplied, and when by none?",
        "The factor is trained_length / length, but never more than 1. Work in float64: angles "
        "will be made from these positions.",
        "positions.double() times min(1.0, trained_length / length).",
    ),
    minutes=4,
    difficulty=1,
    importance=3,
)
