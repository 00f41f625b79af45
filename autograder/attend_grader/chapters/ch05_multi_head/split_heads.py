"""Exercise 05_multi_head/split_heads: cut the width into heads."""

from __future__ import annotations

import numpy as np
import torch
from attend_solutions import multi_head

from attend_grader.chapters.ch05_multi_head.shared import MOVES_NUMBERS, SHAPES, keeps, whole
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import normal


def _limits(rng: np.random.Generator) -> Known:
    x = normal(rng, 2, 3, 4)
    yield "one head", (x, 1), x[:, None]
    yield "a head for each number", (x, 4), x.mT[..., None]
    x = normal(rng, 2, 1, 6)
    yield "one token", (x, 3), torch.stack(x.split(2, dim=-1), dim=1)


def _places(subject: Subject, probe: Probe) -> None:
    """Head h of token t has the numbers h·D to (h + 1)·D of that token."""
    for _ in probe.repeat(1, 3):
        for batch, tokens, width, heads in SHAPES:
            x = whole(probe.rng, batch, tokens, width).float()
            why = f"B = {batch}, T = {tokens}, C = {width}, {heads} heads"
            want = torch.stack(x.split(width // heads, dim=-1), dim=1)
            probe.agree(subject, x, heads, want=want, why=why)
    x = whole(probe.rng, 2, 3, 8)
    keeps(subject, probe, x, 4, moved=lambda x: torch.stack(x.split(2, dim=-1), dim=1))


def draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different; T = H; H = D; one head; D = 1; integers."""
    sizes = ((2, 3, 20), 4), ((1, 3, 6), 3), ((2, 5, 9), 3), ((2, 4, 6), 1), ((2, 3, 4), 4)
    made = [Call((normal(rng, *shape), heads)) for shape, heads in sizes]
    return [*made, Call((whole(rng, 2, 2, 4), 2)), Call((normal(rng, 2, 3, 8).relu(), 2))]


CUT = "x.reshape(batch, tokens, heads, width // heads).transpose(1, 2)"

SLIPS = (
    Slip(
        "one reshape, no transpose",
        (CUT, "x.reshape(batch, heads, tokens, width // heads)"),
        "A head gets numbers of one token where it should get those of another, as if the new "
        "shape were filled in reading order. Cut the width first, x.reshape(B, T, heads, D), then "
        "exchange the axes of tokens and heads.",
    ),
    Slip(
        "heads left behind the tokens",
        (".transpose(1, 2)", ""),
        "Your result is (B, T, heads, D): the width is cut, but the heads stand behind the tokens. "
        "Exchange axes 1 and 2, so that each head is a problem of its own, (T, D).",
    ),
    Slip(
        "tokens and width exchanged first",
        (CUT, "x.transpose(1, 2).reshape(batch, heads, tokens, width // heads)"),
        "A head's rows run over tokens, as if x were transposed before it is cut. Cut the width "
        "into (heads, D) first, then exchange tokens and heads.",
    ),
    Slip(
        "numbers dealt out in turn",
        (CUT, "x.reshape(batch, tokens, width // heads, heads).permute(0, 3, 1, 2)"),
        "The numbers are dealt out to the heads in turn, like cards. Head 0 should get the first "
        "D next to each other: cut into (heads, D), not into (D, heads).",
    ),
    Slip(
        "pieces of `heads` numbers",
        ("heads, width // heads)", "width // heads, heads)"),
        "You cut pieces of `heads` numbers; expected are `heads` pieces. D is C // heads.",
    ),
)


def by_stack(x, heads):
    """Chunks of the width, stacked along a new axis."""
    return torch.stack(x.chunk(heads, dim=-1), dim=1)


def by_unflatten(x, heads):
    """unflatten, then one permute; contiguous at the end."""
    return x.unflatten(2, (heads, -1)).permute(0, 2, 1, 3).contiguous()


EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Splitting into heads",
    goal="Cut every token's numbers into heads, and bring the heads before the tokens.",
    reference=multi_head.split_heads,
    contract=MOVES_NUMBERS,
    properties=(
        worked(
            "a hand-worked example: two tokens, two heads",
            torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]),
            2,
            want=torch.tensor([[[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]]]),
        ),
        known("one head, a head for each number, one token", _limits),
        Property("head h gets its own D numbers of every token", 1, _places),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_stack, by_unflatten),
    hints=(
        "Two steps, not one. First cut: which axis becomes two, and how long are these "
        "two? Then move: which two axes change places?",
        "The width C becomes (heads, D) with D = C // heads, so the shape is (B, T, heads,"
        " D) in between. reshape does that, because it keeps the reading order.",
        "Read B, T, C from x.shape. Reshape x to (B, T, heads, C // heads), then transpose"
        " axes 1 and 2 of that. Reshaping straight to (B, heads, T, D) gives the right "
        "shape with wrong numbers.",
    ),
    minutes=8,
    difficulty=2,
    importance=5,
)
