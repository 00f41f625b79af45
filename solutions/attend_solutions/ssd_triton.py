"""Chapter 25's functions in Triton, each with its kernel.

Three: Mamba's scan over one stretch of text with the state on the chip, and the two halves
of Mamba-2's algorithm that work on all chunks at once: what each chunk writes, and what it reads.

Letters as in ``mamba_kernels``; ``E`` channels of Mamba's scan. All tensors lie contiguous, row
after row, last axis fastest.

Sources: Gu and Dao 2023, "Mamba", §3.3.2; Dao and Gu 2024, "Transformers are SSMs", §6.
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

import os

import torch
from torch import Tensor

if not torch.cuda.is_available():  # before Triton is imported: it asks once
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton
import triton.language as tl


@triton.jit
def scan_kernel(
    x_ptr,
    delta_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    state_ptr,
    y_ptr,
    last_ptr,
    n_tokens,
    n_channels,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Scan T steps of BLOCK channels of one example; the state never leaves the program.

    Program (i, j) has example i and the channels from j BLOCK on. It reads its part of the first
    state and of a once, then for each step x, Δ, b and c, and writes y; at the end the last state.

    Shapes:
        x, delta, y: (B, T, E)
        a: (E, N)
        b, c: (B, T, N)
        state, last: (B, E, N)

    Source: Gu and Dao 2023, §3.3.2.
    """
    ### BEGIN SOLUTION
    example = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = channel < n_channels
    n = tl.arange(0, N)
    place = channel[:, None] * N + n[None, :]  # in one example's state, and in a
    a = tl.load(a_ptr + place, mask=live[:, None], other=0.0)
    h = tl.load(state_ptr + example * n_channels * N + place, mask=live[:, None], other=0.0)
    for t in range(n_tokens):
        row = example * n_tokens + t
        x = tl.load(x_ptr + row * n_channels + channel, mask=live, other=0.0)
        delta = tl.load(delta_ptr + row * n_channels + channel, mask=live, other=0.0)
        b = tl.load(b_ptr + row * N + n)
        c = tl.load(c_ptr + row * N + n)
        h = tl.exp(delta[:, None] * a) * h + (delta * x)[:, None] * b[None, :]
        y = tl.sum(h * c[None, :], axis=1)
        tl.store(y_ptr + row * n_channels + channel, y, mask=live)
    tl.store(last_ptr + example * n_channels * N + place, h, mask=live[:, None])
    ### END SOLUTION


def triton_selective_scan(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Scan a stretch of text by Mamba's recurrence, without skip; the states stay on the chip.

    Each program has one example and 8 channels.

    Shapes:
        x, delta: (B, T, E), float32
        a: (E, N), N a power of two
        b, c: (B, T, N)
        state: (B, E, N), before the first step
        returns: y (B, T, E) and the last state (B, E, N)
    """
    y, last = torch.empty(x.shape), torch.empty(state.shape)
    given = [m.contiguous() for m in (x, delta, a, b, c, state)]
    batch, tokens, channels = x.shape
    grid = (batch, triton.cdiv(channels, 8))
    scan_kernel[grid](*given, y, last, tokens, channels, N=a.shape[1], BLOCK=8)
    return y, last


@triton.jit
def chunk_state_kernel(
    x_ptr,
    log_decay_ptr,
    b_ptr,
    written_ptr,
    n_tokens,
    n_heads,
    D: tl.constexpr,
    N: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """What one chunk adds to one head's state: Σ_s exp(a_{s+1} + … + a_last) x_s b_sᵀ.

    Program (i, j, k) has example i, head j and chunk k. Steps past the end of the text add nothing.

    Shapes:
        x: (B, T, H, D)
        log_decay: (B, T, H)
        b: (B, T, N)
        written: (B, chunks, H, D, N)

    Source: Dao and Gu 2024, §6, step 2 of the algorithm.
    """
    ### BEGIN SOLUTION
    example, head, chunk = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    step = chunk * CHUNK + tl.arange(0, CHUNK)
    live = step < n_tokens
    row = example * n_tokens + step
    d, n = tl.arange(0, D), tl.arange(0, N)
    logs = tl.load(log_decay_ptr + row * n_heads + head, mask=live, other=0.0)
    here = (row * n_heads + head)[:, None] * D + d[None, :]
    x = tl.load(x_ptr + here, mask=live[:, None], other=0.0)
    b = tl.load(b_ptr + row[:, None] * N + n[None, :], mask=live[:, None], other=0.0)
    later = step[:, None] > step[None, :]  # (CHUNK, CHUNK): row r comes after column s
    until = tl.sum(tl.where(later, logs[:, None], 0.0), axis=0)
    written = tl.dot(tl.trans(x * tl.exp(until)[:, None]), b)
    first = ((example * tl.num_programs(2) + chunk) * n_heads + head) * D * N
    tl.store(written_ptr + first + d[:, None] * N + n[None, :], written)
    ### END SOLUTION


def triton_chunk_state(x: Tensor, log_decay: Tensor, b: Tensor, chunk: int) -> Tensor:
    """What each chunk adds to each head's state, all chunks at once.

    Each program has one example, one head and one chunk.

    Shapes:
        x: (B, T, H, D), float32, D a power of two from 16 on
        log_decay: (B, T, H)
        b: (B, T, N), N a power of two from 16 on
        chunk: Q, a power of two from 16 on
        returns: (B, chunks, H, D, N)
    """
    batch, tokens, heads, width = x.shape
    chunks, state = triton.cdiv(tokens, chunk), b.shape[-1]
    written = torch.empty(batch, chunks, heads, width, state)
    given = [m.contiguous() for m in (x, log_decay, b)]
    grid = (batch, heads, chunks)
    chunk_state_kernel[grid](*given, written, tokens, heads, D=width, N=state, CHUNK=chunk)
    return written


@triton.jit
def chunk_scan_kernel(
    x_ptr,
    log_decay_ptr,
    b_ptr,
    c_ptr,
    state_ptr,
    y_ptr,
    n_tokens,
    n_heads,
    D: tl.constexpr,
    N: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """One chunk's outputs for one head: attention within it, plus what it reads of the state.

    Program (i, j, k) has example i, head j and chunk k.

    Shapes:
        x, y: (B, T, H, D)
        log_decay: (B, T, H)
        b, c: (B, T, N)
        state: (B, chunks, H, D, N), before each chunk

    Source: Dao and Gu 2024, §6, steps 1 and 4 of the algorithm.
    """
    ### BEGIN SOLUTION
    example, head, chunk = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    step = chunk * CHUNK + tl.arange(0, CHUNK)
    live = step < n_tokens
    row = example * n_tokens + step
    d, n = tl.arange(0, D), tl.arange(0, N)
    logs = tl.load(log_decay_ptr + row * n_heads + head, mask=live, other=0.0)
    here = (row * n_heads + head)[:, None] * D + d[None, :]
    x = tl.load(x_ptr + here, mask=live[:, None], other=0.0)
    shared = row[:, None] * N + n[None, :]
    b = tl.load(b_ptr + shared, mask=live[:, None], other=0.0)
    c = tl.load(c_ptr + shared, mask=live[:, None], other=0.0)
    first = ((example * tl.num_programs(2) + chunk) * n_heads + head) * D * N
    state = tl.load(state_ptr + first + d[:, None] * N + n[None, :])
    causal = step[:, None] >= step[None, :]  # (CHUNK, CHUNK)
    since = tl.sum(tl.where(causal, logs[None, :], 0.0), axis=1)
    fade = tl.exp(tl.where(causal, since[:, None] - since[None, :], float("-inf")))
    scores = tl.dot(c, tl.trans(b)) * fade
    y = tl.dot(scores, x)
    y += tl.exp(since)[:, None] * tl.dot(c, tl.trans(state))
    tl.store(y_ptr + here, y, mask=live[:, None])
    ### END SOLUTION


def triton_chunk_scan(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, state: Tensor, chunk: int
) -> Tensor:
    """All outputs, all chunks at once, from the state before each chunk.

    Each program has one example, one head and one chunk.

    Shapes:
        x: (B, T, H, D), float32, D a power of two from 16 on
        log_decay: (B, T, H)
        b, c: (B, T, N), N a power of two from 16 on
        state: (B, chunks, H, D, N)
        chunk: Q, a power of two from 16 on
        returns: (B, T, H, D)
    """
    y = torch.empty(x.shape)
    given = [m.contiguous() for m in (x, log_decay, b, c, state)]
    batch, tokens, heads, width = x.shape
    grid, size = (batch, heads, triton.cdiv(tokens, chunk)), b.shape[-1]
    chunk_scan_kernel[grid](*given, y, tokens, heads, D=width, N=size, CHUNK=chunk)
    return y


def states_before(written: Tensor, log_decay: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """Pass the state from chunk to chunk: the state before each, and the last.

    Shapes:
        written: (B, chunks, H, D, N), what each chunk adds
        log_decay: (B, T, H)
        returns: (B, chunks, H, D, N) and (B, H, D, N)

    Source: Dao and Gu 2024, §6, step 3 of the algorithm.
    """
    h, before = torch.zeros_like(written[:, 0]), []
    for number, logs in enumerate(log_decay.split(chunk, dim=1)):
        before.append(h)
        h = torch.exp(logs.sum(1))[..., None, None] * h + written[:, number]
    return torch.stack(before, dim=1), h
