"""Exercise 05_multi_head/LatentAttention: keys and values from one latent, and without them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions.multi_head import (
    LatentAttention,
    masked_attention,
    split_heads,
)
from torch import Tensor

from attend_grader.chapters.ch05_multi_head.shared import (
    ATTENTION,
    SCALE,
    agree_masks,
    causal,
    others,
    padded,
    row_sums,
    scattered,
)
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip, Test
from attend_grader.checks.helpers import no_clue
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import module_call, normal

LAYERS = ("query.weight", "compress.weight", "key.weight", "value.weight", "output.weight")
ABSORBED = "forward_absorbed"


def _parameters() -> Mapping[str, Tensor]:
    """Width 2, 2 heads, rank 1: the latent is the first number of a token."""
    matrices = (
        torch.eye(2),
        torch.tensor([[1.0, 0.0]]),
        torch.tensor([[float(np.log(3))], [0.0]]),
        torch.tensor([[8.0], [4.0]]),
        torch.tensor([[1.0, 0.0], [1.0, 1.0]]),
    )
    return dict(zip(LAYERS, matrices, strict=True))


def _worked(subject: Subject, probe: Probe) -> None:
    """Tokens (1, 0) and (0, 1): latents 1 and 0, keys (ln 3, 0) and (0, 0), values (8, 4), 0."""
    built, inside = probe.build(subject, 2, 2, 1, parameters=_parameters())
    weights = torch.tensor([[[[0.75, 0.25], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]])
    want = (torch.tensor([[[6.0, 8.0], [4.0, 6.0]]]), weights)
    for part in (1, 0):
        inside.agree(built, torch.eye(2)[None], want=want, part=part, tolerance=PRINTED)


def _naive(subject: Subject, probe: Probe) -> None:
    """Multi-head attention whose key matrix is W_dkv W_uk, and value matrix W_dkv W_uv."""
    for _ in probe.repeat(1, 3):
        for width, heads, rank in ((8, 4, 3), (6, 2, 6), (15, 3, 1), (8, 2, 5)):
            built, inside = probe.build(subject, width, heads, rank, scale=SCALE)
            x = normal(probe.rng, 2, 3, width)
            why = f"forward, {heads} heads, rank {rank}"
            for part, clue in ((1, row_sums), (0, no_clue)):
                inside.agree(built, x, part=part, tolerance=FLOAT32, why=why, clue=clue)


def _masks(method: str | None) -> Test:
    def test(subject: Subject, probe: Probe) -> None:
        built, inside = probe.build(subject, 6, 2, 3, scale=SCALE)
        agree_masks(built, inside, 6, 2, method=method)

    return test


def _absorbed(subject: Subject, probe: Probe) -> None:
    """The output and the weights of forward, for any rank, larger and smaller than D."""
    for _ in probe.repeat(1, 3):
        for width, heads, rank in ((8, 4, 3), (6, 2, 6), (15, 3, 1), (8, 2, 5), (4, 2, 2)):
            built, inside = probe.build(subject, width, heads, rank, scale=SCALE)
            x = normal(probe.rng, 2, 3, width)
            d = width // heads
            why = f"forward_absorbed against forward, {heads} heads of {d}, rank {rank}"
            want = inside.reference(x)
            for part, clue in ((1, row_sums), (0, no_clue)):
                told: dict[str, Any] = {"why": why, "clue": clue, "method": ABSORBED}
                inside.agree(built, x, want=want, part=part, tolerance=FLOAT32, **told)


def _follows(subject: Subject, probe: Probe) -> None:
    """As ``_absorbed``; and again with other parameters in the same instance, as after training.

    Both times first without torch's graph, as one generates: what is kept then is stale as well,
    also where a call with the graph would renew it.
    """
    _absorbed(subject, probe)
    built, inside = probe.build(subject, 8, 2, 3, scale=SCALE)
    x = normal(probe.rng, 2, 3, 8)
    told: dict[str, Any] = {"method": ABSORBED, "tolerance": FLOAT32}
    again = "forward_absorbed, called again after the parameters have changed, as in training"
    built.run((normal(probe.rng, 2, 3, 8),), graph=False)  # other tokens, the other way
    for why in ("forward_absorbed", again):
        came = built.run((x,), method=ABSORBED, graph=False)
        inside.agree(built, x, part=0, why=f"under torch.no_grad(): {why}", came=came, **told)
        inside.agree(built, x, part=0, why=why, **told)
        built.run((x,), graph=False)
        built, _ = inside.train(built, SCALE)


HUGE = 1e25


def _extreme(which: str) -> Mapping[str, Tensor]:
    """Width 4, 2 heads, rank 2: queries of 0; keys (or values) of 10⁵⁰, too large for float32.

    The tokens bring one factor 10²⁵ and W_uk (or W_uv) the other, so that no product of matrices
    alone overflows. W_uk (or W_uv) has zeros where the mean of the latents has not, and W_o is 0,
    so that nothing but an overflow is seen here.
    """
    huge = torch.tensor([[HUGE, 0.0]]).expand(4, 2)
    return {
        "query.weight": torch.zeros(4, 4),
        "compress.weight": torch.eye(2, 4),
        "key.weight": huge * (which == "keys"),
        "value.weight": huge * (which == "values"),
        "output.weight": torch.zeros(4, 4),
    }


EXTREME = torch.tensor([[[HUGE, 3.0, 0.0, 0.0], [-HUGE, 3.0, 0.0, 0.0]]])


def _without(which: str, matrix: str, instead: str) -> Test:
    """Where keys (or values) would overflow, the absorbed form is unmoved: it has none.

    The queries are 0, so all weights are 1/2; the latents are (±10²⁵, 3), and their mean (0, 3).
    """

    def clue(value: np.ndarray) -> str:
        if np.isfinite(value).all():
            return ""
        return (
            f"These {which}, c {matrix}, would be 10⁵⁰: too large for float32. Instead {instead}."
        )

    def test(subject: Subject, probe: Probe) -> None:
        why = f"forward_absorbed must make no {which}"
        told: dict[str, Any] = {"why": why, "clue": clue, "method": ABSORBED}
        for heads in (2, 1, 4):  # with four, a latent is longer than a head's keys
            built, inside = probe.build(subject, 4, heads, 2, parameters=_extreme(which))
            for n in (2, 200):
                x = EXTREME.repeat(1, n // 2, 1)
                want = (torch.zeros(1, n, 4), torch.full((1, heads, n, n), 1 / n))
                for mask in ((), (torch.ones(n, n, dtype=torch.bool),)):
                    for part in (1, 0):
                        inside.agree(built, x, *mask, want=want, part=part, **told)

    return test


def draws(rng: np.random.Generator) -> list[Call]:
    """Both ways; R smaller and larger than D, and equal; masks of all kinds; what overflows."""

    def call(width: int, heads: int, rank: int, *args: Any) -> Call:
        build = Call((width, heads, rank))
        return module_call(LatentAttention, rng, build, *args, scale=SCALE)

    made = [
        call(8, 2, 5, normal(rng, 2, 3, 8)),
        call(8, 2, 3, normal(rng, 2, 5, 8)),
        call(6, 3, 4, normal(rng, 3, 4, 6), padded(3, 4)),
        call(6, 2, 2, normal(rng, 2, 3, 6), causal(3)),
        call(6, 2, 3, normal(rng, 2, 4, 6), scattered(rng, 2, 2, 4, 4)),
        call(6, 2, 3, normal(rng, 2, 4, 6), others(4)),
        call(6, 2, 3, normal(rng, 2, 1, 6)),
    ]
    square = call(6, 2, 3, normal(rng, 2, 4, 6))  # R = D: a transpose too many goes unnoticed
    extreme = [
        Call((EXTREME,), build=Call((4, 2, 2)), parameters=_extreme(which), method=ABSORBED)
        for which in ("keys", "values")
    ]
    pairs = [way for one in made for way in (one, replace(one, method=ABSORBED))]
    return [*pairs, replace(square, method=ABSORBED), *extreme]


LOOKED = "masked_attention(asked, latents, latents, mask, q.shape[-1] ** -0.5)"
UP_KEY = "self.key.weight.unflatten(0, (self.heads, -1))"
UP_VALUE = "self.value.weight.unflatten(0, (self.heads, -1))"
IN_TURN = ("(0, (self.heads, -1))", "(0, (-1, self.heads)).transpose(0, 1)")
FOUND = "found @ up_value.transpose(-1, -2)"
MAKES_KEYS = (
    ("q @ up_key", "q"),
    (
        LOOKED,
        "masked_attention(asked, split_heads(self.key(latents[:, 0]), self.heads), latents, mask)",
    ),
)
MAKES_VALUES = (FOUND, "weights @ split_heads(self.value(latents[:, 0]), self.heads)")


SLIPS = (
    Slip(
        "absorbed: scaled by √R",
        (LOOKED, "masked_attention(asked, latents, latents, mask)"),
        "forward is right. forward_absorbed divides the scores by √R, the root of its latents' "
        "width. They are the scores of queries of width D: hand masked_attention the scale D ** "
        "-0.5.",
    ),
    Slip(
        "absorbed: makes keys and values",
        (*MAKES_KEYS, MAKES_VALUES),
        "forward_absorbed agrees with forward, but it still makes the keys and values of every "
        "token, which is what it should save. Carry W_uk over to the queries, and apply W_uv after "
        "the weighted mean.",
    ),
    Slip(
        "absorbed: makes values",
        MAKES_VALUES,
        "forward_absorbed meets the latents with its queries, but still makes the values of every "
        "token. Take the weighted mean of the latents first, then apply W_uv to it.",
    ),
    Slip(
        "absorbed: makes keys",
        MAKES_KEYS,
        "forward_absorbed applies W_uv after the look-up, but still makes the keys of every token. "
        "Carry W_uk over to the queries: q · (c W_uk) is (q W_ukᵀ) · c.",
    ),
    Slip(
        "absorbed: W_uk turned over before it is cut",
        (UP_KEY, "self.key.weight.T.reshape(self.heads, q.shape[-1], -1)"),
        "forward is right. In forward_absorbed it is as if self.key.weight were transposed and "
        "then cut into heads, which mixes their numbers. Its rows 0 … D-1 belong to head 0: cut it "
        "as it is, to (heads, D, R).",
    ),
    Slip(
        "absorbed: rows of W_uk in turn",
        (UP_KEY, UP_KEY.replace(*IN_TURN)),
        "forward is right. In forward_absorbed the rows of self.key.weight are dealt out to the "
        "heads in turn. The first D belong to head 0: cut them into (heads, D), not (D, heads).",
    ),
    Slip(
        "absorbed: rows of W_uk and W_uv in turn",
        ((UP_KEY, UP_KEY.replace(*IN_TURN)), (UP_VALUE, UP_VALUE.replace(*IN_TURN))),
        "forward is right. In forward_absorbed the rows of both stored weights are dealt out to "
        "the heads in turn. The first D belong to head 0: cut into (heads, D), not (D, heads).",
    ),
    Slip(
        "absorbed: W_uv cut across the heads",
        (FOUND, "found @ self.value.weight.T.reshape(self.heads, found.shape[-1], -1)"),
        "forward is right. In forward_absorbed W_uv is cut to (H, R, D) as if by one reshape, "
        "which mixes the heads. Cut the rows of the stored weight first, (H, D, R), then exchange "
        "the last two axes.",
    ),
    Slip(
        "absorbed: W_uk transposed twice",
        ("q @ up_key", "q @ up_key.transpose(-1, -2)"),
        "forward is right. In forward_absorbed the heads of self.key.weight are transposed once "
        "too often. The stored weight is W_ukᵀ already: multiply the queries by it as it is, cut "
        "into heads, (H, D, R).",
    ),
    Slip(
        "absorbed: W_uk read as (R, C)",
        (UP_KEY, "self.key.weight.reshape(latents.shape[-1], self.heads, -1).permute(1, 2, 0)"),
        "forward is right. In forward_absorbed self.key.weight is read as if it were (R, C). It is "
        "stored as (C, R): cut its rows into heads, (heads, D, R).",
    ),
    Slip(
        "forward: keys and values exchanged",
        (
            ("self.key(latents)", "self.other"),
            ("self.value(latents)", "self.key(latents)"),
            ("self.other", "self.value(latents)"),
        ),
        "In forward queries are compared with the values, and the keys are averaged: the two are "
        "exchanged. masked_attention takes q, k, v in this order.",
    ),
)


class ByEinsum(LatentAttention):
    """einsum in the absorbed form."""

    def forward_absorbed(self, x, mask=None):
        """Two products in turn, never the keys."""
        c = self.compress(x)
        q = self.query(x).unflatten(-1, (self.heads, -1))
        up_key, up_value = (p.weight.unflatten(0, (self.heads, -1)) for p in (self.key, self.value))
        asked = torch.einsum("bthd,hdr->bthr", q, up_key) / math.sqrt(q.shape[-1])
        scores = torch.einsum("bthr,bsr->bhts", asked, c)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        found = torch.einsum("bhts,bsr->bthr", weights, c)
        return self.output(torch.einsum("bthr,hdr->bthd", found, up_value).flatten(2)), weights


class FoldedIntoOthers(LatentAttention):
    """W_dkv W_uk multiplied before it meets the query, W_uv folded into W_o; no latents either."""

    def forward_absorbed(self, x, mask=None):
        """Queries of width C meet the tokens themselves."""
        q, down = split_heads(self.query(x), self.heads), self.compress.weight
        asked = q @ (self.key.weight @ down).unflatten(0, (self.heads, -1))
        tokens = x[:, None]
        found, weights = masked_attention(asked, tokens, tokens, mask, q.shape[-1] ** -0.5)
        up = self.value.weight.unflatten(0, (self.heads, -1)).mT  # (H, R, D)
        out = self.output.weight.unflatten(1, (self.heads, -1)).permute(1, 2, 0)  # (H, D, C)
        return (found @ down.T @ (up @ out)).sum(dim=1), weights


EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Latent attention",
    goal="Make all keys and values from one short latent a token; then do without making them.",
    reference=LatentAttention,
    contract=replace(ATTENTION, says=("`forward_absorbed` makes no keys and no values.",)),
    properties=(
        Property("a hand-worked example: rank 1", 1, _worked),
        Property("forward: keys and values made from the latents", 2, _naive),
        Property("forward: mask", 1, _masks(None)),
        Property("forward_absorbed: output and weights", 1, _follows),
        Property("forward_absorbed: mask", 1, _masks(ABSORBED)),
        Property(
            "forward_absorbed: makes no keys",
            2,
            _without("keys", "W_uk", "carry W_uk over to the queries, q W_ukᵀ"),
        ),
        Property(
            "forward_absorbed: makes no values",
            2,
            _without("values", "W_uv", "take the weighted mean of the latents, then apply W_uv"),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(ByEinsum, FoldedIntoOthers),
    hints=(
        "Write forward first: it is multi-head attention, except that keys and values come"
        " from self.compress(x) instead of from x. For forward_absorbed, write one score "
        "as a product of row vectors and move the brackets.",
        "q · k = q W_ukᵀ · c: multiply the query by the head's stored weight, (D, R), and "
        "it is R wide, as the latents are. So all heads can meet the same latents, (B, 1, "
        "T, R), as keys and as values. Mind the scale: it belongs to width D, not R.",
        "self.key.weight.unflatten(0, (self.heads, -1)) is (H, D, R); q (B, H, T, D) @ "
        "that gives the new queries. Attend with keys = values = latents[:, None] and "
        "scale = D ** -0.5. What comes back is (B, H, T, R): multiply it by the value "
        "matrix of each head, transposed to (H, R, D), merge, and project.",
    ),
    minutes=25,
    difficulty=4,
    importance=4,
    uses=("split_heads", "merge_heads"),
    results=("output", "weights"),
)
