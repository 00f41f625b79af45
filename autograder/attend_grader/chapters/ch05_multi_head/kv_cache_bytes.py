"""Exercise 05_multi_head/kv_cache_bytes: the size of the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attend_solutions import multi_head

from attend_grader.checks.compare import Tolerance
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.subject import Subject

Counted = tuple[tuple[int, ...], dict[str, Any], int, str]
"""Arguments, options, the right number of bytes, and what is special."""


EXACT = Tolerance("exact", 0.0, "bytes are counted, in whole numbers")


def _counts(name: str, points: int, cases: Sequence[Counted]) -> Property:
    """Numbers that were worked out by hand or are published."""

    def test(subject: Subject, probe: Probe) -> None:
        for args, options, want, why in cases:
            probe.agree(subject, *args, want=want, why=why, tolerance=EXACT, **options)

    return Property(name, points, test)


def _whole(subject: Subject, probe: Probe) -> None:
    """Whole bytes, rounded up once: not each number, token, layer or sentence."""
    for args, options, want, why in _ROUNDED:
        probe.agree(subject, *args, want=want, why=why, **options)
    for args, bits in (((3, 1, 1, 1), 4), ((1, 1, 1, 1), 3), ((10, 2, 3, 4), 16)):
        value = probe.call(subject, *args, bits=bits).value
        if type(value) is not int:
            kind = type(value).__name__
            raise probe.miss(f"returned a {kind}; expected an int: bytes are whole.", *args)


_PLAIN = (10, 2, 3, 4)
_ROUNDED: tuple[Counted, ...] = (
    (_PLAIN, {"batch": 6}, 6 * 960, "6 sentences"),
    (_PLAIN, {"bits": 8}, 480, "8 bits"),
    (_PLAIN, {"bits": 4, "batch": 6}, 1440, "4 bits, 6 sentences"),
    ((3, 1, 1, 1), {"bits": 4}, 3, "6 numbers of 4 bits"),
    ((1, 1, 1, 1), {"bits": 3}, 1, "two numbers of 3 bits"),
    ((3, 1, 1, 1), {"bits": 3}, 3, "six numbers of 3 bits"),
    ((4, 1, 1, 1), {"bits": 3}, 3, "4 tokens, two numbers of 3 bits each: 24 bits"),
    ((1, 4, 1, 1), {"bits": 3}, 3, "4 layers, two numbers of 3 bits in each: 24 bits"),
    ((1, 1, 1, 1), {"bits": 3, "batch": 4}, 3, "4 sentences, two numbers of 3 bits each: 24 bits"),
)
_WORKED = (
    ((5, 3, 2, 4), {}, 480, ""),
    ((1, 1, 1, 1), {}, 4, "one key and one value of one number"),
    ((12, 3, 1, 1), {}, 144, "12 tokens, 3 layers"),
    ((1, 23, 1, 1), {}, 92, "one token, 23 layers"),
    ((0, 3, 2, 4), {}, 0, "no token yet"),
    ((2**19, 2**8, 2**8, 2**12), {}, 2**49, "2⁵² bits"),
    ((999_983, 31, 7, 129), {}, 111_970_096_476, "999,983 tokens, 7 kv_heads of 129"),
)
_PUBLISHED = (
    ((4096, 32, 32, 128), {}, 2**31, "Llama 2 7B: 32 layers, 32 heads of 128, 4,096 tokens"),
    ((4096, 80, 8, 128), {}, 1_342_177_280, "Llama 2 70B: 80 layers, 8 kv_heads of 128"),
)
_LATENT = (
    (_PLAIN, {"latent": 7}, 280, "a latent of 7 numbers instead of keys and values"),
    ((10, 2, 9, 9), {"latent": 7}, 280, "kv_heads and head_dim do not count"),
    ((10, 2, 1, 2), {"latent": 7}, 280, "a latent larger than a key and a value"),
    ((1, 1, 1, 64), {"latent": 576}, 1152, "a latent longer than all keys and values"),
    ((1, 60, 128, 128), {"latent": 576}, 69_120, "DeepSeek-V2: latents of 512 + 64 numbers"),
)
_OPTIONS = {"window": 4, "latent": 7, "bits": 8, "batch": 2}
_WINDOW = (
    (_PLAIN, {"window": 4}, 384, "10 tokens, of which 4 are kept"),
    ((10**12, 100, 32, 128), {"window": 4096}, 6_710_886_400, "10¹² tokens, a window of 4,096"),
    ((3, 2, 3, 4), {"window": 4}, 288, "3 tokens, a window of 4"),
    (_PLAIN, {"window": 0}, 0, "a window of 0 tokens: nothing is kept"),
    (_PLAIN, {"window": 4, "batch": 2}, 768, "two sentences, each with a window of 4"),
    (_PLAIN, _OPTIONS, 112, "a window, latents, 8 bits and two sentences"),
    ((100_000, 32, 8, 128), {"window": 4096}, 2**29, "Mistral 7B: a window of 4,096 tokens"),
)


def draws(rng: np.random.Generator) -> list[Call]:
    """Plain, and with each option."""
    plain = tuple(int(n) for n in rng.integers(5, 60, 4))
    one = ({"batch": 3}, {"bits": 4}, {"latent": 17}, *({"window": n} for n in (4, 100, 0)))
    both = {"batch": 2, "window": 3}
    every = {"batch": 2, "bits": 8, "latent": 5, "window": 3}
    odd = (Call((1, 1, g, 1), {"bits": 1, "latent": r}) for g, r in ((1, 3), (1, 5), (3, 5)))
    small = Call((3, 1, 1, 1), {"bits": 3}), *odd
    return [
        *(Call(plain, options) for options in ({}, *one)),
        *small,
        Call(plain, both),
        Call(plain, every),
    ]


UP = "-(-batch * layers * kept * per_token * bits // 8)"
ALL = "batch * layers * kept * per_token"
EACH = "2 * kv_heads * head_dim if latent is None else latent"

SLIPS = (
    Slip(
        "keys counted, values not",
        ("2 * kv_heads", "kv_heads"),
        "Without a latent you count half the numbers: keys alone. A value lies beside each key: "
        "count 2 · D numbers for each head.",
    ),
    Slip("bits, not bytes", (UP, f"{ALL} * bits"), "You return bits. A byte has 8 of them."),
    Slip(
        "two latents",
        ("else latent", "else 2 * latent"),
        "You count a latent twice. One serves for keys and values: R numbers, not 2 R.",
    ),
    Slip(
        "a float",
        (UP, f"{ALL} * bits / 8"),
        "You return a float. Bytes are whole: round up and return an int; `/` always makes a "
        "float.",
    ),
    Slip(
        "rounded down",
        (UP, f"{ALL} * bits // 8"),
        "Your bytes are rounded down, as by `//`: the last bits have no room where they do not "
        "fill a byte. Round up, once, at the end.",
    ),
    Slip(
        "bits // 8 first",
        (UP, f"{ALL} * (bits // 8)"),
        "You take whole bytes of a number, bits // 8, which are 0 for 4 bits. Multiply the bits by "
        "everything else first, and divide by 8 at the end.",
    ),
    Slip(
        "one byte too many",
        (UP, f"({ALL} * bits + 8) // 8"),
        "You return one byte too many wherever 8 divides the bits in all, as when 8 is added "
        "before the division: add 7, the most that can be missing.",
    ),
    Slip(
        "every number rounded up",
        (UP, f"{ALL} * -(-bits // 8)"),
        "You give every number whole bytes of its own. Numbers of 4 bits lie two in a byte: "
        "multiply by the bits first, round up once at the end.",
    ),
)


def by_ceil(tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None):
    """A float in the middle, math.ceil at the end."""
    if window is not None and tokens > window:
        tokens = window
    each = latent if latent is not None else kv_heads * head_dim * 2
    return math.ceil(each * bits / 8 * tokens * layers * batch)


def by_loops(tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None):
    """Adds up layer by layer; divmod at the end."""
    total_bits = 0
    for _ in range(layers):
        numbers = kv_heads * (head_dim + head_dim)
        if latent is not None:
            numbers = latent
        kept = tokens if window is None else min(tokens, window)
        total_bits += batch * kept * numbers * bits
    whole, rest = divmod(total_bits, 8)
    return whole + (rest > 0)


EXERCISE = Exercise(
    chapter="05_multi_head",
    title="The size of the cache",
    goal="Count the bytes of keys and values that a model keeps.",
    reference=multi_head.kv_cache_bytes,
    contract=Contract(
        ranges={"tokens": (1, 10**6 + 1)},
        says=("An `int` (below 2⁵³ bits), rounded up once, at the end.",),
    ),
    properties=(
        _counts("hand-worked numbers", 1, _WORKED),
        _counts("published models: Llama 2 7B and 70B", 1, _PUBLISHED),
        Property("sentences and bits; whole bytes, rounded up at the end", 2, _whole),
        _counts("a latent in the place of keys and values", 1, _LATENT),
        _counts("a window keeps the last tokens only", 1, _WINDOW),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_ceil, by_loops),
    hints=(
        "Count numbers first, bytes at the end. How many numbers does one token need in one layer?",
        "One token in one layer: G keys and G values of D numbers each; or, where there is"
        " a latent, only its numbers. Multiply by the tokens that are kept, the layers and"
        " the sentences.",
        "Tokens kept: min(tokens, window), or all where window is None. Multiply all by "
        "bits, divide by 8 once, at the end, and round up: (n + 7) // 8 is an int.",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
)
