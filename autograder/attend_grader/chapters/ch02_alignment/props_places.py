"""Chapter 02, places: what must hold of hard attention's draws and of local attention.

For hard attention the oracle is exact enumeration: numbers u spread evenly over the unit interval
draw each place exactly as often as its weight says, so the estimates' mean is the gradient itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.chapters.ch02_alignment.props_scores import LEADS, sums
from attend_grader.checks.compare import FLOAT32, FLOAT64, PRINTED, Miss
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import expect_unchanged
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import (
    agree_dtype,
    agree_gradients,
    agree_untouched,
    normal,
)

# hard_attention_sample


def distributions(rng: np.random.Generator, *shape: int) -> Tensor:
    """Random weights of three decimals along the last axis, each at least 0.02."""
    spread = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    weights = (0.02 + (1 - 0.02 * shape[-1]) * spread).round(3)
    largest = weights.argmax(axis=-1)[..., None]  # takes up what rounding leaves
    rest = 1 - weights.sum(axis=-1, keepdims=True)
    taken = np.take_along_axis(weights, largest, -1) + rest
    np.put_along_axis(weights, largest, taken, -1)
    return torch.from_numpy(weights.round(3)).float()


def hard_inputs(rng: np.random.Generator, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """weights (*shape), uniforms (*shape[:-1]) away from the edges of the pieces, rewards."""
    weights = distributions(rng, *shape)
    ends = weights.double().cumsum(dim=-1)
    places = torch.from_numpy(rng.integers(0, shape[-1], shape[:-1]))[..., None]
    own = weights.double().gather(-1, places)[..., 0]
    inside = torch.from_numpy(rng.uniform(0.2, 0.8, shape[:-1]))
    uniforms = ends.gather(-1, places)[..., 0] - own * inside
    return weights, uniforms.float(), normal(rng, *shape)


def hard_worked(subject: Subject, probe: Probe) -> None:
    """Weights 0.5, 0.25, 0.25: u = 0.6 falls into the second piece, 0.8 into the last."""
    weights = torch.tensor([[0.5, 0.25, 0.25]] * 2)
    rewards = torch.tensor([[9.0, 4.0, -3.0], [9.0, 1.0, 8.0]])
    want = (torch.tensor([1, 2]), torch.tensor([[-2.0, 3.0, -1.0], [-4.0, -2.0, 6.0]]))
    for part in (0, 1):
        why = "the pieces end at 0.5, 0.75 and 1; u is 0.6 (reward 4) and 0.8 (reward 8)"
        arguments = (weights, torch.tensor([0.6, 0.8]), rewards)
        probe.agree(subject, *arguments, want=want, part=part, tolerance=FLOAT32, why=why)


def hard_places(subject: Subject, probe: Probe) -> None:
    """The piece in which u lies."""
    for _ in probe.repeat(1, 3):
        for shape in ((4, 3), (3, 3), (6, 5), (2, 1)):
            inputs = hard_inputs(probe.rng, *shape)
            outcome = probe.agree(subject, *inputs, part=0, tolerance=FLOAT32)
            places = outcome.value[0]
            if isinstance(places, Tensor) and places.dtype != torch.int64:
                kind = places.dtype
                raise probe.miss(f"places has dtype {kind}, expected torch.int64.", *inputs)


def hard_edges(subject: Subject, probe: Probe) -> None:
    """A piece begins at its left edge; a weight of 0 owns nothing; a rest belongs to the last."""

    def hold(row: list[float], uniforms: list[float], places: list[int], why: str) -> None:
        weights = torch.tensor([row] * len(uniforms))
        want = (torch.tensor(places), torch.zeros_like(weights))
        arguments = (weights, torch.tensor(uniforms), torch.zeros_like(weights))
        probe.agree(subject, *arguments, want=want, part=0, why=why)

    why = "each u is the left edge of a piece, which owns it"
    hold([0.5, 0.25, 0.25], [0.0, 0.5, 0.75], [0, 1, 2], why)
    hold([0.0, 0.5, 0.0, 0.5], [0.0, 0.5], [1, 3], "a place of weight 0 owns no number")
    why = "the weights sum to 0.999 and u is larger: the rest belongs to the last place"
    hold([0.333] * 3, [0.9995], [2], why)


def hard_estimate(subject: Subject, probe: Probe) -> None:
    """(reward - baseline) · (1 at the drawn place, 0 elsewhere, minus the weights)."""

    def clue(value: Any) -> str:
        worst = float(np.abs(value.sum(axis=-1)).max())
        if worst < 1e-4 or not np.isfinite(worst):
            return ""
        return (
            f"A row of yours sums to {worst:.4g}; raising all scores alike changes no weight, so "
            "each row must sum to 0."
        )

    for _ in probe.repeat(1, 3):
        for shape in ((3, 4), (4, 4), (2, 5)):
            inputs = hard_inputs(probe.rng, *shape)
            probe.agree(subject, *inputs, part=1, tolerance=FLOAT32, clue=clue)


def hard_baseline(subject: Subject, probe: Probe) -> None:
    """The baseline is taken from the reward; it is 0 if left out; equal to the reward, all is 0."""
    for baseline in (1.5, -2.0):
        inputs = hard_inputs(probe.rng, 3, 4)
        why = f"baseline = {baseline}"
        probe.agree(subject, *inputs, baseline=baseline, part=1, tolerance=FLOAT32, why=why)
    weights, uniforms, _ = hard_inputs(probe.rng, 2, 3)
    same = torch.full((2, 3), 2.5)
    want = probe.reference(weights, uniforms, same, 2.5)
    why = "reward and baseline are both 2.5, so the estimate is 0"
    probe.agree(
        subject,
        weights,
        uniforms,
        same,
        baseline=2.5,
        want=want,
        part=1,
        tolerance=FLOAT32,
        why=why,
    )


def hard_unknown(subject: Subject, probe: Probe) -> None:
    """Nobody knows what a place that was not drawn would have earned."""
    weights, uniforms, rewards = hard_inputs(probe.rng, 3, 4)
    places, want = probe.reference(weights, uniforms, rewards)
    known = torch.full((3, 4), torch.nan)
    known.scatter_(-1, places[..., None], rewards.gather(-1, places[..., None]))
    why = "only the drawn place's reward is known, the others are NaN"

    def clue(value: Any) -> str:
        if value.dtype.kind != "f" or not np.isnan(value).any():
            return ""
        return "NaN times 0 is NaN: do not multiply by zeros, pick the drawn reward with gather."

    given = (weights, uniforms, known)
    probe.agree(subject, *given, want=(places, want), part=0, why=why)
    probe.agree(subject, *given, want=(places, want), part=1, tolerance=FLOAT32, why=why, clue=clue)


def hard_unbiased(subject: Subject, probe: Probe) -> None:
    """The mean over all draws is the gradient of the expected reward."""
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    rewards, baseline = normal(probe.rng, 4), 0.7
    grid = (torch.arange(20) + 0.5) / 20  # each place is drawn as often as its weight says
    step = 1e-4
    ends = torch.eye(4, dtype=torch.float64) * step
    scores = weights.double().log()
    value = [torch.softmax(scores + sign * ends, dim=-1) @ rewards.double() for sign in (1, -1)]
    want = ((value[0] - value[1]) / (2 * step)).float()
    arguments = (weights.expand(20, 4).clone(), grid, rewards.expand(20, 4).clone())
    outcome = probe.call(subject, *arguments, baseline=baseline)
    got = outcome.value[1] if isinstance(outcome.value, (tuple, list)) else None
    if not isinstance(got, Tensor) or got.shape != (20, 4):
        probe.agree(subject, *arguments, baseline=baseline, part=1, tolerance=FLOAT32)
        return
    mean = got.detach().mean(dim=0)
    if not torch.allclose(mean, want, atol=1e-4):
        told = f"expected reward's gradient {_text(want)}, mean of your estimates {_text(mean)}"
        raise Miss(
            "the estimates are biased: over 20 numbers u that draw each place as often as its "
            f"weight says, their mean is not the gradient. {told}.",
            cause="Is it ∇ log a with respect to the scores, times (reward − baseline)?",
        )


def _text(values: Tensor) -> str:
    return "(" + ", ".join(f"{value:.3f}" for value in values.tolist()) + ")"


def hard_awkward(subject: Subject, probe: Probe) -> None:
    """Leading axes, none at all, views, float64; and the arguments stay as they were."""
    for shape in ((4,), (2, 3, 4), (2, 1, 3, 5)):
        count = len(shape) - 1
        why = f"{count} leading {'axis' if count == 1 else 'axes'}"
        probe.agree(subject, *hard_inputs(probe.rng, *shape), tolerance=FLOAT32, why=why)
    inputs = hard_inputs(probe.rng, 3, 4)
    expect_unchanged(probe, probe.call(subject, *inputs))
    agree_untouched(probe, subject, *inputs)
    wide = [tensor.double().round(decimals=6) for tensor in inputs]
    probe.agree(subject, *wide, tolerance=FLOAT64, why="float64 arguments")


HARD = (
    Property("a hand-worked example: u = 0.6 and u = 0.8", 1, hard_worked),
    Property("places: the piece in which u lies, as int64", 1, hard_places),
    Property("edges, weights of 0 and a rest from rounding", 1, hard_edges),
    Property("the estimate is right at baseline 0", 1, hard_estimate),
    Property("the baseline is taken from the reward", 1, hard_baseline),
    Property("only the drawn place's reward is used", 1, hard_unknown),
    Property("unbiased: over all draws, the mean is the gradient", 1, hard_unbiased),
    Property("leading axes, views, float64; arguments unchanged", 1, hard_awkward),
)


def hard_draws(rng: np.random.Generator) -> list[Call]:
    """With a baseline; without; edges; a rest from rounding; leading axes; float64."""
    edges = torch.tensor([[0.5, 0.25, 0.25]] * 3), torch.tensor([0.0, 0.5, 0.75])
    thirds = torch.full((1, 3), 0.333), torch.tensor([0.9995])
    return [
        Call(hard_inputs(rng, 6, 5), {"baseline": 1.5}),
        Call(hard_inputs(rng, 6, 4)),
        Call(hard_inputs(rng, 4, 4), {"baseline": -0.5}),
        Call((*edges, normal(rng, 3, 3))),
        Call((*thirds, normal(rng, 1, 3))),
        Call(hard_inputs(rng, 2, 3, 4)),
    ]


# local_attention


def local_inputs(
    rng: np.random.Generator, t: int, s: int, e: int, lead: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """scores (*lead, T, S), values (*lead, S, E), centre (*lead, T) off the half numbers."""
    centre = rng.integers(0, s - 1, (*lead, t)) + rng.uniform(0.1, 0.4, (*lead, t)).round(2)
    scores, values = normal(rng, *lead, t, s), normal(rng, *lead, s, e)
    return scores, values, torch.from_numpy(centre).float()


def local_worked(subject: Subject, probe: Probe) -> None:
    """Window 3 about place 4 of 9, equal scores: 1/7 each, then the bell exp(-d²/4.5).

    A place is outside on either side, and σ is neither 1 nor whole, so that 2 σ² is not 2 σ.
    """
    values = torch.tensor([[99.0], [0.0], [0.0], [0.0], [7.0], [14.0], [0.0], [0.0], [99.0]])
    side = [0.0193, 0.0587, 0.1144]
    bell = torch.tensor([[0.0, *side, 0.1429, *side[::-1], 0.0]])
    want = (torch.tensor([[2.6015]]), bell)
    why = "equal scores, centre 4, window 3 (σ = 1.5): 1/7 times exp(-d²/4.5)"
    arguments = (torch.zeros(1, 9), values, torch.tensor([4.0]), 3)
    for part in (1, 0):
        probe.agree(subject, *arguments, want=want, part=part, tolerance=PRINTED, why=why)


def local_window(subject: Subject, probe: Probe) -> None:
    """Without the bell: a softmax over the places inside, edges included, 0 elsewhere."""
    for _ in probe.repeat(1, 3):
        for t, s, window in ((3, 7, 2), (6, 6, 1), (2, 9, 3)):
            scores, values, centre = local_inputs(probe.rng, t, s, 2)
            for middle, kind in ((centre, "between places"), (centre.floor(), "on places")):
                want = torch.zeros(t, s)
                for i in range(t):
                    inside = [j for j in range(s) if abs(j - middle[i].item()) <= window]
                    want[i, inside] = torch.softmax(scores[i, inside], dim=-1)
                why = f"gaussian=False, window = {window}, centres {kind}"
                probe.agree(
                    subject,
                    scores,
                    values,
                    middle,
                    window,
                    gaussian=False,
                    want=(want @ values, want),
                    part=1,
                    tolerance=FLOAT32,
                    why=why,
                    clue=sums,
                )


def local_bell(subject: Subject, probe: Probe) -> None:
    """With it: the same weights times exp(-(s - p)² / (2 σ²)), not made to sum to 1 again."""

    def clue(weights: Any) -> str:
        if np.allclose(weights.sum(axis=-1), 1, atol=1e-4):
            return "Yours sum to 1. The products with the bell stay as they are (equation 10)."
        return ""

    for _ in probe.repeat(1, 3):
        for t, s, window in ((3, 7, 2), (5, 5, 1), (2, 9, 4)):
            inputs = (*local_inputs(probe.rng, t, s, 2), window)
            why = f"gaussian is True by default; window = {window}, so σ = {window / 2}"
            probe.agree(subject, *inputs, part=1, tolerance=FLOAT32, why=why, clue=clue)


def local_contexts(subject: Subject, probe: Probe) -> None:
    """The weights times the values, also where they do not sum to 1."""
    for gaussian in (True, False):
        inputs = (*local_inputs(probe.rng, 3, 6, 4), 2)
        why = f"gaussian={gaussian}, the contexts"
        probe.agree(subject, *inputs, gaussian=gaussian, part=0, tolerance=FLOAT32, why=why)


def local_limits(subject: Subject, probe: Probe) -> None:
    """A huge score outside does not count; a window over everything is attention; the ends."""
    scores, values, _ = local_inputs(probe.rng, 2, 6, 3)
    scores[:, 5] = 1e4
    why = "a score of 10,000 outside the window, which must not count"
    centre = torch.tensor([1.0, 2.25])
    probe.agree(subject, scores, values, centre, 2, gaussian=False, tolerance=FLOAT32, why=why)
    scores, values, centre = local_inputs(probe.rng, 2, 5, 3)
    weights = torch.softmax(scores, dim=-1)
    want = (weights @ values, weights)
    why = "the window holds every place, so this is attention"
    probe.agree(
        subject, scores, values, centre, 5, gaussian=False, want=want, tolerance=FLOAT32, why=why
    )
    ends = torch.tensor([0.0, 4.0])
    why = "centres at the first and the last place"
    probe.agree(subject, scores, values, ends, 1, tolerance=FLOAT32, why=why)


def local_leading(subject: Subject, probe: Probe) -> None:
    """Each leading index is a problem of its own."""
    for lead in LEADS:
        inputs = (*local_inputs(probe.rng, 3, 5, 2, lead), 1)
        count = f"{len(lead)} leading {'axis' if len(lead) == 1 else 'axes'}"
        probe.agree(subject, *inputs, tolerance=FLOAT32, why=count)


def local_gradients(subject: Subject, probe: Probe) -> None:
    """Scores, values and (through the bell) the centre learn."""
    inputs = (*local_inputs(probe.rng, 3, 7, 2), 2)
    agree_gradients(probe, subject, *inputs, wrt=(0, 1, 2))


def local_awkward(subject: Subject, probe: Probe) -> None:
    """Views, float64; and the arguments stay as they were."""
    inputs = (*local_inputs(probe.rng, 2, 6, 3), 2)
    agree_untouched(probe, subject, *inputs)
    agree_dtype(probe, subject, *inputs, tolerance=FLOAT64)


LOCAL = (
    Property("a hand-worked example: window 3 about place 4", 1, local_worked),
    Property("without the bell: a softmax over the window alone", 2, local_window),
    Property("with it: times the bell, not summing to 1 again", 2, local_bell),
    Property("contexts: these weights times the values", 1, local_contexts),
    Property("scores outside do not count; wide windows; both ends", 1, local_limits),
    Property("any number of leading axes", 1, local_leading),
    Property("gradients reach scores, values and centre", 1, local_gradients),
    Property("views and float64 work; arguments stay as they were", 1, local_awkward),
)


def local_draws(rng: np.random.Generator) -> list[Call]:
    """Centres between and on places, with and without the bell, leading axes."""
    scores, values, centre = local_inputs(rng, 5, 7, 2)
    return [
        Call((*local_inputs(rng, 3, 8, 2), 3)),
        Call((*local_inputs(rng, 3, 8, 2), 2), {"gaussian": False}),
        Call((scores, values, centre.floor(), 2), {"gaussian": False}),
        Call((scores, values, centre.floor(), 1)),
        Call((*local_inputs(rng, 5, 5, 5), 1)),
        Call((*local_inputs(rng, 3, 5, 2, (3,)), 1)),
    ]
