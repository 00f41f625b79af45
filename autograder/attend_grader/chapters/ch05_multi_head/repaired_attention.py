"""Exercise 05_multi_head/repaired_attention: heads that were cut by a reshape alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from attend_solutions import multi_head
from attend_solutions.multi_head import masked_attention
from torch import Tensor
from torch.nn import functional

from attend_grader.chapters.ch05_multi_head.shared import (
    ATTENTION,
    causal,
    padded,
    scales,
    scattered,
)
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, agrees, known, worked
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import normal

SIZES = ((2, 3, 5, 8, 4), (1, 6, 6, 6, 2), (3, 4, 2, 9, 3), (2, 4, 4, 16, 4), (2, 5, 3, 4, 1))
"""B, T, S, C, H: more keys than queries, as many, fewer; T = H; one head."""


def _call(rng: np.random.Generator, sizes: tuple[int, ...], mask: Tensor | None = None) -> Call:
    batch, queries, keys, width, heads = sizes
    q, k, v = (normal(rng, batch, n, width) for n in (queries, keys, keys))
    return Call((q, k, v, heads) if mask is None else (q, k, v, heads, mask))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in SIZES:
        _, queries, keys, _, heads = sizes
        yield f"T = {queries}, S = {keys}, {heads} heads", _call(rng, sizes)


def _masked(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    seen = torch.from_numpy(rng.random((2, 3, 4, 6)) < 0.5)
    seen[..., 0] |= ~seen.any(-1)
    for why, mask in {
        "a mask (T, S)": seen[0, 0],
        "a row of keys for each sentence (B, 1, 1, S)": padded(2, 6),
        "a mask for each head (H, T, S)": seen[0],
        "a mask for each sentence and head (B, H, T, S)": seen,
    }.items():
        yield why, _call(rng, (2, 4, 6, 6, 3), mask)
    q = torch.full((1, 1, 150), 1e6)
    k, v = torch.cat((-q, q), dim=1), torch.cat((q, -q), dim=1)
    why = "the only visible score lies near −10¹³, the hidden one near 10¹³"
    yield why, Call((q, k, v, 1, torch.tensor([True, False])))
    late = torch.arange(140) >= 135
    yield "the first 135 of 140 keys hidden", _call(rng, (1, 3, 140, 4, 2), late)
    yield "a causal mask", _call(rng, (2, 4, 4, 8, 2), causal(4))
    yield "a mask (T, S), one head", _call(rng, (2, 4, 6, 6, 1), seen[0, 0])
    yield "a mask (T, S), heads of one number", _call(rng, (2, 4, 6, 3, 3), seen[0, 0])
    yield "a mask (T, S), one sentence", _call(rng, (1, 4, 6, 6, 3), seen[0, 0])
    yield (
        "a mask (T, S), fewer keys than queries",
        _call(rng, (2, 4, 3, 6, 2), seen[0, 0, :, :3] | causal(4)[:, :3]),
    )
    yield "one query, a row of keys for each sentence", _call(rng, (2, 1, 6, 6, 3), padded(2, 6))
    q, k, *rest = _call(rng, (2, 4, 4, 8, 2), torch.eye(4, dtype=torch.bool)).args
    yield "each token sees itself only; q, k times 10⁶", Call((q * 1e6, k * 1e6, *rest))


def _far(rng: np.random.Generator) -> Known:
    """A key that beats all others is found wherever it stands, in each head at another place."""
    del rng
    for tokens, heads in ((6, 2), (4, 4), (5, 3)):
        q, k = torch.full((1, tokens, heads), 100.0), torch.zeros(1, tokens, heads)
        v = 1.0 + torch.arange(tokens * heads).reshape(1, tokens, heads)
        for h in range(heads):
            k[0, tokens - 1 - h, h] = 100.0
        found = torch.stack([v[0, tokens - 1 - h, h] for h in range(heads)])
        why = f"{tokens} tokens; in head h all look at the token h places before the last"
        yield why, (q, k, v, heads), found.expand(1, tokens, heads)


def _apart(subject: Subject, probe: Probe) -> None:
    """Numbers of one head have no influence on what another finds: torch's attention of each."""
    for _ in probe.repeat(1, 3):
        for batch, queries, keys, width, heads in SIZES[:3]:
            q, k, v = (normal(probe.rng, batch, n, width) for n in (queries, keys, keys))
            parts = zip(*(part.chunk(heads, dim=-1) for part in (q, k, v)), strict=True)
            want = torch.cat([functional.scaled_dot_product_attention(*p) for p in parts], dim=-1)
            why = f"compared with torch's attention, one of {heads} heads after the other"
            probe.agree(subject, q, k, v, heads, want=want, tolerance=FLOAT32, why=why)


def draws(rng: np.random.Generator) -> list[Call]:
    """Several heads, T and S alike and not, one head, masks of several kinds."""
    return [
        *(_call(rng, sizes) for sizes in ((2, 3, 5, 8, 4), (1, 6, 6, 6, 2), (2, 4, 4, 4, 1))),
        *(_call(rng, sizes, causal(4)) for sizes in ((2, 4, 4, 6, 1), (2, 4, 4, 8, 2))),
        _call(rng, (3, 4, 4, 9, 3), padded(3, 4)),
        _call(rng, (2, 3, 3, 6, 2), scattered(rng, 2, 2, 3, 3)),
        _call(rng, (2, 1, 4, 6, 2), padded(2, 4)),
    ]


CUT = "(split_heads(part, heads) for part in (q, k, v))"
RESHAPED = "part.reshape(len(part), heads, part.shape[1], -1)"
ASKED = "masked_attention(q, k, v, mask)"
MERGED = "merge_heads(found)"

SLIPS = (
    Slip(
        "not repaired",
        ((CUT, f"({RESHAPED} for part in (q, k, v))"),
         (MERGED, "found.reshape(len(found), found.shape[2], -1)")),
        "This does what the colleague's function does: a head's rows go on with numbers of the "
        "same token, since a reshape alone keeps the reading order. Cut the width, then exchange "
        "tokens and heads; and back again at the end.",
        seen="the broken function in the text",
    ),
    Slip(
        "the end not repaired",
        (MERGED, "found.reshape(len(found), found.shape[2], -1)"),
        "The heads are cut as they should be, but at the end it is as if (B, H, T, D) were "
        "reshaped to (B, T, C) at once. Bring the heads behind the tokens first: that is what "
        "merge_heads does.",
    ),
    Slip(
        "the beginning not repaired",
        (CUT, f"({RESHAPED} for part in (q, k, v))"),
        "The end is right. Queries, keys and values are cut as if by one reshape, so a head gets "
        "the wrong pieces of tokens. Cut the width, as split_heads does.",
    ),
    Slip(
        "keys and values not repaired",
        (CUT, f"(split_heads(q, heads), *({RESHAPED} for part in (k, v)))"),
        "The end and the queries are right. Keys and values are cut as if by one reshape: cut "
        "their width too, as split_heads does.",
    ),
    Slip(
        "dealt out in turn, merged in order",
        (CUT, "(part.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2) for part in (q, k, v))"),
        "The end is right. At the beginning the numbers are dealt out to the heads in turn: cut "
        "into (heads, D), not into (D, heads).",
    ),
    Slip(
        "heads left behind the tokens",
        ((CUT, "(part.unflatten(-1, (heads, -1)) for part in (q, k, v))"),
         (MERGED, "found.flatten(2)")),
        "The heads stand behind the tokens, so heads look at heads. Tokens should look at tokens: "
        "bring the heads before them.",
    ),
    Slip(
        "one head",
        ((CUT, "(q, k, v)"), (MERGED, "found")),
        "There is one head as wide as the token. Cut queries, keys and values into heads first.",
    ),
    Slip(
        "numbers dealt out in turn",
        ((CUT, "(part.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2) for part in (q, k, v))"),
         (MERGED, "found.permute(0, 2, 3, 1).flatten(2)")),
        "The numbers are dealt out to the heads in turn. Head 0 should have the first D next to "
        "each other, head 1 the next D.",
    ),
    *scales(ASKED),
)  # fmt: skip


def by_einsum(q, k, v, heads, mask=None):
    """einsum, with the heads behind the tokens."""
    q, k, v = (part.unflatten(-1, (heads, -1)) for part in (q, k, v))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v).flatten(2)


def by_view(q, k, v, heads, mask=None):
    """The colleague's lines with the exchange of axes put in."""
    q, k, v = (
        part.reshape(len(part), part.shape[1], heads, -1).transpose(1, 2) for part in (q, k, v)
    )
    found, _ = masked_attention(q, k, v, mask)
    return found.transpose(1, 2).reshape(len(found), found.shape[2], -1)


X = torch.tensor([[[2.0, 0.0, 4.0, 0.0], [4.0, 2.0, 0.0, 8.0]]])
EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Repair: heads that see a few tokens only",
    goal="Find out what a colleague's attention does instead of having heads, and repair it.",
    reference=multi_head.repaired_attention,
    contract=replace(ATTENTION, gradients=("q", "k", "v")),
    properties=(
        worked(
            "by hand: queries of 0 give each head the mean of its values",
            0 * X,
            X,
            X,
            2,
            want=torch.tensor([[[3.0, 1.0, 2.0, 4.0], [3.0, 1.0, 2.0, 4.0]]]),
            tolerance=PRINTED,
        ),
        known("every token is found, at any distance", _far, tolerance=FLOAT32),
        Property("each head by itself, as torch's attention", 1, _apart),
        agrees("more or fewer keys than queries; one head", _usual, repeat=1, tolerance=FLOAT32),
        agrees("a mask", _masked, repeat=1, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_einsum, by_view),
    hints=(
        "Number the tokens: q = k = v = torch.arange(8.).reshape(1, 4, 2), two heads. Which "
        "numbers does head 0 get from your colleague's cut, and which from split_heads?",
        "With one head nothing has to be exchanged, and causal masks fit because the wrong cut "
        "keeps the order in memory: so both tests pass.",
        "Cut queries, keys and values with split_heads, and end with merge_heads.",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    uses=("split_heads", "merge_heads"),
)
