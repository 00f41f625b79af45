"""Exercise 25_mamba_kernels/triton_chunk_state: what each chunk writes, all chunks at once."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from attend_solutions import ssd_triton as answers  # before triton: it chooses the interpreter

import triton  # isort: skip
import triton.language as tl  # isort: skip

from attend_grader.chapters.ch25_mamba_kernels import READY_MADE
from attend_grader.chapters.ch25_mamba_kernels.shared import (
    chunks_of,
    kernel_properties,
    once,
    sequence,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip

Case = tuple[str, Call, Any]


def _case(rng: np.random.Generator, chunk: int, *sizes: int, strong: bool = False) -> Call:
    x, log_decay, b, _ = sequence(rng, *sizes)
    return Call((x, torch.full_like(log_decay, -20) if strong else log_decay, b, chunk))


def _with_answer(why: str, call: Call) -> Case:
    x, log_decay, b, chunk = call.args
    pieces = zip(*(m.double().split(chunk, 1) for m in (x, log_decay, b)), strict=True)
    wrote = []
    for xs, logs, keys in pieces:
        until = torch.exp(logs.flip(1).cumsum(1).flip(1) - logs)[..., None]
        wrote.append(torch.einsum("bshd,bsn->bhdn", until * xs, keys))
    return why, call, torch.stack(wrote, 1).float()


def _usual(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("", _case(rng, 16, 1, 20, 2, 16, 32))
    yield _with_answer("two texts of two chunks", _case(rng, 16, 2, 17, 2, 16, 16))


def _others(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("5 steps in a chunk of 16", _case(rng, 16, 2, 5, 3, 32, 16))
    yield _with_answer("one step in a chunk of 32", _case(rng, 32, 1, 1, 3, 16, 16))
    strong = _case(rng, 16, 1, 9, 1, 16, 16, strong=True)
    yield _with_answer("log decays of −20: e⁻¹⁶⁰ is 0 in float32", strong)


def _far(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("two texts of two full chunks", _case(rng, 16, 2, 32, 1, 16, 16))
    x, log_decay, b, chunk = _case(rng, 128, 1, 100, 1, 64, 128).args
    yield _with_answer("100 steps in a chunk of 128, N = 128", Call((x, log_decay / 16, b, chunk)))
    x, _, b, chunk = _case(rng, 16, 1, 9, 1, 16, 16).args
    x[:, 0] *= 1e9
    yield _with_answer("x of 10⁹, then a log decay of −20", Call((x, once(-20, 9, at=1), b, chunk)))


def _largest(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("D, N and chunks of 32", _case(rng, 32, 1, 3, 2, 32, 32))


def _needed(call: Call) -> int:
    """x, the decays and the states once, b once a head."""
    x, log_decay, b, chunk = call.args
    batch, _, heads, width = x.shape
    written = batch * chunks_of(x, chunk) * heads * width * b.shape[-1]
    return 4 * (x.numel() + log_decay.numel() + heads * b.numel() + written)


def draws(rng: np.random.Generator) -> list[Call]:
    """One chunk and two, of one head and of several, D and N different and equal."""
    return [
        _case(rng, 16, 1, 20, 2, 16, 32),
        _case(rng, 16, 2, 17, 1, 16, 16),
        _case(rng, 16, 2, 5, 3, 32, 16),
        _case(rng, 32, 1, 1, 3, 16, 16),
        _case(rng, 16, 1, 9, 1, 16, 16),  # as the strong one but for the decays
        _case(rng, 16, 1, 9, 1, 16, 16, strong=True),
    ]


LATER = "step[:, None] > step[None, :]"

SLIPS = (
    Slip(
        "nothing fades until the chunk's end",
        ("x * tl.exp(until)[:, None]", "x"),
        "Early steps reach the chunk's end unfaded. Each should fade by the decays of later steps.",
    ),
    Slip(
        "a step fades by its own decay too",
        (LATER, "step[:, None] >= step[None, :]"),
        "Each step is faded by its own decay too. Only later steps should fade what it writes.",
    ),
    Slip(
        "faded since the chunk's start",
        (LATER, "step[:, None] <= step[None, :]"),
        "Steps are faded by the decays from the chunk's start to them. Wanted are the decays "
        "after each step, up to the chunk's end.",
    ),
    Slip(
        "the exponential is missing",
        ("tl.exp(until)", "until"),
        "x is multiplied by sums of logarithms. Take their exponential.",
    ),
    Slip(
        "the state stored as (N, D)",
        ("d[:, None] * N + n[None, :], written", "n[None, :] * D + d[:, None], written"),
        "Each state is stored transposed. It should be (D, N), N the fast axis.",
    ),
    Slip(
        "heads taken to come before steps",
        ("(row * n_heads + head)[:, None] * D",
         "((example * n_heads + head) * n_tokens + step)[:, None] * D"),
        "x is read as if it were (B, H, T, D). Read it as (B, T, H, D): step, then head.",
    ),
    Slip(
        "every step fades by the whole chunk",
        (LATER, "(step[:, None] >= 0) & (step[None, :] >= 0)"),
        "All steps are faded by all the chunk's decays. Each should fade by those of later steps "
        "only.",
    ),
    Slip(
        "decays read as (B, H, T)",
        ("row * n_heads + head, mask=live, other=0.0)",
         "(example * n_heads + head) * n_tokens + step, mask=live, other=0.0)"),
        "Decays are read as if they were (B, H, T). Read them as (B, T, H): step, then head.",
    ),
    Slip(
        "every head has the first one's decays",
        ("row * n_heads + head, mask=live, other=0.0)", "row * n_heads, mask=live, other=0.0)"),
        "All heads fade as the first one does. Each should have its own decays.",
    ),
    Slip(
        "every text has the first one's b",
        ("b_ptr + row[:, None]", "b_ptr + step[:, None]"),
        "b is read from the first text in every program. Read b of step t at row example · "
        "n_tokens + t.",
    ),
    Slip(
        "the number of chunks is missing",
        ("(example * tl.num_programs(2) + chunk)", "(example + chunk)"),
        "The states of an example should begin after all chunks of the examples before it. "
        "Multiply the example by the number of chunks, tl.num_programs(2).",
    ),
    Slip(
        "heads stored before chunks",
        ("(example * tl.num_programs(2) + chunk) * n_heads + head",
         "(example * n_heads + head) * tl.num_programs(2) + chunk"),
        "States are stored as if heads came before chunks. They should be (B, chunks, H, D, N).",
    ),
)  # fmt: skip


@triton.jit
def running_kernel(
    x_ptr, a_ptr, b_ptr, out_ptr, steps, heads,
    D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """x transposed as it is loaded."""
    i, head, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    t = k * CHUNK + tl.arange(0, CHUNK)
    inside = t < steps
    a = tl.load(a_ptr + (i * steps + t) * heads + head, mask=inside, other=0.0)
    left = tl.exp(tl.sum(a, axis=0) - tl.cumsum(a, axis=0))
    d, n = tl.arange(0, D), tl.arange(0, N)
    turned = ((i * steps + t) * heads + head)[None, :] * D + d[:, None]  # (D, CHUNK)
    x = tl.load(x_ptr + turned, mask=inside[None, :], other=0.0)
    b = tl.load(b_ptr + (i * steps + t)[:, None] * N + n, mask=inside[:, None], other=0.0)
    out = tl.dot(x, b * left[:, None])
    place = ((i * tl.cdiv(steps, CHUNK) + k) * heads + head) * D + d
    tl.store(out_ptr + place[:, None] * N + n[None, :], out)


def by_running_sums(x, log_decay, b, chunk):
    """Running sums, x loaded transposed, b faded in its place."""
    batch, tokens, heads, width = x.shape
    size = b.shape[-1]
    out = torch.empty(batch, triton.cdiv(tokens, chunk), heads, width, size)
    running_kernel[(batch, heads, out.shape[1])](
        x, log_decay, b, out, tokens, heads, D=width, N=size, CHUNK=chunk
    )
    return out


@triton.jit
def plain_kernel(
    x_ptr, a_ptr, b_ptr, out_ptr, steps, heads,
    D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Step after step."""
    i, head, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    d, n = tl.arange(0, D), tl.arange(0, N)
    h = tl.zeros((D, N), tl.float32)
    for t in range(k * CHUNK, tl.minimum(k * CHUNK + CHUNK, steps)):
        row = i * steps + t
        x = tl.load(x_ptr + (row * heads + head) * D + d)
        decay = tl.exp(tl.load(a_ptr + row * heads + head))
        h = decay * h + x[:, None] * tl.load(b_ptr + row * N + n)[None, :]
    first = ((i * tl.num_programs(2) + k) * heads + head) * D * N
    tl.store(out_ptr + first + d[:, None] * N + n[None, :], h)


def by_recurrence(x, log_decay, b, chunk):
    """The recurrence within the chunk: no matrix product."""
    batch, tokens, heads, width = x.shape
    chunks = (tokens + chunk - 1) // chunk
    out = torch.empty((batch, chunks, heads, width, b.shape[2]), dtype=torch.float32)
    plain_kernel[(batch, heads, chunks)](
        x, log_decay, b, out, tokens, heads, D=width, N=b.shape[2], CHUNK=chunk
    )
    return out


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="What each chunk writes",
    goal="Compute what every chunk adds to the state, all chunks at once.",
    reference=answers.triton_chunk_state,
    contract=Contract(
        arguments_unchanged=True,
        forbids=READY_MADE,
        says=(
            "Any B, T and H; log decays may be −20.",
            "At most 1.1 times the bytes needed: x, decays and states once, b once a head.",
            "The kernel compiles for an H100 without spills.",
        ),
    ),
    properties=kernel_properties(
        _usual, _others, _far, "a last chunk that is not full, strong decays", _needed, _largest
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"running sums": by_running_sums, "the recurrence": by_recurrence},
    hints=(
        "In PyTorch it was einsum('bqhd,bqn->bhdn', until * x, b). For one head that is one matrix "
        "product, of a (D, Q) and a (Q, N) matrix.",
        "step = chunk * CHUNK + tl.arange(0, CHUNK), live = step < n_tokens, row = example * "
        "n_tokens + step. Masked loads with other=0.0 make missing steps write nothing.",
        "until: tl.sum(tl.where(step[:, None] > step[None, :], logs[:, None], 0.0), axis=0). Then "
        "tl.dot(tl.trans(x * tl.exp(until)[:, None]), b), stored from ((example * chunks + chunk) "
        "* n_heads + head) * D * N on.",
    ),
    minutes=25,
    difficulty=4,
    importance=4,
)
