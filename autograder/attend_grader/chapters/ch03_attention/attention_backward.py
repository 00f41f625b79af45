"""Exercise 03_attention/attention_backward: gradients of attention, written by hand.

The oracle is a numerical derivative of a forward pass written here, not our formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from attend_solutions import attention
from attend_solutions.attention import scaled_dot_product_attention, softmax
from attend_solutions.types import Array

from attend_grader.chapters.ch03_attention.shared import (
    PROMISES,
    distribution,
    falling,
    far_out,
    qkv,
)
from attend_grader.checks.compare import Miss, Tolerance
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip, Test
from attend_grader.checks.helpers import Cases, Fresh, agrees, gradient_by_hand, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject

Inputs = tuple[Array, Array, Array, Array]


def gradient_inputs(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> Inputs:
    """Random q, k, v and the gradient of the output: the arguments of a backward pass."""
    q, k, v = qkv(rng, t, s, d, d_v, lead)
    return q, k, v, normal(rng, *lead, t, d_v)


def loss(q: Any, k: Any, v: Any, grad_output: Any) -> Any:
    """A number whose gradient with respect to attention's output is ``grad_output``."""
    weights = distribution(q @ k.T / np.sqrt(q.shape[1]))
    return (weights @ v * grad_output).sum()


def small(rng: np.random.Generator) -> Iterator[Inputs]:
    """Sizes for numerical derivatives: oblong, T = S = D = D_v, T = 1, and D = D_v = 1."""
    for t, s, d, d_v in ((2, 4, 4, 2), (3, 3, 3, 3), (1, 3, 2, 2), (3, 2, 1, 1)):
        yield gradient_inputs(rng, t, s, d, d_v)


def values(rng: np.random.Generator) -> Fresh:
    """Calls of ordinary sizes."""
    for t, s, d, d_v in ((3, 5, 3, 2), (4, 4, 4, 4), (1, 2, 8, 3), (2, 3, 2, 1)):
        yield "", Call(gradient_inputs(rng, t, s, d, d_v))


def limits(keys: int = 24, growth: float = 1.5) -> Cases:
    """One key, large and tiny numbers, small weights on large values (see ``falling``)."""

    def cases(rng: np.random.Generator) -> Fresh:
        one = gradient_inputs(rng, 3, 1, 4, 2)
        yield "one key, whose weight is 1 whatever q and k are", Call(one)
        q, k, v, grad_output = gradient_inputs(rng, 3, 5, 4, 2)
        yield "scores of ±10,000", Call((100 * q, 100 * k, v, grad_output))
        yield "weights that are nearly equal", Call((1e-4 * q, k, v, grad_output))
        yield "values near 1,000", Call((q, k, v + 1000.0, grad_output))
        yield "gradients of some 1,000,000", Call((q, k, v, 1e6 * grad_output))
        why = f"{keys} keys, the smallest weight {0.8 * np.exp(1.5 - 1.5 * keys):.0e}"
        yield f"{why}, with the largest value", Call((*falling(keys, growth), grad_output))
        why = "scores of some 45,000 and −45,000, near each other"
        yield why, Call((*far_out(rng), grad_output[:2]))

    return cases


RELATIVE = Tolerance("float64, no absolute term", 1e-9, "as float64; all numbers are tiny")


def at_limits(cases: Cases) -> Test:
    """Agrees with the reference on cases, and on gradients so small that few digits are left.

    Those are compared with the largest of them only.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, call in cases(probe.rng):
            probe.agree(subject, *call.args, why=why)
        q, k, v, grad_output = gradient_inputs(probe.rng, 3, 5, 4, 2)
        why = "gradients of some 1e-12"
        probe.agree(subject, q, k, v, 1e-12 * grad_output, tolerance=RELATIVE, why=why)

    return test


def _memory(subject: Subject, probe: Probe) -> None:
    """One query and S keys need far fewer bytes than a table of S × S numbers.

    Counted peak bytes are the same on every machine. At 64 keys the answers here need 0.2 to 0.4
    of a table of float64s, with a Jacobian 4 of them; at 512 keys they need less than a table of
    single bytes.
    """
    why = "memory counts where grad_v is right"
    probe.agree(subject, *gradient_inputs(probe.rng, 4, 6, 3, 2), part=2, why=why)
    for keys, size, of in ((64, 8, "numbers"), (512, 1, "single bytes")):
        inputs = gradient_inputs(probe.rng, 1, keys, 2, 3)
        probe.call(subject, *inputs)  # whatever is loaded on first use is paid here
        peak = subject.run(inputs, measure=True).peak_bytes
        if peak >= size * keys**2:
            raise Miss(
                f"one query and {keys} keys took {peak / 1024:,.0f} KiB; a table of S × S {of} "
                f"alone is {size * keys**2 / 1024:,.0f} KiB. dZ needs each row's weighted "
                "mean of dP only: P * (dP − (P * dP).sum(axis=-1, keepdims=True)).",
                topic="memory",
            )


def draws(rng: np.random.Generator) -> list[Call]:
    """Lengths that are equal in one call and not in another; leading axes, large scores, ones."""
    q, k, v, grad_output = gradient_inputs(rng, 2, 3, 4, 2)
    sizes = ((3, 5, 4, 2), (4, 4, 4, 4), (1, 2, 3, 2), (3, 3, 2, 4), (2, 5, 3, 3), (2, 3, 3, 1))
    made = [Call(gradient_inputs(rng, *each)) for each in (*sizes, (4, 2, 1, 2))]
    stacked = Call(gradient_inputs(rng, 3, 4, 5, 2, (2,)))
    return [*made, stacked, Call((100 * q, 100 * k, v, grad_output))]


def with_jacobian(q, k, v, grad_output):  # noqa: D103 (what a learner is told is its slip's)
    _, weights = scaled_dot_product_attention(q, k, v)
    grad_v = np.swapaxes(weights, -1, -2) @ grad_output
    grad_weights = grad_output @ np.swapaxes(v, -1, -2)
    column, row = weights[..., :, None], weights[..., None, :]
    jacobian = column * np.eye(k.shape[-2]) - column * row
    grad_dots = (jacobian @ grad_weights[..., None])[..., 0] / np.sqrt(q.shape[-1])
    return grad_dots @ k, np.swapaxes(grad_dots, -1, -2) @ q, grad_v


ROOT = " / q.shape[-1] ** 0.5"
UNSCALED = "softmax(q @ np.swapaxes(k, -1, -2))"

SLIPS = (
    Slip(
        "forgot 1/√D",
        (ROOT, ""),
        "grad_q and grad_k are √D times too large. The scores were divided by √D on the way "
        "forward, so their gradient is divided by √D on the way back.",
    ),
    Slip(
        "weights from unscaled scores",
        ("_, weights = scaled_dot_product_attention(q, k, v)", f"weights = {UNSCALED}"),
        "These are the gradients of attention whose scores were not divided by √D. P must be the "
        "weights of the scaled scores, which scaled_dot_product_attention returns.",
    ),
    Slip(
        "forgot to subtract the row sum",
        ("(grad_weights - mean_grad)", "grad_weights"),
        "grad_q and grad_k are those of P ∘ dP. From dP its row's P-weighted sum is missing: "
        "dZ = P ∘ (dP − rowsum(P ∘ dP)), because raising one weight lowers the others.",
    ),
    Slip(
        "plain mean instead of weighted mean",
        ("(weights * grad_weights).sum(", "grad_weights.mean("),
        "The plain mean of dP is subtracted. It is the mean weighted by P: rowsum(P ∘ dP).",
    ),
    Slip(
        "lost the axis in the row sum",
        ("sum(axis=-1, keepdims=True)", "sum(axis=-1)"),
        "The row sum of P ∘ dP loses its axis, so that it lines up with the keys, which goes "
        "unnoticed where T = S. Keep it: sum(axis=-1, keepdims=True).",
    ),
    Slip(
        "P instead of Pᵀ in grad_v",
        ("grad_v = np.swapaxes(weights, -1, -2) @", "grad_v = weights @"),
        "grad_v is Pᵀ times dO; yours is P times dO, which only fits where T = S. A value "
        "collects from all queries: swap the last two axes of P.",
    ),
    Slip(
        "the output in place of its gradient",
        (
            "np.swapaxes(weights, -1, -2) @ grad_output",
            "np.swapaxes(weights, -1, -2) @ (weights @ v)",
        ),
        "grad_v is Pᵀ times attention's output. It is Pᵀ times the gradient of the loss with "
        "respect to that output: grad_output.",
    ),
    Slip(
        "clipped the gradients to ±1",
        (
            "return grad_q, grad_k, grad_v",
            "return tuple(np.clip(g, -1, 1) for g in (grad_q, grad_k, grad_v))",
        ),
        "No number of yours is beyond ±1: the gradients are clipped. Their sizes count too: return "
        "them as they are.",
    ),
    Slip(
        "right for single matrices only",
        (
            ("np.swapaxes(weights, -1, -2)", "weights.T"),
            ("np.swapaxes(v, -1, -2)", "v.T"),
            ("np.swapaxes(grad_dots, -1, -2)", "grad_dots.T"),
        ),
        "Single matrices come out right, stacks of them do not, as with `.T` or a loop over the "
        "first axis. Swap the last two axes only: np.swapaxes(x, -1, -2).",
    ),
    Slip(
        "S × S numbers for a query",
        with_jacobian,
        "A query needs S × S numbers, as many as softmax's Jacobian has. Its product with dP is "
        "short: P ∘ (dP − rowsum(P ∘ dP)).",
    ),
)


def through_output(q, k, v, grad_output):
    """The row sum from the output: rowsum(P ∘ dP) = rowsum(O ∘ dO), as FlashAttention does."""
    output, weights = scaled_dot_product_attention(q, k, v)
    delta = (output * grad_output).sum(-1, keepdims=True)
    grad_scores = weights * (grad_output @ v.swapaxes(-1, -2) - delta)
    scale = 1 / math.sqrt(q.shape[-1])
    grad_k = grad_scores.swapaxes(-1, -2) @ (q * scale)
    return grad_scores @ (k * scale), grad_k, weights.swapaxes(-1, -2) @ grad_output


def einsum(q, k, v, grad_output):
    """Calls softmax only; einsum for every product."""
    weights = softmax(np.einsum("...td,...sd->...ts", q, k) / np.sqrt(q.shape[-1]))
    grad_weights = np.einsum("...tv,...sv->...ts", grad_output, v)
    grad_scores = weights * grad_weights
    grad_scores = grad_scores - weights * np.einsum("...ts->...t", grad_scores)[..., None]
    grad_scores = grad_scores / np.sqrt(q.shape[-1])
    return (
        np.einsum("...ts,...sd->...td", grad_scores, k),
        np.einsum("...ts,...td->...sd", grad_scores, q),
        np.einsum("...ts,...tv->...sv", weights, grad_output),
    )


EXERCISE = Exercise(
    chapter="03_attention",
    title="Attention backwards",
    goal="Carry a gradient back through attention by hand, without ever building a Jacobian.",
    reference=attention.attention_backward,
    contract=replace(
        PROMISES,
        forbids=("softmax_jacobian",),
        says=(
            "With one query, no array of S × S numbers. No finite differences, which are not exact "
            "enough.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: three equal weights",
            np.array([[2.0] * 4, [4.0] * 4]),
            np.eye(4)[:3],
            np.array([[0.0], [6.0], [3.0]]),
            np.array([[1.0], [2.0]]),
            want=(
                np.array([[-0.5, 0.5, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0]]),
                np.array([[-5.0] * 4, [5.0] * 4, [0.0] * 4]),
                np.ones((3, 1)),
            ),
            why="every weight is 1/3",
        ),
        agrees("grad_v is right", values, part=2, repeat=1),
        gradient_by_hand("grad_q agrees with a numerical derivative", 0, small, loss),
        gradient_by_hand("grad_k agrees with a numerical derivative", 1, small, loss),
        Property(
            "one key only; huge scores and values; huge and tiny gradients; small weights",
            1,
            at_limits(limits()),
        ),
        Property("one query needs no array of S × S numbers", 1, _memory),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(through_output, einsum),
    hints=(
        "Go through the forward pass from the end to the start: output, weights, scaled scores, "
        "dot products. Check at each step that the gradient has the shape of what it is the "
        "gradient of.",
        "You need P again (your own forward function returns it). Then five lines, as in "
        "section 7: dV, dP, dZ, dQ, dK. In dZ the row sum runs over the keys and keeps its axis. A "
        "transpose in the equations swaps the last two axes only.",
        "dV is Pᵀ times dO; dP is dO times Vᵀ. For dZ take from dP its own P-weighted mean over "
        "the last axis (keepdims), then multiply by P elementwise. Divide by √D once, because "
        "the scores were divided by it. dQ is that times K; dK is its transpose times Q. Return "
        "them in the order q, k, v.",
    ),
    minutes=20,
    difficulty=4,
    importance=5,
    uses=("softmax", "attention_scores", "scaled_dot_product_attention"),
    results=("grad_q", "grad_k", "grad_v"),
)
