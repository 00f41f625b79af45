"""Exercise 24_mamba/raw_scan: repair a scan that uses Δ before its softplus."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba
from torch.nn import functional

from attend_grader.chapters.ch24_mamba import READY_MADE
from attend_grader.chapters.ch24_mamba.shared import flows_at_zero, scanned
from attend_grader.checks.compare import FLOAT32, Tolerance
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, *sizes: int) -> Call:
    x, _, a, b, c = scanned(rng, *sizes)
    raw = normal(rng, *x.shape) + 0.005  # raw + bias is never exactly 0, where |·| has a kink
    return Call((x, raw, normal(rng, sizes[2]), a, b, c))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 5, 3, 4), (3, 3, 3, 3), (1, 7, 2, 1)):
        yield "", _case(rng, *sizes)


def _far(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "raw step sizes near 200", _large(rng)
    x, raw, bias, a, b, c = _case(rng, 2, 4, 3, 2).args
    yield "raw step sizes near 5.3", Call((x, raw / 10 + 5.3, bias / 10, a, b, c))
    fast = Call((x, raw / 10 - 5.3, bias / 10, 200 * a, b, c))
    yield "rates near −200, raw step sizes near −5.3", fast
    yield "raw step sizes near −8: nearly nothing is forgotten", Call((x, raw - 8, bias, a, b, c))
    yield "raw step sizes near −20", Call((x, raw - 20, bias, a, b, c))
    yield "raw step sizes near −60", Call((x, raw - 60, bias, a, b, c))


def _large(rng: np.random.Generator) -> Call:
    x, raw, bias, a, b, c = _case(rng, 2, 4, 3, 2).args
    return Call((x, raw + 200, bias, a, b, c))


RELATIVE = Tolerance(
    "float32 near 0",
    1e-4,
    "a raw number near 60 is rounded by 4e-6, which moves its exp by as much of itself, and sums "
    "of a few such terms cancel in part; all of the answer may be near 0, so nothing absolute",
)

FAR = agrees("raw step sizes from −60 to 200", _far, tolerance=RELATIVE)


def _all_raw(subject: Subject, probe: Probe) -> None:
    """The far ones, and 0 exactly, as in the worked example."""
    FAR.test(subject, probe)
    x, raw, bias, *others = _case(probe.rng, 2, 4, 3, 2).args
    flows_at_zero(subject, probe, lambda at: (x, 0 * raw, 0 * bias + at, *others), 2)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, all the same, one step, one channel, large raw step sizes."""
    sizes = ((2, 5, 3, 4), (3, 3, 3, 3), (2, 1, 3, 2), (1, 4, 1, 3))
    return [*(_case(rng, *one) for one in sizes), _large(rng)]


SLIPS = (
    Slip(
        "the decay is made from the raw step size",
        ("torch.exp(step[..., None] * a)", "torch.exp((raw + bias)[..., None] * a)"),
        "The decay is exp((raw + bias) a): where raw + bias is negative it is above 1, and the "
        "state can grow. Both decay and gain must use Δ, after the softplus.",
        seen="the broken function in the text",
    ),
    Slip(
        "what is written is made from the raw step size",
        ("(step * x)", "((raw + bias) * x)"),
        "The decay is right, but what is written is (raw + bias) b x. Both decay and gain must "
        "use Δ, after the softplus.",
    ),
    Slip(
        "no softplus at all",
        ("functional.softplus(raw + bias)", "raw + bias"),
        "raw + bias is used as the step size everywhere. Take Δ = softplus(raw + bias).",
    ),
    Slip(
        "softplus before the bias",
        ("functional.softplus(raw + bias)", "functional.softplus(raw) + bias"),
        "The bias is added after the softplus, so Δ can be negative. It belongs inside.",
    ),
    Slip(
        "no bias",
        ("functional.softplus(raw + bias)", "functional.softplus(raw)"),
        "The bias of Δ is missing: take Δ = softplus(raw + bias).",
    ),
    Slip(
        "softplus twice",
        (
            "functional.softplus(raw + bias)",
            "functional.softplus(functional.softplus(raw + bias))",
        ),
        "raw + bias went through softplus twice, so it is never below ln 2.",
    ),
    Slip(
        "relu for softplus",
        ("functional.softplus(raw + bias)", "functional.relu(raw + bias)"),
        "Δ is 0 wherever raw + bias is negative. The explosion is gone, but this is a relu. Take "
        "Δ = softplus(raw + bias).",
    ),
    Slip(
        "softplus twice in the decay",
        ("torch.exp(step[..., None] * a)", "torch.exp(functional.softplus(step)[..., None] * a)"),
        "What is written is right, but for the decay raw + bias went through softplus twice. Both "
        "should use the same Δ.",
    ),
    Slip(
        "only the decay is clamped",
        ("torch.exp(step[..., None] * a)", "torch.exp((raw + bias).clamp(min=0)[..., None] * a)"),
        "The decay uses raw + bias cut off at 0, what is written uses Δ. The explosion is gone, "
        "but both must use the same Δ, after the softplus.",
    ),
    Slip(
        "the decay is made from the size of the raw number",
        ("torch.exp(step[..., None] * a)", "torch.exp((raw + bias).abs()[..., None] * a)"),
        "The decay uses |raw + bias|, what is written uses Δ. The explosion is gone, but both must "
        "use the same Δ, after the softplus.",
    ),
)


def through_selective_scan(x, raw, bias, a, b, c):
    """Δ first, then the scan of the exercise before, with a skip of 0."""
    delta = functional.softplus(raw + bias)
    return mamba.selective_scan(x, delta, a, b, c, torch.zeros_like(bias))


def with_einsum(x, raw, bias, a, b, c):
    """softplus by hand, one einsum a step."""
    total = raw + bias
    delta = total.clamp(min=0) + torch.log1p(torch.exp(-total.abs()))
    h, rows = x.new_zeros(len(x), *a.shape), []
    for t in range(x.shape[1]):
        wrote = torch.einsum("be,bn->ben", delta[:, t] * x[:, t], b[:, t])
        h = torch.einsum("be,en->ben", delta[:, t], a).exp() * h + wrote
        rows.append(torch.einsum("ben,bn->be", h, c[:, t]))
    return torch.stack(rows, 1), h


EXERCISE = Exercise(
    chapter="24_mamba",
    title="Repair: a state that explodes",
    goal="Find and fix the mistake in a scan that takes raw step sizes, as real kernels do.",
    reference=mamba.raw_scan,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        ranges={"raw": AS_DRAWN, "bias": AS_DRAWN, "a": AS_DRAWN},
        gradients=("x", "raw", "bias", "a", "b", "c"),
        forbids=READY_MADE,
        says=(
            "For raw step sizes from −60 to 200, results are right to four digits and gradients "
            "are finite.",
        ),
    ),
    properties=(
        worked(
            "raw + bias = 0, so Δ = ln 2 and the state halves: y = ln 2, ln 2 / 2",
            torch.tensor([[[1.0], [0.0]]]),
            torch.tensor([[[3.0], [3.0]]]),
            torch.tensor([-3.0]),
            torch.tensor([[-1.0]]),
            torch.ones(1, 2, 1),
            torch.ones(1, 2, 1),
            want=(
                float(np.log(2)) * torch.tensor([[[1.0], [0.5]]]),
                float(np.log(2)) * torch.tensor([[[0.5]]]),
            ),
            tolerance=FLOAT32,
        ),
        agrees("y", _usual, part=0, tolerance=FLOAT32),
        agrees("the last state", _usual, part=1, tolerance=FLOAT32),
        Property(FAR.name, 1, _all_raw, fresh=True),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"through selective_scan": through_selective_scan, "einsum": with_einsum},
    hints=(
        "Print the largest decay of the broken function. What is the largest that exp(Δ a) can be, "
        "when Δ is positive and a negative?",
        "Follow `raw` line by line: in which lines is it still the raw number, and in which ones "
        "is it Δ?",
        "The softplus comes one line too late: make Δ first, then the decay and what is written, "
        "both from Δ.",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    results=("y", "state"),
)
