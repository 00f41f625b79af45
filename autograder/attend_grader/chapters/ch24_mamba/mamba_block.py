"""Exercise 24_mamba/MambaBlock: convolution, selection, scan and gate put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import mamba
from torch.nn import functional

from attend_grader.chapters.ch24_mamba import READY_MADE
from attend_grader.chapters.ch24_mamba.shared import far_block, flows_at_zero
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.contract import EVERY_PARAMETER
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import fresh_parameters, normal
from attend_grader.checks.torch_properties import module_call
from attend_grader.checks.trials import KEPT

SCALE = 0.5
"""Of fresh weights: outputs stay near 1."""

STALE = "Is something made from the parameters kept from one call for the next?"


def _case(rng: np.random.Generator, batch: int, tokens: int, *build: int) -> Call:
    made = Call(build)
    return module_call(
        mamba.MambaBlock, rng, made, normal(rng, batch, tokens, build[0]), scale=SCALE
    )


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "", _case(rng, 2, 5, 4, 3)
    yield "other taps and another rank", _case(rng, 1, 6, 3, 2, 2, 2)
    yield "six taps", _case(rng, 2, 8, 3, 2, 6)
    yield "gates and step sizes far from 0, fast rates", _far(rng, 2, 4, 3, 2)


def _far(rng: np.random.Generator, batch: int, tokens: int, *build: int, **far: float) -> Call:
    call = _case(rng, batch, tokens, *build)
    return replace(call, parameters=far_block(call.parameters or {}, **far))


def _short(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "one token", _case(rng, 2, 1, 4, 3)
    yield "fewer tokens than taps", _case(rng, 1, 2, 4, 2)


SHORT = agrees("one token, and fewer tokens than taps", _short, repeat=1, tolerance=FLOAT32)


def _edges(subject: Subject, probe: Probe) -> None:
    """Short texts, and raw step sizes of 0 exactly."""
    SHORT.test(subject, probe)
    tokens = normal(probe.rng, 2, 5, 4)
    usual = fresh_parameters(mamba.MambaBlock(4, 3), probe.rng, SCALE)

    def at(raw: float) -> tuple[Subject, Probe]:
        zero = {"delta": 0 * usual["delta"], "delta_bias": 0 * usual["delta_bias"] + raw}
        return probe.build(subject, 4, 3, parameters={**usual, **zero})

    flows_at_zero(at, probe, lambda raw: (tokens,), "delta_bias")


def _causal(subject: Subject, probe: Probe) -> None:
    """What comes later changes nothing earlier, and no call the next."""
    built, probe = probe.build(subject, 4, 3, scale=SCALE)
    x = normal(probe.rng, 2, 6, 4)
    first = probe.agree(built, x, tolerance=FLOAT32).value
    again = probe.call(built, x).value
    if not torch.allclose(again, first, atol=1e-4):
        raise probe.miss(f"called twice with the same x, it gives two results. {KEPT}", x)
    later = x.clone()
    later[:, 4:] = normal(probe.rng, 2, 2, 4)
    want = probe.reference(x)[:, :4].detach()
    got = probe.call(built, later).value
    early = got[:, :4] if isinstance(got, torch.Tensor) and got.dim() == 3 else got
    if not isinstance(early, torch.Tensor) or not torch.allclose(early, want, atol=1e-4):
        raise probe.miss(
            "tokens 5 and 6 were changed, and outputs 1 to 4 changed with them.", later
        )
    _trained(built, probe, x)


def _trained(built: Subject, probe: Probe, x: torch.Tensor) -> None:
    """A step of training changes the parameters: nothing made from the old ones may be left."""
    built, before = probe.train(built, SCALE)
    instance: Any = probe.reference

    def clue(got: np.ndarray) -> str:
        now = {name: value.clone() for name, value in instance.state_dict().items()}
        for name, old in before.items():
            stale = torch.func.functional_call(instance, {**now, name: old}, (x,)).detach()
            if np.allclose(got, stale, atol=1e-4):
                return f"That is what comes out with the {name} of the call before. {STALE}"
        return STALE

    why = "right at first, then every parameter was changed in place, as a step of training does"
    probe.agree(built, x, tolerance=FLOAT32, why=why, clue=clue)


def draws(rng: np.random.Generator) -> list[Call]:
    """Default taps, other taps and rank, one token; gates and step sizes far from 0."""
    usual = [_case(rng, 2, 5, 4, 3), _case(rng, 1, 6, 3, 2, 2, 2), _case(rng, 2, 1, 4, 2)]
    return [*usual, _far(rng, 2, 4, 3, 2, gates=15, silu=-60)]


def wide(rng: np.random.Generator) -> list[Call]:
    """Many channels and a large state; many taps."""
    return [_case(rng, 1, 3, 20, 40), _case(rng, 1, 20, 3, 2, 300)]


CONVOLVED = "functional.silu(causal_conv1d(u, self.taps, self.taps_bias))"

SLIPS = (
    Slip(
        "no convolution",
        (CONVOLVED, "functional.silu(u)"),
        "The convolution is missing: put u through causal_conv1d, then SiLU, then the scan.",
    ),
    Slip(
        "no gate",
        ("y * functional.silu(z)", "y"),
        "The gate is missing: multiply the output of the scan by SiLU(z).",
    ),
    Slip(
        "a sigmoid for the gate",
        ("y * functional.silu(z)", "y * torch.sigmoid(z)"),
        "The gate is sigmoid(z), as in an LSTM. Mamba's is SiLU(z) = z · sigmoid(z).",
    ),
    Slip(
        "the halves exchanged",
        ("u, z = self.input", "z, u = self.input"),
        "The halves are exchanged: convolve and scan the first, and make the second the gate.",
    ),
    Slip(
        "a_log used as a",
        ("-torch.exp(self.a_log)", "self.a_log"),
        "a_log was used as a, so the decay is exp(Δ a_log), which may be above 1. Take a = "
        "−exp(a_log).",
    ),
    Slip(
        "a without its minus",
        ("-torch.exp(self.a_log)", "torch.exp(self.a_log)"),
        "a is positive, so decays are above 1 and the state can grow. Take a = −exp(a_log).",
    ),
    Slip(
        "selected before the convolution",
        (
            f"u = {CONVOLVED}\n        delta, b, c = selective_parameters(u, self.select, "
            "self.delta, self.delta_bias)",
            "delta, b, c = selective_parameters(u, self.select, self.delta, self.delta_bias)\n"
            f"        u = {CONVOLVED}",
        ),
        "Δ, b and c are computed from u before the convolution, so they know one token only. "
        "Convolve first.",
    ),
    Slip(
        "a residual sum inside",
        ("return self.output(", "return x + self.output("),
        "x is added to the output inside the block. Leave that to the model around it, and return "
        "only what is to be added.",
    ),
    Slip(
        "no skip",
        ("c, self.skip)", "c, 0 * self.skip)"),
        "The skip is missing: hand self.skip to the scan, which adds skip u to what it reads.",
    ),
    Slip(
        "SiLU before the convolution",
        (CONVOLVED, "causal_conv1d(functional.silu(u), self.taps, self.taps_bias)"),
        "u goes through SiLU before the convolution. Convolve first.",
    ),
)


Parts: Any = mamba.MambaBlock
"""What a learner is given: the parameters."""


class Spelled(Parts):
    """Slices, and the recurrence written out."""

    def forward(self, x):
        """The same output."""
        inner, taps = self.taps.shape
        both = torch.einsum("btc,ec->bte", x, self.input.weight)
        u, z = both[..., :inner], both[..., inner:]
        late = functional.pad(u, (0, 0, taps - 1, 0))
        u = sum(late[:, k : k + x.shape[1]] * self.taps[:, k] for k in range(taps))
        u = u + self.taps_bias
        u = u * torch.sigmoid(u)
        delta, b, c = mamba.selective_parameters(u, self.select, self.delta, self.delta_bias)
        a, h, rows = -self.a_log.exp(), 0.0, []
        for t in range(x.shape[1]):
            step = delta[:, t, :, None]
            h = torch.exp(step * a) * h + step * b[:, t, None] * u[:, t, :, None]
            rows.append((h @ c[:, t, :, None])[..., 0] + self.skip * u[:, t])
        return (torch.stack(rows, 1) * z * torch.sigmoid(z)) @ self.output.weight.T


class ByTree(Parts):
    """Through associative_scan."""

    def forward(self, x):
        """The same output."""
        u, z = self.input(x).split(self.taps.shape[0], dim=-1)
        u = functional.silu(mamba.causal_conv1d(u, self.taps, self.taps_bias))
        delta, b, c = mamba.selective_parameters(u, self.select, self.delta, self.delta_bias)
        decay, gain = mamba.discretize_selective(delta, torch.neg(torch.exp(self.a_log)), b)
        states, _, _ = mamba.associative_scan(decay, gain * u[..., None])
        y = torch.einsum("bten,btn->bte", states, c) + self.skip * u
        return self.output(functional.silu(z) * y)


EXERCISE = Exercise(
    chapter="24_mamba",
    title="The Mamba block",
    goal="Put convolution, selection, scan and gate together.",
    reference=mamba.MambaBlock,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        ranges={"x": AS_DRAWN},
        gradients=("x", EVERY_PARAMETER),
        forbids=READY_MADE,
        says=("Below −80, SiLU needs no gradient.",),
        points={"gradients": 2},
    ),
    properties=(
        agrees("values", _usual, points=2, tolerance=FLOAT32),
        Property(SHORT.name, 1, _edges, fresh=True),
        Property("no output knows later tokens, or calls before", 1, _causal),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"the recurrence written out": Spelled, "by associative_scan": ByTree},
    hints=(
        "Follow the diagram from the left: two branches, and only one of them looks at other "
        "tokens.",
        "`self.input(x).chunk(2, dim=-1)` gives u and z. u takes your convolution, SiLU, your "
        "selective_parameters and your scan. a is made from self.a_log.",
        "Scan u with −exp(a_log) and self.skip, multiply the first result by SiLU(z) and send it "
        "through self.output.",
    ),
    minutes=12,
    difficulty=3,
    importance=5,
    uses=("selective_parameters", "selective_scan", "causal_conv1d"),
)
