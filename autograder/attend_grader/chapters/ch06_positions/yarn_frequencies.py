"""Exercise 06_positions/yarn_frequencies: YaRN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from attend_solutions import longer_positions
from attend_solutions.positions import angular_frequencies
from torch import Tensor

from attend_grader.chapters.ch06_positions.shared import NO_FLOAT32, READY_MADE, python_float
from attend_grader.checks.compare import FLOAT32, PRINTED, Tolerance, told_apart
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import ANEW, Fresh, agrees, worked
from attend_grader.checks.subject import Subject

PAIR = Tolerance(
    "a pair's own frequency",
    1e-5,
    "relative to itself, as the slowest pair is 10⁴ times slower than the fastest; float32 rounds "
    "at 6e-8, and a kept share that is off by this moves a slow pair by up to 16 times as much",
)


def _hold_pairs(subject: Subject, probe: Probe, *given: Any, beyond: bool = False) -> None:
    """Hold each pair's frequency to the right one; ``beyond``: only where there is no ramp.

    Raises:
        Miss: structure or shape differs, or a frequency.
    """
    width, base, _, trained, alpha, beta = given
    want = probe.reference(*given)
    value = probe.call(subject, *given).value
    found = value[0] if isinstance(value, (tuple, list)) and len(value) == 2 else torch.empty(0)
    shaped = isinstance(found, Tensor) and found.is_floating_point()
    if not (shaped and found.shape == want[0].shape and beyond):
        probe.agree(subject, *given, want=want, part=0, tolerance=FLOAT32)
    rates = angular_frequencies(width, base)
    triples = zip(rates.tolist(), want[0].tolist(), found.tolist(), strict=True)
    for rate, right, got in triples:
        turns = trained * rate / (2 * math.pi)
        if (beyond and alpha <= turns <= beta) or abs(got - right) <= PAIR.relative * right:
            continue
        mine, expected = told_apart(got, right)
        text = f"a pair with {turns:.3g} turns has the frequency {mine}, expected {expected}."
        raise probe.miss(text, *given)


def _ends(subject: Subject, probe: Probe) -> None:
    """More than beta turns: as before. Fewer than alpha: divided by the factor."""
    _hold_pairs(subject, probe, 64, 10_000.0, 8.0, 4096, 1.0, 32.0, beyond=True)


def _ramp(subject: Subject, probe: Probe) -> None:
    """Between alpha and beta turns the share kept grows linearly with the turns."""
    for _ in probe.repeat(1, 3):
        for width, base, factor, trained, *ends in (
            (128, 10_000.0, 16.0, 4096, 1.0, 32.0),
            (64, 500_000.0, 4.0, 8192, 1.0, 4.0),
            (16, 100.0, 2.0, 64, 0.5, 8.0),
        ):
            trained += int(probe.rng.integers(0, 50))
            _hold_pairs(subject, probe, width, base, factor, trained, *ends)


def _scale(subject: Subject, probe: Probe) -> None:
    """0.1 ln(factor) + 1; a factor of 1 changes nothing at all."""
    drawn = round(float(probe.rng.uniform(2, 20)), 1)
    for factor in (16.0, 32.0, drawn, 1.0):
        given = (64, 10_000.0, factor, 64)
        why = "factor 1, where nothing changes" if factor == 1 else f"factor {factor:g}"
        value = probe.agree(subject, *given, part=1, why=why).value
        python_float(value[1], probe, "scale", *given)


def _widths(rng: np.random.Generator) -> Fresh:
    """To float64's digits, and in float64; without a factor they stay."""
    for width, trained in ((2, 30), (6, 100), (10, 1000)):
        given = (width, NO_FLOAT32, float(rng.uniform(2, 20)), trained)
        yield f"width = {width}", Call(given)
    yield "alpha and beta between whole numbers", Call((8, 50.0, 3.0, 200, 0.7, 1 + 20 / 3))
    yield "every pair as before", Call((6, 100.0, 8.0, 100_000))
    yield "every pair slowed", Call((6, 100.0, 8.0, 5))
    yield "a long training, a large factor", Call((300, 1e6, 100.0, 1_000_000, 2.0, 900.0))
    yield "factor 1, where nothing changes", Call((64, 10_000.0, 1.0, 64))


def draws(rng: np.random.Generator) -> list[Call]:
    """Many pairs on the ramp, other ends, a short training, factor 1; all kept, all slowed."""
    factors = [round(float(f), 1) for f in rng.uniform(2, 30, 4)]
    return [
        Call((64, 10_000.0, factors[0], 4096)),
        Call((32, 500_000.0, factors[1], 8192), {"alpha": 2.0, "beta": 16.0}),
        Call((8, 90.5, factors[2], 64), {"beta": 8.0}),
        Call((16, 10_000.0, factors[3], 512)),
        Call((16, 10_000.0, 1.0, 512)),
        Call((8, 100.0, factors[0], 63), {"alpha": 0.9, "beta": 1.2}),
        Call((6, 100.0, factors[1], 100_000)),
        Call((10, 10_000.0, factors[2], 5)),
        Call((12, 10_000.0, factors[3], 256), {"alpha": 0.0, "beta": 4.0}),
    ]


TURNS = "/ (2 * math.pi)"
KEPT = "(turns - alpha) / (beta - alpha)"
BLEND = "keep * plain + (1 - keep) * plain / factor"
KEEP = f"keep = ({KEPT}).clamp(0, 1)"
BY_INDEX = """places = [
        width * math.log(trained_length / (ends * 2 * math.pi)) / (2 * math.log(base))
        for ends in (beta, alpha)
    ]
    low, high = max(math.floor(places[0]), 0), min(math.ceil(places[1]), width - 1)
    pairs = torch.arange(width // 2, dtype=torch.float64)
    keep = 1 - ((pairs - low) / max(high - low, 1e-3)).clamp(0, 1)"""
PLAIN_INDEX = """ends = [
        width * math.log(trained_length / (end * 2 * math.pi)) / (2 * math.log(base))
        if end else math.inf
        for end in (beta, alpha)
    ]
    keep = 1 - ((torch.arange(width // 2) - ends[0]) / (ends[1] - ends[0])).clamp(0, 1)"""

SLIPS = (
    Slip(
        "ramp the wrong way",
        (KEEP, f"keep = 1 - ({KEPT}).clamp(0, 1)"),
        "Fast pairs are slowed and slow pairs kept: the ramp runs the wrong way. A pair with many "
        "turns should keep its frequency.",
    ),
    Slip(
        "radians instead of turns",
        (TURNS, ""),
        "Your turns are 2π times too many: trained_length · θ is an angle in radians. Divide it by "
        "a full turn, 2π.",
    ),
    Slip(
        "ramp over the index",
        (KEEP, BY_INDEX),
        "Your ramp is linear in the pair's index, as in the code released with the paper. The "
        "paper's definition, which is asked for here, is linear in the number of turns.",
    ),
    Slip(
        "ramp over the index, ends not rounded",
        (KEEP, PLAIN_INDEX),
        "Your ramp is linear in the pair's index, as in the code released with the paper (which "
        "rounds its ends). The paper's definition, asked for here, is linear in the turns.",
    ),
    Slip(
        "a step instead of a ramp",
        (KEEP, "keep = (turns > beta).double()"),
        "Pairs are either kept or slowed, with no ramp between: let those between alpha and beta "
        "turns keep a share that grows from 0 to 1.",
    ),
    Slip(
        "turns in the longer text",
        (f"plain {TURNS}", f"plain * factor {TURNS}"),
        "Your turns come out as if counted in the longer text, factor times as many. Count those "
        "in trained_length: what a pair has shown in training.",
    ),
    Slip(
        "blended divisors",
        (BLEND, "plain / (keep + (1 - keep) * factor)"),
        "Your frequencies come out as if the divisors, 1 and factor, were blended. Blend the "
        "frequencies themselves, θ and θ / factor: the two agree only where the share is 0 or 1, "
        "or factor is 1.",
    ),
    Slip(
        "logarithm to base 10",
        ("math.log(", "math.log10("),
        "Your second result is too small with a factor above 1, as if made with the logarithm to "
        "base 10. ln is math.log.",
    ),
)


def by_loops(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Pair by pair, asking where on the ramp it is."""
    found = []
    for i in range(0, width, 2):
        rate = 1 / base ** (i / width)
        turns = trained_length / (2 * math.pi / rate)
        if turns < alpha:
            found.append(rate / factor)
        elif turns > beta:
            found.append(rate)
        else:
            keep = (turns - alpha) / (beta - alpha)
            found.append((1 - keep) * rate / factor + keep * rate)
    return torch.tensor(found, dtype=torch.float64), 1 + math.log(factor) / 10


def by_lerp(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """lerp between the slowed and the plain frequencies, by wavelengths."""
    plain = angular_frequencies(width, base)
    wavelengths = 2 * torch.pi / plain
    share = torch.clamp((trained_length / wavelengths - alpha) / (beta - alpha), min=0, max=1)
    return torch.lerp(plain / factor, plain, share), float(0.1 * np.log(factor) + 1.0)


EXERCISE = Exercise(
    chapter="06_positions",
    title="YaRN",
    goal="Slow the pairs that never turned full circle, keep the fast ones, blend between.",
    reference=longer_positions.yarn_frequencies,
    contract=Contract(says=("Both are right to the digits of float64.", ANEW), forbids=READY_MADE),
    properties=(
        worked(
            "a hand-worked example: 32 and 16 turns",
            *(4, 4.0, 4.0, 64 * math.pi, 8.0, 24.0),
            want=(torch.tensor([1.0, 0.3125], dtype=torch.float64), 1.1386),
            parts=(0, 1),
            tolerance=PRINTED,
            why="frequencies 1 and 1/2, which make 32 and 16 turns",
        ),
        Property("many turns: as before; less than one: slowed", 1, _ends),
        Property("in between, linear in the number of turns", 2, _ramp),
        Property("the factor for queries and keys, as published", 1, _scale),
        agrees("any width; frequencies in float64", _widths, repeat=1, part=0),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_loops, by_lerp),
    hints=(
        "How many full turns does a pair with frequency θ make in trained_length steps? Which "
        "share of θ does it keep at alpha turns, at beta turns, and halfway between?",
        "turns = trained_length · θ / 2π. The share is (turns − alpha) / (beta − alpha), held "
        "between 0 and 1. The new frequency is share · θ + (1 − share) · θ / factor.",
        "θ = angular_frequencies(width, base); clamp the share with .clamp(0, 1); return two "
        "things: the blended frequencies, and 0.1 * math.log(factor) + 1.",
    ),
    minutes=12,
    difficulty=3,
    importance=3,
    results=("frequencies", "scale"),
)
