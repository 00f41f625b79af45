"""Exercise 18_triton_flash/flash_loop: the online softmax in a kernel's loop."""

from __future__ import annotations

import numpy as np
from attend_solutions import triton_flash as answers

from attend_grader.chapters.ch18_triton_flash.shared import (
    LONGEST,
    Size,
    as_edits,
    half_cases,
    high,
    large_cases,
    plain,
    properties,
    traffic,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip

WHOLE: tuple[Size, ...] = (
    (21, 48, 16, 16, 16),
    (32, 64, 32, 16, 32),
    (1, 16, 16, 16, 16),
    (16, 32, 16, 32, 16),
)


def draws(rng: np.random.Generator) -> list[Call]:
    """Three tiles, four, one; blocks of unequal sides; large scores."""
    sizes = ((21, 48, 16, 16, 16), (16, 64, 16, 32, 16), (5, 16, 32, 16, 16), (18, 64, 16, 16, 32))
    calls = [call for _, call, _ in plain(sizes)(rng)]
    return [*calls, Call((*high(rng, 5, 32), 16, 16))]


MAX = "new_max = tl.maximum(running_max, tl.max(scores, axis=1))"
WEIGHTS = "weights = tl.exp(scores - new_max[:, None])"
CORRECTION = "correction = tl.exp(running_max - new_max)"

SLIPS = (
    Slip(
        "the accumulator is not corrected",
        ("accumulator * correction[:, None]", "accumulator"),
        "When a larger score comes, the accumulator was measured from the old maximum: multiply it "
        "by the correction, as the sum is.",
    ),
    Slip(
        "the sum is not corrected",
        ("running_sum * correction", "running_sum"),
        "When a larger score comes, the sum was measured from the old maximum: multiply it by the "
        "correction, as the accumulator is.",
    ),
    Slip(
        "nothing is corrected",
        (("accumulator * correction[:, None]", "accumulator"),
         ("running_sum * correction", "running_sum")),
        "Where the maximum rises, tiles that are measured from different maxima are added up as "
        "they are. Multiply what was summed before by e^(old maximum − new maximum), before the "
        "old one is overwritten.",
    ),
    Slip(
        "not a number from the first tile on",
        (CORRECTION, "correction = tl.exp(new_max - running_max)"),
        "NaN comes out everywhere, as it does from e^(new − old) or e^(score − old) at the first "
        "tile, where the old maximum is −inf. The correction should be e^(old − new), a weight "
        "e^(score − new).",
    ),
    Slip(
        "only the last tile is left",
        ("        running_max = new_max\n", ""),
        "Only the last tile is left, as if the running maximum stayed at −inf, which makes each "
        "correction 0. Set it at the end of each turn, and add each tile to what was summed "
        "before.",
    ),
    Slip(
        "forgot the scale",
        (" * scale", ""),
        "The scores are not divided by √D: multiply them by `scale`.",
    ),
    Slip(
        "the maximum of this tile only",
        (MAX, "new_max = tl.max(scores, axis=1)"),
        "The maximum is as if taken from this tile only: where it falls far, the correction "
        "overflows. Take the larger one of the old maximum and this tile's.",
    ),
    Slip(
        "weights from this tile's maximum",
        (WEIGHTS, "weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])"),
        "The weights are measured from this tile's own maximum, sum and accumulator from the "
        "running one. Subtract the new running maximum from the scores.",
    ),
    Slip(
        "exp of more than a difference",
        ((WEIGHTS, "weights = tl.exp(scores)"), (CORRECTION, "correction = running_sum * 0 + 1")),
        "exp of a large score overflows, and so does exp of a large maximum. Take exp of "
        "differences from the new maximum only.",
    ),
    Slip(
        "one maximum for all queries",
        (MAX, "new_max = tl.maximum(running_max, tl.max(scores))"),
        "One maximum is subtracted from all scores of a tile. Where all scores of a query lie far "
        "below it, each weight is 0, and 0 / 0 is not a number: take the maximum along axis=1.",
    ),
    Slip(
        "a maximum of at least 0",
        (MAX, "new_max = tl.maximum(tl.maximum(running_max, 0.0), tl.max(scores, axis=1))"),
        "The maximum begins at 0, or counts a 0 that is no score. Where all scores of a query lie "
        "far below 0, each weight is 0, and 0 / 0 is not a number.",
    ),
)  # fmt: skip

ALTERNATIVES = as_edits(
    answers.flash_loop,
    {
        "tl.dot adds": (
            ("accumulator = accumulator * correction[:, None] + tl.dot(weights.to(v.dtype), v)",
             "accumulator *= correction[:, None]\n"
             "        accumulator = tl.dot(weights.to(v.dtype), v, accumulator)"),
        ),
        "exp2, queries scaled once": (
            (f"        {WEIGHTS}\n        {CORRECTION}\n",
             "        weights = tl.exp2((scores - new_max[:, None]) * 1.44269504)\n"
             "        correction = tl.exp2((running_max - new_max) * 1.44269504)\n"),
            ("tl.dot(q, k.T) * scale", "scale * tl.dot(q, tl.trans(k))"),
            ("running_sum = running_sum * correction + tl.sum(weights, axis=1)",
             "running_sum *= correction\n        running_sum += tl.sum(weights, 1)"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="18_triton_flash",
    title="The loop",
    goal="Walk over the keys tile by tile, with a running maximum, sum and accumulator.",
    reference=answers.flash_loop,
    contract=Contract(
        arguments_unchanged=True,
        says=(
            "T is at most 512; so is S, a multiple of block_s.",
            "Scores may be some ±2,000.",
            "float32 or float16; sums and results are float32.",
            "Each number of k and v is read once a program.",
        ),
    ),
    properties=properties(
        plain(WHOLE),
        None,
        large_cases((5, 48, 16, 16, 16)),
        half_cases((5, 32, 16, 16, 16)),
        traffic,
        names={"whole": "one tile of keys, and several"},
        longest=plain(LONGEST),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "Seven lines: scores, new maximum, weights, correction, sum, accumulator; at last the new "
        "maximum becomes the running one. Maximum and sum have one number a query.",
        "The correction is exp(running_max - new_max). Both the sum and the accumulator are "
        "multiplied by it before this tile is added; the accumulator needs it as a column, "
        "correction[:, None].",
        "new_max = tl.maximum(running_max, tl.max(scores, axis=1)); weights = tl.exp(scores - "
        "new_max[:, None]); accumulator = accumulator * correction[:, None] + "
        "tl.dot(weights.to(v.dtype), v); running_max = new_max.",
    ),
    minutes=15,
    difficulty=3,
    importance=5,
)
