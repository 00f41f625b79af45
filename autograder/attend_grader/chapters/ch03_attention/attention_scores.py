"""Exercise 03_attention/attention_scores: every query against every key, scaled."""

from __future__ import annotations

import math

import numpy as np
from attend_solutions import attention

from attend_grader.chapters.ch03_attention.shared import PROMISES, qkv
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, agrees, worked
from attend_grader.checks.subject import Subject


def _pairs(rng: np.random.Generator) -> Fresh:
    for t, s, d in ((2, 5, 3), (4, 4, 4), (1, 3, 2), (3, 1, 7), (2, 3, 1)):
        q, k, _ = qkv(rng, t, s, d, 1)
        yield "scaled=False", Call((q, k), {"scaled": False})
        yield "scaled left out, so True", Call((q, k))


def _scaled(subject: Subject, probe: Probe) -> None:
    """The learner's own scores, scaled and not: at D = 4, 9, 16 a half, a third, a quarter."""
    for d in (4, 9, 16, 3):
        q, k, _ = qkv(probe.rng, 2, 3, d, 1)
        raw = probe.call(subject, q, k, scaled=False).value
        if not isinstance(raw, np.ndarray) or raw.shape != (2, 3) or not raw.any():
            probe.agree(subject, q, k, scaled=False, why="scaled=False")
        why = f"yours without the scale, divided by √{d} = {d**0.5:.4g}, is expected: scaled"
        probe.agree(subject, q, k, scaled=True, want=raw / d**0.5, why=f"{why}=True")
        probe.agree(subject, q, k, want=raw / d**0.5, why=f"{why} left out, so True")


def draws(rng: np.random.Generator) -> list[Call]:
    """Every length differs from each other in some call; leading axes, scaled and not, one key."""
    sizes = ((3, 5, 4), (4, 4, 4), (3, 2, 3), (4, 4, 2), (1, 3, 4))
    return [
        *(Call(qkv(rng, *each, 1)[:2]) for each in sizes),
        Call(qkv(rng, 3, 5, 4, 1)[:2], {"scaled": False}),
        Call(qkv(rng, 3, 4, 5, 1, (2,))[:2]),
        Call(qkv(rng, 2, 3, 5, 1, (2, 3))[:2], {"scaled": False}),
        Call(qkv(rng, 2, 1, 3, 1)[:2], {"scaled": True}),
        Call((rng.integers(-5, 6, (3, 6)), rng.integers(-5, 6, (2, 6)))),
    ]


DIVIDED = "dots / q.shape[-1] ** 0.5"
DOTS = "dots = q @ np.swapaxes(k, -1, -2)"
LENGTHS = "np.linalg.norm(q, axis=-1)[..., None] * np.linalg.norm(k, axis=-1)[..., None, :]"

SLIPS = (
    Slip(
        "forgot 1/√D",
        (DIVIDED, "dots"),
        "Your scores are the dot products, not divided by √D, also where scaled is True. D is the "
        "width of a query: q.shape[-1].",
    ),
    Slip(
        "`** 1/2` without brackets",
        ("** 0.5", "** 1 / 2"),
        "Your scores are divided by 2 D. Python reads `x / D ** 1/2` as (x / D) / 2: write "
        "D ** 0.5 or np.sqrt(D).",
    ),
    Slip(
        "scaled by the number of keys",
        ("q.shape[-1] ** 0.5", "k.shape[-2] ** 0.5"),
        "Your scores are divided by the square root of how many keys there are. The spread comes "
        "from the width of the vectors, D: use q.shape[-1].",
    ),
    Slip(
        "right for single matrices only",
        ("np.swapaxes(k, -1, -2)", "k.T"),
        "Single matrices come out right, stacks of them do not, as with `.T` or a loop over the "
        "first axis. Swap the last two axes only, np.swapaxes(k, -1, -2), and let `@` run over "
        "the stack.",
    ),
    Slip(
        "np.dot or np.inner instead of @",
        ("q @ np.swapaxes(k, -1, -2)", "np.dot(q, np.swapaxes(k, -1, -2))"),
        "Every leading index of q is paired with every leading index of k, as np.dot and np.inner "
        "do. Use `@` (np.matmul), which keeps leading axes side by side.",
    ),
    Slip(
        "cosine instead of the dot product",
        (DOTS, f"{DOTS} / ({LENGTHS})"),
        "Your dot products are divided by the lengths of the two vectors, which leaves cos θ. Here "
        "a longer vector gets larger scores: leave the lengths in.",
    ),
    Slip(
        "subtracted each row's maximum",
        (DOTS, f"{DOTS}\n    dots = dots - dots.max(axis=-1, keepdims=True)"),
        "The largest score of each row is 0: its maximum is subtracted. Scores are the dot "
        "products as they are; against overflow, softmax subtracts.",
    ),
)


def einsum(q, k, scaled=True):
    """One einsum; the scale as a power."""
    return np.einsum("...td,...sd->...ts", q, k) * (q.shape[-1] ** -0.5 if scaled else 1.0)


def scaled_first(q, k, scaled=True):
    """Scales the queries before comparing them, as fast implementations do."""
    if scaled:
        q = q / math.sqrt(q.shape[-1])
    return np.matmul(q, k.swapaxes(-2, -1))


EXERCISE = Exercise(
    chapter="03_attention",
    title="Scores",
    goal="Compare every query with every key in one matrix product, scaled by 1/√D.",
    reference=attention.attention_scores,
    contract=PROMISES,
    properties=(
        worked(
            "a hand-worked example, unscaled",
            np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]]),
            np.array([[3.0, 4.0], [1.0, -1.0]]),
            want=np.array([[11.0, -1.0], [4.0, -1.0], [9.0, 3.0]]),
            scaled=False,
        ),
        agrees("one score for each query (row) and key (column)", _pairs),
        Property("scaled divides by √D, and is the default", 1, _scaled),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(einsum, scaled_first),
    hints=(
        "Entry (t, s) is the dot product of row t of q and row s of k. Which matrix product holds "
        "all of these at once?",
        "You need k with its last two axes exchanged, and only those two: `.T` would reverse the "
        "leading axes as well. `@` then multiplies matrix by matrix over all leading axes.",
        "Multiply q by k with its axes -1 and -2 swapped: the shape is (..., T, S). If `scaled`, "
        "divide by the square root of the length of q's last axis, not of the number of keys and "
        "not of D itself.",
    ),
    minutes=8,
    difficulty=2,
    importance=5,
)
