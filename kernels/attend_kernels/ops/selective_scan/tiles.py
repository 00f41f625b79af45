"""Which block each selective-scan kernel uses: a fixed table by kernel and number of states.

A program holds BLOCK_C channels with all their states and unrolls STEPS time steps; CHUNK of them
lie between two states kept for the backward pass. All were chosen without a GPU, from the
compiler's word alone: with the Triton of constraints.txt none spills a register on sm_80 or sm_90
(tests assert it), and none did with Triton 3.5.1 and 3.6.0. None has been timed on a GPU yet.

Each thread has 16 states: the forward kernel then needs 152 to 246 registers, the backward kernel,
which holds the states of STEPS steps at once, 226 to 255. Programs are small, for there are only
B C / BLOCK_C of them to fill the GPU. Where even so they are too few, time is cut into segments
that run side by side (``segment``).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attend_kernels.common import fallback

# Time steps between kept states. They take 4 N / CHUNK bytes a channel and step, one byte at N =
# 16; a shorter chunk would save the backward pass nothing, as it cuts the chunk up itself.
CHUNK = 64
MOST_STATES = 256
# A multiprocessor issues for four warps at once. A scan's warp has work for most clocks, the states
# being independent of each other, so that four are about what it needs.
WARPS = 4
# Segments cost a pass more over u, delta and B, which is most of a scan's work (y is left out), and
# two launches: two of them would gain nothing.
FEWEST_SEGMENTS = 3
# Forward, steps from a load to its use: memory answers in about 700 clocks, the L2 cache in 270,
# and a step is about 200 instructions.
AHEAD, SOON = 4, 2


@dataclass(frozen=True)
class Config:
    """Block shape and launch settings of one kernel."""

    block_c: int  # channels a program
    steps: int  # time steps unrolled
    warps: int


# (kernel, states, padded to a power of two): settings. Fewer states use the first entry.
TABLE = {
    ("forward", 16): Config(32, 4, 1),
    ("forward", 32): Config(16, 4, 1),
    ("forward", 64): Config(16, 4, 2),
    ("forward", 128): Config(16, 4, 4),
    ("forward", 256): Config(16, 4, 8),
    ("backward", 16): Config(32, 2, 1),
    ("backward", 32): Config(32, 2, 4),
    ("backward", 64): Config(32, 2, 8),
    ("backward", 128): Config(16, 2, 8),
    ("backward", 256): Config(8, 2, 8),
}
INTERPRETED = Config(16, 4, 1)  # a step costs the same for any small block


def chunks(length: int) -> int:
    """Count the chunks of a sequence, the last of which may be short."""
    return -(-length // CHUNK)


def segment(u: torch.Tensor, n: int) -> int:
    """Pick how many steps of ``u`` (B, T, C) one program scans: all, or a part of them.

    A part where one warp an issue slot leaves more than two thirds of the slots idle: then as many
    segments as they have room for, each a whole number of chunks. With T steps and W warps for the
    whole, that is min(slots / W, T / CHUNK) segments, and the time goes from T steps to about 2 T /
    segments. Forward and backward take the same cut, by the forward kernel's warps.
    """
    batch, length, channels = u.shape
    config = choose("forward", u.device, n)
    warps = batch * -(-channels // config.block_c) * config.warps
    most = WARPS * multiprocessors(u.device) // warps
    if most < FEWEST_SEGMENTS:
        return length
    whole = -(-chunks(length) // most)  # chunks a segment
    return whole * CHUNK if -(-chunks(length) // whole) >= FEWEST_SEGMENTS else length


def multiprocessors(device: torch.device) -> int:
    """Count a GPU's multiprocessors; none where kernels are interpreted, one program at a time."""
    if device.type != "cuda":
        return 0
    return torch.cuda.get_device_properties(device).multi_processor_count


def choose(kernel: str, device: torch.device, n: int) -> Config:
    """Pick the settings of ``kernel`` for ``n`` states."""
    if fallback.interpreted() and device.type == "cpu":
        return INTERPRETED
    return TABLE[kernel, max(16, 1 << (n - 1).bit_length())]
