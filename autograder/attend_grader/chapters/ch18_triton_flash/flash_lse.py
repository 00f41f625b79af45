"""Exercise 18_triton_flash/flash_lse: powers of two, and the LSE in powers of e."""

from __future__ import annotations

from functools import partial

import numpy as np
from attend_solutions import triton_flash as answers

from attend_grader.chapters.ch18_triton_flash.shared import (
    LONGEST,
    Size,
    as_edits,
    compile_case,
    half_cases,
    large_cases,
    plain,
    properties,
    traffic,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip

WHOLE: tuple[Size, ...] = ((32, 32, 16, 16, 16), (16, 64, 16, 16, 32))
RAGGED: tuple[Size, ...] = ((21, 39, 16, 16, 16), (5, 1, 16, 16, 16), (1, 33, 32, 16, 32))


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, one key, whole tiles."""
    sizes = ((21, 39, 16, 16, 16), (5, 33, 16, 16, 16), (3, 1, 32, 16, 16), (18, 32, 16, 16, 32))
    return [call for _, call, _ in plain(sizes, lse=True)(rng)]


UNIT = "unit = scale * 1.4426950408889634"
LSE = "lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453"
CORRECTION = "correction = tl.exp2(running_max - new_max)"

SLIPS = (
    Slip(
        "the LSE in powers of two",
        (LSE, "lse = running_max + tl.log2(running_sum)"),
        "What is written is a logarithm to base 2. Multiply it by ln 2 to get the natural one.",
    ),
    Slip(
        "only the sum back to base e",
        (LSE, "lse = running_max + tl.log(running_sum)"),
        "The logarithm of the sum is natural, but the maximum is still in base 2. Multiply the "
        "maximum by ln 2 as well.",
    ),
    Slip(
        "log2(e) not folded in",
        (UNIT, "unit = scale"),
        "It comes out as if 2^x stood in the place of e^x. Multiply the scores by log2(e) first.",
    ),
    Slip(
        "ln 2 in the place of log2(e)",
        (UNIT, "unit = scale * 0.6931471805599453"),
        "The scores are multiplied by ln 2. But e^x = 2^(x · log2(e)), and log2(e) = 1 / ln 2.",
    ),
    Slip(
        "the LSE without the maximum",
        (LSE, "lse = tl.log2(running_sum) * 0.6931471805599453"),
        "The running sum is measured from the running maximum: add that to the sum's logarithm, "
        "in the same base.",
    ),
    Slip(
        "the sum without its logarithm",
        (LSE, "lse = running_sum"),
        "What is written is the running sum. It should be maximum + ln(sum), the maximum in base "
        "e.",
    ),
    Slip(
        "the LSE stored past its end",
        ("tl.store(lse_ptr + t, lse, mask=t < T)", "tl.store(lse_ptr + t, lse)"),
        "If its tile is not full, the last program writes numbers behind the end of the LSE. The "
        "store needs the mask t < T.",
    ),
    Slip(
        "empty places count as keys",
        ("tl.where(s[None, :] < S, tl.dot(q, k.T) * unit, -float(\"inf\"))",
         "tl.dot(q, k.T) * unit"),
        "Places behind the last key count with the score 0, as in `careless_kernel`.",
    ),
    Slip(
        "a small number in the place of −inf",
        ('-float("inf"))', "-1000.0)"),
        "Hidden scores come out as if set to a number that is not low enough. Where no score of a "
        "query lies far above it, the hidden places count. Take −inf.",
    ),
    Slip(
        "the accumulator is not corrected",
        ("accumulator * correction[:, None]", "accumulator"),
        "When a larger score comes, the accumulator was measured from the old maximum: multiply it "
        "by the correction, as the sum is.",
    ),
)  # fmt: skip

ALTERNATIVES = as_edits(
    answers.flash_lse,
    {
        "the factor joins the subtraction": (
            ("tl.where(s[None, :] < S, tl.dot(q, k.T) * unit, -float(\"inf\"))",
             "tl.where(s[None, :] < S, tl.dot(q, k.T), -1e30)"),
            ("tl.max(scores, axis=1)", "tl.max(scores, axis=1) * unit"),
            ("tl.exp2(scores - new_max[:, None])", "tl.exp2(scores * unit - new_max[:, None])"),
        ),
        "natural logarithm of the sum": (
            (LSE, "lse = running_max / 1.4426950408889634 + tl.log(running_sum)"),
            (CORRECTION, "correction = tl.math.exp2(running_max - new_max)"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="18_triton_flash",
    title="Powers of two, and the LSE",
    goal="Use exp2 throughout, and write the natural logarithm of each query's sum.",
    reference=answers.flash_lse,
    contract=Contract(
        arguments_unchanged=True,
        forbids=("tl.exp", "triton.language.exp"),
        forbidden="`tl.exp`",
        instead="Scale the scores by log2(e), and use tl.exp2.",
        says=(
            "T and S are 1 to 512.",
            "Scores may be some ±2,000.",
            "float32 or float16; sums and results are float32.",
            "Each number of k and v is read once a program.",
            "With float16, width 64 and tiles of 64 × 64 it compiles for an H100 without spilling "
            "registers.",
        ),
    ),
    properties=properties(
        plain(WHOLE, lse=True),
        plain(RAGGED, lse=True),
        large_cases((5, 39, 16, 16, 16), lse=True),
        half_cases((5, 32, 16, 16, 16), lse=True),
        partial(traffic, lse=True),
        compiled=compile_case,
        longest=plain(LONGEST, lse=True),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "e^x = 2^(x · log2(e)). So multiply scale by log2(e) = 1.4426950408889634 once, before "
        "the loop, and write tl.exp2 for each tl.exp. Maximum and scores are then in base 2.",
        "At the end the sum is Σ 2^(y − m), where y and m are in base 2. Its logarithm to base 2 "
        "is m + log2(sum). What turns a logarithm to base 2 into a natural one?",
        "lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453, stored at lse_ptr + t "
        "with the mask t < T. The loop is the one that you repaired, with `unit` for `scale`.",
    ),
    minutes=15,
    difficulty=3,
    importance=4,
    results=("output", "LSE"),
)
