"""Exercise 24_mamba/selective_scan: the recurrence, one step after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba

from attend_grader.chapters.ch24_mamba import READY_MADE
from attend_grader.chapters.ch24_mamba.shared import scanned
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, *sizes: int, going_on: bool = False) -> Call:
    x, delta, a, b, c = scanned(rng, *sizes)
    batch, _, channels, state = sizes
    more = (normal(rng, batch, channels, state),) if going_on else ()
    return Call((x, delta, a, b, c, normal(rng, channels), *more))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 5, 3, 4), (3, 3, 3, 3), (1, 7, 2, 1), (2, 1, 3, 2)):
        yield "", _case(rng, *sizes)
    x, delta, a, *others = _case(rng, 2, 6, 3, 2).args
    yield "rates near −200 and Δ near 0.005", Call((x, 0.005 * delta, 200 * a, *others))


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 4, 3, 2), (1, 1, 2, 3)):
        yield "a state is given", _case(rng, *sizes, going_on=True)


def _forgets(rng: np.random.Generator):
    """With Δ = 0 nothing is written; with an enormous one only the present is left."""
    x, delta, a, b, c, skip = _case(rng, 2, 4, 3, 2).args
    h = normal(rng, 2, 3, 2)
    kept = (h[:, None] * c[:, :, None]).sum(-1) + skip * x
    yield "Δ = 0: the state stays as it was given", (x, 0 * delta, a, b, c, skip, h), (kept, h)
    args = _resets(rng).args
    yield "three tokens have Δ = 50", args, mamba.selective_scan(*args)
    x, delta, a, b, c, skip = _case(rng, 2, 1, 3, 2).args
    args = (x, 0 * delta + 50, a - 1, b, c, skip, 1e9 * h)
    yield "a state near 10⁹, then Δ = 50", args, mamba.selective_scan(*args)


def _resets(rng: np.random.Generator) -> Call:
    """Long steps, after which decays multiply to 0; sums of Δ and of Δ a have no rounding."""
    x, _, a, b, c, skip = _case(rng, 2, 9, 3, 2).args
    delta = torch.from_numpy(rng.integers(1, 9, x.shape) / 4).float()
    delta[:, [2, 4, 7]] = 50.0
    a = -torch.from_numpy(rng.integers(4, 9, a.shape) / 4).float()
    return Call((x, delta, a, b, c, skip))


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, all the same, one step, a state given; long steps after a state of 0."""
    return [
        _case(rng, 2, 5, 3, 4),
        _case(rng, 3, 3, 3, 3),
        _case(rng, 2, 1, 3, 2),
        _case(rng, 2, 4, 3, 2, going_on=True),
        Call((*_resets(rng).args, torch.zeros(2, 3, 2))),
    ]


SLIPS = (
    Slip(
        "reads before it writes",
        (
            "h = keep * h + add\n        read.append((h * out[:, None]).sum(-1))",
            "read.append((h * out[:, None]).sum(-1))\n        h = keep * h + add",
        ),
        "y_t is read from the state of the step before, so what token t writes is not in it. "
        "Update the state first, then read.",
    ),
    Slip(
        "x is not written",
        ("written = gain * x[..., None]", "written = gain"),
        "What is written does not depend on x: the gain is for an input of 1. Multiply by x_t.",
    ),
    Slip(
        "the decay hits the new input too",
        ("keep * h + add", "keep * (h + add)"),
        "The new input is faded at once, together with the old state. Only the old state should "
        "be: decay ∘ h + gain x.",
    ),
    Slip(
        "nothing is forgotten",
        ("keep * h + add", "h + add"),
        "The state only adds up what is written; the decay is missing.",
    ),
    Slip(
        "no skip",
        (" + skip * x", ""),
        "The skip is missing: add skip x_t to c_t · h_t.",
    ),
    Slip(
        "a state that was given is not used",
        ("torch.zeros_like(written[:, 0]) if state is None else state", "0 * written[:, 0]"),
        "The scan starts from zeros although a state is given. A long text is read in parts only "
        "if the next part goes on from the last state.",
    ),
    Slip(
        "the exact gain",
        (
            "decay, gain = discretize_selective(delta, a, b)",
            "decay, _ = discretize_selective(delta, a, b)\n"
            "    gain = (decay - 1) / a * b[:, :, None]",
        ),
        "What is written takes the exact gain of a held input, (exp(Δ a) − 1) / a · b, as in "
        "chapter 23. Take the gain Δ b, which discretize_selective gives.",
    ),
    Slip(
        "one decay for all steps",
        ("zip(decay.unbind(1)", "zip([decay[:, 0]] * decay.shape[1]"),
        "Every step fades the state by the decay of the first token. Take each token's own: "
        "decay_t.",
    ),
    Slip(
        "a mean over the state",
        (".sum(-1))", ".mean(-1))"),
        "What is read is N times too small, as by a mean over the state. Read by a dot product "
        "with c: a sum over N.",
    ),
    Slip(
        "reads with b",
        ("c.unbind(1)", "b.unbind(1)"),
        "y is read with b, by which the token writes. Read by a dot product with c.",
    ),
)


def with_einsum(x, delta, a, b, c, skip, state=None):
    """Index by index, one einsum a step."""
    h = x.new_zeros(len(x), *a.shape) if state is None else state.clone()
    rows = []
    for t in range(x.shape[1]):
        step = delta[:, t]
        wrote = torch.einsum("be,bn->ben", step * x[:, t], b[:, t])
        h = torch.exp(step[:, :, None] * a) * h + wrote
        rows.append(torch.einsum("ben,bn->be", h, c[:, t]) + skip * x[:, t])
    return torch.stack(rows, 1), h


def as_attention(x, delta, a, b, c, skip, state=None):
    """No loop: every step looks at every earlier one, with the decay in between."""
    time = delta.cumsum(1)
    between = (time[:, :, None] - time[:, None]).clamp(min=0)  # (B, T, S, E)
    causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()[..., None, None]
    decay = torch.exp(between[..., None] * a) * causal
    written = (delta * x)[..., None] * b[:, :, None]
    h = torch.einsum("btsen,bsen->bten", decay, written)
    if state is not None:
        h = h + torch.exp(time[..., None] * a) * state[:, None]
    return torch.einsum("bten,btn->bte", h, c) + skip * x, h[:, -1]


EXERCISE = Exercise(
    chapter="24_mamba",
    title="The selective scan",
    goal="Run the recurrence with a step size of each token's own choice.",
    reference=mamba.selective_scan,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        ranges={"delta": (0, 50), "a": AS_DRAWN},
        gradients=("x", "delta", "a", "b", "c", "skip", "state"),
        forbids=READY_MADE,
        says=(
            "Steps Δ from 0 to 50 are safe, though decays may come out as 0. Differences of "
            "running sums are good enough.",
        ),
    ),
    properties=(
        worked(
            "the worked example: y = 1, 3.5, 1.75",
            torch.tensor([[[1.0], [2.0], [0.0]]]),
            torch.full((1, 3, 1), math.log(2.0)),
            torch.tensor([[-1.0]]),
            torch.tensor([[[1.0], [1.5], [1.0]]]) / math.log(2.0),
            torch.ones(1, 3, 1),
            torch.zeros(1),
            want=(torch.tensor([[[1.0], [3.5], [1.75]]]), torch.tensor([[[1.75]]])),
            tolerance=FLOAT32,
        ),
        agrees("y", _usual, part=0, tolerance=FLOAT32),
        agrees("the last state", _usual, part=1, tolerance=FLOAT32),
        agrees("goes on from a state that is given", _goes_on, tolerance=FLOAT32),
        known("Δ = 0 keeps everything, Δ = 50 next to nothing", _forgets, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"einsum": with_einsum, "as attention": as_attention},
    hints=(
        "What does one step do with the state? Which of decay and gain belongs to it?",
        "discretize_selective gives the decay and the gain of all steps at once. Multiply the gain "
        "by x first: then every step is one multiplication and one addition.",
        "Begin with the given state or zeros (B, E, N). For each t: h = decay_t * h + gain_t * "
        "x_t; keep (h * c_t).sum(-1), where c_t needs an axis for the channels. Stack along "
        "axis 1 and add skip * x.",
    ),
    minutes=15,
    difficulty=3,
    importance=5,
    uses=("discretize_selective",),
    results=("y", "state"),
)
