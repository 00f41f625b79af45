"""Exercise 05_multi_head/merge_heads: lay the heads side by side again."""

from __future__ import annotations

import numpy as np
import torch
from attend_solutions import multi_head
from torch import Tensor

from attend_grader.chapters.ch05_multi_head.shared import MOVES_NUMBERS, SHAPES, keeps, whole
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import normal


def _side_by_side(x: Tensor) -> Tensor:
    return torch.cat(list(x.unbind(1)), dim=-1)


def _places(subject: Subject, probe: Probe) -> None:
    for batch, tokens, width, heads in SHAPES:
        x = whole(probe.rng, batch, heads, tokens, width // heads).float()
        why = f"B = {batch}, H = {heads}, T = {tokens}, D = {width // heads}"
        probe.agree(subject, x, want=_side_by_side(x), why=why)
    keeps(subject, probe, whole(probe.rng, 2, 4, 3, 2), moved=_side_by_side)


def _inverse(rng: np.random.Generator) -> Known:
    for batch, tokens, width, heads in SHAPES:
        x = whole(rng, batch, tokens, width).float()
        why = f"of x {tuple(x.shape)} split into {heads} heads, so x itself should come back"
        yield why, (multi_head.split_heads(x, heads),), x


def draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different; H = T, T = D, or both; one head; D = 1; integers."""
    return [
        Call((normal(rng, 2, 4, 3, 5),)),
        Call((normal(rng, 1, 3, 3, 3),)),
        Call((normal(rng, 2, 3, 3, 4),)),
        Call((normal(rng, 2, 3, 4, 4),)),
        Call((normal(rng, 2, 1, 4, 3),)),
        Call((normal(rng, 2, 3, 4, 1),)),
        Call((whole(rng, 3, 2, 2, 2),)),
        Call((normal(rng, 2, 3, 2, 4).relu(),)),
    ]


MOVED = "x.transpose(1, 2).reshape(batch, tokens, heads * width)"

SLIPS = (
    Slip(
        "reshape without transpose",
        (".transpose(1, 2)", ""),
        "A token gets numbers of other tokens, as if (B, H, T, D) were reshaped to (B, T, H·D) at "
        "once. Exchange axes 1 and 2 first.",
    ),
    Slip(
        "heads in turn",
        ("transpose(1, 2)", "permute(0, 2, 3, 1)"),
        "The numbers of a token come in turn from all heads. The D numbers of one head belong "
        "together: make one axis of (H, D), not of (D, H).",
    ),
    Slip(
        "heads added up",
        (MOVED, "x.sum(dim=1)"),
        "The heads are added up: the result is only D wide. Lay them side by side, to H·D.",
    ),
    Slip(
        "heads below each other",
        (MOVED, "x.flatten(1, 2)"),
        "The heads stand below each other: H·T tokens of width D. They belong beside each other: "
        "T tokens of width H·D.",
    ),
    Slip(
        "last two axes made one",
        (MOVED, "x.flatten(2)"),
        "You made one axis of the last two, tokens and width: (B, H, T·D). Heads and width belong "
        "in one axis. Bring the heads behind the tokens first: exchange axes 1 and 2.",
    ),
    Slip(
        "last two axes exchanged",
        ("transpose(1, 2)", "transpose(-1, -2)"),
        "The numbers of a token come from several tokens, as if the last two axes were exchanged. "
        "Exchange axes 1 and 2, heads and tokens.",
    ),
)


def by_cat(x):
    """The heads one by one, joined along the width."""
    return torch.cat(x.unbind(dim=1), dim=-1)


def permuted(x):
    """permute, contiguous, view: as most libraries write it."""
    batch, heads, tokens, width = x.shape
    return x.permute(0, 2, 1, 3).contiguous().view(batch, tokens, heads * width)


EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Merging heads",
    goal="Lay the heads of every token side by side again.",
    reference=multi_head.merge_heads,
    contract=MOVES_NUMBERS,
    properties=(
        worked(
            "a hand-worked example: two heads",
            torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]]),
            want=torch.tensor([[[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]]),
        ),
        Property("a token's heads lie side by side, in order", 1, _places),
        known("undoes split_heads", _inverse),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_cat, permuted),
    hints=(
        "It undoes what split_heads did. In which order must its two steps be undone?",
        "Bring the tokens before the heads again, then make one axis of the last two. "
        "After a transpose the numbers no longer lie in reading order in memory: `.view` "
        "refuses, `.reshape` copies.",
        "Transpose axes 1 and 2, which gives (B, T, H, D), then reshape that to (B, T, H * D).",
    ),
    minutes=4,
    difficulty=1,
    importance=4,
)
