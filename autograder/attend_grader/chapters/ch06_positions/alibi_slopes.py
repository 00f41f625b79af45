"""Exercise 06_positions/alibi_slopes: ALiBi's slopes."""

from __future__ import annotations

import math

import numpy as np
import torch
from attend_solutions import longer_positions

from attend_grader.chapters.ch06_positions.shared import READY_MADE, comes_out
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Property, Slip
from attend_grader.checks.helpers import ANEW, Fresh, agrees, worked


def _of(name: str, points: int, counts: tuple[int, ...], drawn: int = 0) -> Property:
    """Slopes of these numbers of heads, and of some drawn ones."""

    def cases(rng: np.random.Generator) -> Fresh:
        for heads in (*counts, *rng.integers(3, 64, drawn).tolist()):
            yield f"{heads} head{'s' * (heads > 1)}", Call((heads,))

    return agrees(name, cases, points=points, repeat=1, tolerance=FLOAT32)


def draws(rng: np.random.Generator) -> list[Call]:
    """Powers of two, and numbers between them."""
    between = [
        int(rng.integers(low, high))
        for low, high in ((5, 8), (9, 16), (17, 32), (65, 128), (129, 500))
    ]
    return [Call((n,)) for n in (4, 16, 3, 1, 128, *between)]


POWER = "int(math.log2(heads))"
OWN = "torch.arange(1, power + 1)"
BETWEEN = "torch.arange(1, 2 * power, 2)"

SLIPS = (
    Slip(
        "one formula for all head counts",
        (f"2 ** {POWER}", "heads"),
        "Your slopes are 2^(−8h/H) for every number of heads. For others than powers of two, take "
        "the slopes of the largest power of two below, then the 1st, 3rd, 5th, … of twice as many.",
    ),
    Slip(
        "counted heads from 0",
        ((OWN, "torch.arange(power)"), (BETWEEN, "torch.arange(0, 2 * power, 2)")),
        "Your first slope is 1, as if h were counted from 0. Count it from 1.",
    ),
    Slip(
        "the first ones counted from 0",
        (OWN, "torch.arange(power)"),
        "The slopes of the power of two begin with 1, as if h were counted from 0 there. Count it "
        "from 1; those added after them are right.",
    ),
    Slip(
        "the first of twice as many",
        (BETWEEN, "torch.arange(1, power + 1)"),
        "What is added after the power of two are the first slopes of twice as many heads. Take "
        "every other one, beginning with the first: [0::2].",
    ),
    Slip(
        "the even ones of twice as many",
        (BETWEEN, "torch.arange(2, 2 * power + 1, 2)"),
        "What is added after the power of two are the 2nd, 4th, 6th slope of twice as many heads: "
        "those are there already. Take the 1st, 3rd, 5th: [0::2].",
    ),
    Slip(
        "the last of the odd ones",
        ("between))[:heads]", "between[2 * power - heads :]))"),
        "What is added are the last of the odd slopes of twice as many heads, the flattest. Take "
        "them from the front: the 1st, 3rd, 5th.",
    ),
    Slip(
        "the power of two above",
        (POWER, "math.ceil(math.log2(heads))"),
        "Between powers of two you take the slopes of the next power above and leave out the last "
        "ones. Take those of the power below, then the 1st, 3rd, 5th, … of twice as many heads.",
    ),
    Slip(
        "sorted",
        ("[:heads]", "[:heads].sort(descending=True).values"),
        "The right slopes, out of order. Those of the power of two should come first, then those "
        "added.",
    ),
    Slip(
        "halved from head to head",
        (("-8 / power", "-1.0"), ("-4 / power", "-0.5")),
        "Your slopes halve from head to head, whatever their number, and so do those added after "
        "them. For H heads (a power of two) the ratio should be 2^(−8/H), so that the last slope "
        "is 1/256.",
    ),
    Slip(
        "divided with //",
        (("-8 / power", "-8 // power"), ("-4 / power", "-4 // power")),
        "The step of the exponent, −8/H, comes out rounded down to a whole number, as by `//`. "
        "That is right for up to 8 heads; with more, a step is a fraction: divide with `/`.",
    ),
    Slip(
        "a power of two passed over",
        (POWER, "max(math.ceil(math.log2(heads)) - 1, 0)"),
        "A power of two above 1 is treated like any other number: it gets the slopes of half as "
        "many heads first. The largest power of two that is not above 8 is 8 itself.",
    ),
)


def recursive(heads):
    """As in the code released with the paper."""

    def power_of_two(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    def get(n):
        if math.log2(n).is_integer():
            return power_of_two(n)
        below = 2 ** math.floor(math.log2(n))
        return power_of_two(below) + get(2 * below)[0::2][: n - below]

    return torch.tensor(get(heads))


def by_exponents(heads):
    """Exponents first, as whole numbers over the power of two."""
    below = 1 << (heads.bit_length() - 1)
    steps = [8 * h / below for h in range(1, below + 1)]
    steps += [4 * h / below for h in range(1, 2 * (heads - below), 2)]
    return torch.exp2(-torch.tensor(steps))


EXERCISE = Exercise(
    chapter="06_positions",
    title="ALiBi's slopes",
    goal="Give each head its own slope, for any number of heads.",
    reference=longer_positions.alibi_slopes,
    contract=Contract(says=(ANEW,), forbids=READY_MADE),
    properties=(
        worked(
            "a hand-worked example: 8 heads",
            8,
            want=torch.tensor([2.0**-h for h in range(1, 9)]),
            tolerance=FLOAT32,
        ),
        _of("powers of two: from 2^(−8/H) down to 2^−8", 1, (1, 2, 4, 16, 32, 256, 1024)),
        _of("one head more than a power of two", 1, (3, 5, 9, 257)),
        _of("any number of heads: 6, 12, 20, 112 …", 2, (6, 12, 20, 25, 112, 300, 1000), 3),
        comes_out(torch.float32, (4,), (6,)),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(recursive, by_exponents),
    hints=(
        "What are the slopes of 4 heads, and of 8? Which of the 8 lie between two of the 4?",
        "Find the largest power of two that is not above the number of heads. Its slopes are "
        "2^(−8h/power) for h = 1 … power. What is missing comes from the list for twice that many "
        "heads: every other slope, beginning with the first.",
        "power = 2 ** int(math.log2(heads)). First part: 2.0 ** (−8/power · arange(1, power + "
        "1)). Second part: the odd h of twice as many heads, 2.0 ** (−4/power · arange(1, 2 · "
        "power, 2)). Join them with torch.cat and keep the first `heads`.",
    ),
    minutes=10,
    difficulty=2,
    importance=2,
)
