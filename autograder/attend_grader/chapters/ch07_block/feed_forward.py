"""Exercise 07_block/feed_forward: every token by itself, out to F numbers and back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from attend_solutions import block
from torch.nn import functional

from attend_grader.checks.compare import FLOAT32, Miss
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

GATED = "swiglu"


def _case(
    rng: np.random.Generator, kind: str, *shape: int, inner: int = 7, gate: bool = False
) -> Call:
    width = shape[-1]
    args: tuple[Any, ...] = (normal(rng, *shape), normal(rng, inner, width))
    args = (*args, normal(rng, width, inner), kind)
    return Call((*args, normal(rng, inner, width)) if kind == GATED or gate else args)


def _of(kind: str):
    def cases(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
        for shape in ((2, 3, 4), (3, 7), (1, 1, 2)):
            yield kind, _case(rng, kind, *shape)
        yield f"{kind}, C = 1", _case(rng, kind, 2, 3, 1)
        yield f"{kind}, F = 1", _case(rng, kind, 2, 3, inner=1)
        yield f"{kind}, large numbers", _large(rng, kind)
        call = _large(rng, kind)
        yield f"{kind}, numbers to 10⁶", Call((2e4 * call.args[0], *call.args[1:]))
        *rest, gate = _case(rng, kind, 2, 4, gate=True).args
        yield f"{kind} with a w_gate of zeros", Call((*rest, torch.zeros_like(gate)))
        below = -1e6 * rest[0].abs() - 1
        yield f"{kind}, all gates far below 0", Call((below, *rest[1:], gate.abs() + 1))
        if kind != GATED:
            yield f"{kind} with a w_gate, which is not used", _case(rng, kind, 2, 4, gate=True)
        if kind == "gelu":
            yield "no kind given", Call(_case(rng, kind, 2, 3, 4).args[:3])

    return cases


def _large(rng: np.random.Generator, kind: str) -> Call:
    call = _case(rng, kind, 2, 3, 6, inner=5)
    return Call((50 * call.args[0], *call.args[1:]))


UNKNOWN = (
    *("tanh", "silu", "sigmoid", "elu", "relu2", "identity", "glu", "geglu", "reglu"),
    *("GELU", "gel", "relu gelu", " gelu ", "relu ", " swiglu", ""),
)
"""Kinds that are none of the three, though some come near."""


def _refuses(subject: Subject, probe: Probe) -> None:
    """A kind that is not known must not pass for another."""
    *plain, gate = _case(probe.rng, GATED, 2, 4).args
    drawn = "".join(chr(ord("a") + int(n)) for n in probe.rng.integers(26, size=5))
    kinds = (*UNKNOWN, drawn)
    tries = [(f"the kind {kind!r}, without w_gate", (*plain[:3], kind)) for kind in kinds]
    tries += [(f"the kind {kind!r}, with w_gate", (*plain[:3], kind, gate)) for kind in kinds]
    tries.append(("swiglu without w_gate", (*plain[:3], GATED)))
    outcomes = subject.many([Call(args) for _, args in tries])
    for (what, args), outcome in zip(tries, outcomes, strict=True):
        if outcome.error is None or not outcome.error.is_a("ValueError"):
            result = "None" if outcome.value is None else "a result"
            came = result if outcome.error is None else outcome.error.type
            text = f"{what} must raise a ValueError; your function gave {came}."
            raise Miss(text, topic="bad input").on(probe.given(args, {}), "")


def draws(rng: np.random.Generator) -> list[Call]:
    """Each kind, F above, at and below C, one token, large numbers, a gate that is not used."""
    return [
        _case(rng, "gelu", 2, 3, 4),
        _case(rng, "relu", 2, 3, 4),
        _case(rng, GATED, 2, 3, 4),
        _case(rng, "gelu", 3, 5, inner=5, gate=True),
        _case(rng, GATED, 1, 5, 5, inner=5),
        _large(rng, "relu"),
        _case(rng, "relu", 5, 3, inner=2, gate=True),
        _case(rng, "relu", 2, 4, inner=4, gate=True),
        _case(rng, "gelu", 2, 5, 3, inner=2, gate=True),
        Call(_case(rng, "gelu", 4, 3).args[:3]),
        _case(rng, "gelu", 4, inner=6),
    ]


SILU, UP = "functional.silu(x @ w_gate.T)", "up = x @ w_in.T"

SLIPS = (
    Slip(
        "GELU by tanh",
        ("functional.gelu(up)", 'functional.gelu(up, approximate="tanh")'),
        "GELU is the approximation by tanh, which is off by up to 0.0005. GPT-2 uses it, but here "
        "it should be exact: u · Φ(u), torch's default.",
    ),
    Slip(
        "SiLU for GELU",
        ("functional.gelu(up)", "functional.silu(up)"),
        "For gelu the activation is u · sigmoid(u). That is SiLU; GELU is u · Φ(u), with the "
        "normal distribution function.",
    ),
    Slip(
        "relu for gelu",
        ("functional.gelu(up)", "functional.relu(up)"),
        "For gelu the activation is a relu: negative numbers become 0. GELU lets a little of them "
        "through.",
    ),
    Slip(
        "activated a second time",
        (
            (
                "hidden = functional.relu(up)",
                "return functional.relu(functional.relu(up) @ w_out.T)",
            ),
            (
                "hidden = functional.gelu(up)",
                "return functional.gelu(functional.gelu(up) @ w_out.T)",
            ),
        ),
        "relu and gelu are taken once more of the result. They belong between the products only: "
        "what is added to the stream may have any sign.",
    ),
    Slip(
        "a gate without SiLU",
        (f"{SILU} * up", "(x @ w_gate.T) * up"),
        "In swiglu the gate goes through no SiLU: this is a bilinear layer.",
    ),
    Slip(
        "a sigmoid gate",
        (SILU, "torch.sigmoid(x @ w_gate.T)"),
        "The gate of swiglu is sigmoid(u). That is a GLU; SiLU is u · sigmoid(u).",
    ),
    Slip(
        "a GELU gate",
        (SILU, "functional.gelu(x @ w_gate.T)"),
        "The gate of swiglu goes through GELU. That is called GEGLU; SwiGLU takes SiLU.",
    ),
    Slip(
        "no activation function for relu and gelu",
        (("functional.relu(up)", "up"), ("functional.gelu(up)", "up")),
        "For relu and gelu nothing is done between the two products, so they are as good as one "
        "matrix. Take relu or gelu of the F numbers.",
    ),
    Slip(
        "activated after the way back",
        (
            ("hidden = functional.relu(up)", "return functional.relu(up @ w_out.T)"),
            ("hidden = functional.gelu(up)", "return functional.gelu(up @ w_out.T)"),
        ),
        "relu and gelu are taken after both products, so the two matrices are as good as one, and "
        "relu can add nothing negative to the stream. Take them of the F numbers, between the "
        "products.",
    ),
    Slip(
        "the input added",
        ("return hidden @ w_out.T", "return x + hidden @ w_out.T"),
        "x itself is added to the result. That is the residual connection, which the block makes; "
        "here, return what the second product gives.",
    ),
)


def with_linear(x, w_in, w_out, kind="gelu", w_gate=None):
    """F.linear, a dict of functions."""
    bends = {"relu": torch.relu, "gelu": functional.gelu}
    up = functional.linear(x, w_in)
    if kind in bends:
        return functional.linear(bends[kind](up), w_out)
    if kind != "swiglu" or w_gate is None:
        raise ValueError(f"kind {kind}")
    gate = functional.linear(x, w_gate)
    return functional.linear(gate * torch.sigmoid(gate) * up, w_out)


def by_formula(x, w_in, w_out, kind="gelu", w_gate=None):
    """Φ by erf, clamp for relu, einsum for products."""
    up = torch.einsum("...c,fc->...f", x, w_in)
    match kind:
        case "relu":
            bent = up.clamp(min=0)
        case "gelu":
            bent = 0.5 * up * (1 + torch.erf(up / math.sqrt(2)))
        case "swiglu":
            if w_gate is None:
                raise ValueError("swiglu needs w_gate")
            gate = torch.einsum("...c,fc->...f", x, w_gate)
            bent = up * gate / (1 + torch.exp(-gate))
        case _:
            raise ValueError(kind)
    return torch.einsum("...f,cf->...c", bent, w_out)


EXERCISE = Exercise(
    chapter="07_block",
    title="The feed-forward network",
    goal="Change every token by itself, through one of three activation functions.",
    reference=block.feed_forward,
    contract=Contract(
        leading_axes=("x",),
        views=True,
        arguments_unchanged=True,
        gradients=("x", "w_in", "w_out", "w_gate"),
        says=(
            "For relu and gelu, `w_gate` is not used. Gates below −80 need no gradient.",
            "Any other `kind`, and swiglu without `w_gate`, raise a `ValueError`.",
        ),
    ),
    properties=(
        worked(
            "the worked example, relu: (9, 3)",
            torch.tensor([[1.0, 2.0]]),
            torch.tensor([[1.0, 1.0], [1.0, -1.0]]),
            torch.tensor([[3.0, 5.0], [1.0, 0.0]]),
            "relu",
            want=torch.tensor([[9.0, 3.0]]),
            tolerance=FLOAT32,
        ),
        Property("what is not known is refused", 1, _refuses),
        agrees("relu", _of("relu"), tolerance=FLOAT32),
        agrees("gelu, also where no kind is given", _of("gelu"), tolerance=FLOAT32),
        agrees("swiglu", _of(GATED), tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"F.linear": with_linear, "by formula": by_formula},
    hints=(
        "Two products with something in between. What are the shapes before, between and after?",
        "`x @ w_in.T` is (…, F). `functional.relu`, `functional.gelu` and `functional.silu` work "
        "number by number; `@ w_out.T` goes back to C.",
        "swiglu: functional.silu(x @ w_gate.T) * (x @ w_in.T), then w_out. End the ifs with "
        "raise ValueError(…).",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
)
