"""Exercise 18_triton_flash/ragged_flash: repair a kernel that is right at whole tiles only."""

from __future__ import annotations

import numpy as np
from attend_solutions import triton_flash as answers

from attend_grader.chapters.ch18_triton_flash.shared import (
    LONGEST,
    Size,
    as_edits,
    half_cases,
    large_cases,
    low,
    plain,
    properties,
    traffic,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip

WHOLE: tuple[Size, ...] = ((32, 32, 16, 16, 16), (16, 64, 16, 16, 32))
RAGGED: tuple[Size, ...] = ((21, 39, 16, 16, 16), (5, 1, 16, 16, 16), (1, 33, 32, 16, 32))


def draws(rng: np.random.Generator) -> list[Call]:
    """One key too few for a tile, one too many, one key, whole tiles; scores far below 0."""
    sizes = (
        (21, 31, 16, 16, 16),
        (5, 33, 16, 16, 16),
        (3, 13, 32, 16, 16),
        (2, 1, 16, 16, 16),
        (18, 32, 16, 16, 32),
    )
    calls = [call for _, call, _ in plain(sizes)(rng)]
    return [*calls, Call((*low(rng, 5, 32), 16, 16))]


LOAD_K = "tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)"
HIDE = 'scores = tl.where(s[None, :] < S, scores, -float("inf"))'
EXP = "tl.exp(scores - new_max[:, None])"
WEIGHTS = f"weights = {EXP}"
LOOP = "for first in range(0, S, BLOCK_S):"
ROWS = "for first in range(0, S // BLOCK_S * BLOCK_S, BLOCK_S):"

SLIPS = (
    Slip(
        "unrepaired",
        (f"        {HIDE}\n", ""),
        "Places behind the last key still count with the score 0, so exp(0 − maximum) is added to "
        "the sum. Let their scores be −inf.",
    ),
    Slip(
        "the last, partly empty tile is left out",
        (LOOP, ROWS),
        "Keys of the last tile are left out where it is not full. The loop must reach S, and the "
        "tile's empty places must be hidden.",
    ),
    Slip(
        "whole tiles only, or the first",
        (LOOP, "for first in range(0, tl.maximum(S // BLOCK_S, 1) * BLOCK_S, BLOCK_S):"),
        "A tile of keys that is not full is left out, unless it is the only one. The loop must "
        "reach S.",
    ),
    Slip(
        "NaN where the last tile is not full",
        (
            (f"        {HIDE}\n", ""),
            (LOAD_K, LOAD_K.replace("other=0.0", 'other=-float("inf")')),
        ),
        "NaN may come out where the last tile is not full: keys of −inf, for instance, give "
        "scores of ±inf or NaN, by the signs of the query. Load zeros, and hide the *scores* with "
        "−inf.",
    ),
    Slip(
        "places hidden in full tiles too",
        (HIDE, HIDE.replace("s[None, :] < S", "s[None, :] - first < S % BLOCK_S")),
        "Full tiles lose keys too, as if places in a tile were compared with S % BLOCK_S. Hide the "
        "places s ≥ S.",
    ),
    Slip(
        "hidden one key too early",
        (HIDE, HIDE.replace("< S", "< S - 1")),
        "The last key is hidden as well. Only places s ≥ S should be.",
    ),
    Slip(
        "hidden one key too late",
        (HIDE, HIDE.replace("< S", "<= S")),
        "Where the last tile is not full, the place behind the last key is still taken for a key. "
        "Only places s < S should be.",
    ),
    Slip(
        "keys hidden, and empty places seen",
        (HIDE, HIDE.replace("< S", ">= S")),
        "The keys are hidden, and the places behind them are not. `tl.where(condition, this, "
        "that)` takes `this` where the condition holds. Let it take the score where there is a "
        "key.",
    ),
    Slip(
        "a small number in the place of −inf",
        (HIDE, HIDE.replace('-float("inf")', "-50.0")),
        "Hidden scores come out as if set to a number that is not low enough. Where no score of a "
        "query lies far above it, the hidden places count. Take −inf.",
    ),
    Slip(
        "hidden after the maximum",
        ((f"        {HIDE}\n", ""), (WEIGHTS, f"weights = tl.where(s[None, :] < S, {EXP}, 0.0)")),
        "Empty places still have a say in the maximum, as with the score 0. Where all true scores "
        "of a query lie far below 0, each weight is 0, and 0 / 0 is not a number. Hide the scores "
        "first.",
    ),
    Slip(
        "a maximum that is none of the query's scores",
        ('tl.full((BLOCK_T,), -float("inf"), tl.float32)', "tl.zeros((BLOCK_T,), tl.float32)"),
        "The running maximum counts a number that is none of this query's scores, as if it began "
        "at 0, or axis=1 were missing. Where all scores of the query lie far below it, each "
        "weight is 0, and 0 / 0 is not a number.",
    ),
    Slip(
        "hidden by the number of queries",
        (HIDE, HIDE.replace("< S", "< T")),
        "The places s ≥ T are hidden, and T is the number of queries. Hide the places s ≥ S.",
    ),
)  # fmt: skip

ALTERNATIVES = as_edits(
    answers.ragged_flash,
    {
        "weights set to zero as well": (
            (HIDE, HIDE.replace('-float("inf")', "-1e30")),
            ("weights = tl.exp(scores - new_max[:, None])",
             "weights = tl.where(s[None, :] < S, tl.exp(scores - new_max[:, None]), 0.0)"),
        ),
        "a row added to the scores": (
            (HIDE, 'scores = scores + tl.where(s < S, 0.0, float("-inf"))[None, :]'),
            ("for first in range(0, S, BLOCK_S):\n        s = first + tl.arange(0, BLOCK_S)",
             "for tile in range(0, tl.cdiv(S, BLOCK_S)):\n"
             "        s = tile * BLOCK_S + tl.arange(0, BLOCK_S)"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="18_triton_flash",
    title="Repair: the ragged tail",
    goal="Find out why this kernel is wrong where the last tile is partly empty, and repair it.",
    reference=answers.ragged_flash,
    contract=Contract(
        arguments_unchanged=True,
        says=(
            "T and S are 1 to 512.",
            "Scores may be some ±2,000.",
            "float32 or float16; sums and results are float32.",
            "Each number of k and v is read once a program.",
        ),
    ),
    properties=properties(
        plain(WHOLE),
        plain(RAGGED),
        large_cases((5, 39, 16, 16, 16)),
        half_cases((5, 32, 16, 16, 16)),
        traffic,
        longest=plain(LONGEST),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "Take values of 1: a weighted mean of ones is 1. What comes out for 16, 17 and 31 keys, "
        "and in which direction is it off?",
        "The mask keeps the loads inside their buffers; `other` says what stands in the empty "
        "places. What score does a key of zeros have, and what weight?",
        'After the scores: scores = tl.where(s[None, :] < S, scores, -float("inf")). Nothing '
        "else changes.",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
)
