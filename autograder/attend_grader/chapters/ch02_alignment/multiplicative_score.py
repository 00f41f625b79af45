"""Exercise 02_alignment/multiplicative_score: checks, known slips, other ways to write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import alignment
from torch import Tensor

from attend_grader.chapters.ch02_alignment.shared import PROMISES
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, known
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal


def _pair(
    rng: np.random.Generator, t: int, s: int, n: int, e: int, lead: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """queries (*lead, T, N) and keys (*lead, S, E)."""
    return normal(rng, *lead, t, n), normal(rng, *lead, s, e)


def _worked(subject: Subject, probe: Probe) -> None:
    """q = (1, 2, 2, 0): dot products 5 and 0; and with W, from 2 numbers to 3."""
    queries = torch.tensor([[1.0, 2.0, 2.0, 0.0]])
    keys = torch.tensor([[3.0, 1.0, 0.0, 5.0], [0.0, -1.0, 1.0, 7.0]])
    probe.agree(subject, queries, keys, want=torch.tensor([[5.0, 0.0]]), why="dot")
    queries, keys = torch.tensor([[1.0, 10.0]]), torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
    weight = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    want = torch.tensor([[167.0, 52.0]])
    probe.agree(subject, queries, keys, weight, want=want, why="general: q W = (41, 52, 63)")


def _dot(rng: np.random.Generator) -> Known:
    for t, s, n in ((2, 3, 4), (4, 4, 4), (1, 2, 9), (3, 2, 1)):
        queries, keys = _pair(rng, t, s, n, n)
        want = torch.stack([torch.stack([q.dot(k) for k in keys]) for q in queries])
        yield f"dot, T = {t}, S = {s}, N = {n}", (queries, keys), want


def _general(rng: np.random.Generator) -> Known:
    for t, s, n, e in ((2, 3, 4, 5), (3, 3, 3, 3), (4, 2, 1, 3), (1, 3, 3, 1)):
        queries, keys = _pair(rng, t, s, n, e)
        weight = normal(rng, n, e)
        want = torch.stack([torch.stack([q.dot(weight @ k) for k in keys]) for q in queries])
        yield f"general, T = {t}, S = {s}, N = {n}, E = {e}", (queries, keys, weight), want


def _limits(rng: np.random.Generator) -> Known:
    queries, keys = _pair(rng, 2, 3, 4, 4)
    why = "weight is the identity, so the scores are those of dot"
    yield why, (queries, keys, torch.eye(4)), torch.einsum("tn,sn->ts", queries, keys)
    yield "weight is all zeros", (queries, keys, torch.zeros(4, 4)), torch.zeros(2, 3)


def draws(rng: np.random.Generator) -> list[Call]:
    """General and dot; all lengths different, alike; leading axes; one query; an identity."""
    dot: list[Any] = [(2, 3, 4, 4), (3, 3, 3, 3), (3, 3, 3, 3, (3,))]
    general: list[Any] = [(2, 3, 4, 5), (3, 3, 3, 3), (3, 4, 2, 2, (2,)), (1, 3, 2, 1)]
    return [
        *(Call((*_pair(rng, *each), normal(rng, *each[2:4]))) for each in general),
        *(Call(_pair(rng, *each)) for each in dot),
        Call((*_pair(rng, 1, 1, 3, 3), torch.eye(3))),
    ]


ANSWER = "queries @ keys.mT"
WEIGHT = "queries = queries @ weight"

SLIPS = (
    Slip(
        "scaled by the root of the width",
        (ANSWER, f"{ANSWER} / keys.shape[-1] ** 0.5"),
        "The scores are divided by the root of the width of the keys. That scale came in 2017 "
        "(chapter 03); Luong's scores of 2015 are not scaled.",
    ),
    Slip(
        "weight transposed",
        (WEIGHT, f"{WEIGHT}.mT"),
        "The weight is transposed, which goes unnoticed in the shapes where N = E. The score "
        "should be q W k: queries @ weight, then the keys.",
    ),
    Slip(
        "ignored the weight",
        (WEIGHT, "pass"),
        "The scores are the dot products, also where a weight is given. Then multiply the queries "
        "by it first.",
    ),
    Slip(
        "axes counted from the start",
        ("keys.mT", "keys.transpose(0, 1)"),
        "Single matrices come out right. In stacks of them the wrong axes of the keys are "
        "exchanged, counted from the start. Exchange the last two: keys.mT, or keys.transpose(-1, "
        "-2).",
    ),
    Slip(
        "cosine instead of the product",
        (
            ANSWER,
            "torch.nn.functional.normalize(queries, dim=-1)"
            " @ torch.nn.functional.normalize(keys, dim=-1).mT",
        ),
        "Each vector is divided by its own length (cosine similarity). Luong's score is the plain "
        "product.",
    ),
    Slip(
        "softmax taken already",
        (ANSWER, f"torch.softmax({ANSWER}, dim=-1)"),
        "These are weights: each row sums to 1. Return the scores; leave the softmax to attend.",
    ),
    Slip(
        "tanh taken of the scores",
        (ANSWER, f"torch.tanh({ANSWER})"),
        "The scores lie between -1 and 1, as after a tanh. That belongs to the additive score; "
        "Luong's is the plain product.",
    ),
    Slip(
        "query t with key t only",
        (ANSWER, "(queries * keys).sum(dim=-1)"),
        "Query t meets key t only: where that is no error, a whole axis is missing. Let every "
        "query meet every key: queries @ keys.mT.",
    ),
    Slip(
        "asked whether the weight is true",
        ("weight is not None", "weight"),
        "It stops where a weight of several numbers is given, as `if weight:` does, which asks "
        "whether a tensor is true. `if weight is not None:` asks whether there is one.",
    ),
)


def weight_on_keys(queries, keys, weight=None):
    """The weight is applied to the keys."""
    if weight is not None:
        keys = keys @ weight.T
    return torch.matmul(queries, keys.transpose(-2, -1))


def broadcast(queries, keys, weight=None):
    """Every product at once, then a sum over the width; the identity where there is no weight."""
    if weight is None:
        weight = torch.eye(keys.shape[-1], dtype=keys.dtype)
    return ((queries @ weight).unsqueeze(-2) * keys.unsqueeze(-3)).sum(-1)


EXERCISE = Exercise(
    chapter="02_alignment",
    title="Multiplicative score",
    goal="Compare them by a product instead: dot, or general with a weight in between.",
    reference=alignment.multiplicative_score,
    contract=replace(
        PROMISES, leading_axes=("queries", "keys"), gradients=("queries", "keys", "weight")
    ),
    properties=(
        Property("hand-worked examples: dot and general", 1, _worked),
        known("dot: every query with every key, unscaled", _dot, tolerance=FLOAT32),
        known("general: the weight between query and key", _general, points=2, tolerance=FLOAT32),
        known("the identity gives dot; zeros give 0", _limits, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(weight_on_keys, broadcast),
    hints=(
        "Without a weight: which matrix product holds the dot product of every query with every "
        "key?",
        "The last two axes of the keys have to be exchanged, and only those: `keys.mT`. With a "
        "weight (N, E), the queries become as wide as the keys first.",
        "If `weight` is not None, let the queries be `queries @ weight`, (..., T, E). Then "
        "multiply by `keys.mT`. Do not divide by anything.",
    ),
    minutes=8,
    difficulty=2,
    importance=5,
)
