"""Chapter 24: tensors that several exercises draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.compare import Miss
from attend_grader.checks.probe import Probe
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

NEAR = 2.0**-7
"""A raw step size beside 0."""


def steps(rng: np.random.Generator, *shape: int) -> Tensor:
    """Step sizes from 0.05 to 2, two decimals."""
    return torch.from_numpy(rng.uniform(0.05, 2.0, shape).round(2)).float()


def rates(rng: np.random.Generator, channels: int, state: int) -> Tensor:
    """Negative rates of decay (E, N), two decimals."""
    return -torch.from_numpy(rng.uniform(0.1, 1.5, (channels, state)).round(2)).float()


def scanned(
    rng: np.random.Generator, batch: int, tokens: int, channels: int, state: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """x, Δ (both positive or any), a, b and c of one scan."""
    return (
        normal(rng, batch, tokens, channels),
        steps(rng, batch, tokens, channels),
        rates(rng, channels, state),
        normal(rng, batch, tokens, state),
        normal(rng, batch, tokens, state),
    )


def far_block(
    parameters: Mapping[str, Tensor], gates: float = 300, silu: float = -150
) -> dict[str, Tensor]:
    """A block's parameters with far gates and, in one channel each, a SiLU of a far number, a step
    near 100 and small steps at a fast rate.

    Args:
        parameters: usual ones.
        gates: how many times as large the gates are.
        silu: what the SiLU of one channel is given.
    """
    far = {name: value.clone() for name, value in parameters.items()}
    far["input.weight"].chunk(2)[1].mul_(gates)  # of z
    far["taps_bias"][0] = silu
    far["delta_bias"][1:3] = torch.tensor([100, -5.3])
    far["delta"][1:3] /= 10
    far["a_log"][2] = 5.3
    return far


def flows_at_zero(
    subject: Subject | Callable[[float], tuple[Subject, Probe]],
    probe: Probe,
    args: Callable[[float], tuple[Any, ...]],
    bias: int | str,
) -> None:
    """Where the raw step size is exactly 0, softplus has a slope: gradients must not end there.

    What cuts them beside 0 too loses points elsewhere.

    Args:
        subject: the candidate; of a class, what builds an instance for a raw step size.
        probe: for the reference.
        args: of a call with this raw step size.
        bias: position, or name of the parameter, whose gradient is looked at.

    Raises:
        Miss: the gradient is 0 at 0, and beside it is not.
    """
    found = []
    for raw in (0.0, NEAR):
        on, at = (subject, probe) if isinstance(subject, Subject) else subject(raw)
        value = at.reference(*args(raw))
        parts = value if isinstance(value, tuple) else (value,)
        wanted: dict[str, Any] = {"wrt": [bias]} if isinstance(bias, int) else {"wrt": []}
        wanted["parameters"] = [bias] if isinstance(bias, str) else []
        outcome = on.gradients(args(raw), cotangents=[torch.ones_like(p) for p in parts], **wanted)
        found.append((outcome.gradients or {}).get(bias))
        given = at.given(args(0.0), {})
    zero, near = found
    if near is not None and (zero is None or bool(((zero == 0) & (near != 0)).any())):
        text = "where the raw step size is exactly 0, no gradient comes through its softplus."
        cause = "softplus has the slope 1/2 there, relu(r) and |r| have none."
        raise Miss(text, cause=cause, topic="gradient at 0").on(given, "")
