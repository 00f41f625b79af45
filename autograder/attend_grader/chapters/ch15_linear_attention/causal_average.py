"""Exercise 15_linear_attention/causal_average: repair a mean whose divisor sees the future."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import linear_attention as answers
from attend_solutions.linear_attention import chunked_form
from attend_solutions.types import Array

from attend_grader.chapters.ch15_linear_attention.shared import (
    ADDED,
    SMALL,
    WHOLE,
    features,
    tiny,
)
from attend_grader.checks.compare import expect_close
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.sizes import POSITIVE
from attend_grader.checks.subject import Subject


def _text(
    rng: np.random.Generator, t: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    return features(rng, t, t, d, d_v, lead)


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3, 2), (4, 4, 4), (7, 2, 3), (1, 3, 2)):
        yield f"{sizes[0]} tokens", Call(_text(rng, *sizes))


def _means(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    q, k, v = _text(rng, 6, 3, 2)
    yield "values of 1: every mean is 1", (q, k, np.ones((6, 2))), np.ones((6, 2))
    running = np.cumsum(v, axis=0) / np.arange(1.0, 7.0)[:, None]
    yield "equal keys: the running mean", (q, np.ones((6, 3)), v), running
    q, k, _ = _text(rng, 130, 3, 2)
    why = "130 tokens, so more than one chunk, and values of 1: every mean is 1"
    yield why, (q, k, np.ones((130, 2))), np.ones((130, 2))
    weights = np.tril(SMALL[0] @ SMALL[1].T)
    mean = weights / weights.sum(axis=-1, keepdims=True) @ v[:2]
    yield "a total weight below 0.01: a mean all the same", (*SMALL, v[:2]), mean
    q, k, _ = _text(rng, 6, 3, 2)
    small = tiny(q, k, np.ones((6, 2)))
    yield "weights below 1e-28: a mean of ones all the same", small, np.ones((6, 2))


def _no_leak(subject: Subject, probe: Probe) -> None:
    """The first tokens' outputs stay, whatever comes later."""
    for tokens, first in ((6, 3), (130, 70)):
        q, k, v = _text(probe.rng, tokens, 3, 2)
        before = probe.agree(subject, q, k, v, why="before later tokens change").value
        later = [x.copy() for x in (q, k, v)]
        for x in later:
            x[first:] += 2.0
        after = probe.call(subject, *later).value
        what = f"what the first {first} tokens see, once later ones changed"
        expect_close(after[:first], before[:first], what=what)
        for large, name in ((0, "queries"), (1, "keys")):
            later = [x.copy() for x in (q, k, v)]
            later[large][first:] *= 1e11
            after = probe.call(subject, *later).value
            what = f"what the first {first} tokens see, once later {name} are 1e11 times as large"
            expect_close(after[:first], before[:first], what=what)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, leading axes, one token, width 1, tiny features."""
    sizes = ((5, 3, 2), (4, 4, 4), (1, 3, 2), (4, 1, 2))
    small = Call(tiny(*_text(rng, 5, 3, 2)))
    return [Call(_text(rng, 3, 4, 2, (2,))), *(Call(_text(rng, *one)) for one in sizes), small]


RUNNING = "np.cumsum(k, axis=-2)"
TOTAL = "(q * np.cumsum(k, axis=-2)).sum(axis=-1, keepdims=True)"
SLIPS = (
    Slip(
        "the divisor sees the whole text",
        (RUNNING, "k.sum(axis=-2, keepdims=True)"),
        "Each sum is divided by the weight of all keys, later ones too: a leak, and no mean. "
        "Divide by the weight of the keys up to its own.",
        seen="the broken function in the text",
    ),
    Slip(
        "not divided",
        ("return weighted / total", "return weighted"),
        "These are the sums themselves: divide each by its total weight.",
    ),
    Slip(
        "divided by the number of keys seen",
        (TOTAL, "np.arange(1.0, q.shape[-2] + 1)[:, None]"),
        "Each sum is divided by how many keys a token sees. The weights are q · k, not 1: divide "
        "by their sum.",
    ),
    Slip(
        "a token's own key is not counted",
        ((RUNNING, f"({RUNNING} - k)"),
         ("return weighted / total", "return weighted / np.where(total == 0, 1.0, total)")),
        "The divisor leaves out a token's own key. Count it, as the sum above does, so that the "
        "first token has a total weight, too.",
    ),
    Slip(
        "own key not counted: the first divisor is 0",
        (RUNNING, f"({RUNNING} - k)"),
        "The divisor leaves out a token's own key, so the first token divides by 0. Count it, as "
        "the sum above does.",
    ),
    Slip(
        "summed along the width",
        (RUNNING, "np.cumsum(k, axis=-1)"),
        "The running sum runs along the width of the keys. Let it run along the tokens: axis=-2.",
    ),
    Slip(
        "summed along the first axis",
        (RUNNING, "np.cumsum(k, axis=0)"),
        "With leading axes, axis 0 is one of them, and the running sum runs along it. Count from "
        "the end: axis=-2.",
    ),
    Slip(
        "sum over the future",
        (RUNNING, "np.cumsum(k[..., ::-1, :], axis=-2)[..., ::-1, :]"),
        "The divisor counts a token's own key and all later ones. Count its own and all earlier "
        "ones.",
    ),
    Slip(
        "divisor kept away from 0",
        ("return weighted / total", "return weighted / (total + 1e-10)"),
        ADDED,
    ),
    Slip(
        "divided by the weight of its own key",
        (RUNNING, "k"),
        "Each sum is divided by the weight of one key, the token's own. Divide by the sum over "
        "all keys up to it.",
    ),
)  # fmt: skip


def ones_column(q, k, v):
    """The total is the answer for a value of 1."""
    wide = np.concatenate([v, np.ones((*v.shape[:-1], 1))], axis=-1)
    read, _ = chunked_form(q, k, wide)
    return read[..., :-1] / read[..., -1:]


def masked_matrix(q, k, v):
    """Masked weights, each row divided by its sum."""
    weights = np.tril(np.einsum("...td,...sd->...ts", q, k))
    return weights @ v / weights.sum(-1)[..., None]


def token_by_token(q, k, v):
    """A loop that carries memory and sum of keys."""
    memory, total, rows = 0.0, 0.0, []
    for t in range(q.shape[-2]):
        memory = memory + k[..., t, :, None] * v[..., t, None, :]
        total = total + k[..., t, :]
        read = np.einsum("...d,...de->...e", q[..., t, :], memory)
        rows.append(read / (q[..., t, :] * total).sum(-1)[..., None])
    return np.stack(rows, axis=-2)


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="Repair: a mean that knows the future",
    goal="Find and fix a leak in causal linear attention.",
    reference=answers.causal_average,
    contract=Contract(
        numpy_only=True,
        leading_axes=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"q": POSITIVE, "k": POSITIVE},
        whole=WHOLE,
    ),
    properties=(
        worked(
            "a hand-worked example: weights 1, then 1/4 and 3/4",
            np.array([[1.0], [2.0]]),
            np.array([[1.0], [3.0]]),
            np.array([[8.0], [4.0]]),
            want=np.array([[8.0], [5.0]]),
        ),
        agrees("fresh features of any sizes", _values),
        Property("later tokens change nothing", 1, _no_leak),
        known("a mean of ones is 1; equal keys give the running mean", _means),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "a column of ones": ones_column,
        "masked matrix": masked_matrix,
        "token by token": token_by_token,
    },
    hints=(
        "Make all values 1. What must every output be, and which tokens are wrong?",
        "Both lines add up over keys. Which keys does the first line count for token t, and which "
        "does the second?",
        "The second needs a running sum of the keys, one a token: np.cumsum along axis -2.",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    uses=("chunked_form",),
)
