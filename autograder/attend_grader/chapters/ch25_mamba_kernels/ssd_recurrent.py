"""Exercise 25_mamba_kernels/ssd_recurrent: the same outputs from a state."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba_kernels as answers

from attend_grader.chapters.ch25_mamba_kernels import READY_MADE
from attend_grader.chapters.ch25_mamba_kernels.shared import expect_faint, in_turn, sequence
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.contract import FLOAT64
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

HALF = math.log(0.5)


def _case(rng: np.random.Generator, *sizes: int, going_on: bool = False) -> Call:
    batch, _, heads, width, state = sizes
    more = (normal(rng, batch, heads, width, state),) if going_on else ()
    return Call((*sequence(rng, *sizes), *more))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 5, 3, 4, 2), (3, 3, 3, 3, 3), (1, 6, 1, 2, 5), (2, 1, 2, 1, 3)):
        yield "", _case(rng, *sizes)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 4, 3, 2, 5), (1, 1, 2, 3, 1)):
        yield "a state is given", _case(rng, *sizes, going_on=True)
    x, log_decay, b, c, state = _case(rng, 2, 1, 3, 2, 4, going_on=True).args
    faded = Call((0 * x, torch.full_like(log_decay, -25), b, 1e10 * c, 1e10 * state))
    yield "a state and c of 10¹⁰, a log decay of −25", faded


GOES_ON = agrees("goes on from a state that is given", _goes_on, tolerance=FLOAT32)


def _fades(subject: Subject, probe: Probe) -> None:
    """A state that is given fades, and so does what the text has written."""
    GOES_ON.test(subject, probe)
    expect_faint(subject, probe)
    args, want = in_turn()
    why = "300 log decays of −60 and −0.37 in turn"
    right = want, want[:, -1, ..., None]
    probe.agree(subject, *args, want=right, tolerance=FLOAT32, why=why)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, all the same, one step, a state given, one of zeros, no decay."""
    x, log_decay, b, c = sequence(rng, 1, 3, 2, 2, 3)
    return [
        Call((*sequence(rng, 1, 2, 2, 2, 3), torch.zeros(1, 2, 2, 3))),
        _case(rng, 2, 5, 3, 4, 2),
        _case(rng, 1, 20, 2, 1, 3),
        _case(rng, 3, 3, 3, 3, 3),
        _case(rng, 2, 1, 3, 2, 4),
        _case(rng, 2, 4, 2, 3, 5, going_on=True),
        _case(rng, 2, 1, 3, 2, 4, going_on=True),
        Call((x, torch.zeros_like(log_decay), b, c)),
    ]


UPDATE = "h = decay[:, t] * h + written[:, t]"
READ = "read.append((h * c[:, t, None, None, :]).sum(-1))"

SLIPS = (
    Slip(
        "reads before it writes",
        (f"{UPDATE}\n        {READ}", f"{READ}\n        {UPDATE}"),
        "y_t is read from the state before step t, so a step never sees itself. Update first.",
    ),
    Slip(
        "reads before it adds",
        ((UPDATE, "h = decay[:, t] * h"), (READ, f"{READ}\n        h = h + written[:, t]")),
        "y_t is read from the faded state before x_t b_tᵀ is added to it, so a step never sees "
        "itself. Add first.",
    ),
    Slip(
        "the decay hits the new input too",
        (UPDATE, "h = decay[:, t] * (h + written[:, t])"),
        "What is written now is faded at once. Only the old state should fade.",
    ),
    Slip(
        "the old state is lost",
        (UPDATE, "h = decay[:, t] * written[:, t]"),
        "The state holds what the current step writes, faded, and nothing older. Fade the old "
        "state, and add what is written to it.",
    ),
    Slip(
        "nothing fades",
        (UPDATE, "h = h + written[:, t]"),
        "The state is a plain sum; the decay is missing.",
    ),
    Slip(
        "the logarithm is used as the decay",
        ("torch.exp(log_decay)", "log_decay"),
        "The state is multiplied by the log decay, which is at most 0. Take its exponential.",
    ),
    Slip(
        "the new input is gated",
        (UPDATE, "h = decay[:, t] * h + (1 - decay[:, t]) * written[:, t]"),
        "What is written is multiplied by 1 minus the decay, as in a gated average. Add it as it "
        "is: x already contains the step size.",
    ),
    Slip(
        "a state that was given is not used",
        ("torch.zeros_like(written[:, 0]) if state is None else state", "0 * written[:, 0]"),
        "The recurrence starts from zeros although a state is given.",
    ),
    Slip(
        "b and c exchanged",
        ((READ, READ.replace("c[", "b[")), ("x[..., None] * b", "x[..., None] * c")),
        "b and c are exchanged. b should say where a step writes, c where it reads.",
    ),
    Slip(
        "a mean over the state",
        (".sum(-1))", ".mean(-1))"),
        "y is N times too small: reading should be a sum over the N numbers, not their mean.",
    ),
    Slip(
        "all heads fade alike",
        ("torch.exp(log_decay)", "torch.exp(log_decay[..., :1])"),
        "Every head has the first head's decay. Each should have its own.",
    ),
)


def with_einsum(x, log_decay, b, c, state=None):
    """Index by index."""
    batch, tokens, heads, width = x.shape
    h = x.new_zeros(batch, heads, width, b.shape[-1]) if state is None else state.clone()
    rows = []
    for t in range(tokens):
        wrote = torch.einsum("bhd,bn->bhdn", x[:, t], b[:, t])
        h = torch.einsum("bh,bhdn->bhdn", log_decay[:, t].exp(), h) + wrote
        rows.append(torch.einsum("bhdn,bn->bhd", h, c[:, t]))
    return torch.stack(rows, dim=1), h


def all_states(x, log_decay, b, c, state=None):
    """Every state at once, by the segments' decays."""
    fade = torch.exp(answers.segsum(log_decay.mT))  # (B, H, T, T)
    h = torch.einsum("bhts,bshd,bsn->bthdn", fade, x, b)
    if state is not None:
        h = h + torch.exp(log_decay.cumsum(1))[..., None, None] * state[:, None]
    return torch.einsum("bthdn,btn->bthd", h, c), h[:, -1]


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="Step by step, as a recurrence",
    goal="Compute the same outputs with a state of fixed size, one step after the other.",
    reference=answers.ssd_recurrent,
    contract=Contract(
        accepts=(FLOAT64,),
        views=True,
        same_dtype=True,
        arguments_unchanged=True,
        ranges={"log_decay": (-60, 0)},
        gradients=("x", "log_decay", "b", "c", "state"),
        forbids=READY_MADE,
    ),
    properties=(
        worked(
            "the worked example: y = 1, 2.5, 5.25",
            torch.tensor([1.0, 2.0, 4.0]).view(1, 3, 1, 1),
            torch.full((1, 3, 1), HALF),
            torch.ones(1, 3, 1),
            torch.ones(1, 3, 1),
            want=(torch.tensor([1.0, 2.5, 5.25]).view(1, 3, 1, 1), torch.full((1, 1, 1, 1), 5.25)),
            tolerance=FLOAT32,
        ),
        agrees("y", _usual, part=0, tolerance=FLOAT32),
        agrees("the last state", _usual, part=1, tolerance=FLOAT32),
        Property(GOES_ON.name, 1, _fades, fresh=True),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"einsum": with_einsum, "all states at once": all_states},
    hints=(
        "It is chapter 24's scan with one decay for a whole head: the state of a head is a D × N "
        "matrix.",
        "Before the loop: torch.exp(log_decay)[..., None, None], and what is written, "
        "x[..., None] * b[:, :, None, None, :], (B, T, H, D, N).",
        "Each step: h = decay_t * h + written_t, then y_t = (h * c_t).sum(-1), where c_t needs "
        "axes for heads and channels. Stack along axis 1.",
    ),
    minutes=10,
    difficulty=2,
    importance=4,
    results=("y", "state"),
)
