"""Exercise 24_mamba/mamba_step: one token at a time, with memory of a fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from attend_solutions import mamba
from torch.nn import functional

from attend_grader.chapters.ch24_mamba import READY_MADE
from attend_grader.chapters.ch24_mamba.shared import far_block
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.contract import FLOAT32 as CONTRACT_FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import fresh_parameters, normal
from attend_grader.checks.trials import KEPT

SCALE = 0.5
"""Of fresh weights: outputs stay near 1."""


def _case(
    rng: np.random.Generator, batch: int, width: int, state: int, taps: int = 4, rank: int = 1
) -> Call:
    block = mamba.MambaBlock(width, state, taps, rank)
    return Call(
        (
            fresh_parameters(block, rng, SCALE),
            normal(rng, batch, width),
            normal(rng, batch, taps - 1, 2 * width),
            normal(rng, batch, 2 * width, state),
        )
    )


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "", _case(rng, 2, 4, 3)
    yield "other taps and another rank", _case(rng, 3, 3, 2, 2, 2)
    yield "one tap: nothing recent is kept", _case(rng, 2, 5, 2, 1)
    yield "six taps", _case(rng, 2, 3, 2, 6)
    block, x, recent, state = _case(rng, 2, 4, 3).args
    yield "recent steps of 0, and a state", Call((block, x, 0 * recent, state))
    block, *others = _case(rng, 2, 4, 3).args
    for how in (sorted(block), list(block)[::-1]):
        call = Call(({name: block[name] for name in how}, *others))
        yield f"the parameters in another order: {how[0]}, {how[1]}, …", call
    yield "gates and step sizes far from 0, fast rates", Call((far_block(block), *others))


def _two_blocks(subject: Subject, probe: Probe) -> None:
    """A block of the same shape after another: nothing of the first may be left."""
    first, second = (_case(probe.rng, 2, 3, 4, 3).args for _ in range(2))
    probe.agree(subject, *first, tolerance=FLOAT32)

    def clue(got: np.ndarray) -> str:
        for name, old in first[0].items():
            stale = probe.reference({**second[0], name: old}, *second[1:])
            if any(got.shape == v.shape and np.allclose(got, v, atol=1e-5) for v in stale):
                return f'That is what comes out with block["{name}"] of the block before. {KEPT}'
        return ""

    why = "right for one block, then called with another of the same shape"
    for part in range(3):
        probe.agree(subject, *second, part=part, tolerance=FLOAT32, why=why, clue=clue)


def _walk(subject: Subject, probe: Probe) -> None:
    """Token by token it must give what the block gives for the whole text."""
    torch.manual_seed(int(probe.rng.integers(2**31)))
    block = mamba.MambaBlock(4, 3)
    weights = fresh_parameters(block, probe.rng, SCALE)
    block.load_state_dict(weights)
    x = normal(probe.rng, 2, 6, 4)
    wanted = block(x).detach()
    recent: Any = torch.zeros(2, 3, 8)
    state: Any = torch.zeros(2, 8, 3)
    right = (recent, state)
    for t in range(x.shape[1]):
        want = (wanted[:, t], *(v.detach() for v in probe.reference(weights, x[:, t], *right)[1:]))
        why = f"token {t + 1} of a text, as the block reads it"
        outcome = probe.agree(
            subject, weights, x[:, t], recent, state, want=want, tolerance=FLOAT32, why=why
        )
        (_, recent, state), right = outcome.value, want[1:]


def draws(rng: np.random.Generator) -> list[Call]:
    """Default taps, other taps and rank, one tap; batches of one with one tap and with more."""
    sizes = ((3, 3, 2), (2, 4, 3, 2, 2), (2, 4, 2, 1), (1, 4, 2), (1, 3, 4, 1), (2, 5, 1, 3, 2))
    return [_case(rng, *one) for one in sizes]


def wide(rng: np.random.Generator) -> list[Call]:
    """Many channels and a large state; many taps."""
    return [_case(rng, 2, 20, 40), _case(rng, 2, 3, 2, 300)]


SLIPS = (
    Slip(
        "recent is not moved on",
        ("return y, window[:, 1:], state", "return y, recent, state"),
        "recent is returned as it came. Drop the oldest input and let the new one join.",
    ),
    Slip(
        "what is kept went through the convolution",
        (
            "return y, window[:, 1:], state",
            "return y, torch.cat([recent, u], dim=1)[:, 1:], state",
        ),
        "The newest row of recent is what came out of the convolution and SiLU. It must be an "
        "input of the convolution, because the next step's window is made of inputs.",
    ),
    Slip(
        "the new input stands in front",
        ("torch.cat([recent, u[:, None]], dim=1)", "torch.cat([u[:, None], recent], dim=1)"),
        "The new input stands in front of the recent ones, and recent is returned as it came. The "
        "last tap belongs to the present, so put the new input last.",
    ),
    Slip(
        "the state is not used",
        ('block["skip"], state)', 'block["skip"])'),
        "The scan starts from zeros at every token: give it the state.",
    ),
    Slip(
        "the state is not moved on",
        (
            "y, state = selective_scan",
            "y, _ = selective_scan",
        ),
        "The state is returned as it came. It must be the one after this token.",
    ),
    Slip(
        "no gate",
        ("y[:, 0] * functional.silu(z)", "y[:, 0]"),
        "The gate is missing: multiply the output of the scan by SiLU(z).",
    ),
    Slip(
        "newest first",
        (
            ("torch.cat([recent, u[:, None]], dim=1)", "torch.cat([u[:, None], recent], dim=1)"),
            ("return y, window[:, 1:]", "return y, window[:, :-1]"),
        ),
        "recent is kept as if newest first, with the new input in front. Keep it oldest first, as "
        "the taps are: let the new input join at the end.",
    ),
    Slip(
        "taps in reverse",
        ('block["taps"].T', 'block["taps"].flip(1).T'),
        "The taps are in reverse. The last one should meet this token, the first the oldest.",
    ),
    Slip(
        "a_log used as a",
        ('-torch.exp(block["a_log"])', 'block["a_log"]'),
        "a_log was used as a, so the decay is exp(Δ a_log), maybe above 1. Take a = −exp(a_log).",
    ),
    Slip(
        "no SiLU after the convolution",
        ("functional.silu(u)[:, None]", "u[:, None]"),
        "u lacks its SiLU after the convolution.",
    ),
)


def without_the_scan(block, x, recent, state):
    """The recurrence for one token, written out; the window as an einsum."""
    u, z = functional.linear(x, block["input.weight"]).chunk(2, -1)
    window = torch.cat((recent, u.unsqueeze(1)), 1)
    u = functional.silu(torch.einsum("bke,ek->be", window, block["taps"]) + block["taps_bias"])
    delta, b, c = mamba.selective_parameters(
        u.unsqueeze(1), block["select"], block["delta"], block["delta_bias"]
    )
    step = delta[:, 0, :, None]
    new = torch.exp(-step * block["a_log"].exp()) * state + step * b * u[..., None]
    y = (new * c).sum(-1) + block["skip"] * u
    return functional.linear(y * z * z.sigmoid(), block["output.weight"]), window[:, 1:], new


def through_the_convolution(block, x, recent, state):
    """The exercise's own convolution on the window, of which the last output counts."""
    u, z = (x[:, None] @ block["input.weight"].mT).chunk(2, dim=-1)
    window = torch.cat([recent, u], dim=1)
    u = mamba.causal_conv1d(window, block["taps"], block["taps_bias"])[:, -1:]
    u = functional.silu(u)
    chosen = mamba.selective_parameters(u, block["select"], block["delta"], block["delta_bias"])
    y, state = mamba.selective_scan(
        u, chosen[0], -block["a_log"].exp(), *chosen[1:], block["skip"], state
    )
    y = (y * functional.silu(z)) @ block["output.weight"].mT
    return y.squeeze(1), window[:, -recent.shape[1] :] if recent.shape[1] else recent, state


EXERCISE = Exercise(
    chapter="24_mamba",
    title="One token at a time",
    goal="Read one token with a memory whose size does not depend on how many came before.",
    reference=mamba.mamba_step,
    contract=Contract(
        accepts=(CONTRACT_FLOAT32,),
        views=True,
        arguments_unchanged=True,
        ranges={"x": AS_DRAWN, "recent": AS_DRAWN},
        forbids=READY_MADE,
        says=(
            "K may be 1: `recent` is empty then.",
            "Nothing is kept between calls: each may bring another block.",
        ),
    ),
    properties=(
        Property("two blocks of one shape in turn", 1, _two_blocks),
        agrees("the output", _usual, part=0, tolerance=FLOAT32),
        agrees("recent", _usual, part=1, tolerance=FLOAT32),
        agrees("the state", _usual, part=2, tolerance=FLOAT32),
        Property("token by token it is the block", 2, _walk),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={
        "the recurrence written out": without_the_scan,
        "through the convolution": through_the_convolution,
    },
    hints=(
        "Which parts of the block look at other tokens? Each of them needs a memory, and the "
        "others need none.",
        "The window of the convolution is recent and the new u, K inputs in all; it is also where "
        "the next recent comes from. The scan takes a text of length 1: `u[:, None]`.",
        "Halves u and z; window = cat of recent and u; u = SiLU of the sum of window times taps "
        "(each channel has its own), plus bias; select, scan from `state`, gate, project. Return "
        "y, the window without its oldest, the new state.",
    ),
    minutes=15,
    difficulty=3,
    importance=4,
    uses=("selective_parameters", "selective_scan"),
    results=("output", "recent", "state"),
)
