"""Exercise 25_mamba_kernels/best_chunk: design the chunk, judged by counting."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from attend_solutions import mamba_kernels as answers

from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Known, agrees, known

ROOM = 10**9
TIE = (2, 1, 3, 8, ROOM)


def _sizes(rng: np.random.Generator, most: int = 400) -> tuple[int, int, int, int]:
    tokens, heads = int(rng.integers(100, most)), int(rng.integers(1, 9))
    width, state = (int(n) for n in rng.choice([1, 3, 8, 16, 40, 64], 2))
    return tokens, heads, width, state


def _free(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for _ in range(4):
        yield "room for any chunk", Call((*_sizes(rng), ROOM))
    yield "a large layer: more than 2³¹", Call((int(rng.integers(2500, 4000)), 64, 64, 128, ROOM))
    yield "a layer whose best chunk is long", Call((700, 1, 200_000, 200_000, ROOM**2))
    yield "a best chunk of more than 1,024", Call((1_100, 1, 2_000_000, 2_000_000, 10**13))


def _filled(rng: np.random.Generator, q: int) -> tuple[int, ...]:
    """Sizes, and the room that a chunk of ``q`` steps fills."""
    tokens, heads = int(rng.integers(50, 300)), int(rng.integers(8, 13))
    width, state = int(rng.integers(5, 8)), int(rng.integers(60, 70))
    return tokens, heads, width, state, q * q + q * (width + 2 * state) + width * state


def _tight(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for q in (4, 3, 2, 1):
        *sizes, room = _filled(rng, q)
        yield "little room", Call((*sizes, room))
        if q > 1:
            yield "one number too little", Call((*sizes, room - 1))
            *sizes, room = _filled(rng, q)
            yield "half of the scores find no room", Call((*sizes, room - q * q // 2))


def _short(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for tokens in (1, 2, 5, 9, 13):
        yield "a short text: its last chunk counts", Call((tokens, 2, 16, 16, ROOM))
        yield "a short text", Call((tokens, *_sizes(rng)[1:], ROOM))


def _by_hand(rng: np.random.Generator) -> Known:
    del rng
    yield "4 steps, H = D = N = 1", (4, 1, 1, 1, ROOM), (1, 32)
    yield "one step", (1, 1, 1, 1, ROOM), (1, 8)
    yield "chunks of 1 and of 2 cost the same", TIE, (1, 180)


def draws(rng: np.random.Generator) -> list[Call]:
    """Room for all, little room, no heads' share in the scores; short texts: all in one chunk, or
    costs that fall, rise and fall again; wide heads, whose best chunk is long.
    """
    calls = [Call((*_sizes(rng), ROOM)) for _ in range(3)]
    calls += [call for _, call in _tight(rng)][:6]
    *one, room = _filled(rng, 1)
    far = Call((3_000, 1, 10**6, 10**6, 10**18))
    calls += [Call((*one, room + 1)), Call((2, 2, 16, 16, ROOM)), Call((9, 5, 40, 16, ROOM))]
    return [*calls, Call(TIE), Call((9, 2, 16, 16, ROOM)), Call((256, 1, 64, 64, ROOM)), far]


WITHIN = "q * q * (state + heads * (width + 1))"
WRITTEN = "heads * (2 * q * width * (state + 1) + width * state)"

SLIPS = (
    Slip(
        "the room is ignored",
        ("<= room", "<= room or True"),
        "The chunk may be too long for the chip: scores, x, b, c and state must fit into `room`.",
    ),
    Slip(
        "a chunk that fills the room does not fit",
        ("<= room", "< room"),
        "A chunk that takes up all of `room` should still fit.",
    ),
    Slip(
        "the scores need no room",
        ("if q * q + q * (width", "if q * (width"),
        "The q² scores of a chunk must fit on the chip too.",
    ),
    Slip(
        "the state needs no room",
        (" + width * state <= room", " <= room"),
        "The D N numbers of the state must fit on the chip too.",
    ),
    Slip(
        "b or c needs no room",
        ("(width + 2 * state)", "(width + state)"),
        "Of b and c only one has room. Count q N numbers for each.",
    ),
    Slip(
        "the last chunk counts as a full one",
        ("full, rest = divmod(tokens, q)", "full, rest = -(-tokens // q), 0"),
        "A shorter last chunk is counted as a full one. It should cost what its own number of "
        "steps does.",
    ),
    Slip(
        "a shorter last chunk does not count",
        (" + (operations(rest) if rest else 0)", ""),
        "Only full chunks are counted. Steps that are left should make one more, shorter chunk.",
    ),
    Slip(
        "every head makes its own scores",
        (WITHIN, "q * q * heads * (state + width + 1)"),
        "The scores c · b are counted once a head. All heads share b and c, so count them once.",
    ),
    Slip(
        "the state does not fade",
        (WRITTEN, "heads * (2 * q * width * (state + 1))"),
        "Fading the state is not counted: D N multiplications a head, once a chunk. Without them "
        "the shortest chunk always wins.",
    ),
    Slip(
        "an empty last chunk counts",
        ("(operations(rest) if rest else 0)", "operations(rest)"),
        "Where chunks fit exactly, one more of 0 steps is counted: its state fades for nothing.",
    ),
    Slip(
        "fading the scores is not counted",
        (WITHIN, "q * q * (state + heads * width)"),
        "The q² multiplications a head that fade the scores are not counted.",
    ),
    Slip(
        "the largest of several equally good",
        ("min(counts, key=lambda q: counts[q])", "min(counts, key=lambda q: (counts[q], -q))"),
        "Where several chunk lengths cost the same, the largest is chosen; asked for is the "
        "smallest.",
    ),
)


def counted(tokens, heads, width, state, room):
    """Every chunk of every length counted, one after the other."""
    best = (math.inf, 0)
    for q in range(1, tokens + 1):
        if q**2 + q * width + 2 * q * state + width * state > room:
            break
        cost = 0
        for first in range(0, tokens, q):
            n = min(q, tokens - first)
            cost += n * n * state
            cost += heads * (n * n + n * n * width)
            cost += heads * (2 * n * width * state + 2 * n * width + width * state)
        best = min(best, (cost, q))
    return best[1], best[0]


def with_numpy(tokens, heads, width, state, room):
    """All lengths at once."""
    q = np.arange(1, tokens + 1)
    rest = tokens % q
    square = tokens // q * q**2 + rest**2
    cost = square * (state + heads * (width + 1)) + 2 * tokens * heads * width * (state + 1)
    cost = cost + -(-tokens // q) * heads * width * state
    fits = q * q + q * (width + 2 * state) + width * state <= room
    place = int(np.argmin(np.where(fits, cost, np.iinfo(np.int64).max)))
    return place + 1, int(cost[place])


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="Design the chunk",
    goal="Choose the chunk length with the fewest multiplications among those that fit.",
    reference=answers.best_chunk,
    contract=Contract(says=("T is at most a few thousand; results are below 2⁵³.",)),
    properties=(
        known("worked numbers", _by_hand),
        agrees("the best chunk, with room for all", _free, part=0),
        agrees("its multiplications", _free, part=1),
        agrees("little room", _tight, points=2),
        agrees("short texts, with a shorter last chunk", _short),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"counted one by one": counted, "NumPy": with_numpy},
    hints=(
        "Write a small function for the multiplications of one chunk of q steps: what all heads "
        "share once, the rest times H.",
        "`full, rest = divmod(tokens, q)`: that many chunks of q steps, and one of `rest` steps "
        "where that is not 0. Try every q that fits.",
        "One chunk: q²(N + H(D + 1)) + H(2 q D (N + 1) + D N). It fits where q² + q(D + 2N) + D N "
        "is at most `room`. `min` takes the first of equals, so go from small to large.",
    ),
    minutes=15,
    difficulty=3,
    importance=3,
    results=("chunk", "multiplications"),
)
