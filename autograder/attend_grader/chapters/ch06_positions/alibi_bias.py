"""Exercise 06_positions/alibi_bias: ALiBi's bias.

The oracle is made of products of Python's own, number by number.
"""

from __future__ import annotations

import numpy as np
import torch
from attend_solutions import longer_positions
from torch import Tensor

from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.torch_properties import normal


def _bias(slopes: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    rows = [
        [[-s * abs(t - k) for k in keys.tolist()] for t in queries.tolist()]
        for s in slopes.tolist()
    ]
    return torch.tensor(rows).reshape(len(slopes), len(queries), len(keys))


def _case(why: str, *args: Tensor) -> tuple[str, tuple[Tensor, ...], Tensor]:
    return why, args, _bias(*args)


def some(rng: np.random.Generator, heads: int) -> Tensor:
    """Positive slopes."""
    return normal(rng, heads).abs() + 0.1


def shuffled(rng: np.random.Generator, count: int) -> Tensor:
    """Different positions in any order."""
    return torch.from_numpy(rng.permutation(50)[:count])


def _axes(rng: np.random.Generator) -> Known:
    for heads, t, s in ((3, 2, 5), (2, 4, 3), (4, 4, 4), (1, 1, 1)):
        given = (some(rng, heads), torch.arange(t) + 3, torch.arange(s))
        yield _case(f"H = {heads}, T = {t}, S = {s}", *given)


def _places(rng: np.random.Generator) -> Known:
    why = "one query, at position 6, as when text is written token by token"
    yield _case(why, torch.tensor([0.5, 0.125]), torch.tensor([6]), torch.arange(7))
    yield _case("positions in any order", some(rng, 2), shuffled(rng, 3), shuffled(rng, 5))


def _after(rng: np.random.Generator) -> Known:
    del rng
    keys, slope = torch.tensor([2, 4, 5, 6, 8]), torch.tensor([0.25])
    yield _case("a query at 5, keys at 2, 4, 5, 6, 8", slope, torch.tensor([5]), keys)
    yield _case("the same, 1,000 positions later", slope, torch.tensor([1005]), keys + 1000)


def draws(rng: np.random.Generator) -> list[Call]:
    """T ≠ S, all lengths equal, a single query, positions in any order, one of each."""
    return [
        Call((some(rng, 3), torch.arange(4) + 2, torch.arange(6))),
        Call((some(rng, 3), torch.arange(3), torch.arange(3))),
        Call((some(rng, 2), torch.tensor([9]), torch.arange(10))),
        Call((some(rng, 2), shuffled(rng, 3), shuffled(rng, 5))),
        Call((some(rng, 1), torch.tensor([7]), torch.tensor([4]))),
    ]


APART = "query_positions[:, None] - key_positions"
BIAS = "-slopes[:, None, None] * distance"

SLIPS = (
    Slip(
        "a bonus for distance",
        ("-slopes", "slopes"),
        "Distance is rewarded: your bias is positive. It is a penalty: minus slope times distance.",
    ),
    Slip(
        "the sign of the distance kept",
        (".abs()", ""),
        "Keys after the query get a bonus: the distance has kept its sign. Take its absolute "
        "value.",
    ),
    Slip(
        "no penalty for keys ahead",
        (".abs()", ".clamp(min=0)"),
        "Keys after the query have no penalty at all: the distance is held at 0 or above (clamp). "
        "It has no sign: take the absolute value.",
    ),
    Slip(
        "keys and queries exchanged",
        (APART, "key_positions[:, None] - query_positions"),
        "Your rows are keys and your columns queries. Scores are (H, T, S): queries as a column, "
        "keys as a row.",
    ),
    Slip(
        "heads last",
        (BIAS, "-slopes * distance[..., None]"),
        "Your heads are the last axis. Scores are (H, T, S): give the slopes two axes behind "
        "theirs, slopes[:, None, None].",
    ),
    Slip(
        "counted instead of reading positions",
        (APART, "torch.arange(len(query_positions))[:, None] - torch.arange(len(key_positions))"),
        "You count the tokens of each tensor from 0. A single new query would stand at 0, far "
        "from the keys just before it. Use the positions given.",
    ),
    Slip(
        "by the key's position alone",
        (BIAS, "slopes[:, None, None] * key_positions.expand_as(distance)"),
        "Your bias grows with the key's position and does not look at the query's. Under a causal "
        "mask the softmax cannot tell the two apart, which some code uses to save work. Here the "
        "bias itself is asked for: minus slope times distance.",
    ),
    Slip(
        "squared distance",
        (".abs()", " ** 2"),
        "Your penalty grows with the square of the distance. It is linear: that is the L in ALiBi.",
    ),
    Slip(
        "a causal mask built in",
        (BIAS, f"({BIAS}).masked_fill(key_positions > query_positions[:, None], -math.inf)"),
        "Keys after the query have no finite bias: a causal mask is built in. The mask is another "
        "term; here such a key is penalised like one as far before the query.",
    ),
    Slip(
        "one slope for all heads",
        ("-slopes[:, None, None]", "-slopes[:1, None, None].expand(len(slopes), 1, 1)"),
        "All heads have the slope of the first. Each has its own, from steep to nearly flat.",
    ),
)


def by_loops(slopes, query_positions, key_positions):
    """Number by number."""
    bias = torch.zeros(len(slopes), len(query_positions), len(key_positions))
    for h, t, s in np.ndindex(*bias.shape):
        bias[h, t, s] = -slopes[h] * abs(int(query_positions[t]) - int(key_positions[s]))
    return bias


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
        known("(H, T, S): a slope for each head", _axes, tolerance=FLOAT32),
        known("distances between positions, not places", _places, tolerance=FLOAT32),
        known("alike before and after, and anywhere in the text", _after, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_loops, by_einsum, of_the_smaller),
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
