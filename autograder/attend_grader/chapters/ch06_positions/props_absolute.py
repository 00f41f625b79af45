"""Chapter 06, sines: what must hold of the sinusoidal encoding and of its shift.

The oracle is Python's own ``math`` in float64, number by number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.compare import FLOAT32, PRINTED, Miss, Tolerance, expect_close
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import agree_untouched, normal

FAR = 100_000

ROUNDED = Tolerance(
    "one rounding",
    1e-6,
    "sines of float64 angles, rounded once to float32, are off by 6e-8; float32 angles at position "
    "10⁵ by thousandths",
)


def encode(positions: Sequence[float], width: int, base: float = 10_000.0) -> Tensor:
    """PE of each position (T, C) in float64: sine and cosine of each angle in turn."""
    rates = [base ** (-2 * i / width) for i in range(width // 2)]
    rows = [[wave(p * rate) for rate in rates for wave in (math.sin, math.cos)] for p in positions]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(positions), width)


def expect_dtype(probe: Probe, value: Any, kind: torch.dtype, *args: Any, **kwargs: Any) -> None:
    """Hold an answer to a dtype.

    Raises:
        Miss: it has another.
    """
    if getattr(value, "dtype", kind) != kind:
        todo = "convert the finished result."
        if kind == torch.float64:
            todo = "work in float64 from the start, as converting late brings no digits back."
        raise probe.miss(
            f"your answer has dtype {value.dtype}, expected {kind}: {todo}",
            *args,
            **kwargs,
        )


# sinusoidal_encoding


def _layout(positions: Sequence[float], width: int, base: float = 10_000.0) -> Any:
    right = encode(positions, width, base).numpy()
    halves = np.concatenate((right[:, ::2], right[:, 1::2]), axis=1)
    swapped = right.reshape(len(positions), -1, 2)[..., ::-1].reshape(right.shape)
    usual = encode(positions, width).numpy()

    def clue(value: Any) -> str:
        if np.allclose(value, halves, atol=1e-4):
            return "The numbers are right, but sines come first here: let them take turns."
        if np.allclose(value, swapped, atol=1e-4):
            return "Sine and cosine have changed places: even columns hold the sine."
        if base != 10_000.0 and np.allclose(value, usual, atol=1e-4):
            return "That is base 10,000: use the argument."
        return ""

    return clue


def sinusoid_worked(subject: Subject, probe: Probe) -> None:
    """Width 4 and base 100: a radian and a tenth of one for each step."""
    want = torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.0998, 0.9950]])
    where = torch.tensor([0, 1])
    clue = _layout([0, 1], 4, 100.0)
    probe.agree(subject, where, 4, base=100.0, want=want, tolerance=PRINTED, clue=clue)


def sinusoid_pairs(subject: Subject, probe: Probe) -> None:
    """Columns 2i and 2i + 1 share a frequency, the first pair has 1."""
    for width in (2, 6, 10, 64):
        where = sorted(int(p) for p in probe.rng.integers(1, 60, 5))
        want = encode(where, width)
        why, clue = f"width = {width}", _layout(where, width)
        probe.agree(
            subject, torch.tensor(where), width, want=want, tolerance=FLOAT32, why=why, clue=clue
        )


def sinusoid_base(subject: Subject, probe: Probe) -> None:
    """The base sets how slow the slowest pair is."""
    for base in (100.0, 500_000.0):
        where = [int(p) for p in probe.rng.integers(1, 60, 4)]
        want = encode(where, 8, base)
        given = torch.tensor(where)
        why, clue = f"base = {base:g}", _layout(where, 8, base)
        probe.agree(subject, given, 8, base=base, want=want, tolerance=FLOAT32, why=why, clue=clue)


def sinusoid_anywhere(subject: Subject, probe: Probe) -> None:
    """Any positions in any order, also between whole numbers and below 0."""
    for where in ([7, 3, 3, 12, 0], [0.5, -2.25, 10.75], [40]):
        want = encode(where, 6)
        why, clue = "positions as they come, not 0, 1, 2 …", _layout(where, 6)
        given = torch.tensor(where)
        probe.agree(subject, given, 6, want=want, tolerance=FLOAT32, why=why, clue=clue)


def sinusoid_far(subject: Subject, probe: Probe) -> None:
    """Positions about 10⁵: angles in float32 would be off in the third decimal."""
    where = [FAR + int(p) for p in probe.rng.integers(0, 1000, 4)]
    why = "positions about 100,000, where float32 angles are off by thousandths"
    want, clue = encode(where, 16), _layout(where, 16)
    given = torch.tensor(where)
    probe.agree(subject, given, 16, want=want, tolerance=ROUNDED, why=why, clue=clue)


def sinusoid_kinds(subject: Subject, probe: Probe) -> None:
    """float32 comes out, whatever the positions are; and they stay as they were."""
    where = torch.tensor([2, 0, 5])
    outcome = probe.agree(subject, where, 4, tolerance=FLOAT32, clue=_layout([2, 0, 5], 4))
    expect_dtype(probe, outcome.value, torch.float32, where, 4)
    outcome = probe.agree(subject, where.double(), 4, tolerance=FLOAT32, why="float64 positions")
    expect_dtype(probe, outcome.value, torch.float32, where.double(), 4)
    agree_untouched(probe, subject, torch.tensor([3.0, 1.0, 8.0]), 6)


SINUSOID = (
    Property("a hand-worked example: width 4, base 100", 1, sinusoid_worked),
    Property("sine and cosine take turns, a frequency for each pair", 2, sinusoid_pairs),
    Property("the base sets the frequencies", 1, sinusoid_base),
    Property("any positions, in any order, also below 0", 1, sinusoid_anywhere),
    Property("exact at position 100,000", 1, sinusoid_far),
    Property("float32 comes out; positions stay as they were", 1, sinusoid_kinds),
)


def sinusoid_draws(rng: np.random.Generator) -> list[Call]:
    """From 0 on; unordered; another base; between whole numbers; T = C; far out."""
    return [
        Call((torch.arange(5), 8)),
        Call((torch.from_numpy(rng.integers(0, 50, 4)), 6), {"base": 300.0}),
        Call((normal(rng, 5).abs() * 10, 4)),
        Call((torch.from_numpy(rng.integers(1, 20, 6)), 6)),
        Call((torch.from_numpy(FAR + rng.integers(0, 999, 3)), 10)),
    ]


# shift_matrix


def shift_worked(subject: Subject, probe: Probe) -> None:
    """A quarter turn of one pair; a pair and one ten times slower."""
    want = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    probe.agree(subject, math.pi / 2, 2, want=want, tolerance=PRINTED, why="a quarter turn")
    c, s, slow_c, slow_s = math.cos(2.0), math.sin(2.0), math.cos(0.2), math.sin(0.2)
    want = torch.tensor(
        [[c, s, 0, 0], [-s, c, 0, 0], [0, 0, slow_c, slow_s], [0, 0, -slow_s, slow_c]]
    )
    why = "offset 2, angles 2 and 0.2"
    probe.agree(subject, 2, 4, base=100.0, want=want, tolerance=PRINTED, why=why)


def _matrix(subject: Subject, probe: Probe, offset: float, width: int, **kwargs: Any) -> Tensor:
    """The candidate's matrix in float64, once it is one."""
    value = probe.call(subject, offset, width, **kwargs).value
    if not isinstance(value, Tensor) or value.shape != (width, width):
        probe.agree(subject, offset, width, tolerance=FLOAT32, **kwargs)
    return value.double()


def _hold(probe: Probe, got: Tensor, want: Tensor, what: str, *args: Any, **kwargs: Any) -> None:
    """Hold what is made of candidates' matrices to what it must be."""
    try:
        expect_close(got, want, FLOAT32, what)
    except Miss as miss:
        raise miss.on(probe.given(args, kwargs), "") from None


def shift_proof(subject: Subject, probe: Probe) -> None:
    """One matrix takes every PE(p) to PE(p + k)."""
    for offset, width, base in ((1, 6, 10_000.0), (5, 8, 100.0), (17, 16, 10_000.0)):
        matrix = _matrix(subject, probe, offset, width, base=base)
        where = [int(p) for p in probe.rng.integers(0, 200, 4)]
        moved = encode([p + offset for p in where], width, base)
        got = encode(where, width, base) @ matrix.T
        what = f"M @ PE(p), a row for each p of {', '.join(map(str, where))}: entry "
        _hold(probe, got, moved, what, offset, width, base=base)


def shift_group(subject: Subject, probe: Probe) -> None:
    """A rotation keeps lengths, and shifts add up."""
    for width in (4, 10):
        one, two, both = (_matrix(subject, probe, k, width) for k in (2, 5, 7))
        what = "your shift by 5 times your shift by 2, which must be your shift by 7: entry "
        _hold(probe, two @ one, both, what, 7, width)
        what = "M times its transpose, which must be the identity: entry "
        _hold(probe, one @ one.T, torch.eye(width).double(), what, 2, width)


def shift_zero(subject: Subject, probe: Probe) -> None:
    """No shift changes nothing, and a shift back undoes the one forth; parts of a step too."""
    probe.agree(subject, 0, 6, want=torch.eye(6), tolerance=FLOAT32, why="offset 0")
    for offset in (4, 1.5):
        forth, back = (_matrix(subject, probe, k, 6) for k in (offset, -offset))
        what = (
            f"your shift by {-offset} times your shift by {offset}, which must be the identity, "
            "as it takes back what the other did: entry "
        )
        _hold(probe, back @ forth, torch.eye(6).double(), what, -offset, 6)
        turned = encode([10 + offset], 6)
        _hold(probe, encode([10.0], 6) @ forth.T, turned, "M @ PE(10), a row: entry ", offset, 6)


def shift_far(subject: Subject, probe: Probe) -> None:
    """An offset of 10⁵ as exactly; float32 comes out."""
    offset = FAR + int(probe.rng.integers(0, 1000))
    why = "an offset about 100,000, where float32 angles are off by thousandths"
    outcome = probe.agree(subject, offset, 8, tolerance=ROUNDED, why=why)
    expect_dtype(probe, outcome.value, torch.float32, offset, 8)


SHIFT = (
    Property("a hand-worked example: a quarter turn; two pairs", 1, shift_worked),
    Property("M PE(p) = PE(p + offset), the same M for every p", 2, shift_proof),
    Property("a rotation: lengths stay, shifts add up", 1, shift_group),
    Property("no shift; back and forth; parts of a step", 1, shift_zero),
    Property("exact at an offset of 100,000, in float32", 1, shift_far),
)


def shift_draws(rng: np.random.Generator) -> list[Call]:
    """Whole offsets, another base, backwards, parts of a step, far (where roundings tell apart)."""
    return [
        Call((int(rng.integers(1, 9)), 6)),
        Call((int(rng.integers(1, 9)), 4), {"base": 100.0}),
        Call((-int(rng.integers(1, 9)), 8)),
        Call((round(float(rng.uniform(0.1, 0.9)), 2), 2)),
        Call((FAR + int(rng.integers(0, 999)), 64)),
    ]
