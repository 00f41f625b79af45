"""Exercise 24_mamba/associative_scan: all states by a tree of combinations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba
from torch.nn import functional

from attend_grader.chapters.ch24_mamba import READY_MADE
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.contract import FLOAT64
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.properties import expect_growth
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal


def _arguments(
    rng: np.random.Generator, tokens: int, batch: int = 2, e: int = 3, n: int = 2
) -> tuple[torch.Tensor, torch.Tensor]:
    decay = torch.from_numpy(rng.uniform(0.1, 0.99, (batch, tokens, e, n)).round(2)).float()
    return decay, normal(rng, batch, tokens, e, n)


def _powers(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for tokens in (2, 4, 8, 32):
        yield f"T = {tokens}", Call(_arguments(rng, tokens))


def _others(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for tokens in (1, 3, 5, 6, 7, 13, 23):
        yield f"T = {tokens}", Call(_arguments(rng, tokens))


def _counted(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    """Lengths of both kinds: a formula for powers of two miscounts the others."""
    yield from _powers(rng)
    yield from _others(rng)


def _zeros(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    decay, written = _arguments(rng, 8)
    decay[:, ::3] = 0.0
    yield "decays of 0, by which nothing can be divided", Call((decay, written))
    yield "decays of 10⁻²⁰", Call((decay.clamp(max=1e-20), written))


def _rounds(subject: Subject, probe: Probe) -> None:
    """From 64 to 1,024 steps there are 4 more levels, not 16 times as many operations.

    A loop inside a function of Python's own has no operations that are counted, but a tensor a
    step: those show in memory.
    """
    probe.agree(subject, *_arguments(probe.rng, 8), part=0, tolerance=FLOAT32, why="cost counts "
                "for right states only")  # fmt: skip
    state = int(probe.rng.integers(2**31))
    expect_growth(
        subject,
        lambda tokens: _arguments(np.random.default_rng(state), tokens, 1, 1, 1),
        sizes=(64, 1024),
        at_most=3,
        cost="steps",
        of="tokens",
        advice="Is there a loop over time? Combine all pairs of neighbours at once, by slices.",
    )
    expect_growth(  # as many numbers in all: what grows is what Python keeps for each step
        subject,
        lambda tokens: _arguments(np.random.default_rng(state), tokens, 1, 1, 2048 // tokens),
        sizes=(64, 2048),
        at_most=8,
        cost="peak_bytes",
        of="tokens",
        advice="There are as many numbers in both: is there a tensor a step, in a loop over time "
        "that is hidden in `accumulate` or `map`? Combine all pairs of neighbours at once.",
    )


def draws(rng: np.random.Generator) -> list[Call]:
    """Powers of two, odd lengths, one step; B, E and N are told apart by their lengths."""
    sizes = ((8, 2, 3, 4), (7, 3, 1, 2), (5, 1, 2, 3), (1, 2, 3, 1), (13, 3, 2, 1))
    return [Call(_arguments(rng, *one)) for one in sizes]


COMBINED = "decay[:, late] * written[:, early] + written[:, late]"

SLIPS = (
    Slip(
        "combined in the wrong order",
        (COMBINED, "decay[:, early] * written[:, late] + written[:, early]"),
        "On the way up two steps are combined as if the later came first. The later step's decay "
        "should fade what the earlier one wrote.",
    ),
    Slip(
        "what was written early is not faded",
        (COMBINED, "written[:, early] + written[:, late]"),
        "On the way up two steps are combined by adding what they write. The later step should "
        "also fade what the earlier one wrote: d₂ w₁ + w₂.",
    ),
    Slip(
        "the decays are not combined",
        ("decay = decay[:, late] * decay[:, early]", "decay = decay[:, late]"),
        "Of a pair of steps only the later decay is kept. A pair should fade by the product of "
        "both.",
    ),
    Slip(
        "faded by both decays",
        (
            f"written = {COMBINED}\n        decay = decay[:, late] * decay[:, early]",
            "old, decay = decay, decay[:, late] * decay[:, early]\n"
            "        written = decay * written[:, early] + written[:, late]",
        ),
        "On the way up what the earlier step wrote is faded by both decays, as if `decay` were "
        "overwritten first. Fade it by the later one's only.",
    ),
    Slip(
        "the states in between are not filled in",
        ("odd = decay[:, 2::2] * before + written[:, 2::2]", "odd = 0 * before"),
        "Only the states after steps 1, 2, 4, 8, … come out right, the others as 0. On each level "
        "fill in those after steps 3, 5, …, each by one combination with the state before it.",
    ),
    Slip(
        "the states in between do not fade what came before",
        ("odd = decay[:, 2::2] * before + written[:, 2::2]", "odd = before + written[:, 2::2]"),
        "The states after steps 3, 5, … of each level add the state before unfaded. Fade it by "
        "the decay of step 3, 5, ….",
    ),
    Slip(
        "only the way up is counted",
        ("pairs, rounds = pairs + odd.shape[1], rounds + 1", "pass"),
        "The counts cover the way up the tree only. Filling in the states between combines pairs "
        "too, in one more round on each level where there are any.",
    ),
    Slip(
        "pairs of the way down are not counted",
        ("pairs, rounds = pairs + odd.shape[1], rounds + 1", "rounds = rounds + 1"),
        "The pairs of the way down are not counted, though its rounds are. Every state that is "
        "filled in takes one combination of a pair.",
    ),
    Slip(
        "a round in which nothing happens",
        ("if odd.shape[1]:", "if True:"),
        "On a level of 2 steps there is nothing to fill in: count no round there.",
    ),
    Slip(
        "pairs of the way up are counted E · N times",
        ("pairs + decay.shape[1]", "pairs + decay[0].numel()"),
        "On the way up each pair of steps is counted E · N times. Count it once, whatever B, E "
        "and N are.",
    ),
)


def with_powers_of_two(decay, written):
    """Pads to a power of two, goes up and down a tree, counts what is inside the text."""
    length = written.shape[1]
    full = 1 << max(length - 1, 0).bit_length()
    pad = (0, 0, 0, 0, 0, full - length)
    kept, added = functional.pad(decay, pad, value=1.0), functional.pad(written, pad)
    levels = [(kept, added)]
    while levels[-1][1].shape[1] > 1:
        a, b = levels[-1]
        levels.append((a[:, ::2] * a[:, 1::2], a[:, 1::2] * b[:, ::2] + b[:, 1::2]))
    states = levels.pop()[1]
    while levels:
        a, b = levels.pop()
        before = functional.pad(states[:, :-1], (0, 0, 0, 0, 1, 0))
        states = torch.stack([a[:, ::2] * before + b[:, ::2], states], 2).flatten(1, 2)
    pairs = rounds = 0
    while length > 1:
        pairs, rounds = pairs + length // 2 + (length - 1) // 2, rounds + 1 + (length > 2)
        length //= 2
    return states[:, : written.shape[1]], pairs, rounds


def by_interleaving(decay, written):
    """The same recursion, put together by interleaving instead of by slices."""
    length = written.shape[1]
    if length == 1:
        return written, 0, 0
    half = length // 2
    a = decay[:, : 2 * half].unflatten(1, (half, 2))
    b = written[:, : 2 * half].unflatten(1, (half, 2))
    even, pairs, rounds = by_interleaving(
        a[:, :, 1] * a[:, :, 0], a[:, :, 1] * b[:, :, 0] + b[:, :, 1]
    )
    fill = (length - 1) // 2
    odd = torch.addcmul(written[:, 2::2], decay[:, 2::2], even[:, :fill])
    first = torch.cat([written[:, :1], odd], dim=1)
    if first.shape[1] > even.shape[1]:
        body = torch.stack([first[:, :-1], even], 2).flatten(1, 2)
        states = torch.cat([body, first[:, -1:]], 1)
    else:
        states = torch.stack([first, even], 2).flatten(1, 2)
    return states, pairs + half + fill, rounds + 1 + (fill > 0)


EXERCISE = Exercise(
    chapter="24_mamba",
    title="The scan as a tree",
    goal="Compute all states in about 2 log₂ T rounds, and count the rounds and the work.",
    reference=mamba.associative_scan,
    contract=Contract(
        accepts=(FLOAT64,),
        views=True,
        arguments_unchanged=True,
        ranges={"decay": AS_DRAWN},
        forbids=READY_MADE,
        says=(
            "Decays may be 0.",
            "No loop over time, nor a tensor for each step: Python's steps may grow like log₂ T, "
            "not like T.",
        ),
    ),
    properties=(
        worked(
            "the worked example: four steps that halve, 4 pairs in 3 rounds",
            torch.full((1, 4, 1, 1), 0.5),
            torch.tensor([4.0, 2.0, 8.0, 1.0]).view(1, 4, 1, 1),
            want=(torch.tensor([4.0, 4.0, 10.0, 6.0]).view(1, 4, 1, 1), 4, 3),
            tolerance=FLOAT32,
        ),
        agrees("states, where T is a power of two", _powers, part=0, tolerance=FLOAT32),
        agrees("pairs", _counted, part=1, tolerance=FLOAT32),
        agrees("rounds", _counted, part=2, tolerance=FLOAT32),
        agrees("decays of 0", _zeros, part=0, repeat=1, tolerance=FLOAT32),
        agrees("states for any T", _others, part=0, tolerance=FLOAT32),
        Property("no loop over time", 1, _rounds),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"padded to a power of two": with_powers_of_two, "interleaved": by_interleaving},
    hints=(
        "Do the worked example with pencil and paper: which pairs are combined first, and which "
        "states do you have after the half-length scan?",
        "`decay[:, 1::2]` are the later steps of all pairs, `decay[:, 0:T - 1:2]` the earlier "
        "ones. Either keep a list of levels, or let the function call itself on the pairs and "
        "return at T = 1.",
        "Up: written = later decay · earlier written + later written; decay = product of both. "
        "The half-length result is the states after steps 2, 4, …. Down: state 3, 5, … = decay · "
        "the state before + written. Put first, even and odd states into one tensor by slices with "
        "step 2.",
    ),
    minutes=30,
    difficulty=5,
    importance=4,
    results=("states", "pairs", "rounds"),
)
