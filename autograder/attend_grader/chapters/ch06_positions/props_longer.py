"""Chapter 06, beyond the trained length: what must hold of three ways to slow RoPE down.

The oracles are powers and logarithms of Python's own, number by number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.chapters.ch06_positions.props_absolute import expect_dtype
from attend_grader.checks.compare import FLOAT32, FLOAT64, PRINTED, Tolerance, told_apart
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import agree_untouched

# position_interpolation


def interpolation_worked(subject: Subject, probe: Probe) -> None:
    """A model trained on 4 positions reads 8: every position is halved."""
    want = torch.tensor([0.0, 0.5, 1.5, 3.5], dtype=torch.float64)
    probe.agree(subject, torch.tensor([0, 1, 3, 7]), 4, 8, want=want, tolerance=FLOAT32)


def interpolation_squeezes(subject: Subject, probe: Probe) -> None:
    """Trained over wanted length, whatever the ratio."""
    for trained, length, shape in ((64, 1024, 6), (10, 15, 6), (2048, 8192, (2, 1, 3)), (3, 99, 1)):
        where = torch.from_numpy(probe.rng.integers(0, length, shape))
        want = where.double() * trained / length
        why = f"trained on {trained}, reads {length}; {where.numel()} of its positions"
        probe.agree(subject, where, trained, length, want=want, tolerance=FLOAT32, why=why)


def interpolation_short(subject: Subject, probe: Probe) -> None:
    """A text that fits keeps its positions; one token more, and it is squeezed."""
    where = torch.arange(8)
    for length in (8, 10):
        why, want = "the text fits", where.double()
        probe.agree(subject, where, 10, length, want=want, tolerance=FLOAT32, why=why)
    where = torch.arange(11)
    why, want = "one token too many", where.double() * 10 / 11
    probe.agree(subject, where, 10, 11, want=want, tolerance=FLOAT32, why=why)


def interpolation_kinds(subject: Subject, probe: Probe) -> None:
    """float64 comes out; positions stay as they were."""
    where = torch.tensor([5, 1, 30])
    outcome = probe.agree(subject, where, 8, 31, tolerance=FLOAT32)
    expect_dtype(probe, outcome.value, torch.float64, where, 8, 31)
    probe.agree(subject, where, 8, 31)
    agree_untouched(probe, subject, torch.tensor([1.0, 8.0, 12.0]), 8, 16, tolerance=FLOAT64)


INTERPOLATION = (
    Property("a hand-worked example: twice the trained length", 1, interpolation_worked),
    Property("p times trained over wanted length, for any lengths", 1, interpolation_squeezes),
    Property("a text that fits keeps its positions", 1, interpolation_short),
    Property("float64 comes out; positions stay as they were", 1, interpolation_kinds),
)


def interpolation_draws(rng: np.random.Generator) -> list[Call]:
    """Longer, a little longer, and no longer than what was trained."""
    return [
        Call((torch.from_numpy(rng.integers(1, 40, 5)), 10, 40)),
        Call((torch.arange(15), 10, 15)),
        Call((torch.arange(6), 10, 6)),
        Call((torch.from_numpy(rng.integers(0, 1024, 4)), 64, 1024)),
    ]


# ntk_scale


def ntk_worked(subject: Subject, probe: Probe) -> None:
    """Width 4: the exponent is 4/2, so 3 becomes 9."""
    probe.agree(subject, 4, 100.0, 3.0, want=900.0, tolerance=FLOAT32)


def ntk_slowest(subject: Subject, probe: Probe) -> None:
    """The slowest pair turns `factor` times more slowly."""
    for width, base, factor in ((6, 100.0, 2.0), (64, 10_000.0, 4.0), (16, 500_000.0, 32.0)):
        got = probe.call(subject, width, base, factor).value
        if not isinstance(got, (int, float)) or not got > 0:
            probe.agree(subject, width, base, factor, tolerance=FLOAT32)
        slowest = -(width - 2) / width
        slowed = base**slowest / float(got) ** slowest
        if abs(slowed - factor) > FLOAT32.relative * factor:
            raise probe.miss(
                f"with your base {got:.6g} the slowest pair turns {told_apart(slowed, factor)[0]} "
                f"times more slowly, expected {factor:g} times. Its frequency is base^(−(D−2)/D).",
                width,
                base,
                factor,
            )


def ntk_published(subject: Subject, probe: Probe) -> None:
    """Width 128 and base 10,000: 20,221 for twice the length; nothing for the same length."""
    for factor, want in ((2.0, 20_221.3), (4.0, 40_889.9), (8.0, 82_684.6)):
        why = "Llama's width and base"
        probe.agree(subject, 128, 10_000.0, factor, want=want, tolerance=PRINTED, why=why)
    probe.agree(subject, 128, 10_000.0, 1.0, want=10_000.0, tolerance=FLOAT32, why="factor 1")


def ntk_any(subject: Subject, probe: Probe) -> None:
    """Any width from 4 on, any base and factor; a plain number comes out, to float64's digits."""
    for width in (4, 8, 10, 256):
        base, factor = (round(float(x), 1) for x in probe.rng.uniform((50, 1), (9000, 20)))
        want = math.exp(math.log(base) + math.log(factor) * width / (width - 2))
        probe.agree(subject, width, base, factor, want=want)


NTK = (
    Property("a hand-worked example: width 4", 1, ntk_worked),
    Property("the slowest pair turns factor times more slowly", 1, ntk_slowest),
    Property("Llama's published bases; factor 1", 1, ntk_published),
    Property("any width, base and factor, in float64", 1, ntk_any),
)


def ntk_draws(rng: np.random.Generator) -> list[Call]:
    """Several widths, bases and factors."""
    return [
        Call((width, round(float(rng.uniform(100, 20_000)), 1), round(float(rng.uniform(2, 9)), 2)))
        for width in (4, 6, 64, 128)
    ]


# yarn_frequencies


def blend(
    width: int, base: float, factor: float, trained: int, alpha: float = 1.0, beta: float = 32.0
) -> tuple[Tensor, float]:
    """The answer, pair by pair."""
    found = []
    for i in range(width // 2):
        rate = base ** (-2 * i / width)
        keep = (trained * rate / (2 * math.pi) - alpha) / (beta - alpha)
        keep = min(max(keep, 0.0), 1.0)
        found.append(keep * rate + (1 - keep) * rate / factor)
    return torch.tensor(found, dtype=torch.float64), 1 + 0.1 * math.log(factor)


def yarn_worked(subject: Subject, probe: Probe) -> None:
    """32 and 16 turns between alpha 8 and beta 24: all of the first stays, half of the second."""
    want = (torch.tensor([1.0, 0.3125], dtype=torch.float64), 1.1386)
    trained = 64 * math.pi
    given = (4, 4.0, 4.0, trained, 8.0, 24.0)
    why = "frequencies 1 and 1/2, which make 32 and 16 turns"
    for part in (0, 1):
        probe.agree(subject, *given, want=want, part=part, tolerance=PRINTED, why=why)


PAIR = Tolerance(
    "a pair's own frequency",
    1e-5,
    "relative to itself, as the slowest pair is 10⁴ times slower than the fastest; float32 rounds "
    "at 6e-8, and a kept share that is off by this moves a slow pair by up to 16 times as much",
)


def _hold_pairs(
    subject: Subject,
    probe: Probe,
    *given: Any,
    alpha: float = 1.0,
    beta: float = 32.0,
    beyond: bool = False,
) -> None:
    """Hold each pair's frequency to the oracle's; ``beyond``: only where there is no ramp.

    Raises:
        Miss: structure or shape differs, or a frequency.
    """
    want = blend(*given, alpha=alpha, beta=beta)
    value = probe.call(subject, *given, alpha=alpha, beta=beta).value
    found = value[0] if isinstance(value, (tuple, list)) and len(value) == 2 else torch.empty(0)
    shaped = isinstance(found, Tensor) and found.is_floating_point()
    if not (shaped and found.shape == want[0].shape and beyond):
        ends: dict[str, Any] = {"alpha": alpha, "beta": beta}
        probe.agree(subject, *given, want=want, part=0, tolerance=FLOAT32, **ends)
    plain = blend(given[0], given[1], 1.0, given[3])[0]
    for rate, right, got in zip(plain.tolist(), want[0].tolist(), found.tolist(), strict=True):
        turns = given[3] * rate / (2 * math.pi)
        if (beyond and alpha <= turns <= beta) or abs(got - right) <= PAIR.relative * right:
            continue
        mine, expected = told_apart(got, right)
        text = f"a pair with {turns:.3g} turns has the frequency {mine}, expected {expected}."
        raise probe.miss(text, *given, alpha=alpha, beta=beta)


def yarn_ends(subject: Subject, probe: Probe) -> None:
    """More than beta turns: as before. Fewer than alpha: divided by the factor."""
    _hold_pairs(subject, probe, 64, 10_000.0, 8.0, 4096, beyond=True)


def yarn_ramp(subject: Subject, probe: Probe) -> None:
    """Between alpha and beta turns the share kept grows linearly with the turns."""
    for _ in probe.repeat(1, 3):
        for width, base, factor, trained, alpha, beta in (
            (128, 10_000.0, 16.0, 4096, 1.0, 32.0),
            (64, 500_000.0, 4.0, 8192, 1.0, 4.0),
            (16, 100.0, 2.0, 64, 0.5, 8.0),
        ):
            trained += int(probe.rng.integers(0, 50))
            _hold_pairs(subject, probe, width, base, factor, trained, alpha=alpha, beta=beta)


def yarn_scale(subject: Subject, probe: Probe) -> None:
    """0.1 ln(factor) + 1, to float64's digits; a factor of 1 changes nothing at all."""
    for factor, printed in ((16.0, 1.2773), (32.0, 1.3466)):
        want = (blend(128, 10_000.0, factor, 4096)[0], printed)
        given = (128, 10_000.0, factor, 4096)
        why = f"factor {factor:g}"
        probe.agree(subject, *given, want=want, part=1, tolerance=PRINTED, why=why)
    given = (16, 100.0, round(float(probe.rng.uniform(2, 20)), 1), 64)
    probe.agree(subject, *given, want=blend(*given), part=1)
    want = (blend(64, 10_000.0, 1.0, 64)[0], 1.0)
    for part in (0, 1):
        given, why = (64, 10_000.0, 1.0, 64), "factor 1, where nothing changes"
        probe.agree(subject, *given, want=want, part=part, tolerance=FLOAT32, why=why)


def yarn_kinds(subject: Subject, probe: Probe) -> None:
    """Frequencies at odd sizes, to float64's digits, and in float64."""
    for width, trained in ((2, 30), (6, 100), (10, 1000)):
        factor = round(float(probe.rng.uniform(2, 20)), 1)
        given = (width, 300.0, factor, trained)
        outcome = probe.agree(subject, *given, part=0)
        expect_dtype(probe, outcome.value[0], torch.float64, *given)


YARN = (
    Property("a hand-worked example: 32 and 16 turns", 1, yarn_worked),
    Property("many turns: as before; less than one: slowed", 1, yarn_ends),
    Property("in between, linear in the number of turns", 2, yarn_ramp),
    Property("the factor for queries and keys, as published", 1, yarn_scale),
    Property("any width; frequencies in float64", 1, yarn_kinds),
)


def yarn_draws(rng: np.random.Generator) -> list[Call]:
    """Many pairs on the ramp, other ends of it, a short training, factor 1."""
    factors = [round(float(f), 1) for f in rng.uniform(2, 30, 4)]
    return [
        Call((64, 10_000.0, factors[0], 4096)),
        Call((32, 500_000.0, factors[1], 8192), {"alpha": 2.0, "beta": 16.0}),
        Call((8, 100.0, factors[2], 64), {"beta": 8.0}),
        Call((16, 10_000.0, factors[3], 512)),
        Call((16, 10_000.0, 1.0, 512)),
    ]
