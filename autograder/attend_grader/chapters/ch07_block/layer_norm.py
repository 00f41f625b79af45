"""Exercise 07_block/layer_norm: mean 0 and variance 1 for every token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import block
from torch.nn import functional

from attend_grader.chapters.ch07_block import NO_NORMS, READY_MADE
from attend_grader.chapters.ch07_block.shared import far, with_slope
from attend_grader.checks.compare import FLOAT32, Tolerance
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, *shape: int, eps: float | None = None) -> Call:
    more = () if eps is None else (eps,)
    return Call((normal(rng, *shape), normal(rng, shape[-1]), normal(rng, shape[-1]), *more))


def _small(rng: np.random.Generator, eps: float | None = None) -> Call:
    """Numbers whose variance is not large beside eps."""
    call = _case(rng, 2, 5, eps=eps)
    return Call((call.args[0] / 100, *call.args[1:]))


def _torchs(rng: np.random.Generator):
    for shape in ((2, 3, 6), (4, 4, 4), (5, 2)):
        x, weight, bias = _case(rng, *shape).args
        want = functional.layer_norm(x, shape[-1:], weight, bias)
        yield "compared with F.layer_norm", (x, weight, bias), want


def _eps(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "eps = 0.5", _case(rng, 2, 3, 4, eps=0.5)
    yield "small numbers, eps = 0.001", _small(rng, 1e-3)
    yield "small numbers, eps left out", _small(rng)
    tiny = _case(rng, 2, 5, eps=0.0)
    yield "tiny numbers, eps = 0", Call((tiny.args[0] * 1e-6, *tiny.args[1:]))


def _equal(rng: np.random.Generator):
    bias = normal(rng, 4)
    x = torch.full((2, 3, 4), float(rng.integers(1, 9)))
    yield "all numbers of a token equal", (x, normal(rng, 4), bias), bias.expand(2, 3, 4)
    x, weight, bias = normal(rng, 3, 1), normal(rng, 1), normal(rng, 1)
    yield "tokens of one number, C = 1", (x, weight, bias), bias.expand(3, 1)


def _far(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "numbers near 1,024", Call((far(rng), normal(rng, 8), normal(rng, 8)))
    double = 1e6 + 0.01 * normal(rng, 2, 8).double(), *normal(rng, 2, 8).double()
    yield "float64 near 10⁶, with differences of 0.01", Call(double)


def draws(rng: np.random.Generator) -> list[Call]:
    """Leading axes or none, also of length 1, square, another eps, small numbers, far from 0.

    Promises are tried on the first two with three axes.
    """
    return [
        _case(rng, 2, 3, 6),
        _case(rng, 1, 1, 4),
        _case(rng, 5),
        _case(rng, 2, 4, eps=0.5),
        _case(rng, 3, 7, eps=0.3),
        _case(rng, 3, 3, 3),
        _small(rng),
        Call((far(rng), normal(rng, 8), normal(rng, 8))),
    ]


FAR = Tolerance(
    "numbers near 1,024",
    5e-4,
    "torch's own norms in float32 are off by up to 1e-4 there, mean(x²) − mean(x)² by 7e-2",
)

MEAN, SQUARES = "x.mean(dim=-1, keepdim=True)", "centred.square().mean(dim=-1, keepdim=True)"
ROOT = "torch.sqrt(variance + eps)"
LAST_TWO = "dim=tuple(range(-min(x.ndim, 2), 0)), keepdim=True"
ALL_BUT_FIRST = "dim=tuple(range(1, x.ndim)), keepdim=True"

SLIPS = (
    Slip(
        "divided by C − 1",
        (SQUARES, "x.var(dim=-1, keepdim=True)"),
        "The variance is divided by C − 1, as torch.var does by itself. It should be the mean of "
        "the squared deviations: divide by C (`correction=0`).",
    ),
    Slip(
        "eps outside the root",
        (ROOT, "(torch.sqrt(variance) + eps)"),
        "eps is added to the standard deviation. It belongs under the root: √(σ² + eps).",
    ),
    Slip(
        "torch.std as it comes, plus eps",
        (
            (SQUARES, "x.var(dim=-1, keepdim=True)"),
            (ROOT, "(torch.sqrt(variance) + eps)"),
        ),
        "Two things at once: the standard deviation is that of torch.std as it comes, which "
        "divides by C − 1, and eps is added to it. Divide by C (`correction=0`), and add eps to "
        "the variance, under the root.",
    ),
    Slip(
        "over all numbers",
        ((MEAN, "x.mean()"), (SQUARES, "centred.square().mean()")),
        "All tokens share one mean and one variance. Each token should have its own, over its C "
        "numbers: dim=-1.",
    ),
    Slip(
        "over all tokens of a text",
        ((MEAN, f"x.mean({ALL_BUT_FIRST})"), (SQUARES, f"centred.square().mean({ALL_BUT_FIRST})")),
        "Where x has three axes or more, mean and variance run over all axes but the first, so "
        "the tokens of a text share them. Each token should have its own, over its C numbers: "
        "dim=-1.",
    ),
    Slip(
        "over the last two axes",
        ((MEAN, f"x.mean({LAST_TWO})"), (SQUARES, f"centred.square().mean({LAST_TWO})")),
        "Where x has two axes or more, mean and variance run over the last two, so the tokens of "
        "a text share them. Each token should have its own, over its C numbers: dim=-1.",
    ),
    Slip(
        "the mean stays in",
        ("return centred /", "return x /"),
        "Each token is divided by its standard deviation, but its mean was not subtracted.",
    ),
    Slip(
        "eps fixed",
        ("+ eps", "+ 1e-5"),
        "eps is 1e-5 whatever the caller says. Use the argument.",
    ),
    Slip(
        "shifted before scaled",
        (f"centred / {ROOT} * weight + bias", f"(centred / {ROOT} + bias) * weight"),
        "The bias is multiplied by the weight. Scale first, then shift.",
    ),
    Slip(
        "mean of squares minus square of the mean",
        (SQUARES, f"(x * x).mean(dim=-1, keepdim=True) - {MEAN} ** 2"),
        "The variance is mean(x²) − mean(x)². Where the mean is 1,000 times the deviations, "
        "float32 keeps about one digit of that difference. Subtract the mean first.",
    ),
)


def with_var_mean(x, weight, bias, eps=1e-5):
    """torch's own variance, and a reciprocal root."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps) * weight + bias


def with_sums(x, weight, bias, eps=1e-5):
    """Sums divided by C, axes added by hand."""
    width = x.shape[-1]
    centred = x - (x.sum(-1) / width)[..., None]
    spread = ((centred**2).sum(-1) / width + eps) ** 0.5
    return torch.addcmul(bias, weight, centred / spread.unsqueeze(-1))


EXERCISE = Exercise(
    chapter="07_block",
    title="Layer norm",
    goal="Give every token mean 0 and variance 1, then a learned scale and shift.",
    reference=block.layer_norm,
    contract=Contract(
        leading_axes=("x",),
        views=True,
        arguments_unchanged=True,
        gradients=("x", "weight", "bias"),
        forbids=READY_MADE,
        forbidden=NO_NORMS,
    ),
    properties=(
        worked(
            "the worked example: (1, 1, 5, 5) gives (−1, −2, 11, 12)",
            torch.tensor([1.0, 1.0, 5.0, 5.0]),
            torch.tensor([1.0, 2.0, 1.0, 2.0]),
            torch.tensor([0.0, 0.0, 10.0, 10.0]),
            0.0,
            want=torch.tensor([-1.0, -2.0, 11.0, 12.0]),
            tolerance=FLOAT32,
        ),
        known("equal to F.layer_norm", _torchs, tolerance=FLOAT32),
        agrees("eps stands under the root", _eps, repeat=1, tolerance=FLOAT32),
        agrees("numbers far from 0", _far, repeat=1, tolerance=FAR),
        with_slope("equal numbers give the bias, and the right gradient", _equal),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"var_mean and rsqrt": with_var_mean, "sums": with_sums},
    hints=(
        "Which axis holds the numbers of one token? Both mean and variance run along that one.",
        "`x.mean(dim=-1, keepdim=True)` lines up with x. Subtract it first; the variance is the "
        "mean of the squares of what is left.",
        "centred = x − mean; variance = mean of centred²; centred / sqrt(variance + eps) * weight "
        "+ bias.",
    ),
    minutes=8,
    difficulty=1,
    importance=5,
)
