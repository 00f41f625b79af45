"""Exercise 24_mamba/discretize_selective: what a step keeps, and what it adds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba

from attend_grader.chapters.ch24_mamba import READY_MADE
from attend_grader.chapters.ch24_mamba.shared import scanned
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.sizes import AS_DRAWN


def _case(rng: np.random.Generator, *sizes: int) -> Call:
    _, delta, a, b, _ = scanned(rng, *sizes)
    return Call((delta, a, b))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 3, 4, 5), (3, 3, 3, 3), (1, 6, 2, 1)):
        yield "", _case(rng, *sizes)
    delta, a, b = _case(rng, 2, 3, 4, 2).args
    yield "Δ = 0: all is kept, nothing is added", Call((0 * delta, a, b))
    yield "rates near −200 and Δ near 0.005", Call((0.005 * delta, 200 * a, b))
    yield "Δ = 50 and rates of −10⁻⁵", Call((0 * delta + 50, 0 * a - 1e-5, b))
    yield "Δ = 50 and rates below −4: all is forgotten", Call((0 * delta + 50, 40 * a, b))


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, all the same, one token, one channel."""
    sizes = ((2, 3, 4, 5), (3, 3, 3, 3), (2, 1, 3, 2), (1, 4, 1, 3))
    return [_case(rng, *one) for one in sizes]


SLIPS = (
    Slip(
        "b without Δ",
        ("step * b[..., None, :]", "b[..., None, :].expand(*delta.shape, -1)"),
        "The gain is b itself. A long step must write more: multiply b by Δ.",
    ),
    Slip(
        "no exponential",
        ("torch.exp(step * a)", "step * a"),
        "The decay is Δ a, which is never above 0. What a step keeps should be exp(Δ a), from 0 "
        "to 1.",
    ),
    Slip(
        "a first-order decay",
        ("torch.exp(step * a)", "1 + step * a"),
        "The decay is 1 + Δ a, which is nearly right only where Δ a is near 0, and is below −1 "
        "where Δ a is below −2. It should be exp(Δ a).",
    ),
    Slip(
        "a growing state",
        ("torch.exp(step * a)", "torch.exp(-step * a)"),
        "The decay is above 1 wherever Δ is above 0, as exp(−Δ a) is, so the state can grow. a is "
        "negative already: take exp(Δ a).",
    ),
    Slip(
        "the exact gain",
        ("step * b[..., None, :]", "torch.expm1(step * a) / a * b[..., None, :]"),
        "This is the exact gain of a held input, (exp(Δ a) − 1) / a · b, as in chapter 23. Mamba's "
        "code takes the first-order Δ b, and so does this exercise.",
    ),
    Slip(
        "exp of Δ in the decay",
        ("torch.exp(step * a)", "torch.exp(torch.exp(step) * a)"),
        "In the decay exp is taken of Δ as well. Δ is the step size itself: only Δ a should go "
        "through exp.",
    ),
    Slip(
        "the gain is faded too",
        ("step * b[..., None, :]", "step * b[..., None, :] * torch.exp(step * a)"),
        "The gain is Δ b times the decay. Only the old state should fade: leave the gain at Δ b.",
    ),
    Slip(
        "powers of two",
        ("torch.exp(step * a)", "torch.exp2(step * a)"),
        "The decay is 2 to the power of Δ a. It should be e to that power: torch.exp.",
    ),
    Slip(
        "a and b exchanged",
        (
            "torch.exp(step * a), step * b[..., None, :]",
            "torch.exp(step * b[..., None, :]), step * a",
        ),
        "a and b are exchanged: the decay is made from b, the gain from a. Make exp(Δ a) and Δ b.",
    ),
    Slip(
        "the same rates for all channels",
        ("torch.exp(step * a)", "torch.exp(step * a.mean(0))"),
        "All channels decay at the same rates. a has a row for each of the E channels.",
    ),
)


def with_einsum(delta, a, b):
    """Two outer products."""
    return torch.einsum("bte,en->bten", delta, a).exp(), torch.einsum("bte,btn->bten", delta, b)


def as_powers(delta, a, b):
    """The decay as a power of e, and everything by unsqueeze."""
    decay = torch.pow(math.e, delta.unsqueeze(-1) * a.unsqueeze(0).unsqueeze(0))
    return decay, delta.unsqueeze(3) * b.unsqueeze(2)


EXERCISE = Exercise(
    chapter="24_mamba",
    title="A step of a size of its own",
    goal="Turn step sizes into what every step keeps of the state and what it adds to it.",
    reference=mamba.discretize_selective,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        ranges={"delta": (0, 50), "a": AS_DRAWN},
        gradients=("delta", "a", "b"),
        forbids=READY_MADE,
    ),
    properties=(
        worked(
            "the worked example: decay 1/2 and 1/4",
            torch.tensor([[[math.log(2.0)]]]),
            torch.tensor([[-1.0, -2.0]]),
            torch.tensor([[[1.0, 3.0]]]),
            want=(
                torch.tensor([[[[0.5, 0.25]]]]),
                math.log(2.0) * torch.tensor([[[[1.0, 3.0]]]]),
            ),
            tolerance=FLOAT32,
        ),
        agrees("decay", _usual, part=0, tolerance=FLOAT32),
        agrees("gain", _usual, part=1, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"einsum": with_einsum, "powers and unsqueeze": as_powers},
    hints=(
        "The results have four axes, (B, T, E, N). Which of them does each argument have?",
        "`delta[..., None]` has a last axis of length 1, which a broadcasts against. b lacks the "
        "axis of channels, which is the second last.",
        "`torch.exp(delta[..., None] * a)` is the decay; for the gain multiply `delta[..., None]` "
        "by `b[..., None, :]`.",
    ),
    minutes=7,
    difficulty=1,
    importance=4,
    results=("decay", "gain"),
)
