"""Exercise 06_positions/alibi_bias: ALiBi's bias."""

from __future__ import annotations

import numpy as np
import torch
from attend_solutions import longer_positions
from torch import Tensor

from attend_grader.chapters.ch06_positions.shared import reordered
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked
from attend_grader.checks.torch_properties import normal


def some(rng: np.random.Generator, heads: int) -> Tensor:
    """Positive slopes."""
    return normal(rng, heads).abs() + 0.1


def shuffled(rng: np.random.Generator, count: int) -> Tensor:
    """Different positions in any order."""
    return torch.from_numpy(rng.permutation(50)[:count])


def _axes(rng: np.random.Generator) -> Fresh:
    for heads, t, s in ((3, 2, 5), (2, 4, 3), (4, 4, 4), (1, 1, 1)):
        given = (some(rng, heads), torch.arange(t) + 3, torch.arange(s))
        yield f"H = {heads}, T = {t}, S = {s}", Call(given)


def _places(rng: np.random.Generator) -> Fresh:
    why = "one query, at position 6, as when text is written token by token"
    yield why, Call((torch.tensor([0.5, 0.125]), torch.tensor([6]), torch.arange(7)))
    yield "positions in any order", Call((some(rng, 2), shuffled(rng, 3), shuffled(rng, 5)))
    slope, one = torch.tensor([0.25]), torch.tensor([6])
    for why, where in reordered():
        yield f"keys {why}", Call((slope, one, where))
    for why, where in reordered():
        yield f"queries {why}", Call((slope, where, one))
    for why, where in reordered():
        yield f"queries and keys {why}", Call((slope, where, where.clone()))


def _after(rng: np.random.Generator) -> Fresh:
    del rng
    keys, slope = torch.tensor([2, 4, 5, 6, 8]), torch.tensor([0.25])
    yield "a query at 5, keys at 2, 4, 5, 6, 8", Call((slope, torch.tensor([5]), keys))
    later = 900_000  # float32 holds it, float16 and bfloat16 do not
    yield (
        "the same, 900,000 positions later",
        Call((slope, torch.tensor([5 + later]), keys + later)),
    )
    yield (
        "positions in int32, 900,000 apart",
        Call((slope, torch.tensor([5], dtype=torch.int32), (keys + later).to(torch.int32))),
    )
    yield (
        "2 queries and 60 keys from 900,000 on",
        Call((slope, torch.tensor([60, 70]) + later, torch.arange(60) + later)),
    )


def draws(rng: np.random.Generator) -> list[Call]:
    """T ≠ S, all lengths equal, a single query, positions in any order, one of each."""
    return [
        Call((some(rng, 3), torch.arange(4) + 2, torch.arange(6))),
        Call((some(rng, 3), torch.arange(3), torch.arange(3))),
        Call((some(rng, 2), torch.tensor([9]), torch.arange(10))),
        Call((some(rng, 2), shuffled(rng, 3), shuffled(rng, 5))),
        Call((some(rng, 1), torch.tensor([7]), torch.tensor([4]))),
        Call((some(rng, 2), torch.tensor([0, 2, 5]), torch.tensor([0, 3, 5]))),
    ]


APART = "query_positions[:, None] - key_positions"
BIAS = "-slopes[:, None, None] * distance"

SLIPS = (
    Slip(
        "no penalty for keys ahead",
        (".abs()", ".clamp(min=0)"),
        "Keys after the query have no penalty at all, as if the distance were held at 0 or above. "
        "The distance should have no sign: take the absolute value.",
    ),
    Slip(
        "counted instead of reading positions",
        (APART, "torch.arange(len(query_positions))[:, None] - torch.arange(len(key_positions))"),
        "The tokens of each tensor seem to be counted from 0. A single new query would then stand "
        "where the first key stands. Use the positions given.",
    ),
    Slip(
        "by the key's position alone",
        (BIAS, "slopes[:, None, None] * key_positions.expand_as(distance)"),
        "Your bias grows with the key's position and does not look at the query's. Under a causal "
        "mask the softmax is the same up to rounding, but asked for is the bias: minus slope times "
        "distance.",
    ),
    Slip(
        "queries along the last axis",
        (APART, "key_positions[:, None] - query_positions"),
        "Queries lie along the last axis and keys before them, (H, S, T). Asked for is (H, T, S): "
        "take query positions as the column, key positions as the row.",
    ),
    Slip(
        "squared distance",
        (".abs()", " ** 2"),
        "Your penalty grows with the square of the distance. It should be linear: that is the L in "
        "ALiBi.",
    ),
    Slip(
        "queries taken for the last keys",
        ("query_positions[:, None]", "key_positions[-len(query_positions) :, None]"),
        "The queries are placed where the last keys stand. They may stand anywhere: read their "
        "places from query_positions.",
    ),
    Slip(
        "a causal mask built in",
        (BIAS, f"({BIAS}).masked_fill(key_positions > query_positions[:, None], -math.inf)"),
        "Keys after the query have no finite bias: a causal mask is built in. The mask is another "
        "term: such a key should be penalised like one as far before the query.",
    ),
)


def by_einsum(slopes, query_positions, key_positions):
    """cdist, then an outer product with the slopes."""
    queries, keys = (p.to(slopes.dtype)[:, None] for p in (query_positions, key_positions))
    return torch.einsum("h,ts->hts", -slopes, torch.cdist(queries, keys, p=1))


def of_the_smaller(slopes, query_positions, key_positions):
    """The smaller of the two signed differences."""
    offset = key_positions.view(1, 1, -1) - query_positions.view(1, -1, 1)
    return slopes.reshape(-1, 1, 1) * torch.minimum(offset, -offset)


NEAR = torch.tensor([[0.0, 0.5, 1.0], [0.5, 0.0, 0.5], [1.0, 0.5, 0.0]])

EXERCISE = Exercise(
    chapter="06_positions",
    title="ALiBi's bias",
    goal="Penalise each key by its distance from the query, a slope for each head.",
    reference=longer_positions.alibi_bias,
    contract=Contract(views=True, arguments_unchanged=True),
    properties=(
        worked(
            "a hand-worked example: three tokens, slopes 1/2 and 1/4",
            torch.tensor([0.5, 0.25]),
            torch.arange(3),
            torch.arange(3),
            want=-torch.stack((NEAR, NEAR / 2)),
            tolerance=FLOAT32,
        ),
        agrees("(H, T, S): a slope for each head", _axes, repeat=1, tolerance=FLOAT32),
        agrees("distances between positions, not places", _places, repeat=1, tolerance=FLOAT32),
        agrees(
            "alike before and after, and anywhere in the text", _after, repeat=1, tolerance=FLOAT32
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_einsum, of_the_smaller),
    hints=(
        "Which table (T, S) holds how far each key is from each query, without a sign?",
        "Query positions as a column minus key positions as a row, absolute value. Then each head "
        "multiplies the whole table by its slope, with a minus: which shape must the slopes have?",
        "distance = (query_positions[:, None] - key_positions).abs(); slopes[:, None, None] has "
        "the shape (H, 1, 1) and broadcasts against (T, S). Mind the sign.",
    ),
    minutes=6,
    difficulty=1,
    importance=4,
)
