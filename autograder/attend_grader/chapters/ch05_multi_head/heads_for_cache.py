"""Exercise 05_multi_head/heads_for_cache: design a cache that fits, judged by counting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import multi_head
from attend_solutions.multi_head import kv_cache_bytes

from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, agrees, known, refuses
from attend_grader.checks.subject import Subject

GIB = 2**30
Case = tuple[tuple[int, int, int, int, int], dict[str, int]]
CASES: tuple[Case, ...] = (
    ((24 * GIB, 131_072, 32, 32, 128), {}),
    ((40 * GIB, 131_072, 80, 64, 128), {"bits": 8}),
    ((3 * GIB, 4096, 32, 71, 64), {"batch": 4}),
    ((64 * GIB, 131_072, 32, 32, 128), {}),
    ((10 * GIB, 32_768, 48, 48, 128), {"bits": 4, "batch": 2}),
    ((7, 1, 1, 12, 3), {"bits": 3}),
    ((6, 1, 1, 12, 3), {"bits": 3}),
)
"""Budgets that are counted; the fourth is met exactly; in the last two, three heads of 3 bits take
6¾ bytes, which 7 hold and 6 do not."""


def _chosen(subject: Subject, probe: Probe, args: Any, options: Any) -> int:
    found = probe.call(subject, *args, **options).value
    if type(found) is not int or not 1 <= found <= args[3]:
        text = f"returned {found!r}; expected an int from 1 to {args[3]}."
        raise Miss(text, topic="a whole number").on(probe.given(args, options), "")
    return found


def _fits(subject: Subject, probe: Probe) -> None:
    """The heads divide among the queries, and their cache fits."""
    for args, options in CASES:
        budget, tokens, layers, heads, width = args
        found = _chosen(subject, probe, args, options)
        if heads % found:
            text = f"{found} does not divide {heads} query heads: groups would differ in size."
            raise Miss(text).on(probe.given(args, options), "")
        size = kv_cache_bytes(tokens, layers, found, width, **options)
        if size > budget:
            text = f"{found} heads keep {size:,} bytes; the budget is {budget:,}."
            raise Miss(text).on(probe.given(args, options), "")


def _most(subject: Subject, probe: Probe) -> None:
    """No larger divisor fits."""
    for args, options in CASES:
        budget, tokens, layers, heads, width = args
        found = _chosen(subject, probe, args, options)
        for more in range(found + 1, heads + 1):
            size = kv_cache_bytes(tokens, layers, more, width, **options)
            if heads % more == 0 and size <= budget:
                text = f"you chose {found}; {more} heads keep {size:,} bytes, and {budget:,} fit."
                raise Miss(text).on(probe.given(args, options), "")


def _edges(rng: np.random.Generator) -> Known:
    del rng
    yield "80 bytes a head: 5 heads fit, and 5 does not divide 12", (470, 10, 1, 12, 2), 4
    yield "80 bytes a head, exactly six of them", (480, 10, 1, 12, 2), 6
    yield "one byte less than six heads", (479, 10, 1, 12, 2), 4
    yield "20 of 400 heads fit, and 25 do not", (80, 1, 1, 400, 1), 20
    for heads in (192, 2**10, 1_000):
        yield f"all of {heads:,} heads fit", (10**9, 1, 1, heads, 1), heads
    for size in (2**22, 2**32, 2**40):
        args = (2 * size - 1, size // 512, 1, 2, 128)
        yield f"one byte less than two heads of {size:,} bytes", args, 1
        args = (2 * size, size // 512, 1, 2, 128)
        yield f"exactly two heads of {size:,} bytes", args, 2
    yield "more than enough", (10**9, 10, 1, 12, 2), 12
    yield "a prime number of heads: one, or all", (559, 10, 1, 7, 2), 1
    yield "one head, exactly", (80, 10, 1, 12, 2), 1
    for heads in (16, 28, 36, 60, 66, 91):
        for g in (n for n in range(1, heads + 1) if heads % n == 0):
            yield f"80 bytes a head: {g} of {heads} fit", (80 * g, 10, 1, heads, 2), g


def _any(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for _ in range(4):
        tokens, layers, width = (int(n) for n in rng.integers([100, 1, 1], [9000, 90, 200]))
        heads = int(rng.choice([6, 12, 16, 24, 30, 64, 71]))
        bits, batch = int(rng.choice([4, 8, 16])), int(rng.integers(1, 9))
        whole = kv_cache_bytes(tokens, layers, heads, width, batch=batch, bits=bits)
        budget = whole // heads + int(rng.integers(1, whole))
        args = (budget, tokens, layers, heads, width)
        yield "fresh sizes", Call(args, {"batch": batch, "bits": bits})


def draws(rng: np.random.Generator) -> list[Call]:
    """Budgets met exactly and not, primes, options."""
    tokens = int(rng.integers(50, 90))
    budgets = (4 * tokens * 3 * 5 * 4, 4 * tokens * 3 * 5 * 7 + 1)
    others = ((470, 12), (250, 12), (559, 7), (10**9, 12), (79, 12))
    return [
        *(Call((budget, tokens, 3, 12, 5)) for budget in budgets),
        *(Call((budget, 10, 1, heads, 2)) for budget, heads in others),
        Call((1000, 10, 1, 12, 2), {"batch": 3}),
        Call((250, 10, 1, 12, 2), {"bits": 4}),
        Call((7, 1, 1, 12, 3), {"bits": 3}),
        Call((6, 1, 1, 12, 3), {"bits": 3}),
    ]


SIZE = "kv_cache_bytes(tokens, layers, kv_heads, head_dim, batch=batch, bits=bits)"
DIVIDES = "heads % kv_heads == 0 and size <= budget"
SLIPS = (
    Slip(
        "heads that need not divide",
        (DIVIDES, "size <= budget"),
        "Your number of heads fits, but need not divide the query heads: some groups could be "
        "larger than others. Take the largest divisor that fits.",
    ),
    Slip(
        "as many as fit, by one head's bytes",
        ((SIZE, "kv_heads * " + SIZE.replace("kv_heads, ", "1, ")),
         (DIVIDES, "size <= budget")),
        "You return how many heads fit if the bytes of each are rounded up, and that number need "
        "not divide the query heads. Go down to a divisor. And round the bytes of all heads "
        "together.",
    ),
    Slip(
        "the fewest",
        ("range(heads, 0, -1)", "range(1, heads + 1)"),
        "You return the smallest number of heads that fits, which is always 1. The most are asked "
        "for.",
    ),
    Slip(
        "each head rounded up",
        (SIZE, "kv_heads * " + SIZE.replace("kv_heads, ", "1, ")),
        "You round up the bytes of each head. Count the bytes of all heads together, and round "
        "once: with 3 bits a number, heads may share a byte.",
    ),
    Slip(
        "batch and bits left out",
        (SIZE, SIZE.replace(", batch=batch, bits=bits", "")),
        "You count one sentence, and 16 bits a number, whatever is asked: hand batch and bits on "
        "to kv_cache_bytes.",
    ),
    Slip(
        "batch left out",
        (SIZE, SIZE.replace("batch=batch, ", "")),
        "You count one sentence, whatever is asked: hand batch on to kv_cache_bytes.",
    ),
    Slip(
        "bits left out",
        (SIZE, SIZE.replace(", bits=bits", "")),
        "You count 16 bits, whatever is asked: hand bits on to kv_cache_bytes.",
    ),
    Slip(
        "never all heads",
        ("range(heads, 0, -1)", "range(heads - 1, 0, -1)"),
        "You never try as many heads of keys as of queries: where all fit, take them all.",
    ),
    Slip(
        "halved until it fits",
        (("range(heads, 0, -1)", "[heads // 2**n for n in range(heads.bit_length())]"),
         (DIVIDES, "size <= budget")),
        "You halve the heads until they fit. Other divisors lie between, as 4 of 12; and half of "
        "an odd number, rounded down, need not divide it.",
    ),
    Slip(
        "the size of a group",
        ("return kv_heads", "return heads // kv_heads"),
        "You return how many query heads share one head of keys and values. The number of heads "
        "of keys and values is asked for.",
    ),
)  # fmt: skip


def by_division(budget, tokens, layers, heads, head_dim, *, batch=1, bits=16):
    """How many heads fit, then down to a divisor; in bits, so nothing is rounded."""
    each = 2 * tokens * layers * head_dim * batch * bits
    fit = min(heads, 8 * budget // each)
    while fit >= 1 and heads % fit:
        fit -= 1
    if fit < 1:
        raise ValueError("nothing fits")
    return fit


def by_groups(budget, tokens, layers, heads, head_dim, *, batch=1, bits=16):
    """All divisors, filtered; max says itself when there is none."""
    divisors = [heads // n for n in range(1, heads + 1) if heads % n == 0]
    options = {"batch": batch, "bits": bits}
    return max(
        g for g in divisors if kv_cache_bytes(tokens, layers, g, head_dim, **options) <= budget
    )


EXERCISE = Exercise(
    chapter="05_multi_head",
    title="Design: a cache that fits",
    goal="Choose the most heads of keys and values whose cache fits into a budget.",
    reference=multi_head.heads_for_cache,
    contract=Contract(
        says=(
            "The result is an `int` that divides `heads`.",
            "If one head does not fit, it raises a ValueError.",
        )
    ),
    properties=(
        Property("counted: it divides the heads, and fits", 1, _fits),
        Property("counted: no larger divisor fits", 1, _most),
        known("by hand: exact budgets, primes", _edges),
        agrees("any sizes, sentences and bits", _any),
        refuses(
            (("one head needs 80 bytes", (79, 10, 1, 12, 2)), ("no room", (0, 5, 2, 4, 3))),
            cause="Where none of the divisors fits, `raise ValueError(…)`.",
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_division, by_groups),
    hints=(
        "Your kv_cache_bytes counts the cache for a number of heads. Which numbers may you try?",
        "The divisors of `heads`, from the largest down; return the first whose bytes are at most "
        "`budget`.",
        "for kv_heads in range(heads, 0, -1): skip it where heads % kv_heads is not 0; return it "
        "where its bytes fit. After the loop raise ValueError(…).",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    uses=("kv_cache_bytes",),
)
