"""Exercise 18_triton_flash/causal_flash: read only the tiles that somebody may see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from attend_solutions import triton_flash as answers

from attend_grader.chapters.ch18_triton_flash.shared import (
    HALF,
    LARGE,
    Case,
    as_edits,
    far,
    halves,
    head,
    right,
    seen,
    told,
    traffic,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.kernels import (
    clean_memory,
    compiles_as_launched,
    right_values,
    within_budget,
)

Size = tuple[int, int, int, int | None, int, int]
"""T, S, D, window, BLOCK_T, BLOCK_S."""

SQUARE: tuple[Size, ...] = (
    (32, 32, 16, None, 16, 16),
    (17, 17, 16, None, 16, 16),
    (1, 1, 16, None, 16, 16),
)
OBLONG: tuple[Size, ...] = (
    (5, 37, 16, None, 16, 16),
    (1, 150, 16, None, 16, 32),
    (33, 41, 32, None, 32, 16),
    (16, 17, 16, None, 16, 16),
    (33, 70, 16, None, 16, 32),
)
WINDOWS: tuple[Size, ...] = (
    (21, 35, 16, 5, 16, 16),
    (40, 56, 16, 0, 32, 16),
    (32, 32, 16, 1, 16, 16),
    (21, 50, 16, 16, 16, 16),
    (33, 33, 16, 100, 16, 32),
)


def _cases(rng: np.random.Generator, sizes: Iterable[Size]) -> Iterator[Case]:
    for t, s, d, window, block_t, block_s in sizes:
        q, k, v = head(rng, t, s, d)
        why = told(t, s, d) + ("" if window is None else f", a window of {window}")
        want = right(q, k, v, seen(t, s, window), lse=True)
        yield why, Call((q, k, v, window, block_t, block_s)), want


def _square(rng: np.random.Generator) -> Iterator[Case]:
    yield from _cases(rng, SQUARE)


def _oblong(rng: np.random.Generator) -> Iterator[Case]:
    yield from _cases(rng, OBLONG)


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield from _oblong(rng)
    yield from _cases(rng, ((1, 512, 16, None, 16, 16), (512, 512, 16, None, 64, 64)))


def _float16(rng: np.random.Generator) -> Iterator[Case]:
    for why, (q, k, v) in halves(rng, 5, 37, 16, 16):
        yield why, Call((q, k, v)), right(q, k, v, seen(5, 37), lse=True)


def _windows(rng: np.random.Generator) -> Iterator[Case]:
    wide = int(rng.integers(101, 260))
    yield from _cases(rng, (*WINDOWS, (5, wide + 70, 16, wide, 16, 32)))


def _many_windows(rng: np.random.Generator) -> Iterator[Case]:
    yield from _windows(rng)
    yield from _cases(rng, ((256, 256, 16, 3, 16, 16),))


def _causal(rng: np.random.Generator) -> Iterator[Case]:
    yield from _cases(rng, SQUARE + OBLONG)


def _ends(rng: np.random.Generator) -> Iterator[Case]:
    yield from _cases(rng, OBLONG + WINDOWS[-2:])


def _large(rng: np.random.Generator) -> Iterator[Case]:
    for why, (q, k, v) in far(rng, 21, 37, 16):
        for window in (None, 5):
            want = right(q, k, v, seen(21, 37, window), lse=True)
            yield why, Call((q, k, v, window)), want


def _half(rng: np.random.Generator) -> Iterator[Case]:
    q, k, v = (x.half() for x in head(rng, 64, 64, 64))
    yield "", Call((q, k, v, None, 64, 64)), None


def _bytes(call: Call) -> int:
    q, k, v, window, block_t, block_s = call.args
    return traffic(Call((q, k, v, block_t)), block_s, lse=True, causal=True, window=window)


def draws(rng: np.random.Generator) -> list[Call]:
    """As many queries as keys and fewer, windows, ragged ends, scores far below 0."""
    sizes: tuple[Size, ...] = (
        (21, 21, 16, None, 16, 16),
        (5, 37, 16, None, 16, 16),
        (33, 50, 16, 0, 32, 16),
        (33, 50, 16, 17, 16, 16),
        (32, 32, 16, 1, 16, 16),
    )
    _, (_, low), *_ = far(rng, 5, 37, 16)
    return [*(call for _, call, _ in _cases(rng, sizes)), Call((*low, 5))]


SKIP = "What is needed: a program reads a tile once, if one of its queries may see one of its keys."
PLACE = "place = tl.program_id(0) * BLOCK_T + S - T"
START = "start = tl.maximum(0, place - window) // BLOCK_S * BLOCK_S"
STOP = "stop = tl.minimum(S, place + BLOCK_T)"
AHEAD = "ahead = s[None, :] - (t[:, None] + S - T)"
SEEN = "seen = (ahead <= 0) & (ahead >= -window)"

SLIPS = (
    Slip(
        "tiles before the window are read",
        (START, "start = 0"),
        "Tiles that lie before the window are read. Begin at the tile of the first query's oldest "
        "key.",
    ),
    Slip(
        "tiles after the diagonal are read",
        (STOP, "stop = S"),
        "Tiles after the last query's place are read, though no query of the program may see them. "
        "End the loop at min(S, the first query's place + BLOCK_T).",
    ),
    Slip(
        "skipped, but not masked",
        (SEEN, "seen = s[None, :] < S"),
        "Tiles are skipped, but inside those that are read, queries see later keys, or keys "
        "before their window. The first and the last tiles need the mask.",
    ),
    Slip(
        "the window forgotten in the mask",
        (SEEN, "seen = ahead <= 0"),
        "Keys before a query's window are seen where their tile is read. The mask should have two "
        "ends: p − window and p.",
    ),
    Slip(
        "ended at the first query's place",
        (STOP, "stop = tl.minimum(S, place + 1)"),
        "Tiles of keys that begin after the place of the program's first query are left out. Its "
        "last query stands up to BLOCK_T − 1 places further on.",
    ),
    Slip(
        "begins before the first key",
        (START, "start = place - window"),
        "p₀ − w may lie below 0, where there are no keys, and the mask s < S lets those places be "
        "loaded. Begin at 0 then.",
    ),
    Slip(
        "queries counted from the first key",
        ((PLACE, "place = tl.program_id(0) * BLOCK_T"), (AHEAD, "ahead = s[None, :] - t[:, None]")),
        "Query t comes out as if it stood at t, which is right where T = S only. The last query "
        "stands at the last key, so place query t at t + S − T.",
    ),
    Slip(
        "a query does not see its own place",
        (SEEN, "seen = (ahead < 0) & (ahead >= -window)"),
        "A query must see the key at its own place: s ≤ t + S − T.",
    ),
    Slip(
        "the window one key too narrow",
        (SEEN, "seen = (ahead <= 0) & (ahead > -window)"),
        "The key at p − window is hidden. The window should hold p − window … p: window + 1 keys.",
    ),
    Slip(
        "−inf for hidden scores",
        ("-1e30)", '-float("inf"))'),
        "NaN where the first tile that a program reads holds no visible key for one of its "
        "queries: that query's maximum is still −inf, and −inf − (−inf) is NaN. Use a finite "
        "number such as −1e30.",
    ),
    Slip(
        "ended one place early",
        (STOP, f"{STOP} - 1"),
        "Where a tile of keys begins at the last key that a program's queries see, it is left out: "
        "`range` ends before its second number, which must be one more than that key's.",
    ),
    Slip(
        "ended without S − T",
        (STOP, "stop = tl.minimum(S, place + T - S + BLOCK_T)"),
        "Where T < S, keys may be left out, as if the loop's end left S − T out. End it at min(S, "
        "p₀ + BLOCK_T): the first query's place p₀ counts S − T in.",
    ),
    Slip(
        "a small number for hidden scores",
        ("-1e30)", "-1000.0)"),
        "Where no visible score lies far above the number that stands for hidden ones, hidden "
        "keys count. Take one far below any score, such as −1e30.",
    ),
    Slip(
        "begins one key late",
        (START, "start = tl.maximum(0, place - window + 1) // BLOCK_S * BLOCK_S"),
        "Where the first query's oldest key, p − w, is the last of a tile, that tile is skipped. "
        "Begin at the tile that holds p − w, not p − w + 1.",
    ),
    Slip(
        "the last query decides where to begin",
        (START, "start = tl.maximum(0, place + BLOCK_T - 1 - window) // BLOCK_S * BLOCK_S"),
        "Tiles of keys may be skipped that the program's first query still sees. Its window "
        "reaches back furthest.",
    ),
)

ALTERNATIVES = as_edits(
    answers.causal_flash,
    {
        "two comparisons of places": (
            (AHEAD, "p = t + S - T"),
            (SEEN, "seen = (s[None, :] <= p[:, None]) & (s[None, :] + window >= p[:, None])"),
        ),
        "tiles counted, weights zeroed": (
            (START, "start = tl.maximum(0, place - window) // BLOCK_S"),
            (STOP, "stop = tl.cdiv(tl.minimum(S, place + BLOCK_T), BLOCK_S)"),
            ("range(start, stop, BLOCK_S):\n        s = first + tl.arange(0, BLOCK_S)",
             "range(start, stop):\n        s = first * BLOCK_S + tl.arange(0, BLOCK_S)"),
            ("weights = tl.exp2(scores - new_max[:, None])",
             "weights = tl.where(seen, tl.exp2(scores - new_max[:, None]), 0.0)"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="18_triton_flash",
    title="Tiles that nobody may see",
    goal="Mask, and skip every tile of keys that is hidden from all of a program's queries.",
    reference=answers.causal_flash,
    contract=Contract(
        arguments_unchanged=True,
        forbids=("tl.exp", "triton.language.exp"),
        forbidden="`tl.exp`",
        instead="Scale the scores by log2(e), and use tl.exp2.",
        says=(
            "S is at most 512, and T at most S; `window` is None or at least 0.",
            "Scores may be some ±2,000.",
            "float32 or float16; sums and results are float32.",
            "No tile is read that none of a program's queries may see, and none twice.",
            "With float16, width 64 and tiles of 64 × 64 it compiles for an H100 without spilling "
            "registers.",
        ),
    ),
    properties=(
        right_values("causal, as many queries as keys", _square),
        right_values("causal, fewer queries than keys", _longest),
        right_values("windows, narrow and wide", _many_windows),
        right_values("large scores, positive and negative", _large, tolerance=LARGE),
        right_values("float16 in, float32 in the sums", _float16, tolerance=HALF, same_types=True),
        clean_memory("stays inside its buffers; no two programs write one place", _ends),
        within_budget("skips what lies after the diagonal", _causal, _bytes, factor=1, cause=SKIP),
        within_budget(
            "skips what lies before the window too", _windows, _bytes, factor=1, cause=SKIP
        ),
        compiles_as_launched(
            "compiles for an H100, on its tensor cores, without spills", _half, uses=("HGMMA",)
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "Which keys does the first query of the tile see, and which the last? Query t stands at "
        "t + S − T. The union begins where the first one's window begins and ends at the last "
        "one's place.",
        "place = tl.program_id(0) * BLOCK_T + S - T is where the first query stands. The loop runs "
        "from the tile that holds key place − window (not below 0) up to min(S, place + BLOCK_T).",
        "start = tl.maximum(0, place - window) // BLOCK_S * BLOCK_S; stop = tl.minimum(S, place + "
        "BLOCK_T). Inside: ahead = s[None, :] - (t[:, None] + S - T); visible are 0 ≥ ahead ≥ "
        "−window; hidden scores become −1e30. The rest is the loop of flash_lse.",
    ),
    minutes=25,
    difficulty=4,
    importance=4,
    results=("output", "LSE"),
)
