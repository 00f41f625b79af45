"""Exercise 07_block/rms_norm: the same size for every token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import block
from torch.nn import functional

from attend_grader.chapters.ch07_block import NO_NORMS, READY_MADE
from attend_grader.chapters.ch07_block.shared import with_slope
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, *shape: int, eps: float | None = None) -> Call:
    more = () if eps is None else (eps,)
    return Call((normal(rng, *shape), normal(rng, shape[-1]), *more))


def _small(rng: np.random.Generator, eps: float | None = None) -> Call:
    """Numbers whose squares are not large beside eps."""
    call = _case(rng, 2, 5, eps=eps)
    return Call((call.args[0] / 500, *call.args[1:]))


def _torchs(rng: np.random.Generator):
    for shape in ((2, 3, 6), (4, 4, 4), (5, 2)):
        x, weight, eps = _case(rng, *shape, eps=1e-6).args
        want = functional.rms_norm(x, shape[-1:], weight, eps)
        yield "compared with F.rms_norm", (x, weight, eps), want


def _eps(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "eps = 0.5", _case(rng, 2, 3, 4, eps=0.5)
    yield "small numbers, eps = 0.001", _small(rng, 1e-3)
    yield "tokens of one number, C = 1", _case(rng, 3, 1, eps=0.5)
    yield "small numbers, eps left out", _small(rng)
    tiny = _case(rng, 2, 5, eps=0.0)
    yield "tiny numbers, eps = 0", Call((tiny.args[0] * 1e-6, *tiny.args[1:]))


def _zeros(rng: np.random.Generator):
    """eps is passed: that its default is right is a matter of ``_eps`` alone."""
    yield "a token of zeros", (torch.zeros(2, 4), normal(rng, 4), 1e-6), torch.zeros(2, 4)


def draws(rng: np.random.Generator) -> list[Call]:
    """Leading axes or none, also of length 1, square, another eps, small numbers, far from 0.

    Promises are tried on the first two with three axes.
    """
    x, weight = _case(rng, 2, 3, 4).args
    return [
        _case(rng, 2, 3, 6),
        _case(rng, 1, 1, 4),
        _case(rng, 5),
        _case(rng, 2, 4, eps=0.5),
        _case(rng, 3, 7, eps=0.3),
        _case(rng, 3, 3, 3),
        _small(rng),
        Call((x + 3, weight)),
    ]


SQUARES = "x.square().mean(dim=-1, keepdim=True)"
ROOT = f"torch.sqrt({SQUARES} + eps)"

SLIPS = (
    Slip(
        "the mean is subtracted",
        ("return x /", "return (x - x.mean(dim=-1, keepdim=True)) /"),
        "A mean is subtracted. RMSNorm leaves the mean alone.",
    ),
    Slip(
        "the standard deviation",
        (SQUARES, "x.var(dim=-1, keepdim=True, correction=0)"),
        "Each token is divided by its standard deviation. That leaves the mean out; the root mean "
        "square counts it.",
    ),
    Slip(
        "layer norm",
        (
            f"x / torch.sqrt({SQUARES}",
            "(x - x.mean(dim=-1, keepdim=True)) / torch.sqrt("
            "x.var(dim=-1, keepdim=True, correction=0)",
        ),
        "This is layer norm without its shift. RMSNorm subtracts no mean, neither from the numbers "
        "nor inside the root.",
    ),
    Slip(
        "no root",
        (ROOT, f"({SQUARES} + eps)"),
        "Each token is divided by its mean square. Take the root.",
    ),
    Slip(
        "eps outside the root",
        (ROOT, f"(torch.sqrt({SQUARES}) + eps)"),
        "eps is added to the root mean square. It belongs under the root: √(mean(x²) + eps).",
    ),
    Slip(
        "a sum for the mean",
        (SQUARES, "x.square().sum(dim=-1, keepdim=True)"),
        "Each token is divided by the root of the sum of its squares. Take their mean instead of "
        "the sum.",
    ),
    Slip(
        "eps fixed",
        ("+ eps", "+ 1e-6"),
        "eps is 1e-6 whatever the caller says. Use the argument.",
    ),
    Slip(
        "over the tokens",
        (SQUARES, SQUARES.replace("-1", "-2")),
        "The mean of squares runs over the tokens. Each token should have its own: dim=-1.",
    ),
    Slip("no scale", (" * weight", ""), "weight is not used. Scale each of the C numbers by it."),
    Slip(
        "one plus the weight",
        (" * weight", " * (1 + weight)"),
        "The result is scaled by 1 + weight. Some models store their scale so (Gemma), but here "
        "weight should be the scale itself.",
    ),
)


def with_rsqrt(x, weight, eps=1e-6):
    """A power, a reciprocal root."""
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def with_einsum(x, weight, eps=1e-6):
    """The sum of squares as a product of each token with itself."""
    squares = torch.einsum("...c,...c->...", x, x) / x.shape[-1]
    return torch.einsum("...c,...,c->...c", x, (squares + eps) ** -0.5, weight)


EXERCISE = Exercise(
    chapter="07_block",
    title="RMSNorm",
    goal="Divide every token by its root mean square, then scale.",
    reference=block.rms_norm,
    contract=Contract(
        leading_axes=("x",),
        views=True,
        arguments_unchanged=True,
        gradients=("x", "weight"),
        forbids=READY_MADE,
        forbidden=NO_NORMS,
    ),
    properties=(
        worked(
            "the worked example: (1, 7) gives (1, 14)",
            torch.tensor([1.0, 7.0]),
            torch.tensor([5.0, 10.0]),
            0.0,
            want=torch.tensor([1.0, 14.0]),
            tolerance=FLOAT32,
        ),
        known("equal to F.rms_norm", _torchs, tolerance=FLOAT32),
        agrees(
            "eps stands under the root, also where none is given", _eps, repeat=1, tolerance=FLOAT32
        ),
        with_slope("zeros stay zeros, with the right gradient", _zeros),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"rsqrt": with_rsqrt, "einsum": with_einsum},
    hints=(
        "It is your layer norm without two things. Which ones?",
        "Neither the mean nor a bias: square, take the mean over the last axis, add eps, take the "
        "root.",
        "x / sqrt(mean of x² + eps) * weight, with keepdim=True in the mean.",
    ),
    minutes=5,
    difficulty=1,
    importance=4,
)
