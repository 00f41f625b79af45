"""Exercise 24_mamba/selective_parameters: step size, input and output vectors from each token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba
from torch import Tensor
from torch.nn import functional

from attend_grader.chapters.ch24_mamba import READY_MADE
from attend_grader.chapters.ch24_mamba.shared import flows_at_zero
from attend_grader.checks.compare import FLOAT32, Tolerance
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, batch: int, tokens: int, e: int, n: int, r: int) -> Call:
    return Call(
        (
            normal(rng, batch, tokens, e),
            normal(rng, r + 2 * n, e),
            normal(rng, e, r),
            normal(rng, e),
        )
    )


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 3, 4, 2, 3), (1, 5, 6, 3, 1), (3, 2, 4, 4, 4)):
        yield "", _case(rng, *sizes)


def _far(rng: np.random.Generator, raw: float, sizes: tuple[int, ...] = (2, 3, 4, 2, 3)) -> Call:
    x, select, delta, bias = _case(rng, *sizes).args
    return Call((x, select, delta if raw > 0 else 0 * delta, bias + raw))


def _extreme(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "raw step sizes near 200, where exp overflows", _far(rng, 200)
    for raw in (-20, -60):
        yield f"raw step sizes near −{-raw}, so Δ is near e^−{-raw}", _far(rng, raw)


def draws(rng: np.random.Generator) -> list[Call]:
    """Ranks below, at and above N, each with one token and with more; large raw step sizes."""
    more = ((2, 3, 4, 2, 3), (1, 5, 6, 3, 1), (3, 2, 4, 4, 4))
    one = ((2, 1, 3, 1, 2), (1, 1, 4, 3, 1), (2, 1, 5, 3, 3))
    return [*(_case(rng, *sizes) for sizes in (*more, *one)), _far(rng, 200, (2, 3, 5, 1, 3))]


RELATIVE = Tolerance(
    "float32 near 0",
    5e-5,
    "a raw number near 60 is rounded by 4e-6, which moves its exp by as much of itself; nothing "
    "absolute is allowed, as all of the answer is near 0",
)

EXTREME = agrees("raw step sizes from −60 to 200", _extreme, part=0, tolerance=RELATIVE)


def _all_raw(subject: Subject, probe: Probe) -> None:
    """The far ones, and 0 exactly, as in the worked example."""
    EXTREME.test(subject, probe)
    x, select, delta, bias = _case(probe.rng, 2, 3, 4, 2, 3).args
    flows_at_zero(subject, probe, lambda raw: (x, select, 0 * delta, 0 * bias + raw), 3)


SLIPS = (
    Slip(
        "no softplus",
        ("functional.softplus(low @ w_delta.T + bias_delta)", "low @ w_delta.T + bias_delta"),
        "Δ can be negative here: it is the raw number. Then exp(Δ a) is above 1, and the state "
        "can grow without limit. Put Δ through softplus.",
    ),
    Slip(
        "exp for softplus",
        ("functional.softplus(low", "torch.exp(low"),
        "Δ is exp of the raw number. That is positive too, but Mamba takes softplus, ln(1 + exp), "
        "which for large numbers is nearly the number itself and not its exponential.",
    ),
    Slip(
        "softplus before the bias",
        (
            "functional.softplus(low @ w_delta.T + bias_delta)",
            "functional.softplus(low @ w_delta.T) + bias_delta",
        ),
        "The bias is added after the softplus, so Δ can be negative. It belongs inside.",
    ),
    Slip(
        "no bias",
        (" + bias_delta", ""),
        "The bias of Δ is missing. It says how long the step of a channel is before any token "
        "changes it.",
    ),
    Slip(
        "b and c exchanged",
        ("low, b, c =", "low, c, b ="),
        "b and c are exchanged. After the R numbers for Δ take the N of b, then the N of c, and "
        "return Δ, b, c.",
    ),
    Slip(
        "Δ last",
        (
            "low, b, c = (x @ w_select.T).split([rank, state, state]",
            "b, c, low = (x @ w_select.T).split([state, state, rank]",
        ),
        "The three parts are cut as if the R numbers for Δ came last. Take them first, then b, "
        "then c.",
    ),
    Slip(
        "softplus on b and c",
        ("bias_delta), b, c", "bias_delta), functional.softplus(b), functional.softplus(c)"),
        "b and c are positive, as if they went through softplus too. Only Δ should: what is "
        "written and read may be negative.",
    ),
    Slip(
        "relu for softplus",
        ("functional.softplus(low", "functional.relu(low"),
        "Δ is 0 wherever the raw number is negative, as with a relu, through which no gradient "
        "comes there. Take softplus, which is positive everywhere.",
    ),
    Slip(
        "sigmoid for softplus",
        ("functional.softplus(low", "torch.sigmoid(low"),
        "Δ never exceeds 1: that is a sigmoid. A step may be as long as it likes: softplus.",
    ),
    Slip(
        "cut as by chunk(3)",
        (".split([rank, state, state], dim=-1)", ".chunk(3, dim=-1)"),
        "The R + 2N numbers are cut as by `chunk(3)`, which is right only where R = N. Cut them "
        "into R, N and N: `split` takes a list of lengths.",
    ),
)


def with_linear(x, w_select, w_delta, bias_delta):
    """torch's linear layers, slices, and softplus as a log of a sum."""
    rank = w_delta.shape[-1]
    state = (len(w_select) - rank) // 2
    found = functional.linear(x, w_select)
    raw = functional.linear(found[..., :rank], w_delta, bias_delta)
    delta = torch.logaddexp(raw, torch.zeros_like(raw))
    return delta, found[..., rank : rank + state], found[..., rank + state :]


def with_einsum(x, w_select, w_delta, bias_delta):
    """Three products, one a part."""
    rank = w_delta.shape[1]
    weights = [w_select[:rank], *w_select[rank:].chunk(2)]
    low, b, c = (torch.einsum("bte,ke->btk", x, w) for w in weights)
    raw = torch.einsum("btr,er->bte", low, w_delta) + bias_delta
    return raw.clamp(min=0) + torch.log1p(torch.exp(-raw.abs())), b, c


def _worked() -> tuple[Tensor, ...]:
    return (
        torch.tensor([[[1.0, 2.0]]]),
        torch.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, -1.0]]),
        torch.tensor([[0.0], [1.0]]),
        torch.tensor([0.0, -3.0]),
    )


EXERCISE = Exercise(
    chapter="24_mamba",
    title="What a token chooses",
    goal="Compute the step size, the input vector and the output vector of every token.",
    reference=mamba.selective_parameters,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        ranges={"x": AS_DRAWN, "w_select": AS_DRAWN, "w_delta": AS_DRAWN, "bias_delta": AS_DRAWN},
        gradients=("x", "w_select", "w_delta", "bias_delta"),
        forbids=READY_MADE,
        says=(
            "For raw step sizes from −60 to 200, Δ is above 0 and right to four digits, and "
            "gradients are finite.",
        ),
    ),
    properties=(
        worked(
            "the worked example: Δ is ln 2 and ln 2",
            *_worked(),
            want=(
                torch.full((1, 1, 2), float(np.log(2.0))),
                torch.tensor([[[2.0]]]),
                torch.tensor([[[-2.0]]]),
            ),
            tolerance=FLOAT32,
        ),
        agrees("Δ", _usual, part=0, tolerance=FLOAT32),
        agrees("b and c", _usual, part=1, tolerance=FLOAT32),
        Property(EXTREME.name, 1, _all_raw, fresh=True),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"linear and slices": with_linear, "einsum, part by part": with_einsum},
    hints=(
        "How many rows does w_select have, and how many of them belong to Δ? The shape of w_delta "
        "says R.",
        "`x @ w_select.T` has R + 2N numbers a token: `.split([R, N, N], dim=-1)` cuts them. Only "
        "the first part goes on.",
        "Carry the R numbers over to all channels with w_delta, add the bias, and take "
        "`functional.softplus` of the sum. Return b and c as they are.",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
    results=("delta", "b", "c"),
)
