"""Exercise 02_alignment/attend: what must hold, how it goes wrong, other ways to write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import alignment
from torch import Tensor

from attend_grader.chapters.ch02_alignment.shared import FAINT, PROMISES, faint, sums
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

Inputs = tuple[Tensor, Tensor]


def _inputs(rng: np.random.Generator, t: int, s: int, e: int, lead: tuple[int, ...] = ()) -> Inputs:
    """scores (*lead, T, S) and values (*lead, S, E)."""
    return normal(rng, *lead, t, s), normal(rng, *lead, s, e)


def _worked(subject: Subject, probe: Probe) -> None:
    """Scores 0, ln 2, ln 5: weights 1/8, 2/8, 5/8."""
    inputs = torch.tensor([[1.0, 2.0, 5.0]]).log(), torch.tensor([[8.0, 0.0], [0.0, 4.0], [0.0, 8]])
    want = (torch.tensor([[1.0, 6.0]]), torch.tensor([[0.125, 0.25, 0.625]]))
    why = "scores 0, ln 2, ln 5"
    probe.agree(subject, *inputs, want=want, part=1, tolerance=PRINTED, why=why, clue=sums)
    probe.agree(subject, *inputs, want=want, part=0, tolerance=PRINTED, why=why)


def _limits(rng: np.random.Generator) -> Known:
    scores, values = _inputs(rng, 3, 1, 2)
    yield "one value only", (scores, values), (values.expand(3, 2).clone(), torch.ones(3, 1))
    scores, values = torch.tensor([[0.7], [1e9]]).repeat(1, 5), normal(rng, 5, 3)
    want = (values.mean(dim=0).expand(2, 3).clone(), torch.full((2, 5), 0.2))
    yield "equal scores, of 0.7 and of 10⁹", (scores, values), want
    scores, values = torch.tensor([[100.0, 100.0, 0.0], [0.0, 90.0, 90.0]]), normal(rng, 3, 2)
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    yield "two equal scores far above the third", (scores, values), (weights @ values, weights)
    scores, values = torch.tensor([[0.0, -33.0]]).double(), torch.tensor([[0.0], [1e12]]).double()
    weights = torch.softmax(scores, dim=-1)
    yield "a weight of e⁻³³ for a value of 10¹²", (scores, values), (weights @ values, weights)
    one, values = faint(rng, 12)
    scores = one + torch.tensor([[0.0], [-3.0]])
    weights = torch.softmax(one, dim=-1).repeat(2, 1)
    yield FAINT, (scores, values), (weights @ values, weights)
    scores, values = _inputs(rng, 3, 4, 2)
    best = torch.from_numpy(rng.permuted(np.tile([1, 2, 3, 4], (3, 1)), axis=1))
    weights = (best == 4).float()
    far = torch.tensor([[1e5], [0.0], [-1e5]])
    why = "scores 10,000 apart, so the largest takes all; rows near 100,000, 0 and −100,000"
    yield why, (1e4 * best + far, values), (weights @ values, weights)


def _values(rng: np.random.Generator) -> Fresh:
    for t, s, e in ((2, 3, 5), (4, 4, 4), (1, 6, 2), (3, 2, 1)):
        yield f"T = {t}, S = {s}, E = {e}", Call(_inputs(rng, t, s, e))


def draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different, alike, leading axes, one key; some weights near e⁻¹⁵."""
    sizes: list[Any] = [(2, 3, 4), (3, 3, 3), (3, 4, 2, (2,)), (3, 3, 3, (3,)), (2, 1, 3)]
    scores, values = _inputs(rng, 3, 6, 2)
    return [*(Call(_inputs(rng, *each)) for each in sizes), Call((5 * scores, values))]


SOFTMAX = "torch.softmax(scores, dim=-1)"
RESULTS = "weights @ values, weights"

SLIPS = (
    Slip(
        "normalised over queries instead of keys",
        ("dim=-1", "dim=-2"),
        "Your columns sum to 1: the softmax ran over the queries. Let each query share one unit "
        "of weight among the keys: dim=-1.",
    ),
    Slip(
        "softmax over axis 1",
        ("dim=-1", "dim=1"),
        "With leading axes, the softmax runs over axis 1 (dim=1), which is the keys' axis for a "
        "single table only. The keys always lie on the last axis: dim=-1.",
    ),
    Slip(
        "divided by the sum, without exp",
        (SOFTMAX, "scores / scores.sum(dim=-1, keepdim=True)"),
        "The scores are divided by their sum as they are. They can be negative and can sum to 0: "
        "take the softmax.",
    ),
    Slip(
        "scaled by the root of the width",
        (SOFTMAX, "torch.softmax(scores / values.shape[-1] ** 0.5, dim=-1)"),
        "The weights are those of scores divided by the root of the values' width. That scale "
        "came in 2017 (chapter 03), and it belongs to the score: take the scores as they come.",
    ),
    Slip(
        "exp minus its logarithm",
        (SOFTMAX, "torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))"),
        "With huge scores the weights may not sum to 1: rounding can swallow the logarithm of the "
        "sum beside them. Subtract each row's largest first, or use torch.softmax.",
    ),
    Slip(
        "sigmoid instead of softmax",
        (SOFTMAX, "torch.sigmoid(scores)"),
        "Each weight lies between 0 and 1 by itself (sigmoid), and a row need not sum to 1. Let "
        "the keys of a query share one unit: take the softmax.",
    ),
    Slip(
        "mixed with the scores",
        (RESULTS, "scores @ values, weights"),
        "Your weights are right, but the contexts are sums under the scores as they came. Mix the "
        "values with the weights that softmax returned.",
    ),
    Slip(
        "detached the weights in the contexts",
        (RESULTS, "weights.detach() @ values, weights"),
        "The values are right, but no gradient goes from the contexts to the scores, as if the "
        "weights were detached. Through them the decoder should learn where to look: use the "
        "weights as they are.",
    ),
)


def by_logarithm(scores, values):
    """The exponential of log_softmax, a list as result."""
    weights = torch.exp(torch.log_softmax(scores, -1))
    return [(weights[..., None] * values[..., None, :, :]).sum(-2), weights]


def divides_last(scores, values):
    """Divides by the sum of the exponentials at the end."""
    shares = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    total = shares.sum(dim=-1, keepdim=True)
    return torch.matmul(shares, values) / total, shares / total


EXERCISE = Exercise(
    chapter="02_alignment",
    title="Attend",
    goal="Turn scores into weights, and the weights into one context for each query.",
    reference=alignment.attend,
    contract=replace(
        PROMISES,
        leading_axes=True,
        gradients=("scores", "values"),
    ),
    properties=(
        Property("a hand-worked example: weights 1/8, 2/8, 5/8", 1, _worked),
        known("one value, equal scores, small weights, huge scores", _limits, tolerance=FLOAT32),
        agrees(
            "weights: the softmax of the scores, over the keys",
            _values,
            part=1,
            tolerance=FLOAT32,
            clue=sums,
        ),
        agrees("contexts: the right weights times the values", _values, part=0, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_logarithm, divides_last),
    hints=(
        "Each row of scores belongs to one query. Along which axis do its weights sum to 1?",
        "The softmax runs along the last axis. A context is a sum over the same axis: weight times "
        "value, for every key.",
        "`torch.softmax(scores, dim=-1)` gives the weights (..., T, S). Multiplied with the values "
        "(..., S, E) by `@` they give the contexts. Return contexts, then weights.",
    ),
    minutes=6,
    difficulty=1,
    importance=5,
    results=("contexts", "weights"),
)
