"""Exercise 06_positions/shift_matrix: a shift is a rotation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from attend_solutions import positions
from attend_solutions.positions import angular_frequencies, sinusoidal_encoding
from torch import Tensor

from attend_grader.chapters.ch06_positions.shared import (
    FAR,
    NEARLY_WHOLE,
    NO_FLOAT32,
    ROUNDED,
    THIRD,
)
from attend_grader.checks.compare import FLOAT32, PRINTED, Miss, expect_close
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import ANEW
from attend_grader.checks.subject import Subject


def _worked(subject: Subject, probe: Probe) -> None:
    """A quarter turn of one pair; a pair and one ten times slower."""
    want = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    probe.agree(subject, math.pi / 2, 2, want=want, tolerance=PRINTED, why="a quarter turn")
    c, s, slow_c, slow_s = math.cos(2.0), math.sin(2.0), math.cos(0.2), math.sin(0.2)
    want = torch.tensor(
        [[c, s, 0, 0], [-s, c, 0, 0], [0, 0, slow_c, slow_s], [0, 0, -slow_s, slow_c]]
    )
    why = "offset 2, angles 2 and 0.2"
    probe.agree(subject, 2, 4, base=100.0, want=want, tolerance=PRINTED, why=why)


def _matrix(subject: Subject, probe: Probe, *args: Any) -> Tensor:
    """The candidate's matrix in float64, once it is one."""
    value = probe.call(subject, *args).value
    if not isinstance(value, Tensor) or value.shape != (args[1], args[1]):
        probe.agree(subject, *args, tolerance=FLOAT32)
    return value.double()


def _hold(probe: Probe, got: Tensor, want: Tensor, what: str, *args: Any) -> None:
    """Hold what is made of candidates' matrices to what it must be."""
    try:
        expect_close(got, want, FLOAT32, what)
    except Miss as miss:
        raise miss.on(probe.given(args, {}), "") from None


def _moves(name: str, points: int, *cases: tuple[float, int, float]) -> Property:
    """One matrix takes every PE(p) to PE(p + offset)."""

    def test(subject: Subject, probe: Probe) -> None:
        for offset, width, base in cases:
            matrix = _matrix(subject, probe, offset, width, base)
            where = torch.from_numpy(probe.rng.integers(0, 200, 4))
            moved = sinusoidal_encoding(where + offset, width, base).double()
            got = sinusoidal_encoding(where, width, base).double() @ matrix.T
            what = f"M @ PE(p), a row for each p of {', '.join(map(str, where.tolist()))}: entry "
            _hold(probe, got, moved, what, offset, width, base)

    return Property(name, points, test)


def _rotation(subject: Subject, probe: Probe) -> None:
    """A rotation keeps lengths, and shifts add up."""
    for one, two, width in ((2, 5, 10), (3, 1, 4)):
        first, second, both = (_matrix(subject, probe, k, width) for k in (one, two, one + two))
        what = f"your shift by {two} times your shift by {one}, which must be your shift by "
        _hold(probe, second @ first, both, f"{what}{one + two}: entry ", one + two, width)
        what = "M times its transpose, which must be the identity: entry "
        _hold(probe, first @ first.T, torch.eye(width).double(), what, one, width)


def _far(subject: Subject, probe: Probe) -> None:
    """An offset of 10⁵ as exactly, whole or not; float32 comes out."""
    far = "an offset about 100,000, where float32 angles are off by thousandths"
    for why, *given in (
        (far, FAR + int(probe.rng.integers(0, 1000)), 8),
        (far, FAR + THIRD, 8),
        ("a third of a step back", -THIRD, 8),
        *(("near a whole number", FAR - 7 + by, 8) for by in NEARLY_WHOLE),
        ("width 300", 5, 300),
        (f"base {NO_FLOAT32}, an offset of 100,000", FAR, 8, NO_FLOAT32),
    ):
        value = probe.agree(subject, *given, tolerance=ROUNDED, why=why).value
        if value.dtype != torch.float32:
            text = f"your answer has dtype {value.dtype}, expected torch.float32: convert the "
            raise probe.miss(f"{text}finished result.", *given)


def draws(rng: np.random.Generator) -> list[Call]:
    """Whole offsets, another base, backwards, parts of a step, far (where roundings tell apart)."""
    one, other, back = (int(n) for n in rng.integers(1, 9, 3))
    part, beyond = (round(float(rng.uniform(*ends)), 2) for ends in ((0.1, 0.9), (0, 999)))
    far, more = int(rng.integers(0, 999)), int(rng.integers(13, 40))
    ahead = ((one, 6), (part, 2), (FAR + beyond, 64), (more, 12), (0, 4))
    made = [Call(each) for each in (*ahead, (-back, 8), (-FAR - far, 10), (-one, 6, 50.5))]
    return [*made, Call((other, 4), {"base": 100.5}), Call((5e-5, 4))]


BLOCK = "(cos, sin, -sin, cos)"
ANGLES = "offset * angular_frequencies(width, base)"

SLIPS = (
    Slip(
        "no minus sign",
        (BLOCK, "(cos, sin, sin, cos)"),
        "The sine in the lower left of your blocks lacks its minus sign. cos(a + b) = cos a cos b "
        "− sin a sin b: put a minus before that sine.",
    ),
    Slip(
        "cosines beside the diagonal",
        (BLOCK, "(sin, cos, -cos, sin)"),
        "Sine and cosine have changed places in your blocks. An offset of 0 must give the "
        "identity: put the cosines on the diagonal.",
    ),
    Slip(
        "pairs the two halves",
        (
            "torch.block_diag(*blocks)",
            "blocks.permute(1, 2, 0).diag_embed().transpose(1, 2).reshape(width, width)",
        ),
        "Your pairs are the columns i and i + C/2. In this encoding sine and cosine of a pair are "
        "neighbours, columns 2i and 2i + 1, so put the 2 × 2 blocks along the diagonal.",
    ),
    Slip(
        "angles in float32",
        (ANGLES, f"{ANGLES}.float()"),
        "Small offsets are right, large ones lose digits: the angles were rounded to float32. "
        "Multiply in float64, take sine and cosine, and only then convert.",
    ),
    Slip(
        "angles converted before the sine",
        (ANGLES, f"({ANGLES}).float()"),
        "Offset times frequency is right, but then the angles themselves are converted to float32, "
        "and large ones lose digits. Take sine and cosine first, then convert.",
    ),
    Slip(
        "whole steps only",
        (ANGLES, f"int(offset) * {ANGLES[9:]}"),
        "Parts of a step are cut off: offset 0.5 is taken for 0. An offset need not be whole; do "
        "not convert it to an integer.",
    ),
    Slip(
        "the offset in float32",
        (ANGLES, f"torch.tensor(float(offset)).double() * {ANGLES[9:]}"),
        "Far offsets between whole numbers lose digits, as if rounded to float32 (torch.tensor of "
        "a fraction is). Multiply the frequencies by the number itself, or say "
        "dtype=torch.float64.",
    ),
)


def by_loops(offset, width, base=10_000.0):
    """Block by block."""
    matrix = torch.zeros(width, width)
    for i in range(0, width, 2):
        angle = offset * base ** (-i / width)
        matrix[i, i] = matrix[i + 1, i + 1] = math.cos(angle)
        matrix[i, i + 1], matrix[i + 1, i] = math.sin(angle), -math.sin(angle)
    return matrix


def by_exponential(offset, width, base=10_000.0):
    """A rotation is the exponential of a skew matrix; far offsets are brought into one turn."""
    angles = (offset * angular_frequencies(width, base)).remainder(2 * math.pi)
    upper = torch.stack((angles, torch.zeros_like(angles)), dim=-1).flatten()[:-1]
    skew = torch.diag(upper, 1) - torch.diag(upper, -1)
    return torch.linalg.matrix_exp(skew).float()


EXERCISE = Exercise(
    chapter="06_positions",
    title="A shift is a rotation",
    goal="Build the one matrix that moves every encoding by the same offset.",
    reference=positions.shift_matrix,
    contract=Contract(
        says=("Good to six digits for offsets up to 100,000, whole or not.", ANEW),
    ),
    properties=(
        Property("a hand-worked example: a quarter turn; two pairs", 1, _worked),
        _moves(
            "M PE(p) = PE(p + offset), the same M for every p",
            2,
            *((1, 6, 10_000.0), (5, 8, 100.0), (17, 16, 517.5)),
        ),
        _moves(
            "no shift, a shift back, parts of a step",
            1,
            *((0, 6, 10_000.0), (-4, 6, 100.0), (1.5, 4, 10_000.0)),
        ),
        Property("a rotation: lengths stay, shifts add up", 1, _rotation),
        Property("exact at an offset of 100,000, in float32", 1, _far),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_loops, by_exponential),
    hints=(
        "Write sin(a + b) and cos(a + b) with a = pθ and b = offset · θ. Which numbers multiply "
        "sin(pθ) and cos(pθ)? Do they depend on p?",
        "For each pair you get a 2 × 2 block with cos(offset · θ) on its diagonal, the sine in "
        "the upper right and minus the sine in the lower left. The blocks lie along the diagonal "
        "of a matrix that is 0 elsewhere.",
        "Angles: offset times angular_frequencies(width, base). Stack cos, sin, −sin, cos on a "
        "new last axis, unflatten it to (2, 2), and hand the blocks to torch.block_diag with a "
        "star. Or fill a matrix of zeros in a loop over pairs. Convert to float32 at the end.",
    ),
    minutes=12,
    difficulty=3,
    importance=4,
)
