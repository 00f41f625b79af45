"""Exercise 18_triton_flash/one_tile: attention with all keys in one tile."""

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
    high,
    large_cases,
    plain,
    properties,
    traffic,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip

WHOLE: tuple[Size, ...] = ((32, 16, 16, 16, 16), (16, 32, 32, 16, 32))
RAGGED: tuple[Size, ...] = (
    (21, 13, 16, 16, 16),
    (1, 1, 16, 16, 16),
    (17, 31, 32, 16, 32),
    (3, 130, 16, 16, 16),
)


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged and whole, one key, more keys than columns; large scores."""
    sizes = ((21, 13, 16, 16, 16), (16, 32, 16, 16, 32), (5, 1, 32, 16, 16), (33, 16, 32, 32, 16))
    calls = [call for _, call, _ in plain(sizes, one=True)(rng)]
    return [*calls, Call((*high(rng, 5, 13), 16))]


LOAD_Q = "tl.load(q_ptr + rows, mask=t[:, None] < T, other=0.0)"
LOAD_K = "tl.load(k_ptr + keys, mask=s[:, None] < S, other=0.0)"
LOAD_V = "tl.load(v_ptr + keys, mask=s[:, None] < S, other=0.0)"
HIDE = '    scores = tl.where(s[None, :] < S, scores, -float("inf"))\n'
SHIFT = "tl.exp(scores - tl.max(scores, axis=1)[:, None])"
MEAN = "tl.dot(weights.to(v.dtype), v) / tl.sum(weights, axis=1)[:, None]"
STORE = "tl.store(out_ptr + rows, output, mask=t[:, None] < T)"

SLIPS = (
    Slip(
        "empty places count as keys",
        (HIDE, ""),
        "Places behind the last key count with the score 0. Give them the score −inf before the "
        "maximum is taken.",
    ),
    Slip(
        "forgot the scale",
        ("scale * ", ""),
        "The scores are not divided by √D: multiply them by `scale`.",
    ),
    Slip(
        "not divided by the sum",
        (" / tl.sum(weights, axis=1)[:, None]", ""),
        "The weights of a query should sum to 1: divide its output by the sum of its exponentials.",
    ),
    Slip(
        "did not subtract the maximum",
        (SHIFT, "tl.exp(scores)"),
        "exp of a large score overflows. Subtract the row's largest score first.",
    ),
    Slip(
        "one maximum for all queries",
        (SHIFT, "tl.exp(scores - tl.max(scores))"),
        "One maximum is subtracted from all scores of a tile. Where all scores of a query lie far "
        "below it, each weight is 0, and 0 / 0 is not a number: take the maximum along axis=1.",
    ),
    Slip(
        "the maximum of a key's column",
        (SHIFT, "tl.exp(scores - tl.max(scores, axis=0)[None, :])"),
        "The maximum is taken over the queries of a tile, one for each key. A query's softmax "
        "needs the largest of its own scores: take it along axis=1.",
    ),
    Slip(
        "softmax over the queries",
        (
            (SHIFT, "tl.exp(scores - tl.max(scores, axis=0)[None, :])"),
            (MEAN, "tl.dot((weights / tl.sum(weights, axis=0)[None, :]).to(v.dtype), v)"),
        ),
        "The weights of a key sum to 1 over the rows of a tile. Those of a query should, over the "
        "keys: take the maximum and the sum along axis=1.",
    ),
    Slip(
        "hidden one key too late",
        (HIDE, HIDE.replace("< S", "<= S")),
        "Where the tile is not full, the place behind the last key is still taken for a key. Only "
        "places s < S should be.",
    ),
    Slip(
        "queries loaded from past the end",
        (LOAD_Q, "tl.load(q_ptr + rows)"),
        "If its tile is not full, the last program reads queries behind the end of q. The load "
        "needs the mask t < T.",
    ),
    Slip(
        "output stored past its end",
        (STORE, "tl.store(out_ptr + rows, output)"),
        "If its tile is not full, the last program writes rows behind the end of the output. The "
        "store needs the mask t < T.",
    ),
    Slip(
        "NaN from the tile's empty places",
        (LOAD_V, "tl.load(v_ptr + keys)"),
        "NaN where the tile of keys is not full. Load the values with the mask s < S, other=0.0: "
        "behind them lies foreign memory, and 0 times NaN is NaN. Hide the scores with −inf.",
    ),
    Slip(
        "a maximum of at least 0",
        (SHIFT, "tl.exp(scores - tl.maximum(tl.max(scores, axis=1), 0.0)[:, None])"),
        "The maximum counts a 0 that is no score. Where all scores of a query lie far below 0, "
        "each weight is 0, and 0 / 0 is not a number.",
    ),
    Slip(
        "more is read than once a program",
        (f"    k = {LOAD_K}\n", 2 * f"    k = {LOAD_K}\n"),
        "Either a tile is loaded twice, or there are more programs than tiles of queries: those "
        "left over have no queries, but read all keys.",
    ),
)

ALTERNATIVES = as_edits(
    answers.one_tile,
    {
        "transposed on loading, weights divided first": (
            (LOAD_K,
             "tl.load(k_ptr + s[None, :] * D + d[:, None], mask=s[None, :] < S, other=0.0)"),
            ("tl.dot(q, k.T)", "tl.dot(q, k)"),
            ("tl.dot(weights.to(v.dtype), v) / tl.sum(weights, axis=1)[:, None]",
             "tl.dot(weights, v.to(tl.float32))"),
            (f"weights = {SHIFT}",
             f"weights = {SHIFT}\n    weights = weights / tl.sum(weights, axis=1, keep_dims=True)"),
        ),
        "powers of two, a finite sentinel": (
            ('-float("inf")', "-1e30"),
            (SHIFT, "tl.exp2((scores - tl.max(scores, axis=1)[:, None]) * 1.4426950408889634)"),
            ("k.T", "tl.trans(k)"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="18_triton_flash",
    title="One tile",
    goal="Attend to all keys at once, where they fit one tile.",
    reference=answers.one_tile,
    contract=Contract(
        arguments_unchanged=True,
        says=(
            "T and S are 1 to 512; D is 16, 32, 64 or 128.",
            "Scores may be some ±2,000.",
            "q, k and v are float32 or float16, without gaps; sums and results are float32.",
            "Each number of q, k and v is read once a program.",
            "With float16, width 64 and tiles of 64 × 64 it compiles for an H100 without spilling "
            "registers.",
        ),
    ),
    properties=properties(
        plain(WHOLE, one=True),
        plain(RAGGED, one=True),
        large_cases((5, 13, 16, 16, 16), one=True),
        half_cases((5, 32, 16, 16, 32), one=True),
        traffic,
        compiled=partial(compile_case, one=True),
        names={"whole": "whole tiles"},
        longest=plain(LONGEST, one=True),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "Four steps: load three tiles, scores, weights, store. A pointer to row i, column d of a "
        "matrix with D columns is ptr + i * D + d; a tile's indices are t[:, None] and d[None, :].",
        "Masks: t[:, None] < T for q and the output, s[:, None] < S for k and v, with other=0.0. "
        "Then scores of places s >= S must become −inf: tl.where(s[None, :] < S, scores, …).",
        "scores = tl.dot(q, k.T) * scale; hide; weights = tl.exp(scores − row maximum[:, None]); "
        "output = tl.dot(weights.to(v.dtype), v) / row sum[:, None]; store with the mask t < T.",
    ),
    minutes=20,
    difficulty=3,
    importance=5,
)
