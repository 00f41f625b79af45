"""Chapter 03, forwards: what must hold of scores, attention and the variance of scores.

Where the scale 1/√D has a property of its own, the others use D = 1 or unscaled scores, so that
one slip costs its own points only.
"""

from __future__ import annotations

import numpy as np
from attend_solutions.types import Array

from attend_grader.chapters.ch03_attention.props_softmax import sums
from attend_grader.checks.compare import FLOAT32, FLOAT64, PRINTED
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import VIEWS, agree_untouched, expect_unchanged, normal
from attend_grader.checks.subject import Subject


def qkv(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    """Random q (*lead, t, d), k (*lead, s, d) and v (*lead, s, d_v)."""
    q, k, v = (normal(rng, *lead, *ends) for ends in ((t, d), (s, d), (s, d_v)))
    return q, k, v


# attention_scores


def scores_worked(subject: Subject, probe: Probe) -> None:
    """(1, 2)·(3, 4) = 11 and so on, unscaled."""
    q = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]])
    k = np.array([[3.0, 4.0], [1.0, -1.0]])
    want = np.array([[11.0, -1.0], [4.0, -1.0], [9.0, 3.0]])
    probe.agree(subject, q, k, want=want, scaled=False)


def scores_pairs(subject: Subject, probe: Probe) -> None:
    """Row t, column s: query t with key s; any T, S, D."""
    for _ in probe.repeat(1, 3):
        for t, s, d in ((2, 5, 3), (4, 4, 4), (1, 3, 2), (3, 1, 7), (2, 3, 1)):
            q, k, _v = qkv(probe.rng, t, s, d, 1)
            probe.agree(subject, q, k, scaled=False)


def scores_scaled(subject: Subject, probe: Probe) -> None:
    """At D = 4, 9, 16 the scaled scores are a half, a third, a quarter; it is the default."""
    for d in (4, 9, 16, 3):
        q, k, _v = qkv(probe.rng, 2, 3, d, 1)
        raw = probe.agree(subject, q, k, scaled=False, why="scaled=False").value

        def clue(scores: Array, raw: Array = raw, d: int = d) -> str:
            factor = float((raw * raw).sum() / (scores * raw).sum())
            if not np.allclose(scores * factor, raw):
                return ""
            by = "" if np.isclose(factor, 1) else f" divided by {factor:.4g}"
            return (
                f"Yours are the unscaled scores{by}; expected them divided by √{d} = {d**0.5:.4g}."
            )

        probe.agree(subject, q, k, scaled=True, why="scaled=True", clue=clue)
        probe.agree(subject, q, k, why="scaled left out, so True", clue=clue)


def scores_leading(subject: Subject, probe: Probe) -> None:
    """Each leading index is a problem of its own (D = 1: no scale)."""
    for lead in ((2,), (3, 1), (2, 3, 2)):
        q, k, _v = qkv(probe.rng, 3, 4, 1, 1, lead)
        why = f"{len(lead)} leading {'axis' if len(lead) == 1 else 'axes'}"
        probe.agree(subject, q, k, why=why)


def scores_awkward(subject: Subject, probe: Probe) -> None:
    """Whole numbers, float32, views; and the arguments stay as they were (values at D = 1)."""
    whole = [probe.rng.integers(-5, 6, (n, 1)) for n in (3, 2)]
    probe.agree(subject, *whole, scaled=False, why="whole numbers")
    q, k, _v = qkv(probe.rng, 3, 5, 1, 1)
    small = [a.astype(np.float32) for a in (q, k)]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    q, k, _v = qkv(probe.rng, 3, 5, 4, 1)
    outcome = probe.call(subject, q, k)
    expect_unchanged(probe, outcome)
    for why, lay in VIEWS.items():
        probe.agree(subject, lay(q), lay(k), want=outcome.value, why=f"{why}, as for a copy")


SCORES = (
    Property("a hand-worked example, unscaled", 1, scores_worked),
    Property("one score for each query (row) and key (column)", 1, scores_pairs),
    Property("scaled divides by √D, and is the default", 2, scores_scaled),
    Property("any number of leading axes", 1, scores_leading),
    Property("integers, views and float32 work; arguments stay as they were", 1, scores_awkward),
)


def scores_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong and square, leading axes, scaled and not, integers."""
    return [
        Call(qkv(rng, 3, 5, 4, 1)[:2]),
        Call(qkv(rng, 4, 4, 4, 1)[:2]),
        Call(qkv(rng, 3, 5, 4, 1)[:2], {"scaled": False}),
        Call(qkv(rng, 3, 4, 5, 1, (2,))[:2]),
        Call(qkv(rng, 2, 3, 5, 1, (2, 3))[:2], {"scaled": False}),
        Call((rng.integers(-5, 6, (3, 6)), rng.integers(-5, 6, (2, 6)))),
    ]


# scaled_dot_product_attention


def attention_worked(subject: Subject, probe: Probe) -> None:
    """Cat, sat, mat: embeddings (1, 0), (0, 1), (1, 1), queries and keys alike; other values."""
    x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    v = np.array([[10.0, 0.0], [0.0, 4.0], [20.0, 10.0]])
    weights = [[0.4011, 0.1978, 0.4011], [0.1978, 0.4011, 0.4011], [0.2483, 0.2483, 0.5035]]
    output = [[12.033, 4.802], [10.000, 5.616], [12.552, 6.028]]

    def clue(value: Array) -> str:
        unscaled = np.array([0.4223, 0.1554, 0.4223])
        if value.shape != (3, 3):
            return ""
        if np.allclose(value[0], unscaled, atol=1e-3):
            return "These are the weights of scores that were not divided by √2."
        return sums(-1)(value)

    for part in (1, 0):
        why = "the embeddings of cat, sat, mat as q and k, other values as v"
        want = (np.array(output), np.array(weights))
        probe.agree(subject, x, x, v, want=want, part=part, tolerance=PRINTED, why=why, clue=clue)


def attention_limits(subject: Subject, probe: Probe) -> None:
    """One key: its value. Equal keys: the mean of the values."""
    q, k, v = qkv(probe.rng, 3, 1, 4, 2)
    want = (np.repeat(v, 3, axis=0), np.ones((3, 1)))
    probe.agree(subject, q, k, v, want=want, why="one key only, so its value is the answer")
    q, k, v = qkv(probe.rng, 2, 5, 4, 3)
    want = (np.repeat(v.mean(axis=0, keepdims=True), 2, axis=0), np.full((2, 5), 0.2))
    same = np.repeat(k[:1], 5, axis=0)
    probe.agree(subject, q, same, v, want=want, why="equal keys, so the mean of the values")


def attention_weights(subject: Subject, probe: Probe) -> None:
    """Weights are the softmax over the keys of the scaled scores."""
    for _ in probe.repeat(1, 3):
        for t, s, d in ((2, 3, 5), (4, 4, 4), (1, 5, 9)):
            q, k, v = qkv(probe.rng, t, s, d, 2)
            probe.agree(subject, q, k, v, part=1, clue=sums(-1))


def attention_output(subject: Subject, probe: Probe) -> None:
    """The output is the weights (the learner's own) times v; v has its own width."""
    for t, s, d, d_v in ((3, 5, 3, 2), (4, 4, 4, 4), (2, 3, 2, 5)):
        q, k, v = qkv(probe.rng, t, s, d, d_v)
        outcome = probe.call(subject, q, k, v)
        own = outcome.value[1] if isinstance(outcome.value, (tuple, list)) else None
        want = probe.reference(q, k, v)
        if not isinstance(own, np.ndarray) or own.shape != want[1].shape:
            probe.agree(subject, q, k, v)
        elif np.allclose(own.sum(axis=-1), 1):  # else the reference's weights
            want = (own @ v, own)
        probe.agree(subject, q, k, v, want=want, part=0, why="expected: your weights times v")


def attention_order(subject: Subject, probe: Probe) -> None:
    """Keys with their values are a set, queries do not see each other (D = 1: no scale)."""
    q, k, v = qkv(probe.rng, 3, 5, 1, 2)
    output, weights = probe.reference(q, k, v)
    turn, other = probe.rng.permutation(5), probe.rng.permutation(3)
    why = "keys and values reordered together, so the weights move along and the output stays"
    probe.agree(subject, q, k[turn], v[turn], want=(output, weights[:, turn]), why=why)
    why = "queries reordered, so the rows move along"
    probe.agree(subject, q[other], k, v, want=(output[other], weights[other]), why=why)
    why = "one of the queries alone, so its row stays"
    probe.agree(subject, q[1:2], k, v, want=(output[1:2], weights[1:2]), why=why)


def attention_leading(subject: Subject, probe: Probe) -> None:
    """Each leading index is a problem of its own (D = 1: no scale)."""
    for lead in ((2,), (2, 1, 3)):
        q, k, v = qkv(probe.rng, 3, 4, 1, 2, lead)
        why = f"{len(lead)} leading {'axis' if len(lead) == 1 else 'axes'}"
        probe.agree(subject, q, k, v, why=why)


def attention_awkward(subject: Subject, probe: Probe) -> None:
    """Huge scores, whole numbers, float32, views; and the arguments stay as they were."""
    q, k, v = qkv(probe.rng, 3, 5, 1, 2)
    probe.agree(subject, 100 * q, 100 * k, v, why="scores of ±10,000")
    whole = [probe.rng.integers(-3, 4, shape) for shape in ((3, 1), (5, 1), (5, 2))]
    probe.agree(subject, *whole, why="whole numbers")
    small = [a.astype(np.float32) for a in (q, k, v)]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, q, k, v)


ATTENTION = (
    Property("a hand-worked example: cat, sat, mat", 1, attention_worked),
    Property("one key returns its value; equal keys return the mean", 1, attention_limits),
    Property("weights: the softmax of the scaled scores, over the keys", 1, attention_weights),
    Property("output: your weights times the values", 1, attention_output),
    Property("the order of keys does not matter; queries do not mix", 1, attention_order),
    Property("any number of leading axes", 1, attention_leading),
    Property("huge scores, integers, views; arguments stay as they were", 1, attention_awkward),
)


def attention_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong and square, leading axes, large scores."""
    q, k, v = qkv(rng, 2, 3, 4, 2)
    return [
        Call(qkv(rng, 3, 5, 4, 2)),
        Call(qkv(rng, 4, 4, 4, 4)),
        Call(qkv(rng, 3, 4, 5, 2, (2,))),
        Call((100 * q, 100 * k, v)),
        Call(qkv(rng, 1, 1, 2, 3)),
    ]


# score_variance


def _paired(rng: np.random.Generator, n: int, d: int, mean: float = 0.0) -> tuple[Array, Array]:
    """q and k (n, d) whose dot products are scattered about ``mean``."""
    q, k = normal(rng, 2, n, d)
    k[:, 0] += (mean * np.sign(q[:, 0]) / np.abs(q[:, 0]).clip(0.1)).round(2)
    return q, k


def variance_worked(subject: Subject, probe: Probe) -> None:
    """Dot products 1, 4 and 7: mean 4, variance (9 + 0 + 9) / 3 = 6."""
    q = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 1.0, 0.0]])
    k = np.array([[1.0, 5.0, 5.0, 5.0], [1.0, 1.0, 1.0, 1.0], [9.0, 3.0, 1.0, 9.0]])
    probe.agree(subject, q, k, want=6.0, why="dot products 1, 4, 7 (mean 4)")


def variance_pairs(subject: Subject, probe: Probe) -> None:
    """n numbers, their deviations from their own mean, divided by n."""
    for n, d in ((5, 3), (4, 4), (2, 7), (6, 1)):
        q, k = _paired(probe.rng, n, d)
        probe.agree(subject, q, k, why=f"{n} pairs, so {n} dot products")
    q, k = _paired(probe.rng, 7, 3, mean=5.0)
    probe.agree(subject, q, k, why="dot products far from 0 (deviations count from their mean)")
    q, k = _paired(probe.rng, 1, 4)
    probe.agree(subject, q, k, want=0.0, why="one pair, so nothing is spread")


def variance_scaled(subject: Subject, probe: Probe) -> None:
    """Dividing by √D divides the variance (the learner's own) by D; off is the default."""
    for d in (4, 9, 5):
        q, k = _paired(probe.rng, 3, d)
        raw = probe.call(subject, q, k, scaled=False).value
        if not isinstance(raw, float) or not np.isfinite(raw) or raw <= 0:
            probe.agree(subject, q, k, scaled=False, why="scaled=False")
        why = f"scaled=True at D = {d}, where yours without scale is {raw:.6g}"
        probe.agree(subject, q, k, scaled=True, want=raw / d, why=why)
        probe.agree(subject, q, k, want=raw, why="scaled left out, so False")


def variance_plain(subject: Subject, probe: Probe) -> None:
    """A Python float comes out, whatever came in; the arguments stay as they were (D = 1)."""
    q, k = _paired(probe.rng, 5, 1)
    probe.agree(subject, *(np.rint(3 * a).astype(int) for a in (q, k)), why="whole numbers")
    small = [a.astype(np.float32) for a in (q, k)]
    outcome = probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    if not isinstance(outcome.value, float):
        kind = type(outcome.value).__name__
        note = f"float32 inputs give a {kind}; expected a Python float. Wrap the result in float()."
        raise probe.miss(note, *small)
    agree_untouched(probe, subject, q, k, tolerance=FLOAT64)


VARIANCE = (
    Property("a hand-worked example: dot products 1, 4, 7", 1, variance_worked),
    Property("row i meets row i; spread about the mean, divided by n", 1, variance_pairs),
    Property("scaled divides the dot products by √D; not by default", 1, variance_scaled),
    Property("returns a Python float; arguments stay as they were", 1, variance_plain),
)


def variance_draws(rng: np.random.Generator) -> list[Call]:
    """n ≠ D and n = D, scaled and not, means far from 0."""
    return [
        Call(_paired(rng, 6, 3)),
        Call(_paired(rng, 4, 4)),
        Call(_paired(rng, 5, 9), {"scaled": True}),
        Call(_paired(rng, 7, 4, mean=5.0)),
        Call(_paired(rng, 4, 4), {"scaled": True}),
    ]
