"""Exercise 17_triton/block_for_budget: a design, judged by the bytes that are counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton as answers

from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known
from attend_grader.checks.subject import Subject
from attend_grader.inside.tracer import traced

SIZES = (1, 7, 16, 20, 33, 40, 48)


def moved(n: int, block: int) -> int:
    """Bytes that the course's matmul is counted to move."""
    x = torch.ones(n, n)
    with traced() as tracer:
        answers.matmul(x, x, block)
    return sum(launch.bytes_read + launch.bytes_written for launch in tracer.launches)


def _measured(subject: Subject, probe: Probe) -> None:
    """The block that is chosen fits the budget, counted; half of it would not."""
    for n in (33, 48):
        counts = {block: moved(n, block) for block in (16, 32, 64)}
        for wanted, most in counts.items():
            budget = most + int(probe.rng.integers(0, 8))
            block = probe.call(subject, n, budget).value
            if isinstance(block, float):
                raise probe.miss(f"the block is {block}, a float; it has to be an int.", n, budget)
            if block not in counts:
                raise probe.miss(f"block {block} is none of 16, 32, 64.", n, budget)
            text = f"with blocks of {block} the kernel moves {counts[block]:,} bytes (counted)"
            if counts[block] > budget:
                raise probe.miss(f"{text}, more than the budget of {budget:,}.", n, budget)
            if block > wanted:
                text += f", and {counts[wanted]:,} with {wanted}, which would have done"
                raise probe.miss(f"{text}.", n, budget)


def _call(n: int, across: int, more: int) -> Call:
    return Call((n, 4 * n * n * (2 * across + 1) + more))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for n in (*SIZES, 1000, 4096):
        across = int(rng.integers(1, -(-n // 16) + 1))
        yield f"n = {n}", _call(n, across, int(rng.integers(0, 4)))


def _large(rng: np.random.Generator) -> Iterator[tuple[str, tuple[int, int], int]]:
    del rng
    yield "whole budget at n = 1,000", (1000, 4 * 10**6 * (2 * 63 + 1)), 16
    yield "one byte less", (1000, 4 * 10**6 * (2 * 63 + 1) - 1), 32
    yield "a single tile", (1000, 12 * 10**6), 1024
    yield "a single tile at n = 5,000", (5000, 12 * 5000**2), 8192
    yield "a single tile at n = 64", (64, 12 * 64**2), 64
    yield "far more than needed", (100, 10**12), 16


def _impossible(subject: Subject, probe: Probe) -> None:
    for n in (7, 16, int(probe.rng.integers(17, 60))):
        outcome = subject.run((n, 12 * n * n - 1))
        if outcome.error is None or not outcome.error.is_a("ValueError"):
            came = outcome.value if outcome.error is None else outcome.error.type
            text = f"even one tile moves {12 * n * n:,} bytes: a ValueError is due, not {came}."
            raise probe.miss(text, n, 12 * n * n - 1)


def draws(rng: np.random.Generator) -> list[Call]:
    """Tight budgets and loose ones, sizes that blocks do not divide."""
    tight = [_call(n, k, 0) for n, k in ((33, 1), (33, 2), (48, 3), (40, 2), (1000, 8), (1000, 63))]
    between = [Call((n, n * n * (4 * k + 3))) for n, k in ((33, 3), (48, 3), (1000, 5))]
    return [*tight, *(call for _, call in _usual(rng)), *between, _call(100, 4, -4)]


COST = "4 * (2 * n * n * across + n * n)"

SLIPS = (
    Slip(
        "tiles rounded down",
        ("-(-n // block)", "max(n // block, 1)"),
        "The number of tiles is rounded down. A ragged tile at the edge reads its rows as well: "
        "round up.",
    ),
    Slip(
        "only one matrix counted",
        (COST, "4 * (n * n * across + n * n)"),
        "Only one of the two factors is counted. Count both, each loaded ⌈n / block⌉ times.",
    ),
    Slip(
        "two bytes a number",
        (COST, "2 * (2 * n * n * across + n * n)"),
        "Half of the bytes are counted, as if a number had two. Count four for a float32.",
    ),
    Slip(
        "the product's own bytes left out",
        (COST, "4 * (2 * n * n * across)"),
        "The product itself is not counted. Count its n² numbers, each stored once.",
    ),
    Slip(
        "numbers for bytes",
        (COST, "(2 * n * n * across + n * n)"),
        "You counted numbers. The budget is in bytes, four for each float32.",
    ),
    Slip(
        "the budget must not be reached",
        ("<= budget", "< budget"),
        "A block that moves just the budget is refused: at most `budget` bytes are allowed.",
    ),
    Slip(
        "starts at 32",
        ("    block = 16\n", "    block = 32\n"),
        "Blocks of 16 are never chosen, even where they would do. Start there.",
    ),
    Slip(
        "steps of 16",
        ("block *= 2", "block += 16"),
        "The block is not always a power of two, which tl.arange needs.",
    ),
)


def by_tiles_allowed(n, budget):
    """The formula solved for the number of tiles."""
    tiles = (budget // 4 - n * n) // (2 * n * n)
    if tiles < 1:
        raise ValueError("impossible")
    return next(2**e for e in range(4, 64) if -(-n // 2**e) <= tiles)


def smallest_of_all(n, budget):
    """All blocks that do; the smallest."""
    blocks = [2**e for e in range(4, max(n.bit_length(), 4) + 1)]
    good = [b for b in blocks if 8 * n**2 * ((n + b - 1) // b) + 4 * n**2 <= budget]
    if not good:
        raise ValueError(f"no block does: {budget}")
    return min(good)


EXERCISE = Exercise(
    chapter="17_triton",
    title="Design: a block for a budget of bytes",
    goal="Choose the smallest block with which matmul keeps to a budget.",
    reference=answers.block_for_budget,
    contract=Contract(
        says=("Judged by counting what the course's matmul moves. Impossible budgets raise a "
              "ValueError.",),
    ),
    properties=(
        Property("keeps to the budget, as counted by the tracer", 2, _measured),
        agrees("the smallest block that does", _usual, points=2),
        known("exact budgets at n = 1,000 and 5,000", _large),
        Property("a budget that no block keeps raises a ValueError", 1, _impossible),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"solved for the tiles": by_tiles_allowed, "all that do": smallest_of_all},
    hints=(
        "How many programs read the first row of a? How many the first column of b?",
        "There are ⌈n / block⌉ tiles beside each other, so each number of a and of b is read that "
        "often; each number of the product is written once.",
        "bytes = 4 · (2 · n² · ⌈n / block⌉ + n²). Try block = 16, 32, 64, … until it fits; where "
        "one tile covers everything and it still does not fit, raise ValueError.",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
)  # fmt: skip
