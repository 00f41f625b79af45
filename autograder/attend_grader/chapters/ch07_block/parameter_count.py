"""Exercise 07_block/parameter_count: how many numbers a transformer learns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from attend_solutions import block

from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.subject import Subject

Counted = tuple[tuple[int, ...], dict[str, Any], int, str]
"""Arguments, options, the right number, and what is special."""


def _counts(name: str, cases: Sequence[Counted], points: int = 1) -> Property:
    def test(subject: Subject, probe: Probe) -> None:
        for args, options, want, why in cases:
            came = probe.agree(subject, *args, want=want, why=why, **options).value
            if came != want:
                lost = abs(came - want) < want / 2**50
                cause = "Are the last digits lost in floats?" if lost else ""
                text = f"the count is {came:,}, expected {want:,}."
                raise Miss(text, cause=cause, topic="digits").on(probe.given(args, options), why)

    return Property(name, points, test)


TINY = (5, 2, 3, 7)
_WORKED: tuple[Counted, ...] = (
    (TINY, {"biases": False}, 10 + 3 * (16 + 28 + 8) + 4, "no biases"),
    ((5, 2, 500, 7), {"biases": False}, 10 + 500 * (16 + 28 + 8) + 4, "500 layers"),
    (
        (3, 10**9 + 1, 1, 1),
        {"biases": False, "rms": True},
        4 * (10**9 + 1) ** 2 + 8 * (10**9 + 1),
        "more than a float counts",
    ),
    (TINY, {}, 10 + 3 * (16 + 28 + 8 + 8 + 9) + 4, "with biases"),
)
LLAMA: dict[str, Any] = {"gated": True, "biases": False, "rms": True, "tied": False}
_GPT2 = (
    ((50257, 768, 12, 3072), {"positions": 1024}, 124_439_808, "GPT-2 small"),
    ((50257, 1600, 48, 6400), {"positions": 1024}, 1_557_611_200, "GPT-2 XL"),
)
_BERT = (
    ((30522, 768, 12, 3072), {"positions": 512, "segments": 2, "pooler": True}, 109_482_240,
     "BERT-base"),
)  # fmt: skip
_LLAMA = (
    ((32000, 4096, 32, 11008), LLAMA, 6_738_415_616, "Llama 2 7B"),
    ((32000, 8192, 80, 28672), {**LLAMA, "kv_width": 1024}, 68_976_648_192, "Llama 2 70B"),
)


def _tensors(subject: Subject, probe: Probe) -> None:
    """Every option alone, counted in tensors."""
    for options in _ALONE:
        sizes = tuple(int(n) for n in probe.rng.integers(2, 9, 4))
        want = by_tensors(*sizes, **options)
        probe.agree(subject, *sizes, want=want, why=", ".join(options) or "plain", **options)


_ALONE: tuple[dict[str, Any], ...] = (
    {"positions": 6},
    {"segments": 3},
    {"kv_width": 2},
    {"kv_width": 3, "biases": False},
    {"kv_width": 61},
    {"gated": True},
    {"gated": True, "biases": False},
    {"rms": True},
    {"tied": False},
    {"pooler": True},
    {"pooler": True, "biases": False},
)
_USUAL: tuple[dict[str, Any], ...] = (
    {"positions": 6, "segments": 3, "pooler": True},
    {"gated": True, "biases": False, "rms": True, "tied": False, "kv_width": 3},
    {"biases": False, "rms": True, "tied": False},
    {"positions": 8, "tied": False},
    {"positions": 9, "pooler": True, "tied": False},
)
"""Options together: as BERT and Llama have them, and others."""

PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


def _together(subject: Subject, probe: Probe) -> None:
    """Every pair of options, of sizes that cannot stand for each other; also no blocks at all.

    Here a result must be an int too: a float costs this one point, wherever it comes from.
    """
    each: dict[str, tuple[Any, ...]] = {
        "positions": (1, 3),
        "segments": (2,),
        "kv_width": (5, 59),
        "gated": (True,),
        "biases": (False,),
        "rms": (True,),
        "tied": (False,),
        "pooler": (True,),
    }
    single = [{name: value} for name, values in each.items() for value in values]
    pairs = [a | b for a, b in combinations(single, 2) if a.keys() != b.keys()]
    calls = []
    for options in ({}, *pairs, *_USUAL):
        sizes = [int(n) for n in probe.rng.permutation(PRIMES)[:4]]
        for layers in (0, 1, 2) if options in ({}, *_USUAL) else (2,):
            calls.append(Call((*sizes[:2], layers, sizes[3]), options))
    for call, came in zip(calls, subject.many(calls), strict=True):
        sizes, options = call.args, call.kwargs
        want = by_tensors(*sizes, **options)
        why = f"layers = {sizes[2]}; {', '.join(options) or 'plain'}"
        probe.agree(subject, *sizes, want=want, why=why, came=came, **options)
        if type(came.value) is not int:
            kind = type(came.value).__name__
            raise probe.miss(
                f"{why}: returned a value of type {kind}; expected an int.", *sizes, **options
            )


def draws(rng: np.random.Generator) -> list[Call]:
    """Plain, without blocks, with each option, and with several."""
    vocabulary, width, inner = (int(n) for n in rng.permutation(PRIMES)[:3])
    options: tuple[dict[str, Any], ...] = ({}, *_ALONE, *_USUAL, {}, _USUAL[1])
    layers = [2 + number % 3 for number in range(len(options) - 2)] + [0, 0]
    return [
        Call((vocabulary, width, count, inner), given)
        for count, given in zip(layers, options, strict=True)
    ]


SHARED, ONE = "2 * width * width + 2 * width * shared", "one_norm = width if rms else 2 * width"
RETURNED = "tables + layers * (attention + feed + 2 * one_norm) + one_norm + end"

SLIPS = (
    Slip(
        "the norm outside forgotten",
        (RETURNED, "tables + layers * (attention + feed + 2 * one_norm) + end"),
        "One norm is missing: besides two in each block, count one outside.",
    ),
    Slip(
        "one norm in a block",
        ("feed + 2 * one_norm", "feed + one_norm"),
        "One norm is counted in each block. Count two, one for each part.",
    ),
    Slip(
        "no biases in the blocks",
        ("if biases:", "if False:"),
        "The biases in the blocks are missing. With biases=True every matrix product there should "
        "have one.",
    ),
    Slip(
        "biases of keys and values with C numbers",
        ("attention += 2 * width + 2 * shared", "attention += 4 * width"),
        "The biases of keys and of values are counted with C numbers. They should have kv_width.",
    ),
    Slip(
        "matrices of keys and values C × C",
        (SHARED, "4 * width * width"),
        "The matrices of keys and of values are counted as C × C. They should be C × kv_width.",
    ),
    Slip(
        "the gate has no bias",
        ("(2 if gated else 1) * inner + width", "inner + width"),
        "With a gate and biases one bias is missing in each block: w_gate should have F of its "
        "own.",
    ),
    Slip(
        "norms without a shift",
        (ONE, "one_norm = width"),
        "Norms are counted as C numbers. A layer norm has a scale and a shift, 2C; only RMSNorm "
        "has C.",
    ),
    Slip(
        "no shift without biases",
        (ONE, "one_norm = width if rms or not biases else 2 * width"),
        "With biases=False a layer norm loses its shift. `biases` speaks of matrix products only: "
        "a layer norm has 2C numbers, an RMSNorm C.",
    ),
    Slip(
        "scores counted though they are tied",
        ("0 if tied else vocabulary * width", "vocabulary * width"),
        "With tied=True the table of tokens is counted twice. Tied means that the scores use the "
        "same numbers.",
    ),
    Slip(
        "two matrices though gated",
        ("(3 if gated else 2) * width * inner", "2 * width * inner"),
        "With gated=True a matrix is missing in each block: w_gate is as large as w_in.",
    ),
)  # fmt: skip


def by_tensors(
    vocabulary, width, layers, inner, *, positions=0, segments=0, kv_width=None, gated=False,
    biases=True, rms=False, tied=True, pooler=False,
):  # fmt: skip
    """Makes every tensor on torch's meta device, and adds up their sizes."""
    keys = kv_width or width
    products = [(width, width), (width, keys), (width, keys), (width, width)]
    products += [(width, inner)] * (2 if gated else 1) + [(inner, width)]
    shapes = [(rows, width) for rows in (vocabulary, positions, segments)]
    norm = [(width,)] if rms else [(width,), (width,)]
    one = [*products, *([(out,) for _, out in products] if biases else []), *norm, *norm]
    shapes += one * layers + norm
    shapes += [] if tied else [(vocabulary, width)]
    if pooler:
        shapes += [(width, width), *([(width,)] if biases else [])]
    return sum(torch.empty(shape, device="meta").numel() for shape in shapes)


def linear(inputs, outputs, bias):
    """Numbers of one matrix product."""
    return outputs * (inputs + bool(bias))


def by_layers(vocabulary, width, layers, inner, **options):
    """Counts product by product, with defaults taken from a dict."""
    o = {"positions": 0, "segments": 0, "kv_width": None, "gated": False, "biases": True}
    o |= {"rms": False, "tied": True, "pooler": False} | options
    narrow = width if o["kv_width"] is None else o["kv_width"]
    bias, norm = o["biases"], width * (2 - o["rms"])
    total = width * (vocabulary * (2 - o["tied"]) + o["positions"] + o["segments"]) + norm
    for _ in range(layers):
        total += 2 * linear(width, width, bias) + 2 * linear(width, narrow, bias) + 2 * norm
        total += linear(width, inner, bias) * (1 + o["gated"]) + linear(inner, width, bias)
    return total + o["pooler"] * linear(width, width, bias)


EXERCISE = Exercise(
    chapter="07_block",
    title="Count the parameters",
    goal="Count what a published model has learned, from its configuration.",
    reference=block.parameter_count,
    contract=Contract(
        says=("The result is an `int`. `kv_width` is 1 or more; there are up to 500 `layers`.",)
    ),
    properties=(
        _counts("a hand-worked example", _WORKED),
        Property("each option by itself", 2, _tensors),
        _counts("GPT-2: 124,439,808, and XL", _GPT2),
        _counts("BERT-base: 109,482,240", _BERT),
        _counts("Llama 2: 6,738,415,616, and 70B", _LLAMA, points=2),
        Property("options together, no blocks at all; always an int", 1, _together),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"tensors without numbers": by_tensors, "product by product": by_layers},
    hints=(
        "Four places: the tables, one block, the norm outside, the end. Only the block is there L "
        "times.",
        "One block: four matrices of attention, two (three if gated) of the feed-forward network, "
        "a bias as wide as the output of each, two norms.",
        "attention = 2C² + 2C·kv_width; its biases 2C + 2·kv_width; feed 2CF (3CF if gated), its "
        "biases F (2F) + C; each norm 2C (C if rms).",
    ),
    minutes=15,
    difficulty=2,
    importance=4,
)
