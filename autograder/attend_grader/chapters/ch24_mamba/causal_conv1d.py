"""Exercise 24_mamba/causal_conv1d: each channel mixed with its own recent past."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba
from torch import nn
from torch.nn import functional

from attend_grader.chapters.ch24_mamba import READY_MADE
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, batch: int, tokens: int, e: int, taps: int) -> Call:
    return Call((normal(rng, batch, tokens, e), normal(rng, e, taps), normal(rng, e)))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 7, 3, 4), (4, 4, 4, 4), (1, 6, 2, 3)):
        yield "", _case(rng, *sizes)


def _edges(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "one tap: only the present", _case(rng, 2, 5, 3, 1)
    yield "a text shorter than the taps", _case(rng, 2, 2, 3, 4)
    yield "a text of half as many steps as taps", _case(rng, 1, 3, 2, 6)
    yield "one step", _case(rng, 1, 1, 2, 3)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, all the same, fewer steps than taps, one tap."""
    sizes = ((2, 7, 3, 4), (4, 4, 4, 4), (2, 2, 3, 4), (2, 5, 3, 1), (2, 3, 2, 6), (1, 5, 2, 3))
    return [_case(rng, *one) for one in sizes]


SLIPS = (
    Slip(
        "it looks ahead",
        ("(0, 0, width - 1, 0)", "(0, 0, 0, width - 1)"),
        "It is as if the K − 1 zeros stood behind the text, so steps see later ones. Put them in "
        "front of the first step.",
    ),
    Slip(
        "centred",
        ("(0, 0, width - 1, 0)", "(0, 0, width // 2, width - 1 - width // 2)"),
        "The window stands around the step, as in a convolution for images, so with more than two "
        "taps it sees the future. Put all K − 1 zeros in front.",
    ),
    Slip(
        "one step late",
        (
            "padded = functional.pad(x, (0, 0, width - 1, 0))",
            "padded = functional.pad(x, (0, 0, width, 0))[:, :-1]",
        ),
        "Every output comes one step late, as with K zeros in front. The last tap should meet the "
        "present step itself: put K − 1 there.",
    ),
    Slip(
        "taps in reverse",
        ("* taps)", "* taps.flip(1))"),
        "The taps are in reverse. The last one should meet the present, the first the oldest.",
    ),
    Slip(
        "the same taps for all channels",
        ("* taps)", "* taps[:1])"),
        "All channels use the taps of the first one.",
    ),
    Slip(
        "no bias",
        (" + bias", ""),
        "The bias is missing: add `bias`, one number a channel, to every place of the result.",
    ),
    Slip(
        "four taps are assumed",
        (
            ("(0, 0, width - 1, 0)", "(0, 0, 3, 0)"),
            ("* taps).sum(-1)", "* taps).sum(-1)[:, : x.shape[1]]"),
        ),
        "Three zeros stand in front of the first step whatever K is, which is right for four taps "
        "only. K is `taps.shape[1]`: put K − 1 zeros.",
    ),
    Slip(
        "with SiLU",
        (
            "return (padded.unfold(1, width, 1) * taps).sum(-1) + bias",
            "return functional.silu((padded.unfold(1, width, 1) * taps).sum(-1) + bias)",
        ),
        "The result went through SiLU. Leave that to the block.",
    ),
    Slip(
        "a ring",
        (
            "functional.pad(x, (0, 0, width - 1, 0))",
            "torch.cat([x] * width, 1)[:, (width - 1) * x.shape[1] - width + 1 :]",
        ),
        "Before the first step the text comes again, from its end. Put K − 1 zeros there.",
    ),
    Slip(
        "zeros as by padding='same'",
        ("(0, 0, width - 1, 0)", "(0, 0, (width - 1) // 2, width // 2)"),
        "It is as if torch's padding='same' set the zeros, so with more than one tap the window "
        "sees later steps. Put all K − 1 zeros in front.",
    ),
)


def with_torch(x, taps, bias):
    """torch's own convolution, one group a channel."""
    channels, width = taps.shape
    padded = functional.pad(x.transpose(1, 2), (width - 1, 0))
    return functional.conv1d(padded, taps[:, None], bias, groups=channels).transpose(1, 2)


def by_shifts(x, taps, bias):
    """One shifted copy a tap."""
    length, width = x.shape[1], taps.shape[1]
    result = bias.expand_as(x)
    for k in range(width):
        late = width - 1 - k
        if late < length:
            shifted = torch.cat([torch.zeros_like(x[:, :late]), x[:, : length - late]], 1)
            result = result + taps[:, k] * shifted
    return result


def with_a_layer(x, taps, bias):
    """nn.Conv1d with too much padding, cut off behind."""
    channels, width = taps.shape
    layer = nn.Conv1d(channels, channels, width, groups=channels, padding=width - 1)
    weights = {"weight": taps[:, None], "bias": bias}
    found = torch.func.functional_call(layer, weights, (x.transpose(1, 2),))
    return found[..., : x.shape[1]].transpose(1, 2)


EXERCISE = Exercise(
    chapter="24_mamba",
    title="A short look back",
    goal="Mix every channel with its own last few values, never with later ones.",
    reference=mamba.causal_conv1d,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        gradients=("x", "taps", "bias"),
        forbids=READY_MADE,
        says=("torch's own convolutions are allowed.",),
    ),
    properties=(
        worked(
            "the worked example: 10, 21, 32",
            torch.tensor([[[1.0], [2.0], [3.0]]]),
            torch.tensor([[1.0, 10.0]]),
            torch.tensor([0.0]),
            want=torch.tensor([[[10.0], [21.0], [32.0]]]),
            tolerance=FLOAT32,
        ),
        agrees("values", _usual, points=2, tolerance=FLOAT32),
        agrees("one tap, and texts shorter than the taps", _edges, repeat=1, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "torch's convolution": with_torch,
        "shift by shift": by_shifts,
        "a layer of torch": with_a_layer,
    },
    hints=(
        "In the worked example, what stands before the first step, and which tap meets it?",
        "Put K − 1 zeros in front of the first step: `functional.pad(x, (0, 0, K - 1, 0))` leaves "
        "the last axis alone and pads the one before.",
        "Add up K terms: for tap k the padded text from place k on, T steps long, times "
        "taps[:, k]. Add the bias.",
    ),
    minutes=8,
    difficulty=2,
    importance=3,
)
