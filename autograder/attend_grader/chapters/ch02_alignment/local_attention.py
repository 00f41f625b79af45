"""Exercise 02_alignment/local_attention: checks, known slips, other ways to write it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import alignment
from torch import Tensor

from attend_grader.chapters.ch02_alignment.shared import FAINT, PROMISES, faint, sums
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known, worked
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.torch_numbers import normal

PLAIN = {"gaussian": False}
SIDE = (0.0193, 0.0587, 0.1144)


def _inputs(
    rng: np.random.Generator, t: int, s: int, e: int, lead: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """scores (*lead, T, S), values (*lead, S, E), centre (*lead, T) off whole and half numbers."""
    past = rng.uniform(0.1, 0.4, (*lead, t)).round(2) + rng.choice((0.0, 0.5), (*lead, t))
    centre = rng.integers(0, s - 1, (*lead, t)) + past
    scores, values = normal(rng, *lead, t, s), normal(rng, *lead, s, e)
    return scores, values, torch.from_numpy(centre).float()


def _window(rng: np.random.Generator) -> Known:
    """Without the bell: a softmax over the places inside, edges included, 0 elsewhere."""
    for t, s, window in ((3, 7, 2), (6, 6, 1), (2, 9, 3)):
        scores, values, centre = _inputs(rng, t, s, 2)
        for middle, kind in ((centre, "between places"), (centre.floor(), "on places")):
            want = torch.zeros(t, s)
            for i in range(t):
                inside = [j for j in range(s) if abs(j - middle[i].item()) <= window]
                want[i, inside] = torch.softmax(scores[i, inside], dim=-1)
            why = f"gaussian=False, window = {window}, centres {kind}"
            yield why, (scores, values, middle, window), (want @ values, want)


def _bell(rng: np.random.Generator) -> Fresh:
    for t, s, window in ((3, 7, 2), (5, 5, 1), (2, 9, 4), (1, 8, 3)):
        why = f"gaussian is True by default; window = {window}, so σ = {window / 2}"
        yield why, Call((*_inputs(rng, t, s, 2), window))
    scores, values, centre = _inputs(rng, 3, 6, 2)
    yield "every centre is place 0; window = 2", Call((scores, values, 0 * centre, 2))
    for s, window in ((5, 5), (4, 7)):
        why = f"S = {s}, window = {window}, so every place is inside, under the bell"
        yield why, Call((*_inputs(rng, 3, s, 2), window))


def _contexts(rng: np.random.Generator) -> Fresh:
    for e, gaussian in ((4, True), (1, False), (6, True)):
        yield f"gaussian={gaussian}", Call((*_inputs(rng, 3, 6, e), 2), {"gaussian": gaussian})


def _limits(rng: np.random.Generator) -> Known:
    scores, values, _ = _inputs(rng, 2, 6, 3)
    inside = torch.tensor([[1.0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 0]])
    centre = torch.tensor([1.0, 2.75])
    weights = torch.softmax(scores.masked_fill(inside == 0, -torch.inf), dim=-1)
    scores[:, 5] = 1e12
    why = "a score of 10¹² outside the window, which must not count"
    yield why, (scores, values, centre, 2), (weights @ values, weights)
    order = torch.from_numpy(rng.permuted(np.tile(np.arange(1.0, 7), (2, 1)), axis=1)).float()
    best = (order + 10 * (1 - inside)).argmin(dim=-1)
    weights = torch.nn.functional.one_hot(best, 6).float()
    scores = torch.where(inside == 1, -1e10 * order, 0.0)
    why = "scores near −10¹⁰ inside the window and 0 outside, where no weight belongs"
    yield why, (scores, values, centre, 2), (weights @ values, weights)
    weights = inside / inside.sum(dim=-1, keepdim=True)
    given = (torch.full((2, 6), 1e9), values, centre, 2)
    yield "equal scores, of 10⁹", given, (weights @ values, weights)
    scores, values, centre = _inputs(rng, 2, 5, 3)
    weights = torch.softmax(scores, dim=-1)
    why = "the window holds every place, so this is attention"
    yield why, (scores, values, centre, 5), (weights @ values, weights)
    one, faintly = faint(rng, 12)
    weights = torch.softmax(one, dim=-1)[None]
    given = (one[None], faintly, torch.tensor([5.5]), 6)
    yield FAINT, given, (weights @ faintly, weights)
    weights = torch.zeros(2, 5)
    weights[0, :2] = torch.softmax(scores[0, :2], dim=-1)
    weights[1, 3:] = torch.softmax(scores[1, 3:], dim=-1)
    why = "centres at the first and the last place"
    yield why, (scores, values, torch.tensor([0.0, 4.0]), 1), (weights @ values, weights)


def _edges(rng: np.random.Generator) -> Known:
    """In float64 two centres that float32 cannot tell from whole numbers."""
    scores, values, _ = (x.double() for x in _inputs(rng, 2, 6, 3))
    centre = torch.tensor([2 + 1e-10, 3 - 1e-10], dtype=torch.float64)
    weights = torch.zeros(2, 6, dtype=torch.float64)
    weights[:, 1:5] = torch.softmax(scores[:, 1:5], dim=-1)
    why = "float64, window 2; centres 2 + 10⁻¹⁰ and 3 − 10⁻¹⁰ leave the places 0 and 5 outside"
    yield why, (scores, values, centre, 2), (weights @ values, weights)


def draws(rng: np.random.Generator) -> list[Call]:
    """Centres between and on places, with and without the bell, leading axes, one query, place."""
    scores, values, centre = _inputs(rng, 5, 7, 2)
    sizes: list[Any] = [(3, 8, 2), (5, 5, 5), (3, 5, 2, (3,)), (1, 6, 1)]
    return [
        *(Call((*_inputs(rng, *each), w)) for each, w in zip(sizes, (3, 1, 1, 2), strict=True)),
        Call((*_inputs(rng, 3, 8, 2), 2), PLAIN),
        Call((scores, values, centre.floor(), 2), PLAIN),
        Call((scores, values, centre.floor(), 1)),
        Call((*_inputs(rng, 3, 4, 2), 5)),
        *(Call((normal(rng, 2, 1), normal(rng, 1, 3), torch.zeros(2), 1), o) for o in ({}, PLAIN)),
    ]


HIDDEN = "scores.masked_fill(outside, -torch.inf)"
SOFTMAX = f"torch.softmax({HIDDEN}, dim=-1)"
BELL = "torch.exp(-(distance**2) / (2 * sigma**2))"
RESULTS = "weights @ values, weights"

SLIPS = (
    Slip(
        "made to sum to 1 after the bell",
        (
            f"weights * {BELL}",
            f"weights * {BELL}\n        weights = weights / weights.sum(dim=-1, keepdim=True)",
        ),
        "With the bell, your weights sum to 1 again. That also happens where the bell's exponent "
        "is added to the scores before the softmax. The paper leaves the products as they are.",
    ),
    Slip(
        "softmax over all places, then cut",
        (SOFTMAX, "torch.softmax(scores, dim=-1).masked_fill(outside, 0.0)"),
        "The softmax runs over all places, and those outside are cut off afterwards: their share "
        "is lost. Hide them before the softmax, with a score of -inf.",
    ),
    Slip(
        "score 0 instead of -inf outside",
        ("-torch.inf", "0.0"),
        "Places outside get the score 0, and exp(0) is 1, not 0. Give them -inf.",
    ),
    Slip(
        "window cut on the right only",
        ("distance.abs() > window", "distance > window"),
        "Places too far to the right are hidden, those too far to the left are not. Hide both: "
        "s - p has a sign, so compare its size, |s - p| > window.",
    ),
    Slip(
        "window cut on the left only",
        ("distance.abs() > window", "-distance > window"),
        "Places too far to the left are hidden, those too far to the right are not. Hide both: "
        "s - p has a sign, so compare its size, |s - p| > window.",
    ),
    Slip(
        "σ = window",
        ("window / 2", "window"),
        "The bell is too wide: σ is the window. It should be half of it, σ = window / 2.",
    ),
    Slip(
        "the 2 of 2 σ² forgotten",
        ("(2 * sigma**2)", "(sigma**2)"),
        "The exponent is -(s - p)² / σ². It should be half of that: divide by 2 σ².",
    ),
    Slip(
        "σ cut to a whole number",
        ("window / 2", "window // 2"),
        "With an even window all is right, with an odd one the bell is too narrow (with 1, σ is "
        "0), as if σ were cut to a whole number. Take window / 2, not window // 2.",
    ),
    Slip(
        "σ cut to a whole number from window 3 on",
        ("window / 2", "max(window // 2, 0.5)"),
        "With window 1 or an even one all is right, with 3 or 5 the bell is too narrow, as if σ "
        "were cut to a whole number. Take window / 2, not window // 2.",
    ),
    Slip(
        "distance not squared",
        ("-(distance**2)", "-distance.abs()"),
        "The bell comes to a point: its exponent has the distance as it is. Square it: "
        "-(s - p)² / (2 σ²).",
    ),
    Slip(
        "window halved",
        ("distance.abs() > window", "distance.abs() > window / 2"),
        "Only places up to half of `window` away are inside. It should reach `window` places to "
        "either side of the centre.",
    ),
    Slip(
        "inside and outside exchanged",
        ("distance.abs() > window", "distance.abs() <= window"),
        "The places inside the window are hidden, and those outside, if any, get the weight. "
        "masked_fill hides where its condition is True: give it |s - p| > window.",
    ),
    Slip(
        "softmax over the queries",
        (SOFTMAX, SOFTMAX.replace("-1", "-2")),
        "The softmax runs over the queries: before the bell, columns sum to 1, or are NaN. Let "
        "each query share its weight among the places: dim=-1.",
    ),
    Slip(
        "window about a rounded centre",
        (
            "distance.abs() > window",
            "(torch.arange(scores.shape[-1]) - centre[..., None].round()).abs() > window",
        ),
        "The window lies about the centre rounded to a whole place; only the bell is about the "
        "centre itself. Both belong to the real number.",
    ),
    Slip(
        "edges of the window left out",
        ("distance.abs() > window", "distance.abs() >= window"),
        "A place exactly `window` away is left out. It should still be inside: hide where the "
        "distance is *larger* than the window.",
    ),
    Slip(
        "centre rounded",
        ("centre[..., None]", "centre.round()[..., None]"),
        "The centre is rounded to a whole place. It may lie between two: keep the real number.",
    ),
    Slip(
        "centre cut off",
        ("centre[..., None]", "centre.floor()[..., None]"),
        "The centre is cut off to the whole place before it. It may lie between two: keep the real "
        "number.",
    ),
    Slip(
        "contexts without the bell",
        (
            ("    if gaussian:", "    contexts = weights @ values\n    if gaussian:"),
            (RESULTS, "contexts, weights"),
        ),
        "The weights you return have the bell, but the contexts were made without it (or before "
        "it). Multiply first, then mix the values with the same weights.",
    ),
)


def by_hand(scores, values, centre, window, gaussian=True):
    """Exponentials times a mask; the bell in the form of the paper."""
    places = torch.arange(scores.size(-1)).to(scores)
    away = places - centre.unsqueeze(-1)
    inside = (places >= centre.unsqueeze(-1) - window) & (places <= centre.unsqueeze(-1) + window)
    hidden = torch.where(inside, scores, torch.full_like(scores, -math.inf))
    weights = torch.exp(torch.log_softmax(hidden, -1))
    if gaussian:
        weights = weights * torch.exp(-0.5 * torch.square(away / (window / 2)))
    return torch.einsum("...ts,...se->...te", weights, values), weights


def added_mask(scores, values, centre, window, gaussian=True):
    """A mask of 0 and -inf is added; the bell as a power of 2 σ² = window² / 2.

    Centres lie between the first and the last place: one that does not is no call to judge by.
    """
    centre = centre.clamp(0, scores.shape[-1] - 1)
    away = centre[..., None] - torch.arange(scores.shape[-1])
    mask = torch.zeros_like(scores).masked_fill(away.abs() > window, -torch.inf)
    weights = (scores + mask).softmax(-1)
    bell = torch.exp(-2 * away.pow(2) / window**2) if gaussian else torch.ones_like(weights)
    return (weights * bell) @ values, weights * bell


EXERCISE = Exercise(
    chapter="02_alignment",
    title="Local attention",
    goal="Attend to the places near a centre only, and more to the nearer ones.",
    reference=alignment.local_attention,
    contract=replace(
        PROMISES,
        leading_axes=True,
        ranges={"centre": AS_DRAWN},
        gradients=("scores", "values", "centre"),
    ),
    properties=(
        worked(  # a place is outside on either side, and σ is such that 2 σ² is not 2 σ
            "a hand-worked example: window 3 about place 4",
            torch.zeros(1, 9),
            torch.tensor([99.0, 0.0, 0.0, 0.0, 7.0, 14.0, 0.0, 0.0, 99.0])[:, None],
            torch.tensor([4.0]),
            3,
            want=(torch.tensor([[2.6015]]), torch.tensor([[0.0, *SIDE, 0.1429, *SIDE[::-1], 0.0]])),
            parts=(1, 0),
            tolerance=PRINTED,
            why="equal scores, centre 4, window 3 (σ = 1.5): 1/7 times exp(-d²/4.5)",
        ),
        known(
            "without the bell: a softmax over the window alone",
            _window,
            points=2,
            part=1,
            tolerance=FLOAT32,
            clue=sums,
            options=PLAIN,
        ),
        agrees(
            "with it: times the bell, not summing to 1 again",
            _bell,
            points=2,
            part=1,
            tolerance=FLOAT32,
        ),
        agrees(
            "contexts: the right weights times the values", _contexts, part=0, tolerance=FLOAT32
        ),
        known(
            "scores outside do not count; wide windows; both ends",
            lambda rng: (*_limits(rng), *_edges(rng)),
            tolerance=FLOAT32,
            options=PLAIN,
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_hand, added_mask),
    hints=(
        "How far is every place from every query's centre? Almost all you need follows from that "
        "one table, (..., T, S).",
        "The distances are `torch.arange(S) - centre[..., None]`. Where they are larger than the "
        "window, in either direction, the score must be -inf before the softmax. The bell "
        "multiplies what comes out of it.",
        "`scores.masked_fill(distance.abs() > window, -torch.inf)`, softmax along the last axis; "
        "if `gaussian`, times `torch.exp(-distance**2 / (2 * sigma**2))` with sigma = window / 2. "
        "Do not divide by the new sum. The contexts are these weights @ values.",
    ),
    minutes=12,
    difficulty=3,
    importance=3,
    results=("contexts", "weights"),
)
