"""Chapter 03, backwards: what must hold of the softmax's Jacobian and of attention's gradients.

The oracle for both is a numerical derivative of a forward pass written here, not our formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.chapters.ch03_attention.props_forward import qkv
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import (
    NUMERICAL,
    agree_untouched,
    derivative,
    expect_growth,
    normal,
)
from attend_grader.checks.subject import Subject

# softmax_jacobian


def _distribution(scores: Array) -> Array:
    """Softmax along the last axis of real or complex scores."""
    shares = np.exp(scores - np.real(scores).max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def _weights(rng: np.random.Generator, *shape: int) -> Array:
    """Random distributions of three decimals along the last axis."""
    weights = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]).round(3)
    rest = np.where(weights == weights.max(axis=-1, keepdims=True), 1, 0)
    rest = rest * (np.cumsum(rest, axis=-1) == 1)  # the first of the largest takes up the rest
    return (weights + rest * (1 - weights.sum(axis=-1, keepdims=True))).round(3)


def _row_sums(jacobian: Array) -> str:
    worst = float(np.abs(jacobian.sum(axis=-1)).max())
    if worst < 1e-6 or not np.isfinite(worst):
        return ""
    return (
        f"A row of yours sums to {worst:.4g}; raising all scores alike changes no weight, so each "
        "row must sum to 0."
    )


def jacobian_worked(subject: Subject, probe: Probe) -> None:
    """p = (0.2, 0.3, 0.5): 0.2 · 0.8 on the diagonal, −0.2 · 0.3 beside it, …"""
    want = np.array([[0.16, -0.06, -0.10], [-0.06, 0.21, -0.15], [-0.10, -0.15, 0.25]])
    probe.agree(subject, np.array([0.2, 0.3, 0.5]), want=want)


def jacobian_limits(subject: Subject, probe: Probe) -> None:
    """All weight on one key: nothing moves. Equal weights: (identity − 1/S) / S."""
    want = (np.eye(4) - 0.25) / 4
    probe.agree(subject, np.full(4, 0.25), want=want, why="equal weights")
    sure = np.eye(5)[2]
    why = "all weight on one key, so no weight moves"
    probe.agree(subject, sure, want=np.zeros((5, 5)), why=why)
    probe.agree(subject, np.ones(1), want=np.zeros((1, 1)), why="one key only")


def jacobian_invariant(subject: Subject, probe: Probe) -> None:
    """Rows sum to 0, on both sides of the diagonal alike."""
    for count in (3, 5, 8):
        probe.agree(subject, _weights(probe.rng, count), clue=_row_sums)


def jacobian_numerical(subject: Subject, probe: Probe) -> None:
    """Entry (i, j): how fast weight i moves when score j does."""
    for _ in probe.repeat(1, 4):
        scores = 2 * normal(probe.rng, 4)
        want = derivative(_distribution, scores)
        why = "compared with a numerical derivative of softmax"
        probe.agree(subject, _distribution(scores), want=want, tolerance=NUMERICAL, why=why)


def jacobian_leading(subject: Subject, probe: Probe) -> None:
    """One matrix for each distribution."""
    for shape in ((2, 4), (4, 4), (2, 1, 3), (2, 3, 2, 2)):
        why = f"{len(shape) - 1} leading {'axis' if len(shape) == 2 else 'axes'}"
        probe.agree(subject, _weights(probe.rng, *shape), why=why)


def jacobian_awkward(subject: Subject, probe: Probe) -> None:
    """float32, views, and the argument stays as it was."""
    weights = _weights(probe.rng, 4)
    probe.agree(subject, weights.astype(np.float32), tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, weights)


JACOBIAN = (
    Property("a hand-worked example: p = (0.2, 0.3, 0.5)", 1, jacobian_worked),
    Property("equal weights; all weight on one key", 1, jacobian_limits),
    Property("rows sum to 0, as raising all scores changes nothing", 1, jacobian_invariant),
    Property("agrees with a numerical derivative of softmax", 1, jacobian_numerical),
    Property("any number of leading axes", 1, jacobian_leading),
    Property("float32 and views work; the argument stays as it was", 1, jacobian_awkward),
)


def jacobian_draws(rng: np.random.Generator) -> list[Call]:
    """One distribution, several, as many as places, more axes, a sharp one."""
    return [
        Call((_weights(rng, 4),)),
        Call((_weights(rng, 3, 4),)),
        Call((_weights(rng, 3, 3),)),
        Call((_weights(rng, 2, 3, 2),)),
        Call((_distribution(30 * normal(rng, 5)),)),
    ]


# attention_backward

Inputs = tuple[Array, Array, Array, Array]


def _inputs(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> Inputs:
    q, k, v = qkv(rng, t, s, d, d_v, lead)
    return q, k, v, normal(rng, *lead, t, d_v)


def _loss(q: Any, k: Any, v: Any, grad_output: Array) -> Any:
    """A number whose gradient with respect to attention's output is ``grad_output``."""
    weights = _distribution(q @ k.T / np.sqrt(q.shape[1]))
    return (weights @ v * grad_output).sum()


def backward_worked(subject: Subject, probe: Probe) -> None:
    """Three equal weights, so dV = 1/3 · (1 + 2), and dS = 1/3 · (dP − mean)."""
    q = np.array([[2.0] * 4, [4.0] * 4])
    k = np.eye(4)[:3]
    v = np.array([[0.0], [6.0], [3.0]])
    grad_q = np.array([[-0.5, 0.5, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0]])
    grad_k = np.array([[-5.0] * 4, [5.0] * 4, [0.0] * 4])
    want = (grad_q, grad_k, np.ones((3, 1)))
    why = "every weight is 1/3"
    probe.agree(subject, q, k, v, np.array([[1.0], [2.0]]), want=want, why=why)


def backward_value(subject: Subject, probe: Probe) -> None:
    """dV = Pᵀ dO."""
    for t, s, d, d_v in ((3, 5, 3, 2), (4, 4, 4, 4), (1, 2, 8, 3)):
        probe.agree(subject, *_inputs(probe.rng, t, s, d, d_v), part=2)


def _numerical(position: int) -> Callable[[Subject, Probe], None]:
    """A test of the gradient with respect to the argument at ``position``."""

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, 3):
            for t, s, d, d_v in ((2, 4, 4, 2), (3, 3, 3, 3)):
                inputs = _inputs(probe.rng, t, s, d, d_v)

                def loss(moved: Array, inputs: Inputs = inputs) -> Array:
                    q, k, v = (moved if i == position else a for i, a in enumerate(inputs[:3]))
                    return _loss(q, k, v, inputs[3])

                want: list[Any] = list(probe.reference(*inputs))
                want[position] = derivative(loss, inputs[position])
                why = "compared with a numerical derivative of attention"
                probe.agree(
                    subject,
                    *inputs,
                    want=tuple(want),
                    part=position,
                    tolerance=NUMERICAL,
                    why=why,
                )

    return test


def backward_one_key(subject: Subject, probe: Probe) -> None:
    """One key always has the weight 1: q and k have no influence."""
    inputs = _inputs(probe.rng, 3, 1, 4, 2)
    want = (np.zeros((3, 4)), np.zeros((1, 4)), inputs[3].sum(axis=0, keepdims=True))
    why = "one key, whose weight is 1 whatever q and k are"
    probe.agree(subject, *inputs, want=want, why=why)


def backward_shift(subject: Subject, probe: Probe) -> None:
    """Moving all keys alike adds one number to a query's scores: no weight moves (D = 1)."""

    def clue(grad_k: Array) -> str:
        worst = float(np.abs(grad_k.sum(axis=-2)).max())
        if worst < 1e-9 * float(np.abs(grad_k).max()) or not np.isfinite(worst):
            return ""
        return (
            f"Over the keys, yours sums to {worst:.4g} instead of 0: each row of dS must sum to 0. "
            "Was the row's mean gradient subtracted?"
        )

    for t, s in ((3, 5), (4, 4)):
        inputs = _inputs(probe.rng, t, s, 1, 2)
        why = "moving all keys by the same vector changes no weight"
        probe.agree(subject, *inputs, part=1, why=why, clue=clue)


def backward_leading(subject: Subject, probe: Probe) -> None:
    """Each leading index is a problem of its own (D = 1: no scale)."""
    for lead in ((2,), (2, 1, 3)):
        why = f"{len(lead)} leading {'axis' if len(lead) == 1 else 'axes'}"
        probe.agree(subject, *_inputs(probe.rng, 3, 4, 1, 2, lead), why=why)


def backward_awkward(subject: Subject, probe: Probe) -> None:
    """Huge scores, whole numbers, float32, views; and the arguments stay as they were (D = 1)."""
    inputs = _inputs(probe.rng, 3, 5, 1, 2)
    q, k, v, grad_output = inputs
    probe.agree(subject, 100 * q, 100 * k, v, grad_output, why="scores of ±10,000")
    whole = [probe.rng.integers(-2, 3, a.shape) for a in inputs]
    probe.agree(subject, *whole, why="whole numbers")
    small = [a.astype(np.float32) for a in inputs]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, *inputs)


def backward_memory(subject: Subject, probe: Probe) -> None:
    """From 64 to 256 keys, what is needed per query may grow 4-fold, not 16-fold."""
    why = "memory counts for right values only (here D = 1)"
    probe.agree(subject, *_inputs(probe.rng, 4, 6, 1, 2), part=0, why=why)
    state = int(probe.rng.integers(2**31))

    def make(keys: int) -> Inputs:
        return _inputs(np.random.default_rng(state), 4, keys, 2, 3)

    advice = (
        "Something of S × S numbers is built. dS needs each row's weighted mean of dP only: "
        "P * (dP − (P * dP).sum(axis=-1, keepdims=True))."
    )
    expect_growth(
        subject, make, sizes=(64, 256), at_most=8, cost="peak_bytes", of="keys", advice=advice
    )


BACKWARD = (
    Property("a hand-worked example: three equal weights", 1, backward_worked),
    Property("grad_v is right", 1, backward_value),
    Property("grad_q agrees with a numerical derivative", 1, _numerical(0)),
    Property("grad_k agrees with a numerical derivative", 1, _numerical(1)),
    Property("with one key, q and k have no influence", 1, backward_one_key),
    Property("moving all keys alike changes nothing", 1, backward_shift),
    Property("any number of leading axes", 1, backward_leading),
    Property("huge scores, integers, views; arguments stay as they were", 1, backward_awkward),
    Property("memory grows with the number of keys, not with its square", 1, backward_memory),
)


def backward_draws(rng: np.random.Generator) -> list[Call]:
    """Oblong and square, leading axes, large scores."""
    q, k, v, grad_output = _inputs(rng, 2, 3, 4, 2)
    return [
        Call(_inputs(rng, 3, 5, 4, 2)),
        Call(_inputs(rng, 4, 4, 4, 4)),
        Call(_inputs(rng, 3, 4, 5, 2, (2,))),
        Call((10 * q, 10 * k, v, grad_output)),
    ]
