"""Exercise 25_mamba_kernels/triton_selective_scan: a scan whose state stays on the chip."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from attend_solutions import ssd_triton as answers  # before triton: it chooses the interpreter
from attend_solutions.mamba import selective_scan

import triton  # isort: skip
import triton.language as tl  # isort: skip

from attend_grader.chapters.ch25_mamba_kernels import READY_MADE
from attend_grader.chapters.ch25_mamba_kernels.shared import kernel_properties
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.torch_numbers import normal

Case = tuple[str, Call, Any]


def _case(rng: np.random.Generator, batch: int, tokens: int, channels: int, state: int) -> Call:
    delta = torch.from_numpy(rng.uniform(0.05, 2.0, (batch, tokens, channels)).round(2)).float()
    a = -torch.from_numpy(rng.uniform(0.1, 1.5, (channels, state)).round(2)).float()
    b, c = normal(rng, batch, tokens, state), normal(rng, batch, tokens, state)
    x, h = normal(rng, batch, tokens, channels), normal(rng, batch, channels, state)
    return Call((x, delta, a, b, c, h))


def _with_answer(why: str, call: Call) -> Case:
    x, delta, a, b, c, state = (m.double() for m in call.args)
    y, last = selective_scan(x, delta, a, b, c, torch.zeros(x.shape[2]).double(), state)
    return why, call, (y.float(), last.float())


def _usual(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("", _case(rng, 1, 6, 8, 8))  # each tensor weighs above a tenth
    yield _with_answer("", _case(rng, 3, 2, 16, 4))  # a grid of 3 × 2


def _others(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("11 channels, 8 a program", _case(rng, 3, 3, 11, 2))
    yield _with_answer("one step, three channels, N = 1", _case(rng, 1, 1, 3, 1))


def _far(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("130 steps of one channel", _case(rng, 1, 130, 1, 1))
    yield _with_answer("128 numbers a channel", _case(rng, 1, 2, 3, 128))
    x, delta, a, b, c, state = _case(rng, 1, 1, 3, 2).args
    faded = 0 * x, 0 * delta + 20, 0 * a - 1, b, c, 1000 * state
    yield _with_answer("e^−20 is left of a state of 1,000", Call(faded))


def _largest(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("N of 32", _case(rng, 1, 3, 11, 32))


def _needed(call: Call) -> int:
    """x, Δ and y once; a, the states; b and c once for each program of 8 channels."""
    x, _, a, b, _, state = call.args
    programs = triton.cdiv(x.shape[2], 8)
    numbers = 3 * x.numel() + x.shape[0] * a.numel() + 2 * programs * b.numel()
    return 4 * (numbers + 2 * state.numel())


def draws(rng: np.random.Generator) -> list[Call]:
    """Full and broken blocks, one example and two, few steps and many, N of 1 and more."""
    sizes = ((2, 5, 8, 4), (2, 3, 11, 2), (1, 1, 3, 1), (1, 1, 8, 4), (3, 2, 11, 4), (1, 4, 16, 4))
    return [_case(rng, *s) for s in sizes]


STEP = "h = tl.exp(delta[:, None] * a) * h + (delta * x)[:, None] * b[None, :]\n"
READ = "        y = tl.sum(h * c[None, :], axis=1)\n"
FIRST = "tl.load(state_ptr + example * n_channels * N + place, mask=live[:, None], other=0.0)"
LAST = "    tl.store(last_ptr + example * n_channels * N + place, h, mask=live[:, None])\n"

SLIPS = (
    Slip(
        "the axes of the grid exchanged",
        (("example = tl.program_id(0)", "example = tl.program_id(1)"),
         ("channel = tl.program_id(1)", "channel = tl.program_id(0)")),
        "Axis 0 of the grid is taken for the blocks of channels and axis 1 for the examples. "
        "Program (i, j) should have example i and block j.",
    ),
    Slip(
        "reads before it writes",
        (f"        {STEP}{READ}", f"{READ}        {STEP}"),
        "y is read from the state of the step before. Update h first.",
    ),
    Slip(
        "the logarithm is used as the decay",
        ("tl.exp(delta[:, None] * a) * h", "(delta[:, None] * a) * h"),
        "The state is multiplied by Δ a, the logarithm of the decay. Take its exponential.",
    ),
    Slip(
        "written without Δ",
        ("(delta * x)[:, None]", "x[:, None]"),
        "What is written lacks its Δ. It should be Δ x b.",
    ),
    Slip(
        "starts from zeros",
        (FIRST, "tl.zeros((BLOCK, N), tl.float32)"),
        "The scan starts from zeros, not from the state that is given.",
    ),
    Slip(
        "every program reads the first example",
        ("row = example * n_tokens + t", "row = t"),
        "Every program reads and writes the rows of the first example. Step t of an example "
        "should be row example · n_tokens + t.",
    ),
    Slip(
        "y is stored past its row",
        ("channel, y, mask=live)", "channel, y)"),
        "A last block of fewer than 8 channels stores y past its row. Mask the store: channels "
        "end before `n_channels`.",
    ),
    Slip(
        "the state taken for (N, E)",
        ("channel[:, None] * N + n[None, :]", "n[None, :] * n_channels + channel[:, None]"),
        "Places in states and a are counted as if channels came last. Count them as (…, E, N), N "
        "the fast axis.",
    ),
    Slip(
        "b and c exchanged",
        (("b = tl.load(b_ptr", "b = tl.load(c_ptr"), ("c = tl.load(c_ptr", "c = tl.load(b_ptr")),
        "b and c are exchanged. b should say where a step writes, c where it reads.",
    ),
    Slip(
        "the decay lacks Δ",
        ("tl.exp(delta[:, None] * a)", "tl.exp(a)"),
        "The state fades by exp(a) whatever Δ is. It should fade by exp(Δ a).",
    ),
    Slip(
        "the last state is not stored",
        (LAST, ""),
        "No last state is stored from `last_ptr` on, so what is returned is whatever the memory "
        "held.",
    ),
)  # fmt: skip


@triton.jit
def sideways_kernel(
    x_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, h_ptr, y_ptr, last_ptr, steps, channels,
    N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Channels along the second axis."""
    i = tl.program_id(0)
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, N)
    inside = e < channels
    spot = e[None, :] * N + n[:, None]  # (N, BLOCK)
    a = tl.load(a_ptr + spot, mask=inside[None, :], other=0.0)
    h = tl.load(h_ptr + i * channels * N + spot, mask=inside[None, :], other=0.0)
    wide, narrow = i * steps * channels + e, i * steps * N + n
    for _ in range(steps):
        d = tl.load(delta_ptr + wide, mask=inside, other=0.0)
        u = tl.load(x_ptr + wide, mask=inside, other=0.0) * d
        h = h * tl.exp(a * d[None, :])
        h += u[None, :] * tl.load(b_ptr + narrow)[:, None]
        out = tl.sum(h * tl.load(c_ptr + narrow)[:, None], axis=0)
        tl.store(y_ptr + wide, out, mask=inside)
        wide += channels
        narrow += N
    tl.store(last_ptr + i * channels * N + spot, h, mask=inside[None, :])


def sideways(x, delta, a, b, c, state):
    """The state as (N, BLOCK), addresses that move on with the steps."""
    y, last = torch.empty_like(x), torch.empty_like(state)
    grid = (x.shape[0], triton.cdiv(x.shape[2], 8))
    sideways_kernel[grid](
        x, delta, a, b, c, state, y, last, x.shape[1], x.shape[2], N=a.shape[1], BLOCK=8
    )
    return y, last


@triton.jit
def exp2_kernel(
    x_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, h_ptr, y_ptr, last_ptr, steps, channels,
    N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Everything along two axes."""
    i, block = tl.program_id(0), tl.program_id(1)
    e = (block * BLOCK + tl.arange(0, BLOCK))[:, None]
    n = tl.arange(0, N)[None, :]
    inside = e < channels
    a = 1.4426950408889634 * tl.load(a_ptr + e * N + n, mask=inside)
    h = tl.load(h_ptr + (i * channels + e) * N + n, mask=inside)
    for t in range(0, steps):
        place = (i * steps + t) * channels + e
        d = tl.load(delta_ptr + place, mask=inside)
        x = tl.load(x_ptr + place, mask=inside)
        b = tl.load(b_ptr + (i * steps + t) * N + n)
        c = tl.load(c_ptr + (i * steps + t) * N + n)
        h = tl.exp2(d * a) * h + d * x * b
        tl.store(y_ptr + place, tl.sum(h * c, axis=1, keep_dims=True), mask=inside)
    tl.store(last_ptr + (i * channels + e) * N + n, h, mask=inside)


def by_exp2(x, delta, a, b, c, state):
    """Two axes throughout, and powers of two."""
    y, last = torch.empty(x.shape), torch.empty(state.shape)
    exp2_kernel[(len(x), triton.cdiv(x.shape[-1], 8))](
        x, delta, a, b, c, state, y, last, x.shape[1], x.shape[2], N=b.shape[2], BLOCK=8
    )
    return y, last


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="Mamba's scan, its state on the chip",
    goal="Scan a stretch of text with states that never go to slow memory in between.",
    reference=answers.triton_selective_scan,
    contract=Contract(
        arguments_unchanged=True,
        forbids=READY_MADE,
        says=(
            "Any T and E from 1.",
            "At most 1.1 times the bytes needed: x, Δ, y, a and the states once, b and c once a "
            "program.",
            "The kernel compiles for an H100 without spills.",
        ),
    ),
    properties=kernel_properties(
        _usual, _others, _far, "channels that fill no block", _needed, _largest
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"the state sideways": sideways, "powers of two": by_exp2},
    hints=(
        "Which numbers does a program need only once? Load these before the loop and keep them in "
        "variables.",
        "channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), live = channel < n_channels. "
        "Step t of an example is row example * n_tokens + t; x lies at row * n_channels + channel, "
        "b at row * N + n.",
        "In the loop: load x, delta, b, c; h = tl.exp(delta[:, None] * a) * h + "
        "(delta * x)[:, None] * b[None, :]; store tl.sum(h * c[None, :], axis=1). After it, store "
        "h. Every access to channels takes mask=live or live[:, None].",
    ),
    minutes=25,
    difficulty=4,
    importance=4,
    results=("y", "state"),
)
