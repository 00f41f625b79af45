"""Exercise 06_positions/repaired_rope: two conventions of pairs, mixed in one function.

The broken function stands in the notebook: angles for halves, partners from neighbours. With one
pair the two are the same.
"""

from __future__ import annotations

import numpy as np
import torch
from attend_solutions import positions as solutions
from attend_solutions.positions import angular_frequencies as rates
from torch import Tensor

from attend_grader.chapters.ch06_positions.apply_rope import BFLOAT16, by_pairs
from attend_grader.chapters.ch06_positions.shared import (
    BETWEEN_SLOWED,
    FAR,
    NEARLY_WHOLE,
    READY_MADE,
    REORDERED,
    ROUNDED,
    THIRD,
    partly_alike,
    reordered,
)
from attend_grader.checks.compare import FLOAT32 as SINGLE
from attend_grader.checks.compare import FLOAT64 as DOUBLE
from attend_grader.checks.compare import Miss, expect_close
from attend_grader.checks.contract import FLOAT32, FLOAT64
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import normal


def _pairs(rng: np.random.Generator) -> Fresh:
    """Several pairs; positions between whole numbers; sequences that differ."""
    for shape, width in (((3,), 4), ((2, 5), 8), ((4, 4), 4), ((3,), 2)):
        where = torch.from_numpy(rng.integers(1, 40, shape[-1]))
        q, k = normal(rng, 2, *shape, width)
        yield f"T = {shape[-1]}, D = {width}", Call((q, k, where, rates(width)))
    where = torch.from_numpy(rng.integers(1, 40, (2, 1, 4))) - 0.25
    q, k = normal(rng, 2, 2, 3, 4, 6)
    why = "positions of each sequence, between whole numbers"
    yield why, Call((q, k, where, rates(6, 100.0)))
    where = torch.from_numpy(rng.integers(1, 40, 3))
    q, k = normal(rng, 2, 4, 3, 6), normal(rng, 2, 2, 3, 6)
    yield "4 heads of queries, 2 of keys", Call((q, k, where, rates(6)))
    for shape, places in (
        *(((3, 5, 4), (1, 5)), ((2, 3, 4, 5, 6), (2, 3, 1, 5))),
        *(((2, 1, 1, 4), (2, 1, 1)), ((2, 3, 1, 4), (2, 1, 1)), ((3, 1, 6), (3, 1))),
    ):
        where = torch.from_numpy(rng.integers(1, 40, places))
        why = f"q and k of shape {shape}, positions of shape {places}"
        yield why, Call((*normal(rng, 2, *shape), where, rates(shape[-1])))
    q, k = normal(rng, 2, len(REORDERED[0]), 8)
    for why, where in reordered():
        yield why, Call((q, k, where, rates(8)))
    yield "the same, with base 50", Call((q, k, torch.tensor(REORDERED[1]), rates(8, 50.0)))
    why = "the same, with some frequencies slowed"
    yield why, Call((q, k, torch.tensor(REORDERED[1]), rates(8) * BETWEEN_SLOWED))
    for why, where in partly_alike():
        shape = (*where.shape[:-2], 2, where.shape[-1], 4)
        yield why, Call((*normal(rng, 2, *shape), where, rates(4)))


def _far(rng: np.random.Generator) -> Known:
    where = FAR + torch.from_numpy(rng.integers(0, 1000, 3))
    nearly = where + torch.tensor(NEARLY_WHOLE, dtype=torch.float64)
    for positions in (where, where.double() + THIRD, nearly):
        q, k = normal(rng, 2, 3, 8)
        why = "positions about 100,000, where float32 angles are off by thousandths"
        given = (q, k, positions, rates(8))
        yield why, given, solutions.repaired_rope(q.double(), k.double(), *given[2:])


def _scores(subject: Subject, probe: Probe) -> None:
    """Lengths stay, and all scores stay when all positions move on."""
    q, k = normal(probe.rng, 2, 5, 12)
    q, k = (x / x.norm(dim=-1, keepdim=True) for x in (q, k))
    first = None
    for start in (0, 37, 900):
        given = (q, k, torch.arange(5) + start, rates(12))
        value = probe.call(subject, *given).value
        found = value if isinstance(value, (tuple, list)) and len(value) == 2 else ()
        if not found or any(not isinstance(x, Tensor) or x.shape != q.shape for x in found):
            probe.agree(subject, *given, tolerance=SINGLE)
        turned_q, turned_k = (x.double() for x in found)
        longest = float(max((x.norm(dim=-1) - 1).abs().max() for x in (turned_q, turned_k)))
        if longest > 1e-5:
            raise probe.miss(
                f"a vector of length 1 comes out with a length that is off by {longest:.2g}: a "
                "rotation keeps lengths. Do both numbers of a pair turn by the same angle, "
                "with one minus sign?",
                *given,
            )
        scores = turned_q @ turned_k.mT
        first = scores if first is None else first
        apart = float((scores - first).abs().max())
        if apart > 1e-5:
            raise probe.miss(
                f"with all positions moved on by {start}, a score changes by {apart:.2g}: it may "
                "depend on the offset alone. Are queries and keys turned alike?",
                *given,
            )


def _types(subject: Subject, probe: Probe) -> None:
    """q and k keep their own dtypes, also bfloat16, and where the two differ."""
    q, k = normal(probe.rng, 2, 4, 6)
    where = torch.tensor([3, 301, 57, 1003])
    kinds = ((torch.float32, SINGLE), (torch.float64, DOUBLE), (torch.bfloat16, BFLOAT16))
    pairs = [(q.to(kind), k.to(kind), tolerance) for kind, tolerance in kinds]
    for *pair, tolerance in (*pairs, (q.double(), k, SINGLE), (q, k.double(), SINGLE)):
        given = (*pair, where, rates(6))
        exact = probe.reference(*(x.double() for x in pair), *given[2:])
        want = tuple(y.to(x.dtype) for x, y in zip(pair, exact, strict=True))
        why = f"q in {pair[0].dtype}, k in {pair[1].dtype}"
        value = probe.agree(subject, *given, want=want, tolerance=tolerance, why=why).value
        for x, right, name, result in zip(pair, want, "qk", value, strict=True):
            if result.dtype != x.dtype:
                text = f"{name} has dtype {x.dtype}, but its result {result.dtype}: return "
                raise probe.miss(f"{text}each of the two in its own dtype.", *given)
            try:  # the finer one of two dtypes keeps its digits
                expect_close(result, right, dict(kinds)[x.dtype], f"the result of {name}")
            except Miss as miss:
                raise miss.on(probe.given(given, {}), why) from None


def draws(rng: np.random.Generator) -> list[Call]:
    """Unordered, heads, T = D, one pair, one token, places for each sequence, far out, float64."""

    def where(*shape: int) -> Tensor:
        return torch.from_numpy(rng.integers(1, 40, shape))

    def both(*shape: int) -> tuple[Tensor, Tensor]:
        q, k = normal(rng, 2, *shape)
        return q, k

    return [
        Call((*both(5, 8), where(5), rates(8))),
        Call((*both(2, 3, 4, 6), where(4).double() / 4, rates(6))),
        Call((*both(4, 4), where(4), rates(4, 100.0))),
        Call((*both(2, 2, 3, 6), where(2, 1, 3), rates(6))),
        Call((*both(3, 64), FAR + where(3), rates(64))),
        Call((*(x.double() for x in both(3, 4)), FAR + where(3), rates(4))),
        Call((*both(3, 2), where(3), rates(2))),
        Call((*both(1, 6), where(1), rates(6))),
        Call((normal(rng, 4, 3, 6), normal(rng, 2, 3, 6), where(3), rates(6))),
        Call((normal(rng, 2, 4, 3, 6), normal(rng, 2, 1, 3, 6), where(2, 1, 3), rates(6))),
    ]


ANGLES = "positions[..., None].double() * frequencies.double()"
LAID_OUT = "angles = torch.cat((angles, angles), dim=-1)"
PARTNER = "torch.cat((-second, first), dim=-1)"
NEIGHBOUR = "torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)"
TURNED = "return turn(q), turn(k)"
SLIPS = (
    Slip(
        "not repaired",
        (PARTNER, NEIGHBOUR),
        "The partner of a number is still its neighbour, x_0 with x_1, while the angles are laid "
        "out for halves. Take the partner from the other half: (−second half, first half).",
    ),
    Slip(
        "neighbours throughout",
        ((LAID_OUT, "angles = angles.repeat_interleave(2, dim=-1)"), (PARTNER, NEIGHBOUR)),
        "This is a rotation again, but one of neighbours, (x_0, x_1), (x_2, x_3), … Asked for are "
        "halves, as in apply_rope: keep the angles as they were and repair the partner.",
    ),
    Slip(
        "both changed, where only the partner had to",
        (LAID_OUT, "angles = angles.repeat_interleave(2, dim=-1)"),
        "Now the partners are halves, but the angles are laid out for neighbours, (θ_0, θ_0, θ_1, "
        "θ_1, …). Change the partner only, and keep the angles as they were.",
    ),
    Slip(
        "halves not exchanged",
        (PARTNER, "torch.cat((-first, second), dim=-1)"),
        "Each number is its own partner: the sign is there, but the halves stay where they are. "
        "The partner should be (−second half, first half).",
    ),
    Slip(
        "angles in float32",
        (ANGLES, ANGLES.replace("double", "float")),
        "Digits are lost, more of them farther out: the angles were made in float32. Make them in "
        "float64, as the colleague did.",
    ),
    Slip(
        "angles in the dtype of q",
        (ANGLES, ANGLES.replace("double()", "to(q.dtype)")),
        "Angles are rounded to the dtype of q or k: in bfloat16 that can be wrong by radians from "
        "position a few hundred on, in float32 by thousandths at 100,000. Make them in float64, as "
        "the colleague did.",
    ),
)


def by_halves(q, k, positions, frequencies):
    """Half the angles, and the two lines of the rotation."""
    angles = positions[..., None].double() * frequencies

    def turn(x):
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        c, s = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
        return torch.cat((a * c - b * s, a * s + b * c), dim=-1)

    return turn(q), turn(k)


def both_by_pairs(q, k, positions, frequencies):
    """A loop over pairs, once for queries and once for keys."""
    return by_pairs(q, positions, frequencies), by_pairs(k, positions, frequencies)


def by_roll(q, k, positions, frequencies):
    """The other half by a roll, and a sign for each number."""
    half = len(frequencies)
    angles = torch.outer(positions.flatten().double(), frequencies.double())
    angles = angles.reshape(*positions.shape, half).repeat(*[1] * positions.dim(), 2)
    sign = torch.cat((-torch.ones(half), torch.ones(half)))
    return tuple(
        x * angles.cos().to(x) + x.roll(half, dims=-1) * (sign * angles.sin()).to(x) for x in (q, k)
    )


EXERCISE = Exercise(
    chapter="06_positions",
    title="Repair a rotation",
    goal="Find what a function mixes up whose own test passes, and repair it.",
    reference=solutions.repaired_rope,
    contract=Contract(
        leading_axes=("q", "k"),
        accepts=(FLOAT32, FLOAT64),
        views=True,
        arguments_unchanged=True,
        ranges={"positions": AS_DRAWN, "frequencies": AS_DRAWN},
        gradients=("q", "k"),
        says=("Good to six digits at positions about 100,000.",),
        forbids=("apply_rope", *READY_MADE),
    ),
    properties=(
        agrees("the queries: pairs of halves", _pairs, repeat=1, part=0, tolerance=SINGLE),
        agrees("the keys: pairs of halves", _pairs, repeat=1, part=1, tolerance=SINGLE),
        Property("lengths stay; scores depend on the offset alone", 1, _scores),
        known("exact at position 100,000", _far, tolerance=ROUNDED),
        Property("the dtype of q and k comes out", 1, _types),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_halves, by_roll, both_by_pairs),
    hints=(
        "Print `partner` for x = (0, 1, 2, 3), and beside it the order of the angles. Which number "
        "is x_0 paired with, and which angles do the two get?",
        "The angles repeat as a whole, so x_i and x_{i + D/2} share one. The partners must come "
        "from the other half too: −x_{i + D/2} for the first half, x_i for the second.",
        "first, second = x.chunk(2, dim=-1); partner = torch.cat((-second, first), dim=-1).",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    results=("q", "k"),
)
