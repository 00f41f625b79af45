"""Exercise 05_multi_head/MultiHeadAttention: every head looks for itself.

That the answer equals ``nn.MultiheadAttention`` is what its own tests hold it to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from attend_solutions.multi_head import MultiHeadAttention, masked_attention, split_heads
from torch import Tensor

from attend_grader.chapters.ch05_multi_head.shared import (
    ATTENTION,
    LAYERS,
    SCALE,
    SHAPES,
    agree_masks,
    causal,
    others,
    padded,
    row_sums,
    scales,
    scattered,
)
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import no_clue
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import module_call, normal


def _parameters() -> Mapping[str, Tensor]:
    """Width 4, 2 heads of 2: what two one-hot tokens become, and an output that adds.

    Nothing is symmetric, so that an exchange or a transpose shows.
    """
    asked = float(np.log(3)) * 2**0.5
    rows = (
        [[0.0, 0.0, 0.0, asked], [asked, 0.0, 0.0, 0.0]],  # queries of tokens 0 and 1
        [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]],  # keys
        [[8.0, 0.0, 0.0, 8.0], [0.0, 8.0, 4.0, 0.0]],  # values
    )
    stored = [torch.cat([torch.tensor(two), torch.zeros(2, 4)]).T for two in rows]
    output = torch.eye(4)
    output[1, 0] = 1.0
    return dict(zip(LAYERS, (*stored, output), strict=True))


def _worked(subject: Subject, probe: Probe) -> None:
    """Two one-hot tokens: weights of quarters and halves in each head."""
    built, inside = probe.build(subject, 4, 2, parameters=_parameters())
    weights = torch.tensor([[[[0.5, 0.5], [0.75, 0.25]], [[0.25, 0.75], [0.5, 0.5]]]])
    want = (torch.tensor([[[4.0, 8.0, 3.0, 2.0], [6.0, 8.0, 2.0, 4.0]]]), weights)
    for part in (1, 0):
        inside.agree(built, torch.eye(4)[None, :2], want=want, part=part, tolerance=PRINTED)


def _agrees(
    name: str,
    points: int,
    shapes: tuple[tuple[int, ...], ...],
    parts: tuple[int, ...],
    repeat: int = 1,
) -> Property:
    """Agreement with the answer for these B, T, C, H: of weights (part 1), output, or both."""

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, repeat):
            for batch, tokens, width, heads in shapes:
                built, inside = probe.build(subject, width, heads, scale=SCALE)
                x = normal(probe.rng, batch, tokens, width)
                told: dict[str, Any] = {"why": f"{heads} heads of width {width // heads}"}
                for part in parts:
                    told["clue"] = row_sums if part == 1 else no_clue
                    inside.agree(built, x, part=part, tolerance=FLOAT32, **told)

    return Property(name, points, test)


def _limits(subject: Subject, probe: Probe) -> None:
    """Equal tokens: equal weights. One token: its value, projected."""
    built, inside = probe.build(subject, 6, 3, scale=SCALE)
    one = normal(probe.rng, 2, 1, 6)
    equal = one.expand(2, 4, 6).contiguous()
    for why, x in {
        "equal tokens": equal,
        "one token": one,
        "one sentence": normal(probe.rng, 1, 4, 6),
    }.items():
        for part in (0, 1):
            inside.agree(built, x, part=part, tolerance=FLOAT32, why=why)


def _masks(subject: Subject, probe: Probe) -> None:
    for width, heads in ((8, 2), (9, 3), (3, 1)):
        built, inside = probe.build(subject, width, heads, scale=SCALE)
        agree_masks(built, inside, width, heads)


def draws(rng: np.random.Generator) -> list[Call]:
    """Several heads, one head, masks for all, for each sentence and for each head, T = H, T = 1."""

    def call(width: int, heads: int, *args: Any) -> Call:
        return module_call(MultiHeadAttention, rng, Call((width, heads)), *args, scale=SCALE)

    return [
        call(12, 3, normal(rng, 2, 5, 12)),
        call(8, 4, normal(rng, 2, 3, 8), causal(3)),
        call(6, 1, normal(rng, 1, 4, 6)),
        call(6, 1, normal(rng, 2, 4, 6), causal(4)),
        call(6, 2, normal(rng, 3, 4, 6), padded(3, 4)),
        call(9, 3, normal(rng, 2, 3, 9)),
        call(6, 2, normal(rng, 2, 3, 6), scattered(rng, 2, 2, 3, 3)),
        call(8, 2, normal(rng, 2, 4, 8), others(4)),
        call(6, 2, normal(rng, 2, 1, 6)),
    ]


def reshaped(which: str) -> tuple[str, str]:
    """An edit: cut into heads by one reshape."""
    cut = f"self.{which}(x).reshape(len(x), self.heads, x.shape[1], -1)"
    return f"split_heads(self.{which}(x), self.heads)", cut


ASKED = "masked_attention(q, k, v, mask)"
HIDDEN = "torch.tensor(False) if mask is None else ~mask"
BY_QUERIES = (
    f"weights = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill({HIDDEN}, -torch.inf).softmax(-2); "
    "found = weights @ v"
)
THREE = ("query", "key", "value")

SLIPS = (
    Slip(
        "all projected by the stored matrix",
        (
            *((f"self.{name}(x)", f"(x @ self.{name}.weight)") for name in THREE),
            ("self.output(merge_heads(found))", "merge_heads(found) @ self.output.weight"),
        ),
        "All four projections are x @ layer.weight. A layer keeps its matrix transposed: call the "
        "layers themselves, self.query(x), which is x @ self.query.weight.T.",
    ),
    Slip(
        "no heads",
        (
            *((f"split_heads(self.{name}(x), self.heads)", f"self.{name}(x)") for name in THREE),
            ("merge_heads(found)", "found"),
        ),
        "There are no heads: one table of scores for each sentence, (B, T, T), from queries of all "
        "C numbers. split_heads first, queries, keys and values; merge_heads after the look-up.",
    ),
    Slip(
        "numbers dealt out in turn",
        (
            *(
                (
                    f"split_heads(self.{name}(x), self.heads)",
                    f"self.{name}(x).unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)",
                )
                for name in THREE
            ),
            ("merge_heads(found)", "found.permute(0, 2, 3, 1).flatten(2)"),
        ),
        "The numbers of a token are dealt out to the heads in turn, like cards, and joined the "
        "same way. A head should get D numbers next to each other: split_heads and merge_heads do "
        "that.",
    ),
    Slip(
        "heads cut by one reshape",
        tuple(reshaped(name) for name in THREE),
        "A head's queries, keys and values are the wrong pieces of tokens, as if (B, T, C) were "
        "reshaped to (B, H, T, D) at once. Cut the width, then exchange tokens and heads: that is "
        "what split_heads does.",
    ),
    Slip(
        "merged without transpose",
        ("merge_heads(found)", "found.reshape(x.shape)"),
        "Weights and shapes are right, the output is not: as if the heads' results were reshaped "
        "to (B, T, C) without moving the heads behind the tokens. merge_heads moves them.",
    ),
    Slip(
        "softmax over the queries",
        (f"found, weights = {ASKED}", BY_QUERIES),
        "The softmax runs over the queries: the weights that a key gets sum to 1, and are NaN "
        "where no query may see it. It belongs on the last axis, where each query's weights for "
        "all keys stand.",
    ),
    Slip(
        "queries and keys exchanged",
        (ASKED, "masked_attention(k, q, v, mask)"),
        "Your weights are those of keys that ask and queries that are looked at: the two are "
        "exchanged. masked_attention takes q, k, v in this order.",
    ),
    Slip(
        "keys and values exchanged",
        (ASKED, "masked_attention(q, v, k, mask)"),
        "Queries are compared with the values, and the keys are averaged: the two are exchanged. "
        "masked_attention takes q, k, v in this order.",
    ),
    Slip(
        "keys by the layer of the queries",
        ("self.key(x)", "self.query(x)"),
        "Queries are compared with queries, as if self.query made the keys. Make them by self.key.",
    ),
    *scales(ASKED),
)


class ByEinsum(MultiHeadAttention):
    """einsum throughout, queries scaled first."""

    def forward(self, x, mask=None):
        """All heads at once."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.query, self.key, self.value)
        )
        scores = torch.einsum("bthd,bshd->bhts", q * q.shape[-1] ** -0.5, k)
        if mask is not None:
            scores = torch.where(mask, scores, -1e30)
        weights = torch.softmax(scores, -1)
        return self.output(torch.einsum("bhts,bshd->bthd", weights, v).flatten(2)), weights


class OutputByHead(MultiHeadAttention):
    """The output projection as a sum over heads: each adds its own part."""

    def forward(self, x, mask=None):
        """Never merges."""
        q, k, v = (
            split_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value)
        )
        found, weights = masked_attention(q, k, v, mask)
        parts = self.output.weight.unflatten(1, (self.heads, -1))  # (C, H, D)
        return torch.einsum("bhtd,chd->btc", found, parts), weights


EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Multi-head attention",
    goal="Let every head look for itself, then mix what they found.",
    reference=MultiHeadAttention,
    contract=ATTENTION,
    properties=(
        Property("a hand-worked example: two tokens, two heads", 1, _worked),
        _agrees("weights: one distribution for each query in each head", 1, SHAPES[:5], (1,)),
        Property("equal tokens look at all alike; one token, one sentence", 1, _limits),
        Property("mask: True may look, False gets no weight", 1, _masks),
        _agrees(
            "equal to nn.MultiheadAttention with the same weights",
            2,
            ((2, 3, 8, 4), (1, 5, 15, 3), (2, 4, 6, 1)),
            (0, 1),
            repeat=3,
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(ByEinsum, OutputByHead),
    hints=(
        "Follow one token through the picture at the head of section 2: three projections, then "
        "heads, then attention, then one token again, then the last projection. Which of your two "
        "functions stands where?",
        "Project first, split afterwards: split_heads(self.query(x), self.heads), and the "
        "same with key and value. masked_attention works on (B, H, T, D) as it is, since "
        "H is one more leading axis; hand it the mask.",
        "masked_attention(q, k, v, mask) returns two results: what the heads found, (B, H,"
        " T, D), and the weights. Merge the first, send it through self.output, and return"
        " that and the weights.",
    ),
    minutes=15,
    difficulty=3,
    importance=5,
    uses=("split_heads", "merge_heads"),
    results=("output", "weights"),
)
