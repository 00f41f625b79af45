"""Exercise 06_positions/sinusoidal_encoding: sines and cosines."""

from __future__ import annotations

import math

import numpy as np
import torch
from attend_solutions import positions as solutions

from attend_grader.chapters.ch06_positions.shared import (
    FAR,
    MILLION,
    NEARLY_WHOLE,
    NO_FLOAT32,
    READY_MADE,
    REORDERED,
    ROUNDED,
    THIRD,
    comes_out,
    reordered,
)
from attend_grader.checks.compare import FLOAT32 as SINGLE
from attend_grader.checks.compare import PRINTED
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.torch_properties import normal


def _pairs(rng: np.random.Generator) -> Fresh:
    for width in (2, 6, 10, 64, 300):
        yield f"width = {width}", Call((torch.from_numpy(np.sort(rng.integers(1, 60, 5))), width))


def _bases(rng: np.random.Generator) -> Fresh:
    for base in (100.0, 500_000.0, 17.5):
        yield f"base = {base:g}", Call((torch.from_numpy(rng.integers(1, 60, 4)), 8, base))


def _anywhere(rng: np.random.Generator) -> Fresh:
    del rng
    for where in ([7, 3, 3, 12, 0], [0.5, -2.25, 10.75], [40]):
        yield "positions as they come, not 0, 1, 2 …", Call((torch.tensor(where), 6))
    for why, where in reordered():
        yield why, Call((where, 6))
    yield "the same, with base 50", Call((torch.tensor(REORDERED[1]), 6, 50.0))


def _far(rng: np.random.Generator) -> Fresh:
    why = "where float32 angles are off by thousandths"
    where = torch.from_numpy(FAR + rng.integers(0, 1000, 4))
    yield f"positions about 100,000, {why}", Call((where, 16))
    between = torch.tensor([FAR + THIRD, -FAR - 5.1, THIRD], dtype=torch.float64)
    yield f"float64 positions between whole numbers, {why}", Call((between, 16))
    nearly = FAR + torch.tensor(NEARLY_WHOLE, dtype=torch.float64)
    yield "float64 positions near whole numbers, about 100,000", Call((nearly, 16))
    end = torch.from_numpy(MILLION - rng.integers(0, 1000, 3))
    yield "positions about a million", Call((torch.cat((end, -end)), 64))
    yield f"base {NO_FLOAT32}, positions about 100,000", Call((where, 16, NO_FLOAT32))


def draws(rng: np.random.Generator) -> list[Call]:
    """From 0 on; unordered; another base; between whole numbers; T = C; far out."""
    some, six, far, one = (torch.from_numpy(rng.integers(1, 50, n)) for n in (4, 6, 3, 1))
    between = (10 * normal(rng, 5)).round(decimals=1)
    made = [Call(each) for each in ((torch.arange(5), 8), (between, 4), (six, 6), (FAR + far, 10))]
    return [*made, Call((some, 6), {"base": 300.5}), Call((one.float(), 2), {"base": 50.0})]


def wide(rng: np.random.Generator) -> list[Call]:
    """A long text."""
    del rng
    return [Call((torch.arange(5_000), 4))]


ANGLES = "positions[:, None] * angular_frequencies(width, base)"
WAVES = "(angles.sin(), angles.cos())"
STACKED = f"torch.stack({WAVES}, dim=-1).flatten(-2)"

SLIPS = (
    Slip(
        "sines first, then cosines",
        (STACKED, f"torch.cat({WAVES}, dim=-1)"),
        "All sines come first, then all cosines. They should take turns: column 2i the sine, 2i + "
        "1 the cosine of an angle. Stack the two along a new last axis and flatten it.",
    ),
    Slip(
        "cosine before sine",
        (WAVES, "(angles.cos(), angles.sin())"),
        "Your even columns hold cosines. Position 0 must read 0, 1, 0, 1, …: put the sine first.",
    ),
    Slip(
        "a frequency for every column",
        (
            ("width, base)", "2 * width, base)"),
            (WAVES, "(angles[:, ::2].sin(), angles[:, 1::2].cos())"),
        ),
        "Every column has a frequency of its own. The two columns of a pair should share one: let "
        "column 2i + 1 be the cosine of the very angle whose sine is in column 2i.",
    ),
    Slip(
        "exponent i/C instead of 2i/C",
        ("width, base)", "2 * width, base)[: width // 2]"),
        "Your frequencies fall too slowly: the exponent is −i / C where it must be −2i / C.",
    ),
    Slip(
        "frequencies grow",
        (ANGLES, ANGLES.replace("*", "/")),
        "Your frequencies grow from pair to pair: the position is multiplied by base^(2i/C), or "
        "divided by a frequency. They must fall: multiply by angular_frequencies(width, base).",
    ),
    Slip(
        "counted instead of reading positions",
        ("positions[:, None]", "torch.arange(len(positions))[:, None]"),
        "You encode 0, 1, 2, … whatever the positions are. Use the numbers in `positions`.",
    ),
    Slip(
        "angles in float32",
        (ANGLES, "positions[:, None].float() * angular_frequencies(width, base).float()"),
        "Digits are lost, more of them farther out: the angles were rounded to float32. "
        "Multiply in float64, take sine and cosine, and only then convert.",
    ),
)


def by_loops(positions, width, base=10_000.0):
    """Number by number, with Python's own sine."""
    table = torch.zeros(len(positions), width)
    for row, p in enumerate(positions.tolist()):
        for i in range(0, width, 2):
            angle = p / base ** (i / width)
            table[row, i], table[row, i + 1] = math.sin(angle), math.cos(angle)
    return table


def by_columns(positions, width, base=10_000.0):
    """Fills the even columns, then the odd ones; the exponential of a logarithm."""
    rates = torch.exp(torch.arange(0, width, 2).double() * (-math.log(base) / width))
    angles = torch.outer(positions.to(torch.float64), rates)
    table = torch.zeros(len(positions), width)
    table[:, 0::2] = torch.sin(angles)
    table[:, 1::2] = torch.cos(angles)
    return table


EXERCISE = Exercise(
    chapter="06_positions",
    title="Sines and cosines",
    goal="Encode any position by pairs of sines and cosines, exactly even at a million.",
    reference=solutions.sinusoidal_encoding,
    contract=Contract(
        accepts=(FLOAT32, FLOAT64, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"positions": AS_DRAWN},
        says=("Good to six digits up to a million.",),
        forbids=READY_MADE,
    ),
    properties=(
        worked(
            "a hand-worked example: width 4, base 100",
            torch.tensor([0, 1]),
            4,
            base=100.0,
            want=torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.0998, 0.9950]]),
            tolerance=PRINTED,
        ),
        agrees(
            "sine and cosine in turn, pair by pair", _pairs, points=2, repeat=1, tolerance=SINGLE
        ),
        agrees("the base sets the frequencies", _bases, repeat=1, tolerance=SINGLE),
        agrees("any positions, in any order, also below 0", _anywhere, repeat=1, tolerance=SINGLE),
        agrees("exact at positions up to a million", _far, repeat=1, tolerance=ROUNDED),
        comes_out(torch.float32, (torch.tensor([2, 0, 5]), 4), (torch.tensor([2.5]).double(), 4)),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives=(by_loops, by_columns),
    hints=(
        "How large is the table of angles: a row for each position, a column for each frequency? "
        "Which two axes must meet so that each position is multiplied by each frequency?",
        "Positions as a column times the frequencies as a row give the angles (T, C/2), in "
        "float64. Sine and cosine of an angle must end up next to each other: put them side by "
        "side on a new last axis, then merge the last two axes.",
        "positions[:, None] times angular_frequencies(width, base); torch.stack of the sine and "
        "the cosine with dim=-1 gives (T, C/2, 2); flatten(-2) makes it (T, C); convert to "
        "float32 at the very end.",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
)
