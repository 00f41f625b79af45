"""Exercise 03_attention/repaired_backward: find the one wrong line of a backward pass.

The broken function stands in the notebook. It subtracts the plain mean of dP, which is right only
where all weights of a query are equal. The oracle is the numerical derivative that
``attention_backward`` is checked against.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from attend_solutions import attention

from attend_grader.chapters.ch03_attention.attention_backward import (
    UNSCALED,
    at_limits,
    einsum,
    gradient_inputs,
    limits,
    loss,
    small,
    through_output,
    values,
)
from attend_grader.chapters.ch03_attention.shared import PROMISES
from attend_grader.checks.exercise import Call, Exercise, Property, Slip
from attend_grader.checks.helpers import agrees, gradient_by_hand


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong and square, leading axes, large scores, lengths of 1."""
    q, k, v, grad_output = gradient_inputs(rng, 2, 3, 4, 2)
    made = [gradient_inputs(rng, *each) for each in ((3, 5, 4, 2), (4, 4, 4, 4))]
    made += [gradient_inputs(rng, 3, 4, 5, 2, (2,)), (4 * q, 4 * k, v, grad_output)]
    sizes = ((2, 3, 3, 1), (3, 3, 2, 4), (2, 5, 3, 3), (1, 4, 2, 3), (3, 2, 1, 2))
    return [Call(each) for each in (*made, *(gradient_inputs(rng, *size) for size in sizes))]


DELTA = "(result * grad_output).sum(axis=-1, keepdims=True)"
OUTWARD = "(weights * grad_weights)"
LAST = "return grad_q, grad_k, np.swapaxes(weights, -1, -2) @ grad_output"

SLIPS = (
    Slip(
        "not repaired",
        (DELTA, "grad_weights.mean(axis=-1, keepdims=True)"),
        "This still subtracts the plain mean of dP, right where all weights of a query are "
        "equal, but not in general. The softmax asks for the mean weighted by P.",
    ),
    Slip(
        "weighted, but not summed",
        ("(grad_weights - mean_grad)", "(grad_weights - weights * grad_weights)"),
        "P ∘ dP itself is subtracted from dP. Take its row sum first: one number for each query, "
        "(P * dP).sum(axis=-1, keepdims=True).",
    ),
    Slip(
        "subtracts nothing",
        ("(grad_weights - mean_grad)", "grad_weights"),
        "Nothing is subtracted from dP. Each row of dZ must sum to 0, because raising all scores "
        "of a query together changes no weight.",
    ),
    Slip(
        "weighted by P, then divided by S",
        (DELTA, f"{OUTWARD}.mean(axis=-1, keepdims=True)"),
        "P ∘ dP is averaged over the keys, so it is divided by S as well. The weights already sum "
        "to 1: take the sum.",
    ),
    Slip(
        "plain sum",
        (DELTA, "grad_weights.sum(axis=-1, keepdims=True)"),
        "The plain sum of dP is subtracted. It is the sum of P ∘ dP, the mean weighted by P.",
    ),
    Slip(
        "mean over the queries",
        (DELTA, f"{OUTWARD}.sum(axis=-2, keepdims=True)"),
        "The weighted sum runs over the queries. Each query has a softmax of its own, so the sum "
        "runs over its keys: axis=-1.",
    ),
    Slip(
        "subtracted after multiplying by P",
        ("weights * (grad_weights - mean_grad)", "(weights * grad_weights - mean_grad)"),
        "The mean is subtracted from P ∘ dP. It is subtracted from dP, and the difference is "
        "multiplied by P.",
    ),
    Slip(
        "weights from unscaled scores",
        (
            "result, weights = scaled_dot_product_attention(q, k, v)",
            f"weights = {UNSCALED}\n    result = weights @ v",
        ),
        "These are the gradients of attention whose scores were not divided by √D on the way "
        "forward. That line of the colleague's was right: keep scaled_dot_product_attention.",
    ),
    Slip(
        "clipped the gradients to ±1",
        (
            LAST,
            f"{LAST.replace('return ', 'found = ')}\n"
            "    return tuple(np.clip(g, -1, 1) for g in found)",
        ),
        "No number of yours is beyond ±1: the gradients are clipped. Their sizes count too: return "
        "them as they are.",
    ),
)


EXERCISE = Exercise(
    chapter="03_attention",
    title="Repair a backward pass",
    goal="Find the one wrong line of a function whose own test passes, and repair it.",
    reference=attention.repaired_backward,
    contract=replace(
        PROMISES,
        forbids=("attention_backward", "softmax_jacobian"),
        says=("No finite differences, which are not exact enough.",),
    ),
    properties=(
        agrees("grad_v is right, as it was", values, part=2, repeat=1),
        gradient_by_hand("grad_q agrees with a numerical derivative", 0, small, loss),
        gradient_by_hand("grad_k agrees with a numerical derivative", 1, small, loss),
        Property(
            "one key only; huge scores and values; huge and tiny gradients; small weights",
            2,
            # at 1.5, adding a plain mean and taking it away again costs digits
            at_limits(limits(21, growth=0.7)),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(through_output, einsum),
    hints=(
        "Its test uses equal keys. Try queries and keys of your own, compare with your "
        "attention_backward, and see which of the three gradients differ.",
        "grad_v agrees, grad_q and grad_k do not, so the mistake is between dP and dZ. Print "
        "dz.sum(axis=-1) for a query whose weights are not equal: it should be 0.",
        "The mean that is taken from dP must be weighted by the query's own weights P.",
    ),
    minutes=5,
    difficulty=2,
    importance=4,
    uses=("softmax", "attention_scores", "scaled_dot_product_attention"),
    results=("grad_q", "grad_k", "grad_v"),
)
