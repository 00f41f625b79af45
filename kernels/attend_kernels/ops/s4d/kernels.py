"""The kernels behind ``s4d_kernel`` and their launchers; need Triton.

Equations, letters and memory traffic: see ``api``. Powers are made where they are used and nowhere
stored. A program of the forward kernel owns STEPS of one channel's kernel and walks over its
states; one of the backward kernel owns STATES of one channel and walks over time.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices
from attend_kernels.common.launch import LOG2E, launch

STEPS = 64
STATES = 16
TURN = tl.constexpr(2.0 * math.pi)


@triton.jit
def sine_and_cosine(turns):
    """Of an angle in turns, which are taken off but for half a one at most.

    By Taylor's series of half the angle, up to pi / 2, good to fp32's last place. (Triton's own
    call a library that keeps a table in memory for angles of any size.)
    """
    x = (turns - tl.floor(turns + 0.5)) * (TURN / 2)
    z = x * x
    sine = 1 - z / 72 * (1 - z / 110 * (1 - z / 156 * (1 - z / 210)))
    sine = x * (1 - z / 6 * (1 - z / 20 * (1 - z / 42 * sine)))
    cosine = 1 - z / 56 * (1 - z / 90 * (1 - z / 132 * (1 - z / 182 * (1 - z / 240))))
    cosine = 1 - z / 2 * (1 - z / 12 * (1 - z / 30 * cosine))
    return 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine


@triton.jit
def power(step, real, imaginary):
    """exp(step z) of steps (L, 1) and z (1, N): its real and imaginary parts."""
    size = tl.exp2(step * (real * LOG2E))
    sine, cosine = sine_and_cosine(step * (imaginary / TURN))
    return size * cosine, size * sine


@triton.jit
def load_pairs(ptr, channel, first, N, STATES: tl.constexpr):
    """Real and imaginary parts of states ``first`` ...; 0 past the last. Shapes: (1, STATES)."""
    n = first + tl.arange(0, STATES)[None, :]
    at = ptr + (channel * N + n) * 2
    real = tl.load(at, mask=n < N, other=0.0)
    return real, tl.load(at + 1, mask=n < N, other=0.0)


@triton.jit
def s4d_forward_kernel(
    factor_ptr, z_ptr, out_ptr, N, L, blocks, STEPS: tl.constexpr, STATES: tl.constexpr
):
    """Write STEPS numbers of one channel's kernel."""
    channel = (tl.program_id(0) // blocks).to(tl.int64)
    step = tl.program_id(0) % blocks * STEPS + tl.arange(0, STEPS)[:, None]
    total = tl.zeros((STEPS, 1), tl.float32)
    for first in range(0, N, STATES):
        factor_real, factor_imaginary = load_pairs(factor_ptr, channel, first, N, STATES)
        z_real, z_imaginary = load_pairs(z_ptr, channel, first, N, STATES)
        real, imaginary = power(step.to(tl.float32), z_real, z_imaginary)
        part = factor_real * real - factor_imaginary * imaginary
        total += tl.sum(part, axis=1)[:, None]
    tl.store(out_ptr + channel * L + step, 2.0 * total, mask=step < L)


@triton.jit
def s4d_backward_kernel(
    grad_ptr, factor_ptr, z_ptr, d_factor_ptr, d_z_ptr, N, L, blocks,
    STEPS: tl.constexpr, STATES: tl.constexpr,
):  # fmt: skip
    """Write the gradients of STATES factors and rates of one channel."""
    channel = (tl.program_id(0) // blocks).to(tl.int64)
    first = tl.program_id(0) % blocks * STATES
    factor_real, factor_imaginary = load_pairs(factor_ptr, channel, first, N, STATES)
    z_real, z_imaginary = load_pairs(z_ptr, channel, first, N, STATES)
    sum_real = tl.zeros((1, STATES), tl.float32)  # of G exp(l z)
    sum_imaginary = tl.zeros((1, STATES), tl.float32)
    moment_real = tl.zeros((1, STATES), tl.float32)  # of l G exp(l z)
    moment_imaginary = tl.zeros((1, STATES), tl.float32)
    for begin in range(0, L, STEPS):
        step = begin + tl.arange(0, STEPS)[:, None]
        grad = tl.load(grad_ptr + channel * L + step, mask=step < L, other=0.0)
        number = tl.minimum(step, L - 1).to(tl.float32)  # past the end: finite, times 0
        real, imaginary = power(number, z_real, z_imaginary)
        real *= grad
        imaginary *= grad
        sum_real += tl.sum(real, axis=0)[None, :]
        sum_imaginary += tl.sum(imaginary, axis=0)[None, :]
        moment_real += tl.sum(number * real, axis=0)[None, :]
        moment_imaginary += tl.sum(number * imaginary, axis=0)[None, :]
    n = first + tl.arange(0, STATES)[None, :]
    at = (channel * N + n) * 2
    tl.store(d_factor_ptr + at, 2.0 * sum_real, mask=n < N)
    tl.store(d_factor_ptr + at + 1, -2.0 * sum_imaginary, mask=n < N)
    real = factor_real * moment_real - factor_imaginary * moment_imaginary
    imaginary = factor_real * moment_imaginary + factor_imaginary * moment_real
    tl.store(d_z_ptr + at, 2.0 * real, mask=n < N)
    tl.store(d_z_ptr + at + 1, -2.0 * imaginary, mask=n < N)


def powers(factor: torch.Tensor, z: torch.Tensor, length: int) -> torch.Tensor:
    """Launch the forward kernel. Both pairs are contiguous."""
    C, N, _ = z.shape
    out = torch.empty((C, length), dtype=torch.float32, device=z.device)
    sizes = tiles(N, length)
    blocks = -(-length // sizes["STEPS"])
    launch(s4d_forward_kernel, C * blocks, factor, z, out, N, length, blocks, **sizes, num_warps=4)
    return out


def powers_backward(
    grad: torch.Tensor, factor: torch.Tensor, z: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the backward kernel. All are contiguous."""
    C, N, _ = z.shape
    d_factor, d_z = torch.empty_like(factor), torch.empty_like(z)
    sizes = tiles(N, grad.shape[1])
    blocks = -(-N // sizes["STATES"])
    launch(
        s4d_backward_kernel, C * blocks, grad, factor, z, d_factor, d_z, N, grad.shape[1], blocks,
        **sizes, num_warps=4,
    )  # fmt: skip
    return d_factor, d_z


def tiles(N: int, length: int) -> dict[str, int]:
    """Sizes of a tile, no larger than the problem makes sense of."""
    return {
        "STEPS": min(STEPS, devices.padded(max(length, 1))),
        "STATES": min(STATES, devices.padded(N)),
    }
