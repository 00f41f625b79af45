"""Exercise 02_alignment/hard_attention_sample: checks, known slips, other ways to write it.

The oracle is exact enumeration: numbers u spread evenly over the unit interval draw each place
exactly as often as its weight says, so the estimates' mean is the gradient itself.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import alignment
from torch import Tensor

from attend_grader.chapters.ch02_alignment.shared import PROMISES
from attend_grader.checks.clues import sums_to_zero
from attend_grader.checks.compare import FLOAT32, Miss
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked
from attend_grader.checks.sizes import ANY
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

ROUNDED, BEYOND = [0.59, 0.35, 0.06], 1 - 2**-24
"""Weights that sum to a little less than 1 in float32, and a u that none of their pieces holds."""


def _distributions(rng: np.random.Generator, *shape: int) -> Tensor:
    """Random weights along the last axis: 64ths, at least one each, which sum to 1 exactly."""
    shares = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    return torch.from_numpy((1 + rng.multinomial(64 - shape[-1], shares)) / 64).float()


def _inputs(rng: np.random.Generator, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """weights (*shape), uniforms (*shape[:-1]) away from the edges of the pieces, rewards."""
    weights = _distributions(rng, *shape)
    ends = weights.double().cumsum(dim=-1)
    places = torch.from_numpy(np.asarray(rng.integers(0, shape[-1], shape[:-1])))[..., None]
    own = weights.double().gather(-1, places)[..., 0]
    inside = torch.from_numpy(np.asarray(rng.uniform(0.2, 0.8, shape[:-1])))
    uniforms = ends.gather(-1, places)[..., 0] - own * inside
    return weights, uniforms.float(), normal(rng, *shape)


def _places(subject: Subject, probe: Probe) -> None:
    """The piece in which u lies."""
    for _ in probe.repeat(1, 3):
        for shape in ((4, 3), (3, 3), (6, 5), (2, 1)):
            inputs = _inputs(probe.rng, *shape)
            outcome = probe.agree(subject, *inputs, part=0, tolerance=FLOAT32)
            places = outcome.value[0]
            if isinstance(places, Tensor) and places.dtype != torch.int64:
                kind = places.dtype
                raise probe.miss(f"places has dtype {kind}, expected torch.int64.", *inputs)


def _edges(subject: Subject, probe: Probe) -> None:
    """A piece begins at its left edge; a weight of 0 owns nothing; a rest belongs to the last."""
    last = "0.59 + 0.35 + 0.06 is 1 - 2⁻²⁴ in float32, and u is that number, so beyond the pieces"
    near = "float64, u at 10⁻¹⁰ on either side of the edges 0.1 and 0.3"
    least = "float64, the last place owns a hundred-millionth"
    exact = "float64, u is the first weight, where the second piece begins"
    beside = [edge + step for edge in (0.1, 0.3) for step in (-1e-10, 1e-10)]
    for row, uniforms, places, why in (
        ([0.5, 0.25, 0.25], [0.0, 0.5, 0.75], [0, 1, 2], "each u is the left edge of its piece"),
        ([0.0, 0.5, 0.0, 0.5], [0.0, 0.5], [1, 3], "a place of weight 0 owns no number"),
        ([0.5, 0.5 - 2**-20, 2**-20], [1 - 2**-21], [2], "the last place owns a millionth"),
        (ROUNDED, [BEYOND], [2], last),
        ([1 - 2**-27, 2**-27], [1 - 2**-28, 1 - 2**-26], [1, 0], least),
        ([0.1, 0.2, 0.7], beside, [0, 1, 1, 2], near),
        ([n / 66 for n in (11, 19, 10, 11, 15)], [11 / 66], [1], exact),
    ):
        dtype = torch.float64 if why in (near, least, exact) else torch.float32
        weights = torch.tensor([row] * len(uniforms), dtype=dtype)
        want = (torch.tensor(places), torch.zeros_like(weights))
        arguments = (weights, torch.tensor(uniforms, dtype=dtype), torch.zeros_like(weights))
        probe.agree(subject, *arguments, want=want, part=0, why=why)


def _estimates(rng: np.random.Generator) -> Fresh:
    for shape in ((3, 4), (4, 4), (2, 5)):
        yield "", Call(_inputs(rng, *shape))


def _baselines(rng: np.random.Generator) -> Fresh:
    for baseline in (1.5, -2.0):
        yield f"baseline = {baseline}", Call(_inputs(rng, 3, 4), {"baseline": baseline})
    for baseline, dtype in ((100_000.0, "float32"), (100_000.1, "float64")):
        inputs = (each.to(getattr(torch, dtype)) for each in _inputs(rng, 3, 4))
        weights, uniforms, gaps = inputs
        rewards = 100_000 + (64 * gaps).round() / 64  # what float32 can hold
        why = f"{dtype}, baseline = {baseline}, and rewards close to it"
        yield why, Call((weights, uniforms, rewards), {"baseline": baseline})


def _unknown(subject: Subject, probe: Probe) -> None:
    """Nobody knows what a place that was not drawn would have earned."""
    weights, uniforms, rewards = _inputs(probe.rng, 3, 4)
    places, want = probe.reference(weights, uniforms, rewards)
    known = torch.full((3, 4), torch.nan)
    known[:, 1] = rewards[:, 1]
    known.scatter_(-1, places[..., None], rewards.gather(-1, places[..., None]))
    why = "only the drawn place's reward and one more are known, the others are NaN"

    def clue(value: Any) -> str:
        if value.dtype.kind != "f" or not np.isnan(value).any():
            return ""
        return (
            "Pick the drawn place's reward with gather, and use no other. (A product with zeros "
            "does not hide the others: NaN times 0 is NaN.)"
        )

    given = (weights, uniforms, known)
    probe.agree(subject, *given, want=(places, want), part=0, why=why)
    probe.agree(subject, *given, want=(places, want), part=1, tolerance=FLOAT32, why=why, clue=clue)


def _unbiased(subject: Subject, probe: Probe) -> None:
    """The mean over all draws is the gradient of the expected reward."""
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    rewards, baseline = normal(probe.rng, 4), 0.7
    grid = (torch.arange(20) + 0.5) / 20  # each place is drawn as often as its weight says
    scores = weights.double().log().requires_grad_(True)
    expected = torch.softmax(scores, dim=-1) @ rewards.double()
    want = torch.autograd.grad(expected, scores)[0].float()
    arguments = (weights.expand(20, 4).clone(), grid, rewards.expand(20, 4).clone())
    outcome = probe.call(subject, *arguments, baseline=baseline)
    got = outcome.value[1] if isinstance(outcome.value, (tuple, list)) else None
    if not isinstance(got, Tensor) or got.shape != (20, 4):
        probe.agree(subject, *arguments, baseline=baseline, part=1, tolerance=FLOAT32)
        return
    mean = got.detach().mean(dim=0)
    if not torch.allclose(mean, want, atol=1e-4):
        right, mine = (each.double().numpy().round(3).tolist() for each in (want, mean))
        told = f"expected reward's gradient {right}, mean of your estimates {mine}"
        raise Miss(
            "the estimates are biased: over 20 numbers u that draw each place as often as its "
            f"weight says, their mean is not the gradient. {told}.",
            topic="biased",
        )


def draws(rng: np.random.Generator) -> list[Call]:
    """With a baseline; without; leading axes; one row; edges; a rest from rounding."""
    edges = torch.tensor([[0.5, 0.25, 0.25]] * 3), torch.tensor([0.0, 0.5, 0.75])
    rest = torch.tensor([ROUNDED]), torch.tensor([BEYOND])
    baselines = (((6, 5), 1.5), ((4, 4), -0.5), ((3, 4), 0.0))
    made = [Call(_inputs(rng, *shape), {"baseline": by}) for shape, by in baselines]
    made += [Call(_inputs(rng, *shape)) for shape in ((6, 4), (2, 3, 4), (5,))]
    return [*made, Call((*edges, normal(rng, 3, 3))), Call((*rest, normal(rng, 1, 3)))]


def wide(rng: np.random.Generator) -> list[Call]:
    """More words than 8 bits count."""
    weights = torch.full((2, 512), 1 / 512)
    places = torch.from_numpy(rng.integers(256, 512, 2))
    return [Call((weights, (places + 0.5) / 512, normal(rng, 2, 512)))]


PLACES = "(ends <= uniforms[..., None]).sum(dim=-1)"
CLAMP = ".clamp(max=weights.shape[-1] - 1)"
ESTIMATE = "(reward - baseline) * (drawn.to(weights.dtype) - weights)"

SLIPS = (
    Slip(
        "took the largest weight, drew nothing",
        (f"{PLACES}{CLAMP}", "weights.argmax(dim=-1)"),
        "It is always the place with the largest weight that is taken. Draw: the place in whose "
        "piece of the unit interval `uniforms` lies.",
    ),
    Slip(
        "pieces of equal length",
        (f"{PLACES}{CLAMP}", "(uniforms * weights.shape[-1]).long()"),
        "Every place is drawn equally often, whatever its weight: the unit interval is cut into "
        "equal pieces. Make each piece as long as the place's weight.",
    ),
    Slip(
        "the last place never drawn",
        ("shape[-1] - 1)", "shape[-1] - 2)"),
        "The last place is never drawn: the place is cut off at S - 2. Places count from 0, so the "
        "last is S - 1.",
    ),
    Slip(
        "a rest from rounding given to the first place",
        (f"{PLACES}{CLAMP}", "(ends > uniforms[..., None]).int().argmax(dim=-1)"),
        "Where rounding leaves a rest and u lies in it, place 0 is drawn, as argmax gives 0 where "
        "no piece ends beyond u. Give that rest to the last place.",
    ),
    Slip(
        "one place too far",
        (PLACES, f"({PLACES} + 1)"),
        "The place drawn is one too far (the last stays the last). Count the pieces that *end* at "
        "u or before: that count is the index, from 0.",
    ),
    Slip(
        "edges given to the left piece",
        ("ends <= uniforms", "ends < uniforms"),
        "A number u on the edge between two pieces goes to the left one. A piece should begin at "
        "its left edge: count the ends *at most* u (in searchsorted, right=True).",
    ),
    Slip(
        "counted the pieces that end beyond u",
        ("ends <= uniforms", "ends > uniforms"),
        "The pieces that end beyond u are counted. Count those that end at u or before: they lie "
        "to its left, so their number is the place.",
    ),
    Slip(
        "no owner for a rest from rounding",
        (CLAMP, ""),
        "Rounding may let the weights sum to a little less than 1, and u lie above: then the place "
        "drawn does not exist. Let the last place own that rest: clamp(max=S - 1).",
    ),
    Slip(
        "compared u with the weights",
        ("weights.cumsum(dim=-1)", "weights"),
        "u is compared with the weights themselves. Compare it with where the pieces end: the "
        "cumulative sums, weights.cumsum(dim=-1).",
    ),
    Slip(
        "derivative with respect to the weights",
        ("drawn.to(weights.dtype) - weights", "drawn / weights.clamp(min=1e-12)"),
        "This has the derivative of log a with respect to the *weights*, 1 / a at the drawn "
        "place. Take it with respect to the scores: 1 - a at the drawn place, -a elsewhere.",
    ),
    Slip(
        "gradient for the drawn place only",
        ("drawn.to(weights.dtype) - weights", "drawn.to(weights.dtype)"),
        "Only the drawn place gets a gradient. Raising one score lowers the other weights, so "
        "they should get -a each: subtract the weights from the row of zeros and a one.",
    ),
    Slip(
        "baseline taken from the estimate",
        (ESTIMATE, "reward * (drawn.to(weights.dtype) - weights) - baseline"),
        "The baseline is taken from the whole estimate. Unless it is 0, that shifts every entry, "
        "and the estimate is biased; take it from the reward, before the product.",
    ),
    Slip(
        "multiplied by the weight once more",
        (ESTIMATE, f"weights.gather(-1, places[..., None]) * {ESTIMATE}"),
        "The estimate is multiplied by the weight of the drawn place. Drawing already sees to it "
        "that likely places count more often: leave that factor out.",
    ),
    Slip(
        "the gradient itself instead of an estimate",
        (ESTIMATE, "weights * (rewards - (weights * rewards).sum(dim=-1, keepdim=True))"),
        "This is the gradient itself, which needs every place's reward. Only the drawn one's is "
        "known: take (its reward - baseline) times (1 at the place, 0 elsewhere, minus the "
        "weights).",
    ),
    Slip(
        "used rewards nobody knows",
        ("(reward - baseline)", "(rewards - baseline)"),
        "The rewards of all places are used: each entry its own. Only the drawn place's reward is "
        "known: pick it with rewards.gather(-1, places[..., None]).",
    ),
)


def searchsorted(weights, uniforms, rewards, baseline=0.0):
    """searchsorted; one_hot."""
    ends = torch.cumsum(weights, -1).contiguous()
    found = torch.searchsorted(ends, uniforms[..., None].contiguous(), right=True)
    places = torch.clamp(found[..., 0], max=weights.shape[-1] - 1)
    reward = torch.gather(rewards, -1, places.unsqueeze(-1)) - baseline
    drawn = torch.nn.functional.one_hot(places, weights.shape[-1])
    return places, reward * drawn - reward * weights


def first_end(weights, uniforms, rewards, baseline=0.0):
    """The first end beyond u; the last is moved up to infinity."""
    ends = weights.cumsum(-1)
    ends = torch.cat([ends[..., :-1], torch.full_like(ends[..., -1:], math.inf)], -1)
    places = (ends > uniforms.unsqueeze(-1)).int().argmax(-1)
    reward = torch.take_along_dim(rewards, places[..., None], dim=-1)
    grads = -weights * (reward - baseline)
    return places, grads.scatter_add(-1, places[..., None], reward - baseline)


EXERCISE = Exercise(
    chapter="02_alignment",
    title="Hard attention",
    goal="Draw one place instead of mixing all, and estimate the gradient from the reward.",
    reference=alignment.hard_attention_sample,
    contract=replace(
        PROMISES,
        leading_axes=True,
        ranges={"rewards": ANY},
        says=("No gradient needs to flow back through it.",),
    ),
    properties=(
        worked(
            "a hand-worked example: u = 0.6 and u = 0.8",
            torch.tensor([[0.5, 0.25, 0.25]] * 2),
            torch.tensor([0.6, 0.8]),
            torch.tensor([[9.0, 4.0, -3.0], [9.0, 1.0, 8.0]]),
            want=(torch.tensor([1, 2]), torch.tensor([[-2.0, 3.0, -1.0], [-4.0, -2.0, 6.0]])),
            parts=(0, 1),
            tolerance=FLOAT32,
            why="the pieces end at 0.5, 0.75 and 1; u is 0.6 (reward 4) and 0.8 (reward 8)",
        ),
        Property("places: the piece in which u lies, as int64", 1, _places),
        Property("edges, weights of 0 and a rest from rounding", 1, _edges),
        agrees(
            "the estimate is right at baseline 0",
            _estimates,
            part=1,
            tolerance=FLOAT32,
            clue=sums_to_zero(1e-4),
        ),
        agrees(
            "the baseline is taken from the reward", _baselines, part=1, repeat=1, tolerance=FLOAT32
        ),
        Property("only the drawn place's reward is used", 1, _unknown),
        Property("unbiased: over all draws, the mean is the gradient", 1, _unbiased),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    related=True,
    alternatives=(searchsorted, first_end),
    hints=(
        "Lay the weights end to end on a line from 0 to 1. Where does each piece end, and how many "
        "pieces end at u or before it?",
        "The ends are `weights.cumsum(dim=-1)`; how many of them are ≤ u is the place (not beyond "
        "S - 1). For the estimate you need its reward and the row: 1 at the place, 0 elsewhere, "
        "minus the weights.",
        "Compare the ends with `uniforms[..., None]`, sum over the last axis, clamp. "
        "`rewards.gather(-1, places[..., None])` picks one reward for each query and keeps the "
        "axis. The row of zeros and a one is `torch.arange(S) == places[..., None]`, turned into "
        "the weights' dtype. (reward - baseline) times (row - weights).",
    ),
    minutes=12,
    difficulty=3,
    importance=3,
    results=("places", "gradients"),
)
