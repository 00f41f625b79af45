"""Exercise 25_mamba_kernels/triton_chunk_scan: each chunk's outputs, all chunks at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from attend_solutions import mamba_kernels
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
from attend_grader.checks.torch_numbers import normal

Case = tuple[str, Call, Any]


def _case(rng: np.random.Generator, chunk: int, *sizes: int, strong: bool = False) -> Call:
    x, log_decay, b, c = sequence(rng, *sizes)
    batch, _, heads, width, state = sizes
    h = normal(rng, batch, chunks_of(x, chunk), heads, width, state)
    log_decay = torch.full_like(log_decay, -20) if strong else log_decay
    return Call((x, log_decay, b, c, h, chunk))


def _with_answer(why: str, call: Call) -> Case:
    x, log_decay, b, c, state, chunk = call.args
    pieces = zip(*(m.double().split(chunk, 1) for m in (x, log_decay, b, c)), strict=True)
    read = []
    for number, (xs, logs, keys, queries) in enumerate(pieces):
        h = state[:, number].double()
        read.append(mamba_kernels.ssd_recurrent(xs, logs, keys, queries, h)[0])
    return why, call, torch.cat(read, 1).float()


def _usual(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("", _case(rng, 16, 1, 9, 2, 16, 32))
    yield _with_answer("two texts of two chunks", _case(rng, 16, 2, 17, 2, 16, 16))


def _others(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("17 steps in chunks of 16", _case(rng, 16, 1, 17, 3, 16, 16))
    yield _with_answer("3 steps in a chunk of 16", _case(rng, 16, 2, 3, 2, 32, 16))
    yield _with_answer("one step in a chunk of 32", _case(rng, 32, 1, 1, 2, 16, 16))
    strong = _case(rng, 16, 1, 9, 1, 16, 16, strong=True)
    yield _with_answer("log decays of −20: e⁻¹⁶⁰ is 0 in float32", strong)


def _far(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("two texts of two full chunks", _case(rng, 16, 2, 32, 1, 16, 16))
    x, log_decay, *rest = _case(rng, 128, 1, 100, 1, 64, 128).args
    yield _with_answer("100 steps in a chunk of 128, N = 128", Call((x, log_decay / 16, *rest)))
    x, _, b, c, h, chunk = _case(rng, 16, 1, 9, 1, 16, 16).args
    faded = Call((x, once(-20, 9, at=0), b, c, 1e9 * h, chunk))
    yield _with_answer("a state of 10⁹, then a log decay of −20", faded)
    x, c = x.clone(), c.clone()
    x[:, 1], c[:, 1] = 1e9 * x[:, 1], 0
    faded = Call((x, once(-20, 9, at=2), b, c, h, chunk))
    yield _with_answer("x of 10⁹, then a log decay of −20", faded)


def _largest(rng: np.random.Generator) -> Iterator[Case]:
    yield _with_answer("D, N and chunks of 32", _case(rng, 32, 1, 3, 2, 32, 32))


def _needed(call: Call) -> int:
    """x, y, the decays and the states once, b and c once a head."""
    x, log_decay, b, _, state, _ = call.args
    numbers = 2 * x.numel() + log_decay.numel() + 2 * x.shape[2] * b.numel()
    return 4 * (numbers + state.numel())


def draws(rng: np.random.Generator) -> list[Call]:
    """One chunk and two, of one head and of several, D and N different, strong decays."""
    return [
        _case(rng, 16, 1, 20, 2, 16, 32),
        _case(rng, 16, 2, 17, 1, 32, 16),
        _case(rng, 16, 1, 17, 3, 16, 16),
        _case(rng, 16, 2, 3, 3, 32, 16),
        _case(rng, 16, 1, 9, 2, 16, 16),  # as the strong one but for the decays
        _case(rng, 16, 1, 9, 2, 16, 16, strong=True),
    ]


APART = 'tl.exp(tl.where(causal, since[:, None] - since[None, :], float("-inf")))'
STATE = "    y += tl.exp(since)[:, None] * tl.dot(c, tl.trans(state))\n"

SLIPS = (
    Slip(
        "no mask within the chunk",
        (APART, "tl.exp(since[:, None] - since[None, :])"),
        "Steps of a chunk read later ones. Where the column is later, the factor should be 0.",
    ),
    Slip(
        "masked after the exponential, by a product",
        (APART, "tl.exp(since[:, None] - since[None, :]) * causal"),
        "Above the diagonal the exponent may be so large that its exponential overflows, and "
        "infinity times 0 is NaN. Let the exponent be −inf there, before exp.",
    ),
    Slip(
        "the state is not read",
        (STATE, ""),
        "Each chunk sees only itself: the state before it is not read.",
    ),
    Slip(
        "the state is read unfaded",
        ("tl.exp(since)[:, None] * tl.dot(c, tl.trans(state))", "tl.dot(c, tl.trans(state))"),
        "The state is read without the decay since the chunk's start.",
    ),
    Slip(
        "the matrix transposed",
        ("y = tl.dot(scores, x)", "y = tl.dot(tl.trans(scores), x)"),
        "The chunk's matrix is transposed, so steps read later ones. Rows should be the steps "
        "that read.",
    ),
    Slip(
        "queries and keys exchanged",
        ("tl.dot(c, tl.trans(b))", "tl.dot(b, tl.trans(c))"),
        "Scores are b_t · c_s. They should be c_t · b_s: step t reads, step s has written.",
    ),
    Slip(
        "a step does not see itself",
        ("tl.where(causal, since[:, None]",
         "tl.where(step[:, None] > step[None, :], since[:, None]"),
        "The diagonal is 0. A step should also read what it has just written, unfaded.",
    ),
    Slip(
        "what is written fades at once",
        ("since[:, None] - since[None, :]", "since[:, None] - since[None, :] + logs[None, :]"),
        "What a step writes is faded by its own decay. The segment from s to t should begin after "
        "s.",
    ),
    Slip(
        "the mask the wrong way round",
        ("tl.where(causal, since[:, None]",
         "tl.where(step[:, None] <= step[None, :], since[:, None]"),
        "Steps of a chunk read themselves and later ones only. They should read themselves and "
        "earlier ones: the column may not be later than the row.",
    ),
    Slip(
        "scaled by √N",
        ("tl.dot(c, tl.trans(b)) * fade", "tl.dot(c, tl.trans(b)) * fade * N**-0.5"),
        "The scores are divided by √N, as in softmax attention. The recurrence has no such factor.",
    ),
    Slip(
        "every chunk reads the first one's state",
        ("(example * tl.num_programs(2) + chunk) * n_heads",
         "example * tl.num_programs(2) * n_heads"),
        "All chunks read the state before the first. Each should read the state before itself.",
    ),
    Slip(
        "the number of chunks is missing",
        ("(example * tl.num_programs(2) + chunk)", "(example + chunk)"),
        "The states of an example should begin after all chunks of the examples before it. "
        "Multiply the example by the number of chunks, tl.num_programs(2).",
    ),
    Slip(
        "heads taken to come before chunks",
        ("(example * tl.num_programs(2) + chunk) * n_heads + head",
         "(example * n_heads + head) * tl.num_programs(2) + chunk"),
        "States are read as if heads came before chunks. Read them as (B, chunks, H, D, N).",
    ),
    Slip(
        "the state taken for (N, D)",
        ("d[:, None] * N + n[None, :])\n    causal", "n[None, :] * D + d[:, None])\n    causal"),
        "The states are read transposed. Read them as (D, N), N the fast axis.",
    ),
    Slip(
        "y is stored past the text",
        ("y, mask=live[:, None])", "y)"),
        "A last chunk that is not full stores y past the end of the text. Mask the store: steps "
        "end before `n_tokens`.",
    ),
    Slip(
        "the state fades one step too few",
        ("tl.exp(since)[:, None]", "tl.exp(since - logs)[:, None]"),
        "Step t reads the state before the chunk faded by the decays of the steps before t only. "
        "Its own decay should fade it too.",
    ),
)  # fmt: skip


@triton.jit
def segments_kernel(
    x_ptr, a_ptr, b_ptr, c_ptr, h_ptr, y_ptr, steps, heads,
    D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Each segment adds up its own terms."""
    i, head, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    q = tl.arange(0, CHUNK)
    t = k * CHUNK + q
    inside = t < steps
    row = i * steps + t
    d, n = tl.arange(0, D), tl.arange(0, N)
    a = tl.load(a_ptr + row * heads + head, mask=inside, other=0.0)
    below = q[:, None] > q[None, :]
    segments = tl.cumsum(tl.where(below, a[:, None], 0.0), axis=0)  # each adds its own terms
    fade = tl.where(q[:, None] >= q[None, :], tl.exp(segments), 0.0)
    turned = row[None, :] * N + n[:, None]  # (N, CHUNK)
    keys = tl.load(b_ptr + turned, mask=inside[None, :], other=0.0)
    c = tl.load(c_ptr + row[:, None] * N + n[None, :], mask=inside[:, None], other=0.0)
    x = tl.load(
        x_ptr + (row * heads + head)[:, None] * D + d[None, :], mask=inside[:, None], other=0.0
    )
    first = ((i * tl.num_programs(2) + k) * heads + head) * D * N
    h = tl.load(h_ptr + first + d[None, :] * N + n[:, None])  # (N, D)
    y = tl.dot(c * tl.exp(tl.cumsum(a, axis=0))[:, None], h)
    y += tl.dot(tl.dot(c, keys) * fade, x)
    tl.store(y_ptr + (row * heads + head)[:, None] * D + d[None, :], y, mask=inside[:, None])


def by_segments(x, log_decay, b, c, state, chunk):
    """segsum within the kernel."""
    y = torch.empty_like(x)
    batch, tokens, heads, width = x.shape
    segments_kernel[(batch, heads, state.shape[1])](
        x, log_decay, b, c, state, y, tokens, heads, D=width, N=b.shape[-1], CHUNK=chunk
    )
    return y


@triton.jit
def sums_kernel(
    x_ptr, a_ptr, b_ptr, c_ptr, h_ptr, y_ptr, steps, heads,
    D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Scores transposed, no exponent above 0."""
    i, head, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    t = k * CHUNK + tl.arange(0, CHUNK)
    inside = t < steps
    row = i * steps + t
    d, n = tl.arange(0, D), tl.arange(0, N)
    own = (row * heads + head)[:, None] * D + d
    x = tl.load(x_ptr + own, mask=inside[:, None], other=0.0)
    b = tl.load(b_ptr + row[:, None] * N + n, mask=inside[:, None], other=0.0)
    c = tl.load(c_ptr + row[:, None] * N + n, mask=inside[:, None], other=0.0)
    time = tl.cumsum(tl.load(a_ptr + row * heads + head, mask=inside, other=0.0), axis=0)
    place = ((i * tl.cdiv(steps, CHUNK) + k) * heads + head) * D + d
    h = tl.load(h_ptr + place[:, None] * N + n[None, :])
    apart = tl.minimum(time[:, None] - time[None, :], 0.0)
    weight = tl.where(t[:, None] >= t[None, :], tl.exp(apart), 0.0)
    weight *= tl.trans(tl.dot(b, tl.trans(c)))
    y = tl.dot(weight, x)
    y += tl.exp(time)[:, None] * tl.trans(tl.dot(h, tl.trans(c)))
    tl.store(y_ptr + own, y, mask=inside[:, None])


def by_sums(x, log_decay, b, c, state, chunk):
    """Decays as running sums, transposed products."""
    y = torch.zeros(x.shape)
    batch, tokens, heads, width = x.shape
    sums_kernel[(batch, heads, -(-tokens // chunk))](
        x, log_decay, b, c, state, y, tokens, heads, D=width, N=c.shape[-1], CHUNK=chunk
    )
    return y


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="What each chunk reads",
    goal="Compute the outputs of every chunk, all chunks at once, from the state before each.",
    reference=answers.triton_chunk_scan,
    contract=Contract(
        arguments_unchanged=True,
        forbids=READY_MADE,
        says=(
            "Any B, T and H; log decays may be −20.",
            "At most 1.1 times the bytes needed: x, y, decays and states once, b and c once a "
            "head.",
            "The kernel compiles for an H100 without spills.",
        ),
    ),
    properties=kernel_properties(
        _usual, _others, _far, "a last chunk that is not full, strong decays", _needed, _largest
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"segments": by_segments, "running sums": by_sums},
    hints=(
        "It is ssd_quadratic of one chunk, plus what the chunk reads of the state. Which matrix "
        "products are these, with which shapes?",
        "since: the running sums, tl.sum(tl.where(causal, logs[None, :], 0.0), axis=1). The "
        "exponent between two steps is since[:, None] - since[None, :] where causal, else -inf.",
        "scores = tl.dot(c, tl.trans(b)) * tl.exp(exponent); y = tl.dot(scores, x) + "
        "tl.exp(since)[:, None] * tl.dot(c, tl.trans(state)); store y with mask=live[:, None].",
    ),
    minutes=25,
    difficulty=5,
    importance=4,
)
