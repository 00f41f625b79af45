"""Exercise 22_gated_recurrence/retention_chunked: a chunked form that forgets between chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import gated_recurrence as answers
from attend_solutions.linear_attention import expect_pairs

from attend_grader.chapters.ch22_gated_recurrence.retention_recurrent import going_on
from attend_grader.chapters.ch22_gated_recurrence.shared import (
    INT64,
    REFUSED_CHUNKS,
    WHOLE,
    between,
    cheap,
    faint,
    large_at_last,
    long_texts,
    loop,
    many_decays,
    misfits,
    nearly_gone,
    no_chunks,
    one_product,
    qkv,
    shared_decays,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.sizes import AS_DRAWN


def case(
    rng: np.random.Generator, t: int, d: int, d_v: int, *rest: int, lead: tuple[int, ...] = ()
) -> Call:
    """A text with a decay for each leading index; more arguments behind them."""
    return Call((*qkv(rng, t, d, d_v, lead), between(rng, 0.3, 0.95, *lead), *rest))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((7, 3, 2, 2), (8, 4, 4, 3), (5, 2, 3, 1), (4, 3, 2, 9)):
        yield f"{sizes[0]} tokens in chunks of {sizes[3]}", case(rng, *sizes)
    yield "no chunk given", case(rng, 5, 3, 2)
    q, k, v, *rest = case(rng, 5, 3, 2).args
    for chunk in (1, 3):
        why = f"a last value of 1e12 that no query reads, chunks of {chunk}"
        yield why, Call((*large_at_last(q, k, v), *rest, chunk))
    yield "3 heads, one decay each", case(rng, 7, 3, 2, 2, lead=(3,))
    yield from shared_decays(rng, 2)


def _any_chunk(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = qkv(rng, 9, 3, 2)
    want = loop(q, k, v, np.full_like(k, 0.75))
    for chunk in (1, 2, 4, 8, 9, 20):
        yield f"the same numbers in chunks of {chunk}", (q, k, v, 0.75, chunk), want
    q, k, v = qkv(rng, 400, 2, 2)
    want = loop(q, k, v, np.full_like(k, 0.125))
    for chunk in (400, 150):
        yield f"400 tokens, a decay of 1/8, chunks of {chunk}", (q, k, v, 0.125, chunk), want
    still, state = np.zeros((64, 2)), 1e12 * between(rng, -1, 1, 2, 2)
    why = "64 zeros, a decay of 1/2: 5e-20 is left of a memory of 1e12"
    yield why, (still, still, still, 0.5, 64, state), (still, 0.5**64 * state)
    q, k, v = qkv(rng, 3_200, 2, 2)
    want = loop(q, k, v, np.full_like(k, 0.75))
    yield "3,200 tokens in chunks of 1", (q, k, v, 0.75, 1), want
    for text, chunks in ((nearly_gone(rng, 300), (64, 299, 300)), (faint(rng), (1, 2))):
        q, k, v, decay = text
        want = loop(q, k, v, np.full_like(k, decay))
        for chunk in chunks:
            why = f"1e-12 is left of a value of 1e12, chunks of {chunk}"
            yield why, (*text, chunk), want
    for text, chunks in ((one_product(5), (1, 3, 5)), (one_product(300), (64, 300))):
        q, k, v, decay = text
        want = loop(q, k, v, np.full_like(k, decay))
        for chunk in chunks:
            why = f"1e-40 is left of a product of 1e36, chunks of {chunk}"
            yield why, (*text, chunk), want
    given, want = many_decays(rng)
    for chunk in (64, 300):
        why = f"decays from 1e-12 to 1, some nearly the same, chunks of {chunk}"
        yield why, (*given, chunk), want


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3, 2, 2), (3, 3, 3, 1), (4, 2, 3, 8)):
        yield "a memory is given", going_on(rng, *sizes)
    yield "as many texts as tokens, each with a memory", going_on(rng, 4, 3, 3, 2, lead=(4,))


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, square, two heads, chunks of one, one chunk, a memory given."""
    return [
        case(rng, 7, 3, 2, 2),
        case(rng, 8, 4, 4, 3),
        case(rng, 5, 4, 2, 2, lead=(2,)),
        case(rng, 4, 2, 3, 1),
        case(rng, 3, 3, 2, 64),
        going_on(rng, 5, 3, 2, 2),
        going_on(rng, 6, 2, 2, 2),
    ]


CARRY = "rate**length * state + np.swapaxes"
ASKED = "(rate ** (place + 1) * asked)"
FADED = "rate ** (length - 1 - place) * keys"
SLIPS = (
    Slip(
        "the memory is lost between chunks",
        (CARRY, "np.swapaxes"),
        "Each chunk replaces the memory: what was there is lost. Let that fade by decay^n for a "
        "chunk of n tokens, and add the chunk.",
        seen="the broken function in the text",
    ),
    Slip(
        "the memory does not fade",
        (CARRY, "state + np.swapaxes"),
        "The memory is carried on as it was, though a chunk of n tokens has passed: it should "
        "fade by decay^n.",
    ),
    Slip(
        "fades by the full chunk",
        (CARRY, "rate**chunk * state + np.swapaxes"),
        "The memory fades by decay^chunk also where the last chunk is shorter. Count the tokens "
        "that it has.",
    ),
    Slip(
        "fades by one step too few",
        (CARRY, "rate ** (length - 1) * state + np.swapaxes"),
        "The memory fades by one step too few in a chunk. It should fade once for each of the "
        "chunk's tokens.",
    ),
    Slip(
        "a chunk's pairs go into the memory in full",
        (FADED, "keys"),
        "All pairs of a chunk are written in full. Of n, the first should have faded n − 1 times "
        "at the chunk's end.",
    ),
    Slip(
        "a chunk's pairs fade from the wrong end",
        (FADED, "rate**place * keys"),
        "A chunk's last pair fades most. Of n, the last should be written in full, and the first "
        "should have faded n − 1 times.",
    ),
    Slip(
        "the memory is read as it was",
        (ASKED, "asked"),
        "All tokens of a chunk read the memory as it was before the chunk. For its first token it "
        "should have faded once, for its second twice.",
    ),
    Slip(
        "the memory is read one step too fresh",
        (ASKED, "(rate**place * asked)"),
        "A chunk's first token reads the memory as if it had not faded. It should have faded once "
        "there, and twice at the second token.",
    ),
    Slip(
        "the memory fades once a chunk",
        (CARRY, "rate * state + np.swapaxes"),
        "The memory fades by one step in a whole chunk. It should fade once for each of its n "
        "tokens: by decay^n.",
    ),
    Slip(
        "a chunk's pairs fade one step too much",
        (FADED, "rate ** (length - place) * keys"),
        "A chunk's pairs have faded by one step too much at its end: its last pair, too. Of n, "
        "the last should be written in full, and the first should have faded n − 1 times.",
    ),
    Slip(
        "the chunk fades with the memory",
        (
            "rate**length * state + np.swapaxes(faded, -1, -2) @ values",
            "rate**length * (state + np.swapaxes(faded, -1, -2) @ values)",
        ),
        "What the chunk of n tokens writes fades by decay^n, too. Only the memory from before it "
        "should.",
    ),
)


def by_starts(q, k, v, decay, chunk=64, state=None):
    """Into an array made before; factors as powers of e."""
    expect_pairs(q, k, v)
    if chunk < 1:
        raise ValueError("a chunk needs a token")
    log = np.log(np.asarray(decay, dtype=float))[..., None, None]
    memory = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else 1.0 * state
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    for start in range(0, q.shape[-2], chunk):
        rows = (..., slice(start, start + chunk), slice(None))
        count = np.arange(q[rows].shape[-2])[:, None]
        inside = np.where(count >= count.T, np.exp(log * abs(count - count.T)), 0.0)
        products = np.einsum("...td,...sd->...ts", q[rows], k[rows])
        output[rows] = (inside * products) @ v[rows] + np.exp(log * (count + 1)) * (
            q[rows] @ memory
        )
        left = np.exp(log * (len(count) - 1 - count)) * k[rows]
        wrote = np.einsum("...sd,...se->...de", left, v[rows])
        memory = np.exp(log * len(count)) * memory + wrote
    return output, memory


def through_gates(q, k, v, decay, chunk=64, state=None):
    """By the exercise after the next: all rows have the same gate."""
    log = np.log(np.asarray(decay, dtype=float))[..., None, None]
    return answers.gated_linear_attention(q, k, v, log + np.zeros(k.shape), chunk, state)


EXERCISE = Exercise(
    chapter="22_gated_recurrence",
    title="Repair: a memory that is lost",
    goal="Find why a chunked form forgets more than it should.",
    reference=answers.retention_chunked,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v", "decay", "state"),
        shared=("decay",),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"decay": AS_DRAWN},
        whole=WHOLE,
        forbids=("retention_recurrent",),
        says=(
            INT64,
            "No table of T × T numbers, and no loop or recursion over tokens.",
            "Texts and chunks may be long, and the decay small.",
            REFUSED_CHUNKS,
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: chunks of one token",
            np.ones((3, 1)),
            np.ones((3, 1)),
            np.array([[8.0], [0.0], [2.0]]),
            0.5,
            1,
            want=(np.array([[8.0], [4.0], [4.0]]), np.array([[4.0]])),
        ),
        agrees("the outputs", _values, part=0),
        agrees("the memory after the last chunk", _values, part=1),
        known("any chunk gives the same", _any_chunk),
        agrees("goes on from a memory that is given", _goes_on),
        *cheap(case),
        refuses((*misfits(0.5), *no_chunks(0.5))),
    ),
    draws=draws,
    wide=long_texts,
    slips=SLIPS,
    alternatives={"by starts": by_starts, "through gates": through_gates},
    hints=(
        "With two chunks all is right, with three it is not. What does the third chunk know of the "
        "first?",
        "Look at the last line of the loop: what happens to the memory that was there before the "
        "chunk?",
        "It has faded once for each token of the chunk: state = rate**length * state + "
        "np.swapaxes(faded, -1, -2) @ values.",
    ),
    minutes=10,
    difficulty=2,
    importance=4,
    uses=("retention_parallel",),
    results=("output", "state"),
)
