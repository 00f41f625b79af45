"""Exercise 05_multi_head/GroupedQueryAttention: heads that share keys and values.

That the answer equals torch's attention with ``enable_gqa`` is what its own tests hold it to.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from attend_solutions.multi_head import (
    GroupedQueryAttention,
    masked_attention,
    merge_heads,
    split_heads,
)

from attend_grader.chapters.ch05_multi_head.shared import (
    ATTENTION,
    SCALE,
    agree_masks,
    causal,
    others,
    padded,
    row_sums,
    scales,
    scattered,
)
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import no_clue
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import module_call, normal

# H / G is nowhere G alone, so that `repeats = kv_heads` passes none but kv_heads = 1.
SIZES = ((12, 6, 2), (16, 4, 1), (18, 6, 3), (20, 10, 2), (98, 98, 2))
"""C, H, G; 49 · (2 / 98) is below 1."""


def _agrees(
    name: str,
    sizes: tuple[tuple[int, int, int], ...],
    parts: tuple[int, ...] = (1, 0),
    repeat: int = 1,
) -> Property:
    """Agreement with the answer for these C, H, G: of weights (part 1), output, or both."""

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, repeat):
            for width, heads, kv_heads in sizes:
                built, inside = probe.build(subject, width, heads, kv_heads, scale=SCALE)
                x = normal(probe.rng, 2, 3, width)
                told: dict[str, Any] = {"why": f"{heads} heads, {kv_heads} kv_heads"}
                for part in parts:
                    told["clue"] = row_sums if part == 1 else no_clue
                    inside.agree(built, x, part=part, tolerance=FLOAT32, **told)

    return Property(name, 1, test)


def _masks(subject: Subject, probe: Probe) -> None:
    built, inside = probe.build(subject, 12, 6, 2, scale=SCALE)
    agree_masks(built, inside, 12, 6)


def draws(rng: np.random.Generator) -> list[Call]:
    """Groups, one group, no sharing, masks for all, for each sentence and for each head, T = 1."""

    def call(width: int, heads: int, kv_heads: int, *args: Any) -> Call:
        build = Call((width, heads, kv_heads))
        return module_call(GroupedQueryAttention, rng, build, *args, scale=SCALE)

    return [
        call(12, 6, 2, normal(rng, 2, 3, 12)),
        call(8, 4, 2, normal(rng, 2, 5, 8), causal(5)),
        call(12, 6, 3, normal(rng, 2, 3, 12)),
        call(6, 3, 1, normal(rng, 2, 4, 6)),
        call(6, 2, 2, normal(rng, 3, 4, 6), padded(3, 4)),
        call(12, 6, 2, normal(rng, 2, 3, 12), scattered(rng, 2, 6, 3, 3)),
        call(8, 4, 2, normal(rng, 2, 4, 8), others(4)),
        call(6, 2, 1, normal(rng, 2, 1, 6)),
    ]


ASKED = "masked_attention(q, repeat_kv(k, repeats), repeat_kv(v, repeats), mask)"
KEYS, VALUES = "repeat_kv(k, repeats)", "repeat_kv(v, repeats)"

SLIPS = (
    Slip(
        "not repeated",
        ((KEYS, "k"), (VALUES, "v")),
        "Keys, values or both keep their kv_heads heads, which fit the queries only where there is "
        "one head of them, or as many as of queries. Repeat both with repeat_kv.",
    ),
    Slip(
        "groups in rounds",
        ((KEYS, "k.repeat(1, repeats, 1, 1)"), (VALUES, "v.repeat(1, repeats, 1, 1)")),
        "Query heads find the wrong keys and values, as if copies came in rounds, 0, 1, 0, 1. "
        "Heads next to each other should share, 0, 0, 1, 1: that is what repeat_kv is for.",
    ),
    Slip(
        "values in rounds",
        (VALUES, "v.repeat(1, repeats, 1, 1)"),
        "The weights are right, but values come from the wrong heads. Repeat the values exactly as "
        "the keys: neighbours should share.",
    ),
    Slip(
        "G copies",
        ("self.heads // self.kv_heads", "self.kv_heads"),
        "Every head of keys or values gets G copies, so there are G · G of them. It takes H / G "
        "copies to have as many as queries: self.heads // self.kv_heads.",
    ),
    Slip(
        "keys split like queries",
        (
            ("self.key(x), self.kv_heads", "self.key(x), self.heads"),
            ("self.value(x), self.kv_heads", "self.value(x), self.heads"),
            (KEYS, "k"),
            (VALUES, "v"),
        ),
        "Only kv_heads = heads works, as if keys and values were split into self.heads. They are "
        "only G·D wide: split them into self.kv_heads, then repeat them.",
    ),
    Slip(
        "scaled by the root of C / G",
        (ASKED, ASKED.replace("mask)", "mask, (x.shape[-1] // self.kv_heads) ** -0.5)")),
        "Your scores are divided by the root of C / kv_heads. Shared or not, a head of keys is as "
        "wide as one of queries: divide by √D, as masked_attention does by itself.",
    ),
    Slip(
        "queries of a group averaged",
        (
            ASKED,
            ASKED.replace("(q,", "(repeat_kv(q.unflatten(1, (-1, repeats)).mean(2), repeats),"),
        ),
        "The query heads of a group all ask the same, the mean of their queries. Share only keys "
        "and values: each of the H query heads should keep its own queries and weights.",
    ),
    Slip(
        "keys and values exchanged",
        (ASKED, f"masked_attention(q, {VALUES}, {KEYS}, mask)"),
        "Queries are compared with the values, and the keys are averaged: the two are exchanged. "
        "masked_attention takes q, k, v in this order.",
    ),
    *scales(ASKED),
    Slip(
        "scaled by √(G·D)",
        (ASKED, ASKED.replace("mask)", "mask, self.key.out_features ** -0.5)")),
        "Your scores are divided by √(G·D), the root of the width of all shared keys. A head's "
        "keys are D wide: divide by √D, as masked_attention does by itself.",
    ),
)


class WithoutCopies(GroupedQueryAttention):
    """Queries in groups (B, G, repeats, T, D) against keys (B, G, 1, S, D): nothing is copied."""

    def forward(self, x, mask=None):
        """Broadcasts over the group."""
        q = split_heads(self.query(x), self.heads).unflatten(1, (self.kv_heads, -1))
        k, v = (split_heads(p(x), self.kv_heads)[:, :, None] for p in (self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores = scores.flatten(1, 2)  # (B, H, T, T)
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), -torch.inf)
        weights = scores.softmax(dim=-1)
        found = weights.unflatten(1, (self.kv_heads, -1)) @ v
        return self.output(merge_heads(found.flatten(1, 2))), weights


class RepeatedBefore(GroupedQueryAttention):
    """Repeats the matrices instead of keys and values: multi-head attention with equal rows."""

    def forward(self, x, mask=None):
        """As many heads as there are queries."""
        q = split_heads(self.query(x), self.heads)
        repeats = self.heads // self.kv_heads

        def spread(layer):
            rows = layer.weight.unflatten(0, (self.kv_heads, -1)).repeat_interleave(repeats, 0)
            return split_heads(x @ rows.flatten(0, 1).T, self.heads)

        found, weights = masked_attention(q, spread(self.key), spread(self.value), mask)
        return self.output(merge_heads(found)), weights


EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Grouped-query attention",
    goal="Write attention whose heads share keys and values, with MHA and MQA as its ends.",
    reference=GroupedQueryAttention,
    contract=ATTENTION,
    properties=(
        _agrees("kv_heads = heads is multi-head attention", ((8, 4, 4), (6, 2, 2))),
        _agrees("kv_heads = 1 is multi-query attention", ((8, 4, 1),)),
        _agrees("each query head has weights of its own", SIZES, (1,)),
        _agrees("equal to torch's attention with enable_gqa", SIZES, (0,), repeat=3),
        Property("mask: True may look, False gets no weight", 1, _masks),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(WithoutCopies, RepeatedBefore),
    hints=(
        "It is multi-head attention with one difference. How many heads do queries have, "
        "and how many have keys and values?",
        "self.key(x) is only G·D wide: split it into self.kv_heads heads, not into "
        "self.heads. Before you attend, queries and keys must have equally many heads.",
        "Split the queries into self.heads, keys and values into self.kv_heads; repeat_kv "
        "both by self.heads // self.kv_heads; the rest is as in MultiHeadAttention.",
    ),
    minutes=8,
    difficulty=2,
    importance=5,
    uses=("split_heads", "merge_heads", "repeat_kv"),
    results=("output", "weights"),
)
