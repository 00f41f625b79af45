"""Exercise 05_multi_head/repeat_kv: hand each head of keys to a group of query heads."""

from __future__ import annotations

import numpy as np
import torch
from attend_solutions import multi_head

from attend_grader.chapters.ch05_multi_head.shared import MOVES_NUMBERS, keeps, whole
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import normal


def _limits(rng: np.random.Generator) -> Known:
    x = normal(rng, 2, 3, 4, 2)
    yield "repeats = 1", (x, 1), x
    x = normal(rng, 2, 1, 3, 2)
    yield "one head for all four", (x, 4), x.expand(2, 4, 3, 2)


def _places(subject: Subject, probe: Probe) -> None:
    """Query head h finds key head h // repeats."""
    for _ in probe.repeat(1, 3):
        for shape, repeats in (((2, 2, 3, 5), 2), ((1, 3, 2, 4), 3), ((2, 2, 2, 2), 2)):
            x = whole(probe.rng, *shape).float()
            why = f"{shape[1]} heads, repeats = {repeats}"
            probe.agree(subject, x, repeats, why=why)
    keeps(subject, probe, whole(probe.rng, 2, 2, 3, 2), 2, moved=lambda x: x[:, [0, 0, 1, 1]])


def draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different; all equal; once; more copies than heads; integers."""
    sizes = ((2, 3, 5, 4), 2), ((2, 2, 2, 2), 2), ((1, 3, 2, 4), 1), ((1, 1, 2, 3), 4)
    many = (((1, 2, 3, 2), 5), ((2, 2, 1, 3), 8))
    made = [Call((normal(rng, *shape), times)) for shape, times in (*sizes, *many)]
    return [*made, Call((whole(rng, 1, 2, 3, 2), 3)), Call((normal(rng, 2, 2, 3, 4).relu(), 2))]


def wide(rng: np.random.Generator) -> list[Call]:
    """Every number of copies: quotients are not always exact."""
    return [Call((normal(rng, 1, 2, 1, 1), times)) for times in range(2, 130)]


COPIES = "x[:, :, None].expand(batch, groups, repeats, tokens, width)"
JOINED = "copies.reshape(batch, groups * repeats, tokens, width)"

SLIPS = (
    Slip(
        "copies in rounds",
        (COPIES, "x[:, None].expand(batch, repeats, groups, tokens, width)"),
        "Your copies come in rounds: heads 0, 1, 0, 1, as x.repeat(…) or torch.cat lays them. "
        "Expected are neighbours: 0, 0, 1, 1. Put the axis of the copies behind that of the heads, "
        "x[:, :, None], expand it, and make one axis of the two.",
    ),
    Slip(
        "tokens repeated",
        (JOINED, "x.repeat_interleave(repeats, dim=2)"),
        "The tokens are repeated; it is the heads, axis 1, that need copies.",
    ),
    Slip(
        "sentences repeated",
        (JOINED, "x.repeat_interleave(repeats, dim=0)"),
        "The sentences are repeated, axis 0; it is the heads, axis 1, that need copies.",
    ),
    Slip(
        "repeats taken for the number of heads",
        (JOINED, "x.repeat_interleave(max(repeats // groups, 1), dim=1)"),
        "There are repeats // G copies of each head, or one, as if `repeats` were the heads in "
        "all. Expected are `repeats` of each: G·repeats.",
    ),
    Slip(
        "copies on an axis of their own",
        (JOINED, "copies"),
        "The copies are there, on an axis of their own: (B, G, repeats, S, D). Make one axis of G "
        "and repeats.",
    ),
    Slip(
        "rounds over sentences and heads",
        (JOINED, "x.flatten(0, 1).repeat(repeats, 1, 1).reshape(batch, -1, tokens, width)"),
        "With several sentences, heads of others come in, as if sentences and heads were made one "
        "axis and that repeated in rounds. Copy along axis 1 alone, so that copies of one head are "
        "neighbours.",
    ),
    Slip(
        "copies along the tokens, reshaped",
        (COPIES, "x[:, :, :, None].expand(batch, groups, tokens, repeats, width)"),
        "Tokens stand in wrong places, as if each were copied on the spot and the row of copies "
        "then cut into heads. Put the new axis right behind that of the heads, x[:, :, None].",
    ),
)


def interleaved(x, repeats):
    """torch's own."""
    return torch.repeat_interleave(x, repeats, dim=1)


def by_index(x, repeats):
    """Each query head looks its key head up."""
    return x[:, torch.arange(x.shape[1] * repeats) // repeats]


EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Sharing keys and values",
    goal="Hand every head of keys to a group of neighbouring query heads.",
    reference=multi_head.repeat_kv,
    contract=MOVES_NUMBERS,
    properties=(
        worked(
            "a hand-worked example: two heads for six",
            torch.tensor([[[[7.0]], [[9.0]]]]),
            3,
            want=torch.tensor([7.0, 7.0, 7.0, 9.0, 9.0, 9.0]).reshape(1, 6, 1, 1),
        ),
        known("once changes nothing; one head serves all", _limits),
        Property("copies of a head lie next to each other", 1, _places),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives=(interleaved, by_index),
    hints=(
        "With two heads and repeats = 3, in which order stand the six? Look at the example.",
        "The copies of one head are neighbours: 0, 0, 0, 1, 1, 1. `x.repeat` lays whole "
        "rounds behind each other, 0, 1, 0, 1, 0, 1.",
        "Put a new axis behind the heads, x[:, :, None], expand it to `repeats` entries, "
        "and reshape (B, G, repeats, S, D) to (B, G * repeats, S, D). Or let torch do the "
        "same: there is a method whose name says that copies are interleaved.",
    ),
    minutes=6,
    difficulty=2,
    importance=4,
)
