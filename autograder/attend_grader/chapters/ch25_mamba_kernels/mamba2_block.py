"""Exercise 25_mamba_kernels/Mamba2Block: convolution, scan, gate and norm put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import mamba, mamba_kernels
from torch.nn import functional

from attend_grader.chapters.ch24_mamba.shared import flows_at_zero
from attend_grader.chapters.ch25_mamba_kernels import READY_MADE
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.contract import EVERY_PARAMETER
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import fresh_parameters, normal
from attend_grader.checks.torch_properties import module_call

SCALE = 0.5
"""Of fresh weights: outputs stay near 1."""


def _case(rng: np.random.Generator, batch: int, tokens: int, *build: int) -> Call:
    made = Call(build)
    return module_call(
        mamba_kernels.Mamba2Block, rng, made, normal(rng, batch, tokens, build[0]), scale=SCALE
    )


def _far(rng: np.random.Generator) -> Call:
    """Gates of some hundreds, a SiLU near −150, a step size near 100: gradients are finite too."""
    call = _case(rng, 2, 4, 3, 2, 2)
    far = {name: value.clone() for name, value in (call.parameters or {}).items()}
    far["input.weight"][:6].mul_(300)  # of z
    far["taps_bias"][0] = -150
    far["delta_bias"][0] = 100
    return replace(call, parameters=far)


def _plain(rng: np.random.Generator, **values: float) -> Call:
    """Parameters that are all one number, as before training: they get gradients like others."""
    call = _case(rng, 1, 3, 3, 2, 2)
    plain = {name.replace("_weight", ".weight"): value for name, value in values.items()}
    own = call.parameters or {}
    return replace(
        call, parameters={n: 0 * v + plain[n] if n in plain else v for n, v in own.items()}
    )


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "", _case(rng, 2, 5, 4, 3, 2)
    yield "other taps, short chunks", _case(rng, 1, 7, 6, 2, 3, 2, 3)


def _short(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "one token", _case(rng, 2, 1, 4, 3, 2)
    yield "one head, N = 1", _case(rng, 1, 3, 2, 1, 1)
    yield "a head for each channel", _case(rng, 1, 3, 2, 3, 4)
    yield "two heads of two channels", _case(rng, 1, 3, 2, 2, 2)
    large = _case(rng, 1, 8, 4, 3, 2)
    yield "large inputs", replace(large, args=(1000 * large.args[0],))


SHORT = agrees(
    "one token, one head, a head for each channel, large inputs",
    _short,
    repeat=1,
    tolerance=FLOAT32,
)


def _kept(_: object) -> str:
    return "Is something made from the parameters kept from one call for the next?"


def _causal(subject: Subject, probe: Probe) -> None:
    """What comes later changes nothing earlier, nor does a call change the next.

    Nor where training has changed the parameters between calls without torch's graph.
    """
    built, probe = probe.build(subject, 4, 2, 2, 4, 3, scale=SCALE)
    x = normal(probe.rng, 2, 6, 4)
    probe.agree(built, x, tolerance=FLOAT32)
    built.run(method="eval")
    for _ in range(2):
        probe.agree(built, x, tolerance=FLOAT32, why="the same call again, after .eval()")
    for why in ("", ", called again after a step of training"):
        came = built.run((x,), graph=False)
        why = f"under torch.no_grad(){why}"
        probe.agree(built, x, tolerance=FLOAT32, why=why, came=came, clue=_kept)
        built, _ = probe.train(built, SCALE)
    later = x.clone()
    later[:, 4:] = normal(probe.rng, 2, 2, 4)
    want = probe.reference(x)[:, :4].detach()
    got = probe.call(built, later).value
    first = got[:, :4] if isinstance(got, torch.Tensor) and got.dim() == 3 else got
    if not isinstance(first, torch.Tensor) or not torch.allclose(first, want, atol=1e-4):
        raise probe.miss(
            "tokens 5 and 6 were changed, and outputs 1 to 4 changed with them.", later
        )


def _edges(subject: Subject, probe: Probe) -> None:
    """Small blocks, large inputs, and raw step sizes of 0 exactly."""
    SHORT.test(subject, probe)
    tokens = normal(probe.rng, 2, 5, 4)
    usual = fresh_parameters(mamba_kernels.Mamba2Block(4, 3, 2), probe.rng, SCALE)

    def at(raw: float) -> tuple[Subject, Probe]:
        weight = usual["input.weight"].clone()
        weight[-2:] = 0  # of the raw Δ
        still = {"input.weight": weight, "delta_bias": 0 * usual["delta_bias"] + raw}
        return probe.build(subject, 4, 3, 2, parameters={**usual, **still})

    flows_at_zero(at, probe, lambda raw: (tokens,), "delta_bias")


def draws(rng: np.random.Generator) -> list[Call]:
    """Default taps, other taps and chunks, one token; gates far from 0, parameters of 0 and 1."""
    return [
        _case(rng, 2, 5, 4, 3, 2),
        _case(rng, 1, 7, 6, 2, 3, 2, 3),
        _case(rng, 2, 1, 4, 3, 2),
        _far(rng),
        _plain(rng, skip=0, taps_bias=0, delta_bias=0, a_log=0),
        _plain(rng, skip=1, norm_weight=1),
    ]


DELTA = "functional.softplus(raw + self.delta_bias)"

SLIPS = (
    Slip(
        "the projection cut in another order",
        (
            "z, mixed, raw = self.input(x).split([inner, inner + 2 * state, heads], dim=-1)",
            "mixed, z, raw = self.input(x).split([inner + 2 * state, inner, heads], dim=-1)",
        ),
        "The projection is cut as mixed, z, raw. z should come first, then mixed, then raw.",
    ),
    Slip(
        "the raw Δ cut first",
        (
            "z, mixed, raw = self.input(x).split([inner, inner + 2 * state, heads], dim=-1)",
            "raw, z, mixed = self.input(x).split([heads, inner, inner + 2 * state], dim=-1)",
        ),
        "The projection is cut as raw, z, mixed. z should come first, then mixed, then raw.",
    ),
    Slip(
        "a sigmoid for the gate",
        ("y * functional.silu(z)", "y * torch.sigmoid(z)"),
        "The gate is sigmoid(z). It should be SiLU(z) = z · sigmoid(z).",
    ),
    Slip(
        "u is not multiplied by Δ",
        ("delta[..., None] * u, a", "u, a"),
        "u is written without its Δ. Give ssd_chunked what is to be written: Δ times u.",
    ),
    Slip(
        "the decay without Δ",
        ("a * delta, b", "a.expand_as(delta), b"),
        "The log decay is −exp(a_log) alone, the same at every step. It should be that times Δ.",
    ),
    Slip(
        "the skip takes Δ too",
        ("self.skip[:, None] * u", "self.skip[:, None] * delta[..., None] * u"),
        "The skip adds Δ times u. It should add u itself, times `skip`.",
    ),
    Slip(
        "channels dealt to heads one by one",
        (
            ("u.unflatten(-1, (heads, -1))", "u.unflatten(-1, (-1, heads)).transpose(-1, -2)"),
            ("* u).flatten(-2)", "* u).transpose(-1, -2).flatten(-2)"),
        ),
        "Channels are dealt to the heads in turn. Head i should have the D channels from i D on.",
    ),
    Slip(
        "channels dealt to heads one by one, and not back",
        ("u.unflatten(-1, (heads, -1))", "u.unflatten(-1, (-1, heads)).transpose(-1, -2)"),
        "Channels of u are dealt to the heads in turn, and come out head after head. Head i "
        "should have the D channels from i D on.",
    ),
    Slip(
        "the gate after the norm",
        ("self.norm(y * functional.silu(z))", "self.norm(y) * functional.silu(z)"),
        "Your gate comes after the norm. The norm should take what the gate has let through: "
        "norm(y · SiLU(z)).",
    ),
    Slip(
        "the norm without its weight",
        (
            "self.norm(y * functional.silu(z))",
            "functional.rms_norm(y * functional.silu(z), (inner,), eps=1e-5)",
        ),
        "The norm lacks its weight, which should multiply each channel. `self.norm` has it.",
    ),
    Slip(
        "b and c exchanged",
        ("u, b, c = mixed", "u, c, b = mixed"),
        "b and c are exchanged. After u should come b, then c.",
    ),
    Slip(
        "mixed cut as b, c, u",
        (
            "u, b, c = mixed.split([inner, state, state]",
            "b, c, u = mixed.split([state, state, inner]",
        ),
        "mixed is cut as b, c, u. u should come first, then b, then c.",
    ),
    Slip(
        "a_log used as a",
        ("-torch.exp(self.a_log)", "self.a_log"),
        "a_log was used as a, so decays may be above 1. a should be −exp(a_log).",
    ),
    Slip(
        "exp for softplus",
        (DELTA, "torch.exp(raw + self.delta_bias)"),
        "Δ is the exponential of raw + delta_bias. It should be the softplus, log(1 + exp(…)).",
    ),
    Slip(
        "a softplus that overflows",
        (DELTA, "torch.log(1 + torch.exp(raw + self.delta_bias))"),
        "log(1 + exp(…)) overflows where its argument is large: exp(89) is no float32. "
        "functional.softplus returns its argument there.",
    ),
    Slip(
        "the bias after softplus",
        (DELTA, "functional.softplus(raw) + self.delta_bias"),
        "The bias of Δ is added after the softplus. Add it before.",
    ),
)

Parts: Any = mamba_kernels.Mamba2Block
"""What a learner is given: the parameters."""


class Spelled(Parts):
    """Slices, and the recurrence written out."""

    def forward(self, x):
        """The same output."""
        heads, inner = self.skip.shape[0], self.norm.weight.shape[0]
        n = (self.taps.shape[0] - inner) // 2
        every = x @ self.input.weight.T
        z, mixed = every[..., :inner], every[..., inner : 2 * inner + 2 * n]
        raw = every[..., 2 * inner + 2 * n :] + self.delta_bias
        delta = torch.logaddexp(raw, torch.zeros_like(raw))
        taps = self.taps.shape[1]
        late = functional.pad(mixed, (0, 0, taps - 1, 0))
        mixed = sum(late[:, k : k + x.shape[1]] * self.taps[:, k] for k in range(taps))
        mixed = mixed + self.taps_bias
        mixed = mixed * torch.sigmoid(mixed)
        u = mixed[..., :inner].reshape(*x.shape[:2], heads, inner // heads)
        b, c = mixed[..., inner : inner + n], mixed[..., inner + n :]
        decay, h, rows = torch.exp(-delta * self.a_log.exp()), 0.0, []
        for t in range(x.shape[1]):
            wrote = (delta[:, t, :, None] * u[:, t])[..., None] * b[:, t, None, None]
            h = decay[:, t, :, None, None] * h + wrote
            rows.append(torch.einsum("bhdn,bn->bhd", h, c[:, t]) + self.skip[:, None] * u[:, t])
        y = torch.stack(rows, dim=1).reshape(*x.shape[:2], inner) * z * torch.sigmoid(z)
        y = y / torch.sqrt(y.square().mean(-1, keepdim=True) + 1e-5) * self.norm.weight
        return functional.linear(y, self.output.weight)


class ByRecurrence(Parts):
    """Through ssd_recurrent, heads first."""

    def forward(self, x):
        """The same output."""
        inner = self.output.weight.shape[1]
        sizes = [inner, len(self.taps), len(self.a_log)]
        z, mixed, raw = torch.split(self.input(x), sizes, dim=-1)
        mixed = functional.silu(mamba.causal_conv1d(mixed, self.taps, self.taps_bias))
        u, b, c = mixed.tensor_split([inner, (inner + len(self.taps)) // 2], dim=-1)
        u = u.view(*x.shape[:2], len(self.a_log), -1)
        delta = functional.softplus(raw + self.delta_bias)
        y, _ = mamba_kernels.ssd_recurrent(u * delta[..., None], -delta * self.a_log.exp(), b, c)
        y = torch.addcmul(y, self.skip.view(1, 1, -1, 1), u).flatten(2)
        return self.output(self.norm(functional.silu(z) * y))


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="The Mamba-2 block",
    goal="Put the convolution, your chunked scan, the gate and the norm together.",
    reference=mamba_kernels.Mamba2Block,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        ranges={"x": AS_DRAWN},
        gradients=("x", EVERY_PARAMETER),
        forbids=READY_MADE,
        points={"gradients": 2},
        says=("Large inputs give finite outputs and gradients: softplus does not overflow.",),
    ),
    properties=(
        agrees("values", _usual, points=2, tolerance=FLOAT32),
        Property(SHORT.name, 1, _edges, fresh=True),
        Property("no output takes from later tokens or earlier calls", 1, _causal),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"the recurrence written out": Spelled, "by ssd_recurrent": ByRecurrence},
    hints=(
        "Follow the diagram from the left. Everything but the gate z and Δ goes through the "
        "convolution together.",
        "`self.input(x).split([E, E + 2 N, H], dim=-1)` gives z, mixed and the raw Δ; after the "
        "convolution and SiLU, mixed splits into u, b and c. `u.unflatten(-1, (heads, -1))` has "
        "heads.",
        "ssd_chunked(delta[..., None] * u, a * delta, b, c, self.chunk), with a = −exp(a_log). Add "
        "skip * u a head, flatten the heads, gate, norm, project.",
    ),
    minutes=15,
    difficulty=3,
    importance=4,
    uses=("ssd_chunked", "causal_conv1d"),
)
