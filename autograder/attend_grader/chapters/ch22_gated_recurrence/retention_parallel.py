"""Exercise 22_gated_recurrence/retention_parallel: one matrix of products that fade with age."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import gated_recurrence as answers
from attend_solutions.linear_attention import expect_pairs

from attend_grader.chapters.ch22_gated_recurrence.retention_recurrent import case
from attend_grader.chapters.ch22_gated_recurrence.shared import (
    INT64,
    REFUSED,
    WHOLE,
    faint,
    long_texts,
    loop,
    many_decays,
    misfits,
    nearly_gone,
    one_product,
    qkv,
    shared_decays,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.sizes import AS_DRAWN


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3, 2), (4, 4, 4), (7, 2, 3), (1, 3, 2)):
        yield f"{sizes[0]} tokens", case(rng, *sizes)
    yield "3 heads, one decay each", case(rng, 5, 3, 2, lead=(3,))
    yield from shared_decays(rng)


def _recurrence(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    for decay in (0.6, 1.0):
        q, k, v = qkv(rng, 6, 3, 2)
        want, _ = loop(q, k, v, np.full_like(k, decay))
        yield f"token by token, with a decay of {decay}", (q, k, v, decay), want


def _long(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = qkv(rng, 400, 2, 2)
    want, _ = loop(q, k, v, np.full_like(k, 0.125))
    yield "400 tokens and a decay of 1/8, whose power −399 overflows", (q, k, v, 0.125), want
    for q, k, v, decay in (nearly_gone(rng, 300), faint(rng)):
        want, _ = loop(q, k, v, np.full_like(k, decay))
        yield "1e-12 is left of a value of 1e12", (q, k, v, decay), want
    for q, k, v, decay in (one_product(5), one_product(300)):
        want, _ = loop(q, k, v, np.full_like(k, decay))
        yield "1e-40 is left of a product of 1e36", (q, k, v, decay), want
    given, (want, _) = many_decays(rng)
    yield "300 tokens, decays from 1e-12 to 1, some nearly the same", given, want


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, two heads, one token."""
    return [
        case(rng, 5, 3, 2),
        case(rng, 4, 4, 4),
        case(rng, 3, 4, 2, lead=(2,)),
        case(rng, 1, 3, 2),
        case(rng, 3, 3, 3),
    ]


FADE = "np.tril(decay**age)"
SLIPS = (
    Slip(
        "no mask",
        (FADE, "decay**age"),
        "Tokens see later ones. Weights of later tokens should be 0: np.tril keeps the lower "
        "triangle.",
    ),
    Slip(
        "fades in both directions",
        (
            ("np.maximum(place[:, None] - place, 0)", "abs(place[:, None] - place)"),
            (FADE, "decay**age"),
        ),
        "Tokens see later ones, which fade with their distance as earlier ones do. Later ones "
        "should have the weight 0.",
    ),
    Slip(
        "one step too much",
        ("decay**age", "decay ** (age + 1)"),
        "Every weight has faded by one step too much: a token's own pair should have age 0.",
    ),
    Slip(
        "nothing fades",
        ("decay**age", "decay ** (0 * age)"),
        "This is chapter 15's sum: nothing fades. Multiply each product by the decay to the power "
        "of its age.",
    ),
    Slip(
        "older is stronger",
        ("decay**age", "decay ** -age"),
        "Older pairs weigh more than newer ones. The power of the decay should be t − s.",
    ),
    Slip(
        "a token does not see itself",
        (FADE, "np.tril(decay**age, -1)"),
        "A token does not see its own pair. Keep the diagonal, as np.tril does.",
    ),
    Slip(
        "rows of F divided by their sums",
        ("(fade * (q", "(fade / fade.sum(axis=-1, keepdims=True) * (q"),
        "It comes out as if each row of F were divided by its sum. Take the powers as they are.",
    ),
    Slip(
        "divided by √D",
        ("(q @ np", "(q / q.shape[-1] ** 0.5 @ np"),
        "Outputs come out divided by √D. Scale nothing here; whoever calls may scale the queries.",
    ),
    Slip(
        "fades along a line",
        ("decay**age", "np.maximum(1 - (1 - decay) * age, 0)"),
        "Weights fall by the same amount each step, until they are 0. They should fall by the "
        "same factor: decay to the power of the age.",
    ),
)  # fmt: skip


def by_logarithms(q, k, v, decay):
    """Powers of e, with −∞ for what comes later."""
    expect_pairs(q, k, v)
    steps = np.arange(q.shape[-2])
    age = np.where(steps[:, None] >= steps, steps[:, None] - steps, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.where(np.isinf(age), -np.inf, age * np.log(decay)[..., None, None])
    return np.einsum("...ts,...td,...sd,...se->...te", np.exp(exponent), q, k, v)


def row_by_row(q, k, v, decay):
    """One token's weights at a time."""
    expect_pairs(q, k, v)
    rate = np.asarray(decay, dtype=float)[..., None]
    rows = []
    for t in range(q.shape[-2]):
        products = np.einsum("...d,...sd->...s", q[..., t, :], k[..., : t + 1, :])
        weights = products * rate ** np.arange(t, -1, -1)
        rows.append((weights[..., None, :] @ v[..., : t + 1, :])[..., 0, :])
    return np.stack(rows, axis=-2)


EXERCISE = Exercise(
    chapter="22_gated_recurrence",
    title="Retention at once",
    goal="The same outputs by one matrix, in which products fade with age.",
    reference=answers.retention_parallel,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v", "decay"),
        shared=("decay",),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"decay": AS_DRAWN},
        whole=WHOLE,
        says=(
            INT64,
            REFUSED,
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: 8, then 4, then 2 + 2",
            np.ones((3, 1)),
            np.ones((3, 1)),
            np.array([[8.0], [0.0], [2.0]]),
            0.5,
            want=np.array([[8.0], [4.0], [4.0]]),
        ),
        agrees("fresh texts and decays", _values),
        known("the same as token by token", _recurrence),
        known("long texts and small decays", _long),
        refuses(misfits(0.5)),
    ),
    draws=draws,
    wide=long_texts,
    slips=SLIPS,
    alternatives={"by logarithms": by_logarithms, "row by row": row_by_row},
    hints=(
        "How often has the pair of token s been multiplied by the decay when token t reads it?",
        "place = np.arange(T); place[:, None] - place is a (T, T) table of ages. Powers of it are "
        "the factors of q kᵀ; above the diagonal they must be 0.",
        "fade = np.tril(decay ** np.maximum(place[:, None] - place, 0)); return (fade * (q @ "
        "np.swapaxes(k, -1, -2))) @ v.",
    ),
    minutes=10,
    difficulty=2,
    importance=4,
)
