"""Exercise 03_attention/score_variance: how widely dot products are spread."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
from attend_solutions import attention
from attend_solutions.types import Array

from attend_grader.chapters.ch03_attention.shared import PROMISES
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, agrees
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject


def _paired(rng: np.random.Generator, n: int, d: int, mean: float = 0.0) -> tuple[Array, Array]:
    """q and k (n, d) whose dot products are scattered about ``mean``."""
    q, k = normal(rng, 2, n, d)
    k[:, 0] += (mean * np.sign(q[:, 0]) / np.abs(q[:, 0]).clip(0.1)).round(2)
    return q, k


def _worked(subject: Subject, probe: Probe) -> None:
    """Dot products 1, 4 and 7: mean 4, variance (9 + 0 + 9) / 3 = 6; a Python float."""
    q = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 1.0, 0.0]])
    k = np.array([[1.0, 5.0, 5.0, 5.0], [1.0, 1.0, 1.0, 1.0], [9.0, 3.0, 1.0, 9.0]])
    probe.agree(subject, q, k, want=6.0, why="dot products 1, 4, 7 (mean 4)")
    small = [a.astype(np.float32) for a in (q, k)]
    value = probe.call(subject, *small).value
    if not isinstance(value, float):
        kind = type(value).__name__
        note = f"float32 inputs give a {kind}; expected a Python float. Wrap the result in float()."
        raise probe.miss(note, *small)


def _pairs(rng: np.random.Generator) -> Fresh:
    for n, d in ((5, 3), (4, 4), (2, 7), (6, 1)):
        q, k = _paired(rng, n, d)
        yield f"{n} pairs, so {n} dot products", Call((q, k))
        yield "scaled=False, so nothing is divided", Call((q, k), {"scaled": False})
        yield f"{n} pairs, each dot product divided by √{d}", Call((q, k), {"scaled": True})
    why = "dot products far from 0 (deviations count from their mean)"
    yield why, Call(_paired(rng, 7, 3, mean=5.0))
    q, k = normal(rng, 2, 6, 3)
    q[:, 0], k[:, 0] = 1.0, k[:, 0] + 1e5
    why = (
        "dot products near 100,000 (squared before the mean is subtracted, they lose their digits)"
    )
    yield why, Call((q, k))
    yield "one pair, so nothing is spread", Call(_paired(rng, 1, 4))


def draws(rng: np.random.Generator) -> list[Call]:
    """n ≠ D and n = D, scaled and not, means far from 0, D = 1."""
    scaled = ((5, 9), (4, 4), (5, 3), (4, 5))
    return [
        *(Call(_paired(rng, *each)) for each in ((6, 3), (4, 4))),
        Call(_paired(rng, 7, 4, mean=5.0)),
        *(Call(_paired(rng, *each), {"scaled": True}) for each in scaled),
        *(Call(_paired(rng, *each), {"scaled": False}) for each in ((3, 1), (5, 4))),
    ]


SLIPS = (
    Slip(
        "divided by n − 1",
        ("dots.var()", "(dots.var() * len(dots) / (len(dots) - 1))"),
        "The sum is divided by n − 1 (ddof=1). Here the mean of the squared deviations is asked: "
        "divide by n, which is NumPy's default.",
    ),
    Slip(
        "all pairs instead of matching rows",
        ("(q * k).sum(axis=-1)", "q @ k.T"),
        "This is the variance of all n × n dot products. Row i of q meets row i of k only: n "
        "numbers, from q * k summed over the last axis.",
    ),
    Slip(
        "mean not subtracted",
        ("dots.var()", "(dots**2).mean()"),
        "This is the mean of the squares. Subtract the mean of the dot products before squaring.",
    ),
    Slip(
        "mean absolute deviation",
        ("dots.var()", "np.abs(dots - dots.mean()).mean()"),
        "This is the mean absolute deviation. The variance squares the deviations before the mean.",
    ),
    Slip(
        "product of two variances",
        ("dots.var()", "(q.var() * k.var() * q.shape[-1] / (q.shape[-1] if scaled else 1))"),
        "This is D times the variance of q's numbers times that of k's (without D where scaled): "
        "what the derivation expects. Measure it: form the dot products and take their variance.",
    ),
    Slip(
        "returned what the derivation expects",
        ("float(dots.var())", "1.0 if scaled else float(q.shape[-1])"),
        "This is D, or 1 where scaled, whatever q and k hold: what the derivation expects of "
        "random vectors. Measure it: form the n dot products and take their variance.",
    ),
    Slip(
        "the root of D rounded down",
        ("q.shape[-1] ** 0.5", "int(q.shape[-1] ** 0.5)"),
        "Where D is no square, √D is rounded down to a whole number. Keep it as a float: "
        "q.shape[-1] ** 0.5.",
    ),
    Slip(
        "summed over the wrong axis",
        ("sum(axis=-1)", "sum(axis=0)"),
        "The sums run over the pairs (axis 0), which leaves D numbers. A dot product sums over "
        "the width: axis=-1.",
    ),
)


def standard_library(q, k, scaled=False):
    """Python's statistics module."""
    scale = math.sqrt(q.shape[1]) if scaled else 1
    return statistics.pvariance(
        [math.fsum((a * b).tolist()) / scale for a, b in zip(q, k, strict=True)]
    )


def einsum(q, k, scaled=False):
    """Divides the variance by D, which is the same as the numbers by √D."""
    variance = float(np.var(np.einsum("nd,nd->n", q, k)))
    return variance / q.shape[-1] if scaled else variance


EXERCISE = Exercise(
    chapter="03_attention",
    title="Variance of the scores",
    goal="Measure what the derivation predicts: dot products of width D have variance D.",
    reference=attention.score_variance,
    contract=replace(PROMISES, leading_axes=False),
    properties=(
        Property("a hand-worked example: dot products 1, 4, 7; a Python float", 1, _worked),
        agrees("row i meets row i; spread about the mean; scaled divides by √D", _pairs),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(standard_library, einsum),
    hints=(
        "Row i of q meets row i of k only: you want n numbers, not an n × n table.",
        "A dot product is an elementwise product followed by a sum. Over which axis must the sum "
        "run, so that n numbers remain?",
        "Multiply q and k elementwise and sum over the last axis. If `scaled`, divide these n "
        "numbers by √D. Then take their population variance (divide by n, NumPy's default) and "
        "turn it into a Python float.",
    ),
    minutes=6,
    difficulty=1,
    importance=3,
)
