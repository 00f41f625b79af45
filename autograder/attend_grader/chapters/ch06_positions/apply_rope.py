"""Exercise 06_positions/apply_rope: rotary embedding."""

from __future__ import annotations

import math

import numpy as np
import torch
from attend_solutions import positions as solutions
from attend_solutions.positions import angular_frequencies as rates
from torch import Tensor

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
from attend_grader.checks.compare import PRINTED, Tolerance
from attend_grader.checks.contract import FLOAT32, FLOAT64
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known, worked
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import normal


def _pairs(rng: np.random.Generator) -> Fresh:
    """Also half a turn a step, which changes every sign at position 1."""
    for width, tokens in ((2, 3), (4, 4), (6, 3), (10, 5)):
        where = torch.from_numpy(rng.integers(1, 40, tokens))
        yield f"T = {tokens}, D = {width}", Call((normal(rng, tokens, width), where, rates(width)))
    x = normal(rng, 1, 6).expand(3, 6).contiguous()
    half_turns = torch.full((3,), math.pi, dtype=torch.float64)
    why = "every pair makes half a turn a step, positions 0, 1, 2"
    yield why, Call((x, torch.arange(3), half_turns))


SCORE = Tolerance(
    "scores of unit vectors in float32",
    1e-6,
    "a dot product of 16 numbers below 1, each rounded to float32",
    absolute=1e-6,
)


def _scores(subject: Subject, probe: Probe) -> None:
    """The score of a query at m and a key at n is that at m − n and 0, also at 10⁵."""
    frequencies = rates(16)
    q, k = torch.nn.functional.normalize(normal(probe.rng, 2, 1, 16), dim=-1)
    for start in (0, 40, FAR):
        for offset in (1, 6, 50):
            where = torch.tensor([start + offset]), torch.tensor([start])
            parts = []
            for x, position in zip((q, k), where, strict=True):
                value = probe.call(subject, x, position, frequencies).value
                if not isinstance(value, Tensor) or value.shape != x.shape:
                    probe.agree(subject, x, position, frequencies, tolerance=SINGLE)
                parts.append(value.double())
            got = float((parts[0] * parts[1]).sum())
            turned = probe.reference(q.double(), torch.tensor([offset]), frequencies)
            want = float((turned * k).sum())
            if abs(got - want) <= SCORE.relative + SCORE.absolute:
                continue
            raise probe.miss(
                f"query at {start + offset}, key at {start}: the score of your rotated vectors is "
                f"{got:.7f}, expected {want:.7f}, which belongs to the offset {offset} wherever it "
                "is." + (" Angles must be float64 this far out." if start == FAR else ""),
                *(q, where[0], frequencies),
            )


def _places(rng: np.random.Generator) -> Fresh:
    """Heads share positions, sequences may have their own; between whole numbers."""
    for shape, places in (
        *(((2, 3, 5, 8), (5,)), ((4, 4, 4), (4,)), ((2, 3, 4, 6), (2, 1, 4))),
        *(((3, 5, 4), (1, 5)), ((2, 3, 4, 5, 6), (2, 3, 1, 5))),
        *(((2, 1, 1, 4), (2, 1, 1)), ((3, 1, 6), (3, 1))),
    ):
        where = torch.from_numpy(rng.integers(0, 30, places))
        why = f"x of shape {shape}, positions of shape {places}"
        yield why, Call((normal(rng, *shape), where, rates(shape[-1])))
    x = normal(rng, len(REORDERED[0]), 8)
    for why, where in reordered():
        yield why, Call((x, where, rates(8)))
    yield "the same, with base 50", Call((x, torch.tensor(REORDERED[1]), rates(8, 50.0)))
    why = "the same, with some frequencies slowed"
    yield why, Call((x, torch.tensor(REORDERED[1]), rates(8) * BETWEEN_SLOWED))
    for why, where in partly_alike():
        shape = (*where.shape[:-2], 2, where.shape[-1], 4)
        yield why, Call((normal(rng, *shape), where, rates(4)))
    between = torch.tensor([0.25, 7.5, -3.0], dtype=torch.float64)
    why = "positions between whole numbers and below 0"
    yield why, Call((normal(rng, 3, 8), between, rates(8)))


def _far(rng: np.random.Generator) -> Known:
    where = FAR + torch.from_numpy(rng.integers(0, 1000, 3))
    nearly = where + torch.tensor(NEARLY_WHOLE, dtype=torch.float64)
    for positions in (where, where.double() + THIRD, nearly):
        why = "positions about 100,000, where float32 angles are off by thousandths"
        given = (normal(rng, 3, 8), positions, rates(8))
        yield why, given, solutions.apply_rope(given[0].double(), *given[1:])


BFLOAT16 = Tolerance(
    "bfloat16",
    2e-2,
    "bfloat16 rounds at 4e-3, and there are two products and a sum; bfloat16 positions and angles "
    "would be off by radians",
)


def _types(subject: Subject, probe: Probe) -> None:
    """The dtype of x comes out: float32, float64 (as exactly), bfloat16."""
    x, where = normal(probe.rng, 4, 6), torch.tensor([3, 301, 57, 1003])
    kinds = ((torch.float32, SINGLE), (torch.float64, DOUBLE), (torch.bfloat16, BFLOAT16))
    for kind, tolerance in kinds:
        given = (x.to(kind), where, rates(6))
        why, want = f"x in {kind}", probe.reference(given[0].double(), *given[1:]).to(kind)
        value = probe.agree(subject, *given, want=want, tolerance=tolerance, why=why).value
        if value.dtype != kind:
            note = f"x has dtype {kind}, but your answer {value.dtype}: bring sines and cosines "
            raise probe.miss(f"{note}to x.dtype.", *given)


def draws(rng: np.random.Generator) -> list[Call]:
    """Unordered positions, heads, T = D, positions for each sequence, between, far out, float64."""

    def where(*shape: int) -> Tensor:
        return torch.from_numpy(rng.integers(1, 40, shape))

    alike = where(2, 1, 3)  # two texts that begin at one position
    alike[..., 0] = 7
    return [
        Call((normal(rng, 5, 8), where(5), rates(8))),
        Call((normal(rng, 2, 3, 4, 6), where(4).double() / 4, rates(6))),
        Call((normal(rng, 4, 4), torch.arange(4), rates(4, 100.0))),
        Call((normal(rng, 2, 2, 3, 6), where(2, 1, 3), rates(6))),
        Call((normal(rng, 3, 64), FAR + where(3), rates(64))),
        Call((normal(rng, 3, 4).double(), FAR + where(3), rates(4))),
        Call((normal(rng, 1, 2), where(1), rates(2))),
        Call((normal(rng, 3, 2), where(3).double() / 4, torch.tensor([0.3]).double())),
        Call((normal(rng, 2, 2, 3, 6), alike, rates(6))),
    ]


ANGLES = "positions[..., None].double() * frequencies.double()"
HALVES = "x.chunk(2, dim=-1)"
TURNED = "first * cos - second * sin, second * cos + first * sin"
JOINED = f"torch.cat(({TURNED}), dim=-1)"

SLIPS = (
    Slip(
        "neighbours as pairs",
        (
            (HALVES, "x[..., ::2], x[..., 1::2]"),
            (JOINED, f"torch.stack(({TURNED}), dim=-1).flatten(-2)"),
        ),
        "You pair neighbours, (x_0, x_1), (x_2, x_3), …, as RoFormer and GPT-J do. Here pair i "
        "should be (x_i, x_{i + D/2}): cut the last axis in two halves. The two are the same up to "
        "the order of the numbers, but queries, keys and trained weights must agree on one.",
    ),
    Slip(
        "sine and cosine exchanged",
        ("cos, sin = angles", "sin, cos = angles"),
        "Sine and cosine have changed places: at position 0, where nothing should turn, your "
        "answer is not x. The cosine should multiply a number itself, the sine its partner.",
    ),
    Slip(
        "used numbers already turned",
        (TURNED, "new := first * cos - second * sin, second * cos + new * sin"),
        "Your second halves come out as if made from first halves already turned. Both lines of "
        "the rotation need the old numbers: keep those until both are made.",
    ),
    Slip(
        "two conventions mixed",
        (
            (ANGLES, f"({ANGLES}).repeat_interleave(2, dim=-1)"),
            (JOINED, "x * cos + torch.cat((-second, first), dim=-1) * sin"),
        ),
        "Two conventions are mixed: the numbers are paired as (x_i, x_{i + D/2}), but the angles "
        "are laid out for neighbours (θ_0, θ_0, θ_1, θ_1, …). Repeat them as a whole, (θ_0, θ_1, "
        "…, θ_0, θ_1, …), or work on the two halves.",
    ),
    Slip(
        "counted instead of reading positions",
        ("positions[..., None]", "torch.arange(x.shape[-2])[..., None]"),
        "The tokens are turned as if they stood at 0, 1, 2, … Use the numbers in `positions`.",
    ),
    Slip(
        "angles in float32",
        (ANGLES, ANGLES.replace("double", "float")),
        "Digits are lost, more of them farther out: the angles were rounded to float32. "
        "Make them in float64, take sine and cosine, and only then convert to x.dtype.",
    ),
    Slip(
        "angles in the dtype of x",
        (ANGLES, ANGLES.replace("double()", "to(x.dtype)")),
        "The angles were rounded to the dtype of x: in bfloat16 that can be wrong by radians from "
        "position a few hundred on, in float32 by thousandths at 100,000. Convert sines and "
        "cosines, not angles.",
    ),
)


def by_rotate_half(x, positions, frequencies):
    """As in Llama: cosines and sines for the whole width, and x with its halves exchanged."""
    angles = torch.einsum("...t,d->...td", positions.double(), frequencies.double())
    angles = torch.cat((angles, angles), dim=-1)
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


def by_pairs(x, positions, frequencies):
    """A loop over pairs, which takes no frequencies that do not fit to the width."""
    half = x.shape[-1] // 2
    first, second = [], []
    for pair in range(half):
        angle = positions.double() * frequencies[pair].double()
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first.append(x[..., pair] * cos - x[..., pair + half] * sin)
        second.append(x[..., pair + half] * cos + x[..., pair] * sin)
    return torch.stack(first + second, dim=-1)


def by_complex_numbers(x, positions, frequencies):
    """One complex product, in float64."""
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half].double(), x[..., half:].double())
    angles = positions.double().unsqueeze(-1) * frequencies
    z = z * torch.exp(1j * angles)
    return torch.cat((z.real, z.imag), dim=-1).type_as(x)


EXERCISE = Exercise(
    chapter="06_positions",
    title="Rotary embedding",
    goal="Turn queries and keys, so that their score knows only how far apart they are.",
    reference=solutions.apply_rope,
    contract=Contract(
        leading_axes=("x",),
        accepts=(FLOAT32, FLOAT64),
        views=True,
        arguments_unchanged=True,
        ranges={"positions": AS_DRAWN, "frequencies": AS_DRAWN},
        gradients=("x",),
        says=("Positions may lie between whole numbers.", "Good to six digits at about 100,000."),
        forbids=READY_MADE,
    ),
    properties=(
        worked(
            "a hand-worked example: 90° and 45°",
            torch.tensor([[1.0, 0.0, 0.0, 2.0]]),
            torch.tensor([1]),
            torch.tensor([math.pi / 2, math.pi / 4], dtype=torch.float64),
            want=torch.tensor([[0.0, -1.4142, 1.0, 1.4142]]),
            tolerance=PRINTED,
            why="the pairs (1, 0) and (0, 2), turned by 90° and 45°",
        ),
        agrees(
            "pairs of halves, a frequency for each", _pairs, points=2, repeat=1, tolerance=SINGLE
        ),
        Property("the right score for each m − n, to 1e-6 at 100,000", 2, _scores),
        agrees("heads share positions, sequences need not", _places, repeat=1, tolerance=SINGLE),
        known("exact at position 100,000, whole or not", _far, tolerance=ROUNDED),
        Property("the dtype of x comes out", 1, _types),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_rotate_half, by_pairs, by_complex_numbers),
    hints=(
        "By which angle is pair i of the token at position p turned? What are the two numbers of "
        "a pair after a turn by that angle?",
        "Angles: positions with a new last axis, times the frequencies, both in float64: (..., T, "
        "D/2). Cut x into its two halves along the last axis. The new first half is first · cos − "
        "second · sin; find the other one from the turn of (0, 1).",
        "angles = positions[..., None].double() * frequencies.double(); cos and sin of them, each "
        "converted with .to(x.dtype); first, second = x.chunk(2, dim=-1); then torch.cat of the "
        "two new halves, both made from the old ones: the second is second · cos + first · sin.",
    ),
    minutes=15,
    difficulty=3,
    importance=5,
)
